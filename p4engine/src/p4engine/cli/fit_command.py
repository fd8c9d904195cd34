"""The `fit` command: how far a program is from a switch chip's pipeline."""

from __future__ import annotations

import argparse
import json

from p4engine.fit.analysis import analyse
from p4engine.fit.report import Limits, describe, text_of


def _count(text: str) -> int:
    number = int(text.replace("_", ""), 0)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text} is negative")
    return number


_count.__name__ = "number"  # as argparse calls what it cannot read


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `fit` beside those of the compiler."""
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    limits = parser.add_argument_group("the pipeline")
    for name, default, text in describe():
        option = "--" + name.replace("_", "-")
        limits.add_argument(
            option, type=_count, default=default, metavar="N", help=f"{text} ({default})"
        )


def main(arguments: argparse.Namespace) -> int:
    """p4engine fit PROGRAM.p4 [--json] [--stages N] ..."""
    limits = Limits(**{name: getattr(arguments, name) for name, _, _ in describe()})
    report = analyse(arguments.program, dict(arguments.define), arguments.include, limits=limits)
    print(json.dumps(report.to_json(), indent=1) if arguments.json else text_of(report))
    return 0 if report.fits else 1
