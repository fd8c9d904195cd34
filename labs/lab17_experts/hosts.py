"""Hosts of lab 17: workers with tokens, which are experts for others' tokens, too."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from typing import Any

from labs.grader.bench import Bench, Failure, Packets, numbers, total
from labs.grader.fabric import Answer, Fabric, Link, P4Node
from labs.grader.jobs import VALUES
from labs.grader.packets import AT_AGG, DATA, GRADIENT, HEADER, NOTHING, RESULT
from labs.grader.senders import Timers
from labs.grader.timing import (
    HEAD,
    PART,
    WHOLE,
    Adder,
    Host,
    Measured,
    Relay,
    elapsed_s,
    frame,
    star,
)
from labs.lab17_experts.model import SLOTS, Message

MS = 1_000_000
MOST_EVENTS = 40_000
ROW = struct.Struct(f"!{VALUES}i")
QUEUE = 6  # packets that a link to a host has room for, where it is short
HEADERS = AT_AGG + HEADER.size + ROW.size  # bytes of a packet with values
BURST_NS = 20 * MS
TOKEN = 3  # a kind of frame beside those of timing.py
DROPPED = 0.2  # share of tokens that an expert drops


class ExpertHost:
    """A worker: it sends its tokens, and answers those of others.

    Args:
        job: checks.Job.
        who: its place in the job's list.
        tokens: those of all workers, by worker and number; a token's values are its answers' key.
        answers: of each token: by expert, values or None.
        slots: its own in the switch; it has at most so many tokens on their way.
    """

    def __init__(
        self, job: Any, who: int, tokens: Sequence[Message], answers: dict, slots: Sequence[int]
    ) -> None:
        self.job, self.who, self.tokens, self.answers = job, who, tokens, answers
        self.free = list(slots)
        self.next = 0
        self.timers = Timers()  # by a token's number
        self.parts: dict[int, dict[int, Sequence[int]]] = {}  # of tokens without a slot
        self.got: set[int] = set()

    @property
    def done(self) -> bool:
        return len(self.got) == len(self.tokens)

    def take(self, now_ns: int, port: int, frame: bytes | None) -> Answer:
        sent: Packets = [] if frame is None else self._heard(frame)
        sent += [self._packet(self.tokens[number]) for number in self.timers.late(now_ns)]
        while self.next < len(self.tokens) and self.free:
            token = self.tokens[self.next]
            token.slot = self.free.pop(0)
            self.timers.start(self.next, now_ns)
            sent.append(self._packet(token))
            self.next += 1
        return sent, self.timers.wake_ns()

    def _packet(self, m: Message) -> tuple[int, bytes]:
        return 0, bytes(self.job.packet(self.job.ports[self.who], m))

    def _heard(self, data: bytes) -> Packets:
        kind, _, _, _, number, slot, worker, bitmap = HEADER.unpack_from(data, AT_AGG)
        if kind == DATA:
            token = Message(DATA, number, slot, worker, bitmap, [])
            experts = self.answers.get((worker, number), {})
            if self.who not in experts:
                text = "a worker gets a token of which it is no expert"
                raise Failure(text, got=[(self.job.ports[self.who], data)], case=text)
            return [self._packet(self.job.answer(token, self.who, experts[self.who]))]
        if worker != self.job.workers[self.who] or number not in self.timers:
            return []
        token = self.tokens[number]
        if kind == RESULT:
            self._ends(token, list(ROW.unpack_from(data, AT_AGG + HEADER.size)), data)
        elif slot >= SLOTS and kind in (GRADIENT, NOTHING):
            values = [0] * VALUES
            if kind == GRADIENT:
                values = list(ROW.unpack_from(data, AT_AGG + HEADER.size))
            parts = self.parts.setdefault(number, {})
            parts[bitmap] = values
            if sum(parts) == token.bitmap:
                self._ends(token, total(parts.values()), data)
        return []

    def _ends(self, token: Message, sums: list[int], data: bytes) -> None:
        """All experts have answered a token."""
        rows = [row for row in self.answers[token.worker, token.number].values() if row is not None]
        wanted = total([[0] * VALUES, *rows])
        if sums != wanted:
            text = "a token's sum is wrong"
            told = f"token {token.number}: {sums}, expected {wanted}"
            raise Failure(text, details=[told], got=[(self.job.ports[self.who], data)], case=text)
        self.got.add(token.number)
        self.free.append(token.slot)
        self.timers.stop(token.number)


def hosts(t: Bench, job: Any, counts: Sequence[int], experts: int, slots: Sequence) -> list:
    """The hosts of a job.

    Args:
        counts: tokens of each.
        experts: of a token, other workers; 0: any number of workers.
        slots: of each.
    """
    answers, made, rng = {}, [], t.random
    for who, count in enumerate(counts):
        tokens = []
        for number in range(count):
            others = [w for w in range(len(job.workers)) if w != who]
            some = rng.sample(others, experts) if experts else job.experts()
            token = job.draw(who, some)
            token.number = number
            tokens.append(token)
            answers[token.worker, number] = {
                e: None if rng.random() < DROPPED else numbers(t, VALUES) for e in some
            }
        made.append(ExpertHost(job, who, tokens, answers, slots[who]))
    return made


def joined(
    job: Any, rng: random.Random, made: Sequence, link: Link, down: Link | None = None
) -> Fabric:
    """The hosts around the submission's switch. `down`: links to hosts, if they are others."""
    net = Fabric(rng)
    net.add("switch", P4Node(job.switch))
    for who, host in enumerate(made):
        net.add(f"host {who}", host)
        net.join((f"host {who}", 0), ("switch", job.ports[who]), link, down)
    return net


