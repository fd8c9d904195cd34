"""Hosts that have no part in a job send what looks like its packets: every sum stays exact, and
what they send is refused at their port.

The forger sees each frame of job a on any wire and sends frames made from it, as plausible as they
can be, from a host of no job and from one of job b.
"""

from __future__ import annotations

import random
import struct
from collections import deque

import pytest

from testbed import dataplane
from testbed.protocols import sizes, wire
from testbed.workload.wrong_value import wrong_value
from tests.support.experiments import memory_line, setup_of
from tests.support.fabric import MS, Fabric, check_values
from tests.support.matrix import first_of
from tests.support.switches import start_switches

TEXT = """
name: test
topology: {kind: two_level, tors: 2, hosts: 4, servers: 2}
links: {bandwidth: 1 Gbit/s}
system: {name: %(system)s%(options)s}
%(memory)s
values_per_packet: 16
admission: %(admission)s
jobs:
  - {name: a, model: resnet18, workers: 4, iterations: 2, scale: 0.0002,
     placement: {workers: [h1, h2, h5, h6]%(ps_a)s}}
  - {name: b, model: vgg11, workers: 2, iterations: 2, scale: 0.00004,
     placement: {workers: [h3, h7]%(ps_b)s}}
"""
HEADER = sizes.FRAME_OVERHEAD
BITMAP = HEADER + 4 * sizes.HEADER_WORDS
VALUES = BITMAP + 4
STRANGER, NEIGHBOUR, FAR_STRANGER = "h4", "h3", "h8"  # the neighbour has a part in job b
SYSTEMS = [("esa", ""), ("switchml", ", window: 32"), ("grid", ""), ("ring", ""), ("atp", ""),
           ("ps", "")]  # fmt: skip


def job_of(frame: bytes) -> int:
    return struct.unpack_from("!H", frame, HEADER + 4)[0]


def kind_of(frame: bytes) -> int:
    return frame[HEADER] & 0xF


def with_words(frame: bytes, values: int | None = 12345, **words: int) -> bytes:
    """The frame with other values and these words of its header."""
    made = bytearray(frame)
    for name, value in words.items():
        at = {"fragment": HEADER + 8, "index": HEADER + 12, "bitmap": BITMAP}[name]
        struct.pack_into("!I", made, at, value & 0xFFFFFFFF)
    for at in range(VALUES, len(made), 4) if values is not None else ():
        struct.pack_into("!I", made, at, values)
    return bytes(made)


def fabric_of(system: str, options: str = "", forger=None, admission: str = "port") -> Fabric:
    servers = system not in ("switchml", "ring")
    setup = setup_of(
        TEXT
        % {
            "system": system,
            "options": options,
            "memory": memory_line(system, 256),
            "admission": admission,
            "ps_a": ", ps: h9" if servers else "",
            "ps_b": ", ps: h10" if servers else "",
        }
    )
    return Fabric(setup, start_switches(setup), forger=forger or (lambda *seen: ()))


def refused(fabric: Fabric) -> dict[tuple[str, str], int]:
    """Number of refused packets, by switch and the neighbour that they came from."""
    found = {}
    for name, switch in fabric.switches.items():
        ports = fabric.topology.ports(name)
        for port, count in dataplane.refusals(fabric.setup.platform, switch, ports).items():
            if count:
                found[name, ports[port][0]] = count
    return found


class Intruders:
    """Forges frames of job 0 from what it sees; `sent` counts them by host."""

    def __init__(self, seed: int = 1) -> None:
        self.draw = random.Random(seed)
        self.seen: deque[bytes] = deque(maxlen=500)
        self.sent = {STRANGER: 0, NEIGHBOUR: 0, FAR_STRANGER: 0}

    def __call__(self, now: int, node: str, frame: bytes):
        if job_of(frame) != 0:
            return []
        self.seen.append(frame)
        fragment = struct.unpack_from("!I", frame, HEADER + 8)[0]
        earlier = self.seen[0]
        forged = [
            with_words(frame),  # a member's packet, with other values
            with_words(frame, fragment=fragment + self.draw.randrange(1, 1000)),  # a later one
            with_words(frame, fragment=fragment + 10**6),
            with_words(earlier),  # an earlier packet, with other values, and as it was
            earlier,
            with_words(frame, bitmap=1 << self.draw.randrange(4)),
            with_words(frame, bitmap=0b1111, index=self.draw.randrange(2**32)),
            frame[:HEADER] + self.draw.randbytes(4) + frame[HEADER + 4 :],
            bytes([*frame[:HEADER], wire.VERSION << 4 | self.draw.randrange(16)])
            + frame[HEADER + 1 :],
        ]
        made = []
        for each in forged:
            host = self.draw.choice(list(self.sent))
            self.sent[host] += 1
            made.append((self.draw.choice((-1, 0, 20_000)), each, host))
        return made


