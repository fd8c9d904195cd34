"""`run.py check FILE` and `run.py show FILE`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from testbed.config import units
from testbed.errors import UserError
from testbed.experiment.experiment import Experiment
from testbed.experiment.load import load
from testbed.experiment.summary import summary
from testbed.experiment.sweep import is_sweep, load_sweep, other_workers


def check_command(
    path: str | Path, inspect: Callable[[Experiment], Iterable[str]] = lambda _: ()
) -> int:
    """Say in one line what a valid file holds; warnings follow. Raises UserError for any other.

    `inspect` looks at what the experiment names beyond its file, and returns warnings."""
    if is_sweep(path):
        return _check_sweep(path, inspect)
    experiment = load(path)
    warnings = (*experiment.warnings, *inspect(experiment))
    print(f"{path}: valid: {summary(experiment)}")
    for warning in warnings:
        print(f"warning: {warning}")
    return 0


def _check_sweep(path: str | Path, inspect: Callable[[Experiment], Iterable[str]]) -> int:
    sweep = load_sweep(path)
    labels: dict[str, list[str]] = {}  # of the points that a warning is about
    for point in sweep.points:
        try:
            for warning in (*point.experiment.warnings, *inspect(point.experiment)):
                labels.setdefault(warning, []).append(point.label)
        except UserError as error:
            raise UserError(f"{error}\n  at the sweep's point {point.label}") from None
    print(f"{path}: valid: a sweep of {len(sweep.points)} points over {', '.join(sweep.keys)}")
    for warning in other_workers(sweep.points):
        print(f"warning: {warning}")
    for warning, (first, *others) in labels.items():
        print(f"warning: {warning}")
        if len(others) + 1 < len(sweep.points):
            more = f" and {len(others)} more" if others else ""
            print(f"  at the sweep's point {first}{more}")
    return 0


def show_command(path: str | Path) -> int:
    """Print the experiment with all defaults, as a file that loads to the same experiment; of a
    sweep, its points."""
    if is_sweep(path):
        for point in load_sweep(path).points:
            print(f"{point.key}  {point.label}")
            print(f"              {summary(point.experiment)}")
        return 0
    experiment = load(path)
    print(f"# {summary(experiment)}")
    for line in _facts(experiment):
        print(f"# {line}")
    for warning in experiment.warnings:
        print(f"# warning: {warning}")
    print()
    print(experiment.resolved_yaml(), end="")
    return 0


def show_results(path: Path) -> int:
    """The same of the results of a run, or of SWEEP/HASH; of a sweep, its points and how they
    are."""
    from testbed.analysis.data.sweep_data import is_sweep, read_sweep, run_at

    if not is_sweep(path):
        return show_command(run_at(path).folder / "experiment.yaml")
    for point in read_sweep(path).points:
        values = ", ".join(f"{key}={value.text}" for key, value in point.values.items())
        results = point.results
        state = "not run" if results is None else results.notice or results.state
        print(f"{point.key}  {values}")
        print(f"              {state}{f': {results.folder}' if results else ''}")
    return 0


def _facts(experiment: Experiment) -> list[str]:
    """What follows from the file and is good to know before a run."""
    lines = []
    if experiment.system_entry.memory:
        count, each = experiment.aggregators, experiment.aggregator_bytes
        size = f"{count * each / 1024:.1f} KiB"
        lines.append(f"memory: {count} aggregators of {each} B = {size} per switch")
    total = 0
    for number, job in enumerate(experiment.jobs):
        if job.is_program:
            lines.append(f"jobs[{number}] {job.name}: {job.workers} ranks of {job.command}")
            continue
        trace, fragments = job.trace(), experiment.fragments(number)
        total += fragments * job.workers * job.iterations
        compute = units.show(trace.compute_ns, units.TIME)
        lines.append(
            f"jobs[{number}] {job.name}: per iteration {trace.values} values in {fragments}"
            f" fragments and {len(trace.layers)} tensors, {compute} of computing"
            f" ({trace.gpu or trace.hardware})"
        )
    lines.append(f"gradient packets in all, without retransmissions: {total} per repetition")
    return lines
