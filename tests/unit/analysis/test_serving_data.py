"""What requests measured, and checks of it, by hand."""

from __future__ import annotations

import pytest

from testbed.analysis.data import serving_data
from testbed.analysis.data.run_summary import summary
from testbed.analysis.report import run_tables
from testbed.analysis.tables import report_tables
from tests.support.synthetic_results import tables, write_tables

MS = 1_000_000
TEXT = """
name: served
system: switchml
jobs:
  - {name: big, model: {transformer: llama3-8b, checks: {%s}}}
  - {name: small, model: vgg16}
"""


def request(job, number, times, output, computed, iteration=0):
    """times: sent, first token, end, in ms; computed: ms."""
    sent, first, end = (None if each is None else each * MS for each in times)
    return {
        "job": job,
        "iteration": iteration,
        "request": number,
        "prompt": 5,
        "output": output,
        "sent_ns": sent,
        "first_ns": first,
        "end_ns": end,
        "compute_ns": None if end is None else computed * MS,
    }


ROWS = [
    request(0, 0, (0, 10, 50), 5, 20),  # TPOT 10 ms
    request(0, 1, (0, 10, 10), 1, 5),  # none
    request(0, 2, (10, 40, 100), 4, 20),  # TPOT 20 ms
    request(0, 3, (50, None, None), 9, 0),
]


def results(parent, checks="", rows=ROWS):
    found = tables("switchml") | {"requests": rows}
    return write_tables(parent, found, name="served", text=TEXT % checks)


def test_times_of_tokens_and_the_share_of_the_network(tmp_path):
    found = serving_data.measured(results(tmp_path).requests)
    assert found["ttft_mean_ns"] == pytest.approx(50 / 3 * MS)
    assert found["ttft_p50_ns"] == 10 * MS and found["ttft_p99_ns"] == pytest.approx(29.6 * MS)
    assert found["tpot_mean_ns"] == found["tpot_p50_ns"] == 15 * MS
    assert found["tpot_p99_ns"] == pytest.approx(19.9 * MS)
    assert found["tokens_per_s"] == pytest.approx(10 / 0.1)  # of requests that have ended
    assert found["network_share"] == pytest.approx(1 - 45 / (50 + 10 + 90))


def test_jobs_and_iterations_have_rates_of_their_own(tmp_path):
    rows = [
        *ROWS,
        request(0, 0, (100, 110, 150), 5, 20, iteration=1),  # 5 tokens in 50 ms
        request(1, 0, (0, 5, 20), 10, 1),  # 10 tokens in 20 ms
    ]
    found = results(tmp_path, rows=rows)
    assert serving_data.measured(found.requests)["tokens_per_s"] == pytest.approx(100 + 500)
    assert summary(found)["run"]["tokens_per_s"][0] == pytest.approx(600)


def test_checks_say_what_was_found_and_fail_where_nothing_was(tmp_path):
    checks = 'p99 tpot: "<= 20 ms", mean ttft: < 16 ms, tokens/s: 100, network share: ">= 70 %"'
    found = results(tmp_path, checks)
    outcomes = {each.check: (each.found, each.holds) for each in serving_data.outcomes(found)}
    assert outcomes == {
        "p99 tpot <= 20 ms": ("19.9 ms", True),
        "mean ttft < 16 ms": ("16.7 ms", False),
        "tokens/s == 100": ("100", True),
        "network share >= 70 %": ("70.0 %", True),
    }
    assert serving_data.failures(found) == [
        "check failed: job big: mean ttft < 16 ms; found 16.7 ms"
    ]
    nothing = results(tmp_path / "nothing", "p50 tpot: < 1 s", ROWS[1:2])
    (outcome,) = serving_data.outcomes(nothing)
    assert not outcome.holds


def test_reports_and_comparisons_have_requests_where_there_are_any(tmp_path):
    found = results(tmp_path, "p99 tpot: < 1 ms")
    shown = {table.name: table for table in run_tables(found, summary(found))}
    (row,) = shown["requests"].rows
    assert row.values[:2] == ["big", 4] and row.values[3] == pytest.approx(29.6 * MS)
    assert [row.values[-1] for row in shown["checks"].rows] == [False]
    without = results(tmp_path / "without", rows=[])
    assert not {"requests", "checks"} & {t.name for t in run_tables(without, summary(without))}
    measures = [
        {
            str(row.values[0])
            for row in report_tables.comparison([each], [summary(each)], [STYLE]).rows
        }
        for each in (found, without)
    ]
    assert {"time to first token, median", "tokens / s, all jobs"} <= measures[0] - measures[1]


class Style:
    title = "one"


STYLE = Style()
