"""Hosts of lab 16: those that gather with a submission's receivers and owners, and those whose time
is measured."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from typing import Any

from labs.grader.bench import Failure, Packets, Python
from labs.grader.fabric import Answer, Link
from labs.grader.jobs import VALUES, header
from labs.grader.packets import AT_AGG, DATA, HEADER, RECEIPT, REMINDER, RESULT
from labs.grader.senders import WindowSender
from labs.grader.timing import (
    NOTE,
    PART,
    WHOLE,
    Adder,
    Host,
    Measured,
    elapsed_s,
    frame,
    ring_s,
    star,
)

ROW = struct.Struct(f"!{VALUES}i")


class ScatterHost(WindowSender):
    """A worker in a reduce-scatter.

    Args:
        job: checks.Job.
        values: its own, of all fragments.
        sums: the right ones.
    """

    def __init__(self, job: Any, who: int, values: Sequence, sums: Sequence) -> None:
        super().__init__(job.fragments)
        self.job, self.who, self.values, self.sums = job, who, values, sums

    def packet(self, fragment: int, again: bool) -> bytes:
        return bytes(self.job.gradient(self.who, self.values[fragment], fragment))

    def result(self, data: bytes) -> int | None:
        kind, _, _, number, _ = header(data)
        fragment = number - self.job.first
        if fragment not in range(self.fragments):
            return None
        mine = self.job.owner(fragment) == self.who
        wanted = ROW.pack(*self.sums[fragment]) if mine else b""
        if kind != (RESULT if mine else RECEIPT) or data[AT_AGG + HEADER.size :] != wanted:
            text = "a worker gets neither the sum of its fragment nor a receipt"
            raise Failure(text, got=[(self.job.ports[self.who], data)], case=text)
        return fragment


class GatherHost:
    """A worker with a submission's `Owner` and `Receiver`, which sends a packet of its shard
    whenever its link is free.

    Args:
        job: checks.Job.
        values: of all fragments.
    """

    def __init__(self, p: Python, job: Any, who: int, values: Sequence, link: Link) -> None:
        self.p, self.job, self.who, self.values = p, job, who, values
        first, count = job.shards[who]
        others = [s for w, s in enumerate(job.shards) if w != who]
        self.missing = {n for at, size in others for n in range(at, at + size)}
        ahead = [[job.first + at, size] for at, size in others]
        self.receiver = p.make("Receiver", ahead)
        bits = job.everyone & ~(1 << job.workers[who])
        self.owner = p.make("Owner", job.first + first, count, bits)
        self.gap_ns = round(link.byte_ns * len(bytes(job.data(who, 0, 0, values[0])))) + 1
        self.free_ns = 0
        self.frames: dict[tuple[int, int | None], bytes] = {}  # that have been made

    @property
    def done(self) -> bool:
        return not self.missing

    def take(self, now_ns: int, port: int, frame: bytes | None) -> Answer:
        calls = []
        if frame is not None:
            calls = self._heard(frame, now_ns)
        calls += [(self.receiver, "requests", [now_ns]), (self.receiver, "wake_ns", [])]
        free = self.free_ns <= now_ns
        if free:
            calls.append((self.owner, "next", []))
        answers = self.p.methods(calls)
        packet = answers.pop() if free else None
        numbers, wake = answers[-2:]
        sent: Packets = [(0, self._frame(n, None)) for n in self._own(numbers)]
        if packet is not None:
            sent.append((0, self._data(packet)))
            self.free_ns = now_ns + self.gap_ns
        times = [self.free_ns] if packet is not None or not free else []
        if type(wake) is int and wake > now_ns:
            times.append(wake)
        return sent, min(times, default=None)

    def _heard(self, frame: bytes, now_ns: int) -> list[tuple[int, str, list]]:
        kind, _, _, number, bitmap = header(frame)
        if kind == REMINDER:
            return [(self.owner, "asked", [number, bitmap])]
        fragment = number - self.job.first
        right = ROW.pack(*self.values[fragment]) if 0 <= fragment < len(self.values) else b""
        if kind != DATA or frame[AT_AGG + HEADER.size :] != right:
            text = "a host gets a packet that nobody has sent"
            raise Failure(text, got=[(self.job.ports[self.who], frame)], case=text)
        self.missing.discard(fragment)
        return [(self.receiver, "arrived", [number, now_ns])]

    def _own(self, numbers: Any) -> list[int]:
        """The fragments asked for, counted from 0."""
        known = range(self.job.first, self.job.first + len(self.values))
        if type(numbers) is not list or not all(type(n) is int and n in known for n in numbers):
            text = "requests() returns no list of the job's fragments"
            raise Failure(text, details=[f"requests() gave {numbers!r}"[:200]], case=text)
        return [n - self.job.first for n in numbers]

    def _data(self, packet: Any) -> bytes:
        right = type(packet) is list and [type(x) for x in packet] == [int, int]
        first, count = self.job.shards[self.who]
        if not right or not first <= packet[0] - self.job.first < first + count:
            text = "next() returns no fragment of the shard with a bitmap"
            raise Failure(text, details=[f"next() gave {packet!r}"[:200]], case=text)
        return self._frame(packet[0] - self.job.first, packet[1] & 0xFFFFFFFF)

    def _frame(self, fragment: int, receivers: int | None) -> bytes:
        """A fragment for some receivers; None: a request for it."""
        key = fragment, receivers
        if key not in self.frames:
            made = self.job.request(self.who, fragment)
            if receivers is not None:
                made = self.job.data(self.who, fragment, receivers, self.values[fragment])
            self.frames[key] = bytes(made)
        return self.frames[key]


def measured(rng: random.Random) -> list[Measured]:
    """Exchanges of several sizes, measured without losses."""
    made: list[Measured] = []
    for workers, receipt in ((3, 40), (8, 100), (rng.randrange(5, 8), 120)):
        packet, share = rng.randrange(220, 300), rng.randrange(70, 90)
        fragments, byte_ns = workers * share, rng.uniform(0.1, 4.0)
        delay = round(rng.uniform(0.05, 0.3) * fragments * packet * byte_ns)
        link = Link(delay, byte_ns)
        arguments = (workers, fragments, packet)
        units = (2 * delay / 1e9, byte_ns / 1e9)
        ring = ring_s(workers, share, packet, link)
        made.append(Measured("ring_s", (*arguments, *units), ring))
        for name, scatter, gather in (
            ("scatter_s", True, False),
            ("gather_s", False, True),
            ("both_s", True, True),
        ):
            value = _exchange_s(workers, share, packet, receipt, link, scatter, gather)
            more = (receipt,) if name == "both_s" else ()
            made.append(Measured(name, (*arguments, *more, *units), value))
    return made


def _exchange_s(
    workers: int,
    share: int,
    packet: int,
    receipt: int,
    link: Link,
    scatter: bool,
    gather: bool,
) -> float:
    """Seconds of a reduce-scatter, an all-gather, or both at the same time, by a switch."""
    count, others = workers * share, workers - 1
    parts = [frame(PART, 0, n, packet) for n in range(count)] if scatter else []

    def sums(number: int) -> Packets:
        owner = number % workers  # owners in turn, so that no link is busier than others for long
        made = [(w, frame(NOTE, w, number, receipt)) for w in range(workers) if w != owner]
        return [*made, (owner, frame(WHOLE, owner, number, packet))]

    def spread(port: int, data: bytes) -> Packets:
        return [(w, data) for w in range(workers) if w != port]

    hosts = []
    for _ in range(workers):
        mine = [frame(WHOLE, 0, n, packet) for n in range(share)] if gather else []
        mixed: list[tuple[float, bytes]] = [(n + 1, each) for n, each in enumerate(parts)]
        mixed += [((n + 0.5) * workers, each) for n, each in enumerate(mine)]
        hosts.append(Host([each for _, each in sorted(mixed, key=lambda pair: pair[0])]))
    whole = share * scatter + others * share * gather
    notes = (count - share) * scatter
    switch = Adder(lambda number: workers, sums, spread)
    return elapsed_s(
        star(hosts, switch, link),
        lambda: all(h.got[WHOLE] == whole and h.got[NOTE] == notes for h in hosts),
    )
