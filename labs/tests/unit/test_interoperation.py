"""Lab 14's network watches both sides: what breaks the specification is told, with its side."""

from __future__ import annotations

import contextlib
import random
import runpy
import struct
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from labs._teacher import solution
from labs.grader.failure import Failure
from labs.grader.slots import Set, place
from labs.lab14_interoperation import checks, network, wire
from labs.lab14_interoperation.network import US, Broken, Line, Network, OurHost
from labs.tests.support import InProcess

SETTING = wire.Setting(7, (3, 30, 11), (2, 5, 8), 32, 60)
PLAIN, LOSSY = Line(20 * US), Line(20 * US, 0.2, 0.5)


@pytest.fixture(scope="module")
def theirs() -> type:
    return runpy.run_path(str(solution("lab14_interoperation") / "host.py"))["Host"]


class ModelSwitch:
    """The model as a switch; `spoil` changes what leaves."""

    astray = 0

    def __init__(self, spoil: Callable[[list], list] = list) -> None:
        self.model, self.spoil = network.Model(SETTING), spoil

    def burst(self, packets: list) -> list:
        ((now, port, frame),) = packets
        made = self.model.take(port, wire.content(frame))
        return self.spoil([(now, p, wire.result(p, content)) for p, content in made.items()])


def _run(
    kind: type | None = None,
    switch: Any = None,
    line: Line = PLAIN,
    seed: int = 1,
    disturb: Any = None,
    unlucky: tuple[int, int] | None = None,
) -> Network:
    rng = random.Random(seed)
    values = [
        [[rng.randrange(-(1 << 31), 1 << 31) for _ in range(8)] for _ in range(SETTING.fragments)]
        for _ in SETTING.workers
    ]
    hosts = []
    for who, rows in enumerate(values):
        if kind is None:
            hosts.append(OurHost(SETTING, who, rows, rng))
        else:
            hosts.append(network.TheirHost(InProcess(kind), SETTING, who, rows))
    made = Network(SETTING, values, hosts, switch, line, rng, disturb, unlucky)
    made.run()
    return made


@pytest.mark.parametrize("line", [PLAIN, LOSSY])
def test_what_keeps_to_the_specification_works_together(line, theirs):
    for kind in (None, theirs):
        for switch in (None, ModelSwitch()):
            made = _run(kind, switch, line)
            once = SETTING.fragments * len(SETTING.workers)
            assert made.packets == once if line is PLAIN else made.packets > once


def _changed(at: int) -> Callable[[list], list]:
    def spoil(leaving: list) -> list:
        made = []
        for now, port, frame in leaving:
            frame = bytearray(frame)
            frame[at] ^= 1
            made.append((now, port, bytes(frame)))
        return made

    return spoil


@pytest.mark.parametrize(
    "spoil, told",
    [
        (lambda leaving: [], "a result does not leave"),
        (lambda leaving: leaving * 2, "a result leaves as it should"),
        (lambda leaving: [(n, 1, f) for n, _, f in leaving], "does not leave|leaves as it should"),
        (_changed(0), "the Ethernet destination"),
        (_changed(30), "the IP destination|the IP checksum"),
        (_changed(24), "the IP checksum"),
        (_changed(42), "the kind"),
        (_changed(57), "the bitmap"),
        (_changed(89), "the values"),
        (lambda leaving: [(n, p, f[:-1]) for n, p, f in leaving], "the packet's size"),
    ],
)
def test_a_switch_that_breaks_the_specification_is_named(spoil, told, theirs):
    with pytest.raises(Broken, match=told) as error:
        _run(theirs, ModelSwitch(spoil))
    assert error.value.side == "switch"


def test_a_switch_whose_packets_go_astray_is_named(theirs):
    switch = ModelSwitch()
    switch.astray = 1
    with pytest.raises(Broken, match="a port or a multicast group that the switch does not have"):
        _run(theirs, switch)


class Forgetful(network.Model):
    """A switch in whose filling sums a smaller number is as good as any."""

    def take(self, port, made):
        own = self.slots.sets.get(place(made.number), Set())
        if own.bitmap and not own.complete and made.number < own.number:
            made = replace(made, number=own.number)
        return super().take(port, made)


@pytest.mark.parametrize("seed", range(5))
def test_copies_come_late_enough_to_get_into_a_newer_sum(seed):
    switch = ModelSwitch()
    switch.model = Forgetful(SETTING)
    with pytest.raises(Broken, match="the values is wrong|does not leave|leaves as it should"):
        _run(None, switch, LOSSY, seed)


def _taking(form: str, at: int, right: int) -> Callable[[Any, bytes, int], None]:
    """A host that does not look at a field."""

    def receive(self, frame, now_ns):
        if len(frame) == wire.SIZE:
            made = bytearray(frame)
            struct.pack_into(form, made, at, right)
            frame = bytes(made)
        self.right_receive(frame, now_ns)

    return receive


