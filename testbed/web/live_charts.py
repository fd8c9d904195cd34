"""The report's charts of a run that goes on.

What a run says of itself becomes the tables that its results folder will have, as far as they are
known, and the report's own functions make charts of them. Loads of links are those between the last
two looks, not those of the whole run.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from p4fabric.base import units

from testbed.analysis.html import html_page, measure_charts, memory_charts, topology_chart
from testbed.analysis.html import plotly_parts as parts
from testbed.analysis.html.html_page import Chart
from testbed.analysis.html.timeline_chart import timeline
from testbed.dataplane import SnapshotHistory
from testbed.results import Results
from testbed.results.schema import Row
from testbed.run_parts.result_rows import time_tables

# Sections of the page, by their names.
NETWORK, TIME, MEMORY, MEASURES = "network", "time", "memory", "measures"


class LiveCharts:
    """Everything that a repetition has said so far, and the charts that were made of it last."""

    def __init__(self) -> None:
        self.begin([], 0)

    def begin(self, jobs: Sequence[Row], repetition: int) -> None:
        """A repetition begins, and nothing is known of it but its jobs."""
        self._jobs = jobs
        self._repetition = repetition
        self._history = SnapshotHistory()
        self._times: dict[tuple[int, int], dict[str, np.ndarray]] = {}
        self._looked: list[tuple[int, Sequence[Row]]] = []  # time, and links at that time
        self._hosts: Sequence[Row] = []
        self._faults: Sequence[Row] = []
        self._measures: Sequence[Row] = []
        self._elapsed_ns = 0
        self._digests: dict[str, str] = {}

    def add(self, said: dict[str, Any]) -> None:
        """See LivePage.draw."""
        self._elapsed_ns = said["elapsed_ns"]
        for switch, time_ns, taken in said["snapshots"]:
            self._history.add(switch, time_ns, taken)
        for worker in said["times"]:
            self._add_times(worker)
        # In virtual time several looks may be at one moment.
        if said["links"] and (not self._looked or self._looked[-1][0] < self._elapsed_ns):
            self._looked = [*self._looked[-1:], (self._elapsed_ns, said["links"])]
        self._hosts, self._faults = said["hosts"], said["faults"]
        self._measures = said["measures"]

    def _add_times(self, said: Mapping[str, Any]) -> None:
        iterations, tensors = said["shape"]
        key, first = (said["job"], said["worker"]), said["first"]
        if key not in self._times:
            self._times[key] = {
                name: np.full((iterations, tensors)[: values.ndim], -1)
                for name, values in said["times"].items()
            }
        for name, values in said["times"].items():
            self._times[key][name][first : first + len(values)] = values

    @property
    def elapsed_ns(self) -> int:
        """The time of the run that the charts show."""
        return self._elapsed_ns

    def changed(self) -> dict[str, dict[str, Any]]:
        """The charts that are not as they were when this was asked last, by name: Plotly's data and
        layout, and what else the page says of a chart."""
        found = {}
        for section, option, chart in self._charts():
            text = html_page.script_json(chart.spec)
            digest = hashlib.sha256(text.encode()).hexdigest()[:16]
            if self._digests.get(chart.name) == digest:
                continue
            self._digests[chart.name] = digest
            found[chart.name] = {
                **html_page.without_long_legend(chart.spec),
                "section": section,
                "option": option,
                "title": chart.title,
                "text": chart.text,
                "note": chart.note,
                "height": chart.height,
                "digest": digest,
            }
        return found

    def _charts(self) -> list[tuple[str, str, Chart]]:
        """(section, switch, chart): the switch, if it is one's, of which a reader picks one."""
        results = self.results()
        found: list[tuple[str, str, Chart]] = []
        if loads := self._loads(results):
            found.append((NETWORK, "", loads))
        if len(results.iterations):
            found.append((TIME, "", timeline(results)))
        makers: list[Callable[[Results, str], Chart | None]] = [
            *(memory_charts.by_state, memory_charts.by_job, memory_charts.heat_map),
        ]
        if len(results.memory):
            for switch in memory_charts.switches(results):
                for make in makers:
                    if chart := make(results, switch):
                        found.append((MEMORY, switch, chart))
        if len(results.measures):
            found += [(MEASURES, "", chart) for chart in measure_charts.measures(results)]
        parts.align([chart for _, _, chart in found], self._elapsed_ns)
        return found

    def results(self) -> Results:
        """The run so far, as a report reads it."""
        results = Results(
            folder=Path(),
            name="",
            state="running",
            fidelity=None,
            reasons=[],
            error=None,
            started_utc="",
            ended_utc=None,
            experiment={},
            environment={},
        )
        jobs = [
            {"outcome": "finished", "start_ns": 0, "end_ns": self._elapsed_ns, **job}
            for job in self._jobs
        ]
        tables = {
            "jobs": jobs,
            "hosts": self._hosts,
            "faults": self._faults,
            "measures": self._measures,
            **time_tables(self._times.items()),
            **self._history.tables(),
        }
        for name, rows in tables.items():
            self._fill(results, name, rows)
        return results

    def _fill(self, results: Results, name: str, rows: Any) -> None:
        """A table of the known columns: the rest is null, or 0 and "" where it can't be."""
        like = results.table(name)  # without rows, since there is no such folder
        data = {key: _plain(column) for key, column in rows.items()} if _columns(rows) else rows
        frame = pd.DataFrame(data)
        frame["repetition"] = self._repetition
        for column, dtype in like.dtypes.items():
            if column not in frame:
                nullable = isinstance(dtype, pd.api.extensions.ExtensionDtype)
                frame[column] = pd.NA if nullable else dtype.type()
        results._frames[name] = frame[list(like.columns)].astype(dict(like.dtypes))

    def _loads(self, results: Results) -> Chart | None:
        """The topology with the loads between the last two looks."""
        if not self._looked:
            return None
        begin_ns, before = self._looked[0] if len(self._looked) > 1 else (0, [])
        end_ns, now = self._looked[-1]
        key = ("node", "port", "direction")
        counted = {tuple(row[k] for k in key): row["bytes"] for row in before}
        rows = [
            # A switch that was restarted counts from 0 again.
            {**row, "bytes": max(row["bytes"] - counted.get(tuple(row[k] for k in key), 0), 0)}
            for row in now
        ]
        self._fill(results, "links", rows)
        jobs = results.jobs.copy()
        results._frames["jobs"] = jobs.assign(start_ns=begin_ns, end_ns=end_ns)
        chart = topology_chart.topology(results)
        results._frames["jobs"] = jobs
        if chart is None:
            return None
        begin, end = units.time(begin_ns), units.time(end_ns)
        note = f"Load: bytes from {begin} to {end} against the link's"
        return dataclasses.replace(
            chart,
            title="Topology and what its links carry now",
            text="Switches above the hosts that hang on them; a line per link, the thicker, the"
            " larger the share of its rate that it carried lately, in the busier direction.",
            note=f"{note} rate, in the busier direction.",
        )


def _columns(rows: Any) -> bool:
    return isinstance(rows, Mapping)


def _plain(column: Any) -> Any:
    """A column as pandas takes it; masked numbers are null."""
    if isinstance(column, np.ma.MaskedArray):
        return pd.arrays.IntegerArray(column.data, np.ma.getmaskarray(column))
    return column
