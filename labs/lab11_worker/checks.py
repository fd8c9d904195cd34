"""Checks of lab 11: a worker that gets every result, fast, and without sending too much."""

from __future__ import annotations

from collections.abc import Callable

from labs.grader.bench import Bench, Failure
from labs.grader.lab import Lab
from labs.lab11_worker.network import FIRST_NS, MOST_NS, MS, US, Line, Record, run

LAB = Lab(title="A worker", hand_in=("worker.py",), module="worker.py")
NEAR = (0.75, 1.35)  # of the timeout in the hand-out, which can be computed in several ways
MOST_FAR = 0.1  # of the waits


def steady(t: Bench, round_trip_ns: int, jitter: float = 0.0) -> Callable[[int], int]:
    """Half a round trip, up to `jitter` more."""
    half = round_trip_ns // 2
    return lambda _: half + t.random.randrange(int(half * jitter) + 1)


def draw_window(t: Bench) -> int:
    return t.random.randrange(4, 25)


def once_each(record: Record, case: str) -> None:
    """No fragment was sent twice. Raises Failure."""
    if record.again:
        text = "nothing was lost, and fragments are sent again"
        raise Failure(f"{text}: {record.again} packets ({case})", case=f"{text} ({case})")


@LAB.check(10, "The window is used, and no slot is used twice at a time")
def window(t: Bench) -> None:
    p = t.python()
    for many in (True, False):
        t.case = "more fragments than the window" if many else "fewer fragments than the window"
        size = draw_window(t)
        fragments = size * t.random.randrange(3, 6) if many else size - 2
        line = Line(steady(t, t.random.randrange(50, 300) * US, 1.0))
        made = run(t, p, fragments, size, line)
        first = [n for at, n in made.sent if at == 0]
        if first != list(range(min(size, fragments))):
            text = f"at first the worker sends {len(first)} fragments"
            raise Failure(f"{text}; the window is {size}, of {fragments}", case="the first window")
        late = [n for n in range(size, fragments) if made.times(n)[0] > made.results[n - size]]
        if late:
            text = "a fragment is sent later than its slot is free"
            raise Failure(f"{text}: {late[0]}", case=text)


@LAB.check(10, "Without loss every fragment is sent once, however long the round trip is")
def once(t: Bench) -> None:
    p = t.python()
    for low, high in ((20, 60), (100, 400), (500, 900)):
        t.case = f"round trips of {low} to {high} us"
        size, trip = draw_window(t), t.random.randrange(low, high) * US
        made = run(t, p, 4 * size, size, Line(steady(t, trip, 0.1)))
        once_each(made, t.case)


@LAB.check(15, "Every result comes, although packets of both directions are lost")
def lossy(t: Bench) -> None:
    p = t.python()
    for low, high in ((0.02, 0.1), (0.2, 0.35)):
        t.case = f"{low:.0%} to {high:.0%} of the packets are lost"
        size, loss = draw_window(t), t.random.uniform(low, high)
        line = Line(steady(t, t.random.randrange(80, 200) * US, 0.2), loss)
        made = run(t, p, 6 * size, size, line)
        t.note(f"{loss:.0%} lost: {6 * size} results after {made.end_ns / MS:.3g} ms")


