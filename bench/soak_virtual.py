"""Many runs in virtual time in one process: every value right, and the process does not grow.

    .venv/bin/python -m bench soak_virtual [--minutes 120] [--seed 1] [--systems esa,ps]

Runs of all systems by turns, each with its results folder and its tables read again: a switch with
losses, racks with a worker that stands still, a leaf-spine network whose link fails, and a cluster
whose jobs come and go. Every run has another seed. A notebook or a service may call the testbed for
days in one process, so what a run leaves behind in it would add up. Each kind of run is made once
before anything is measured, because its P4 program and protocols stay loaded.

Prints the proportional set size (PSS: shared pages are counted in parts), the open files and the
threads of the process over its processor time. `--minutes` is processor time, too. The exit code is
1 if a value was wrong, a run failed, a file or a thread stayed open, or the PSS has grown by more
than MAX_GROWTH after the first tenth of the time.
"""

from __future__ import annotations

import argparse
import itertools
import os
import shutil
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow
import yaml

import testbed as tb
from testbed import systems

MAX_GROWTH = 0.05  # of the PSS after a tenth of the time
MARKS = 10  # rows of the table
SYSTEMS = ("esa", "atp", "switchml", "grid", "ps", "ring")
JOBS = """
jobs:
  - {name: a, model: resnet50, workers: 4, iterations: 2, scale: 0.02}
  - {name: b, model: vgg16, workers: 2, iterations: 3, scale: 0.003, start: 1 ms}
"""
KINDS = {
    "loss": "topology: {kind: star, hosts: 10}\n"
    "links: {bandwidth: 10 Gbit/s, delay: 1 us, loss: 1 %}" + JOBS,
    "pause": "topology: {kind: two_level, tors: 2, hosts: 3, servers: 2}\n"
    "links: {bandwidth: 10 Gbit/s, delay: 1 us, duplicate: 1 %}" + JOBS + "faults:\n"
    "  - {at: 2 ms, fault: pause, job: a, worker: 1, for: 20 ms}\n",
    "link": "topology: {kind: leaf_spine, leaves: 2, spines: 2, hosts: 4}\n"
    "links: {bandwidth: 10 Gbit/s, delay: 1 us, reorder: 1 %, reorder_delay: 50 us}"
    + JOBS
    + "faults:\n"
    "  - {at: 2 ms, fault: link_down, between: [s1, s3], for: 10 ms, failover: 1 ms}\n",
    "arrivals": """
topology: {kind: two_level, tors: 2, hosts: 4, servers: 2}
links: {bandwidth: 10 Gbit/s, delay: 1 us}
arrivals:
  placement: random
  poisson:
    jobs: 12
    interval: 1 ms
    kinds:
      - {name: small, model: resnet50, workers: 2, iterations: 2, scale: 0.005, weight: 3}
      - {name: large, model: vgg16, workers: 4, iterations: 2, scale: 0.002}
""",
}
NO_ARRIVALS = ("grid",)  # its plan is made for all jobs at once


@dataclass(frozen=True)
class Mark:
    """The process after so much processor time. `pss`: bytes."""

    cpu_s: float
    runs: int
    pss: int
    files: int
    threads: int

    @staticmethod
    def now(cpu_s: float, runs: int) -> Mark:
        rollup = Path("/proc/self/smaps_rollup").read_text()
        (pss,) = (line for line in rollup.splitlines() if line.startswith("Pss:"))
        files, threads = (len(os.listdir(f"/proc/self/{each}")) for each in ("fd", "task"))
        return Mark(cpu_s, runs, int(pss.split()[1]) * 1024, files, threads)

    def print(self) -> None:
        print(
            f"{self.cpu_s:>12.0f}{self.runs:>8}{self.pss / 1e6:>10.1f}"
            f"{self.files:>8}{self.threads:>9}",
            flush=True,
        )


def kinds(chosen: Sequence[str]) -> list[tuple[str, tb.Experiment]]:
    """These systems in every network, by name."""
    made = []
    for kind, system in itertools.product(KINDS, chosen):
        if kind == "arrivals" and system in NO_ARRIVALS:
            continue
        keys = yaml.safe_load(KINDS[kind])
        if systems.SYSTEMS[system].memory:
            keys["memory"] = {"aggregators": 256}
        name = f"{kind}-{system}"
        made.append((name, tb.Experiment(name=name, runtime="virtual", system=system, **keys)))
    return made


def run(experiment: tb.Experiment, seed: int, folder: Path) -> tuple[int, bool]:
    """Values checked in one run, and whether all were right. Raises tb.RunError."""
    made = tb.run(experiment.with_(seed=seed), folder, progress=False)
    jobs = made.jobs
    checked = int(jobs["values_checked"].sum())
    wanted = int((jobs["values"] * jobs["iterations"] * jobs["workers"]).sum())
    shutil.rmtree(made.folder)
    return checked, bool(jobs["exact"].all()) and checked == wanted


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=120, help="of processor time")
    parser.add_argument("--seed", type=int, default=1, help="of the first run")
    parser.add_argument("--systems", default=",".join(SYSTEMS), help="default: all")
    options = parser.parse_args()
    # Else its pools start further threads when the machine is busy.
    pyarrow.set_cpu_count(1)
    pyarrow.set_io_thread_count(1)
    limit_s = 60 * options.minutes
    listed = kinds(options.systems.split(","))
    values = wrong = 0
    marks: list[Mark] = []
    print(f"{'processor s':>12}{'runs':>8}{'PSS MB':>10}{'files':>8}{'threads':>9}")
    with tempfile.TemporaryDirectory() as folder:
        began_s = time.process_time()
        for number, (name, experiment) in enumerate(itertools.cycle(listed)):
            if number == len(listed):  # everything is loaded
                began_s = time.process_time()
            used_s = time.process_time() - began_s
            if number >= len(listed):
                if len(marks) < MARKS and used_s >= len(marks) * limit_s / MARKS:
                    marks.append(Mark.now(used_s, number))
                    marks[-1].print()
                if used_s >= limit_s and number >= 2 * len(listed):
                    break
            seed = options.seed + number
            try:
                checked, exact = run(experiment, seed, Path(folder))
            except tb.RunError as error:
                checked, exact = 0, False
                print(f"{name}, seed {seed}: {error}", flush=True)
            values += checked
            if not exact:
                wrong += 1
                print(f"{name}, seed {seed}: not exact", flush=True)
        marks.append(Mark.now(used_s, number))
        marks[-1].print()
    early, late = marks[min(1, len(marks) - 2)], marks[-1]
    growth = late.pss / early.pss - 1
    left = late.files - early.files + late.threads - early.threads
    print(
        f"{number} runs, {values:,} values checked, {wrong} runs that failed or were not exact;"
        f" PSS {growth:+.1%}, files and threads {left:+}"
    )
    grown = options.minutes >= 1 and growth > MAX_GROWTH
    return int(grown or left > 0 or wrong > 0)
