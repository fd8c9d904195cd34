"""Figures of a run in virtual time, and a page that shows them with the tables."""

from __future__ import annotations

import html
from pathlib import Path
from typing import TYPE_CHECKING, Any

from testbed.analysis.style import plot_style, units
from testbed.netfile.virtual_checks import Outcome
from testbed.netfile.virtual_results import printed, save
from testbed.text_table import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from testbed.netfile.virtual_run import VirtualRun

Rows = list[dict[str, Any]]
MOST_LINES = 8  # in a figure; those with the most
HEAD = """<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>
<style>body{{font:15px sans-serif;max-width:60em;margin:2em auto;padding:0 1em}}
table{{border-collapse:collapse;margin:1em 0}}td,th{{padding:.2em .7em;text-align:right}}
th{{border-bottom:1px solid #999}}td:first-child,th:first-child{{text-align:left}}
img{{max-width:100%}}</style><h1>{title}</h1>
"""


def write_report(
    folder: Path, run: VirtualRun, tables: dict[str, Rows], outcomes: list[Outcome]
) -> None:
    """Draw queues and throughput over time, and write report.html. Raises OSError."""
    import matplotlib

    from testbed.analysis.figures.figure_files import save as save_figure

    pictures = []
    with matplotlib.rc_context(plot_style.RC):
        drawn = {"queues": _queues(run), "throughput": _throughput(tables["throughput"])}
        for name, figure in drawn.items():
            if figure is not None:
                pictures.append(save_figure(figure, folder / f"{name}.png")[0].name)
    title = html.escape(run.network.plan.name)
    parts = [HEAD.format(title=title)]
    if outcomes:
        items = "".join(
            f"<li>{'ok' if each.holds else '<b>FAILED</b>'}: {html.escape(each.what)}"
            f" (found {html.escape(each.found)})</li>"
            for each in outcomes
        )
        parts.append(f"<ul>{items}</ul>")
    parts += [_table(table) for table in printed(run, tables)]
    parts += [f'<p><img src="{name}" alt="{name[:-4]} over time"></p>' for name in pictures]
    save(folder / "report.html", "\n".join(parts) + "\n")


def _table(table: Table) -> str:
    head = "".join(f"<th>{html.escape(each.heading)}</th>" for each in table.columns)
    rows = [
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in table.cells(row)) + "</tr>"
        for row in table.rows
    ]
    title = html.escape(table.title)
    return f"<h2>{title}</h2><table><tr>{head}</tr>{''.join(rows)}</table>"


def _queues(run: VirtualRun) -> Figure | None:
    """Packets that wait, of the fullest ports."""
    looks = run.looks
    found = {key: depths for key, depths in looks.queues.items() if any(depths)}
    chosen = sorted(found, key=lambda key: (-sum(found[key]), key))[:MOST_LINES]
    series = {}
    for switch, port, direction in chosen:
        ahead = "" if direction == "egress" else "to "
        series[f"{ahead}{switch}-p{port}"] = found[switch, port, direction]
    return _lines(looks.times_ns, series, "packets in the queue") if series else None


def _throughput(rows: Rows) -> Figure | None:
    """What arrives, of the fastest flows."""
    found: dict[str, list[float]] = {}
    times: dict[int, None] = {}
    for row in rows:
        found.setdefault(row["flow"], []).append(row["throughput_bps"] / 1e9)
        times[row["time_ns"]] = None
    chosen = sorted(found, key=lambda name: (-sum(found[name]), name))[:MOST_LINES]
    series = {name: found[name] for name in chosen}
    return _lines(list(times), series, "throughput, Gbit/s") if series else None


def _lines(times_ns: list[int], series: dict[str, list[Any]], label: str) -> Figure:
    from testbed.analysis.figures.figure_files import new_figure

    figure = new_figure(plot_style.PAGE, 2.6)
    axes = figure.subplots()
    scale, unit = units.time_unit(times_ns[-1])
    for number, (name, values) in enumerate(series.items()):
        color = plot_style.JOB_COLORS[number % len(plot_style.JOB_COLORS)]
        axes.plot([each / scale for each in times_ns], values, color=color, label=name, lw=0.8)
    axes.set_xlabel(f"time, {unit}")
    axes.set_ylabel(label)
    axes.set_ylim(bottom=0)
    axes.legend(loc="upper right")
    return figure
