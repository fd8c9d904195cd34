"""The worth of the fidelity mark: job completion time against its bound while the load rises.

    sudo .venv/bin/python -m bench fidelity [--hogs 0,3] [--rounds N] [KEY=VALUE,...]

One job of four workers without computation, on one switch (fidelity.yaml): its JCT cannot be
below what its links allow (testbed/setup/timing.py), and in virtual time it is within 1 % of that.
So what a run on the real clock takes beyond it is the machine's doing. The load rises in two ways:
links get faster, until hosts and switch want more than the machine has, and processes beside the
run keep the processors busy (hogs). Every run prints its excess over the bound, and the largest
value of each measure that a fidelity mark could be made of. The last table says, for each measure,
how well the limit in force tells the runs within 5 % from the others, and which limit would do it
best. Both are Markdown, for docs/fidelity.md.

Sizes grow with the rate, so that each run takes some two seconds; with the default options it takes
five to eight minutes.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from bench import harness
from testbed.results import Results
from testbed.results.fidelity import (
    CPU_LIMIT,
    DROPS_LIMIT,
    LAG_LIMIT,
    STILL_LIMIT,
    WINDOW_LIMIT,
)

TOLERATED = 0.05  # excess of JCT over the bound
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


# The largest value of each measure in a run.
MEASURES: dict[str, Callable[[Results], float]] = {
    "excess": lambda run: (run.jobs["jct_ns"] / run.jobs["communication_bound_ns"]).iloc[0] - 1,
    "drops": lambda run: (
        run.links["unmodelled_drops"].sum() + run.hosts["socket_drops"].fillna(0).sum()
    ),
    "switch cpu peak": lambda run: run.switches["cpu_peak_share"].max(),
    "host cpu peak": lambda run: run.hosts["cpu_peak_share"].max(),
    "lag p99 / iteration": lambda run: (
        run.hosts["lag_p99_ns"].max() / (run.jobs["jct_ns"] / run.jobs["iterations"]).min()
    ),
    "wait / window": lambda run: (
        run.table("fidelity").query("measure == 'wait / window'")["value"].max()
    ),
    "standstill": lambda run: (
        run.table("fidelity").query("measure == 'seconds of standstill'")["value"].max()
    ),
    "switch wait": lambda run: run.switches["wait_share"].max(),
    "host wait": lambda run: run.hosts["wait_share"].max(),
    "late events": lambda run: (run.switches["late_events"] / run.switches["packets_sent"]).max(),
}


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
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("changes", nargs="*", metavar="KEY=VALUE,...", help="of fidelity.yaml")
    parser.add_argument("--hogs", default="0,3")
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    bench = harness.load("fidelity", options.changes)
    print(f"{harness.machine()}\n")
    print(line(("links", "hogs", "JCT above the bound", *LIMITS, "mark")))
    print(line(["---"] * (4 + len(LIMITS))))
    found: list[dict] = []
    for _ in range(options.rounds):
        for count in map(int, options.hogs.split(",")):
            with hogs(count):
                measured = harness.measure(bench, columns=[*MEASURES.values()])
            for each in measured:
                head = (each.point.values["links.bandwidth"], count)
                if not each.rounds:
                    print(line((*head, "failed")), flush=True)
                    continue
                row = {**dict(zip(MEASURES, each.rounds[0], strict=True)), "mark": each.marks[0]}
                found.append(row)
                cells = (shown(name, row[name]) for name in LIMITS)
                print(line((*head, f"{row['excess']:.1%}", *cells, row["mark"])), flush=True)
    print(f"\n{len(found)} runs; an excess above {TOLERATED:.0%} counts as bad\n")
    if found:
        print("\n".join(judgements(found)))
