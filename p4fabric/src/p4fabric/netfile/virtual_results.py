"""Results of a network file's run in virtual time: a folder of tables, and printed text.

The folder has `network.yaml` (the file), a CSV file for each table, `results.json` with all of them
but those over time, `captures/`, and, unless it is not wanted, figures and a page. Nothing in it
depends on the machine or the clock, so two runs of the same file give the same bytes.
"""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

from p4fabric.base import units
from p4fabric.base.config.input_files import as_records, declared
from p4fabric.base.errors import UserError
from p4fabric.base.linux.whole_files import write_whole
from p4fabric.base.text_table import Column, Row, Table
from p4fabric.netfile.load_network import NetworkPlan
from p4fabric.netfile.run_folder import RESULTS
from p4fabric.netfile.virtual_checks import Outcome
from p4fabric.netfile.virtual_run import VirtualRun
from p4fabric.netfile.virtual_tables import Rows

OVER_TIME = ("queues", "throughput")
PRINTED_FLOWS = 40  # rows; all are in the folder


def write(folder: Path, data: dict[str, Any], tables: dict[str, Rows]) -> None:
    """Write `data` as results.json, and the tables that have rows as CSV. Raises UserError."""
    try:
        write_whole(folder / RESULTS, json.dumps(data, indent=1, ensure_ascii=False) + "\n")
        for name, rows in tables.items():
            if rows:
                write_whole(folder / f"{name}.csv", as_csv(rows))
    except OSError as error:
        raise UserError(f"{folder} can't be written: {error.strerror}") from None


def inputs_of(plan: NetworkPlan) -> list[dict[str, str]]:
    """Inputs of a network, as environment.json of an experiment's run has them."""
    sources = declared(plan.file, plan.folder)
    return as_records(sorted({each for source in sources for each in source.inputs()}))


def as_csv(rows: Rows) -> str:
    """The rows of a table as CSV; what is not known is empty."""
    made = io.StringIO()
    writer = csv.DictWriter(made, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return made.getvalue()


def as_json(run: VirtualRun, tables: dict[str, Rows], outcomes: list[Outcome]) -> dict[str, object]:
    """Content of `--json` and results.json: all tables but those over time."""
    network = run.network
    return {
        "name": network.plan.name,
        "duration_ns": network.plan.file.virtual.duration_ns,
        "end_ns": run.end_ns,
        "events": network.nodes.events,
        "seed": network.plan.file.virtual.seed,
        "drained": run.drained,
        "inputs": inputs_of(network.plan),
        "checks": [
            {"check": each.check, "what": each.what, "found": each.found, "holds": each.holds}
            for each in outcomes
        ],
        **{name: rows for name, rows in tables.items() if name not in OVER_TIME},
        "classes": {name: host.results() for name, host in network.classes.items()},
    }


# -- printed


def printed(run: VirtualRun, tables: dict[str, Rows]) -> list[Table]:
    """The tables that are printed: flows, ports, and drops if there are any."""
    made = []
    if tables["flows"]:
        made.append(_flows(tables["flows"]))
    made.append(_ports(tables["ports"]))
    if tables["drops"]:
        made.append(_drops(tables["drops"]))
    return made


def _flows(rows: Rows) -> Table:
    columns = [
        Column("flow", "flow", words=True),
        Column("sent", "sent", units.number),
        Column("received", "received", units.number),
        Column("loss", "loss", units.share),
        Column("throughput_bps", "throughput", units.rate),
        Column("mean_ns", "mean", units.time, group="latency"),
        Column("p99_ns", "p99", units.time, group="latency"),
        Column("max_ns", "most", units.time, group="latency"),
    ]
    keys = [column.key for column in columns[1:]]
    listed = [Row([_title(row), *[row[key] for key in keys]]) for row in rows[:PRINTED_FLOWS]]
    more = f" (the first {PRINTED_FLOWS} of {len(rows)})" if len(rows) > PRINTED_FLOWS else ""
    return Table("flows", f"Flows{more}", columns, listed)


def _title(row: dict[str, Any]) -> str:
    if row["what"] == "answers":
        return f"{row['flow']} (answers)"
    return row["flow"] if row["host"] == row["to"] else f"{row['flow']} at {row['host'] or '?'}"


def _ports(rows: Rows) -> Table:
    columns = [
        Column("port", "port", words=True),
        Column("to", "to", words=True),
        Column("packets", "packets", units.number),
        Column("busy", "busy", units.share),
        Column("queue_mean", "mean", units.number, group="queue"),
        Column("queue_max", "most", units.number, group="queue"),
        Column("drops", "drops", units.number),
    ]
    listed = [
        Row(
            [
                f"{row['switch']}-p{row['port']}",
                row["neighbour"] if row["direction"] == "egress" else f"from {row['neighbour']}",
                row["packets"],
                row["busy"],
                row["queue_mean"],
                row["queue_max"],
                row["queue_drops"] + row["losses"] + row["down_drops"],
            ]
        )
        for row in rows
        if row["packets"] or row["queue_drops"] or row["down_drops"]
    ]
    return Table("ports", "Ports, and the links that they send to", columns, listed)


def _drops(rows: Rows) -> Table:
    columns = [
        Column("where", "where", words=True),
        Column("cause", "packets dropped because", words=True),
        Column("packets", "packets", units.number),
    ]
    listed = [
        Row(
            [
                row["switch"] if row["port"] is None else f"{row['switch']}-p{row['port']}",
                row["cause"],
                row["packets"],
            ]
        )
        for row in rows
    ]
    return Table("drops", "Drops", columns, listed)
