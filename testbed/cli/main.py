"""The command line of run.py: which command, what it prints when it goes wrong, the exit code.

Exit codes: 0 done, 1 a run that failed, 2 something that the user can put right, 130 Ctrl-C.
Commands import what they need when they are called, so that `run.py --help` and errors of usage
come at once.
"""

from __future__ import annotations

import argparse
import difflib
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from testbed.errors import RunError, UserError
from testbed.paths import default_results
from testbed.runtimes import interrupts


@dataclass(frozen=True)
class Command:
    """One command: `arguments` and `help` are what the usage shows."""

    arguments: str
    help: str
    call: Callable[[list[str]], int | None]


class _Parser(argparse.ArgumentParser):
    """argparse whose errors are ours."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}; {' '.join(self.format_usage().split())}")


def _one_file(name: str, arguments: list[str]) -> Path:
    if len(arguments) != 1 or arguments[0].startswith("-"):
        raise UserError(f"usage: run.py {name} FILE.yaml")
    return Path(arguments[0])


def run_command(arguments: list[str]) -> int | None:
    parser = _run_parser("run.py")
    parser.add_argument("--cli", action="store_true")
    parser.add_argument("--pcap", action="append", default=[], metavar="SWITCH:PORT")
    options = parser.parse_args(arguments)
    from testbed.netfile.load_network import is_network

    if is_network(options.file):
        if options.pcap:
            raise UserError("--pcap is for experiments; in a network file's network, run tcpdump")
        from testbed.netfile.network_run import run_network

        return run_network(options.file, options.cli)
    if options.cli:
        raise UserError("--cli is for network files: networks without training jobs")
    from testbed.experiment import load
    from testbed.experiment.sweep import is_sweep, load_sweep

    if is_sweep(options.file):
        if options.pcap:
            raise UserError("--pcap is for one experiment; a sweep is many")
        from testbed.sweeps.sweep_runner import run_sweep

        return run_sweep(load_sweep(options.file), options.results)
    from testbed.runner import run

    return run(load(options.file), options.results, options.pcap)


def sweep_command(arguments: list[str]) -> int | None:
    parser = _run_parser("run.py sweep")
    options = _sweep_options(parser, arguments)
    from testbed.experiment.sweep import load_sweep
    from testbed.sweeps.sweep_runner import run_sweep

    return run_sweep(load_sweep(options.file), options.results, options.processes, options.dask)


def figure_command(arguments: list[str]) -> int | None:
    from testbed.sweeps import figure_runner as figure_run
    from testbed.sweeps import planner_comparison as planner_figures

    if not arguments:
        print(figure_run.listing())
        print(planner_figures.listing())
        return 0
    parser = _Parser(prog="run.py figure", add_help=False)
    parser.add_argument("name")
    parser.add_argument("--results", type=Path, default=default_results())
    parser.add_argument("--scale", type=float)
    parser.add_argument("--quick", action="store_true")
    options = _sweep_options(parser, arguments)
    if options.name in planner_figures.FIGURES:
        if options.scale is not None or options.dask:
            raise UserError(f"{options.name} plans and runs nothing; it takes --quick, --processes")
        return planner_figures.run_figure(
            options.name, options.results, options.quick, options.processes
        )
    path = figure_run.find(options.name, others=planner_figures.FIGURES)
    size = figure_run.size_of(path, options.scale, options.quick)
    return figure_run.run_figure(path, size, options.results, options.processes, options.dask)


def _sweep_options(parser: _Parser, arguments: list[str]) -> argparse.Namespace:
    """What a sweep's points can be run on, beside what the parser knows already."""
    parser.add_argument("--processes", type=_positive)
    parser.add_argument("--dask", metavar="tcp://HOST:PORT")
    options = parser.parse_args(arguments)
    if options.processes and options.dask:
        raise UserError("--processes and --dask: give one of them")
    return options


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"found {text!r}; allowed: a whole number from 1")
    return int(text)


