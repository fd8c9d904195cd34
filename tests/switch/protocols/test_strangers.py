"""Packets that nobody of the job has sent, beside those of the job: every sum stays exact, and what
comes from hosts that have no part in it is refused at their port.

A forger sees each frame on a wire and adds frames of its own, made from it, so that they are as
plausible as they can be: over a member's own wire, from a host of no job, or from one of another.
"""

from __future__ import annotations

import random
import struct
from collections import deque

import pytest
from p4fabric_testing.matrix import first_of

from testbed import dataplane
from testbed.protocols import sizes, wire
from testbed.workload.wrong_value import wrong_value
from tests.support.experiments import memory_line, setup_of
from tests.support.fabric import MS, Fabric, check_values, total
from tests.support.switches import start_switches

ONE = """
name: test
topology: {kind: star, hosts: 8}
system: {name: %(system)s, window: 32}
%(memory)s
values_per_packet: 16
jobs:
  - {model: resnet18, workers: 3, iterations: 3, scale: 0.0003}
"""
TWO = """
name: test
topology: {kind: two_level, tors: 2, hosts: 4, servers: 2}
links: {bandwidth: 1 Gbit/s}
system: {name: %(system)s, window: 32}
%(memory)s
values_per_packet: 16
admission: %(admission)s
jobs:
  - {name: a, model: resnet18, workers: 4, iterations: 2, scale: 0.0002,
     placement: {workers: [h1, h2, h5, h6]%(ps_a)s}}
  - {name: b, model: vgg11, workers: 2, iterations: 2, scale: 0.00004,
     placement: {workers: [h3, h7]%(ps_b)s}}
"""
WORKERS = 3
HEADER = sizes.FRAME_OVERHEAD
BITMAP = HEADER + 4 * sizes.HEADER_WORDS
VALUES = BITMAP + 4
PLACES = {"flags": (HEADER + 2, "!H"), "job": (HEADER + 4, "!H")}
PLACES |= {"fragment": (HEADER + 8, "!I"), "index": (HEADER + 12, "!I")}
PLACES |= {"step": (HEADER + 16, "!I"), "sender": (HEADER + 20, "!H"), "bitmap": (BITMAP, "!I")}
STRANGER, NEIGHBOUR, FAR_STRANGER = "h4", "h3", "h8"  # the neighbour has a part in job b
SYSTEMS = ("esa", "switchml", "grid", "ring", "atp", "ps")


def field(frame: bytes, name: str) -> int:
    place, form = PLACES[name]
    return struct.unpack_from(form, frame, place)[0]


def changed(frame: bytes, **fields: int) -> bytes:
    """The frame with other values (all 12345) and these fields of its header."""
    made = bytearray(frame)
    for name, value in fields.items():
        place, form = PLACES[name]
        struct.pack_into(form, made, place, value & 0xFFFFFFFF)
    for place in range(VALUES, len(made), 4):
        struct.pack_into("!I", made, place, 12345)
    return bytes(made)


def kind(frame: bytes) -> int:
    return frame[HEADER] & 0xF


def is_gradient(frame: bytes) -> bool:
    return kind(frame) == wire.GRADIENT and len(frame) > VALUES


def nothing(now: int, node: str, frame: bytes) -> list:
    return []


def fabric_of(text: str, system: str, forger=nothing, admission: str = "port") -> Fabric:
    servers = system not in ("switchml", "ring")
    parts = {"system": system, "memory": memory_line(system, 16 if text is ONE else 256)}
    parts |= {"ps_a": ", ps: h9" * servers, "ps_b": ", ps: h10" * servers, "admission": admission}
    setup = setup_of(text % parts)
    return Fabric(setup, start_switches(setup), forger=forger)


def run(fabric: Fabric) -> Fabric:
    """Run the jobs beside the forger to their end, and check every value."""
    fabric.run(10_000 * MS)
    check_values(fabric)
    return fabric


# ---- over a member's own wire, just before its packets ----


@pytest.mark.parametrize("fragment", [None, 2**32 - 1], ids=["the same", "far in the future"])
@pytest.mark.parametrize("bitmap", first_of([1 << 31 | 1, 1 << 31, 1 << 5, 0], 1))
@pytest.mark.parametrize("system", first_of(["esa", "switchml", "atp", "ps"], 2))
def test_gradients_of_workers_that_the_job_does_not_have(system, bitmap, fragment):
    """To the switch, and past it to the server."""
    fields = {"bitmap": bitmap} | ({} if fragment is None else {"fragment": fragment})

    def forger(now, node, frame):
        return [(-1, changed(frame, **fields))] if is_gradient(frame) else []

    fabric = run(fabric_of(ONE, system, forger))
    if system != "switchml" and bitmap and fragment is None:
        assert total(fabric.servers(), "foreign") > 0


@pytest.mark.parametrize("system", first_of(["ps", "esa", "atp"], 1))
def test_what_is_two_iterations_ahead_is_not_believed(system):
    """Nobody can be done with an iteration that the server is not done with. A server keeps two
    iterations, so it would forget the one that goes on. The forged packets go past the aggregators,
    as what is sent again: there a member's own values would wait until their time comes."""

    def forger(now, node, frame):
        ahead = field(frame, "fragment") + 2 * fabric.setup.jobs[0].fragments
        again = field(frame, "flags") | wire.RESEND
        return [(-1, changed(frame, fragment=ahead, flags=again))] if is_gradient(frame) else []

    fabric = fabric_of(ONE, system, forger)
    assert total(run(fabric).servers(), "foreign") > 0


