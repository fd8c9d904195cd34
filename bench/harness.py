"""The sweeps of this folder: each point is run in turn, some rounds, and its speed is measured.

A file bench/NAME.yaml is a sweep, as `ina sweep` runs it, with one more key:

    bench:
      columns: [packets/s, GB/s]    # what is measured, of COLUMNS
      rounds: 3                     # in which all points take turns, because machines are shared
      values: 250000                # optional: each model's size, in place of `scale`
      compute: 0.1                  # optional: compute times, in times of the model's at its size
      against: {system: esa}        # optional: the first column over that of this point

The table has a row for each point, with medians over the rounds. Other values of the file's keys
are named on the command line, several for a key that is varied; those that go together with it go
where it is the first of them:

    python -m bench losses jobs[*].model=googlenet "links.loss=0 %,1 %" bench.values=1000000
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import yaml
from p4fabric.base.config.yaml_document import Document, read_yaml
from p4fabric.base.errors import UserError

from testbed.experiment.sweep_file import Point, Sweep, shown, sweep_of
from testbed.results import Results, find, read
from testbed.results.environment import cpu_model
from testbed.traffic.trace import load_trace

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent


def duration_s(results: Results) -> float:
    """From the first job's start to the last one's end."""
    return float(results.jobs["end_ns"].max() - results.jobs["start_ns"].min()) / 1e9


def packets(results: Results) -> float:
    """Gradient packets: one is one fragment's contribution of one worker."""
    return float(results.jobs["gradient_packets"].sum())


def packet_rate(results: Results) -> float:
    """Gradient packets per second, of all jobs."""
    return packets(results) / duration_s(results)


def scale(results: Results) -> float:
    """The part of their model that the jobs have."""
    jobs = results.jobs
    return float(jobs["values"].sum() / sum(load_trace(model).values for model in jobs["model"]))


def _largest_pss(role: str) -> Callable[[Results], float]:
    return lambda run: float(run.hosts.groupby("role")["pss_bytes"].max()[role]) / 1e6


COLUMNS: dict[str, tuple[Callable[[Results], float], str]] = {
    "packets/s": (packet_rate, ",.0f"),
    # 4 bytes for each value of each worker, sent once: it checks as many as it sends.
    "GB/s": (lambda run: 4 * run.jobs["values_checked"].sum() / duration_s(run) / 1e9, ".3f"),
    "host us/packet": (lambda run: run.hosts["cpu_ns"].sum() / packets(run) / 1e3, ".2f"),
    "switch us/packet": (lambda run: run.switches["cpu_ns"].sum() / packets(run) / 1e3, ".2f"),
    "worker MB": (_largest_pss("worker"), ".1f"),
    "server MB": (_largest_pss("ps"), ".1f"),
    "JCT ms": (lambda run: run.jobs["jct_ns"].mean() / 1e6, ".2f"),
    "JCT ms / scale": (lambda run: run.jobs["jct_ns"].mean() / 1e6 / scale(run), ".2f"),
    "sent again": (lambda run: run.jobs["retransmissions"].sum() / packets(run), ".3%"),
}
"""Measures of a run, and how each is printed; times per packet are the processor's."""


@dataclass
class Bench:
    """A sweep and how it is measured: the key `bench` of its file."""

    sweep: Sweep
    keys: tuple[str, ...]  # that the file varies
    text: str  # the sweep's, for `ina sweep`
    columns: Sequence[str]
    rounds: int = 1
    against: dict[str, Any] | None = None


def load(name: str, changes: Sequence[str] = ()) -> Bench:
    """The sweep bench/NAME.yaml with KEY=VALUE,... of a command line. Raises UserError."""
    file = HERE / f"{name}.yaml"
    data = read_yaml(file.read_text(encoding="utf-8"), str(file)).data
    settings, swept = data.pop("bench"), data["sweep"]
    for change in changes:
        key, separator, text = change.partition("=")
        if not separator:
            raise UserError(f"{name}: found {change!r}; allowed: KEY=VALUE,...")
        values = read_yaml(f"[{text}]", change).data
        if key.startswith("bench."):
            own = key.removeprefix("bench.")
            settings[own] = values if own == "columns" else values[0]
        else:
            groups = swept.get("together", [])
            swept["together"] = groups = [each for each in groups if next(iter(each)) != key]
            for group in groups:
                group.pop(key, None)
            swept[key] = values
    keys = [key for key in swept if key != "together"]
    keys += [key for group in swept.get("together", ()) for key in group]
    _size(swept, settings.pop("values", None), settings.pop("compute", None))
    if not swept.get("together", True):
        del swept["together"]
    if unknown := set(settings.get("columns", ())) - set(COLUMNS):
        known = ", ".join(COLUMNS)
        raise UserError(f"bench.columns: found {min(unknown)!r}; allowed: {known}")
    sweep = sweep_of(Document(data), str(file), HERE, name)
    text = yaml.safe_dump(data, sort_keys=False, width=1000)
    return Bench(sweep, tuple(keys), text, **settings)


