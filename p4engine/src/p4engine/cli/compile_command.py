"""The `compile` command, and the compilation that other commands begin with."""

from __future__ import annotations

import argparse
import json
import sys

from p4engine.backend.build import Compiled, compile_program

LISTED = 8  # names of a kind


def compiled_from(arguments: argparse.Namespace, trace: bool = False) -> Compiled:
    """The program that a command line names, with its -D and -I; warnings go to stderr."""
    compiled = compile_program(
        arguments.program, dict(arguments.define), arguments.include, trace=trace
    )
    for warning in compiled.warnings:
        print(warning, file=sys.stderr)
    return compiled


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line of `compile`; the program, -D and -I are the caller's."""
    parser.add_argument("--json", action="store_true", help="print all objects as JSON")
    parser.add_argument(
        "--warn-index",
        action="store_true",
        help="warn of indices that a packet can take out of their array",
    )


def main(arguments: argparse.Namespace) -> int:
    """p4engine compile PROGRAM.p4 [--json] [--warn-index]."""
    compiled = compiled_from(arguments)
    if arguments.warn_index:
        from p4engine.indices.bounds import index_warnings

        for warning in index_warnings(arguments.program, dict(arguments.define), arguments.include):
            print(warning, file=sys.stderr)
    info = compiled.info
    if arguments.json:
        print(json.dumps(info.to_json(), indent=1))
        return 0
    print(f"{arguments.program}: {compiled.so_path}")
    for kind in ("tables", "registers", "counters", "meters"):
        names = [each.name for each in getattr(info, kind)]
        if names:
            more = " ..." * (len(names) > LISTED)
            print(f"  {len(names)} {kind}: {', '.join(names[:LISTED])}{more}")
    return 0
