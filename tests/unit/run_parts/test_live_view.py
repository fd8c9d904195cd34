"""A terminal's view of a run: strips, rates and counts, and content that does not fit."""

from __future__ import annotations

import io
from types import SimpleNamespace

import numpy as np
import pytest
from p4engine.frontend.diagnostics import P4Error
from rich.console import Console

from testbed.dataplane import MemorySnapshot
from testbed.dataplane.memory_snapshot import Blocks
from testbed.hosts.progress_board import BYTES_SENT, ITERATION
from testbed.run_parts.live_view import Called, Drops, JobTitle, Progress, Work, sparkline, strip

S = 1_000_000_000


class Hosts:
    """One worker for each job."""

    def __init__(self, jobs: int) -> None:
        self.rows = np.zeros((jobs, 16), np.int64)

    def work(self, job: int) -> Work:
        return Work(int(self.rows[job, ITERATION]), int(self.rows[job, BYTES_SENT]))


class Switches:
    """Two switches, one of which does not answer."""

    def __init__(self) -> None:
        rows = [{"queue_drops": 3, "losses": 1, "unmodelled_drops": None}, {"queue_drops": 2}]
        self.asked = 0
        self.clients = {
            "s1": SimpleNamespace(port_stats=lambda: self.count(rows)),
            "s2": SimpleNamespace(port_stats=self.refuse),
        }

    def count(self, rows):
        self.asked += 1
        return rows

    def refuse(self):
        raise P4Error("gone")


def of(*blocks: tuple[int, int, int, int]) -> Blocks:
    """Blocks, each as (first, seen, filling, held)."""
    return Blocks(*np.array(blocks, np.int64).reshape(-1, 4).T)


def look(filling: int, held: int, preemptions: int) -> MemorySnapshot:
    blocks = of(*((0, 4, 4, 0), (4, 4, 1, 0), (8, 4, 0, 0), (12, 4, 0, 4)))
    jobs, counts = np.array([[0, filling, held]]), np.array([preemptions])
    return MemorySnapshot(jobs, counts, ("preemptions",), blocks, 16)


def view(jobs: int = 1, height: int = 40, terminal: bool = True):
    text, hosts = io.StringIO(), Hosts(jobs)
    console = Console(file=text, force_terminal=terminal, width=100, height=height)
    titles = {job: JobTitle(f"job{job}", 10, 0) for job in range(jobs)}
    return Progress(titles, hosts.work, "test", console, Switches().clients), hosts, text


def picture(progress: Progress, elapsed_ns: int) -> list[str]:
    plain = Console(file=io.StringIO(), width=100)
    plain.print(progress.picture(elapsed_ns))
    return plain.file.getvalue().splitlines()


def test_the_picture_has_jobs_and_switches():
    progress, hosts, _ = view()
    with progress:
        hosts.rows[0, ITERATION], hosts.rows[0, BYTES_SENT] = 4, 1_000_000
        progress.tick(S, {"s1": look(5, 4, 0)})
        hosts.rows[0, BYTES_SENT] = 3_500_000
        progress.tick(2 * S, {"s1": look(5, 4, 30)})
        lines = picture(progress, 2 * S)
    job = next(line for line in lines if line.startswith("job0")).split()
    assert job == ["job0", "4/10", "20.0", "Mbit/s", sparkline([8, 20]), "2.00", "s"]
    switch = next(line for line in lines if line.startswith("s1"))
    assert "\u2588\u2591 \u2588" in switch
    assert switch.split()[-5:] == ["5", "4", "16", "30", "6"]


def test_numbers_of_a_column_have_one_unit():
    progress, hosts, _ = view(jobs=2)
    with progress:
        hosts.rows[:, BYTES_SENT] = 25_000, 2_500_000
        progress.tick(S, {})
        rows = [line.split()[2:4] for line in picture(progress, S) if line.startswith("job")]
    assert rows[1:] == [["0.200", "Mbit/s"], ["20.0", "Mbit/s"]]


