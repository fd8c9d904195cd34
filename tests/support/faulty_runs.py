"""Two short jobs on one switch on Mininet; a planned fault strikes job a, or their switch."""

from __future__ import annotations

from pathlib import Path

from testbed import results
from tests.support.ina import ina

TEXT = """
name: fault
topology: {{kind: star, hosts: 6}}
links: {{bandwidth: 10 Mbit/s}}
system: {system}
{memory}
timeout: 2 s
jobs:
  - {{name: a, model: resnet18, workers: 2, iterations: 4, scale: 0.008, compute_scale: 1}}
  - {{name: b, model: resnet18, workers: 2, iterations: 4, scale: 0.008, compute_scale: 1}}
faults:
  - {{at: 400 ms, {fault}}}
"""


def run(folder: Path, system: str, fault: str) -> tuple[int, str, results.Results]:
    """(exit code, errors, results) of a run with a fault."""
    path = folder / "fault.yaml"
    memory = "memory: {aggregators: 64}" if system in ("esa", "atp") else ""
    path.write_text(TEXT.format(system=system, memory=memory, fault=fault))
    done = ina(path, "--results", folder / "r", "--no-report")
    (made,) = (folder / "r").glob("fault-*")
    return done.returncode, done.stderr, results.read(made)


def all_exact(jobs) -> bool:
    checked = jobs.values_checked == jobs["values"] * jobs.iterations * jobs.workers
    return bool(jobs.exact.all() and checked.all())
