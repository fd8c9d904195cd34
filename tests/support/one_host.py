"""One host without a network or a switch: packets by hand, at times of the test's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from testbed.protocols import ps, sizes, values, wire
from testbed.setup.host_specs import host_specs
from tests.support.experiments import memory_line, setup_of
from tests.support.fabric import Host
from tests.support.histories.cases import TINY

TEXT = """
name: test
topology: {kind: star, hosts: %(hosts)d}
system: {name: %(system)s%(options)s}
%(memory)s
values_per_packet: 4
%(keys)s
jobs:
  - {model: %(trace)s, workers: %(workers)d, iterations: 4, compute_scale: %(compute)s}
"""
VALUES = 4
BASE = wire.HEADER_WORDS + 1  # words before the values, with a bitmap of one word
FULL = 4 * (BASE + VALUES)  # bytes of a packet with values
SHORT = 4 * BASE + 2 * VALUES  # and of one with values of 16 bits


@dataclass
class Packet:
    """A packet that a host has written, or one for it. `length`: of the payload, in bytes; `words`:
    of its bitmap."""

    row: np.ndarray
    length: int = FULL
    destination: int = -1
    words: int = 1

    @staticmethod
    def of(payload: bytes, destination: int, words: int) -> Packet:
        row = np.zeros(wire.HEADER_WORDS + words + VALUES, np.uint32)
        row.view(np.uint8)[: len(payload)] = np.frombuffer(payload, np.uint8)
        return Packet(row, len(payload), destination, words)

    def __getattr__(self, field: str) -> int:
        """A field of the header: kind, flags, fragment, index, sender, ..."""
        return int(getattr(wire, field)(self.row))

    @property
    def bitmap(self) -> int:
        named = self.row[wire.HEADER_WORDS : wire.HEADER_WORDS + self.words]
        return int.from_bytes(named.tobytes(), "big")

    def expand(self, short: int = wire.SHORT_INTEGERS) -> None:
        """Let its values have 32 bits, as for those who take it."""
        base = wire.HEADER_WORDS + self.words
        self.length = int(wire.expand(self.row, self.length, base, VALUES, short))

    @property
    def values(self) -> list[int]:
        return self.row[wire.HEADER_WORDS + self.words :].byteswap().view(np.int32).tolist()


class OneHost:
    """A host of job 0, whose gradient is that of `trace`: tests/data/tiny.csv has 9 fragments of
    four values in tensors of 3, 1 and 5. Fragments 2, 3 and 8, the last of their tensors, have 2, 3
    and 2 values. `number`: among the job's workers, or servers. `compute`: times of forward and
    backward steps to those in the trace; with 0 all tensors are ready at once. `room`: how many
    packets it can send in one step."""

    is_worker: bool

    def __init__(
        self,
        system: str,
        number: int = 0,
        workers: int = 3,
        keys: str = "",
        trace: object = TINY,
        compute: float = 0,
        room: int = 1024,
        aggregators: int = 16,
        **options: object,
    ) -> None:
        text = TEXT % {
            "system": system,
            "hosts": workers + 7,
            "options": "".join(f", {key}: {value}" for key, value in options.items()),
            "memory": memory_line(system, aggregators),
            "keys": keys,
            "trace": trace,
            "workers": workers,
            "compute": compute,
        }
        specs = [spec for spec in host_specs(setup_of(text)) if spec.is_worker == self.is_worker]
        self.spec, self.workers = specs[number], workers
        self.job = self.spec.job
        self.recorded = trace != TINY
        self.words = self.job.bitmap_width // 32
        self.host = Host(self.spec, room)
        self.deadline = 0

    @property
    def protocol(self) -> Any:
        return self.host.machine.protocol

    def replace(self, **arrays: Any) -> None:
        """Let its protocol have other arrays."""
        machine = self.host.machine
        self.host.use(machine._replace(protocol=machine.protocol._replace(**arrays)))

    @property
    def fragments(self) -> int:
        return self.job.fragments

    @property
    def counters(self) -> dict[str, int]:
        """Counters that are not 0."""
        return {name: count for name, count in self.host.counters().items() if count}

    def step(self, now: int, *packets: Packet) -> list[Packet]:
        """Packets that the host sends at this time (ns), after these packets have come; sets
        `deadline`."""
        for packet in packets:
            payload = packet.row.tobytes()[: packet.length]
            self.host.take(bytes(sizes.FRAME_OVERHEAD) + payload)
        sent, self.deadline = self.host.run(now)
        place = self.spec.peers.index
        return [Packet.of(payload, place(peer), self.words) for peer, payload in sent]

    def values_of(self, worker: int, fragment: int, iteration: int = 0) -> np.ndarray:
        """The values of one worker of a fragment of the iteration, int64[4]."""
        job, row = self.job, np.zeros(VALUES, np.uint32)
        key = values.fragment_key(job.seed, job.number, iteration * job.fragments + fragment)
        factor = values.factor(job.seed, job.number, iteration, worker)
        shift = values.hash_shift(job.workers, job.value_bits)
        values.write_generated(row, 0, self.count_of(fragment), key, factor, shift)
        return row.byteswap().view(np.int32).astype(np.int64)

    def count_of(self, fragment: int) -> int:
        """Number of values of the tensor in a fragment."""
        first = self.job.first_fragments
        tensor = int(np.searchsorted(first, fragment, side="right")) - 1
        return min(VALUES, self.job.tensors[tensor].values - VALUES * int(fragment - first[tensor]))

    def sum_of(self, workers: Sequence[int], fragment: int, iteration: int = 0) -> list[int]:
        """The sum over some workers."""
        return sum(self.values_of(w, fragment, iteration) for w in workers).tolist()

    def packet(
        self,
        kind: int,
        fragment: int = 0,
        iteration: int = 0,
        numbers: Sequence[int] | None = None,
        flags: int = 0,
        index: int = 0,
        sender: int = 0x4000,
        extra: int = 0,
        bitmap: int = 0,
        job: int = 0,
        exponents: tuple[int, int] = (0, 0),
    ) -> Packet:
        """A packet for it; `numbers` None: without values."""
        base = wire.HEADER_WORDS + self.words
        row = np.zeros(base + VALUES, np.uint32)
        whole = iteration * self.fragments + fragment
        wire.write_header(row, kind, 255, flags, job, 0, whole, index, sender)
        if exponents != (0, 0):
            wire.set_exponents(row, *exponents)
        if extra:
            wire.set_extra(row, extra)
        named = bitmap.to_bytes(4 * self.words, "big")
        row[wire.HEADER_WORDS : base] = np.frombuffer(named, np.uint32)
        if numbers is None:
            return Packet(row, 4 * base, words=self.words)
        row[base:] = np.asarray(numbers, np.int64).astype(np.int32).view(np.uint32).byteswap()
        return Packet(row, 4 * (base + VALUES), words=self.words)

    def result(
        self, fragment: int, iteration: int = 0, kind: int = wire.RESULT, **fields
    ) -> Packet:
        """The result of a fragment: all workers' sum."""
        everyone = range(self.workers)
        numbers = fields.pop("numbers", self.sum_of(everyone, fragment, iteration))
        bitmap = (1 << self.workers) - 1
        return self.packet(kind, fragment, iteration, numbers, bitmap=bitmap, **fields)


