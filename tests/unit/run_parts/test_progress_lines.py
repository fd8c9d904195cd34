"""Output during a run without a terminal: a line every few seconds, no escape codes."""

from __future__ import annotations

import io
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console

from testbed.dataplane import MemorySnapshot
from testbed.dataplane.memory_snapshot import NO_BLOCKS
from testbed.emulate.host_group import HostGroup
from testbed.hosts import progress_board as board
from testbed.run_parts.live_view import JobTitle, Progress, Work
from tests.support.host_specs import host_spec

S = 1_000_000_000


class Workers:
    """Two workers of job 0, as a host group shows them."""

    def __init__(self) -> None:
        self.board = np.zeros((2, 16), np.int64)
        self.hosts = [SimpleNamespace(row=row, spec=host_spec()) for row in self.board]

    of_job = HostGroup.of_job
    work = HostGroup.work


@pytest.fixture
def shown():
    """A progress display without terminal; (display, workers, text shown so far)."""
    text, workers = io.StringIO(), Workers()
    console = Console(file=text, force_terminal=False)
    progress = Progress({0: JobTitle("vgg16-0", 10, S)}, workers.work, "test", console)
    with progress:
        yield progress, workers, text.getvalue


def test_a_line_every_three_seconds(shown):
    progress, workers, text = shown
    for second in range(13):
        progress.tick(second * S, {})
    assert [line.split()[0] for line in text().splitlines()] == ["3.00", "6.00", "9.00", "12.0"]


def test_lines_follow_the_watchers_clock_and_show_the_time_of_the_run():
    text = io.StringIO()
    sent = iter((10**6, 10**6, 3 * 10**6, 3 * 10**6))
    console = Console(file=text, force_terminal=False)
    progress = Progress(
        {0: JobTitle("vgg16-0", 10, 0)}, lambda job: Work(2, next(sent)), "test", console
    )
    progress.remark = "virtual time"
    with progress:
        progress.tick(9 * S, {}, clock_ns=S)
        progress.tick(10_000, {}, clock_ns=6 * S)
        progress.tick(20_000, {}, clock_ns=12 * S)
    assert text.getvalue().splitlines() == [
        " 10.0 us, virtual time:  vgg16-0 2/10 (800 Gbit/s)",
        " 20.0 us, virtual time:  vgg16-0 2/10 (1 600 Gbit/s)",
    ]


def test_a_quiet_console_is_asked_for_nothing():
    def refuse(job):
        raise AssertionError

    console = Console(file=io.StringIO(), quiet=True, force_terminal=True)
    with Progress({0: JobTitle("vgg16-0", 10, 0)}, refuse, "test", console) as progress:
        progress.tick(10 * S, {})


def test_a_job_is_as_far_as_its_slowest_worker(shown):
    progress, workers, text = shown
    workers.board[:, board.ITERATION] = 7, 4
    workers.board[:, board.BYTES_SENT] = 25_000_000, 37_500_000
    progress.tick(
        5 * S, {"s1": MemorySnapshot(np.array([[0, 12, 3]]), np.zeros(0, int), (), NO_BLOCKS, 192)}
    )
    assert text() == "  5.00 s  vgg16-0 4/10 (100 Mbit/s), s1 12/192 aggregators\n"


def test_a_job_that_has_ended_sends_nothing(shown):
    progress, workers, text = shown
    workers.board[:, board.BYTES_SENT] = 10**9
    progress.job_ended(0, 4 * S)
    progress.tick(5 * S, {})
    assert "(0 bit/s)" in text()


def test_the_last_report_of_a_program_stays():
    text = io.StringIO()
    said = {0: "step 9, loss 0.25", 1: ""}
    titles = {0: JobTitle("text", 0, 0), 1: JobTitle("vgg16-1", 10, 0)}
    console = Console(file=text, force_terminal=False)
    with Progress(titles, lambda job: Work(1, 0, said[job]), "test", console) as progress:
        progress.last(12 * S, {})
    assert text.getvalue() == "job text: step 9, loss 0.25\n"
