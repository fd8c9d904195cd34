"""`ina ps`: the runs in progress, with their hosts and switches."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING, Any

from testbed.cli.shared import Parser, json_option, print_columns, print_json, run_option
from testbed.paths import command_line

if TYPE_CHECKING:
    from testbed.network.registry import Record


def arguments(parser: Parser) -> None:
    run_option(parser)
    json_option(parser, "print JSON")


def call(options: Namespace) -> int:
    from testbed.machine.preflight import require_root
    from testbed.network import live_runs, registry

    require_root(f"`{command_line('ps')}`")
    records = registry.live_runs() if options.run is None else [live_runs.choose(options.run)]
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
    from testbed.network import live_runs

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
