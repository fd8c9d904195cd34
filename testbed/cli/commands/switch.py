"""`ina switch SWITCH ...`: read or change a switch of a run in progress."""

from __future__ import annotations

import argparse
from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from p4fabric.base.errors import UserError

from testbed.cli.shared import Parser, json_option, print_columns, print_json, run_option
from testbed.paths import command_line

if TYPE_CHECKING:
    from p4engine.control.client import Client
    from p4fabric.emulate.run_records import Record


def arguments(parser: Parser) -> None:
    run_option(parser)
    json_option(parser, "print JSON")
    parser.add_argument("switch", metavar="SWITCH")
    parser.add_argument(
        "what",
        choices=["tables", "table", "register", "counters", "set"],
        help="table NAME, register NAME [INDEX], set COMMAND... (p4engine/docs/commands.md)",
    )
    parser.add_argument("words", nargs=argparse.REMAINDER, metavar="WORDS")


def call(options: Namespace) -> int:
    from p4engine.control.client import Client
    from p4engine.control.commands import Commands
    from p4engine.frontend.diagnostics import P4Error
    from p4fabric.emulate import live_runs
    from p4fabric.emulate.network_needs import require_root

    require_root(f"`{command_line('switch')}`")
    what, words, as_json = options.what, options.words, options.json
    if words[-1:] == ["--json"]:  # the parser has taken it for one of the words
        words, as_json = words[:-1], True
    record = live_runs.choose(options.run)
    path = live_runs.control_socket(record, options.switch)
    try:
        with Client(path) as client:
            line = "" if what == "counters" else _line(what, words)
            if as_json:
                print_json(_read(what, words, record, client))
                return 0
            if what == "counters":
                _none(what, words)
                _print_counters(record, client)
                return 0
            said = Commands(client).run(line)
    except P4Error as error:
        raise UserError(f"switch {options.switch}: {error}") from None
    if said:
        print(said)
    return 0


def _read(what: str, words: Sequence[str], record: Record, client: Client) -> dict[str, object]:
    """Output of `switch ... --json`. Numbers of keys and parameters are numbers."""
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
        said = commands.run(_line(what, words)) or ""  # it checks the words
        name, _, values = said.partition(" = ")
        return {"register": name, "values": [int(value) for value in values.split(", ") if value]}
    return {"said": commands.run(_line(what, words))}


def _line(what: str, words: Sequence[str]) -> str:
    """The text command (p4engine/docs/commands.md) for the request."""
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
    """Print the counters of the ports; in an experiment, also those of the P4 program."""
    columns = ("packets", "bytes", "queue_drops", "losses", "unmodelled_drops")
    rows = [
        (str(row["port"]), row["direction"], *(_number(row.get(name)) for name in columns))
        for row in client.port_stats()
    ]
    print_columns(("port", "direction", *(name.replace("_", " ") for name in columns)), rows)
    counted = [(counter, job or "", str(value)) for counter, job, value in _counted(record, client)]
    if counted:
        print()
        print_columns(("counter", "job", "value"), counted)


def _counted(record: Record, client: Client) -> list[tuple[str, str | None, int]]:
    """Counters of an experiment's P4 program: counter, job, value; without zeros."""
    file = record.logs.parent / "experiment.yaml" if record.logs else None
    if file is None or not file.exists():
        return []
    from p4fabric.base.config.data_files import read_text

    from testbed import dataplane
    from testbed.experiment import load_text
    from testbed.schemes import platform_of

    experiment = load_text(read_text(file), str(file), file.parent)
    names = {number: job.name for number, job in enumerate(experiment.jobs)}
    return [
        (counter, None if job is None else names.get(job, str(job)), value)
        for job, counter, value in dataplane.counters(platform_of(experiment), client)
        if value
    ]


def _number(value: object) -> str:
    return "-" if value is None else str(value)
