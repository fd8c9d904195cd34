"""`ina clean`."""

from __future__ import annotations

from argparse import Namespace

from testbed.cli.shared import Parser
from testbed.paths import command_line


def arguments(parser: Parser) -> None:
    """Takes none."""


def call(options: Namespace) -> int:
    from testbed.machine.preflight import require_root
    from testbed.network import registry

    require_root(f"`{command_line('clean')}`")
    removed = registry.clean()
    for line in removed:
        print(f"removed {line}")
    for record in registry.live_runs():
        print(f"left alone: {record.title or 'a run'} is running (process {record.runner.pid})")
    if not removed:
        print("nothing to remove")
    return 0
