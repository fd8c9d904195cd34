"""Commands about this machine and the tools on it: `ina doctor`, `ina clean`, `ina completion
SHELL` and `ina schema`.

A shell's script is written from the parser of the command line itself, and knows commands, options
and the words that they take. Files are completed by the shell.
"""

from __future__ import annotations

import argparse
from argparse import Namespace
from pathlib import Path

from p4fabric.base.errors import UserError
from p4fabric.base.linux.whole_files import write_whole
from p4fabric.base.program import pip_install

from testbed.cli.shared import Parser, json_option


def doctor_arguments(parser: Parser) -> None:
    json_option(parser, "print JSON")


def doctor(options: Namespace) -> int:
    from testbed.machine.doctor import doctor_command

    return doctor_command(options.json)


def clean_arguments(parser: Parser) -> None:
    """Takes none."""


def clean(options: Namespace) -> int:
    from p4fabric.emulate.live_runs import clean_command

    return clean_command()


def completion_arguments(parser: Parser) -> None:
    parser.add_argument("shell", choices=["bash", "zsh", "fish"])


def completion(options: Namespace) -> int:
    try:
        import shtab
    except ImportError:
        raise UserError(f"completion needs the package shtab: {pip_install()} shtab") from None
    from testbed.cli.main import COMMANDS, parser_of

    parser = parser_of(*COMMANDS)
    parser.prog = "ina"  # run.py is called through python3, which shells complete as Python's own
    for each in _all_parsers(parser):
        for action in each._actions:
            if isinstance(action, argparse._SubParsersAction):
                action.help = None  # it is not shown in `--help`, which lists commands in groups
            if action.type is Path:
                action.complete = shtab.FILE  # type: ignore[attr-defined]
    print(shtab.complete(parser, shell=options.shell))
    return 0


def _all_parsers(parser: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    found = [parser]
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for each in action.choices.values():
                found += _all_parsers(each)
    return found


def schema_arguments(parser: Parser) -> None:
    parser.add_argument(
        "kind",
        nargs="?",
        choices=["experiment", "network"],
        help="the kind of file; with -o, default: both",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FOLDER",
        help="write experiment.json and network.json into a folder, which is made if it is missing",
    )


def schema(options: Namespace) -> int:
    """Print a schema, or write schemas. Raises UserError."""
    from testbed.cli.json_schema import SCHEMAS, schema_text

    if options.output is None:
        if options.kind is None:
            known = " or ".join(SCHEMAS)
            raise UserError(f"schema: name the kind of file ({known}), or a folder with -o")
        print(schema_text(options.kind), end="")
        return 0
    try:
        options.output.mkdir(parents=True, exist_ok=True)
        for kind in SCHEMAS if options.kind is None else [options.kind]:
            write_whole(options.output / f"{kind}.json", schema_text(kind))
    except OSError as error:
        raise UserError(
            f"can't write {error.filename}: {error.strerror}; name a folder with -o"
        ) from None
    return 0
