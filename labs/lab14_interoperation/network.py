"""Hosts and a switch in virtual time, with somebody who watches every packet.

Either side can be a student's or ours. Each packet is compared with the specification: one of a
host by its fields and by what its host has got so far, one of the switch with what a model of the
switch makes of the same packets. So the first packet that is not right names the side that has
broken the specification.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from labs.grader.bench import ASTRAY, Failure, Python, Switch
from labs.grader.packets import RESULT, wrapped
from labs.grader.slots import AGAIN, COMPLETE, Slots
from labs.lab14_interoperation.wire import (
    SLOTS,
    Content,
    Setting,
    content,
    gradient,
    gradient_fault,
    result,
    result_fault,
)

US, MS = 1_000, 1_000_000
FIRST_NS, MOST_NS = 1 * MS, 64 * MS  # our hosts' timeouts
LATE_FIRST_NS = 10 * MS  # of any host
LIMIT_NS = 2000 * MS
LATEST = 7  # a copy is up to 2^7 delays later
DOUBLED = (1.8, 2.2)
MOST_PACKETS = 20  # per fragment and host, on average
LOST = 9
SWITCH, HOST = "switch", "host"


class Broken(Failure):
    """One side has broken the specification.

    Args:
        side: SWITCH or HOST.
        what: how, without values.
        told: with values.
    """

    def __init__(self, side: str, what: str, told: str = "") -> None:
        self.side = side
        text = f"the {side} breaks the specification: {what}"
        super().__init__(f"{text}{f' ({told})' if told else ''}", case=text)


@dataclass(frozen=True)
class Line:
    """The fate of packets.

    Args:
        delay_ns: how long a packet is on its way.
        loss: share of packets that are lost, in either direction.
        copies: share of packets that come twice, the second time later: soon after the first, or
            so late that others are two fragments ahead.
    """

    delay_ns: int
    loss: float = 0.0
    copies: float = 0.0


class AnyHost(Protocol):
    """A host as the network sees it. `turn`: a frame has come, or None; returns what it sends, and
    when it wants to be asked again."""

    def turn(self, frame: bytes | None, now_ns: int) -> tuple[list[bytes], int | None]: ...

    def sums(self) -> Any: ...


class OurHost:
    """A host of ours: a window of slots, and a timer that doubles."""

    def __init__(self, setting: Setting, who: int, values: Sequence, rng: random.Random) -> None:
        self.setting, self.who, self.values, self.rng = setting, who, values, rng
        self.ready = list(range(min(SLOTS, setting.fragments)))
        self.due: dict[int, tuple[int, int]] = {}  # fragment: (when, timeout)
        self.made: list[list[int] | None] = [None] * setting.fragments

    def turn(self, frame: bytes | None, now_ns: int) -> tuple[list[bytes], int | None]:
        if frame is not None:
            made = content(frame)
            fragment = made.number - self.setting.first
            if self.made[fragment] is None:
                self.made[fragment] = list(made.values)
                del self.due[fragment]
                if fragment + SLOTS < self.setting.fragments:
                    self.ready.append(fragment + SLOTS)
        sent = []
        for fragment, (due, wait) in self.due.items():
            if due <= now_ns:
                wait = min(2 * wait, MOST_NS)
                self.due[fragment] = (now_ns + wait, wait)
                sent.append(self._packet(fragment, True))
        for fragment in self.ready:
            self.due[fragment] = (now_ns + FIRST_NS, FIRST_NS)
            sent.append(self._packet(fragment, False))
        self.ready = []
        return sent, min((due for due, _ in self.due.values()), default=None)

    def sums(self) -> Any:
        return self.made

    def _packet(self, fragment: int, again: bool) -> bytes:
        number, values = self.setting.first + fragment, self.values[fragment]
        return gradient(self.setting, self.who, number, values, again, self.rng)


class TheirHost:
    """A host of a submission, in a process of its own."""

    def __init__(self, python: Python, setting: Setting, who: int, values: Sequence) -> None:
        self.python = python
        rows = [list(row) for row in values]
        self.host = python.make("Host", setting.of_host(who), rows)

    def turn(self, frame: bytes | None, now_ns: int) -> tuple[list[bytes], int | None]:
        calls: list[tuple[int, str, list]] = [(self.host, "poll", [now_ns])]
        if frame is not None:
            calls.insert(0, (self.host, "receive", [frame, now_ns]))
        *_, sent, wake = self.python.methods([*calls, (self.host, "wake_ns", [])])
        if not isinstance(sent, list) or not all(type(each) is bytes for each in sent):
            raise Broken(HOST, "poll() returns no list of bytes", repr(sent)[:200])
        if wake is not None and (type(wake) is not int or wake <= now_ns):
            raise Broken(HOST, "wake_ns() returns no later time", repr(wake)[:200])
        return sent, wake

    def sums(self) -> Any:
        return self.python.method(self.host, "sums")


class Model:
    """The switch of the specification. It takes right gradients alone."""

    def __init__(self, setting: Setting) -> None:
        self.setting, self.slots = setting, Slots(setting.everyone)

    def take(self, port: int, made: Content) -> dict[int, Content]:
        """Packets that leave for a gradient, by port."""
        end, own = self.slots.take(made.number, made.bitmap, made.values)
        ports = self.setting.ports if end == COMPLETE else (port,) if end == AGAIN else ()
        answer = replace(made, kind=RESULT, bitmap=self.setting.everyone, values=own.values)
        return dict.fromkeys(ports, answer)


@dataclass
class Network:
    """Hosts around a switch.

    Args:
        switch: a student's, or None for ours (the model).
        unlucky: (host, fragment) whose first LOST packets are lost, so timeouts reach their end.
        disturb: makes packets that are for nobody, and come to a host before a result: what each
            is, and the packet.
    """

    setting: Setting
    values: Sequence  # [host][fragment][position]
    hosts: Sequence[AnyHost]
    switch: Switch | None
    line: Line
    rng: random.Random
    disturb: Callable[[int, bytes], list[tuple[str, bytes]]] | None = None
    unlucky: tuple[int, int] | None = None
    results: list[set[int]] = field(default_factory=list)  # fragments that have come, of each host
    packets: int = 0

    def run(self) -> None:
        """Until all hosts have all results. Raises Broken."""
        setting, count = self.setting, len(self.hosts)
        self.model, self.now = Model(setting), 0
        self.events: list[tuple[int, int, str, int, bytes]] = []
        self.order, self.wakes = 0, [0] * count
        self.results = [set() for _ in range(count)]
        self.sent: dict[tuple[int, int], list[int]] = {}  # (host, fragment): times of its packets
        for who in range(count):
            self._turn(who, None)
        while self.events and self.events[0][0] <= LIMIT_NS and not self._done():
            self.now, order, what, who, frame = heapq.heappop(self.events)
            if what == "host":
                self.results[who].add(content(frame).number - setting.first)
                for name, each in self.disturb(who, frame) if self.disturb else ():
                    self._stranger(who, name, each)
                self._turn(who, frame)
            elif what == "switch":
                self._in_switch(who, frame)
            elif order == self.wakes[who]:
                self._turn(who, None)
        for who in range(count):
            if len(self.results[who]) < setting.fragments:
                told = f"host {who + 1}: {len(self.results[who])} of {setting.fragments}"
                raise Broken(HOST, "it does not ask again for results that are missing", told)
        sums = [tuple(self._sum(n)) for n in range(setting.fragments)]
        for who, host in enumerate(self.hosts):
            self._compare(who, host.sums(), sums)

    def _done(self) -> bool:
        return all(len(each) == self.setting.fragments for each in self.results)

    def _sum(self, fragment: int) -> list[int]:
        parts = [rows[fragment] for rows in self.values]
        return [wrapped(sum(column)) for column in zip(*parts, strict=True)]

    def _compare(self, who: int, made: Any, sums: list[tuple[int, ...]]) -> None:
        if not isinstance(made, list) or len(made) != len(sums):
            raise Broken(HOST, "sums() returns no list with an entry for each fragment")
        for fragment, (got, want) in enumerate(zip(made, sums, strict=True)):
            right = isinstance(got, list) and all(type(x) is int for x in got)
            if not right or tuple(got) != want:
                told = f"host {who + 1}, fragment {fragment}: {list(want)}, not {got!r}"
                raise Broken(HOST, "its sums are not those that the results had", told[:300])

    def _at(self, time_ns: int, what: str, who: int, frame: bytes = b"") -> None:
        self.order += 1
        heapq.heappush(self.events, (time_ns, self.order, what, who, frame))

    def _turn(self, who: int, frame: bytes | None) -> None:
        sent, wake = self.hosts[who].turn(frame, self.now)
        for each in sent:
            self._send(who, each)
        if wake is not None:
            self._at(wake, "wake", who)
        self.wakes[who] = self.order if wake is not None else 0

    def _stranger(self, who: int, name: str, frame: bytes) -> None:
        """A packet that is not for a host comes to it, which must not make anything of it."""
        before = repr(self.hosts[who].sums())
        try:
            self._turn(who, frame)
        except Failure as failure:
            told = [failure.message, *failure.details]
            raise Broken(HOST, f"it is disturbed by {name}", " ".join(told)[:300]) from None
        if repr(self.hosts[who].sums()) != before:
            raise Broken(HOST, f"it takes {name} for one of its results", frame.hex()[:200])

    def _send(self, who: int, frame: bytes) -> None:
        setting = self.setting
        fault = gradient_fault(frame, setting, who, self.values[who])
        if fault:
            raise Broken(HOST, f"in its packets {fault} is wrong", frame.hex()[:200])
        fragment = content(frame).number - setting.first
        if fragment >= SLOTS and fragment - SLOTS not in self.results[who]:
            raise Broken(HOST, "it sends a fragment while its slot is in use", f"{fragment}")
        if fragment in self.results[who]:
            raise Broken(HOST, "it sends a fragment whose result it has", f"{fragment}")
        times = self.sent.setdefault((who, fragment), [])
        times.append(self.now)
        if len(times) == 2 and fragment < SLOTS:  # nothing has been measured when these are sent
            first = times[1] - times[0]
            if not FIRST_NS <= first <= LATE_FIRST_NS:
                told = f"fragment {fragment}: {first / MS:g} ms"
                raise Broken(HOST, "its first timeout is too short or too long", told)
        if len(times) > 2:
            one, two = times[-2] - times[-3], times[-1] - times[-2]
            most = min(DOUBLED[1] * one, 1.1 * MOST_NS)
            if not min(DOUBLED[0] * one, 0.9 * MOST_NS) <= two <= most:
                told = f"fragment {fragment}: {one / MS:g} ms, then {two / MS:g} ms"
                raise Broken(HOST, "its timeouts do not double up to their limit", told)
        self.packets += 1
        if self.packets > MOST_PACKETS * setting.fragments * len(self.hosts):
            raise Broken(HOST, "it sends too much", f"{self.packets} packets")
        if (who, fragment) != self.unlucky or len(times) > LOST:
            self._carry("switch", who, frame)

    def _carry(self, what: str, who: int, frame: bytes) -> None:
        """A packet over a link, which may lose or double it."""
        if self.rng.random() < self.line.loss:
            return
        arrives = self.now + self.line.delay_ns
        self._at(arrives, what, who, frame)
        if self.rng.random() < self.line.copies:
            latest = self.line.delay_ns << self.rng.randrange(2, LATEST + 1)
            self._at(arrives + self.rng.randrange(1, latest), what, who, frame)

    def _in_switch(self, who: int, frame: bytes) -> None:
        """A gradient is at the switch; its results go back."""
        setting, port = self.setting, self.setting.ports[who]
        wanted = self.model.take(port, content(frame))
        if self.switch is None:
            leaving = [(p, result(p, want)) for p, want in wanted.items()]
        else:
            got = self.switch.burst([(self.now, port, frame)])
            leaving = [(p, data) for _, p, data in got]
            if self.switch.astray:
                raise Broken(SWITCH, ASTRAY)
            self._judge(leaving, wanted)
        for p, data in leaving:
            self._carry("host", setting.ports.index(p), data)

    def _judge(self, leaving: list[tuple[int, bytes]], wanted: dict[int, Content]) -> None:
        ports = sorted(p for p, _ in leaving)
        if ports != sorted(wanted):
            told = f"at ports {ports}, not {sorted(wanted)}"
            what = "a result leaves" if len(ports) > len(wanted) else "a result does not leave"
            raise Broken(SWITCH, f"{what} as it should", told)
        for p, data in leaving:
            fault = result_fault(data, self.setting, p, wanted[p])
            if fault:
                raise Broken(SWITCH, f"in its results {fault} is wrong", data.hex()[:200])
