"""The picture of a run in virtual time while it goes on, and that it changes nothing."""

from __future__ import annotations

import io
import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console

from testbed.experiment import load_text
from testbed.run_parts import live_view as progress
from testbed.run_parts.program import prepare
from testbed.schemes import set_up
from testbed.simulate import virtual_run, virtual_view
from testbed.simulate.virtual_run import LOADING
from testbed.web.live_charts import LiveCharts
from testbed.web.live_page import LivePage

TWO_JOBS = """
name: seen
runtime: virtual
repetitions: 2
topology: {kind: star, hosts: 6}
links: {bandwidth: 10 Gbit/s, delay: 1 us, queue: 8 packets}
system: {name: esa, window: 64}
memory: {aggregators: 32}
jobs:
  - {name: early, model: alexnet, workers: 2, iterations: 1, scale: 0.0002, compute_scale: 0}
  - {name: late, model: alexnet, workers: 2, iterations: 3, scale: 0.0002, compute_scale: 0}
"""


@pytest.fixture
def at_once(monkeypatch):
    """Show something whenever it could be."""
    for name in ("LIVE_STEP_NS", "PLAIN_STEP_NS"):
        monkeypatch.setattr(progress, name, 0)


def run(terminal: bool, **settings) -> tuple[dict, str]:
    """The second repetition's tables, and what was shown meanwhile."""
    setup, text = set_up(load_text(TWO_JOBS), 1), io.StringIO()
    console = Console(file=text, force_terminal=terminal, width=120, height=50, **settings)
    tables = virtual_run.run_repetition(setup, prepare(setup).compiled, console)
    return tables, text.getvalue()


def test_the_view_says_when_jobs_end_and_what_came_last(monkeypatch, at_once):
    said = []

    class Listening(progress.Progress):
        def job_ended(self, job, end_ns):
            said.append((job, end_ns))
            super().job_ended(job, end_ns)

        def last(self, now_ns, latest):
            said.append(self.remark)
            super().last(now_ns, latest)

        def __exit__(self, *exception):
            said.append("closed")
            super().__exit__(*exception)

    monkeypatch.setattr(virtual_view, "Progress", Listening)
    tables, _ = run(terminal=False)
    early, late = (row["end_ns"] for row in tables["jobs"])
    assert said == [(0, early), (1, late), "repetition 2 of 2, virtual time", "closed"]


def test_the_view_says_how_many_events_there_are_in_a_second(monkeypatch, at_once):
    """Since the last time; here a millisecond goes by with each look at the clock."""
    looks, seen = itertools.count(), []
    clock = SimpleNamespace(monotonic_ns=lambda: 10**6 * next(looks))
    monkeypatch.setattr(virtual_view, "time", clock)

    class Noting(virtual_view.VirtualView):
        def tick(self, simulation):
            super().tick(simulation)
            seen.append((simulation.events, self._view.remark))

    monkeypatch.setattr(virtual_run, "VirtualView", Noting)
    run(terminal=False)
    assert len({events for events, _ in seen}) > 10
    before = 0
    for events, remark in seen:
        said = f"repetition 2 of 2, virtual time, {events - before} thousand events/s"
        assert remark == said
        before = events


def test_of_one_repetition_no_number_is_shown(at_once):
    setup, text = (
        set_up(load_text(TWO_JOBS.replace("repetitions: 2", "repetitions: 1"))),
        io.StringIO(),
    )
    virtual_run.run_repetition(setup, prepare(setup).compiled, Console(file=text, width=120))
    assert "s, virtual time" in text.getvalue() and "repetition" not in text.getvalue()


def test_jobs_and_switches_are_shown_and_the_results_stay_the_same(at_once):
    tables, shown = run(terminal=True)
    for words in ("early", "late", "1/3", "s1", "Gbit/s", "seen, 0 ns", "2 of 2, virtual time"):
        assert words in shown
    # Aggregators in use as a strip.
    assert any(sign in shown for sign in "\u2591\u2592\u2593\u2588") and "drops" in shown
    unseen, nothing = run(terminal=True, quiet=True)
    assert not nothing
    np.testing.assert_equal(unseen, tables)


def test_without_a_terminal_there_are_lines(at_once):
    _, shown = run(terminal=False)
    lines = [line for line in shown.splitlines() if LOADING not in line]
    assert len(lines) > 10 and "\x1b" not in shown
    assert all("thousand events/s:  early " in line for line in lines)
    # A job that has ended sends nothing, while the other goes on.
    assert any("early 1/1 (0 bit/s), late 2/3" in line for line in lines)


class Heard(LivePage):
    """A live page that nobody serves: it hands on what is said to its charts at once."""

    def __init__(self):
        self.charts = LiveCharts()
        self._next_ns = 0  # a view of a slow run draws before the end, too

    def _say(self, kind, content):
        if kind == "begin":
            self.charts.begin(**content)
        if kind == "draw":
            self.charts.add(content)


def test_a_page_ends_with_what_the_results_say():
    page = Heard()
    setup = set_up(load_text(TWO_JOBS), 1)
    tables = virtual_run.run_repetition(setup, prepare(setup).compiled, page=page)
    seen = page.charts.results()
    for name in ("iterations", "tensors"):
        frame = getattr(seen, name)
        for column, values in tables[name].items():
            assert frame[column].to_numpy().tolist() == values.tolist(), column
    assert len(seen.memory) and len(seen.pool) and set(seen.hosts.role) == {"worker", "ps"}
    ports = {row["port"]: row["bytes"] for row in tables["links"] if row["direction"] == "egress"}
    assert {
        row["port"]: row["bytes"]
        for row in page.charts._looked[-1][1]
        if row["direction"] == "egress"
    } == ports
