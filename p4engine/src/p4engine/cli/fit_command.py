"""The `fit` command: how far a program is from a switch chip's pipeline."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace

from p4engine.fit.analysis import analyse
from p4engine.fit.limits import TARGETS, describe
from p4engine.fit.report import text_of


def _count(text: str) -> int:
    number = int(text.replace("_", ""), 0)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text} is negative")
    return number


_count.__name__ = "number"  # as argparse calls what it cannot read


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `fit` beside those of the compiler."""
    parser.add_argument(
        "--target", choices=sorted(TARGETS), default="tofino-like", help="the pipeline"
    )
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    limits = parser.add_argument_group("limits, instead of the target's")
    for name, default, text in describe():
        limits.add_argument(
            "--" + name.replace("_", "-"),
            type=_count,
            metavar="N",
            help=f"{text} ({default})",
        )


def main(arguments: argparse.Namespace) -> int:
    """p4engine fit PROGRAM.p4 [--target tofino-like] [--json] [--stages N] ..."""
    given = {name: getattr(arguments, name) for name, _, _ in describe()}
    limits = replace(TARGETS[arguments.target], **{n: v for n, v in given.items() if v is not None})
    report = analyse(
        arguments.program,
        dict(arguments.define),
        arguments.include,
        limits=limits,
        target=arguments.target,
    )
    print(json.dumps(report.to_json(), indent=1) if arguments.json else text_of(report))
    return 0 if report.fits else 1
