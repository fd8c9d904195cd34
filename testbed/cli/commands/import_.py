"""`ina import FILE`."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from testbed.cli.shared import Parser, import_schemas


def arguments(parser: Parser) -> None:
    parser.add_argument("topology", type=Path, metavar="FILE.json", help="a p4app.json")
    parser.add_argument("--program", type=Path, metavar="FILE.p4", help="of all switches")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE.yaml", help="the file to write")


def call(options: Namespace) -> int:
    import_schemas()
    from testbed.netfile.p4_utils import import_app

    return import_app(options.topology, options.program, options.output)
