"""`ina run FILE`, or `ina FILE`."""

from __future__ import annotations

import os
from argparse import Namespace
from pathlib import Path

from p4fabric.base.command_line import run_options
from p4fabric.base.errors import UserError

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


def arguments(parser: Parser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE.yaml", help="experiment or network file")
    changes_argument(parser)
    prompt = (
        "Mininet's prompt: before or after the jobs (of a network file: the checks); alone:"
        " while the jobs run (after the checks)"
    )
    run_options(parser, prompt, "capture the packets of a port")
    parser.add_argument(
        "--web",
        nargs="?",
        const="",
        choices=["stay", ""],
        metavar="stay",
        help="serve a live page of the run to browsers on this machine; stay: also afterwards,"
        " until Ctrl-C",
    )
    no_report_option(parser)
    details_options(parser)
    json_option(parser, "print the tables' numbers as JSON, as `report --json` does")
    results_option(parser)


def call(options: Namespace) -> int:
    if import_schemas(options.file):
        return _run_network(options)
    from testbed.experiment import load
    from testbed.experiment.sweep_file import is_sweep, load_sweep

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
    from rich.console import Console

    from testbed.runner import run

    experiment = load(options.file, options.changes)
    if experiment.tuning is not None:
        from testbed.sweeps.sweep_runner import tune_here

        experiment = tune_here(experiment, options.results, Console(stderr=options.json))
    return run(
        experiment,
        options.results,
        options.pcap,
        report=not options.no_report,
        prompt="during" if options.cli == "" else options.cli,
        shown=shown(options),
        web=options.web,
        as_json=options.json,
    )


def _run_network(options: Namespace) -> int:
    """Run a network file, on its runtime."""
    from p4fabric.netfile.load_network import load_network
    from p4fabric.netfile.network_run import MORE, run_plan
    from p4fabric.netfile.virtual_command import Report

    from testbed.machine.preflight import set_up
    from testbed.runner import LAWS

    refuse_changes(options, "a network")
    if options.web is not None:
        raise UserError("--web is for experiments; a network file has no jobs to show")
    plan = load_network(options.file)
    report: Report | None = None
    if options.no_report and plan.file.runtime != "virtual":
        raise UserError(f"--no-report: a network file on Mininet has no report{MORE}")
    if not options.no_report and plan.file.runtime == "virtual":
        from testbed.cli.network_report import write_report

        report = write_report
    words = options.results, options.pcap, options.json, options.cli, set_up()
    return run_plan(plan, *words, report, bool(os.environ.get(LAWS)))