@pytest.mark.parametrize("width", [100, 80, 60, 40])
def test_no_word_is_cut_however_narrow_the_terminal_is(width):
    """Strips and sparklines have fewer signs there; then words wrap."""
    progress, hosts, _ = view(jobs=2)
    progress._console = Console(file=io.StringIO(), force_terminal=True, width=width, height=40)
    progress._called = lambda: [Called("gpt", "reduce_scatter", "hierarchical", 12, 12345, 10**11)]
    blocks = of(*((64 * number, 64, 30, 10) for number in range(64)))
    jobs, counts = np.array([[0, 2500, 1200]]), np.array([300_000])
    with progress:
        for second in range(1, 20):
            hosts.rows[:, BYTES_SENT] += 10_000_000
            snapshot = MemorySnapshot(jobs, counts * second, ("preemptions",), blocks, 4096)
            progress.tick(second * S, {"s1": snapshot})
        plain = Console(file=io.StringIO(), width=width)
        plain.print(progress.picture(20 * S))
    shown = plain.file.getvalue()
    assert "\N{HORIZONTAL ELLIPSIS}" not in shown
    assert max(map(len, shown.splitlines())) <= width
    letters = "".join(shown.split())
    wide = ("iteration", "preempted/s", "drops", "reduce_scatter", "hierarchical", "300000")
    assert width < 60 or all(word in letters for word in wide)


def test_jobs_that_do_not_fit_are_counted():
    progress, _, _ = view(jobs=30, height=20)
    with progress:
        progress.tick(S, {})
        lines = picture(progress, S)
    assert any(line.startswith("and 24 more") for line in lines) and len(lines) < 20


def test_without_a_terminal_there_is_a_line_and_no_escape_code():
    progress, hosts, text = view(terminal=False)
    with progress:
        hosts.rows[0, BYTES_SENT] = 625_000
        progress.tick(5 * S, {"s1": look(5, 4, 10)})
    assert text.getvalue() == (
        "  5.00 s  job0 0/10 (1.00 Mbit/s), s1 5/16 aggregators, 2 preempted/s, 6 packets dropped\n"
    )


def test_a_switch_that_does_not_answer_is_left_to_the_watch():
    switches = Switches()
    drops = Drops(switches.clients)
    drops.tick()
    drops.tick()  # too soon
    assert drops.latest == {"s1": 6} and switches.asked == 1


@pytest.mark.parametrize(
    ("filling", "held", "sign"),
    [(0, 0, " "), (1, 0, "\u2591"), (63, 0, "\u2593"), (64, 0, "\u2588")],
)
def test_a_strips_sign_tells_none_some_and_all(filling, held, sign):
    assert strip(of((0, 64, filling, held))).plain == sign


def test_a_strip_is_never_wider_than_asked():
    assert len(strip(of(*((n, 1, n % 2, 0) for n in range(64))), 10)) == 10
    assert strip(of((0, 4, 0, 3))).spans[0].style == "yellow"
    assert len(strip(of())) == 0


def test_what_programs_have_called_is_shown_beside_the_jobs():
    hosts = Hosts(1)
    called = [
        Called("mesh", "all_reduce", "system", 6, 1200, 48_000_000),
        Called("mesh", "send", "gloo", 1, 7, 1000),
    ]
    console = Console(file=io.StringIO(), force_terminal=True, width=100, height=40)
    titles = {0: JobTitle("mesh", 0, 0)}
    progress = Progress(titles, hosts.work, "test", console, called=lambda: called)
    with console.capture() as captured:
        console.print(progress.picture(S))
    lines = [line.split() for line in captured.get().splitlines()]
    assert ["mesh", "all_reduce", "system", "6", "1", "200", "48.0", "MB"] in lines
    _, table = progress.state(S)["tables"]
    assert table["name"] == "collectives"
    assert table["rows"][1] == ["mesh", "send", "gloo", "1", "7", "0.00100 MB"]
