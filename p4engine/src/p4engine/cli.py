"""The command `p4engine`, the same as `python -m p4engine`.

    compile PROGRAM.p4 [-D NAME=VALUE] [-I FOLDER] [--json]       check, compile, list the objects
    switch PROGRAM.p4 -i 1@eth1 -i 2@eth2 --control PATH          be a switch between interfaces
        [--p4runtime ADDRESS --cpu-port N]                        and a P4Runtime server
    call PATH NAME [ARGUMENT...]                                  one control call to a switch
    stf PROGRAM.p4 TEST.stf | FOLDER                              packets in, packets out
    trace PROGRAM.p4 --packet HEX|PCAP [--commands FILE]          the path of packets
    p4info PROGRAM.p4 [--binary] [-o FILE]                        what a controller reads

Exit codes: 0; 1 when a running switch or a test failed; 2 when the program or the call is wrong.
"""

from __future__ import annotations

import argparse
import json
import sys
from importlib import import_module

from p4engine.frontend.diagnostics import P4Error

# Where a command's own arguments and its `main` are; loaded when it is called.
MODULES = {
    "switch": "p4engine.switch.process",
    "stf": "p4engine.stf.stf_command",
    "trace": "p4engine.trace.trace_command",
    "p4info": "p4engine.p4runtime.p4info",
}


def _define(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    if not name.isidentifier():
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME or NAME=VALUE")
    return name, value or "1"


def _argument(text: str) -> object:
    """JSON where it is JSON (numbers, lists), else the text itself."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def _parser(chosen: str) -> argparse.ArgumentParser:
    """The command line; only the chosen command's module is loaded."""
    parser = argparse.ArgumentParser(
        prog="p4engine", description="A P4-16 compiler and switch for v1model."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for name, text in (
        ("compile", "check and compile a program"),
        ("switch", "be a switch"),
        ("stf", "run tests in the simple test format"),
        ("trace", "show the path of packets through a program"),
        ("p4info", "print the P4Info of a program"),
    ):
        command = commands.add_parser(name, help=text)
        if name != "stf":
            command.add_argument("program", help="a P4-16 program for v1model")
        command.add_argument(
            "-D", "--define", type=_define, action="append", default=[], metavar="NAME[=VALUE]"
        )
        command.add_argument("-I", "--include", action="append", default=[], metavar="FOLDER")
        if name == "compile":
            command.add_argument("--json", action="store_true", help="print all objects as JSON")
        elif name == chosen:
            import_module(MODULES[name]).add_arguments(command)
    command = commands.add_parser("call", help="one control call to a switch process")
    command.add_argument("socket", help="its control socket")
    command.add_argument("name", help="of the call, for example table_dump")
    command.add_argument("arguments", nargs="*", type=_argument, help="text or JSON")
    return parser


def main(argv: list[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    words = sys.argv[1:] if argv is None else argv
    try:
        arguments = _parser(words[0] if words else "").parse_args(words)
        if arguments.command == "call":
            from p4engine.control.client import Client

            with Client(arguments.socket) as client:
                result = client.call(arguments.name, *arguments.arguments)
            if arguments.name == "trace_lines":
                print("\n".join(result))
            else:
                print(json.dumps(result))
            return 0
        if arguments.command in ("stf", "trace", "p4info"):
            return import_module(MODULES[arguments.command]).main(arguments)
        from p4engine.backend.build import compile_program

        compiled = compile_program(
            arguments.program,
            dict(arguments.define),
            arguments.include,
            trace=getattr(arguments, "trace", False),
        )
        for warning in compiled.warnings:
            print(warning, file=sys.stderr)
        if arguments.command == "switch":
            from p4engine.switch import process as switch

            return switch.main(compiled, arguments)
        if arguments.json:
            print(json.dumps(compiled.info.to_json(), indent=1))
        else:
            print(f"{arguments.program}: {compiled.so_path}")
            for kind in ("tables", "registers", "counters", "meters"):
                names = [each.name for each in getattr(compiled.info, kind)]
                if names:
                    print(
                        f"  {len(names)} {kind}: {', '.join(names[:8])}{' ...' * (len(names) > 8)}"
                    )
        return 0
    except P4Error as error:
        print(error, file=sys.stderr)
        return 2
    except BrokenPipeError:
        return 0
