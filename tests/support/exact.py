"""Helpers of the tests that run an experiment's hosts and switches together, without a network."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tests.support.fabric import Fabric, Host, Schedule
from tests.support.switches import experiment, start_switches

MINUTE_NS = 60 * 10**9


def run(
    text: str, schedule: Schedule, program: Path | None = None, until_ns: int = MINUTE_NS, **parts
) -> Fabric:
    """Run the experiment `text` % `parts` to its end: AssertionError unless every worker has
    received and checked every value. `program` replaces the switches' P4."""
    return run_experiment(experiment(text % parts), schedule, program, until_ns)


def run_experiment(spec, schedule: Schedule, program: Path | None = None, until_ns=MINUTE_NS):
    """The same with an experiment that is loaded already."""
    fabric = Fabric(spec, start_switches(spec, program), schedule)
    fabric.run(until_ns)
    check(fabric)
    return fabric


def check(fabric: Fabric) -> None:
    """AssertionError unless every worker has checked every value of every iteration."""
    for worker in fabric.workers():
        s = worker.spec
        values = sum(tensor.values for tensor in s.job.tensors) * s.job.iterations
        checked = worker.counters()["values_checked"]
        assert checked == values, f"{s.host}: {checked} of {values} values checked"


def total(hosts: Iterable[Host], name: str) -> int:
    """A counter's sum over hosts."""
    return sum(host.counters()[name] for host in hosts)
