"""What the fidelity mark is worth: job completion time against its bound while the load rises.

    sudo .venv/bin/python bench/fidelity.py [--rates 10,20,40] [--hogs 0,2,4] [--rounds N]

One job of four workers without computation, on one switch: its JCT cannot be below what its links
allow (testbed/workload/bounds.py), and in virtual time it is within 1 % of that. So what a run on
the real clock takes beyond it is the machine's doing. The load rises in two ways: links get faster,
until hosts and switch want more than the machine has, and processes beside the run keep the
processors busy (hogs). Every run prints its excess over the bound, and the largest value of each
measure that a fidelity mark could be made of. The last lines say, for each measure, which limit
tells the runs within 5 % from the others best.

Sizes grow with the rate, so that each run takes some two seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from testbed.results import Results, find, read  # noqa: E402

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
MEASURES = (
    "drops",
    "switch cpu peak",
    "host cpu peak",
    "lag p99 / iteration",
    "switch wait",
    "host wait",
    "late events",
    "wait / window",
)


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
    return {
        "drops": float(links + hosts["socket_drops"].fillna(0).sum()),
        "switch cpu peak": float(switches["cpu_peak_share"].max()),
        "host cpu peak": float(hosts["cpu_peak_share"].max()),
        "lag p99 / iteration": float(hosts["lag_p99_ns"].max()) / iteration_ns,
        "switch wait": float(switches["wait_share"].max()),
        "host wait": float(hosts["wait_share"].max()),
        "late events": float((switches["late_events"] / switches["packets_sent"]).max()),
        "wait / window": float(trusted.query("measure == 'wait / window'")["value"].max()),
    }


def run(system: str, rate: float) -> dict:
    """One run: its excess over the bound, its mark, its measures."""
    scale = min(1.0, round(rate * 0.001, 6))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "fidelity.yaml")
        file.write_text(EXPERIMENT.format(system=system, rate=rate, scale=scale))
        command = [sys.executable, str(ROOT / "run.py"), str(file), "--results", folder]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(done.stdout[-2000:] + done.stderr[-2000:])
        results = read(find(Path(folder))[-1])
        job = results.jobs.iloc[0]
        excess = float(job["jct_ns"] / job["communication_bound_ns"]) - 1
        return {"excess": excess, "mark": results.fidelity, **measures(results)}


def best_limit(rows: list[dict], measure: str) -> tuple[float, int, int]:
    """(limit, bad runs within it, good runs beyond it) with the fewest runs judged wrongly."""
    found = []
    for limit in sorted({row[measure] for row in rows}):
        missed = sum(row["excess"] > TOLERATED and row[measure] <= limit for row in rows)
        accused = sum(row["excess"] <= TOLERATED and row[measure] > limit for row in rows)
        found.append((missed + accused, missed, accused, limit))
    _, missed, accused, limit = min(found)
    return limit, missed, accused


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--system", default="esa")
    parser.add_argument("--rates", default="10,20,40,60,80,120,160,240", help="Mbit/s")
    parser.add_argument("--hogs", default="0,2,4")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--save", type=Path, help="write the numbers as JSON")
    options = parser.parse_args()
    if os.geteuid() != 0:
        raise SystemExit("needs root: it makes networks")
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    head = "".join(f"{name:>21}" for name in MEASURES)
    print(f"{'Mbit/s':>7}{'hogs':>6}{'load':>7}{'excess':>9}  {'mark':<9}{head}")
    rows = []
    for _ in range(options.rounds):
        for count in map(int, options.hogs.split(",")):
            with hogs(count):
                for rate in map(float, options.rates.split(",")):
                    row = {"rate": rate, "hogs": count, **run(options.system, rate)}
                    row["load"] = os.getloadavg()[0]
                    rows.append(row)
                    values = "".join(f"{row[name]:>21.4g}" for name in MEASURES)
                    print(
                        f"{rate:>7g}{count:>6}{row['load']:>7.1f}{row['excess']:>9.1%}"
                        f"  {row['mark']:<9}{values}",
                        flush=True,
                    )
    print(f"\nlimits that tell an excess above {TOLERATED:.0%} best ({len(rows)} runs):")
    for name in MEASURES:
        limit, missed, accused = best_limit(rows, name)
        print(f"  {name:<22}{limit:>10.4g}   misses {missed}, accuses {accused} wrongly")
    if options.save:
        options.save.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
