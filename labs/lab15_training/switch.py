"""The testbed's SwitchML program in a switch in this process: it adds up what the workers send.

Nothing of a submission runs here. It gets the submission's numbers, as int32.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from labs.lab15_training.model import BLOCK

SLOTS = 64  # chunks of a round, at most
SECOND_SET = 1 << 31
HEADERS = 14 + 20 + 8  # bytes before the testbed's own header
GAP_NS = 1000
TEXT = """
name: lab15
runtime: virtual
topology: {{kind: star, hosts: {workers}}}
system: switchml
memory: {{aggregators: {aggregators}}}
values_per_packet: {block}
jobs:
  - {{model: alexnet, workers: {workers}, iterations: 100000, scale: 0.0001}}
"""


class Summing:
    """A switch with one job.

    Args:
        workers: of the job. Worker n is at port n + 1.
    """

    def __init__(self, workers: int) -> None:
        from p4engine.backend.build import compile_program
        from p4engine.switch.library import Switch
        from p4fabric.base.topology import host_ip
        from scapy.layers.inet import IP, UDP
        from scapy.layers.l2 import Ether

        from testbed import dataplane
        from testbed.dissect import Ina
        from testbed.experiment.load import load_text
        from testbed.protocols import wire
        from testbed.schemes import set_up

        text = TEXT.format(workers=workers, aggregators=2 * SLOTS, block=BLOCK)
        setup = set_up(load_text(text, "lab15", "/", "lab15"))
        topology = setup.platform.topology
        source, defines, folders = dataplane.program(setup.platform)
        compiled = compile_program(source, defines, folders)
        (name,) = topology.switches
        ports = sorted(topology.ports(name))
        self.switch = Switch(compiled, ports=ports, seed=1)
        dataplane.install(setup, name, self.switch)
        self.workers, self.now = workers, GAP_NS
        self.used = [0] * SLOTS  # number of sums that each slot has had
        self.frames = []
        for n in range(workers):
            ends = IP(src=host_ip(n + 1), dst="10.255.0.1")
            head = Ether(src="02:00:00:00:00:99", dst="02:00:00:01:00:01") / ends
            fields: dict[str, Any] = {
                "kind": wire.GRADIENT,
                "job": 0,
                "sender": n,
                "bitmap": 1 << n,
            }
            made = head / UDP(sport=wire.PORT, dport=wire.PORT, chksum=0)
            self.frames.append(bytearray(bytes(made / Ina(**fields, values=[0] * BLOCK))))
        self.values_at = len(self.frames[0]) - 4 * BLOCK

    @property
    def packet_bytes(self) -> int:
        """Bytes from the Ethernet header to the end of the payload."""
        return len(self.frames[0])

    def add(self, parts: list[np.ndarray]) -> np.ndarray:
        """The sum of the workers' int32 arrays, which have the same length, of at most SLOTS
        packets."""
        length = len(parts[0])
        chunks = -(-length // BLOCK)
        assert chunks <= SLOTS and all(len(part) == length for part in parts)
        padded = [np.pad(part, (0, chunks * BLOCK - length)).astype(">i4") for part in parts]
        made = np.zeros(chunks * BLOCK, np.int32)
        for chunk in range(chunks):
            at = slice(chunk * BLOCK, (chunk + 1) * BLOCK)
            number = self.used[chunk] * SLOTS + chunk
            index = chunk | (SECOND_SET if self.used[chunk] % 2 else 0)
            self.used[chunk] += 1
            for n, part in enumerate(padded):
                frame = self.frames[n]
                struct.pack_into("!II", frame, HEADERS + 8, number, index)
                frame[self.values_at :] = part[at].tobytes()
                self.now += GAP_NS
                self.switch.receive(n + 1, bytes(frame), self.now)
                out = self.switch.advance(self.now)
            assert len(out) == self.workers, "the switch has not sent the sum to all workers"
            made[at] = np.frombuffer(out[0][2][self.values_at :], ">i4")
        return made[:length]
