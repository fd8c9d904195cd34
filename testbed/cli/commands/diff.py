"""`ina diff A B`: in what two runs, or two experiment files, differ."""

from __future__ import annotations

import re
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from testbed.cli.shared import (
    Parser,
    import_schemas,
    is_results,
    json_option,
    print_json,
    results_argument,
    working,
)

if TYPE_CHECKING:
    from p4fabric.base.config.input_files import Input

    from testbed.results import Results

# Entries of the environment that differ between any two runs, and those that are said otherwise.
LEFT_OUT = ("time_utc", "identity", "inputs")


def arguments(parser: Parser) -> None:
    what = "a results folder, SWEEP/HASH for a point of a sweep, or an experiment file"
    results_argument(parser, "first", "A", what, None)
    results_argument(parser, "second", "B", "another one")
    json_option(parser, "print JSON")


def call(options: Namespace) -> int:
    """Print the keys in which the experiments differ, with all defaults; of two runs also what else
    made them, and their numbers side by side."""
    import_schemas()
    from testbed.analysis.data.sweep_data import run_at
    from testbed.analysis.style.plot_style import differing
    from testbed.experiment.inputs import OLDER, recorded
    from testbed.results import digest

    paths = (options.first, options.second)
    with working(f"reading {paths[0]} and {paths[1]}"):
        runs = [run_at(path) if is_results(path) else None for path in paths]
        made = [
            _of_file(path) if run is None else (run.experiment, recorded(run.environment))
            for path, run in zip(paths, runs, strict=True)
        ]
        experiments = [_without_folders(*each) for each in made]
        whole = [run for run in runs if run is not None]
        both = len(whole) == 2
        hashes = [digest(run) if run.finished else None for run in whole] if both else []
    read = [inputs for _, inputs in made]
    environments = [_environment(run) for run in whole] if both else []
    titles = _titles(paths)
    if options.json:
        data: dict[str, Any] = {"experiment": differing(experiments), "inputs": _inputs(read)}
        if both:
            data["environment"] = differing(environments)
            from testbed.analysis.data.sum_data import sentences

            data |= {"numbers": _numbers(whole), "hashes": hashes}
            data["sums"] = sentences(whole, titles)
        print_json(data)
        return 0
    _print_pairs("experiment", titles, differing(experiments))
    if None in read:
        unknown = [title for title, each in zip(titles, read, strict=True) if each is None]
        print(f"inputs: not known: {' and '.join(unknown)} {OLDER}")
    else:
        _print_pairs("inputs", titles, _inputs(read) or {})
    if both:
        _print_pairs("environment", titles, differing(environments))
        same = hashes[0] == hashes[1] and hashes[0] is not None
        print("results: equal in every value" if same else "results:")
        if not same:
            from testbed.analysis.report import console_of_tables, render_comparison

            console_of_tables().print(render_comparison(whole))
        from testbed.analysis.data.sum_data import sentences

        for sentence in sentences(whole, titles):
            print(sentence)
    return 0


def _of_file(path: Path) -> tuple[dict[str, Any], tuple[Input, ...]]:
    from p4fabric.base.config.yaml_document import read_yaml

    from testbed.cli.shared import refuse_network
    from testbed.experiment import load

    refuse_network(path)
    experiment = load(path)
    return read_yaml(experiment.resolved_yaml(), str(path)).data, experiment.inputs


def _without_folders(data: object, inputs: tuple[Input, ...] | None) -> object:
    """An experiment's data without the folders of what it has read: that is compared by content."""
    from testbed.experiment.inputs import changed_texts

    names = {Path(each.name).name for each in inputs or ()}
    folder = re.compile(r"(?<![^\s='\"])/[^\s:'\"]*/([^\s:'\"/]+)")
    return changed_texts(
        data, lambda text: folder.sub(lambda it: it[1] if it[1] in names else it[0], text)
    )


def _inputs(read: list[tuple[Input, ...] | None]) -> dict[str, list[str | None]] | None:
    """The inputs in which two runs differ, each with the beginning of its two hashes, or with the
    versions of a plug-in; None where a run does not say what it has read."""
    from testbed.experiment.inputs import changes

    if None in read:
        return None
    both = [each or () for each in read]
    found: dict[str, list[str | None]] = {}
    for name in changes(*both):
        parts = [
            [i for i in each if i.name == name and i not in other]
            for each, other in (both, both[::-1])
        ]
        found[name] = [
            " ".join(f"{i.version} {i.sha256[:12]}".strip() for i in part) or None for part in parts
        ]
    return found


def _environment(run: Results) -> dict[str, object]:
    return {key: value for key, value in run.environment.items() if key not in LEFT_OUT}


def _numbers(runs: list[Results]) -> dict[str, object]:
    from p4fabric.base.text_table import table_data

    from testbed.analysis.data.run_summary import summary
    from testbed.analysis.style.plot_style import plot_styles
    from testbed.analysis.tables import report_tables

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
