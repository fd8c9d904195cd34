"""`ina report RESULTS...`."""

from __future__ import annotations

from argparse import Namespace

from testbed.cli.shared import Parser, details_options, json_option, results_argument, shown
from testbed.linux.blas_threads import no_blas_threads


def arguments(parser: Parser) -> None:
    what = "a folder below results/, or SWEEP/HASH for a point of a sweep"
    results_argument(parser, "results", "RESULTS", what, "*")
    parser.add_argument(
        "--column",
        type=int,
        choices=(1, 2),
        help="figures as wide as one or two columns of a paper (3.5 or 7.2 inches)",
    )
    details_options(parser)
    chosen = parser.add_mutually_exclusive_group()
    json_option(chosen, "print the tables' numbers as JSON, and write nothing")
    chosen.add_argument(
        "--perfetto",
        action="store_true",
        help="write perfetto.json, a trace for https://ui.perfetto.dev, and nothing else",
    )


def call(options: Namespace) -> int:
    with no_blas_threads():
        from testbed.analysis.report import perfetto_command, report_command, report_json
        from testbed.analysis.style.plot_style import COLUMN, PAGE, as_wide_as

    if options.perfetto:
        return perfetto_command(options.results)
    if options.json:
        return report_json(options.results)

    with as_wide_as({1: COLUMN, 2: PAGE}.get(options.column)):
        report_command(options.results, shown=shown(options))
    return 0
