"""The reliability matrix: every system under every kind of trouble, on a real network.

Two jobs share a switch; trouble strikes job a, or the links, or the switch. A run must end with
every value exact, or say clearly why its system cannot go on. The tests (test_reliability.py) judge
the cells one by one; called as a program this prints the matrix of docs/reliability.md:

    sudo .venv/bin/python -m tests.support.reliability [SYSTEM...]
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from testbed import results
from tests.support.ina import ina

TEXT = """
name: {name}
topology: {{kind: star, hosts: 7}}
links: {{bandwidth: 10 Mbit/s, delay: 100 us, {links}}}
system: {system}
{memory}
timeout: 5 s
jobs:
  - {{name: a, model: resnet18, workers: 3, iterations: 3, scale: 0.0135, compute_scale: 1}}
  - {{name: b, model: vgg11, workers: 2, iterations: 4, scale: 0.0006, compute_scale: 0.5}}
{faults}
"""
MEMORY = "memory: {aggregators: 128}"
LITTLE = "memory: {aggregators: 16}"  # so little that a pool's jobs need all of it
SYSTEMS = {
    "esa": ("{name: esa, window: 64}", MEMORY),
    "atp": ("{name: atp, window: 64}", MEMORY),
    "switchml": ("switchml", MEMORY),
    "ps": ("{name: ps, window: 32}", ""),
    "ring": ("{name: ring, window: 64}", ""),
}
MIN_PACKETS = 20_000


@dataclass(frozen=True)
class Trouble:
    """One row: what the links do, and what goes wrong on purpose."""

    title: str
    links: str = ""
    fault: str = ""
    needs_server: bool = False


TROUBLES = {
    "none": Trouble("nothing"),
    "loss_0.1": Trouble("0.1 % loss", "loss: 0.1 %"),
    "loss_1": Trouble("1 % loss", "loss: 1 %"),
    "loss_5": Trouble("5 % loss", "loss: 5 %"),
    "duplicate": Trouble("1 % duplicates", "duplicate: 1 %"),
    "reorder": Trouble("1 % reordered by 2 ms", "reorder: 1 %, reorder_delay: 2 ms"),
    "straggler": Trouble(
        "a worker that computes 8 times as long", fault="fault: slow, job: a, worker: 1, factor: 8"
    ),
    "worker": Trouble("a worker paused for 2 s", fault="fault: pause, job: a, worker: 1, for: 2 s"),
    "server": Trouble(
        "its server paused for 2 s",
        fault="fault: pause, job: a, ps: 0, for: 2 s",
        needs_server=True,
    ),
    "restart": Trouble("the switch restarted", fault="fault: restart, switch: s1"),
    "kill": Trouble("the other job killed", fault="fault: kill, job: b"),
}
AT = "500 ms"
SERVERLESS = ("switchml", "ring")
CELLS = [
    (system, trouble)
    for trouble, what in TROUBLES.items()
    for system in SYSTEMS
    if not (what.needs_server and system in SERVERLESS)
]


@dataclass(frozen=True)
class Outcome:
    """Outcome of a run. `read`: its results, in every case."""

    code: int
    errors: str
    read: results.Results

    def seconds(self) -> float | None:
        """JCT of job a; None if it did not finish."""
        jct_ns = self.read.jobs.set_index("name").jct_ns["a"]
        return None if pd.isna(jct_ns) else float(jct_ns) / 1e9


def experiment(system: str, trouble: str) -> str:
    """The file of a cell."""
    what = TROUBLES[trouble]
    options, memory = SYSTEMS[system]
    memory = LITTLE if trouble == "kill" and system in ("esa", "atp") else memory
    faults = f"faults:\n  - {{at: {AT}, {what.fault}}}" if what.fault else ""
    text = TEXT.format(
        name=f"{system}-{trouble}", links=what.links, system=options, memory=memory, faults=faults
    )
    return text.replace(", }", "}")


def run(system: str, trouble: str, folder: Path) -> Outcome:
    """Run a cell; its files go below `folder`."""
    path = folder / f"{system}-{trouble}.yaml"
    path.write_text(experiment(system, trouble))
    target = folder / "results"
    done = ina(path, "--results", target, "--no-report")
    (made,) = target.glob(f"{system}-{trouble}-*")
    return Outcome(done.returncode, done.stderr, results.read(made))


def cell(outcome: Outcome) -> str:
    """A cell of the printed matrix: the JCT of job a where all was exact, else how it ended."""
    if outcome.code == 0:
        return f"{outcome.seconds():.1f} s"
    return outcome.errors.strip().splitlines()[0]


def main(systems: list[str]) -> None:
    chosen = systems or list(SYSTEMS)
    print("| job a, with | " + " | ".join(chosen) + " |")
    print("|---" * (len(chosen) + 1) + "|")
    for trouble, what in TROUBLES.items():
        cells = []
        for system in chosen:
            if (system, trouble) not in CELLS:
                cells.append("no server")
                continue
            with tempfile.TemporaryDirectory() as folder:
                cells.append(cell(run(system, trouble, Path(folder))))
        print(f"| {what.title} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
