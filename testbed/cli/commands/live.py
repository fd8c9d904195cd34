"""`ina ps`, `ina exec NODE -- COMMAND` and `ina logs NODE`: the runs in progress, and their hosts
and switches."""

from __future__ import annotations

import argparse
import sys
import time
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from p4fabric.base.errors import UserError

from testbed.cli.shared import Parser, json_option, print_columns, print_json, run_option
from testbed.paths import command_line

if TYPE_CHECKING:
    from p4fabric.emulate.run_records import Record

FOLLOW_S = 0.2


def ps_arguments(parser: Parser) -> None:
    run_option(parser)
    json_option(parser, "print JSON")


def ps(options: Namespace) -> int:
    from p4fabric.emulate import live_runs, run_records
    from p4fabric.emulate.network_needs import require_root

    require_root(f"`{command_line('ps')}`")
    records = run_records.live_runs() if options.run is None else [live_runs.choose(options.run)]
    found = [_described(record) for record in records]
    if options.json:
        print_json(found)
        return 0
    if not found:
        print("no run on Mininet is in progress")
    for each in found:
        print(f"{each['title']}: process {each['process']}")
        rows = [
            (node["name"], node["kind"], str(node["process"] or "-"), str(node["namespace"] or "-"))
            for node in each["nodes"]
        ]
        print_columns(("name", "kind", "process", "namespace"), rows)
    return 0


def _described(record: Record) -> dict[str, Any]:
    from p4fabric.emulate import live_runs

    nodes = []
    for name, kind in record.nodes.items():
        alive = live_runs.processes(record, name)
        pids = {what: identity.pid for what, identity in alive.items()}
        nodes.append(
            {
                "name": name,
                "kind": kind,
                "process": pids.get("process"),
                "namespace": pids.get("namespace"),
            }
        )
    return {
        "title": record.title,
        "process": record.runner.pid,
        "logs": str(record.logs) if record.logs else None,
        "nodes": nodes,
    }


def exec_arguments(parser: Parser) -> None:
    run_option(parser)
    parser.add_argument("node", metavar="NODE", help="a host or a switch")
    parser.add_argument("words", nargs=argparse.REMAINDER, metavar="-- COMMAND...")


def exec(options: Namespace) -> int:
    """Run the command; returns its exit code."""
    from p4fabric.emulate import live_runs
    from p4fabric.emulate.network_needs import require_root

    require_root(f"`{command_line('exec')}`")
    words = options.words[1:] if options.words[:1] == ["--"] else options.words
    if not words:
        example = command_line(f"exec {options.node} -- ip addr", root=True)
        raise UserError(f"no command; for instance `{example}`")
    return live_runs.run_in_node(live_runs.choose(options.run), options.node, words)


def logs_arguments(parser: Parser) -> None:
    run_option(parser)
    parser.add_argument("node", metavar="NODE", help="a host or a switch")
    parser.add_argument("-f", "--follow", action="store_true", help="follow until the run ends")


def logs(options: Namespace) -> int:
    from p4fabric.emulate import live_runs
    from p4fabric.emulate.network_needs import require_root

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
