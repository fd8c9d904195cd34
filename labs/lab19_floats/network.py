"""A network in virtual time: workers, a submission's switch, and a submission's server."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from labs.grader.bench import Bench, Failure, Packets, Python
from labs.grader.fabric import Answer, Fabric, Link, P4Node
from labs.grader.histories import Message
from labs.grader.jobs import SLOTS, VALUES, header
from labs.grader.packets import AT_AGG, GRADIENT, HEADER, RESULT
from labs.grader.senders import WindowSender
from labs.lab19_floats.jobs import Job
from labs.lab19_floats.model import OVERFLOW, shown, totals

LIMIT_NS = 3_000_000_000
MOST_EVENTS = 40_000
ROW = struct.Struct(f"!{VALUES}I")


class FloatHost(WindowSender):
    """A worker.

    Args:
        job: the worker's.
        who: the worker, by its place in the job's list.
        rows: all workers' numbers, of each fragment.
        base: of all fragments.
    """

    def __init__(self, job: Job, who: int, rows: Sequence, base: int) -> None:
        super().__init__(len(rows))
        self.job, self.who, self.rows, self.base = job, who, rows, base

    def packet(self, fragment: int, again: bool) -> bytes:
        m = self.job.message(self.who, self.rows[fragment][self.who], fragment, self.base)
        return bytes(self.job.packet(self.job.ports[self.who], m))

    def result(self, data: bytes) -> int | None:
        kind, _, _, number, _ = header(data)
        fragment = number - self.job.first
        if kind != RESULT or not 0 <= fragment < self.fragments:
            return None
        want, values = totals(self.rows[fragment]), data[AT_AGG + HEADER.size :]
        got = list(ROW.unpack(values)) if len(values) == ROW.size else []
        if got != want:
            wrong = [n for n, (a, b) in enumerate(zip(want, got, strict=False)) if a != b]
            at = wrong[0] if wrong else 0
            text = "a worker gets a sum that is not exact"
            told = f"value {at}: expected {shown(want[at])}, got {got[at] if got else 'none'}"
            raise Failure(text, details=[f"fragment {fragment}, {told}"], case=text)
        return fragment


class ServerHost:
    """A host with a submission's `Server`."""

    def __init__(self, p: Python, job: Job, base: int) -> None:
        self.p, self.job, self.base = p, job, base
        self.number = p.make("Server", job.everyone)
        self.fragments: set[int] = set()

    def take(self, now_ns: int, port: int, frame: bytes | None) -> Answer:
        if frame is None:
            return [], None
        kind, flags, _, number, bitmap = header(frame)
        values = frame[AT_AGG + HEADER.size :]
        if kind != GRADIENT or not flags & OVERFLOW or len(values) != ROW.size:
            text = "a packet comes to the server that is no gradient with the flag OVERFLOW"
            raise Failure(text, got=[(self.job.server, frame)], case=text)
        self.fragments.add(number)
        codes = [value & 0xFFFF for value in ROW.unpack(values)]
        made = self.p.method(self.number, "take", number, bitmap, codes)
        sent: Packets = []
        if made is not None:
            right = type(made) is list and len(made) == VALUES
            if not right or any(type(c) is not int or c not in range(1 << 16) for c in made):
                raise Failure(f"take() returns {made!r:.200}", case="take() returns no codes")
            m = Message(RESULT, 0, number, self.base, self.job.everyone, made)
            sent = [(0, bytes(self.job.packet(self.job.server, m)))]
        return sent, None


def exchange(t: Bench, job: Job, rows: Sequence, base: int) -> None:
    """All workers send all fragments over links that lose, copy and reorder packets. Raises
    Failure.

    Args:
        job: one with a server.
        rows: numbers of each fragment, of each worker.
    """
    rng = t.random
    delay_ns = rng.randrange(5, 20) * 1000
    link = Link(delay_ns, 4.0, rng.uniform(0.03, 0.08), 0.1, 8 * delay_ns)
    net = Fabric(rng)
    net.add("switch", P4Node(job.switch))
    hosts = [FloatHost(job, who, rows, base) for who in range(len(job.ports))]
    for host in hosts:
        name = f"host {host.who}"
        net.add(name, host)
        net.join((name, 0), ("switch", job.ports[host.who]), link)
    server = ServerHost(t.python(), job, base)
    net.add("server", server)
    net.join(("server", 0), ("switch", job.server), link)
    if not net.run(lambda: all(host.done for host in hosts), LIMIT_NS, MOST_EVENTS):
        left = sum(len(rows) - len(host.got) for host in hosts)
        text = "some results never come"
        raise Failure(f"{text}: {left} are missing after three seconds", case=text)
    t.note(
        f"{len(hosts)} workers, {len(rows)} fragments, {SLOTS} slots: the server added"
        f" {len(server.fragments)}; {net.now_ns / 1e6:.1f} ms"
    )
