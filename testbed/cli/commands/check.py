"""`ina check FILE`."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from p4fabric.base.errors import UserError

from testbed.cli.shared import (
    Parser,
    changes_argument,
    import_schemas,
    json_option,
    print_json,
    refuse_changes,
)

if TYPE_CHECKING:
    from p4engine.backend.build import Compiled
    from rich.console import Console

    from testbed.experiment import Experiment
    from testbed.setup import Setup

Found = tuple[Iterable[str], Iterable[str]]  # facts and warnings
# Shows its steps, if there is a console. Knows programs that have been tried before, if it is told;
# then the facts are those of a sweep's point: who is carried by hosts.
Inspect = Callable[["Experiment", "Console | None", "_Tried | None"], Found]


def arguments(parser: Parser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE.yaml")
    changes_argument(parser)
    json_option(parser, "print the content and the warnings as JSON")


def call(options: Namespace) -> int:
    if import_schemas(options.file):
        refuse_changes(options, "a network")
        from p4fabric.netfile.network_run import check_network

        if options.json:
            raise UserError("check --json is for experiments and sweeps")
        return check_network(options.file)
    from p4fabric.base.lossless_buffers import described
    from p4fabric.base.steps import step

    from testbed.cli import tree_text
    from testbed.experiment.link_buffers import buffers_of
    from testbed.run_parts.program import prepare
    from testbed.schemes import set_up
    from testbed.setup import placement_check, regime_check, scale_check
    from testbed.systems.tuned_options import WINDOW

    def inspect(experiment: Experiment, console: Console | None, tried: _Tried | None) -> Found:
        with step(console, f"checking what follows from {experiment.name}"):
            setup = set_up(experiment)
        with step(console, "compiling its P4 program"):
            compiled = tried.warnings(experiment, setup) if tried else prepare(setup).warnings
            warnings = [*compiled]
        with step(console, "looking at the models and the network"):
            warnings += [*scale_check.warnings(setup), *placement_check.warnings(setup)]
            warnings += placement_check.path_warnings(setup)
            tuned = experiment.tuning is not None and WINDOW in experiment.tuning.options
            warnings += regime_check.warnings(setup, tuned)
            told: list[str] = []
            if experiment.tuning is not None:
                from testbed.sweeps.trials import plan_of

                told = plan_of(experiment, setup)
            told += described(buffers_of(experiment))
            if tried:  # a sweep is told of what differs between its points
                return [*tree_text.refusals(setup), *told], warnings
            return [*placement_check.places(setup), *tree_text.facts(setup), *told], warnings

    return check_command(options.file, inspect, options.json, options.changes)


POOL = "memory.aggregators"


class _Tried:
    """The P4 programs of a sweep's points that have been compiled and tried.

    One that comes with the testbed is so for any size of the pool that an experiment can have. So
    where the sweep is over the pool's size, one of the experiments that differ in nothing else
    tells for all: to compile it for another size takes a second."""

    def __init__(self, keys: Collection[str]) -> None:
        """keys: what is varied."""
        self._over_pool = POOL in keys
        self._compiled: dict[Hashable, Compiled] = {}
        self._warnings: dict[str, tuple[str, ...]] = {}  # by experiment, where it is over the pool

    def warnings(self, experiment: Experiment, setup: Setup) -> tuple[str, ...]:
        """The compiler's warnings. Raises UserError, see `prepare`."""
        from testbed.experiment.printing import as_data
        from testbed.paths import P4
        from testbed.run_parts.program import prepare

        if not self._over_pool or not setup.platform.program.is_relative_to(P4):
            return prepare(setup, self._compiled).warnings
        described = as_data(experiment)
        described["memory"] = {**(described.get("memory") or {}), "aggregators": None}
        key = json.dumps(described, sort_keys=True, default=str)
        if key not in self._warnings:
            self._warnings[key] = prepare(setup, self._compiled).warnings
        return self._warnings[key]


def check_command(
    path: str | Path,
    inspect: Inspect = lambda *_: ((), ()),
    as_json: bool = False,
    changes: Sequence[str] = (),
) -> int:
    """Print one line about a valid file; warnings follow. Raises UserError for any other.

    `inspect` looks at what follows from the file, and at what it names: (facts, warnings)."""
    from rich.console import Console

    from testbed.experiment import load
    from testbed.experiment.experiment import choices, summary
    from testbed.experiment.sweep_file import is_sweep

    if is_sweep(path):
        return _check_sweep(path, inspect, as_json, changes)
    experiment = load(path, changes)
    console = Console(stderr=True)  # standard output is the result alone
    facts, more = inspect(experiment, console, None)
    warnings = (*experiment.warnings, *more)
    if as_json:
        listed = [{"warning": warning} for warning in warnings]
        print_json(
            {
                "file": str(path),
                "summary": summary(experiment),
                "choices": choices(experiment),
                "facts": [*facts],
                "warnings": listed,
            }
        )
        return 0
    print(f"{path}: valid: {summary(experiment)}")
    for line in (*choices(experiment), *facts):
        print(line)
    for warning in warnings:
        print(f"warning: {warning}")
    return 0


def _check_sweep(
    path: str | Path,
    inspect: Inspect,
    as_json: bool,
    changes: Sequence[str],
) -> int:
    from p4fabric.base.steps import step
    from rich.console import Console

    from testbed.experiment.sweep_file import load_sweep, other_workers, untuned

    sweep = load_sweep(path, changes=changes)
    labels: dict[str, list[str]] = {}  # of the points that a warning is about
    carried: dict[str, list[str]] = {}  # and of those that a fact is about
    begun: list[str] = []  # points
    tried = _Tried(sweep.keys)

    def now() -> str:
        return f"checking point {len(begun)} of {len(sweep.points)}: {begun[-1]}"

    # One step for all: to begin one takes as long as to check a small part of a point.
    with step(Console(stderr=True), now):
        for point in sweep.points:
            begun.append(point.label)
            try:
                facts, found = inspect(point.experiment, None, tried)
                for fact in facts:
                    carried.setdefault(fact, []).append(point.label)
                for warning in (*point.experiment.warnings, *found):
                    labels.setdefault(warning, []).append(point.label)
            except UserError as error:
                raise UserError(f"{error}\n  at the sweep's point {point.label}") from None
    of_all = [*other_workers(sweep.points), *untuned(sweep.points)]
    if as_json:
        listed: list[dict[str, object]] = [{"warning": each} for each in of_all]
        listed += [{"warning": each, "points": points} for each, points in labels.items()]
        points = [{"key": point.key, "label": point.label} for point in sweep.points]
        keys = list(sweep.keys)
        said = [{"fact": fact, "points": points} for fact, points in carried.items()]
        whole = {"file": str(path), "keys": keys, "points": points, "facts": said}
        print_json({**whole, "warnings": listed})
        return 0
    print(f"{path}: valid: a sweep of {len(sweep.points)} points over {', '.join(sweep.keys)}")
    for warning in of_all:
        print(f"warning: {warning}")
    warned = {f"warning: {warning}": points for warning, points in labels.items()}
    for line, (first, *others) in {**carried, **warned}.items():
        print(line)
        if len(others) + 1 < len(sweep.points):
            more = f" and {len(others)} more" if others else ""
            print(f"  at the sweep's point {first}{more}")
    return 0