def run(net: Fabric, made: Sequence[ExpertHost]) -> None:
    """Until all hosts have all sums. Raises Failure."""
    if not net.run(lambda: all(host.done for host in made), 3000 * MS, MOST_EVENTS):
        left = sum(len(host.tokens) - len(host.got) for host in made)
        text = "some tokens never get their sum"
        raise Failure(f"{text}: {left} after three seconds", case=text)


def exchange(t: Bench, job: Any) -> None:
    """All workers have tokens, and links lose and double packets. A worker has some slots, and at
    times none is left, so it does without."""
    count = len(job.workers)
    delay_ns, loss = t.random.randrange(5, 20) * 1000, t.random.uniform(0.1, 0.2)
    link = Link(delay_ns, 4.0, loss, t.random.uniform(0.2, 0.3), 8 * delay_ns)
    own = t.random.sample(range(SLOTS), 2 * count)
    slots = [[own[2 * w], SLOTS + w, own[2 * w + 1]] for w in range(count)]
    made = hosts(t, job, [t.random.randrange(12, 20) for _ in range(count)], 0, slots)
    net = joined(job, t.random, made, link)
    run(net, made)
    t.note(f"{count} workers, {sum(len(host.tokens) for host in made)} tokens,")
    t.note(f"{net.now_ns / 1e6:.1f} ms of virtual time")


def incast(t: Bench, job: Any) -> None:
    """One worker has all tokens, and the queue of its link is short. With slots nothing may be
    dropped. What happens without them is told."""
    count, tokens = len(job.workers), SLOTS
    experts, told = count - 1, list[str]()
    up, down = Link(1000, 8.0), Link(1000, 8.0, queue_bytes=QUEUE * HEADERS)
    for name, slots in (("combined", range(SLOTS)), ("without slots", range(SLOTS, 2 * SLOTS))):
        made = hosts(t, job, [tokens, *[0] * (count - 1)], experts, [slots, *[[]] * (count - 1)])
        net = joined(job, t.random, made, up, down)
        t.case = f"a burst, {name}"
        if name == "combined":
            run(net, made)
        else:
            net.run(lambda: False, BURST_NS)
        n = net.counts["switch", job.ports[0]]
        told.append(
            f"{name}: {len(made[0].got)} of {tokens} tokens have come back in"
            f" {net.now_ns / 1e6:.2f} ms, and {n.dropped} packets were dropped"
        )
        if name == "combined" and n.dropped:
            text = "packets are dropped although their sums would have had room"
            raise Failure(text, details=told, case=text)
    t.notes += told


