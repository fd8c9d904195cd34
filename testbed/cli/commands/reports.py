"""`ina report RESULTS...`, `ina open` and `ina figure`: tables and figures of what has run, their
page, and those of docs/figures.md."""

from __future__ import annotations

from argparse import Namespace

from p4fabric.base.errors import UserError
from p4fabric.base.linux.blas_threads import no_blas_threads

from testbed.cli.shared import (
    Parser,
    details_options,
    import_schemas,
    json_option,
    parallel_options,
    print_json,
    results_argument,
    results_option,
    shown,
)
from testbed.paths import command_line


def report_arguments(parser: Parser) -> None:
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


def report(options: Namespace) -> int:
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


def open_arguments(parser: Parser) -> None:
    results_argument(parser, "results", "RESULTS", "a folder below results/, or SWEEP/HASH")
    parser.set_defaults(of_networks=True)


def open(options: Namespace) -> int:
    """Show the page of results in a browser, and print where it is."""
    import webbrowser

    from p4fabric.netfile import run_folder

    from testbed.analysis.data.sweep_data import is_sweep, run_at
    from testbed.analysis.html.run_page import FILE

    of_network = run_folder.is_run(options.results)
    whole = is_sweep(options.results) or of_network
    page = (options.results if whole else run_at(options.results).folder) / FILE
    if not page.is_file() and of_network:
        state = run_folder.state(page.parent)
        raise UserError(f"{page.parent} has no page {FILE} (state: {state}); run its file again")
    if not page.is_file():
        remedy = command_line(f"report {options.results}")
        raise UserError(f"{page.parent} has no page {FILE}; `{remedy}` makes it")
    shown = webbrowser.open(page.resolve().as_uri())
    print(page if shown else f"{page} (no browser can be started here)")
    return 0


def figure_arguments(parser: Parser) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME", help="without a name: list them")
    parser.add_argument("--quick", action="store_true", help="a small version, as a trial")
    parser.add_argument("--scale", type=float, metavar="X", help="jobs X times as large")
    parser.add_argument("--seeds", type=int, metavar="N", help="no more than the first N seeds")
    json_option(parser, "print the list as JSON")
    results_option(parser)
    parallel_options(parser)


def figure(options: Namespace) -> int:
    if options.name is None:
        from testbed.sweeps.figures import claims, listing

        if options.json:
            print_json(claims())
        else:
            print(listing())
        return 0
    if options.json:
        raise UserError("--json is for the list of figures; `report --json` has a figure's numbers")
    import_schemas()
    from testbed.sweeps import figures

    if options.name in figures.OF_PLANS:
        places = options.dask or options.slurm is not None
        if options.scale is not None or options.seeds is not None or places:
            raise UserError(f"{options.name} plans and runs nothing; it takes --quick, --processes")
        from testbed.sweeps import planner_figures

        return planner_figures.run_figure(
            options.name, options.results, options.quick, options.processes
        )
    path = figures.find(options.name)
    size = figures.size_of(path, options.scale, options.quick, options.seeds)
    return figures.run_figure(
        path, size, options.results, options.processes, options.dask, options.slurm
    )
