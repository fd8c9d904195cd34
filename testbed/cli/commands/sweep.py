"""`ina sweep FILE`."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from testbed.cli.shared import (
    Parser,
    changes_argument,
    import_schemas,
    json_option,
    no_report_option,
    parallel_options,
    results_option,
)


def arguments(parser: Parser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE.yaml", help="a file with the key sweep")
    changes_argument(parser)
    no_report_option(parser)
    json_option(parser, "print the table's numbers as JSON, as `report --json` does")
    results_option(parser)
    parallel_options(parser)


def call(options: Namespace) -> int:
    import_schemas()
    from testbed.experiment.sweep import load_sweep
    from testbed.sweeps.sweep_runner import run_sweep

    return run_sweep(
        load_sweep(options.file, changes=options.changes),
        options.results,
        options.processes,
        options.dask,
        report=not options.no_report,
        as_json=options.json,
    )
