"""Tables of jobs that serve a model: times of their requests, and checks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from p4fabric.base import units
from p4fabric.base.text_table import Column, Row, Table

from testbed.analysis.data import serving_data
from testbed.analysis.data.run_summary import job_names

if TYPE_CHECKING:
    from testbed.results import Results

REQUESTS = (
    Column("job", "job", words=True),
    Column("requests", "requests", units.number, "count"),
    Column("ttft_p50_ns", "median", units.time, "ns", group="TTFT"),
    Column("ttft_p99_ns", "p99", units.time, "ns", group="TTFT"),
    Column("tpot_p50_ns", "median", units.time, "ns", group="TPOT"),
    Column("tpot_p99_ns", "p99", units.time, "ns", group="TPOT"),
    Column("tokens_per_s", "tokens / s", units.number, "count"),
    Column("network_share", "network", units.share, "share"),
)
CHECKS = (
    Column("job", "job", words=True),
    Column("check", "check", words=True),
    Column("found", "found", words=True),
    Column("holds", "holds", lambda value: "yes" if value else "NO"),
)


def requests(results: Results) -> Table:
    """A row per job that serves a model, over all repetitions."""
    names, rows = job_names(results.jobs), []
    for job, group in results.requests.groupby("job"):
        found = serving_data.measured(group)
        values = [found[column.key] for column in REQUESTS[2:]]
        rows.append(Row([names[job], len(group), *values]))
    return Table("requests", "Requests", REQUESTS, rows)


def checks(results: Results) -> Table:
    """A row per check of such a job."""
    found = serving_data.outcomes(results)
    rows = [Row([each.job, each.check, each.found, each.holds]) for each in found]
    return Table("checks", "Checks", CHECKS, rows)


def of_run(results: Results) -> list[Table]:
    """Both, if they have rows."""
    if not len(results.requests):
        return []
    return [table for table in (requests(results), checks(results)) if table.rows]
