"""The command `p4fabric`: runs, checks and makes network files.

A command imports what it needs when it is called, so that help and errors of usage come at once.
"""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

from p4fabric.base import interrupts
from p4fabric.base.command_line import (
    Parser,
    exit_code,
    logged,
    run_options,
    run_process,
    verbose_option,
)
from p4fabric.base.linux.blas_threads import no_blas_threads
from p4fabric.base.program import Program, command_line, introduce, sudo

NAME = "p4fabric"
DISTRIBUTIONS = NAME, "p4engine"
LAWS = "P4FABRIC_LAWS"  # in the environment: hold every run against the laws (tests)
REMEDY = "`{}apt-get install mininet gcc libc6-dev iproute2 net-tools` installs it on Debian"


def run_arguments(parser: Parser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE.yaml", help="network file")
    prompt = "Mininet's prompt: before the checks, or after them (alone: after)"
    run_options(parser, prompt, "in virtual time: capture the packets of a port")
    parser.add_argument(
        "--json", action="store_true", help="in virtual time: print the results as JSON"
    )
    parser.add_argument(
        "--results",
        type=Path,
        metavar="DIR",
        default=Path("results"),
        help="in virtual time: where results go (default: %(default)s)",
    )


def run(options: Namespace) -> int:
    from p4fabric.netfile.load_network import load_network
    from p4fabric.netfile.network_run import run_plan

    words = options.results, options.pcap, options.json, options.cli, REMEDY.format(sudo())
    laws = bool(os.environ.get(LAWS))
    return run_plan(load_network(options.file), *words, laws=laws)


def check_arguments(parser: Parser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE.yaml", help="network file")


def check(options: Namespace) -> int:
    from p4fabric.netfile.network_run import check_network

    return check_network(options.file)


def import_arguments(parser: Parser) -> None:
    parser.add_argument(
        "file",
        type=Path,
        metavar="FILE",
        help="a p4app.json or topology.json; a topology of SimAI, a network.yml of ASTRA-sim's"
        " analytical backend, or an InfraGraph in YAML",
    )
    parser.add_argument("--program", type=Path, metavar="FILE.p4", help="of all switches")
    parser.add_argument(
        "--virtual", action="store_true", help="make a network file for virtual time"
    )
    parser.add_argument("-o", "--output", type=Path, metavar="OUT.yaml", help="the file to write")


def import_(options: Namespace) -> int:
    from p4fabric.netfile.import_topology import import_topology

    words = options.file, options.program, options.output, options.virtual
    return import_topology(*words, lambda file, root: command_line(f"run {file}", root))


def ptf_arguments(parser: Parser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE.yaml", help="network file")
    parser.add_argument("--switch", metavar="NAME", help="of several switches, the one to test")
    parser.add_argument(
        "words",
        nargs="+",
        metavar="-- --test-dir DIR ...",
        help="arguments of ptf, after --",
    )


def ptf(options: Namespace) -> int:
    from p4fabric.ptf_platform import run_ptf

    return run_ptf(options.file, options.switch, options.words)


def clean_arguments(parser: Parser) -> None:
    """Takes none."""


def clean(options: Namespace) -> int:
    from p4fabric.emulate.live_runs import clean_command

    return clean_command()


Command = tuple[str, Callable[[Parser], None], Callable[[Namespace], int]]
COMMANDS: dict[str, Command] = {
    "run": ("run a network file, on Mininet or in virtual time", run_arguments, run),
    "check": ("check a network file and its P4 programs, without a run", check_arguments, check),
    "import": (
        "make a network file from a topology of p4-utils, the P4 tutorials, or a simulator",
        import_arguments,
        import_,
    ),
    "ptf": ("run PTF's tests against a switch of a network file", ptf_arguments, ptf),
    "clean": ("remove what killed runs left on this machine", clean_arguments, clean),
}
"""The commands: the line in the help, and functions that add arguments and carry it out."""


def _parser() -> Parser:
    parser = Parser(
        prog=NAME,
        description="Networks of P4 switches.",
        epilog=f"{NAME} COMMAND --help: the arguments of a command",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="store_true", help="print the versions")
    parsers = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for word, (text, add, call) in COMMANDS.items():
        one = parsers.add_parser(word, help=text, description=text, allow_abbrev=False)
        verbose_option(one)
        add(one)
        one.set_defaults(call=call)
    return parser


def _run(arguments: list[str]) -> int:
    parser = _parser()
    try:
        options = parser.parse_args(arguments)
    except SystemExit as done:  # --help
        return int(done.code or 0)
    if options.version:
        from importlib import metadata

        for name in DISTRIBUTIONS:
            print(f"{name} {metadata.version(name)}")
        return 0
    if options.command is None:
        parser.print_help(sys.stderr)
        return 2
    with logged(options.verbose, DISTRIBUTIONS, options.quiet):
        if options.call is not clean:
            # An interrupted import of pydantic panics in Rust.
            with interrupts.postponed(), no_blas_threads():
                import p4fabric.netfile.load_network  # noqa: F401
        return int(options.call(options))


def main(arguments: list[str]) -> int:
    """Run one command line; returns the exit code. Prints errors to stderr."""
    return exit_code(_run, arguments)


def entry() -> None:
    """The command `p4fabric`, as a process."""
    introduce(Program(NAME))
    run_process(main)
