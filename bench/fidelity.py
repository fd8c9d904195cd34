"""The worth of the fidelity mark: job completion time against its bound while the load rises.

    sudo .venv/bin/python bench/fidelity.py [--rates 10,20,40] [--hogs 0,3] [--rounds N]

One job of four workers without computation, on one switch: its JCT cannot be below what its links
allow (testbed/setup/timing.py), and in virtual time it is within 1 % of that. So what a run on
the real clock takes beyond it is the machine's doing. The load rises in two ways: links get faster,
until hosts and switch want more than the machine has, and processes beside the run keep the
processors busy (hogs). Every run prints its excess over the bound, and the largest value of each
measure that a fidelity mark could be made of. The last table says, for each measure,
how well the limit in force tells the runs within 5 % from the others, and which limit would do it
best. Both are Markdown, for docs/fidelity.md.

Sizes grow with the rate, so that each run takes some two seconds; with the default options it takes
five to eight minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from testbed.errors import RunError  # noqa: E402
from testbed.results import Results, find, read  # noqa: E402
from testbed.results.fidelity import (  # noqa: E402
    CPU_LIMIT,
    DROPS_LIMIT,
    LAG_LIMIT,
    STILL_LIMIT,
    WINDOW_LIMIT,
)

TOLERATED = 0.05  # excess of JCT over the bound
EXPERIMENT = """
name: fidelity
topology: {{kind: star, hosts: 5}}
links: {{bandwidth: {rate} Mbit/s}}
system: {system}
memory: {{aggregators: 1024}}
timeout: 60 s
jobs:
  - {{model: resnet50, workers: 4, iterations: 2, scale: {scale}, compute_scale: 0}}
"""
# What a mark could be made of, with the limits that are in force.
LIMITS: dict[str, float | None] = {
    "drops": DROPS_LIMIT,
    "switch cpu peak": CPU_LIMIT,
    "host cpu peak": CPU_LIMIT,
    "lag p99 / iteration": LAG_LIMIT,
    "wait / window": WINDOW_LIMIT,
    "standstill": STILL_LIMIT,
    "switch wait": None,
    "host wait": None,
    "late events": None,
}
SHARES = frozenset(LIMITS) - {"drops", "standstill"}


@contextmanager
def hogs(count: int) -> Iterator[None]:
    """So many processes that do nothing but use a processor."""
    running = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


def measures(results: Results) -> dict[str, float]:
    """The largest value of each measure in a run."""
    jobs, hosts, switches = results.jobs, results.hosts, results.switches
    iteration_ns = float((jobs["jct_ns"] / jobs["iterations"]).min())
    links = results.links["unmodelled_drops"].sum()
    trusted = results.table("fidelity")
    standstills = trusted.query("measure == 'seconds of standstill'")["value"]
    return {
        "drops": float(links + hosts["socket_drops"].fillna(0).sum()),
        "switch cpu peak": float(switches["cpu_peak_share"].max()),
        "host cpu peak": float(hosts["cpu_peak_share"].max()),
        "lag p99 / iteration": float(hosts["lag_p99_ns"].max()) / iteration_ns,
        "standstill": float(standstills.max()),
        "switch wait": float(switches["wait_share"].max()),
        "host wait": float(hosts["wait_share"].max()),
        "late events": float((switches["late_events"] / switches["packets_sent"]).max()),
        "wait / window": float(trusted.query("measure == 'wait / window'")["value"].max()),
    }


def run(system: str, rate: float) -> dict:
    """One run: its excess over the bound, its mark, its measures. Raises RunError."""
    text = EXPERIMENT.format(system=system, rate=rate, scale=min(1.0, round(rate * 0.001, 6)))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "fidelity.yaml")
        file.write_text(text)
        command = [sys.executable, str(ROOT / "run.py"), str(file), "--results", folder]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise RunError((done.stderr or done.stdout).strip()[-500:].replace("\n", " "))
        results = read(find(Path(folder))[-1])
        job = results.jobs.iloc[0]
        excess = float(job["jct_ns"] / job["communication_bound_ns"]) - 1
        return {"excess": excess, "mark": results.fidelity, **measures(results)}


def misjudged(rows: list[dict], measure: str, limit: float) -> tuple[int, int]:
    """(runs above the tolerated excess that a limit lets pass, runs below it that it accuses)."""
    missed = sum(row["excess"] > TOLERATED and row[measure] <= limit for row in rows)
    accused = sum(row["excess"] <= TOLERATED and row[measure] > limit for row in rows)
    return missed, accused


def best_limit(rows: list[dict], measure: str) -> float:
    """The least limit with the fewest runs judged wrongly."""
    values = sorted({row[measure] for row in rows})
    return min(values, key=lambda limit: sum(misjudged(rows, measure, limit)))


def shown(measure: str, value: float | None) -> str:
    """A value as it stands in a table."""
    if value is None:
        return ""
    return f"{100 * value:.3g} %" if measure in SHARES else f"{value:g}"


def line(cells: Iterable[object]) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def judgements(rows: list[dict]) -> Iterator[str]:
    """The last table."""
    yield line(("measure", "limit", "misses", "accuses", "best limit", "misses", "accuses"))
    yield line(["---"] * 7)
    for measure, limit in LIMITS.items():
        if any(row[measure] is None for row in rows):
            continue
        best = best_limit(rows, measure)
        judged = ("", "") if limit is None else misjudged(rows, measure, limit)
        cells = (measure, shown(measure, limit), *judged)
        yield line((*cells, shown(measure, best), *misjudged(rows, measure, best)))
    missed = sum(row["excess"] > TOLERATED and row["mark"] == "ok" for row in rows)
    accused = sum(row["excess"] <= TOLERATED and row["mark"] != "ok" for row in rows)
    yield line(("the mark", "", missed, accused, "", "", ""))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--system", default="esa")
    parser.add_argument("--rates", default="10,15,20,25,30,40,60,80,120,200", help="Mbit/s")
    parser.add_argument("--hogs", default="0,3")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--save", type=Path, help="write the numbers as JSON")
    options = parser.parse_args()
    if os.geteuid() != 0:
        raise SystemExit("needs root: it makes networks")
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}\n")
    print(line(("links", "hogs", "load", "JCT above the bound", *LIMITS, "mark")))
    print(line(["---"] * (5 + len(LIMITS))))
    rows = []
    for _ in range(options.rounds):
        for count in map(int, options.hogs.split(",")):
            with hogs(count):
                for rate in map(float, options.rates.split(",")):
                    head = (f"{rate:g} Mbit/s", count)
                    try:
                        row = {"rate": rate, "hogs": count, **run(options.system, rate)}
                    except RunError as error:
                        print(line((*head, f"failed: {error}")), flush=True)
                        continue
                    row["load"] = os.getloadavg()[0]
                    rows.append(row)
                    head += (f"{row['load']:.1f}",)
                    values = (shown(name, row[name]) for name in LIMITS)
                    cells = (*head, f"{row['excess']:.1%}", *values, row["mark"])
                    print(line(cells), flush=True)
    print(f"\n{len(rows)} runs; an excess above {TOLERATED:.0%} counts as bad\n")
    if rows:
        print("\n".join(judgements(rows)))
    if options.save:
        options.save.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