@pytest.mark.parametrize("system, options", first_of(SYSTEMS, 2))
def test_hosts_of_no_job_and_of_another_job_change_nothing(system, options):
    intruders = Intruders()
    fabric = fabric_of(system, options, intruders)
    fabric.run(10_000 * MS)
    check_values(fabric)
    found = refused(fabric)
    ports = {host: (fabric.topology.switch_of(host), host) for host in intruders.sent}
    assert set(found) == set(ports.values()), "nothing is refused anywhere else"
    for host, port in ports.items():  # some are still on their way
        assert 0.9 * intruders.sent[host] < found[port] <= intruders.sent[host]


@pytest.mark.parametrize("system, options", first_of(SYSTEMS, 0))
def test_nothing_of_a_job_is_refused(system, options):
    fabric = fabric_of(system, options)
    fabric.run(10_000 * MS)
    check_values(fabric)
    assert refused(fabric) == {}


def gradient_with_other_values(host: str | None):
    """A gradient of worker 1, sent once more just before it, from `host` or over its own wire."""

    def forge(now: int, node: str, frame: bytes):
        if node == "h2" and kind_of(frame) == wire.GRADIENT:
            more = (host,) if host else ()
            return [(-1, with_words(frame), *more)]
        return []

    return forge


@pytest.mark.parametrize(
    "host, admission", first_of([(STRANGER, "off"), (None, "port"), (NEIGHBOUR, "off")], 2)
)
def test_what_cannot_be_told_from_a_member_s_packet_is_a_wrong_value(host, admission):
    """Without admission by port, or over the member's own wire: the run says what is wrong."""
    fabric = fabric_of("esa", "", gradient_with_other_values(host), admission)
    with pytest.raises(AssertionError, match="wrong value in fragment"):
        fabric.run(10_000 * MS)
    (failed,) = [each for each in fabric.hosts.values() if each.failed()]
    message = wrong_value(failed.spec, failed.machine).text
    for part in ("job a", "tensor", "position"):
        assert part in message


HIDDEN = {
    # 18 bytes of the protocol's header: a host's kernel would put fragments of IPv4 together.
    "cut off": lambda frame: frame[: HEADER + 18],
    # The UDP header is 4 bytes further on.
    "with an IPv4 option": lambda frame: (
        b"\x46".join((frame[:14], frame[15:34])) + b"\x01\x01\x01\x00" + frame[34:]
    ),
}


@pytest.mark.parametrize("system", ["esa", "ps"])
@pytest.mark.parametrize("hidden", HIDDEN)
def test_packets_that_do_not_show_their_job_are_refused_at_every_port(system, hidden):
    fabric = fabric_of(system)
    frames = []
    fabric.forger = lambda now, node, frame: frames.append(frame) or []
    fabric.run(10_000 * MS)
    switch = fabric.switches["s1"]
    for port in fabric.topology.ports("s1"):
        switch.receive(port, HIDDEN[hidden](frames[0]), fabric.now)
        assert list(switch.advance(fabric.now + MS)) == []
    assert {count for (name, _), count in refused(fabric).items() if name == "s1"} == {1}


def test_other_traffic_is_not_refused():
    """UDP to another port, and fragments behind the first one of a datagram."""
    fabric = fabric_of("esa")
    frames = []
    fabric.forger = lambda now, node, frame: frames.append(frame) or []
    fabric.run(10_000 * MS)
    switch, port = fabric.switches["s1"], 4
    elsewhere = bytearray(frames[0])
    struct.pack_into("!H", elsewhere, 36, 5001)
    later = bytearray(frames[0])
    struct.pack_into("!H", later, 20, 3)
    for frame in (elsewhere, later):
        switch.receive(port, bytes(frame), fabric.now)
        assert len(list(switch.advance(fabric.now + MS))) == 1
    assert refused(fabric) == {}