def _run_parser(program: str) -> _Parser:
    parser = _Parser(prog=program, add_help=False)
    parser.add_argument("file", type=Path)
    parser.add_argument("--results", type=Path, default=default_results())
    return parser


def check_command(arguments: list[str]) -> int | None:
    path = _one_file("check", arguments)
    from testbed.netfile.load_network import is_network

    if is_network(path):
        from testbed.netfile.network_run import check_network

        return check_network(path)
    from testbed.cli.experiment_commands import check_command
    from testbed.machine import calibration, capacity
    from testbed.runtimes.program import prepare

    return check_command(
        path, lambda each: (*prepare(each).warnings, *capacity.warnings(each, calibration.load()))
    )


def show_command(arguments: list[str]) -> int | None:
    if "--hash" in arguments:
        from testbed.results import digest, read

        arguments = [argument for argument in arguments if argument != "--hash"]
        if len(arguments) != 1 or arguments[0].startswith("-"):
            raise UserError("usage: run.py show RESULTS --hash (a folder below results/)")
        print(digest(read(arguments[0])))
        return 0
    path = _one_file("show", arguments)
    if path.is_dir():
        raise UserError(
            f"{path} is a folder; `run.py show FILE.yaml` prints an experiment with all defaults, "
            "`run.py show RESULTS --hash` a number for all that a run has measured"
        )
    _refuse_network(path)
    from testbed.cli.experiment_commands import show_command

    return show_command(path)


def import_command(arguments: list[str]) -> int | None:
    from testbed.netfile.tutorials import import_command

    return import_command(arguments, _Parser(prog="run.py import", add_help=False))


def report_command(arguments: list[str]) -> int | None:
    if not arguments:
        raise UserError("usage: run.py report RESULTS... (one or more folders below results/)")
    from testbed.analysis.report import report_command

    return report_command([Path(argument) for argument in arguments])


def twin_command(arguments: list[str]) -> int | None:
    parser = _Parser(prog="run.py twin", add_help=False)
    parser.add_argument("results_folder", metavar="RESULTS", type=Path)
    parser.add_argument("--measured-hosts", action="store_true")
    parser.add_argument("--results", type=Path, default=default_results())
    options = parser.parse_args(arguments)
    from testbed.cli.twin_command import run_twin

    return run_twin(options.results_folder, options.results, options.measured_hosts)


def clean_command(arguments: list[str]) -> int | None:
    from testbed.machine.preflight import require_root
    from testbed.network import registry

    if arguments:
        raise UserError("usage: run.py clean (takes no arguments)")
    require_root("run.py clean")
    removed = registry.clean()
    for line in removed:
        print(f"removed {line}")
    for record in registry.live_runs():
        print(f"left alone: {record.title or 'a run'} is running (process {record.runner.pid})")
    if not removed:
        print("nothing to remove")
    return 0


def calibrate_command(arguments: list[str]) -> int | None:
    from testbed.cli.calibrate import calibrate_command

    return calibrate_command(arguments)


def doctor_command(arguments: list[str]) -> int | None:
    from testbed.machine.doctor import doctor_command

    return doctor_command(arguments)


def _refuse_network(path: Path) -> None:
    from testbed.netfile.load_network import is_network

    if is_network(path):
        raise UserError(f"{path} is a network file; `run.py check` looks whether it is right")


def plan_command(arguments: list[str]) -> int | None:
    parser = _Parser(prog="run.py plan", add_help=False)
    parser.add_argument("file", type=Path)
    parser.add_argument("--planner")
    parser.add_argument("--seed", type=_positive, default=1)
    parser.add_argument("--paths", type=_positive, default=16)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--picture", type=Path)
    given = parser.parse_args(arguments)
    from testbed.cli.plan_command import plan_command

    if given.file.suffix in (".yaml", ".yml"):
        _refuse_network(given.file)
    return plan_command(
        given.file, given.planner, given.seed, given.paths, given.json, given.picture
    )


