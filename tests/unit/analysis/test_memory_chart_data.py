"""The rates and counts of a switch's events, from samples of its counters."""

from __future__ import annotations

from types import SimpleNamespace

import pandas as pd

from testbed.analysis.data.memory_chart_data import (
    JOBS,
    aggregators_by_job,
    event_increments,
    event_rates,
    preemptions,
)

SECOND = 10**9


def sampled(**events):
    """A run whose switch s1 was sampled once a second, with the values of its counters."""
    rows = [
        {"repetition": 0, "time_ns": time * SECOND, "switch": "s1", "event": name, "value": value}
        for name, values in events.items()
        for time, value in enumerate(values, start=1)
    ]
    frame = pd.DataFrame(rows)
    return SimpleNamespace(events=frame, memory=frame[["repetition", "time_ns", "switch"]])


def test_a_rate_belongs_to_the_end_of_its_span():
    rates = event_rates(sampled(completions=[0, 10, 30, 30, 70]), "s1", most=10)
    assert list(rates.time_ns) == [2 * SECOND, 3 * SECOND, 4 * SECOND, 5 * SECOND]
    assert list(rates.rates["completions"]) == [10, 20, 0, 40]


def test_spans_are_joined_and_their_rates_are_means():
    rates = event_rates(sampled(completions=[0, 10, 30, 30, 70]), "s1", most=3)
    assert list(rates.time_ns) == [3 * SECOND, 5 * SECOND]
    assert list(rates.rates["completions"]) == [15, 20]


def test_a_switch_that_was_restarted_counts_from_0_again():
    run = sampled(completions=[5, 9, 2, 2, 8], preemptions=[1, 1, 3, 0, 0])
    counted = event_increments(run, "s1").set_index("event")["count"]
    assert list(counted["completions"]) == [5, 4, 2, 0, 6]
    assert list(counted["preemptions"]) == [1, 0, 2, 0, 0]
    assert list(event_rates(run, "s1", most=10).rates["completions"]) == [4, 2, 0, 6]


def test_preemptions_of_both_kinds_add_up():
    run = sampled(preemptions=[1, 1, 3, 4], preemptions_held=[0, 2, 2, 3], completions=[9, 9, 9, 9])
    assert list(preemptions(run, "s1", most=10)) == [1, 2, 2, 2]
    few = preemptions(run, "s1", most=2)
    assert dict(few) == {2 * SECOND: 3, 4 * SECOND: 4}


def test_of_many_jobs_those_that_use_most_are_told_apart():
    count = JOBS + 2
    rows = [
        {"repetition": 0, "time_ns": time, "switch": "s1", "job": job, "occupied": job, "held": 1,
         "capacity": 100}
        for time in (1, 2)
        for job in range(count)
    ]  # fmt: skip
    jobs = pd.DataFrame({"repetition": 0, "job": range(count), "name": "j", "fallback": None})
    chart = aggregators_by_job(SimpleNamespace(memory=pd.DataFrame(rows), jobs=jobs), "s1", 10)
    *shown, others = chart.areas
    assert [area.job for area in shown] == [*range(3, count)] and others.title == "3 others"
    assert list(shown[0].heights) == [4, 4] and list(others.heights) == [1 + 2 + 3] * 2
