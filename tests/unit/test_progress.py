"""What is shown during a run where no terminal is: a line every few seconds, no escape codes."""

from __future__ import annotations

import io
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console

from testbed.dataplane import Look
from testbed.dataplane.looking import NO_BLOCKS
from testbed.run.hosts import BYTES_SENT, ITERATION
from testbed.run.progress import JobTitle, Progress

S = 1_000_000_000


class Workers:
    """Two workers of job 0, as a host group shows them."""

    def __init__(self) -> None:
        self.board = np.zeros((2, 16), np.int64)
        self.rows = [SimpleNamespace(row=row) for row in self.board]

    def of_job(self, job: int, role: str) -> list[SimpleNamespace]:
        return self.rows


@pytest.fixture
def shown():
    """A progress display without terminal; (display, workers, text shown so far)."""
    text, workers = io.StringIO(), Workers()
    console = Console(file=text, force_terminal=False)
    progress = Progress({0: JobTitle("vgg16-0", 10, S)}, workers, "test", console)
    with progress:
        yield progress, workers, text.getvalue


def test_a_line_every_five_seconds(shown):
    progress, workers, text = shown
    for second in range(13):
        progress.tick(second * S, {})
    assert [line.split()[0] for line in text().splitlines()] == ["5.0", "10.0"]


def test_a_job_is_as_far_as_its_slowest_worker(shown):
    progress, workers, text = shown
    workers.board[:, ITERATION] = 7, 4
    workers.board[:, BYTES_SENT] = 25_000_000, 37_500_000
    progress.tick(5 * S, {"s1": Look(((0, 12, 3),), {}, NO_BLOCKS, 192)})
    assert text() == "   5.0 s  vgg16-0 4/10 (100 Mbit/s), s1 12/192 aggregators\n"


def test_a_job_that_has_ended_sends_nothing(shown):
    progress, workers, text = shown
    workers.board[:, BYTES_SENT] = 10**9
    progress.job_ended(0, 4 * S)
    progress.tick(5 * S, {})
    assert "(0 Mbit/s)" in text()
