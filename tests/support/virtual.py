"""Repetitions in virtual time, and their tables."""

from __future__ import annotations

from testbed.experiment import Experiment
from testbed.run_parts.program import prepare
from testbed.schemes import set_up
from testbed.simulate.virtual_run import run_repetition
from tests.support.laws import hold, hold_loads


def run_virtual(spec: Experiment, repetition: int = 0, threads: int = 1) -> dict:
    """The tables of a repetition, which keep all laws."""
    setup = set_up(spec, repetition)
    tables = hold(run_repetition(setup, prepare(setup).compiled, threads=threads))
    hold_loads(setup, tables)
    return tables


def content(tables):
    """All values of a repetition's tables, for comparison."""

    def plain(column):
        return column.tolist() if hasattr(column, "tolist") else column

    return {
        name: repr({c: plain(v) for c, v in rows.items()} if isinstance(rows, dict) else rows)
        for name, rows in tables.items()
    }
