"""Reports of clusters: tables and charts of jobs show the longest ones, and classes of length."""

import io

import pytest
from p4fabric.base.text_table import table_data
from rich.console import Console

from testbed.analysis.data.job_chart_data import iteration_lines
from testbed.analysis.data.run_summary import longest_jobs, summary
from testbed.analysis.html.html_page import without_long_legend
from testbed.analysis.html.run_page import run_page
from testbed.analysis.report import render, run_tables
from testbed.results import read
from tests.support.synthetic_results import write_cluster, write_run

JOBS = 100


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    return read(write_cluster(tmp_path_factory.mktemp("cluster"), JOBS))


@pytest.fixture(scope="module")
def printed(cluster):
    console = Console(file=io.StringIO(), width=150)
    console.print(render(cluster))
    return console.file.getvalue()


def rows(printed: str, title: str) -> list[list[str]]:
    """The words of the lines of a table, below its heading."""
    lines = printed.split(f"\n{title}")[1].split("─ \n", 1)[1].splitlines()
    end = next((place for place, line in enumerate(lines) if not line.strip()), len(lines))
    return [line.split() for line in lines[:end]]


def test_tables_of_jobs_have_the_longest(printed):
    assert "tables of jobs: the 64 with the longest JCTs of 100 jobs (`report --json`" in printed
    shown = [row[0] for row in rows(printed, "Jobs  ") if row[0].startswith("small")]
    assert shown == [f"small-{job}" for job in range(36, JOBS)]


def test_the_average_is_of_all_jobs(printed):
    total = printed.split("\n all ")[1].splitlines()[0].split()
    assert total[-3:] == ["mean", "50.5", "ms"]


def test_classes_of_length_hold_all_jobs(printed):
    # At equal ratios, the range of 1 to 100 ms ends at 4.64 and 21.5 ms.
    assert rows(printed, "Jobs by length") == [
        ["short", "4", "2.50", "ms", "3.97", "ms"],
        ["medium", "17", "13.0", "ms", "20.8", "ms"],
        ["long", "79", "61.0", "ms", "99.2", "ms"],
    ]


def test_events_are_counted_for_all_jobs_together(printed):
    assert ["s1", "completions", "5", "050"] in rows(printed, "Switch events")


def test_data_for_other_programs_has_every_job(cluster):
    found = {
        table.name: table_data(table)["rows"] for table in run_tables(cluster, summary(cluster))
    }
    jobs = [row["name"] for row in found["jobs"] if row["name"] != "all"]
    assert jobs == [f"small-{job}" for job in range(JOBS)]
    (completions,) = found["event-totals"]
    assert completions["job_99"] == 100 and completions["all"] == 5050


def test_charts_have_the_longest_jobs(cluster):
    page = run_page(cluster)
    charts = {chart.name: chart.spec["data"] for chart in page.charts}
    assert len(charts["jct"]) == 64
    lines = iteration_lines(cluster)
    assert [line.job for line in lines.lines] == list(range(36, JOBS))
    workers, servers = (
        next(trace for trace in charts["topology"] if trace.get("name") == f"all jobs: {role}")
        for role in ("workers", "PS")
    )
    assert workers["hovertext"] == ["h4: worker of 100", "h5: worker of 100"]
    assert servers["hovertext"] == ["h6: PS of 100"]
    (switch,) = (trace for trace in charts["topology"] if trace.get("name") == "switch")
    (hover,) = switch["hovertext"]
    assert hover.count("<br>") == 17 and hover.endswith("and 84 more jobs")


def test_legends_name_few_jobs_only(cluster, tmp_path):
    few = {chart.name: chart.spec for chart in run_page(read(write_run(tmp_path))).charts}
    many = {chart.name: chart.spec for chart in run_page(cluster).charts}
    assert without_long_legend(few["iterations"]) is few["iterations"]
    shown = without_long_legend(many["iterations"])["data"]
    assert [trace["showlegend"] for trace in shown] == [False] * len(shown)
    kept = without_long_legend(many["topology"])["data"]
    assert "switch" in {trace["name"] for trace in kept if trace.get("showlegend", True)}


def test_jobs_that_never_ended_come_first(cluster):
    jobs = cluster.jobs.assign(jct_ns=cluster.jobs["jct_ns"].where(cluster.jobs["job"] != 3))
    assert longest_jobs(jobs, 2)["job"].tolist() == [3, 99]


def test_few_jobs_are_all_shown_and_have_no_classes(tmp_path):
    results = read(write_run(tmp_path))
    assert longest_jobs(results.jobs) is results.jobs
    names = [table.name for table in run_tables(results, summary(results), 64)]
    assert "jobs" in names and "lengths" not in names
