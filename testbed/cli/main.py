"""The command line: commands, messages of errors, exit codes.

`ina` (installed) and `run.py` (in a checkout) are the same. docs/commands.md has the exit codes.
Commands import what they need when
they are called, so that `ina --help` and errors of usage come at once.
"""

from __future__ import annotations

import argparse
import os
import sys
from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from testbed.errors import RunError, UserError, did_you_mean, legible, sentence, shortage
from testbed.paths import command_line, default_results, program_name
from testbed.runtimes import interrupts


class Parser(argparse.ArgumentParser):
    """argparse whose mistakes are UserErrors of one line."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}; {' '.join(self.format_usage().split())}")


@dataclass(frozen=True)
class Command:
    """One command: its line in the help, what it takes, what it does with that."""

    help: str
    arguments: Callable[[Parser], None]
    call: Callable[[Namespace], int | None]


def _none(parser: Parser) -> None:
    """A command without arguments."""


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"found {text!r}; allowed: a whole number from 1")
    return int(text)


def _rate(text: str) -> int:
    """A rate with its unit, in bit/s."""
    from testbed.config.units import RATE, FieldError, parse

    try:
        return int(parse(text, RATE, 1, 100 * 10**12))
    except FieldError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _results(parser: Parser) -> None:
    parser.add_argument(
        "--results",
        type=Path,
        metavar="DIR",
        default=default_results(),
        help="where results go (default: %(default)s)",
    )


def _import_schemas() -> None:
    """For commands that read experiments or networks. Signals wait meanwhile: an interrupted import
    of pydantic panics in Rust, and an interrupted class of it is a RuntimeError."""
    with interrupts.postponed():
        import testbed.experiment
        import testbed.netfile.load_network  # noqa: F401


def _run_arguments(parser: Parser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE.yaml", help="experiment or network file")
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
        help="a page for a browser of this machine that shows the run while it goes on; stay: and"
        " afterwards, until Ctrl-C",
    )
    parser.add_argument(
        "--pcap",
        action="append",
        default=[],
        metavar="SWITCH:PORT",
        help="capture what passes a port; can be repeated",
    )
    _no_report(parser)
    _zeros(parser)
    _json(parser, "the tables' numbers for programs, as `report --json` prints them")
    _results(parser)


def _no_report(parser: Parser) -> None:
    parser.add_argument(
        "--no-report",
        action="store_true",
        help="neither figures nor report.html; `report` makes them from the results later",
    )


def _json(parser: Parser, what: str) -> None:
    parser.add_argument("--json", action="store_true", help=what)


def _zeros(parser: Parser) -> None:
    parser.add_argument("--all", action="store_true", help="print rows of zeros, too")


def _run(options: Namespace) -> int | None:
    _import_schemas()
    from testbed.netfile.load_network import is_network

    if is_network(options.file):
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
            load_sweep(options.file),
            options.results,
            report=not options.no_report,
            as_json=options.json,
        )
    from testbed.runner import run

    return run(
        load(options.file),
        options.results,
        options.pcap,
        report=not options.no_report,
        prompt="during" if options.cli == "" else options.cli,
        zeros=options.all,
        web=options.web,
        as_json=options.json,
    )


def _parallel(parser: Parser) -> None:
    """On what the points of a sweep run."""
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument(
        "--processes", type=_positive, metavar="N", help="points at one time (default: all cores)"
    )
    chosen.add_argument(
        "--dask",
        metavar="ADDRESS",
        help="a Dask cluster's scheduler: tls://HOST:PORT or tcp://HOST:PORT",
    )


def _sweep_arguments(parser: Parser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE.yaml", help="a file with the key sweep")
    _no_report(parser)
    _json(parser, "the table's numbers for programs, as `report --json` prints them")
    _results(parser)
    _parallel(parser)


def _sweep(options: Namespace) -> int | None:
    _import_schemas()
    from testbed.experiment.sweep import load_sweep
    from testbed.sweeps.sweep_runner import run_sweep

    return run_sweep(
        load_sweep(options.file),
        options.results,
        options.processes,
        options.dask,
        report=not options.no_report,
        as_json=options.json,
    )


def _figure_arguments(parser: Parser) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME", help="without a name: list them")
    parser.add_argument("--quick", action="store_true", help="small, to see that it works")
    parser.add_argument("--scale", type=float, metavar="X", help="jobs X times as large")
    parser.add_argument("--seeds", type=int, metavar="N", help="no more than the first N seeds")
    _json(parser, "the list for programs")
    _results(parser)
    _parallel(parser)


def _figure(options: Namespace) -> int | None:
    if options.name is None:
        from testbed.sweeps.figures import claims, listing

        if options.json:
            import json

            print(json.dumps(claims(), indent=1, ensure_ascii=False))
        else:
            print(listing())
        return 0
    if options.json:
        raise UserError("--json is for the list of figures; `report --json` has a figure's numbers")
    _import_schemas()
    from testbed.sweeps import figures

    if options.name in figures.OF_PLANS:
        if options.scale is not None or options.seeds is not None or options.dask:
            raise UserError(f"{options.name} plans and runs nothing; it takes --quick, --processes")
        from testbed.sweeps import planner_figures

        return planner_figures.run_figure(
            options.name, options.results, options.quick, options.processes
        )
    path = figures.find(options.name)
    size = figures.size_of(path, options.scale, options.quick, options.seeds)
    return figures.run_figure(path, size, options.results, options.processes, options.dask)


def _check_arguments(parser: Parser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE.yaml")
    _json(parser, "what the file holds, and the warnings, for programs")


def _check(options: Namespace) -> int | None:
    _import_schemas()
    from testbed.netfile.load_network import is_network

    if is_network(options.file):
        from testbed.netfile.network_run import check_network

        if options.json:
            raise UserError("check --json is for experiments and sweeps")
        return check_network(options.file)
    from testbed.cli.experiment_commands import check_command
    from testbed.machine import calibration, capacity
    from testbed.runtimes.program import prepare

    return check_command(
        options.file,
        lambda each: (*prepare(each).warnings, *capacity.warnings(each, calibration.load())),
        options.json,
    )


def _show_arguments(parser: Parser) -> None:
    parser.add_argument(
        "file",
        type=Path,
        metavar="FILE.yaml",
        help="an experiment file, a results folder, or SWEEP/HASH for a point of a sweep",
    )
    parser.add_argument(
        "--hash",
        action="store_true",
        help="FILE is a results folder: print a number for all that the run measured",
    )
    _json(parser, "the same for programs")


def _show(options: Namespace) -> int | None:
    if options.hash:
        from testbed.analysis.data.sweep_data import run_at
        from testbed.results import digest

        found = digest(run_at(options.file))
        print(f'{{"hash": "{found}"}}' if options.json else found)
        return 0
    _import_schemas()
    from testbed.cli.experiment_commands import show_command, show_results

    if is_results(options.file):
        return show_results(options.file, options.json)
    _refuse_network(options.file)
    return show_command(options.file, options.json)


def is_results(path: Path) -> bool:
    """Whether a path is a folder of results, or SWEEP/HASH, not a file."""
    from testbed.results import SWEEP_FILE

    return path.is_dir() or (path.parent / SWEEP_FILE).is_file() and not path.is_file()


def _refuse_network(path: Path) -> None:
    from testbed.netfile.load_network import is_network

    if is_network(path):
        raise UserError(f"{path} is a network file; `{command_line('check FILE')}` checks it")


def _schema_arguments(parser: Parser) -> None:
    parser.add_argument("kind", choices=["experiment", "network"], help="the kind of file")


def _schema(options: Namespace) -> int | None:
    from testbed.cli.json_schema import schema_command

    return schema_command(options.kind)


def _init_arguments(parser: Parser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE.yaml", help="what to write")
    parser.add_argument("--system", metavar="NAME", help="default: esa")
    parser.add_argument("--runtime", metavar="HOW", help="virtual (default) or mininet")
    parser.add_argument("--jobs", metavar="N", help="default: 2")
    parser.add_argument("--workers", metavar="N", help="of each job; default: 4")


def _init(options: Namespace) -> int | None:
    _import_schemas()
    from testbed.cli.init_command import QUESTIONS, init_command

    return init_command(options.file, {key: getattr(options, key) for key in QUESTIONS})


def _completion_arguments(parser: Parser) -> None:
    parser.add_argument("shell", choices=["bash", "zsh", "fish"])


def _completion(options: Namespace) -> int | None:
    from testbed.cli.completion import completion_command

    return completion_command(options.shell, parser_of_all())


def _import_arguments(parser: Parser) -> None:
    parser.add_argument("topology", type=Path, metavar="FILE.json", help="a p4app.json")
    parser.add_argument("--program", type=Path, metavar="FILE.p4", help="of all switches")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE.yaml", help="what to write")


def _import(options: Namespace) -> int | None:
    _import_schemas()
    from testbed.netfile.p4_utils import import_app

    return import_app(options.topology, options.program, options.output)


def _report_arguments(parser: Parser) -> None:
    parser.add_argument(
        "results",
        type=Path,
        nargs="+",
        metavar="RESULTS",
        help="a folder below results/, or SWEEP/HASH for a point of a sweep",
    )
    parser.add_argument(
        "--column",
        type=int,
        choices=(1, 2),
        help="figures as wide as one or two columns of a paper (3.5 or 7.1 inches)",
    )
    _zeros(parser)
    _json(parser, "print the tables' numbers, and write nothing")


def _report(options: Namespace) -> int | None:
    from testbed.analysis.report import report_command, report_json
    from testbed.analysis.style.plot_style import as_wide_as

    if options.json:
        return report_json(options.results)

    with as_wide_as(options.column):
        report_command(options.results, zeros=options.all)
    return 0


def _twin_arguments(parser: Parser) -> None:
    parser.add_argument(
        "results_folder",
        type=Path,
        metavar="RESULTS",
        help="of a run on Mininet, of a sweep, or SWEEP/HASH for a point of one",
    )
    _zeros(parser)
    parser.add_argument(
        "--measured-hosts", action="store_true", help="with the delays of hosts as measured"
    )
    _json(parser, "the tables' numbers for programs")
    _results(parser)


def _twin(options: Namespace) -> int | None:
    _import_schemas()
    from testbed.cli.twin_command import run_twin

    return run_twin(
        options.results_folder,
        options.results,
        options.measured_hosts,
        options.all,
        options.json,
    )


def _pack_arguments(parser: Parser) -> None:
    parser.add_argument(
        "what",
        type=Path,
        metavar="RUN|SWEEP|FIGURE",
        help="a folder of results, SWEEP/HASH, or the name of a figure that has been run",
    )
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="what to write")
    _json(parser, "what was packed, for programs")
    _results(parser)


def _pack(options: Namespace) -> int | None:
    _import_schemas()
    from testbed.cli.artifact_commands import pack_command

    return pack_command(options.what, options.output, options.results, options.json)


def _verify_arguments(parser: Parser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help="what `pack` has written")
    parser.add_argument("--no-run", action="store_true", help="only look whether it is whole")
    parser.add_argument("--point", metavar="HASH", help="only this point of a sweep")
    parser.add_argument(
        "--trust", action="store_true", help="run the Python code that is in the file, too"
    )
    parser.add_argument(
        "--processes", type=_positive, metavar="N", help="points at one time (default: all cores)"
    )
    _json(parser, "what agrees, for programs")
    _results(parser)


def _verify(options: Namespace) -> int | None:
    _import_schemas()
    from testbed.cli.artifact_commands import verify_command

    return verify_command(
        options.file,
        options.results,
        run=not options.no_run,
        processes=options.processes,
        point=options.point,
        trusted=options.trust,
        as_json=options.json,
    )


def _clean(options: Namespace) -> int | None:
    from testbed.machine.preflight import require_root
    from testbed.network import registry

    require_root(f"`{command_line('clean')}`")
    removed = registry.clean()
    for line in removed:
        print(f"removed {line}")
    for record in registry.live_runs():
        print(f"left alone: {record.title or 'a run'} is running (process {record.runner.pid})")
    if not removed:
        print("nothing to remove")
    return 0


def _which_run(parser: Parser) -> None:
    parser.add_argument(
        "--run", metavar="NAME", help="where several runs go on: how its title begins, or its id"
    )


def _ps_arguments(parser: Parser) -> None:
    _which_run(parser)
    _json(parser, "the same for programs")


def _ps(options: Namespace) -> int | None:
    from testbed.cli.live_commands import ps_command

    return ps_command(options.run, options.json)


def _exec_arguments(parser: Parser) -> None:
    _which_run(parser)
    parser.add_argument("node", metavar="NODE", help="a host or a switch")
    parser.add_argument("words", nargs=argparse.REMAINDER, metavar="-- COMMAND...")


def _exec(options: Namespace) -> int | None:
    from testbed.cli.live_commands import exec_command

    return exec_command(options.run, options.node, options.words)


def _logs_arguments(parser: Parser) -> None:
    _which_run(parser)
    parser.add_argument("node", metavar="NODE", help="a host or a switch")
    parser.add_argument("-f", "--follow", action="store_true", help="go on until the run ends")


def _logs(options: Namespace) -> int | None:
    from testbed.cli.live_commands import logs_command

    return logs_command(options.run, options.node, options.follow)


def _switch_arguments(parser: Parser) -> None:
    _which_run(parser)
    _json(parser, "the same for programs")
    parser.add_argument("switch", metavar="SWITCH")
    parser.add_argument(
        "what",
        choices=["tables", "table", "register", "counters", "set"],
        help="table NAME, register NAME [INDEX], set COMMAND... (p4engine/docs/commands.md)",
    )
    parser.add_argument("words", nargs=argparse.REMAINDER, metavar="WORDS")


def _switch(options: Namespace) -> int | None:
    from testbed.cli.live_commands import switch_command

    words, as_json = options.words, options.json
    if words[-1:] == ["--json"]:  # which the words have swallowed
        words, as_json = words[:-1], True
    return switch_command(options.run, options.switch, options.what, words, as_json)


def _calibrate_arguments(parser: Parser) -> None:
    _json(parser, "what was measured, for programs")


def _calibrate(options: Namespace) -> int | None:
    from testbed.cli.calibrate import calibrate_command

    return calibrate_command(options.json)


def _doctor_arguments(parser: Parser) -> None:
    _json(parser, "the same for programs")


def _doctor(options: Namespace) -> int | None:
    from testbed.machine.doctor import doctor_command

    return doctor_command(options.json)


def _plan_arguments(parser: Parser) -> None:
    parser.add_argument(
        "file", type=Path, metavar="FILE", help="a graph file, an experiment, or the results of one"
    )
    parser.add_argument("--planner", metavar="NAME")
    parser.add_argument("--seed", type=_positive, default=1, metavar="N")
    parser.add_argument(
        "--paths", type=_positive, metavar="N", help="per pair of nodes (default: 16)"
    )
    parser.add_argument(
        "--results",
        metavar="HOW",
        help="counted (rates hold with results, the default) or ignored",
    )
    parser.add_argument(
        "--roundings", type=_positive, metavar="N", help="of planner grid (default: 20)"
    )
    parser.add_argument(
        "--exact",
        action="store_true",
        default=None,
        help="planner grid solves its integer program instead of rounding",
    )
    parser.add_argument(
        "--max-rate", type=_rate, metavar="RATE", help="T, the most that a worker may send"
    )
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--picture", type=Path, metavar="FILE")


def _plan(options: Namespace) -> int | None:
    _import_schemas()
    from testbed.cli.plan_command import plan_command

    file = options.file
    if is_results(file):
        from testbed.analysis.data.sweep_data import run_at

        file = run_at(file).folder / "experiment.yaml"
    elif file.suffix in (".yaml", ".yml"):
        _refuse_network(file)
    return plan_command(
        file,
        options.planner,
        options.seed,
        options.paths,
        options.json,
        options.picture,
        results=options.results,
        roundings=options.roundings,
        exact=options.exact,
        max_rate_bps=options.max_rate,
    )


def _record_arguments(parser: Parser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE.yaml", help="with a job with a command")
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="FILE.npz", help="what to write"
    )
    parser.add_argument("--job", metavar="NAME", help="where several jobs have a command")
    parser.add_argument("--steps", type=_positive, metavar="N", help="to record (default: 8)")
    parser.add_argument(
        "--skip", type=int, metavar="N", help="steps before the first one (default: 3)"
    )
    parser.add_argument("--no-values", action="store_true", help="sizes and times alone")
    parser.add_argument(
        "--limit",
        type=_positive,
        metavar="MB",
        help="most values of a rank, uncompressed (default: 256)",
    )
    _results(parser)


def _record(options: Namespace) -> int | None:
    _import_schemas()
    from testbed.cli.recording_commands import record_command
    from testbed.experiment import load

    _refuse_network(options.file)
    if options.skip is not None and options.skip < 0:
        raise UserError(f"--skip: found {options.skip}; allowed: 0 or more")
    wanted = {"steps": options.steps, "skip": options.skip, "limit_mb": options.limit}
    return record_command(
        load(options.file),
        options.output,
        options.job,
        {name: value for name, value in wanted.items() if value is not None},
        not options.no_values,
        options.results,
    )


def _recording_arguments(parser: Parser) -> None:
    parser.add_argument("recording", type=Path, metavar="FILE.npz")
    parser.add_argument(
        "--fixed-scale",
        type=_positive,
        default=1_000_000,
        metavar="STEPS",
        help="steps per 1.0 with numbers: fixed (default: %(default)s)",
    )
    parser.add_argument(
        "--values", type=_positive, default=64, metavar="N", help="per packet (default: 64)"
    )
    parser.add_argument(
        "--draw",
        type=Path,
        metavar="FIGURE",
        help="draw the errors of the number formats, as .pdf and .png",
    )
    _json(parser, "the same for programs")


def _recording(options: Namespace) -> int | None:
    _import_schemas()
    from testbed.cli.recording_commands import recording_command

    return recording_command(
        options.recording, options.fixed_scale, options.values, options.json, options.draw
    )


COMMANDS = {
    "run": Command(
        "run an experiment, a sweep or a network file (`run` may be left out)", _run_arguments, _run
    ),
    "sweep": Command("run all points of a file with the key `sweep`", _sweep_arguments, _sweep),
    "init": Command("write a first experiment file, with comments", _init_arguments, _init),
    "check": Command(
        "check an experiment and its P4 program, without a run", _check_arguments, _check
    ),
    "show": Command(
        "print an experiment with all defaults; --hash: the hash of a run's results",
        _show_arguments,
        _show,
    ),
    "plan": Command("plan which switch aggregates whose gradient", _plan_arguments, _plan),
    "schema": Command(
        "print a JSON schema of experiment or network files, for editors",
        _schema_arguments,
        _schema,
    ),
    "completion": Command(
        "print a script with which a shell completes commands and options",
        _completion_arguments,
        _completion,
    ),
    "import": Command(
        "make a network file from a p4app.json of p4-utils",
        _import_arguments,
        _import,
    ),
    "report": Command(
        "print tables and draw figures again; compare runs", _report_arguments, _report
    ),
    "twin": Command(
        "run a Mininet run's experiment in virtual time, and compare", _twin_arguments, _twin
    ),
    "record": Command(
        "run an experiment, and record the gradients of its program",
        _record_arguments,
        _record,
    ),
    "recording": Command(
        "print the tensors, times and numbers of a recording", _recording_arguments, _recording
    ),
    "pack": Command("make one file of a run, a sweep or a figure", _pack_arguments, _pack),
    "verify": Command(
        "run the content of such a file again, and compare", _verify_arguments, _verify
    ),
    "ps": Command("list the runs in progress, with their hosts and switches", _ps_arguments, _ps),
    "exec": Command(
        "run a command in a host or switch of a run in progress", _exec_arguments, _exec
    ),
    "logs": Command(
        "print the output of a host or switch of a run in progress", _logs_arguments, _logs
    ),
    "switch": Command("read or change a switch of a run in progress", _switch_arguments, _switch),
    "doctor": Command(
        "list what this machine has and lacks, and which runtimes work",
        _doctor_arguments,
        _doctor,
    ),
    "calibrate": Command(
        "measure what this machine can carry; `check` compares with it",
        _calibrate_arguments,
        _calibrate,
    ),
    "figure": Command(
        "run and draw a figure of docs/figures.md; without a name: list them",
        _figure_arguments,
        _figure,
    ),
    "clean": Command("remove what killed runs left on this machine", _none, _clean),
}


def parser_of_all() -> Parser:
    """The parser of the whole command line."""
    name = program_name()
    parser = Parser(
        prog=name,
        usage=f"{name} FILE.yaml\n       {name} COMMAND ARGUMENTS...",
        epilog=f"{name} COMMAND --help: what a command takes",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--version", action="store_true", help="print the version and the plug-ins found"
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands", prog=name)
    for word, command in COMMANDS.items():
        one = commands.add_parser(
            word, help=command.help, description=command.help, allow_abbrev=False
        )
        command.arguments(one)
        one.set_defaults(parser=one)
    return parser


def with_command(arguments: list[str]) -> list[str]:
    """The arguments with the command `run` where it was left out. Raises UserError."""
    first = arguments[0]
    if first in COMMANDS or first.startswith("-"):
        return arguments
    if first.endswith((".yaml", ".yml")) or os.path.exists(first):
        return ["run", *arguments]
    hint = did_you_mean(first, COMMANDS) or f"commands are: {', '.join(COMMANDS)}"
    raise UserError(sentence(f"there is no command or file `{first}`", hint))


def version() -> str:
    """What `--version` prints."""
    from importlib import metadata

    from testbed import plugins

    lines = [f"{name} {metadata.version(name)}" for name in ("ina-testbed", "p4engine")]
    return "\n".join([*lines, *(f"  {line}" for line in plugins.listing())])


def main(arguments: list[str]) -> int:
    """Run one command line; returns the exit code. Prints errors to stderr."""
    interrupts.install()
    try:
        parser = parser_of_all()
        if not arguments:
            parser.print_help(sys.stderr)
            return 2
        if arguments[0] == "help":
            arguments = ["--help"]
        try:
            options, unknown = parser.parse_known_args(with_command(arguments))
            if unknown:  # argparse would show the usage of all commands
                getattr(options, "parser", parser).error(
                    f"unrecognized arguments: {' '.join(unknown)}"
                )
        except SystemExit as done:  # --help
            return int(done.code or 0)
        if options.version:
            print(version())
            return 0
        return COMMANDS[options.command].call(options) or 0
    except UserError as error:
        print(f"error: {legible(error)}", file=sys.stderr)
        return 2
    except RunError as error:
        print(describe(error), file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return interrupts.exit_code()
    except BrokenPipeError:
        # `ina show FILE | head`: the reader has enough. Python must not complain again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (MemoryError, OSError) as error:
        if not (cause := shortage(error)):
            raise
        print(f"failed: {cause}", file=sys.stderr)
        return 1


def entry() -> int:
    """The command `ina`."""
    if os.geteuid() == 0 and os.environ.get("SUDO_UID", "0") != "0":
        # Root's byte code has no business in a user's checkout.
        sys.dont_write_bytecode = True
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    # A PATH that sudo has reset may not have the folders of ip and ifconfig.
    os.environ["PATH"] = os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin"
    return main(sys.argv[1:])


def describe(error: RunError) -> str:
    """A failed run's message with the end of the log that explains it."""
    text = f"failed: {error}"
    if error.log_tail:
        tail = "\n".join(f"  | {line}" for line in error.log_tail.splitlines())
        text += f"\nthe end of {error.log}:\n{tail}" if error.log else f"\n{tail}"
    return text
