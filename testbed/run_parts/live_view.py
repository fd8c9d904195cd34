"""The live view of a run: a moving picture in a terminal or below a notebook's cell, elsewhere a
line from time to time.

Per job: iterations done (by its slowest worker), the rate of its workers' gradients now and
recently, time so far. Per switch: a strip of the aggregators in use, from the pool's first to its
last, how many are filling and held, how often one is preempted, and packets dropped. Of programs:
the collectives that their ranks have called. The run reads all of this anyway, or so rarely that it
does not matter.

Where a page in a browser is asked for as well (testbed.web), the same numbers go there, and from
time to time what its charts are made of.

The view is the same for every runtime. `elapsed_ns` is the run's own time, which in virtual time is
not that of the person who looks; rates are per second of it.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from p4engine.frontend.diagnostics import P4Error
from p4fabric.base import units
from p4fabric.base.steps import live_area, shows_progress
from rich.console import Console, Group
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from testbed.dataplane import MemorySnapshot, SnapshotHistory
from testbed.dataplane.memory_snapshot import Blocks

if TYPE_CHECKING:
    from testbed.results.schema import Row
    from testbed.setup import Control, JobSetup, Setup
    from testbed.setup.job_setups import PortStats

_log = logging.getLogger(__name__)
LIVE_STEP_NS = 250_000_000
PLAIN_STEP_NS = 3_000_000_000
DROPS_SHARE = 0.01  # of the time may go into asking switches for their drops
STRIP = 32  # signs
LATELY = 16  # steps of a job's throughput
FEWEST = 8  # signs of a strip or steps of a throughput on a narrow terminal
PAGE_ROWS = 200  # of a table on the page
JOB_COLUMNS = ("job", "iteration", "sending", "lately", "time")
SWITCH_COLUMNS = ("switch", "aggregators", "filling", "held", "of", "preempted/s", "drops")
_SHADES = " \u2591\u2592\u2593\u2588"  # from none to all
_BARS = "\u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588"
_ANY_WIDTH = 10_000  # wider than any table
_PREEMPTIONS = ("preemptions", "preemptions_held")
_DROPS = ("queue_drops", "losses", "unmodelled_drops")


@dataclass(frozen=True)
class JobTitle:
    """The constant facts of a job in the table. fallback: the algorithm of hosts that carries it in
    place of the system, "" for none."""

    name: str
    iterations: int
    start_ns: int
    fallback: str = ""

    def __str__(self) -> str:
        return f"{self.name} ({self.fallback})" if self.fallback else self.name


def titles_of(setup: Setup, known: Mapping[int, JobSetup] | None = None) -> dict[int, JobTitle]:
    """All jobs by number, or those that are `known`."""
    found = {}
    for number, job in (setup.jobs if known is None else known).items():
        fallback = job.platform.system.name if job.refused else ""
        found[number] = JobTitle(job.name, job.job.iterations, job.job.start_ns, fallback)
    if known is not None:
        return found
    for number, each in enumerate(setup.listed):
        found.setdefault(number, JobTitle(each.name, each.iterations, each.start_ns))
    return dict(sorted(found.items()))


def rows_of(titles: Mapping[int, JobTitle], system: str) -> Sequence[Row]:
    """The jobs as rows of table jobs, as far as they are known when a repetition begins."""
    return [
        {"job": job, "name": each.name, "system": system, "fallback": each.fallback or None}
        for job, each in titles.items()
    ]


class Work(NamedTuple):
    """Progress of a job's workers: iterations of the slowest worker, bytes sent by all, and a
    program's own report."""

    iterations: int
    bytes_sent: int
    said: str = ""


class Called(NamedTuple):
    """Calls of a collective by the ranks of a job, by a route (table collectives), in so
    many groups; bytes are those that ranks have given."""

    job: str
    collective: str
    route: str
    groups: int
    calls: int
    bytes: int


