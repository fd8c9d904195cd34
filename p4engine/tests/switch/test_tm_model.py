"""Links and queues against a slow model of the same rules in exact fractions: when each packet
leaves, what it has seen of its queue, which are dropped, and every count."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from random import Random
from typing import Any, NamedTuple

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st
from p4engine.switch.traffic_manager import Manager
from test_tm_pipeline import seen

SECOND = 10**9
OPTIONS = ("rate_bps", "rate_pps", "queues", "queue_packets", "queue_bytes", "delay_ns")
META = 40  # bytes of metadata that the fake program adds in egress


class NewRate(NamedTuple):
    """An event: a queue, or all of them, gets another rate."""

    gap: int
    per_second: int
    queue: int | None


class Rate:
    """A limit in units/s: the moment from which the next one may go, in exact fractions. A pause
    begins anew at a whole nanosecond."""

    def __init__(self, per_second: int = 0) -> None:
        self.per_second, self.free = per_second, Fraction(0)

    def start(self, now: int) -> Fraction:
        return self.free if self.per_second and int(self.free) >= now else Fraction(now)

    def take(self, now: int, units: int) -> int:
        """`units` go as soon as they may; when the last one has gone."""
        if not self.per_second:
            return now
        self.free = self.start(now) + Fraction(units * SECOND, self.per_second)
        return int(self.free)

    def cut(self, now: int) -> None:
        """Forget fractions, and what would have been later than now."""
        self.free = Fraction(min(int(self.free), now))

    def change(self, per_second: int) -> None:
        """Another rate; a fraction of the old one is forgotten."""
        self.per_second, self.free = per_second, Fraction(int(self.free))


class Model:
    """A port's link in one direction, with its queues; `left` is (time, queue, number,
    what it saw of the queue).

    An egress queue keeps its packets until they may go. The far end of an ingress link knows at
    once when each will: what waits there is on its way already.
    """

    def __init__(
        self, egress, rate_bps, rate_pps, queues, queue_packets, queue_bytes, delay_ns
    ) -> None:
        self.link, self.delay_ns, self.egress = Rate(rate_bps), delay_ns, egress
        # With one queue, a rate in packets/s limits the link, which is then busy for as long.
        self.pace = [Rate(rate_pps) for _ in range(queues)]
        self.limits = (queue_packets, queue_bytes)
        self.waiting: list[list[tuple[int, int, int, int]]] = [[] for _ in range(queues)]
        self.counts: Counter = Counter()
        self.left: list[tuple[int, int, int, tuple[int, int, int]]] = []
        self.down = False
        self.last_exit = 0

    def next(self) -> tuple[int, int] | None:
        """(time, queue) of what leaves next."""
        if not self.egress:
            return None
        link = int(self.link.free)
        ways = [(max(int(self.pace[q].free), link), -q) for q, w in enumerate(self.waiting) if w]
        return (min(ways)[0], -min(ways)[1]) if ways else None

    def serve(self, until: int) -> None:
        while (way := self.next()) and way[0] <= until:
            time, queue = way
            came, number, size, depth = self.waiting[queue].pop(0)
            self.leave(max(time, came), queue, came, number, size, depth)
        for own in [] if self.egress else self.waiting:
            own[:] = [each for each in own if each[0] > until]

    def leave(self, now: int, queue: int, came: int, number: int, size: int, depth: int) -> None:
        size += META if self.egress else 0
        start = max(now, int(self.link.start(now)))
        if not (self.down and len(self.pace) == 1):
            self.pace[queue].take(now, 1)
        if self.down:
            self.counts["down_drops"] += 1
            return
        end = self.link.take(now, 8 * size)
        self.counts["busy_ns"] += end - start
        for name in ("packets", f"packets {queue}"):
            self.counts[name] += 1
        for name in ("bytes", f"bytes {queue}"):
            self.counts[name] += size
        self.last_exit = max(self.last_exit, end + self.delay_ns)
        self.left.append(
            (
                self.last_exit,
                queue,
                number,
                (depth, len(self.waiting[queue]), now - came & 0xFFFFFFFF),
            )
        )

    def packet(self, now: int, number: int, size: int, queue: int) -> None:
        self.serve(now)
        if queue >= len(self.waiting):
            self.counts["queue_drops"] += 1
            return
        own = self.waiting[queue]
        packets, octets = self.limits
        free = max(int(self.pace[queue].free), int(self.link.free)) <= now
        if own or not free:
            if len(own) >= packets or sum(each[2] for each in own) + size > octets:
                self.counts["queue_drops"] += 1
                self.counts[f"queue_drops {queue}"] += 1
                return
            begins = now if self.egress else int(self.link.start(now))
            own.append((begins, number, size, len(own)))
            if not self.egress:
                self.leave(now, queue, now, number, size, 0)
            for name, value in (
                ("max_queue", sum(map(len, self.waiting))),
                (f"max_queue {queue}", len(own)),
            ):
                self.counts[name] = max(self.counts[name], value)
        else:
            self.leave(now, queue, now, number, size, 0)

    def rate(self, now: int, event: NewRate) -> None:
        self.serve(now)
        if len(self.pace) == 1 or event.queue is None:
            self.link.change(self.link.per_second)
        for queue, pace in enumerate(self.pace):
            if len(self.pace) == 1 or (
                event.queue in (None, queue) and pace.per_second != event.per_second
            ):
                pace.change(event.per_second)

    def toggle(self, now: int) -> None:
        """The link fails, and with it what waits or is on its way; or it comes back."""
        self.serve(now)
        self.down = not self.down
        if self.down:
            for queue, own in enumerate(self.waiting):
                self.counts["down_drops"] += len(own) if self.egress else 0
                self.counts[f"queue_drops {queue}"] += len(own)
                own.clear()
            arrived = [each for each in self.left if each[0] <= now]
            self.counts["down_drops"] += len(self.left) - len(arrived)
            self.left = arrived
        for rate in (self.link, *(self.pace if len(self.pace) == 1 else ())):
            rate.cut(now)
        self.last_exit = min(self.last_exit, now)


def scenario(random: Random, egress: bool) -> dict[str, Any]:
    """A link and packets that meet in its queues; an event is (gap, size, queue), a new rate, or a
    gap after which the link fails or comes back."""
    rates = (0, 7, 512_000_000, 100 * SECOND, *(random.randrange(8_000_000, 4 * SECOND),) * 8)
    rate_bps, queues = random.choice(rates), random.randint(1, 3) if egress else 1
    paced = egress and (queues > 1 or not rate_bps) and random.random() < 0.4
    if paced and queues > 1:
        rate_bps = random.choice((0, 100 * SECOND, rate_bps))  # mostly the pace decides
    most = random.choice((1500, 1500, 8000))

    def gap() -> int:
        return random.choice((0, 0, random.randrange(most)))

    def event() -> int | NewRate | tuple[int, int, int]:
        if random.random() < 0.04:
            return gap()
        if paced and random.random() < 0.15:
            rate = random.choice((SECOND, random.randrange(10**5, 10**7)))
            return NewRate(gap(), rate, random.choice((None, *range(queues))))
        size = random.choice((100, 200, random.randint(12, 1600)))  # so that some just fit
        return gap(), size, random.randint(0, 3)

    return {
        "rate_bps": rate_bps,
        "rate_pps": random.randrange(1000, 10**7) if paced else 0,
        "queues": queues,
        "queue_packets": random.choice((0, 1, 2, 5, 40)),
        "queue_bytes": random.choice((1 << 62, 100 * random.randrange(40))),
        "delay_ns": random.choice((0, random.randrange(2000))),
        "events": [event() for _ in range(random.randint(1, 60))],
    }


@pytest.mark.parametrize("direction", ["ingress", "egress"])
@settings(max_examples=150, deadline=None)
@given(random=st.randoms(use_true_random=True))
def test_a_port_does_what_the_model_does(fake_library, direction, random):
    egress = direction == "egress"
    drawn = scenario(random, egress)
    events, rate_pps, queues = (drawn[name] for name in ("events", "rate_pps", "queues"))
    note(drawn)
    model = Model(egress, *(drawn[name] for name in OPTIONS))
    handle = fake_library.p4_create(None)
    tm = Manager(fake_library, handle, ports=[1, 2], priority_queues=queues, timestamp_unit_ns=1)
    port = 2 if egress else 1
    try:
        shape = ("rate_bps", "queue_packets", "queue_bytes", "delay_ns")
        tm.port_shape(port, direction, **{name: drawn[name] for name in shape})
        if rate_pps:
            tm.queue_rate(rate_pps, port)
        now, up = 0, True
        out = []
        for number, event in enumerate(events):
            now += event if isinstance(event, int) else event[0]
            if isinstance(event, int):
                out += tm.advance(now)
                up = not up
                tm.port_up(port, up)
                model.toggle(now)
                continue
            if isinstance(event, NewRate):
                out += tm.advance(now)
                tm.queue_rate(event.per_second, port, event.queue)
                model.rate(now, event)
                continue
            _, size, queue = event
            head = bytes([ord("Q"), 2, queue, 0, ord("m") if egress else 0, number])
            tm.receive(1, head + bytes(size - len(head)), now)
            model.packet(now, number, size, queue if queues > 1 else 0)
        out += tm.run()
        model.serve(1 << 80)
        [row] = [
            each
            for each in tm.port_stats()
            if (each["port"], each["direction"]) == (port, direction)
        ]
        rows = [each for each in tm.queue_stats() if each["port"] == port] if egress else []
    finally:
        tm.close()
        fake_library.p4_destroy(handle)
    names = ("enq_qdepth", "deq_qdepth", "deq_timedelta")
    found = [
        (time, data[1], data[5], tuple(seen(data)[name] for name in names) if egress else None)
        for time, _, data in out
    ]
    assert found == [(*each, depths if egress else None) for *each, depths in model.left]
    for name in ("packets", "bytes", "queue_drops", "down_drops", "max_queue", "busy_ns"):
        assert row[name] == model.counts[name], name
    assert row["queue"] == 0
    for each in rows:
        for name in ("packets", "bytes", "queue_drops", "max_queue"):
            own = f"{name} {each['priority']}" if queues > 1 else name
            assert each[name] == model.counts[own], (name, each)