@LAB.check(10, "Results that come twice or out of order do no harm")
def strange(t: Bench) -> None:
    size, p = draw_window(t), t.python()
    trip = t.random.randrange(100, 200) * US
    line = Line(steady(t, trip, 2.0), loss=0.05, copies=0.4, others_ns=trip // 2)
    run(t, p, 6 * size, size, line)


@LAB.check(10, "The timer follows the round trip: lost packets are sent again soon")
def fast(t: Bench) -> None:
    p = t.python()
    lines = {
        "short round trips": steady(t, t.random.randrange(4, 9) * US, 0.05),
        "round trips that hardly differ": steady(t, t.random.randrange(40, 200) * US, 0.05),
        "round trips that differ": steady(t, t.random.randrange(60, 120) * US, 4.0),
        "round trips that become longer": _changing(t, t.random.uniform(4, 8)),
        "round trips that become shorter": _changing(t, 1 / t.random.uniform(4, 8)),
    }
    for t.case, one_way in lines.items():
        size = t.random.randrange(8, 20)
        fragments = size * t.random.randrange(20, 30)
        line = Line(one_way, loss=t.random.uniform(0.02, 0.04), copies=0.3)
        made = run(t, p, fragments, size, line)
        waits = [
            ((times[1] - times[0]) / made.timeouts[n], n)
            for n in range(fragments)
            if len(times := made.times(n)) > 1
        ]
        far = [(ratio, n) for ratio, n in waits if not NEAR[0] <= ratio <= NEAR[1]]
        t.note(f"{t.case}: {len(waits) - len(far)} of {len(waits)} waits are as in the hand-out")
        if len(far) > MOST_FAR * len(waits):
            ratio, n = far[len(far) // 2]
            text = (
                f"the worker waits too {'long' if ratio > 1 else 'briefly'} before it sends again"
            )
            told = f"fragment {n}: {ratio:.2f} times as long as the measured round trips say"
            raise Failure(f"{text}, with {t.case}: {told}", case=text)


def _changing(t: Bench, factor: float) -> Callable[[int], int]:
    """Half a round trip, which slowly becomes so many times as long."""
    trip = t.random.randrange(40, 80) * US * (1 if factor > 1 else 8)
    rise = 12 * trip * max(1.0, factor)
    return lambda now: int(trip / 2 * (1 + (factor - 1) * min(1.0, now / rise)))


@LAB.check(10, "The timer follows the round trip: one that grows slowly is no loss")
def patient(t: Bench) -> None:
    p = t.python()
    size, trip = draw_window(t), t.random.randrange(60, 100) * US
    growth = t.random.uniform(25, 40)  # beyond the first timeout
    rise = 25 * trip  # in which a round trip becomes longer by what it was at first

    def one_way(now: int) -> int:
        return int(trip / 2 * (1 + (growth - 1) * min(1.0, now / (rise * growth))))

    made = run(t, p, t.random.randrange(80, 100) * size, size, Line(one_way))
    once_each(made, "the round trip grows slowly")


@LAB.check(10, "Timeouts of a fragment double while nothing comes, up to 64 ms")
def silence(t: Bench) -> None:
    size, p = draw_window(t), t.python()
    begin = t.random.randrange(2, 4) * MS
    end = begin + t.random.randrange(300, 500) * MS
    trip = t.random.randrange(100, 200) * US
    made = run(t, p, 60 * size, size, Line(steady(t, trip), dead_ns=(begin, end)), 2000 * MS)
    hanging = {n for at, n in made.sent if begin <= at < end}
    for fragment in hanging:
        times = made.times(fragment)
        waits = [b - a for a, b in zip(times, times[1:], strict=False)]
        for one, two in zip(waits, waits[1:], strict=False):
            if not min(1.9 * one, 0.95 * MOST_NS) <= two <= min(2.1 * one, 1.1 * MOST_NS):
                text = "a wait is not twice the wait before it"
                told = f"fragment {fragment}: {one / MS:g} ms, then {two / MS:g} ms"
                raise Failure(f"{text}: {told}", case=text)
    if made.end_ns > end + 2 * MOST_NS + 60 * size * trip:
        raise Failure("after the silence the worker goes on too late", case="after the silence")


@LAB.check(5, "A fragment that was sent twice says nothing about the round trip")
def karn(t: Bench) -> None:
    """The first results come just after their fragments were sent again. A worker that takes the
    time since then for a round trip sends everything twice from then on."""
    size, p = t.random.randrange(6, 16), t.python()
    trip = t.random.randrange(700, 900) * US
    slow = {"left": size}

    def one_way(now: int) -> int:
        if now == 0 and slow["left"]:
            slow["left"] -= 1
            return FIRST_NS + trip // 20 - trip // 2
        return trip // 2

    made = run(t, p, t.random.randrange(8, 16) * size, size, Line(one_way))
    waits = [times[1] - times[0] for n in range(size) if len(times := made.times(n)) > 1]
    if len(waits) < size or not 0.95 * FIRST_NS <= min(waits) <= max(waits) <= 1.05 * FIRST_NS:
        text = "before anything is measured, a fragment is not sent again after 1 ms"
        raise Failure(text, case=text)
    later = made.again - sum(len(made.times(n)) - 1 for n in range(size))
    if later > size:
        text = "after late results, fragments are sent again that were not lost"
        raise Failure(f"{text}: {later} packets", case=text)
