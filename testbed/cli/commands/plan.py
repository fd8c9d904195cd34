"""`ina plan`: where each worker's gradient is aggregated, for a graph file or an experiment: by a
planner, or on the trees of the system `tree`."""

from __future__ import annotations

import argparse
import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from p4fabric.base.errors import UserError
from p4fabric.base.linux.whole_files import writing

from testbed.cli.shared import (
    Parser,
    import_schemas,
    is_results,
    json_option,
    picture_file,
    positive,
    print_json,
    refuse_network,
    results_argument,
    working,
)

if TYPE_CHECKING:
    from testbed.routing.network import Network
    from testbed.routing.plan import Plan
    from testbed.setup.job_setups import Setup


def _rate(text: str) -> int:
    """A rate with its unit, in bit/s."""
    from p4fabric.base.config.units import RATE, FieldError, parse

    try:
        return int(parse(text, RATE, 1, 100 * 10**12))
    except FieldError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def arguments(parser: Parser) -> None:
    what = "a graph file, an experiment, or the results of one"
    results_argument(parser, "file", "FILE", what)
    parser.add_argument(
        "--planner",
        metavar="NAME",
        help="one, or several with commas between them (default: as in the file, else grid-links)",
    )
    parser.add_argument("--seed", type=positive, default=1, metavar="N")
    parser.add_argument(
        "--paths", type=positive, metavar="N", help="per pair of nodes (default: 16)"
    )
    parser.add_argument(
        "--results",
        metavar="HOW",
        help="counted (rates hold with results, the default) or ignored",
    )
    parser.add_argument(
        "--roundings", type=positive, metavar="N", help="of planner grid (default: 20)"
    )
    parser.add_argument(
        "--exact",
        action="store_true",
        default=None,
        help="planner grid solves its integer program instead of rounding",
    )
    parser.add_argument(
        "--max-rate", type=_rate, metavar="RATE", help="T, the most that a worker may send"
    )
    json_option(parser, "print one plan as JSON")
    parser.add_argument(
        "--figure", type=picture_file, metavar="FILE", help="draw the plans as .pdf, .png or .svg"
    )


def call(options: Namespace) -> int:
    """Print the plans of the planners that are named, in the file or here; else of grid-links."""
    import_schemas()
    file = options.file
    if is_results(file):
        from testbed.analysis.data.sweep_data import run_at

        file = run_at(file).folder / "experiment.yaml"
    elif file.suffix in (".yaml", ".yml"):
        refuse_network(file)
        with working(f"reading {file}"):
            found = _with_trees(file)
            tried = _tuned(file)
        for line in tried:
            print(line, file=sys.stderr)  # a plan is for the options as they are before
        if found:
            return _print_trees(found, options)
    from testbed.routing.planners import make_plan
    from testbed.setup.plan_input import read

    with working(f"reading {file}"):
        (network, jobs), named, told = read(file)
    given = {
        "results": options.results,
        "roundings": options.roundings,
        "exact": options.exact,
        "max_rate_bps": options.max_rate,
    }
    told = told | {key: value for key, value in given.items() if value is not None}
    names = options.planner.split(",") if options.planner else named or ("grid-links",)
    picture = options.figure
    if options.json and len(names) > 1:
        raise UserError("--json prints one plan; name one planner")
    plans: list[Plan] = []
    try:
        with working(lambda: f"planning by {names[min(len(plans), len(names) - 1)]}"):
            for name in names:
                plans.append(make_plan(network, jobs, name, options.seed, options.paths, **told))
    except UserError as error:
        raise UserError(f"{file}: {error}") from None
    if options.json:
        print_json(plans[0].to_json())
    else:
        from rich.console import Console

        from testbed.cli.plan_text import plan_tables

        console = Console(width=None if sys.stdout.isatty() else 160, highlight=False, markup=False)
        for plan in plans:
            for each in plan_tables(network, plan):
                console.print(each)
    if picture is not None:
        with working(f"drawing {picture}"):
            _draw(network, plans, picture)
    return 0


def _with_trees(file: Path) -> dict[str, Setup]:
    """The Setups of an experiment, or of a sweep's points by their labels, whose system has a
    manager of trees."""
    from testbed.experiment import load
    from testbed.experiment.sweep_file import is_sweep, load_sweep
    from testbed.schemes import set_up

    named = {"": load(file)} if not is_sweep(file) else None
    if named is None:
        named = {point.label: point.experiment for point in load_sweep(file).points}
    return {label: set_up(each) for label, each in named.items() if each.system_entry.managed}


def _tuned(file: Path) -> list[str]:
    """Sentences on the trials of options that an experiment, or a sweep, leaves to be tuned."""
    from testbed.experiment import load
    from testbed.experiment.sweep_file import is_sweep, load_sweep

    found = [p.experiment for p in load_sweep(file).points] if is_sweep(file) else [load(file)]
    tuned = [each for each in found if each.tuning]
    if not tuned:
        return []
    from testbed.schemes import set_up
    from testbed.sweeps.trials import plan_of

    return list(dict.fromkeys(line for each in tuned for line in plan_of(each, set_up(each))))


def _print_trees(setups: Mapping[str, Setup], options: Namespace) -> int:
    """Print who has which tree. Raises UserError for options of planners."""
    from testbed.cli import tree_text

    for name in ("planner", "paths", "results", "roundings", "exact", "max_rate", "figure"):
        if getattr(options, name) is not None:
            raise UserError(
                f"--{name.replace('_', '-')} is for planners; system tree has a manager of trees"
                " and none of these. Leave it out"
            )
    if options.json and len(setups) > 1:
        raise UserError("--json prints the trees of one experiment, not of a sweep")
    if options.json:
        print_json(tree_text.as_json(*setups.values()))
        return 0
    from rich.console import Console

    console = Console(width=None if sys.stdout.isatty() else 160, highlight=False, markup=False)
    for label, setup in setups.items():
        if label:
            console.print(label)
        for each in tree_text.tables(setup):
            console.print(each)
    return 0


def _draw(network: Network, plans: Sequence[Plan], path: Path) -> None:
    from matplotlib import rc_context

    from testbed.analysis.figures.figure_files import write
    from testbed.analysis.style import plot_style
    from testbed.cli import plan_picture

    with rc_context(plot_style.rc()):
        figure = plan_picture.draw(network, plans)
        with writing(path):
            write(figure, path)
