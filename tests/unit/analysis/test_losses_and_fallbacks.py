"""What is lost and who is carried by hosts, wherever a reader looks first."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from rich.console import Console

from testbed.analysis import report
from testbed.analysis.data import explanations, loss_data
from testbed.analysis.data.run_summary import summary
from testbed.analysis.data.sweep_chart_data import panels
from testbed.analysis.data.sweep_data import frame, read_sweep
from testbed.analysis.html import html_page
from testbed.analysis.html.run_page import run_page
from testbed.analysis.style.plot_style import plot_styles
from testbed.analysis.tables import report_tables
from testbed.results import Results, read
from testbed.results.digest import digest
from tests.support.synthetic_results import (
    tables,
    write_run,
    write_sweep,
    write_tables,
)

WHO = "switchml"


def write(parent: Path, change: Callable[[dict], None], name: str = "run") -> Results:
    found = tables(WHO)
    change(found)
    return write_tables(parent, found, name=name, text=f"name: {name}\nsystem: {WHO}\n")


def lossy(found: dict) -> None:
    """Full queues at one link, losses at two, and 200 retransmissions."""
    egress = [row for row in found["links"] if row["direction"] == "egress"]
    egress[0] |= {"queue_drops": 55_577, "marks": 7}
    egress[1] |= {"losses": 30, "marks": 0}
    egress[2] |= {"losses": 10, "marks": 0}

    def lost(link: dict, cause: str, job: int | None, packets: int) -> dict:
        place = {"switch": link["node"], "port": link["port"], "direction": "egress"}
        return {**place, "cause": cause, "job": job, "packets": packets}

    found["losses"] = [
        lost(egress[0], "queue_full", 0, 55_000),
        lost(egress[0], "queue_full", None, 577),
        lost(egress[1], "lost", 0, 30),
        lost(egress[2], "lost", 1, 10),
    ]
    found["jobs"][0] |= {"retransmissions": 40, "marked_results": 5}
    found["jobs"][1] |= {"retransmissions": 20}
    found["resent"] = [
        {"job": 0, "cause": "queue_full", "packets": 24},
        {"job": 0, "cause": "lost", "packets": 12},
        {"job": 0, "cause": "no_loss", "packets": 4},
        {"job": 1, "cause": "lost", "packets": 5},
        {"job": 1, "cause": "unknown", "packets": 15},
    ]


def refused(found: dict) -> None:
    found["jobs"][1] |= {"fallback": "ring", "refused": "s1 is held by big"}


def printed(results: Results) -> str:
    console = Console(file=io.StringIO(), width=110)
    console.print(report.brief(results, summary(results)))
    return console.file.getvalue()


def test_losses_are_on_the_first_screen_and_add_up(tmp_path):
    results = write(tmp_path, lossy)
    frames = explanations.frames_of(results)
    said = explanations.of_run(frames)
    assert said[-3:] == [
        "55 577 packets were dropped by full queues at s1 to h1; 40.0 % of what SwitchML resends"
        " follows from them.",
        "40 packets were lost on links at s1 to h2 (75.0 %) and 1 other link; 28.3 % of what"
        " SwitchML resends follows from them.",
        "Of what SwitchML resends, 6.7 % follows from no loss of a packet of its fragment and"
        " 25.0 % follows from what is not known.",
    ]
    screen = printed(results)
    assert all(sentence[:60] in screen for sentence in said[-3:])
    assert "s1 to h2" in screen and "other traffic" in screen
    page = html_page.render(run_page(results))
    assert said[-3] in page and "Lost, marked and sent again" in page
    assert [table.name for table in report.run_tables(results, frames)].count("lost-by-link") == 1


def test_what_was_not_measured_is_not_none_lost(tmp_path):
    """As on BMv2, where nobody can tell what queues drop."""

    def blind(found: dict) -> None:
        lossy(found)
        for row in found["links"]:
            row |= dict.fromkeys(("queue_drops", "losses", "unmodelled_drops", "marks"))
        found |= {"losses": [], "resent": []}

    frames = explanations.frames_of(write(tmp_path, blind))
    assert frames["run"]["lost_packets"].isna().all() and frames["lost_by_link"].empty
    jobs = frames["lost_by_job"]
    assert (
        jobs[[name for name in jobs if name.startswith(("lost_", "after_"))]].isna().all(axis=None)
    )
    assert explanations.of_run(frames)[-1] == "What retransmissions follow from was not measured."


def test_a_run_without_any_has_no_table_and_keeps_its_hash(tmp_path):
    plain = read(write_run(tmp_path, system=WHO))
    assert not report_tables.lost_by_link(summary(plain)).rows
    assert "Lost" not in printed(plain)

    def new_columns(found: dict) -> None:
        for row in found["links"]:
            row["marks"] = 0
        for row in found["jobs"]:
            row["marked_results"] = 0
        found["switch_counters"].append({"switch": "s1", "job": 0, "counter": "sums", "value": 12})

    assert digest(write(tmp_path, new_columns)) == digest(plain)


def test_who_is_carried_by_hosts_is_named_with_the_reason(tmp_path):
    results = write(tmp_path, refused)
    frames = summary(results)
    screen = printed(results)
    assert "small: ring, because s1 is held by big." in screen
    assert "no switch memory" not in screen
    (column,) = [each for each in report_tables.jobs(frames).columns if each.key == "fallback"]
    table = report_tables.jobs(frames)
    place = table.columns.index(column)
    assert [row.values[place] for row in table.rows] == [WHO, "ring", ""]
    page = html_page.render(run_page(results))
    assert "small: ring, because s1 is held by big." in page and "small (ring)" in page
    plain = read(write_run(tmp_path, system="esa"))
    titles = [style.title for style in plot_styles([results, plain])]
    assert titles == ["SwitchML, ring for small", "ESA"]
    both = report_tables.comparison(
        [results, plain], [frames, summary(plain)], plot_styles([plain] * 2)
    )
    assert ["carried by hosts", "ring for small", "none"] in [list(row.values) for row in both.rows]


def test_a_sweep_names_them_in_its_table_and_legend_and_counts_what_was_lost(tmp_path):
    sweep = read_sweep(write_sweep(tmp_path))
    found = frame(sweep)
    plain = report_tables.sweep(sweep.points, sweep.keys, found)
    assert not {"fallbacks", "lost_packets"} & {column.key for column in plain.columns}
    series = found["series"].iloc[0]
    chosen = found["series"] == series
    found.loc[chosen, "fallbacks"] = "ring for small"
    found.loc[chosen, "lost_packets"] = 12.0
    table = report_tables.sweep(sweep.points, sweep.keys, found)
    assert {"fallbacks", "lost_packets"} < {column.key for column in table.columns}
    legend = [title for panel in panels(sweep, found) for title in panel.names]
    assert f"{series}, ring for small" in legend and series not in legend


@pytest.mark.parametrize("count, said", [(1, "ring for j0"), (2, "ring for j0 and j1")])
def test_few_are_named_and_many_are_counted(count, said):
    from testbed.analysis.data.run_summary import fallback_notes

    def jobs(refused: int) -> pd.DataFrame:
        names = [f"j{number}" for number in range(5)]
        by = ["ring" if number < refused else None for number in range(5)]
        return pd.DataFrame({"job": range(5), "name": names, "fallback": by})

    assert fallback_notes(jobs(count)) == said
    assert fallback_notes(jobs(4)) == "ring for 4 of 5 jobs"
    assert fallback_notes(jobs(0)) == ""
    assert loss_data.OTHERS < 0  # no job's number
