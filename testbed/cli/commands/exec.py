"""`ina exec NODE -- COMMAND`: a command in a host or switch of a run in progress."""

from __future__ import annotations

import argparse
from argparse import Namespace

from testbed.cli.shared import Parser, run_option
from testbed.errors import UserError
from testbed.paths import command_line


def arguments(parser: Parser) -> None:
    run_option(parser)
    parser.add_argument("node", metavar="NODE", help="a host or a switch")
    parser.add_argument("words", nargs=argparse.REMAINDER, metavar="-- COMMAND...")


def call(options: Namespace) -> int:
    """Run the command; returns its exit code."""
    from testbed.machine.preflight import require_root
    from testbed.network import live_runs

    require_root(f"`{command_line('exec')}`")
    words = options.words[1:] if options.words[:1] == ["--"] else options.words
    if not words:
        example = command_line(f"exec {options.node} -- ip addr", root=True)
        raise UserError(f"no command; for instance `{example}`")
    return live_runs.run_in_node(live_runs.choose(options.run), options.node, words)