@pytest.mark.parametrize(
    "form, at, right, told",
    [
        ("!B", wire.AT_AGG, 2, "takes a gradient for one of its results"),
        ("!B", wire.AT_AGG + 2, SETTING.job, "takes a result of another job for one"),
        ("!H", wire.AT_UDP + 2, 18767, "takes a packet for another UDP port for one"),
        ("!B", 23, 17, "takes a packet of another protocol for one"),
    ],
)
def test_the_packet_that_got_in_is_named(form, at, right, told, theirs):
    taking = _taking(form, at, right)
    kind = type("Wrong", (theirs,), {"receive": taking, "right_receive": theirs.receive})
    bench = SimpleNamespace(random=random.Random(2))
    with pytest.raises(Broken, match=told) as error:
        _run(kind, ModelSwitch(), disturb=lambda who, frame: checks.foreign(bench, SETTING, frame))
    assert told in error.value.hidden_lines("")[0]


def test_a_host_that_trips_over_a_packet_is_told_over_which(theirs):
    def receive(self, frame, now_ns):
        if not frame:
            raise Failure("receive() raises an error", details=["IndexError"])
        self.right_receive(frame, now_ns)

    kind = type("Wrong", (theirs,), {"receive": receive, "right_receive": theirs.receive})
    with pytest.raises(Broken, match=r"disturbed by nothing \(receive\(\) raises .* IndexError"):
        _run(kind, ModelSwitch(), disturb=lambda who, frame: [("nothing", b"")])


def _wrong(at: int) -> Callable[[Any, int], list[bytes]]:
    def poll(self, now_ns):
        made = []
        for frame in self.right(now_ns):
            frame = bytearray(frame)
            frame[at] ^= 1
            made.append(bytes(frame))
        return made

    return poll


@pytest.mark.parametrize(
    "method, function, told",
    [
        ("poll", _wrong(12), "the ethertype"),
        ("poll", _wrong(25), "the IP checksum"),
        ("poll", _wrong(37), "the UDP destination port"),
        ("poll", _wrong(44), "the job"),
        ("poll", _wrong(50), "the slot is wrong|the slot"),
        ("poll", _wrong(53), "the worker"),
        ("poll", _wrong(57), "the bitmap"),
        ("poll", _wrong(89), "the values"),
        ("poll", lambda self, now: [b""], "the packet's size"),
        ("poll", lambda self, now: "no", "no list of bytes"),
        ("poll", lambda self, now: [], "does not ask again"),
        ("poll", lambda self, now: [self.packet(n, 0) for n in range(9)], "its slot is in use"),
        ("poll", lambda self, now: [self.packet(0, 0)], "whose result it has"),
        ("wake_ns", lambda self: 0, "no later time"),
        ("sums", lambda self: None, "no list with an entry"),
        ("sums", lambda self: [[0] * 8] * len(self.values), "not those that the results had"),
    ],
)
def test_a_host_that_breaks_the_specification_is_named(method, function, told, theirs):
    kind = type("Wrong", (theirs,), {method: function, "right": theirs.poll})
    with pytest.raises(Broken, match=told) as error:
        _run(kind, ModelSwitch())
    assert error.value.side == "host"
    assert not any(c.isdigit() for c in error.value.hidden_lines("")[0])


@pytest.mark.parametrize(
    "first_ns, most_ns, told",
    [
        (1_000_000, 32_000_000, "timeouts do not double up to their limit"),
        (1_000_000, 128_000_000, "timeouts do not double up to their limit"),
        (900_000, 64_000_000, "first timeout is too short or too long"),
        (11_000_000, 64_000_000, "first timeout is too short or too long"),
        (1_000_000, 64_000_000, ""),
        (10_000_000, 64_000_000, ""),
    ],
)
def test_timeouts_begin_and_double_within_their_limits(
    first_ns, most_ns, told, theirs, monkeypatch
):
    for name, value in (("FIRST_NS", first_ns), ("MOST_NS", most_ns)):
        monkeypatch.setitem(theirs.poll.__globals__, name, value)
    with pytest.raises(Broken, match=told) if told else contextlib.nullcontext():
        _run(theirs, ModelSwitch(), unlucky=(1, 5))


def test_our_hosts_use_what_is_left_open():
    rng = random.Random(3)
    frames = [wire.gradient(SETTING, 0, 40, [1] * 8, False, rng) for _ in range(20)]
    assert len({frame[22] for frame in frames}) > 5 and len({frame[34:36] for frame in frames}) > 5
    for frame in frames:
        assert wire.gradient_fault(frame, SETTING, 0, [[1] * 8] * 60) == ""
