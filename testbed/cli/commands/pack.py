"""`ina pack`: results as one file."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from testbed.cli.shared import (
    Parser,
    import_schemas,
    json_option,
    print_json,
    results_argument,
    results_option,
    working,
)


def arguments(parser: Parser) -> None:
    what = "a folder of results, SWEEP/HASH, or the name of a figure that has been run"
    results_argument(parser, "what", "RUN|SWEEP|FIGURE", what)
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="the file to write")
    json_option(parser, "print what was packed as JSON")
    results_option(parser)


def call(options: Namespace) -> int:
    import_schemas()
    from testbed.artifacts.pack import pack

    with working(f"packing {options.what}"):
        made = pack(options.what, options.output, options.results)
    if options.json:
        print_json(made)
        return 0
    runs = f"{made['runs']} run{'s' if made['runs'] > 1 else ''}"
    print(f"written: {made['file']}: {runs} in {made['files']} files, {made['bytes']} bytes")
    print(f"content: {made['content']}")
    return 0
