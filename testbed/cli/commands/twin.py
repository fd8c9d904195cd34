"""The same experiment on the other clock: a run on Mininet, repeated in virtual time, side by side.

A real machine adds effects to a result that are not part of the experiment: processes wake up late,
and packets cost processor time. Virtual time has neither. So the difference between the two shows
how much of a result comes from the machine. The twin has all settings of the run, also its timers,
which otherwise depend on the clock. Only the delays of hosts are those of virtual time.
"""

from __future__ import annotations

import sys
from argparse import SUPPRESS, Namespace
from typing import TYPE_CHECKING, Any

from p4fabric.base.errors import UserError

from testbed.cli.shared import (
    Parser,
    import_schemas,
    json_option,
    print_json,
    results_argument,
    results_option,
    working,
    zeros_option,
)
from testbed.paths import command_line

if TYPE_CHECKING:
    from testbed.experiment import Experiment
    from testbed.results import Results
    from testbed.setup import Setup


def arguments(parser: Parser) -> None:
    what = "of a run on Mininet, of a sweep, or SWEEP/HASH for a point of one"
    results_argument(parser, "results_folder", "RESULTS", what)
    zeros_option(parser)
    parser.add_argument("--measured-hosts", action="store_true", help=SUPPRESS)  # it is gone
    json_option(parser, "print the tables' numbers as JSON")
    results_option(parser)


def call(options: Namespace) -> int:
    """Run the twin of a run, or of every finished point of a sweep, and print one table for each.
    Returns 1 if a measure is not within its limit."""
    if options.measured_hosts:
        raise UserError(
            "--measured-hosts is gone; a virtual experiment has delays of hosts in its section"
            " `virtual` (worker_delay, worker_packet_time, ...), which table hosts of a run tells"
        )
    import_schemas()
    from testbed.analysis.data.sweep_data import is_sweep, read_sweep, run_at

    if is_sweep(options.results_folder):
        runs = [
            point.results for point in read_sweep(options.results_folder).points if point.results
        ]
        runs = [results for results in runs if results.finished]
        if not runs:
            raise UserError(
                f"{options.results_folder}: no point has finished; a twin needs a finished run"
            )
    else:
        runs = [run_at(options.results_folder)]
    twins = [(results, twin_of(results)) for results in runs]
    compared = [_compare(results, twin, options) for results, twin in twins]
    if options.json:
        print_json(compared)
    return 0 if all(each["within"] for each in compared) else 1


def twin_of(results: Results) -> Experiment:
    """The experiment of a run on Mininet for virtual time. Raises UserError for what virtual
    time cannot do."""
    from p4fabric.base.config.data_files import read_text
    from p4fabric.base.config.yaml_document import read_yaml, write_yaml

    from testbed import runner as run_parts
    from testbed.experiment import load_text
    from testbed.experiment.inputs import require_same
    from testbed.schemes import set_up

    if not results.finished:
        raise UserError(f"{results.folder}: {results.notice}; a twin needs a finished run")
    file = results.folder / "experiment.yaml"
    text = read_text(file)
    original = load_text(text, file=str(file), folder=results.folder)
    if original.runtime == run_parts.VIRTUAL:
        raise UserError(
            f"{results.folder}: a run in virtual time; name a run on Mininet, and its twin in"
            " virtual time is made"
        )
    if warning := require_same(results, original, "its twin would be of another experiment"):
        print(f"warning: {warning}", file=sys.stderr)
    data: dict[str, Any] = read_yaml(text, str(file)).data
    data["runtime"], data["switch"] = run_parts.VIRTUAL, "embedded"
    data["name"] = f"{original.name[:56]}-virtual"
    setup = set_up(original)
    data["timers"] = _timers(setup)
    windows = {job.window for job in setup.jobs.values()}
    if data["system"].get("window") == "auto" and len(windows) == 1:
        data["system"]["window"] = windows.pop()
    return load_text(write_yaml(data), file=f"the twin of {file}", folder=results.folder)


def _timers(setup: Setup) -> dict[str, str]:
    """The real clock's bounds; of those that differ among jobs the smallest."""
    bounds = [job.timers for job in setup.jobs.values()]
    return {
        name.removesuffix("_ns"): f"{min(getattr(each, name) for each in bounds)} ns"
        for name in vars(bounds[0])
    }


def _compare(original: Results, twin: Experiment, options: Namespace) -> dict[str, object]:
    """Run one twin and, unless `--json`, print the table; returns "run", "twin" (folders),
    "within" (all limits are kept) and "table"."""
    from p4fabric.base.steps import quiet_console
    from p4fabric.base.text_table import printed, without_zeros
    from rich.console import Console

    from testbed import runner as run_parts
    from testbed.analysis.data.run_summary import summary
    from testbed.analysis.report import after_run, console_of_tables
    from testbed.analysis.tables import report_tables as tables
    from testbed.results import read

    console = Console(stderr=True) if options.json else console_of_tables()
    folder = run_parts.carry_out(twin, options.results, (), console)
    with working("drawing its figures and its page"):
        after_run(folder, quiet_console())
    pair = [original, read(folder)]
    table = tables.twins(pair, [summary(each) for each in pair])
    assert table is not None, "one of them is virtual"
    within = not tables.beyond_limits(table)
    found = {"run": str(original.folder), "twin": str(folder), "within": within}
    if options.json:
        return found | {"notice": original.notice, "table": tables.compared_data(table)}
    console.print(f"{original.name}: {original.folder}", soft_wrap=True, highlight=False)
    if original.notice:
        console.print(original.notice, style="yellow", markup=False)
    console.print(printed(table if options.all else without_zeros(table)))
    both = command_line(f"report {original.folder} {folder}")
    console.print(f"both in full: {both}", soft_wrap=True, highlight=False)
    return found
