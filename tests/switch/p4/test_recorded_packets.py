"""Each P4 program with packets of all kinds, against the record of what it did with them
(tests/support/recorded.py).

Most packets are what a job's hosts and other switches may send: fragments that become complete,
repetitions, results, reminders. In every few of them one field is another one, at the corners of
what it can be. What leaves, what is counted, and what is in the memory at the end must be what was
recorded.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

import numpy as np
import pytest
from p4engine.switch.library import Switch
from p4fabric.base.topology import host_ip, switch_ip

from testbed import dataplane
from testbed.protocols import sizes, wire
from testbed.protocols.a2tp import BYPASS
from testbed.protocols.host_spec import SlotsSpec
from testbed.setup.host_specs import host_specs
from tests.support import recorded, switches
from tests.support.experiments import setup_of
from tests.support.fabric import udp_frame
from tests.support.histories.cases import DELIVERED, TINY, text_of

PACKETS = 1500
FILE = "packets"
QUEUED = "links: {bandwidth: 1 Gbit/s, ecn_threshold: 3 packets}\n"
WITHOUT = {"zeros": "header_only"}
SENT = {"zeros": "sent"}
VALUES = 4


class Case(NamedTuple):
    """Switch number `switch` (from the end if negative) of an experiment (histories/cases.py)."""

    system: str
    network: str
    switch: int
    bits: int
    options: dict[str, Any]
    program: bool = False  # else a recorded model


HELD = {"release": "on_result"}
DROPS = {"collision": "drop"}
CASES = {
    "esa": Case("esa", "star", 0, 32, WITHOUT | {"max_age": "3 ms"}),
    "esa that holds, without downgrading": Case(
        "esa", "star", 0, 32, SENT | HELD | {"downgrading": "false", "max_age": "20 us"}
    ),
    "esa with 16 bits": Case("esa", "star", 0, 16, WITHOUT | {"preempt": "always"}),
    "esa below": Case("esa", "racks", 0, 32, WITHOUT | {"preempt": "coin"}),
    "esa above": Case("esa", "racks", -1, 32, WITHOUT),
    "esa that delivers": Case("esa", "racks", -1, 32, WITHOUT | {"release": DELIVERED}),
    "esa that delivers 16 bits": Case("esa", "star", 0, 16, WITHOUT | {"release": DELIVERED}),
    "atp": Case("atp", "star", 0, 32, WITHOUT | {"max_age": "20 us"}),
    "atp with 16 bits below": Case("atp", "racks", 0, 16, SENT),
    "atp that delivers": Case("atp", "star", 0, 32, WITHOUT | {"release": DELIVERED}),
    "a2tp": Case("a2tp", "star", 0, 32, WITHOUT | {"max_age": "3 ms"}),
    "a2tp above": Case("a2tp", "racks", -1, 32, SENT),
    "grid": Case("grid", "star", 0, 32, WITHOUT),
    "grid that drops": Case("grid", "racks", 0, 32, WITHOUT | DROPS),
    "grid with atp": Case("grid", "racks", 1, 16, WITHOUT | {"memory": "atp"}),
    "grid with plain memory": Case("grid", "star", 0, 32, SENT | {"memory": "plain"} | DROPS),
    "grid below": Case("grid", "deep", 0, 32, SENT | {"planner": "two-level", "memory": "atp"}),
    "switchml": Case("switchml", "star", 0, 32, WITHOUT),
    "switchml with one set": Case("switchml", "star", 0, 32, SENT | {"sets": 1}),
    "switchml with 16 bits below": Case("switchml", "racks", 0, 16, WITHOUT),
    "switchml above": Case("switchml", "racks", -1, 32, WITHOUT),
    "tree": Case("tree", "star", 0, 32, WITHOUT | {"mode": "quotas"}),
    "tree below": Case("tree", "cycle", 0, 32, WITHOUT | {"mode": "exclusive"}),
    "tree above": Case("tree", "racks", -1, 16, WITHOUT | {"mode": "quotas", "trees": 2}),
    "ps": Case("ps", "star", 0, 32, WITHOUT),
    "esa with programs": Case("esa", "racks", -1, 32, WITHOUT, True),
    "atp with programs": Case("atp", "star", 0, 16, WITHOUT | {"release": DELIVERED}, True),
    "switchml with programs": Case("switchml", "star", 0, 16, WITHOUT, True),
}
POOLS = ("esa", "atp", "a2tp", "grid")
BITS = [1 << bit for bit in range(14)]
KEPT = [wire.ECN, wire.OVERFLOW, wire.ROUND, wire.RESEND, wire.PARTIAL, wire.COLLISION]
CORNERS = {
    "version": (0, 2, 15),
    "kind": tuple(range(16)),
    "priority": (0, 1, 254, 255),
    "flags": (*BITS, wire.RESEND | wire.REMINDED, wire.PARTIAL | wire.REMINDED, 0xFFFF),
    "job": (0, 1, 2, 255, 256, 0xFFFF),
    "node": (0, 1, 2, 3, 0xFFFE, 0xFFFF),
    "fragment": (0, 26, 27, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF),
    "index": (3, 4, 7, 8, 15, 16, 17, 1 << 31, 1 << 31 | 3, 1 << 31 | 4, BYPASS),
    "extra": (0, 1, 0xFFFF, 0x10000, 0xFFFFFFFF),
    "sender": (0, 2, 3, 31, 0x4000, 0xFFFF),
    "exponents": (0, 2, 3, 31, 0x7F, 0x80, 0xFF, 0x7F80, 0xFFFF),
    "bitmap": (0, 3, 5, 6, 7, 8, 1 << 31, 1 << 31 | 1),
}
NUMBERS = (0, 1, -1, 32767, 32768, -32768, -32769, 2**30, 2**31 - 1, -(2**31))


class Drawn:
    """Packets for a switch of a case."""

    def __init__(self, case: Case, seed: str) -> None:
        memory = {"aggregators": 16}
        text = text_of(case.system, case.network, bits=case.bits, **memory, **case.options)
        if case.program:
            for name in "ab":
                job = f'name: {name}, command: "true"'
                text = text.replace(f"model: {TINY}", job, 1).replace(", iterations: 3", "", 1)
        self.setup = setup_of(text + (QUEUED if case.system != "grid" else ""))
        self.topology = self.setup.platform.topology
        self.case, self.draw = case, recorded.Draw(seed)
        self.switch = self.topology.switches[case.switch]
        self.node = self.topology.number(self.switch)
        self.window, self.sets = 16, 1
        options = host_specs(self.setup)[0].options
        if isinstance(options, SlotsSpec):
            self.window, self.sets = options.window, options.sets
        self.ports = {
            there: port for port, (there, _, _) in self.topology.ports(self.switch).items()
        }
        self.above = [name for name in self.ports if not self.topology.is_host(name)]
        self.base = [0, 0]  # fragments that are about to be summed, of each job

    def address(self, name: str) -> str:
        number = self.topology.number(name)
        return host_ip(number) if self.topology.is_host(name) else switch_ip(number)

    def packet(self) -> tuple[int, bytes]:
        """A port, and the frame that comes there."""
        job = self.draw.randrange(2)
        group = self.setup.jobs[job].group
        if self.draw.chance(4):
            self.base[job] += 1
        worker = self.draw.randrange(3)
        sender, bits = worker, 1 << worker
        comes_from = group.workers[worker]
        if self.draw.chance(12):
            bits = self.draw.one((3, 5, 6, 7))
        kind, to = wire.GRADIENT, group.servers[0] if group.servers else self.switch
        drawn = self.draw.randrange(100)
        if drawn < 22:
            kind = self.draw.one((wire.RESULT, wire.RESULT, wire.REMINDER))
            comes_from = self.draw.one(group.servers or (*self.above, comes_from))
            sender, bits = wire.SERVER, 7 if kind == wire.RESULT else 0
            to = self.switch
        elif drawn < 28:
            kind = self.draw.one((wire.ASK, wire.CONTROL, wire.COLLIDED, wire.REMINDER_EMPTY))
            to = self.draw.one((*group.workers, *group.servers))
        fragment = self.base[job] + self.draw.randrange(2 * self.window if self.sets > 1 else 4)
        index = fragment % self.window | (fragment // self.window % self.sets << 31)
        node = 0
        if self.case.system == "grid":
            node = self.draw.one((self.node, self.node, self.node, self.node, sizes.NO_NODE, 1))
        elif self.case.system == "tree":
            node = self.draw.randrange(2)
        fields = {
            "version": wire.VERSION,
            "kind": kind,
            "priority": self.draw.one((1, 2, 3, 100, 200, 255)),
            "flags": 0 if self.draw.chance(75) else self.draw.one(KEPT) | self.draw.one((0, *BITS)),
            "job": job,
            "node": self.node if kind == wire.REMINDER else node,
            "fragment": fragment,
            "index": index,
            "extra": self.draw.one((0, 1, 3, 4, 1000, 0x10000)),
            "sender": sender,
            "exponents": 0,
            "bitmap": bits,
        }
        if self.draw.chance(15):
            fields["flags"] |= self.draw.one((wire.FOR_ONE, wire.FROM_ONE))
            fields["exponents"] = self.draw.randrange(4)
        elif self.sets > 1 or self.case.system == "switchml":
            fields["exponents"] = self.draw.randrange(1 << 16)
        if self.case.system == "grid" and self.draw.chance(85):
            ways = group.routed_plan.workers[worker].assignments
            fields["extra"] = self.draw.one([way.tag for way in ways])
        for _ in range(self.draw.one((0, 0, 0, 0, 0, 1, 1, 2))):
            name = self.draw.one([*CORNERS])
            fields[name] = self.draw.one(CORNERS[name])
        payload = self.payload(fields)
        if comes_from not in self.ports:
            comes_from = self.draw.one(self.above)
        if self.draw.chance(3):
            comes_from = self.draw.one([*self.ports])
        frame = udp_frame(self.address(comes_from), self.address(to), payload)
        if self.draw.chance(10):
            checksum = self.draw.randrange(1 << 16).to_bytes(2, "big")
            frame = frame[:40] + checksum + frame[42:]
        return self.ports[comes_from], frame

    def payload(self, fields: dict[str, int]) -> bytes:
        """The packet, with values if its kind has some."""
        with_values = fields["kind"] in (wire.GRADIENT, wire.RESULT, wire.RESULT_ONE)
        if with_values and self.case.options["zeros"] != "sent" and self.draw.chance(15):
            fields["kind"] |= wire.WITHOUT_VALUES
            with_values = False
        if self.draw.chance(3):
            with_values = not with_values
        values = b""
        if with_values:
            numbers = [self.draw.randrange(-9, 10) for _ in range(VALUES)]
            if self.draw.chance(25):
                numbers = [self.draw.one(NUMBERS) for _ in range(VALUES)]
            elif self.draw.chance(20):
                numbers = [0] * VALUES
            short = self.case.bits == 16 and max(map(abs, numbers)) < 32768 and self.draw.chance(70)
            fields["flags"] = fields["flags"] & ~wire.SHORT | (wire.SHORT if short else 0)
            values = np.array(numbers).astype(">i2" if short else ">i4").tobytes()
        if self.draw.chance(2):
            values = values[: self.draw.randrange(len(values) + 1)]
        head = (fields["version"] << 4 | fields["kind"], fields["priority"], fields["flags"])
        names = ("job", "node", "fragment", "index", "extra", "sender", "exponents", "bitmap")
        rest = [fields[name] for name in names]
        return struct.pack("!BBHHHIIIHHI", *head, *rest) + values


def played(name: str) -> recorded.Record:
    """What a case's switch does."""
    drawn = Drawn(CASES[name], name)
    source, defines, folders = dataplane.program(drawn.setup.platform)
    compiled = switches._compiled(source, tuple(defines.items()), folders)
    ports = [0, *drawn.ports.values()]  # to 0 goes what no table has sent anywhere
    switch = Switch(compiled, ports=sorted(ports), seed=1)
    dataplane.install(drawn.setup, drawn.switch, switch)
    for port in drawn.ports.values() if drawn.case.system != "grid" else ():
        switch.queue_rate(200_000, port)  # one packet every 5 us
    made, now = recorded.Record(), 1_000_000
    for _ in range(PACKETS):
        long = 1_500_000 if drawn.draw.chance(10) else 2000
        now += drawn.draw.one((0, 0, 0, 1000, 1000, 20_000, long))
        switch.receive(*drawn.packet(), now)
        for at, port, frame in switch.advance(now):
            made.note(at, f"port {port}", frame)
    for at, port, frame in switch.advance(now + 10**9):
        made.note(at, f"port {port}", frame)
    made.note_switches(drawn.setup, {drawn.switch: switch})
    return made


@pytest.mark.parametrize("name", CASES)
def test_a_program_does_what_it_did(name):
    played(name).hold(FILE, name)


def test_each_record_has_its_case():
    assert recorded.names(FILE) == {*CASES}