def another_sender(frame: bytes) -> list:
    """A ring's member takes nothing but from its neighbour."""
    sender = (field(frame, "sender") + 1) % WORKERS
    return [(-1, changed(frame, sender=sender))] if field(frame, "step") > 0 else []


def a_sum_of_all(frame: bytes) -> list:
    """Nor the sum of all without its own part: just before a partial sum comes, what claims to be
    that does."""
    chunk, way = divmod(field(frame, "step") - 1, 2)
    receiver = (field(frame, "sender") + 1) % WORKERS
    wrong = chunk >= 0 and way == 0 and receiver != chunk
    return [(-1, changed(frame, step=2 * chunk + 2))] if wrong else []


@pytest.mark.parametrize("forged", [another_sender, a_sum_of_all])
def test_a_member_of_a_ring_takes_only_what_can_be(forged):
    def forger(now, node, frame):
        return forged(frame) if kind(frame) == wire.CONTROL else []

    assert total(run(fabric_of(ONE, "ring", forger)).workers(), "foreign") > 0


# ---- from other hosts ----


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
        if field(frame, "job") != 0:
            return []
        self.seen.append(frame)
        fragment, draw = field(frame, "fragment"), self.draw
        earlier = self.seen[0]
        forged = [
            changed(frame),  # a member's packet, with other values
            changed(frame, fragment=fragment + draw.randrange(1, 1000)),  # a later one
            changed(frame, fragment=fragment + 10**6),
            changed(earlier),  # an earlier packet, with other values, and as it was
            earlier,
            changed(frame, bitmap=1 << draw.randrange(4)),
            changed(frame, bitmap=0b1111, index=draw.randrange(2**32)),
            frame[:HEADER] + draw.randbytes(4) + frame[HEADER + 4 :],
            bytes([*frame[:HEADER], wire.VERSION << 4 | draw.randrange(16)]) + frame[HEADER + 1 :],
        ]
        made = []
        for each in forged:
            host = draw.choice(list(self.sent))
            self.sent[host] += 1
            made.append((draw.choice((-1, 0, 20_000)), each, host))
        return made


@pytest.mark.parametrize("system", first_of(SYSTEMS, 2))
def test_hosts_of_no_job_and_of_another_job_change_nothing(system):
    intruders = Intruders()
    fabric = run(fabric_of(TWO, system, intruders))
    found = refused(fabric)
    ports = {host: (fabric.topology.switch_of(host), host) for host in intruders.sent}
    assert set(found) == set(ports.values()), "nothing is refused anywhere else"
    for host, port in ports.items():  # some are still on their way
        assert 0.9 * intruders.sent[host] < found[port] <= intruders.sent[host]


@pytest.mark.parametrize(
    "host, admission", first_of([(STRANGER, "off"), (None, "port"), (NEIGHBOUR, "off")], 2)
)
def test_what_cannot_be_told_from_a_member_s_packet_is_a_wrong_value(host, admission):
    """Without admission by port, or over the member's own wire: the run says what is wrong."""

    def forger(now, node, frame):
        mine = node == "h2" and kind(frame) == wire.GRADIENT
        return [(-1, changed(frame), *([host] if host else []))] if mine else []

    fabric = fabric_of(TWO, "esa", forger, admission)
    with pytest.raises(AssertionError, match="wrong value in fragment"):
        fabric.run(10_000 * MS)
    (failed,) = (each for each in fabric.hosts.values() if each.failed())
    message = wrong_value(failed.spec, failed.machine).text
    assert all(part in message for part in ("job a", "tensor", "position"))


def with_bytes(frame: bytes, place: int, form: str, value: int) -> bytes:
    made = bytearray(frame)
    struct.pack_into(form, made, place, value)
    return bytes(made)


@pytest.mark.parametrize("system", ["esa", "ps"])
def test_what_does_not_show_its_job_is_refused_and_other_traffic_is_not(system):
    frames = []
    forger = lambda now, node, frame: frames.append(frame) or []  # noqa: E731
    fabric = run(fabric_of(TWO, system, forger))
    assert refused(fabric) == {}, "nothing of a job is"
    switch, frame, now = fabric.switches["s1"], frames[0], fabric.now
    # UDP to another port, and fragments behind the first one of a datagram.
    for other in (with_bytes(frame, 36, "!H", 5001), with_bytes(frame, 20, "!H", 3)):
        switch.receive(4, other, now)
        assert len(list(switch.advance(now + MS))) == 1
    assert refused(fabric) == {}
    hidden = (
        # 18 bytes of the protocol's header: a host's kernel would put fragments of IPv4 together.
        frame[: HEADER + 18],
        # An option of IPv4: the UDP header is 4 bytes further on.
        b"\x46".join((frame[:14], frame[15:34])) + b"\x01\x01\x01\x00" + frame[34:],
    )
    for count, each in enumerate(hidden, 1):
        for port in fabric.topology.ports("s1"):
            switch.receive(port, each, now)
            assert list(switch.advance(now + MS)) == []
        assert {found for (name, _), found in refused(fabric).items() if name == "s1"} == {count}
