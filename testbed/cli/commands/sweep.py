"""`ina sweep FILE`, and `ina demo`: the sweep of experiments/demo.yaml."""

from __future__ import annotations

from argparse import ArgumentTypeError, Namespace
from dataclasses import replace
from pathlib import Path

from testbed.cli.shared import (
    Parser,
    changes_argument,
    import_schemas,
    json_option,
    no_report_option,
    parallel_options,
    positive,
    results_option,
)


def sweep_arguments(parser: Parser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE.yaml", help="a file with the key sweep")
    changes_argument(parser)
    no_report_option(parser)
    json_option(parser, "print the table's numbers as JSON, as `report --json` does")
    results_option(parser)
    parallel_options(parser)
    parser.add_argument(
        "--points",
        type=_part,
        default=(1, 1),
        metavar="K/N",
        help="run the K-th of N parts of the points alone, as in a job array; several parts may run"
        " at one time, into the same folder",
    )
    parser.add_argument(
        "--robust",
        type=positive,
        nargs="?",
        const=-1,
        metavar="RUNS",
        help="further runs that show what verdicts depend on, at most RUNS (default: the file's, or"
        " 32)",
    )


def _part(text: str) -> tuple[int, int]:
    number, slash, count = text.partition("/")
    if slash and number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count):
        return int(number), int(count)
    raise ArgumentTypeError(f"found {text!r}; allowed: K/N, such as 3/10, K from 1 to N")


def demo_arguments(parser: Parser) -> None:
    results_option(parser)
    parallel_options(parser)


def demo(options: Namespace) -> int:
    """Three systems on the same jobs, in virtual time, so without root and without a checkout."""
    import_schemas()
    from testbed.experiment.sweep_file import load_sweep
    from testbed.paths import EXPERIMENTS
    from testbed.sweeps.sweep_runner import run_sweep

    sweep = load_sweep(EXPERIMENTS / "demo.yaml", changes=["runtime=virtual"])
    return run_sweep(sweep, options.results, options.processes, options.dask, options.slurm)


def sweep(options: Namespace) -> int:
    import_schemas()
    from testbed.experiment.sweep_file import ROBUST_RUNS, load_sweep
    from testbed.sweeps.sweep_runner import run_sweep

    found = load_sweep(options.file, changes=options.changes)
    if options.robust is not None:
        runs = options.robust if options.robust > 0 else found.robust or ROBUST_RUNS
        found = replace(found, robust=runs)
    return run_sweep(
        found,
        options.results,
        options.processes,
        options.dask,
        options.slurm,
        report=not options.no_report,
        as_json=options.json,
        part=options.points,
    )
