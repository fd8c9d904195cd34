"""`ina logs NODE`: the output of a host or switch of a run in progress."""

from __future__ import annotations

import sys
import time
from argparse import Namespace
from pathlib import Path

from testbed.cli.shared import Parser, run_option
from testbed.paths import command_line

FOLLOW_S = 0.2


def arguments(parser: Parser) -> None:
    run_option(parser)
    parser.add_argument("node", metavar="NODE", help="a host or a switch")
    parser.add_argument("-f", "--follow", action="store_true", help="follow until the run ends")


def call(options: Namespace) -> int:
    from testbed.machine.preflight import require_root
    from testbed.network import live_runs

    require_root(f"`{command_line('logs')}`")
    record = live_runs.choose(options.run)
    shown: dict[Path, int] = {}
    while True:
        going_on = record.runner.alive()
        for path in live_runs.log_files(record, options.node) if going_on or not shown else shown:
            _print_rest(path, shown)
        if not options.follow or not going_on:
            break
        time.sleep(FOLLOW_S)
    if not any(shown.values()):
        print(f"{options.node} has written nothing", file=sys.stderr)
    return 0


def _print_rest(path: Path, shown: dict[Path, int]) -> None:
    """Print the rest of a file behind the part that has been shown."""
    try:
        with path.open("rb") as file:
            file.seek(shown.get(path, 0))
            new = file.read()
    except FileNotFoundError:
        return
    shown[path] = shown.get(path, 0) + len(new)
    sys.stdout.write(new.decode(errors="replace"))
    sys.stdout.flush()
