"""`ina run FILE`, or `ina FILE`."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from testbed.cli.shared import (
    Parser,
    changes_argument,
    details_options,
    import_schemas,
    json_option,
    no_report_option,
    refuse_changes,
    results_option,
    shown,
)
from testbed.errors import UserError


def arguments(parser: Parser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE.yaml", help="experiment or network file")
    changes_argument(parser)
    parser.add_argument(
        "--cli",
        nargs="?",
        const="",
        choices=["before", "after", ""],
        metavar="before|after",
        help="Mininet's prompt: before or after the jobs (of a network file: the checks); alone:"
        " while the jobs run (after the checks)",
    )
    parser.add_argument(
        "--web",
        nargs="?",
        const="",
        choices=["stay", ""],
        metavar="stay",
        help="serve a live page of the run to browsers on this machine; stay: also afterwards,"
        " until Ctrl-C",
    )
    parser.add_argument(
        "--pcap",
        action="append",
        default=[],
        metavar="SWITCH:PORT",
        help="capture the packets of a port; can be repeated",
    )
    no_report_option(parser)
    details_options(parser)
    json_option(parser, "print the tables' numbers as JSON, as `report --json` does")
    results_option(parser)


def call(options: Namespace) -> int:
    import_schemas()
    from testbed.netfile.load_network import is_network

    if is_network(options.file):
        refuse_changes(options, "a network")
        if options.pcap:
            raise UserError("--pcap is for experiments; in a network file's network, run tcpdump")
        if options.no_report:
            raise UserError("--no-report is for experiments; a network file has no report")
        if options.web is not None:
            raise UserError("--web is for experiments; a network file has no jobs to show")
        if options.json:
            raise UserError("--json is for experiments; the exit code says whether checks hold")
        from testbed.netfile.network_run import run_network

        return run_network(options.file, "after" if options.cli == "" else options.cli)
    from testbed.experiment import load
    from testbed.experiment.sweep import is_sweep, load_sweep

    if is_sweep(options.file):
        if options.pcap:
            raise UserError("--pcap is for one experiment; a sweep is many")
        if options.cli is not None:
            raise UserError("--cli is for one experiment; a sweep is many")
        if options.web is not None:
            raise UserError("--web is for one experiment; a sweep is many")
        from testbed.sweeps.sweep_runner import run_sweep

        return run_sweep(
            load_sweep(options.file, changes=options.changes),
            options.results,
            report=not options.no_report,
            as_json=options.json,
        )
    from testbed.runner import run

    return run(
        load(options.file, options.changes),
        options.results,
        options.pcap,
        report=not options.no_report,
        prompt="during" if options.cli == "" else options.cli,
        shown=shown(options),
        web=options.web,
        as_json=options.json,
    )
