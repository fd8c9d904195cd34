"""`ina ps`, `ina exec`, `ina logs` and `ina switch`: a run that goes on, from another shell."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from testbed.errors import UserError
from testbed.machine.preflight import require_root
from testbed.network import live_runs
from testbed.network.registry import Record
from testbed.network.registry import live_runs as all_live
from testbed.paths import command_line

if TYPE_CHECKING:
    from p4engine.control.client import Client

FOLLOW_S = 0.2


def ps_command(run: str | None, as_json: bool) -> int:
    """List the runs that go on, with their hosts and switches."""
    require_root(f"`{command_line('ps')}`")
    records = all_live() if run is None else [live_runs.choose(run)]
    found = [_described(record) for record in records]
    if as_json:
        print(json.dumps(found, indent=1))
        return 0
    if not found:
        print("no run on Mininet is going on")
    for each in found:
        print(f"{each['title']}: process {each['process']}")
        rows = [
            (node["name"], node["kind"], str(node["process"] or "-"), str(node["namespace"] or "-"))
            for node in each["nodes"]
        ]
        _print(("name", "kind", "process", "namespace"), rows)
    return 0


def _described(record: Record) -> dict[str, Any]:
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


def exec_command(run: str | None, node: str, command: Sequence[str]) -> int:
    """Run a command in a node; returns its exit code."""
    require_root(f"`{command_line('exec')}`")
    words = list(command[1:] if command and command[0] == "--" else command)
    if not words:
        example = command_line(f"exec {node} -- ip addr", root=True)
        raise UserError(f"no command; for instance `{example}`")
    return live_runs.run_in_node(live_runs.choose(run), node, words)


def logs_command(run: str | None, node: str, follow: bool) -> int:
    """Print what the process of a node has written, with `follow` until the run ends."""
    require_root(f"`{command_line('logs')}`")
    record = live_runs.choose(run)
    shown: dict[Path, int] = {}
    while True:
        going_on = record.runner.alive()
        for path in live_runs.log_files(record, node) if going_on or not shown else shown:
            _print_rest(path, shown)
        if not follow or not going_on:
            break
        time.sleep(FOLLOW_S)
    if not any(shown.values()):
        print(f"{node} has written nothing", file=sys.stderr)
    return 0


def _print_rest(path: Path, shown: dict[Path, int]) -> None:
    """Print what a file has beyond what was shown of it."""
    try:
        with path.open("rb") as file:
            file.seek(shown.get(path, 0))
            new = file.read()
    except FileNotFoundError:
        return
    shown[path] = shown.get(path, 0) + len(new)
    sys.stdout.write(new.decode(errors="replace"))
    sys.stdout.flush()


def switch_command(
    run: str | None, switch: str, what: str, words: Sequence[str], as_json: bool = False
) -> int:
    """Read or change a live switch. as_json: what is read is printed as JSON."""
    require_root(f"`{command_line('switch')}`")
    from p4engine.control.client import Client
    from p4engine.control.commands import Commands
    from p4engine.frontend.diagnostics import P4Error

    record = live_runs.choose(run)
    path = live_runs.control_socket(record, switch)
    try:
        with Client(path) as client:
            line = "" if what == "counters" else _line(what, words)
            if as_json:
                print(json.dumps(_read(what, words, record, client), indent=1))
                return 0
            if what == "counters":
                _none(what, words)
                _print_counters(record, client)
                return 0
            said = Commands(client).run(line)
    except P4Error as error:
        raise UserError(f"switch {switch}: {error}") from None
    if said:
        print(said)
    return 0


def _read(what: str, words: Sequence[str], record: Record, client: Client) -> dict[str, Any]:
    """What `switch ... --json` prints. Numbers of keys and parameters are numbers."""
    from p4engine.control.commands import Commands

    commands = Commands(client)
    if what == "counters":
        _none(what, words)
        counted = [
            {"counter": counter, "job": job, "value": value}
            for counter, job, value in _counted(record, client)
        ]
        return {"ports": client.port_stats(), "counters": counted}
    if what == "tables":
        return {
            "tables": [
                {
                    "name": table.name,
                    "keys": [{"name": k.name, "kind": k.kind, "bits": k.width} for k in table.keys],
                    "actions": [action.name for action in table.actions],
                }
                for table in commands.names.info.tables
            ]
        }
    if what == "table":
        name = commands.names.table(words[0]).name
        return {"table": name, "entries": client.table_dump(name)}
    if what == "register":
        said = commands.run(_line(what, words)) or ""  # which checks the words
        name, _, values = said.partition(" = ")
        return {"register": name, "values": [int(value) for value in values.split(", ") if value]}
    return {"said": commands.run(_line(what, words))}


def _line(what: str, words: Sequence[str]) -> str:
    """The text command (p4engine/docs/commands.md) for what is asked."""
    if what == "tables":
        _none(what, words)
        return "show_tables"
    if not words:
        example = {
            "table": "table NAME",
            "register": "register NAME [INDEX]",
            "set": "set register_write NAME INDEX VALUE",
        }[what]
        line = command_line(f"switch s1 {example}")
        raise UserError(f"switch: {what} needs more words: `{line}`")
    if what == "table":
        if len(words) > 1:
            raise UserError(f"switch: table takes one name; found {' '.join(words)}")
        return f"table_dump {words[0]}"
    if what == "register":
        return f"register_read {' '.join(words)}"
    return " ".join(words)


def _none(what: str, words: Sequence[str]) -> None:
    if words:
        raise UserError(f"switch: {what} takes no more words; found {' '.join(words)}")


def _print_counters(record: Record, client: Client) -> None:
    """What the ports have carried; in an experiment, also what the P4 program has counted."""
    columns = ("packets", "bytes", "queue_drops", "losses", "unmodelled_drops")
    rows = [
        (str(row["port"]), row["direction"], *(_number(row.get(name)) for name in columns))
        for row in client.port_stats()
    ]
    _print(("port", "direction", *(name.replace("_", " ") for name in columns)), rows)
    counted = [(counter, job or "", str(value)) for counter, job, value in _counted(record, client)]
    if counted:
        print()
        _print(("counter", "job", "value"), counted)


def _counted(record: Record, client: Client) -> list[tuple[str, str | None, int]]:
    """What an experiment's P4 program has counted: counter, job, value; without zeros."""
    file = record.logs.parent / "experiment.yaml" if record.logs else None
    if file is None or not file.exists():
        return []
    from testbed import dataplane
    from testbed.experiment import load_text

    experiment = load_text(file.read_text(encoding="utf-8"), str(file), file.parent)
    names = {number: job.name for number, job in enumerate(experiment.jobs)}
    return [
        (counter, None if job is None else names.get(job, str(job)), value)
        for job, counter, value in dataplane.counters(experiment, client)
        if value
    ]


def _number(value: Any) -> str:
    return "-" if value is None else str(value)


def _print(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A plain table: columns that line up, nothing else, for people and for awk."""
    lines = [tuple(header), *rows]
    widths = [max(len(str(line[place])) for line in lines) for place in range(len(header))]
    for line in lines:
        cells = (str(cell).ljust(width) for cell, width in zip(line, widths, strict=True))
        print("  " + "  ".join(cells).rstrip())
