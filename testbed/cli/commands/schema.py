"""`ina schema`."""

from __future__ import annotations

from argparse import Namespace

from testbed.cli.shared import Parser


def arguments(parser: Parser) -> None:
    parser.add_argument("kind", choices=["experiment", "network"], help="the kind of file")


def call(options: Namespace) -> int:
    from testbed.cli.json_schema import schema_command

    return schema_command(options.kind)
