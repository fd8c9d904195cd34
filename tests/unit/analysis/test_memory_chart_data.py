"""Charts of switch memory are what a slow count over drawn samples says."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise
from types import SimpleNamespace

import pandas as pd
import pytest

from testbed.analysis.data import memory_chart_data as charts
from testbed.results.counters import EVENTS

SECOND = 10**9
COUNTED = ("allocations", "additions", "completions")  # of the busiest switch
PREEMPTIONS = ("preemptions", "preemptions_held")


def drawn(seed: int) -> SimpleNamespace:
    """Two switches that were sampled once a second, and restarted at times; the second has more
    jobs than an area can tell apart. A second repetition has other numbers."""
    draw = random.Random(seed)
    times = range(1, draw.randint(6, 30))
    events, memory, pool, counters = [], [], [], []
    for repetition in (0, 1):
        for number, name in enumerate(("s1", "s2")):
            place = {"repetition": repetition, "switch": name}
            for event in sorted({*draw.sample([*EVENTS], 9), *PREEMPTIONS}):
                value = 0
                for time in times:
                    value = draw.randrange(9) if draw.random() < 0.2 else value + draw.randrange(9)
                    row = {"time_ns": time * SECOND, "event": event, "value": value}
                    events.append(place | row)
            for time in times:
                at = place | {"time_ns": time * SECOND}
                for job in range(3 + 11 * number):
                    held, filling = draw.randrange(40), draw.randrange(50)
                    row = {"job": job, "occupied": filling, "held": held, "capacity": 900}
                    memory.append(at | row)
                for first in (0, 8, 16):
                    filling = draw.randint(0, 5)
                    row = {"seen": 8, "filling": filling, "held": draw.randint(0, 8 - filling)}
                    pool.append(at | {"first": first} | row)
            for counter in (*COUNTED, "downgrades"):
                counters.append(place | {"counter": counter, "value": draw.randrange(99)})
    return SimpleNamespace(
        events=pd.DataFrame(events).sample(frac=1, random_state=seed),
        memory=pd.DataFrame(memory),
        pool=pd.DataFrame(pool),
        switch_counters=pd.DataFrame(counters),
        jobs=pd.DataFrame({"job": range(14), "name": "j", "fallback": None}),
    )


def rows(frame: pd.DataFrame, switch: str) -> list:
    chosen = frame[(frame["repetition"] == 0) & (frame["switch"] == switch)]
    return [*chosen.itertuples()]


@pytest.mark.parametrize("seed", range(16))
def test_charts_of_memory_are_what_the_samples_say(seed):
    run, most, switch = drawn(seed), 5, f"s{1 + seed % 2}"
    added: dict[tuple, int] = {}
    last: Counter[str] = Counter()
    for row in sorted(rows(run.events, switch), key=lambda row: row.time_ns):
        new = row.value - last[row.event]
        added[row.event, row.time_ns] = row.value if new < 0 else new  # it was restarted
        last[row.event] = row.value
    told = charts.event_increments(run, switch)
    assert added == told.set_index(["event", "time_ns"])["count"].to_dict()
    times = sorted({time for _, time in added})
    rates = charts.event_rates(run, switch, most)
    bins = times[:: -(-len(times) // most)]
    assert list(rates.time_ns) == bins[1:]
    for event in last:
        sums = [
            sum(count for (each, time), count in added.items() if each == event and a < time <= b)
            for a, b in pairwise(bins)
        ]
        wanted = [SECOND * n / (b - a) for n, a, b in zip(sums, bins, bins[1:], strict=False)]
        assert list(rates.rates.get(event, [0] * len(sums))) == pytest.approx(wanted)
    assert [*rates.rates] == [event for event in EVENTS if event in rates.rates]
    preempted = {t: sum(added[each, t] for each in PREEMPTIONS) for t in times}
    assert dict(charts.preemptions(run, switch, 99)) == {t: n for t, n in preempted.items() if n}
    few = charts.preemptions(run, switch, 3)
    for begin, end in pairwise([0, *few.index]):
        assert few[end] == sum(n for t, n in preempted.items() if begin < t <= end)
    assert len(few) <= 3 and few.sum() == sum(preempted.values())

    memory = rows(run.memory, switch)
    states = charts.aggregators_by_state(run, switch, 99)
    sums = {
        title: [sum(getattr(r, column) for r in memory if r.time_ns == t) for t in times]
        for title, column in (("filling", "occupied"), ("held", "held"))
    }
    sums["free"] = [900 - f - h for f, h in zip(*sums.values(), strict=True)]
    assert {area.title: [*area.heights] for area in states.areas} == sums
    assert (states.capacity, list(states.time_ns), states.every_ns) == (900, times, SECOND)
    of_all = charts.aggregators_by_state(run, None, 99)
    everywhere = [row for name in ("s1", "s2") for row in rows(run.memory, name)]
    assert of_all.capacity == 1800
    held = [sum(r.held for r in everywhere if r.time_ns == t) for t in times]
    assert list(of_all.areas[1].heights) == held
    jobs = charts.aggregators_by_job(run, switch, 99)
    used = Counter()
    for row in memory:
        used[row.job] += row.occupied + row.held
    *shown, others = jobs.areas if len(used) > charts.JOBS else (*jobs.areas, None)
    assert {each.job for each in shown} == {job for job, _ in used.most_common(charts.JOBS - 1)}
    for area in shown:
        assert list(area.heights) == [r.occupied + r.held for r in memory if r.job == area.job]
    if others:
        assert others.title == f"{len(used) - len(shown)} others"
        assert sum(area.heights.sum() for area in jobs.areas) == used.total()

    pool = charts.pool_map(run, switch)
    for row in rows(run.pool, switch):
        place = list(pool.first).index(row.first), list(pool.time_ns).index(row.time_ns)
        assert pool.used[place] == pytest.approx(100 * (row.filling + row.held) / 8, abs=0.06)
        assert pool.held[place] == pytest.approx(100 * row.held / 8, abs=0.06)
    assert (pool.seen, pool.capacity) == (24, 900)
    assert charts.pool_map(run, switch, 2).held.shape == (3, 2)
    busy = Counter()
    for row in run.switch_counters.itertuples():
        busy[row.switch] += row.value if row.counter in COUNTED else 0
    assert charts.busiest_switches(run, 1) == [max(("s1", "s2"), key=lambda name: busy[name])]
