"""Times of exchanges in a network in virtual time: students' alpha-beta models are compared with.

Hosts and switches here do no more than the time needs: their frames have a size, a receiver and a
number, and no values. Host n is at port n of a switch.
"""

from __future__ import annotations

import random
import struct
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from labs.grader.bench import Failure, Packets, Python
from labs.grader.fabric import Answer, Fabric, Link, Node

HEAD = struct.Struct("!BBI")  # kind, receiver, number
PART, WHOLE, NOTE = (
    0,
    1,
    2,
)  # kinds: a host's part of a sum; what goes to a host; one without values
LIMIT_NS = 1 << 50


def frame(kind: int, to: int, number: int, size: int) -> bytes:
    return HEAD.pack(kind, to, number) + bytes(size - HEAD.size)


class Host:
    """Sends frames at the beginning, and counts what comes, by kind."""

    def __init__(self, frames: Sequence[bytes] = ()) -> None:
        self.frames, self.got = frames, Counter[int]()

    def take(self, now_ns: int, port: int, frame: bytes | None) -> Answer:
        if frame is None:
            return [(0, each) for each in self.frames], None
        self.got[HEAD.unpack_from(frame)[0]] += 1
        return [], None


class RingHost(Host):
    """A host of a ring all-reduce: it sends a chunk to its neighbour in each of 2 (workers - 1)
    steps, and the next one when one has come."""

    def __init__(self, me: int, workers: int, frames: int, size: int) -> None:
        chunk = [frame(WHOLE, (me + 1) % workers, n, size) for n in range(frames)]
        super().__init__(chunk)
        self.left = 2 * (workers - 1)

    @property
    def done(self) -> bool:
        return self.left == 0

    def take(self, now_ns: int, port: int, frame: bytes | None) -> Answer:
        sent = super().take(now_ns, port, frame)
        if frame is None:
            return sent
        if self.got[WHOLE] % len(self.frames) == 0:
            self.left -= 1
            if self.left:
                return [(0, each) for each in self.frames], None
        return [], None


class Relay:
    """A switch that passes frames to their receivers."""

    def take(self, now_ns: int, port: int, frame: bytes | None) -> Answer:
        return ([] if frame is None else self.passed(port, frame)), None

    def passed(self, port: int, frame: bytes) -> Packets:
        return [(HEAD.unpack_from(frame)[1], frame)]


class Adder(Relay):
    """A switch that adds up: the last of `inputs` parts with a number makes frames leave. Others
    are passed on, or copied by `spread`."""

    def __init__(
        self,
        inputs: Callable[[int], int],
        leaving: Callable[[int], Packets],
        spread: Callable[[int, bytes], Packets] | None = None,
    ) -> None:
        self.inputs, self.leaving, self.spread = inputs, leaving, spread
        self.seen: Counter[int] = Counter()

    def passed(self, port: int, frame: bytes) -> Packets:
        kind, _, number = HEAD.unpack_from(frame)
        if kind != PART:
            return self.spread(port, frame) if self.spread else super().passed(port, frame)
        self.seen[number] += 1
        return self.leaving(number) if self.seen[number] == self.inputs(number) else []


def star(hosts: Sequence[Node], switch: Node, link: Link) -> Fabric:
    """Hosts around a switch."""
    made = Fabric(random.Random(0))
    made.add("switch", switch)
    for n, host in enumerate(hosts):
        made.add(f"host {n}", host)
        made.join((f"host {n}", 0), ("switch", n), link)
    return made


def elapsed_s(network: Fabric, done: Callable[[], bool]) -> float:
    """Seconds until it is done."""
    assert network.run(done, LIMIT_NS), "the exchange does not end"
    return network.now_ns / 1e9


def ring_s(workers: int, frames: int, size: int, link: Link) -> float:
    """Seconds of a ring all-reduce, or of a reduce-scatter and an all-gather, in chunks of so many
    frames."""
    hosts = [RingHost(n, workers, frames, size) for n in range(workers)]
    return elapsed_s(star(hosts, Relay(), link), lambda: all(host.done for host in hosts))


@dataclass(frozen=True)
class Measured:
    """An exchange that has been measured, and the arguments of the function that predicts it."""

    name: str
    arguments: tuple
    value: float


def compare(p: Python, measured: Sequence[Measured], room: float) -> None:
    """A model is as close to each measurement as `room`, a share of it. Raises Failure."""
    for each in measured:
        got = p.function(each.name, *each.arguments)
        if type(got) not in (int, float) or not abs(got - each.value) <= room * each.value:
            text = f"{each.name} is more than {room:.0%} away from what was measured"
            told = f"{each.name}{each.arguments}: measured {each.value:.6g}, yours {got!r}"
            raise Failure(text, details=[told[:300]], case=text)