class OneWorker(OneHost):
    """A worker."""

    is_worker = True

    def __init__(self, system: str, *arguments: Any, **options: Any) -> None:
        super().__init__(system, *arguments, **options)
        self.scoreboard = self.host.machine.scoreboard
        self.config, self.state = self.worker.config, self.worker.state
        self.status = self.worker.status[0]

    @property
    def worker(self) -> Any:
        return getattr(self.protocol, "worker", self.protocol)

    @property
    def iteration(self) -> int:
        return int(self.scoreboard.state.iteration)


class OneServer(OneHost):
    """A parameter server."""

    is_worker = False

    def __init__(self, system: str, *arguments: Any, **options: Any) -> None:
        super().__init__(system, *arguments, **options)
        self.config, self.state = self.server.config, self.server.state

    @property
    def server(self) -> Any:
        sending = isinstance(self.protocol, ps.Server)
        return self.protocol.adder if sending else self.protocol

    def gradient(self, fragment: int, *workers: int, iteration: int = 0, **fields: Any) -> Packet:
        """The sum over these workers of a fragment."""
        numbers = fields.pop("numbers", None) or self.sum_of(workers, fragment, iteration)
        bits = sum(1 << worker for worker in workers)
        fields = {"bitmap": bits, "sender": workers[0], **fields}
        return self.packet(wire.GRADIENT, fragment, iteration, numbers, **fields)
