"""`ina completion SHELL`: a script that makes a shell complete the command line.

It is written from the parser of the command line itself, and knows commands, options and the words
that they take. Files are completed by the shell.
"""

from __future__ import annotations

import argparse
from argparse import Namespace
from pathlib import Path

from testbed.cli.shared import Parser
from testbed.errors import UserError


def arguments(parser: Parser) -> None:
    parser.add_argument("shell", choices=["bash", "zsh", "fish"])


def call(options: Namespace) -> int:
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
