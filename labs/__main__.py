"""`python -m labs`: list the labs, grade a submission, mark many, pack the student's kit.

Exit codes: 0 full points (or done), 1 points lost, 2 a mistake of the person at the keyboard.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from labs.grader.grade import Outcome, grade
from labs.grader.lab import find_lab, lab_names
from labs.grader.report import gradescope, show_end, show_outcome
from labs.grader.submission import find
from testbed.errors import UserError

PLAIN_WIDTH = 200  # columns where there is no terminal


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m labs", description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser("list", help="the labs")

    one = commands.add_parser("grade", help="grade one submission")
    one.add_argument("lab", help="number or name of the lab")
    one.add_argument("path", type=Path, help="the submission: a folder, or its only file")
    results = "write Gradescope's results ('-': print them instead of the text)"
    one.add_argument("--json", type=Path, metavar="FILE", help=results)
    one.add_argument("--seed", type=int, default=0, help="of what the tests send (default 0)")
    one.add_argument("--trace", action="store_true", help="follow the first packet that differs")
    return parser


def _list(_: argparse.Namespace, console: Console) -> int:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("lab", "title", "hand in", "tests", "points"):
        table.add_column(name)
    for name in lab_names():
        lab = find_lab(name)
        files = ", ".join(lab.hand_in)
        table.add_row(name, lab.title, files, str(len(lab.checks)), str(lab.points))
    console.print(table)
    return 0


def _grade(arguments: argparse.Namespace, console: Console) -> int:
    lab = find_lab(arguments.lab)
    folder = find(lab, arguments.path)
    quiet = arguments.json is not None and str(arguments.json) == "-"
    count = 0

    def progress(outcome: Outcome) -> None:
        nonlocal count
        count += 1
        if not quiet and outcome.status != "not run":
            show_outcome(console, count, outcome)

    made = grade(lab, folder, arguments.seed, arguments.trace, None, progress)
    if arguments.json is not None:
        text = json.dumps(gradescope(made), indent=2) + "\n"
        if quiet:
            sys.stdout.write(text)
        else:
            arguments.json.write_text(text)
    if not quiet:
        show_end(console, made)
    return 0 if made.points == lab.points else 1


COMMANDS = {"list": _list, "grade": _grade}


def main(words: list[str] | None = None) -> int:
    """Carry out a command; returns the exit code."""
    arguments = _parser().parse_args(words)
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=PLAIN_WIDTH)
    try:
        return COMMANDS[arguments.command](arguments, console)
    except UserError as error:
        Console(stderr=True, highlight=False).print(Text(f"error: {error}"), soft_wrap=True)
        return 2
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