def _size(swept: dict[str, Any], values: int | None, compute: float | None) -> None:
    """Give each model this many values, and these times of it."""
    models, scales = "jobs[*].model", "jobs[*].scale"
    together: dict[str, list[Any]] = {}
    if values is not None:
        together[models] = swept.pop(models)
        sizes = [min(1, values / load_trace(model).values) for model in together[models]]
        together[scales] = [round(each, 6) for each in sizes]
    elif compute is not None:
        sizes = together[scales] = swept.pop(scales)
    if compute is not None:
        together["jobs[*].compute_scale"] = [round(compute * each, 8) for each in sizes]
    if together:
        swept.setdefault("together", []).append(together)


@dataclass
class Measured:
    """A point: the values of its columns in each round that it has finished, and their marks."""

    point: Point
    rounds: list[list[float]]
    marks: list[str]

    def medians(self) -> list[float]:
        return [median(each) for each in zip(*self.rounds, strict=True)]


def measure(
    bench: Bench,
    processes: int | None = None,
    columns: Sequence[Callable[[Results], float]] | None = None,
) -> list[Measured]:
    """Run all points, and measure them. processes: points in virtual time that run at a time (None:
    one for each processor). columns: in place of those of the file. Raises SystemExit if a value
    was wrong."""
    columns = columns or [COLUMNS[each][0] for each in bench.columns]
    found = [Measured(point, [], []) for point in bench.sweep.points]
    for _ in range(bench.rounds):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "sweep.yaml").write_text(bench.text, encoding="utf-8")
            more = [] if processes is None else ["--processes", str(processes)]
            ina("sweep", folder / "sweep.yaml", "--no-report", "--results", folder, *more)
            for each in found:
                made = find(folder / bench.sweep.name / each.point.key)
                if not made or (results := read(made[-1])).state != "finished":
                    continue
                if not results.jobs["exact"].all():
                    raise SystemExit(f"{each.point.label}: a value was wrong")
                each.rounds.append([float(column(results)) for column in columns])
                each.marks.append(results.fidelity or "virtual")
    return found


def ina(*arguments: object) -> None:
    """Call `ina`; what it prints goes to standard error. Points that fail are missing later."""
    command = [sys.executable, str(ROOT / "run.py"), *map(str, arguments)]
    if subprocess.run(command, stdout=sys.stderr).returncode not in (0, 1):
        raise SystemExit(1)


def run(text: str, folder: Path) -> Results:
    """Run an experiment in a process of its own."""
    file = folder / "bench.yaml"
    file.write_text(text)
    command = [sys.executable, str(ROOT / "run.py"), str(file), "--results", str(folder / "r")]
    done = subprocess.run([*command, "--no-report"], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stdout[-2000:] + done.stderr[-2000:])
    return read(find(folder / "r")[-1])


def machine() -> str:
    """The properties that the numbers depend on."""
    name = cpu_model() or platform.machine()
    load = os.getloadavg()[0]
    return f"{name}, {os.cpu_count()} cores, Linux {platform.release()}, load {load:.1f}"


def rows(bench: Bench, found: Sequence[Measured]) -> list[list[str]]:
    """The table, with its head."""
    several = bench.rounds > 1
    more = ["ratio"] if bench.against else []
    head = [*bench.keys, *bench.columns, *more, "fidelity", *["rounds"][:several]]
    table = [head]
    formats = [COLUMNS[each][1] for each in bench.columns]
    for each in found:
        values = [shown(each.point.values.get(key, "")) for key in bench.keys]
        if not each.rounds:
            table.append([*values, "failed", *[""] * (len(head) - len(values) - 1)])
            continue
        medians = each.medians()
        cells = [format(value, form) for value, form in zip(medians, formats, strict=True)]
        if bench.against:
            cells.append(_ratio(each, found, bench.against))
        every = ", ".join(format(one[0], formats[0]) for one in each.rounds)
        table.append([*values, *cells, "/".join(dict.fromkeys(each.marks)), *[every][:several]])
    return table


def _ratio(this: Measured, found: Sequence[Measured], against: dict[str, Any]) -> str:
    wanted = {**this.point.values, **against}
    for other in found:
        if other.rounds and all(wanted[key] == other.point.values.get(key) for key in against):
            same = [key for key in wanted if key not in against and not key.startswith("memory.")]
            if all(wanted[key] == other.point.values.get(key) for key in same):
                return f"{this.medians()[0] / other.medians()[0]:.3f}"
    return "-"


def print_table(table: Sequence[Sequence[str]]) -> None:
    """Print rows of cells; numbers are aligned to the right."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        cells = [
            f"{cell:>{width}}" if cell[:1].isdigit() else f"{cell:{width}}"
            for cell, width in zip(row, widths, strict=True)
        ]
        print("  ".join(cells).rstrip(), flush=True)


def main(name: str) -> int:
    """Measure a sweep; its name and the arguments of the command line."""
    about = [
        line[2:] for line in (HERE / f"{name}.yaml").read_text().splitlines() if line[:1] == "#"
    ]
    parser = argparse.ArgumentParser(
        description="\n".join(about), formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("changes", nargs="*", metavar="KEY=VALUE,...", help="other values of a key")
    parser.add_argument("--rounds", type=int, help="in which all points take turns")
    parser.add_argument("--processes", type=int, help="points in virtual time at one time")
    options = parser.parse_args()
    try:
        bench = load(name, options.changes)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    bench.rounds = options.rounds or bench.rounds
    print(machine())
    print_table(rows(bench, measure(bench, options.processes)))
    return 0
