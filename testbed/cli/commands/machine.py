"""Commands about this machine and the tools on it: `ina doctor`, `ina clean`, `ina completion
SHELL` and `ina schema`.

A shell's script is written from the parser of the command line itself, and knows commands, options
and the words that they take. Files are completed by the shell.
"""

from __future__ import annotations

import argparse
from argparse import Namespace
from pathlib import Path

from testbed.cli.shared import Parser, json_option
from testbed.errors import UserError
from testbed.paths import command_line


def doctor_arguments(parser: Parser) -> None:
    json_option(parser, "print JSON")


def doctor(options: Namespace) -> int:
    from testbed.machine.doctor import doctor_command

    return doctor_command(options.json)


def clean_arguments(parser: Parser) -> None:
    """Takes none."""


def clean(options: Namespace) -> int:
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


def completion_arguments(parser: Parser) -> None:
    parser.add_argument("shell", choices=["bash", "zsh", "fish"])


def completion(options: Namespace) -> int:
    try:
        import shtab
    except ImportError:
        raise UserError(
            "completion needs the package shtab: pip install 'ina-testbed[completion]'"
        ) from None
    from testbed.cli.main import COMMANDS, parser_of

    parser = parser_of(*COMMANDS)
    parser.prog = "ina"  # run.py is called through python3, which shells complete as Python's own
    for each in _all_parsers(parser):
        for action in each._actions:
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
    parser.add_argument("kind", choices=["experiment", "network"], help="the kind of file")


def schema(options: Namespace) -> int:
    from testbed.cli.json_schema import schema_command

    return schema_command(options.kind)