class WorkerTimes(NamedTuple):
    """The times of a worker so far: see testbed.run_parts.result_rows.time_tables for `times`."""

    job: int
    worker: int
    times: Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Sources:
    """Sources of a page's charts, beside the data that the view shows anyway.

    `snapshots`: of the switches' memory. `hosts`, `measures`, `links` (of a switch's `port_stats`,
    by switch), `faults` (begun by a time in ns): rows of these tables, with the columns that there
    are by then. `times`: of each worker that is there."""

    repetition: int
    snapshots: SnapshotHistory
    hosts: Callable[[], Sequence[Row]]
    times: Callable[[], Iterable[WorkerTimes]]
    links: Callable[[str, list[PortStats]], Sequence[Row]]
    faults: Callable[[int], Sequence[Row]]
    measures: Callable[[], Sequence[Row]] = list


class Page(Protocol):
    """A page that shows a run while it goes on (testbed.web)."""

    def begin(self, jobs: Sequence[Row], sources: Sources) -> None:
        """A repetition begins; jobs: rows of table jobs, as far as they are known."""

    def show(self, state: dict[str, Any]) -> None:
        """Show the tables of the view."""

    def charts_due(self) -> bool:
        """True if it is time to update the charts."""

    def draw(self, elapsed_ns: int, ports: Mapping[str, list[PortStats]]) -> None:
        """Ask the sources. ports: the last `port_stats` by switch."""


class Drops:
    """Packets that each switch has dropped so far, for any reason; read from time to time. `ports`
    has all that they have counted at their ports."""

    def __init__(self, switches: Mapping[str, Control] | None) -> None:
        """switches: those whose `port_stats` can be read, by name; None: none is read."""
        self._switches = switches
        self._next_ns = 0
        self.latest: dict[str, int] = {}
        self.ports: dict[str, list[PortStats]] = {}

    def tick(self, now: bool = False) -> None:
        """Read the counters, if it is time to, or `now`. A switch that does not answer keeps its
        number: the run's watchdog will report it."""
        began_ns = time.monotonic_ns()
        if self._switches is None or began_ns < self._next_ns and not now:
            return
        for name, client in self._switches.items():
            with contextlib.suppress(P4Error):
                rows = self.ports[name] = client.port_stats()
                self.latest[name] = sum(row.get(drop) or 0 for row in rows for drop in _DROPS)
        taken_ns = time.monotonic_ns() - began_ns
        self._next_ns = began_ns + max(LIVE_STEP_NS, int(taken_ns / DROPS_SHARE))