def measured(rng: random.Random) -> list[Measured]:
    """Exchanges of several sizes, measured without losses."""
    made: list[Measured] = []
    for experts in (2, rng.randrange(3, 5), 6):
        workers, tokens = 8, rng.randrange(50, 70)
        packet, byte_ns = rng.randrange(80, 300), rng.randrange(1, 5)
        delay = round(rng.uniform(0.1, 0.25) * tokens * packet * byte_ns)
        link, units = Link(delay, byte_ns), (2 * delay / 1e9, byte_ns / 1e9)
        arguments = (tokens, experts, packet, *units)
        for name, switch in (("apart_s", False), ("together_s", True)):
            value = _exchange_s(workers, tokens, experts, packet, link, switch)
            made.append(Measured(name, arguments, value))
        for queue in (rng.randrange(10, 20), experts * tokens):
            value = _dropped(tokens, experts, packet, queue, byte_ns)
            made.append(Measured("dropped", (tokens, experts, queue), value))
    return made


class TokenHost(Host):
    """Sends frames, and answers tokens with frames of a kind."""

    def __init__(self, frames: Sequence[bytes], kind: int, size: int) -> None:
        super().__init__(frames)
        self.kind, self.size = kind, size

    def take(self, now_ns: int, port: int, data: bytes | None) -> Answer:
        sent = super().take(now_ns, port, data)
        if data is None or HEAD.unpack_from(data)[0] != TOKEN:
            return sent
        number = HEAD.unpack_from(data)[2]
        return [(0, frame(self.kind, number >> 16, number, self.size))], None


def _experts(workers: int, experts: int, number: int) -> list[int]:
    """The experts of a token; its number has its worker in the upper half. All workers have equally
    many."""
    owner, token = number >> 16, number & 0xFFFF
    return [(owner + 1 + (token + j) % (workers - 1)) % workers for j in range(experts)]


def _exchange_s(
    workers: int, tokens: int, experts: int, packet: int, link: Link, combined: bool
) -> float:
    """Seconds until all workers have what they get for their tokens."""

    def of(number: int) -> list[int]:
        return _experts(workers, experts, number)

    made = []
    for who in range(workers):
        own = [who << 16 | n for n in range(tokens)]
        if combined:
            frames = [frame(TOKEN, 0, number, packet) for number in own]
        else:
            frames = [frame(TOKEN, e, number, packet) for number in own for e in of(number)]
        made.append(TokenHost(frames, PART if combined else WHOLE, packet))
    switch: Relay = Relay()
    if combined:
        switch = Adder(
            lambda number: experts,
            lambda number: [(number >> 16, frame(WHOLE, 0, number, packet))],
            lambda port, data: [(e, data) for e in of(HEAD.unpack_from(data)[2])],
        )
    wanted = tokens * (1 if combined else experts)
    return elapsed_s(star(made, switch, link), lambda: all(h.got[WHOLE] == wanted for h in made))


class Spreader(Relay):
    """Copies tokens to all hosts but the first, and passes everything else on."""

    def __init__(self, experts: int) -> None:
        self.experts = range(1, experts + 1)

    def passed(self, port: int, data: bytes) -> Packets:
        if HEAD.unpack_from(data)[0] == TOKEN:
            return [(e, data) for e in self.experts]
        return super().passed(port, data)


def _dropped(tokens: int, experts: int, packet: int, queue: int, byte_ns: float) -> int:
    """Answers that are dropped before a worker's link."""
    first = TokenHost([frame(TOKEN, 0, n, packet) for n in range(tokens)], WHOLE, packet)
    made = [first, *(TokenHost([], WHOLE, packet) for _ in range(experts))]
    up, down = Link(100, byte_ns), Link(100, byte_ns, queue_bytes=queue * packet)
    net = Fabric(random.Random(0))
    net.add("switch", Spreader(experts))
    for n, host in enumerate(made):
        net.add(f"host {n}", host)
        net.join((f"host {n}", 0), ("switch", n), up, down)
    net.run(lambda: False, 1 << 50)
    return net.counts["switch", 0].dropped
