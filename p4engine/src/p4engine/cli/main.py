"""The command `p4engine`, the same as `python -m p4engine`.

    compile PROGRAM.p4 [-D NAME=VALUE] [-I FOLDER] [--json]       check, compile, list the objects
        [--warn-index]                                            indices out of their arrays
    switch PROGRAM.p4 -i 1@eth1 -i 2@eth2 --control PATH          be a switch between interfaces
        [--p4runtime ADDRESS --cpu-port N]                        and a P4Runtime server
    call PATH NAME [ARGUMENT...]                                  one control call to a switch
    stf PROGRAM.p4 TEST.stf | FOLDER                              packets in, packets out
    trace PROGRAM.p4 --packet HEX|PCAP [--commands FILE]          the path of packets
    p4info PROGRAM.p4 [--binary] [-o FILE]                        what a controller reads
    fit PROGRAM.p4 [--json]                                       sizes of tables and arrays
    shims FOLDER                                                  stand-ins for BMv2's commands

Exit codes: 0; 1 when a running switch or a test failed; 2 when the program or the call is wrong.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from p4engine.frontend.diagnostics import P4Error


def define(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    if not name.isidentifier():
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME or NAME=VALUE")
    return name, value or "1"


def _preprocessor_options() -> _Command:
    parser = _Command(add_help=False)
    parser.add_argument(
        "-D", "--define", type=define, action="append", default=[], metavar="NAME[=VALUE]"
    )
    parser.add_argument("-I", "--include", action="append", default=[], metavar="FOLDER")
    return parser


def _one_program() -> _Command:
    parser = _Command(add_help=False)
    parser.add_argument("program", help="a P4-16 program for v1model or TNA")
    return parser


class _Command(argparse.ArgumentParser):
    """The parser of one command. Its module is loaded only when the command is chosen: it has
    `add_arguments(parser)` and `main(arguments)`."""

    module = ""

    def parse_known_args(  # type: ignore[override]  # of three overloads, the one that is called
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        module: Any = import_module(self.module)
        module.add_arguments(self)
        self.set_defaults(main=module.main)
        return super().parse_known_args(args, namespace)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="p4engine", description="A P4-16 compiler and switch for v1model and TNA."
    )
    options, program = _preprocessor_options(), _one_program()
    commands = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=_Command)
    for name, module, parents, text in (
        ("compile", "cli.compile_command", [program, options], "check and compile a program"),
        ("switch", "cli.switch_command", [program, options], "be a switch"),
        ("call", "cli.call_command", [], "one control call to a switch process"),
        ("stf", "cli.stf_command", [options], "run tests in the simple test format"),
        ("trace", "cli.trace_command", [program, options], "show packets' paths in a program"),
        ("p4info", "cli.p4info_command", [program, options], "print the P4Info of a program"),
        ("fit", "cli.fit_command", [program, options], "print the sizes of tables and arrays"),
        ("shims", "cli.shims_command", [], "write stand-ins for the commands of p4c and BMv2"),
    ):
        commands.add_parser(name, parents=parents, help=text).module = f"p4engine.{module}"
    return parser


def main(argv: list[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    try:
        arguments = _parser().parse_args(argv)
        code: int = arguments.main(arguments)
        return code
    except P4Error as error:
        print(error, file=sys.stderr)
        return 2
    except BrokenPipeError:
        return 0
