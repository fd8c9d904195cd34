"""A long run at full rate with losses: every value right, and no process grows.

    sudo .venv/bin/python -m bench soak [--minutes 10] [--loss 1] [--system esa]

Eight workers in two jobs on one switch, links without a limit that lose packets, no compute time.
The proportional set size (PSS: shared pages are counted in parts) of every process, the runner's
too, is read after a tenth of the time and near its end. A short run before it measures how many
iterations fit in. Prints a row per process and the largest growth; the exit code is 1 if a value
was wrong, the run failed, or, in a run of a minute and more, a process grew by more than
MAX_GROWTH.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from bench.harness import ROOT
from testbed.results import Results, find, read

MAX_GROWTH = 0.05  # of a process's PSS
HOSTS = 10
GUESS = 260_000  # gradient packets/s, until a short run has measured them
TRY_S = 20  # of that run
EXPERIMENT = """
name: soak
topology: {{kind: star, hosts: 10}}
links: {{loss: {loss} %}}
system: {system}
{memory}
timeout: {timeout} s
jobs:
  - {{model: resnet50, workers: 4, iterations: {iterations}, scale: {scale}, compute_scale: 0}}
  - {{model: resnet50, workers: 4, iterations: {iterations}, scale: {scale}, compute_scale: 0}}
"""
FRAGMENTS = 399_500  # of an iteration at scale 1


def descendants(pid: int) -> dict[int, str]:
    """Process ids below `pid`, with names."""
    found, below = {}, [pid]
    while below:
        each = below.pop()
        try:
            for task in Path(f"/proc/{each}/task").iterdir():
                below += map(int, (task / "children").read_text().split())
            found[each] = Path(f"/proc/{each}/comm").read_text().strip()
        except OSError:  # it has ended
            continue
    return found


def pss_bytes(pid: int) -> dict[str, int]:
    """PSS by process, of the testbed's processes below `pid`."""
    sizes = {}
    for each, name in descendants(pid).items():
        try:
            rollup = Path(f"/proc/{each}/smaps_rollup").read_text()
        except OSError:
            continue
        line = next((line for line in rollup.splitlines() if line.startswith("Pss:")), "")
        if line:
            sizes[f"{name} ({each})"] = int(line.split()[1]) * 1024
    return sizes


@dataclass
class Soaked:
    """The outcome of a run: its exit code and output, PSS by process, and its results."""

    code: int
    said: str
    early: dict[str, int]
    late: dict[str, int]
    read: Results | None

    @property
    def took_s(self) -> float:
        assert self.read is not None
        jobs = self.read.jobs
        return float(jobs["end_ns"].max() - jobs["start_ns"].min()) / 1e9

    @property
    def rate(self) -> float:
        """Gradient packets/s."""
        assert self.read is not None
        return float(self.read.jobs["gradient_packets"].sum()) / self.took_s


def soak(options: argparse.Namespace, seconds: float, rate: float) -> Soaked:
    """A run that takes so long, if so many gradient packets/s get through."""
    packets = 8 * FRAGMENTS * options.scale  # of an iteration
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = folder / "soak.yaml"
        file.write_text(
            EXPERIMENT.format(
                loss=options.loss,
                system=options.system,
                memory="" if options.system in ("ps", "ring") else "memory: {aggregators: 2048}",
                scale=options.scale,
                iterations=max(2, round(seconds * rate / packets)),
                timeout=600,
            )
        )
        log = folder / "log"
        with log.open("w") as output:
            process = subprocess.Popen(
                [sys.executable, str(ROOT / "run.py"), str(file), "--no-report"]
                + ["--results", str(folder / "results")],
                stdout=output,
                stderr=output,
            )
        try:
            early, late = watch(process, seconds / 10)
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()
        made = None
        if process.returncode == 0:
            made = read(find(folder / "results")[-1])
            _ = made.jobs  # before its folder goes
        return Soaked(process.returncode, log.read_text(), early, late, made)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--loss", type=float, default=1, help="percent, of each link")
    parser.add_argument("--system", default="esa")
    parser.add_argument("--scale", type=float, default=0.1, help="of ResNet-50")
    options = parser.parse_args()
    rate = float(GUESS)
    if options.minutes >= 1:  # machines differ, and do other things meanwhile
        tried = soak(options, TRY_S, rate)
        rate = tried.rate if tried.read is not None else rate
    done = soak(options, 60 * options.minutes, rate)
    if done.read is None:
        print(done.said[-3000:])
        return 1
    jobs = done.read.jobs
    print(
        f"{options.system}, {options.loss:g} % loss: {done.took_s:.0f} s,"
        f" {jobs['gradient_packets'].sum() / 1e6:.1f} million gradient packets"
        f" ({done.rate:,.0f}/s), {jobs['values_checked'].sum():,} values checked,"
        f" exact: {bool(jobs['exact'].all())}, {done.read.fidelity}"
    )
    grown = report(done.early, done.late) and options.minutes >= 1
    return int(grown or not jobs["exact"].all())


def watch(process: subprocess.Popen, first_s: float) -> tuple[dict[str, int], dict[str, int]]:
    """PSS by process `first_s` after all hosts were there, and the last one with all of them."""
    early: dict[str, int] = {}
    late: dict[str, int] = {}
    began = None
    while process.poll() is None:
        sizes = pss_bytes(process.pid)
        if len(sizes) > 2 * HOSTS:  # holders of namespaces, too, and what runs them
            began = began or time.monotonic()
            late = sizes
            if not early and time.monotonic() - began >= first_s:
                early = sizes
        time.sleep(min(1.0, first_s / 4))
    return early, late


def report(early: dict[str, int], late: dict[str, int]) -> bool:
    """Print both sizes of each process; whether one has grown too much."""
    worst = 0.0
    print(f"{'process':36}{'early MB':>10}{'late MB':>10}{'growth':>9}")
    for name, size in sorted(early.items()):
        if name in late:
            growth = late[name] / size - 1
            worst = max(worst, growth)
            print(f"{name:36}{size / 1e6:>10.2f}{late[name] / 1e6:>10.2f}{growth:>9.1%}")
    print(f"largest growth {worst:.1%}, {'above' if worst > MAX_GROWTH else 'within'} the limit")
    return worst > MAX_GROWTH
