"""`ina check FILE` and `ina show FILE`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from testbed.config import units
from testbed.config.yaml_document import read_yaml
from testbed.errors import UserError
from testbed.experiment.experiment import Experiment
from testbed.experiment.load import load
from testbed.experiment.summary import summary
from testbed.experiment.sweep import is_sweep, load_sweep, other_workers


def check_command(
    path: str | Path,
    inspect: Callable[[Experiment], Iterable[str]] = lambda _: (),
    as_json: bool = False,
) -> int:
    """Say in one line what a valid file holds; warnings follow. Raises UserError for any other.

    `inspect` looks at what the experiment names beyond its file, and returns warnings."""
    if is_sweep(path):
        return _check_sweep(path, inspect, as_json)
    experiment = load(path)
    warnings = (*experiment.warnings, *inspect(experiment))
    if as_json:
        listed = [{"warning": warning} for warning in warnings]
        _print_json({"file": str(path), "summary": summary(experiment), "warnings": listed})
        return 0
    print(f"{path}: valid: {summary(experiment)}")
    for warning in warnings:
        print(f"warning: {warning}")
    return 0


def _print_json(data: Any) -> None:
    print(json.dumps(data, indent=1, ensure_ascii=False))


def _check_sweep(
    path: str | Path, inspect: Callable[[Experiment], Iterable[str]], as_json: bool
) -> int:
    sweep = load_sweep(path)
    labels: dict[str, list[str]] = {}  # of the points that a warning is about
    for point in sweep.points:
        try:
            for warning in (*point.experiment.warnings, *inspect(point.experiment)):
                labels.setdefault(warning, []).append(point.label)
        except UserError as error:
            raise UserError(f"{error}\n  at the sweep's point {point.label}") from None
    if as_json:
        listed: list[dict[str, Any]] = [{"warning": each} for each in other_workers(sweep.points)]
        listed += [{"warning": each, "points": points} for each, points in labels.items()]
        points = [{"key": point.key, "label": point.label} for point in sweep.points]
        keys = list(sweep.keys)
        _print_json({"file": str(path), "keys": keys, "points": points, "warnings": listed})
        return 0
    print(f"{path}: valid: a sweep of {len(sweep.points)} points over {', '.join(sweep.keys)}")
    for warning in other_workers(sweep.points):
        print(f"warning: {warning}")
    for warning, (first, *others) in labels.items():
        print(f"warning: {warning}")
        if len(others) + 1 < len(sweep.points):
            more = f" and {len(others)} more" if others else ""
            print(f"  at the sweep's point {first}{more}")
    return 0


def show_command(path: str | Path, as_json: bool = False) -> int:
    """Print the experiment with all defaults, as a file that loads to the same experiment; of a
    sweep, its points."""
    if as_json:
        _print_json(_described(path))
        return 0
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


def _described(path: str | Path) -> dict[str, Any]:
    """What `show` prints."""
    if is_sweep(path):
        sweep = load_sweep(path)
        points = [
            {"key": point.key, "label": point.label, "summary": summary(point.experiment)}
            for point in sweep.points
        ]
        return {"sweep": sweep.name, "keys": list(sweep.keys), "points": points}
    experiment = load(path)
    return {
        "summary": summary(experiment),
        "facts": _facts(experiment),
        "warnings": list(experiment.warnings),
        "experiment": read_yaml(experiment.resolved_yaml(), str(path)).data,
    }


def show_results(path: Path, as_json: bool = False) -> int:
    """The same of the results of a run, or of SWEEP/HASH; of a sweep, its points and how they
    are."""
    from testbed.analysis.data.sweep_data import is_sweep, read_sweep, run_at

    if not is_sweep(path):
        return show_command(run_at(path).folder / "experiment.yaml", as_json)
    sweep = read_sweep(path)
    if as_json:
        points = []
        for point in sweep.points:
            described: dict[str, Any] = {"key": point.key}
            described["values"] = {key: value.text for key, value in point.values.items()}
            run = point.results
            described["state"] = None if run is None else run.state
            described["notice"] = "" if run is None else run.notice
            described["folder"] = None if run is None else str(run.folder)
            points.append(described)
        _print_json({"sweep": sweep.name, "keys": list(sweep.keys), "points": points})
        return 0
    for point in sweep.points:
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
