"""The checks of a network file in virtual time: conditions on what was measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from p4fabric.base import units
from p4fabric.netfile.network_schema import Check
from p4fabric.netfile.virtual_network import Row
from p4fabric.netfile.virtual_plan import given
from p4fabric.netfile.virtual_run import VirtualRun, read
from p4fabric.netfile.virtual_schema import CONDITIONS, condition

COLUMNS: dict[str, tuple[str, Callable[[Any], str]]] = {
    "throughput": ("throughput_bps", units.rate),
    "loss": ("loss", units.share),
    "least": ("min_ns", units.time),
    "mean": ("mean_ns", units.time),
    "p50": ("p50_ns", units.time),
    "p99": ("p99_ns", units.time),
    "most": ("max_ns", units.time),
    "received": ("received", units.number),
    "duplicates": ("duplicates", units.number),
    "late": ("late", units.number),
    "marked": ("marked", units.number),
    "queue": ("queue_max", units.number),
    "drops": ("queue_drops", units.number),
}
"""Of each condition on a flow or port: its column, and how a value is shown."""


@dataclass(frozen=True)
class Outcome:
    """Of one condition. `found`: the value as text."""

    check: int
    what: str
    found: str
    holds: bool


def outcomes(run: VirtualRun, tables: dict[str, list[Row]]) -> list[Outcome]:
    """Of all checks, in the file's order. Raises ControlError for an element that is not there."""
    made = []
    for number, check in enumerate(run.network.plan.checks):
        kind = next(key for key in CONDITIONS if given(check, key))
        for key in CONDITIONS[kind]:
            wanted = condition(check, key)
            if wanted is None:
                continue
            if kind in ("register", "counter"):
                values = [
                    row["octets" if key == "octets" else "value"]
                    for row in read(run.network, check)
                ]
                shown = ", ".join(map(str, values[:8])) + (", ..." if len(values) > 8 else "")
                holds = all(wanted.holds(value) for value in values)
            else:
                row = _row(kind, check, tables)
                column, show = COLUMNS[key]
                shown, holds = show(row[column]), wanted.holds(row[column])
            text = wanted.text if wanted.text[0] in "<>=" else f"== {wanted.text}"
            made.append(Outcome(number, f"{_title(kind, check)}: {key} {text}", shown, holds))
    return made


def _title(kind: str, check: Check) -> str:
    if kind == "flow":
        return f"flow {check.flow}"
    if kind == "port":
        return f"port {check.port}"
    element_of = check.register_ or check.counter
    assert element_of is not None, "a check of another kind has a flow or a port"
    name, first, last = element_of
    element = "" if last is None else f"[{first}]" if first == last else f"[{first}..{last}]"
    return f"{kind} {name}{element} of {check.of}"


def _row(kind: str, check: Check, tables: dict[str, list[Row]]) -> Row:
    """The row that a check of a flow or port is about."""
    if kind == "flow":
        rows = [row for row in tables["flows"] if row["flow"] == check.flow]
        return next((row for row in rows if row["host"] == row["to"]), rows[0])
    switch, _, port = str(check.port).partition("-p")
    rows = tables["ports"]
    return next(
        row
        for row in rows
        if (row["switch"], str(row["port"]), row["direction"]) == (switch, port, "egress")
    )