COMMANDS = {
    "run": Command(
        "FILE.yaml",
        "run an experiment (`run` may be left out); --results DIR, --pcap SWITCH:PORT",
        run_command,
    ),
    "sweep": Command(
        "FILE.yaml",
        "run all points of a file with the key `sweep`; --processes N, --dask ADDRESS",
        sweep_command,
    ),
    "check": Command(
        "FILE.yaml", "only look whether the experiment and its P4 program are right", check_command
    ),
    "show": Command(
        "FILE.yaml",
        "print the experiment with all defaults; RESULTS --hash: a number for what was measured",
        show_command,
    ),
    "plan": Command(
        "FILE",
        "which switch aggregates whose gradient; --planner NAME, --json, --picture FILE",
        plan_command,
    ),
    "import": Command(
        "FILE.json",
        "a network file out of a P4 tutorials' topology; --program P4, -o FILE.yaml",
        import_command,
    ),
    "report": Command("RESULTS...", "tables and figures again; compare runs", report_command),
    "twin": Command(
        "RESULTS",
        "run a Mininet run's experiment in virtual time, and compare; --measured-hosts",
        twin_command,
    ),
    "doctor": Command(
        "", "what this machine has and lacks, and which runtimes work here", doctor_command
    ),
    "calibrate": Command(
        "", "measure what this machine can carry; `check` compares with it", calibrate_command
    ),
    "figure": Command(
        "NAME",
        "run and draw a figure of docs/figures.md; without a name list them; --quick, --scale X",
        figure_command,
    ),
    "clean": Command("", "remove what killed runs left on this machine", clean_command),
}


def usage() -> str:
    """The help text."""
    lines = ["usage: run.py FILE.yaml", "       run.py COMMAND ARGUMENTS...", "", "commands:"]
    for name, command in COMMANDS.items():
        lines.append(f"  {f'{name} {command.arguments}':<20}{command.help}")
    return "\n".join(lines)


def help_of(word: str) -> str:
    """The help text of one command; all of it if `word` is none."""
    if word not in COMMANDS:
        return usage()
    command = COMMANDS[word]
    return f"usage: {f'run.py {word} {command.arguments}'.strip()}\n\n{command.help}"


def select(arguments: list[str]) -> tuple[Callable[[list[str]], int | None], list[str]]:
    """The function for a command line, and the arguments that remain. Raises UserError."""
    first = arguments[0]
    if first in COMMANDS:
        return COMMANDS[first].call, arguments[1:]
    if first.endswith((".yaml", ".yml")) or os.path.exists(first):
        return run_command, arguments
    near = difflib.get_close_matches(first, COMMANDS, 1)
    hint = f"did you mean `{near[0]}`?" if near else f"commands are: {', '.join(COMMANDS)}"
    raise UserError(f"there is no command or file `{first}`; {hint}")


def main(arguments: list[str]) -> int:
    """Run one command line; returns the exit code. Prints errors to stderr."""
    interrupts.install()
    try:
        if not arguments or arguments[0] in ("-h", "--help", "help"):
            print(usage(), file=sys.stdout if arguments else sys.stderr)
            return 0 if arguments else 2
        if arguments[1:] in (["-h"], ["--help"]):
            print(help_of(arguments[0]))
            return 0
        call, rest = select(arguments)
        return call(rest) or 0
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except RunError as error:
        print(describe(error), file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return interrupts.exit_code()
    except BrokenPipeError:
        # `run.py show FILE | head`: the reader has enough. Python must not complain again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def entry() -> int:
    """The command `ina`."""
    return main(sys.argv[1:])


def describe(error: RunError) -> str:
    """A failed run's message with the end of the log that explains it."""
    text = f"failed: {error}"
    if error.log_tail:
        tail = "\n".join(f"  | {line}" for line in error.log_tail.splitlines())
        text += f"\nthe end of {error.log}:\n{tail}" if error.log else f"\n{tail}"
    return text
