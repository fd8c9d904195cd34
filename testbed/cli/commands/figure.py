"""`ina figure`."""

from __future__ import annotations

from argparse import Namespace

from testbed.cli.shared import (
    Parser,
    import_schemas,
    json_option,
    parallel_options,
    print_json,
    results_option,
)
from testbed.errors import UserError


def arguments(parser: Parser) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME", help="without a name: list them")
    parser.add_argument("--quick", action="store_true", help="a small version, as a trial")
    parser.add_argument("--scale", type=float, metavar="X", help="jobs X times as large")
    parser.add_argument("--seeds", type=int, metavar="N", help="no more than the first N seeds")
    json_option(parser, "print the list as JSON")
    results_option(parser)
    parallel_options(parser)


def call(options: Namespace) -> int:
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
