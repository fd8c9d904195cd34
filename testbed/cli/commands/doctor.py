"""`ina doctor`."""

from __future__ import annotations

from argparse import Namespace

from testbed.cli.shared import Parser, json_option


def arguments(parser: Parser) -> None:
    json_option(parser, "print JSON")


def call(options: Namespace) -> int:
    from testbed.machine.doctor import doctor_command

    return doctor_command(options.json)
