"""What a person sees while a run goes on: a table that moves, or a line now and then where it
cannot.

Per job: iterations done (by its slowest worker), gradient data that its workers send, time so far.
Per switch: aggregators that are filling and held.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rich.console import Console
from rich.live import Live
from rich.table import Table

from testbed.dataplane import Look
from testbed.run.hosts import BYTES_SENT, ITERATION, HostGroup

LIVE_STEP_NS = 250_000_000
PLAIN_STEP_NS = 5_000_000_000


@dataclass(frozen=True)
class JobTitle:
    """What the table says of a job, whatever happens."""

    name: str
    iterations: int
    start_ns: int


class Progress:
    """Use as a context manager around a repetition; call `tick` often."""

    def __init__(
        self, jobs: Mapping[int, JobTitle], hosts: HostGroup, title: str, console: Console
    ) -> None:
        self._jobs = jobs
        self._hosts = hosts
        self._title = title
        self._console = console
        self._occupancy: Mapping[str, Look] = {}
        self._ended_ns: dict[int, int] = {}
        self._bytes: dict[int, tuple[int, int]] = {}
        self._rate_bps: dict[int, float] = {}
        self._last_ns = 0
        self._live: Live | None = None
        if console.is_terminal:
            self._live = Live(console=console, auto_refresh=False, transient=True)

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

    def tick(self, elapsed_ns: int, occupancy: Mapping[str, Look]) -> None:
        """Show the state if it is time to. elapsed_ns: since the run's start."""
        self._occupancy = occupancy or self._occupancy
        step = LIVE_STEP_NS if self._live else PLAIN_STEP_NS
        if elapsed_ns - self._last_ns < step:
            return
        self._measure(elapsed_ns, elapsed_ns - self._last_ns)
        self._last_ns = elapsed_ns
        if self._live:
            self._live.update(self._table(elapsed_ns), refresh=True)
        else:
            self._console.print(self._line(elapsed_ns), highlight=False, soft_wrap=True)

    def _measure(self, now_ns: int, span_ns: int) -> None:
        for job in self._jobs:
            sent = sum(int(host.row[BYTES_SENT]) for host in self._hosts.of_job(job, "worker"))
            before = self._bytes.get(job, (0, 0))[0]
            self._bytes[job] = sent, now_ns
            self._rate_bps[job] = (sent - before) * 8e9 / span_ns

    def _state(self, job: int, elapsed_ns: int) -> tuple[int, int, float, int]:
        """Iterations done, iterations asked for, Mbit/s, time in ns."""
        title = self._jobs[job]
        workers = self._hosts.of_job(job, "worker")
        done = min((int(host.row[ITERATION]) for host in workers), default=0)
        ended = self._ended_ns.get(job)
        rate = 0.0 if ended is not None else self._rate_bps.get(job, 0.0) / 1e6
        time_ns = (elapsed_ns if ended is None else ended) - title.start_ns
        return done, title.iterations, rate, max(time_ns, 0)

    def _table(self, elapsed_ns: int) -> Table:
        table = Table(title=f"{self._title}, {elapsed_ns / 1e9:.1f} s", title_justify="left")
        table.add_column("job")
        for heading in ("iteration", "sent Mbit/s", "time s"):
            table.add_column(heading, justify="right")
        for job, title in self._jobs.items():
            done, whole, rate, time_ns = self._state(job, elapsed_ns)
            table.add_row(title.name, f"{done}/{whole}", f"{rate:.1f}", f"{time_ns / 1e9:.1f}")
        for switch, state in self._occupancy.items():
            used = f"{state.filling} filling, {state.held} held of {state.capacity}"
            table.add_row(switch, used, "", "")
        return table

    def _line(self, elapsed_ns: int) -> str:
        parts = []
        for job, title in self._jobs.items():
            done, whole, rate, _ = self._state(job, elapsed_ns)
            parts.append(f"{title.name} {done}/{whole} ({rate:.0f} Mbit/s)")
        for switch, state in self._occupancy.items():
            parts.append(f"{switch} {state.filling}/{state.capacity} aggregators")
        return f"{elapsed_ns / 1e9:6.1f} s  " + ", ".join(parts)
