"""`ina diff A B`: in what two runs, or two experiment files, differ."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from testbed.cli.shared import Parser, import_schemas, is_results, json_option, print_json, working

if TYPE_CHECKING:
    from testbed.results import Results

WHEN = ("time_utc",)  # entries of the environment that differ between any two runs


def arguments(parser: Parser) -> None:
    what = "a results folder, SWEEP/HASH for a point of a sweep, or an experiment file"
    parser.add_argument("first", type=Path, metavar="A", help=what)
    parser.add_argument("second", type=Path, metavar="B", help="another one")
    json_option(parser, "print JSON")


def call(options: Namespace) -> int:
    """Print the keys in which the experiments differ, with all defaults; of two runs also what else
    made them, and their numbers side by side."""
    import_schemas()
    from testbed.analysis.data.sweep_data import run_at
    from testbed.analysis.style.plot_style import differing
    from testbed.results import digest

    paths = (options.first, options.second)
    with working(f"reading {paths[0]} and {paths[1]}"):
        runs = [run_at(path) if is_results(path) else None for path in paths]
        experiments = [
            _resolved(path) if run is None else run.experiment
            for path, run in zip(paths, runs, strict=True)
        ]
        whole = [run for run in runs if run is not None]
        both = len(whole) == 2
        hashes = [digest(run) if run.finished else None for run in whole] if both else []
    environments = [_environment(run) for run in whole] if both else []
    if options.json:
        data: dict[str, Any] = {"experiment": differing(experiments)}
        if both:
            data["environment"] = differing(environments)
            data |= {"numbers": _numbers(whole), "hashes": hashes}
        print_json(data)
        return 0
    titles = _titles(paths)
    _print_pairs("experiment", titles, differing(experiments))
    if both:
        _print_pairs("environment", titles, differing(environments))
        same = hashes[0] == hashes[1] and hashes[0] is not None
        print("results: equal in every value" if same else "results:")
        if not same:
            from testbed.analysis.report import console_of_tables, render_comparison

            console_of_tables().print(render_comparison(whole))
    return 0


def _resolved(path: Path) -> dict[str, Any]:
    from testbed.cli.shared import refuse_network
    from testbed.config.yaml_document import read_yaml
    from testbed.experiment import load

    refuse_network(path)
    return read_yaml(load(path).resolved_yaml(), str(path)).data


def _environment(run: Results) -> dict[str, Any]:
    return {key: value for key, value in run.environment.items() if key not in WHEN}


def _numbers(runs: list[Results]) -> dict[str, Any]:
    from testbed.analysis.data.run_summary import summary
    from testbed.analysis.style.plot_style import plot_styles
    from testbed.analysis.tables import report_tables
    from testbed.text_table import table_data

    frames = [summary(run) for run in runs]
    return table_data(report_tables.comparison(runs, frames, plot_styles(runs)))


def _titles(paths: tuple[Path, Path]) -> list[str]:
    """The names of the two, or their paths where those are equal."""
    names = [path.resolve().name for path in paths]
    return names if names[0] != names[1] else [str(path) for path in paths]


def _print_pairs(what: str, titles: list[str], pairs: dict[str, list[str | None]]) -> None:
    from testbed.cli.shared import print_columns

    if not pairs:
        print(f"{what}: the same")
        return
    print(f"{what}:")
    rows = [(key, *(value or "-" for value in values)) for key, values in pairs.items()]
    print_columns(("", *titles), rows)
