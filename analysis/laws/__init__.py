"""Laws over the tables of a run: what must hold between numbers that were counted independently.

The laws live beside `analysis/data`, above the results store. They import the store (columns,
causes, reader) and, for what summaries say, the functions of `analysis/data`; nothing of
experiments, runtimes or protocols. So any results folder can be held against them on any machine:
`ina verify --laws RUN` does it, and the runner does it after a run where INA_LAWS is set, as in all
tests. Laws of tables need no pandas; those of summaries do, and are left to reports and `verify`.

A law is a small function that compares two sides place by place. It knows no system: where a run
has nothing that it speaks of, it does not apply, and says why.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from p4fabric.netfile import network_laws as network_file
from p4fabric.netfile.law import Held, Verdict, laws_in

from testbed.analysis.laws import jobs, memory, traffic
from testbed.analysis.laws.tables import Tables, of_results

if TYPE_CHECKING:
    from testbed.results import Results


OF_SWITCHES = laws_in(traffic, memory)
OF_TABLES = (*OF_SWITCHES, *laws_in(jobs))
OVER_TIME = ("queues", "throughput")  # tables that are files of their own
DISTURBED = "switches were read while packets passed: one was killed, links failed, or the run did"


def of_tables(repetitions: Iterable[Tables]) -> list[Verdict]:
    """Hold the tables of a run against their laws, each repetition alone."""
    several, found = list(repetitions), []
    finished = all(tables.finished for tables in several)
    for law in OF_TABLES:
        held, disturbed = Held(), False
        for tables in several:
            if law.to_end and not tables.finished:
                continue
            if law in OF_SWITCHES and tables.disturbed:
                disturbed = True
                continue
            before = len(held.violations)
            law.check(tables, held)
            if len(several) > 1:
                new = held.violations[before:]
                held.violations[before:] = [f"repetition {tables.number}, {each}" for each in new]
        verdict = Verdict.of(law, held, finished)
        if verdict.exempt and disturbed:
            verdict = replace(verdict, exempt=DISTURBED)
        found.append(verdict)
    return found


def of_summaries(results: Results) -> list[Verdict]:
    """Hold what reports say of a run against its rows."""
    from testbed.analysis.laws import summaries

    found = []
    for law in laws_in(summaries):
        held = Held()
        if len(results.jobs) and (results.finished or not law.to_end):
            law.check(results, held)
        found.append(Verdict.of(law, held, results.finished))
    return found


def of_run(results: Results) -> list[Verdict]:
    """Hold a results folder against all laws."""
    return [*of_tables(of_results(results)), *of_summaries(results)]


def read_network(folder: Path) -> tuple[dict[str, Any], bool]:
    """The tables of a network file's run, and whether all had drained. Raises ResultsError."""
    from p4fabric.base.config.data_files import DataError, read_json

    from testbed.results import ResultsError

    path = folder / "results.json"
    if not path.exists():
        raise ResultsError(f"{folder}: no results.json: only runs in virtual time have tables")
    try:
        found = read_json(path)
    except DataError as error:
        raise ResultsError(str(error)) from None
    tables = {name: rows for name, rows in found.items() if isinstance(rows, list)}
    for name in OVER_TIME:
        if (folder / f"{name}.csv").exists():
            with (folder / f"{name}.csv").open(encoding="utf-8", newline="") as file:
                tables[name] = [network_file.of_text(row) for row in csv.DictReader(file)]
    return tables, bool(found.get("drained"))