def strip(blocks: Blocks, width: int = STRIP) -> Text:
    """A pool from its first block to its last, a sign for each or for some neighbours: the darker,
    the more aggregators are in use; yellow where most of these are only held."""
    text = Text()
    count = min(len(blocks.first), width)
    for number in range(count):
        some = slice(len(blocks.first) * number // count, len(blocks.first) * (number + 1) // count)
        seen, filling, held = (
            int(each[some].sum()) for each in (blocks.seen, blocks.filling, blocks.held)
        )
        # Any aggregator in use shows, and only a full block is full.
        level = -(-(filling + held) * (len(_SHADES) - 2) // seen)
        level = len(_SHADES) - 1 if filling + held == seen else level
        text.append(_SHADES[level], style="yellow" if held > filling else None)
    return text


def sparkline(values: Sequence[float]) -> str:
    """Values as bars, the largest one full."""
    most = max(values, default=0.0)
    if most <= 0:
        return _BARS[0] * len(values)
    return "".join(_BARS[min(int(value / most * len(_BARS)), len(_BARS) - 1)] for value in values)


class Progress:
    """Use as a context manager around a repetition; call `tick` often.

    Attributes that may change meanwhile: `jobs`, those that there are, by number; `remark`, what
    there is to say beside the time."""

    def __init__(
        self,
        jobs: Mapping[int, JobTitle],
        work: Callable[[int], Work],
        title: str,
        console: Console,
        switches: Mapping[str, Control] | None = None,
        page: Page | None = None,
        called: Callable[[], list[Called]] = list,
    ) -> None:
        """work: progress of a job, by its number. switches: those whose drops are read; None: they
        are not shown. A quiet console shows nothing, and nothing is read for it. page: shows the
        same, too; it has begun. called: of programs."""
        self.jobs = jobs
        self.remark = ""
        self._work = work
        self._title = title
        self._console = console
        self._drops = Drops(switches)
        self._snapshots: Mapping[str, MemorySnapshot] = {}
        self._ended_ns: dict[int, int] = {}
        self._bytes: dict[int, int] = {}
        self._rates_bps: dict[int, deque[float]] = {}
        self._seen: dict[str, tuple[MemorySnapshot, int]] = {}  # by switch, and when it was new
        self._preemptions_per_s: dict[str, float] = {}
        self._last_ns = 0
        self._shown_ns = 0  # by the viewer's clock, as is the next one
        self._printed_ns = 0
        self._page = page
        self._called = called
        self._live = live_area(console)

    def __enter__(self) -> Progress:
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._live:
            self._live.stop()

    def job_ended(self, job: int, elapsed_ns: int) -> None:
        """Freeze a job's time."""
        self._ended_ns[job] = elapsed_ns
        _log.info("job %s has ended at %s", self.jobs[job], units.time(elapsed_ns))

    def due(self, clock_ns: int) -> bool:
        """True if it is time to update the view. clock_ns: since the start, of a real clock."""
        step = LIVE_STEP_NS if self._live or self._page else PLAIN_STEP_NS
        watched = self._page is not None or shows_progress(self._console)
        return watched and clock_ns - self._shown_ns >= step

    def tick(
        self, elapsed_ns: int, snapshots: Mapping[str, MemorySnapshot], clock_ns: int | None = None
    ) -> None:
        """Show the state if it is time to. elapsed_ns: since the run's start, in its own time.
        snapshots: of the switches' memory, the last ones. clock_ns: see `due`; None: the run's time
        is a real clock's."""
        self._snapshots = snapshots or self._snapshots
        clock_ns = elapsed_ns if clock_ns is None else clock_ns
        if not self.due(clock_ns):
            return
        self._shown_ns = clock_ns
        self._drops.tick()
        self._measure(elapsed_ns)
        self._last_ns = elapsed_ns
        if self._live:
            self._live.update(self.picture(elapsed_ns), refresh=True)
        elif shows_progress(self._console) and clock_ns - self._printed_ns >= PLAIN_STEP_NS:
            self._printed_ns = clock_ns
            self._console.print(self._line(elapsed_ns), highlight=False, soft_wrap=True)
        if self._page is not None:
            self._page.show(self.state(elapsed_ns))
            if self._page.charts_due():
                self._page.draw(elapsed_ns, self._drops.ports)

    def last(self, elapsed_ns: int, snapshots: Mapping[str, MemorySnapshot]) -> None:
        """The repetition is over: the page shows how it ended, and a line has the last report of
        each program."""
        for job, title in self.jobs.items():
            if said := self._work(job).said:
                self._console.print(f"job {title}: {said}", highlight=False, soft_wrap=True)
        if self._page is None:
            return
        self._snapshots = snapshots or self._snapshots
        self._drops.tick(now=True)
        self._measure(elapsed_ns)
        self._page.show(self.state(elapsed_ns))
        self._page.draw(elapsed_ns, self._drops.ports)

    def _measure(self, elapsed_ns: int) -> None:
        span_ns = max(elapsed_ns - self._last_ns, 1)
        for job in self.jobs:
            sent = self._work(job).bytes_sent
            rates = self._rates_bps.setdefault(job, deque(maxlen=LATELY))
            rates.append(max(sent - self._bytes.get(job, 0), 0) * 8e9 / span_ns)
            self._bytes[job] = sent
        for switch, snapshot in self._snapshots.items():
            before, then_ns = self._seen.get(switch, (None, 0))
            if snapshot is before:  # nobody has looked since
                continue
            count = _preempted(snapshot)
            # A switch that was restarted counts from 0 again.
            more = max(count - _preempted(before), 0)
            self._preemptions_per_s[switch] = more * 1e9 / max(elapsed_ns - then_ns, 1)
            self._seen[switch] = snapshot, elapsed_ns

    def _state(self, job: int, elapsed_ns: int) -> tuple[int, int, float, int]:
        """Iterations done, iterations asked for, bit/s, time in ns."""
        title = self.jobs[job]
        done = self._work(job).iterations
        ended = self._ended_ns.get(job)
        rates = self._rates_bps.get(job)
        now_bps = rates[-1] if rates and ended is None else 0.0
        time_ns = (elapsed_ns if ended is None else ended) - title.start_ns
        return done, title.iterations, now_bps, max(time_ns, 0)

    def _progress(self, job: int, done: int, whole: int) -> str:
        """Iterations, or the report of a program, which has none."""
        return f"{done}/{whole}" if whole else self._work(job).said or "program"

    def picture(self, elapsed_ns: int) -> Group:
        """All that a terminal shows."""
        # Half of the terminal for jobs and half for switches; what does not fit is counted.
        called = self._called()
        rows = max((self._console.size.height - 8) // (3 if called else 2), 3)
        parts: list[Text | Table] = [Text(self._headline(elapsed_ns), style="bold")]
        parts.append(self._job_table(elapsed_ns, rows))
        if called:
            parts.append(self._fitting(lambda _: _call_table(called, rows), FEWEST))
        if self._snapshots or self._drops.latest:
            parts.append(self._switch_table(rows))
        return Group(*parts)

    def state(self, elapsed_ns: int) -> dict[str, Any]:
        """The same for a page: {"headline", "elapsed_ns", "tables": [{"name", "columns", "rows",
        "ended" (rows of jobs that are over)}]}, all in the tables texts."""
        jobs = self._order()[:PAGE_ROWS]
        tables: list[dict[str, Any]] = [
            {
                "name": "jobs",
                "columns": JOB_COLUMNS,
                "rows": self._job_rows(jobs, elapsed_ns),
                "ended": [number for number, job in enumerate(jobs) if job in self._ended_ns],
            }
        ]
        if called := self._called()[:PAGE_ROWS]:
            rows = _call_rows(called)
            tables.append(
                {"name": "collectives", "columns": Called._fields, "rows": rows, "ended": []}
            )
        if switches := self._switch_names()[:PAGE_ROWS]:
            rows = [[str(cell) for cell in self._switch_cells(name, STRIP)] for name in switches]
            tables.append(
                {"name": "switches", "columns": SWITCH_COLUMNS, "rows": rows, "ended": []}
            )
        headline = self._headline(elapsed_ns)
        return {"headline": headline, "elapsed_ns": elapsed_ns, "tables": tables}

    def _headline(self, elapsed_ns: int) -> str:
        words = [self._title, units.time(elapsed_ns), *([self.remark] if self.remark else [])]
        return ", ".join(words)

    def _order(self) -> list[int]:
        """The jobs, those that are over last."""
        running = [job for job in self.jobs if job not in self._ended_ns]
        return [*running, *(job for job in self.jobs if job in self._ended_ns)]

    def _job_rows(self, jobs: Sequence[int], elapsed_ns: int, lately: int = LATELY) -> list[Any]:
        """The cells of jobs, whose rates and times have one unit each. lately: bars of a
        sparkline."""
        states = [self._state(job, elapsed_ns) for job in jobs]
        rate = units.rate.common(now_bps for _, _, now_bps, _ in states)
        time = units.time.common(time_ns for *_, time_ns in states)
        return [
            [
                str(self.jobs[job]),
                self._progress(job, done, whole),
                rate(now_bps),
                sparkline([*self._rates_bps.get(job, ())][-lately:]),
                time(time_ns),
            ]
            for job, (done, whole, now_bps, time_ns) in zip(jobs, states, strict=True)
        ]

    def _job_table(self, elapsed_ns: int, rows: int) -> Table:
        order = self._order()

        def table(lately: int) -> Table:
            made = _table(*JOB_COLUMNS)
            shown = order[:rows]
            for job, cells in zip(shown, self._job_rows(shown, elapsed_ns, lately), strict=True):
                made.add_row(*cells, style="dim" if job in self._ended_ns else "")
            _count_rest(made, len(order) - rows)
            return made

        return self._fitting(table, LATELY)

    def _fitting(self, table: Callable[[int], Table], signs: int) -> Table:
        """A table of which a column has so many signs, or fewer where the terminal is narrow. Where
        that is not enough, words wrap."""
        made = table(signs)
        if (beyond := self._beyond(made)) > 0:
            made = table(max(signs - beyond, FEWEST))
        if self._beyond(made) > 0:
            for column in made.columns:
                column.no_wrap, column.overflow = False, "fold"
        return made

    def _beyond(self, table: Table) -> int:
        """By how many letters a table is wider than the terminal."""
        options = self._console.options.update(max_width=_ANY_WIDTH)
        return Measurement.get(self._console, options, table).maximum - self._console.width

    def _switch_names(self) -> list[str]:
        return list(dict.fromkeys([*self._snapshots, *self._drops.latest]))

    def _switch_cells(self, name: str, width: int) -> list[str | Text]:
        snapshot = self._snapshots.get(name)
        drops = self._drops.latest.get(name)
        numbers = ["", "", "", ""]
        if snapshot is not None:
            per_s = self._preemptions_per_s.get(name, 0.0)
            counts = (snapshot.filling, snapshot.held, snapshot.aggregators, round(per_s))
            numbers = [*map(units.number, counts)]
        return [
            name,
            strip(snapshot.blocks, width) if snapshot is not None else "",
            *numbers,
            "" if drops is None else units.number(drops),
        ]

    def _switch_table(self, rows: int) -> Table:
        names = self._switch_names()

        def table(width: int) -> Table:
            made = _table(*SWITCH_COLUMNS)
            made.columns[1].justify = "left"
            for name in names[:rows]:
                made.add_row(*self._switch_cells(name, width))
            _count_rest(made, len(names) - rows)
            return made

        return self._fitting(table, STRIP)

    def _line(self, elapsed_ns: int) -> str:
        parts = []
        for job, title in self.jobs.items():
            done, whole, now_bps, _ = self._state(job, elapsed_ns)
            now = units.rate(now_bps)
            parts.append(f"{title} {self._progress(job, done, whole)} ({now})")
        for switch, snapshot in self._snapshots.items():
            text = f"{switch} {snapshot.filling}/{snapshot.aggregators} aggregators"
            per_s = self._preemptions_per_s.get(switch, 0.0)
            parts.append(text + (f", {units.number(round(per_s))} preempted/s" if per_s else ""))
        drops = sum(self._drops.latest.values())
        if drops:
            parts.append(f"{drops} packets dropped")
        head = f"{units.time(elapsed_ns):>8}" + (f", {self.remark}:" if self.remark else "")
        return f"{head}  {', '.join(parts)}"


def _call_table(called: Sequence[Called], rows: int) -> Table:
    table = _table(*Called._fields)
    for row in _call_rows(called[:rows]):
        table.add_row(*row)
    _count_rest(table, len(called) - rows)
    return table


def _call_rows(called: Sequence[Called]) -> list[list[str]]:
    size = units.size.common(row.bytes for row in called)
    return [
        [*row[:3], units.number(row.groups), units.number(row.calls), size(row.bytes)]
        for row in called
    ]


def _preempted(snapshot: MemorySnapshot | None) -> int:
    return sum(snapshot.events.get(event, 0) for event in _PREEMPTIONS) if snapshot else 0


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number == 0 else "right", no_wrap=True)
    return table


def _count_rest(table: Table, left: int) -> None:
    if left > 0:
        table.add_row(f"and {left} more", style="dim")
