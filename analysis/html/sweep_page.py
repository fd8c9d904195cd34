"""The page of a sweep: each measure against what was varied, every point in a table, and the charts
of all points side by side."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pandas as pd
from p4fabric.base.text_table import Column, Table
from p4fabric.base.units import significant

from testbed.analysis.data import explanations
from testbed.analysis.data.map_data import maps
from testbed.analysis.data.robust_data import Verdict, verdicts
from testbed.analysis.data.sweep_chart_data import Axis, Line, SweepPanel, panels
from testbed.analysis.data.sweep_data import Point, Sweep
from testbed.analysis.html import html_page as page
from testbed.analysis.html import plotly_parts as parts
from testbed.analysis.html import small_multiples
from testbed.analysis.html.bar_charts import bar_chart
from testbed.analysis.html.run_page import FILE
from testbed.analysis.style.key_words import words
from testbed.analysis.tables import report_tables as tables
from testbed.analysis.tables import verdict_tables
from testbed.paths import command_line
from testbed.results import ResultsError

HOLDS, FLIPS = "#0072B2", "#D55E00"  # colours of ratios


def write_sweep(sweep: Sweep, frame: pd.DataFrame) -> Path:
    """Writes report.html into the sweep's folder; `frame`: of `sweeps.frame`. Returns the path."""
    return page.write(sweep_page(sweep, frame), sweep.folder / FILE)


def sweep_page(sweep: Sweep, frame: pd.DataFrame) -> page.Page:
    """The page of a sweep, of the points that have finished."""
    if frame.empty:
        raise ResultsError(f"{sweep.folder}: no point has finished")
    sections = [_summary(sweep, frame)]
    if sweep.figure is not None and sweep.figure.rows:
        cells = page.TableView(tables.map_cells(maps(sweep, frame)), filtered=True)
        sections.append(page.Section("map", cells.table.title, [cells]))
    else:
        charts = [_chart(sweep, panel) for panel in panels(sweep, frame)]
        figures = [page.Multiples("measures", charts, width=480)]
        sections.append(page.Section("measures", "Figures", figures))
    if robust := verdict_tables.robust(sweep):
        ranges = [_ranges(n, each) for n, each in enumerate(verdicts(sweep))]
        blocks: list[page.Block] = [page.Multiples("ranges", ranges, width=480)]
        sections.append(page.Section("robust", robust.title, [*blocks, page.TableView(robust)]))
    sections.append(page.Section("points", "Points", [_points(sweep, frame)]))
    finished = [
        (point, point.title(), _page_of(sweep, point)) for point in sweep.points if point.finished
    ]
    sections += small_multiples.sections(finished)
    return page.Page(
        title=sweep.name,
        subtitle=f"A sweep over {parts.listed([words(key) for key in sweep.keys])},"
        f" {len(sweep.points)} points",
        sections=sections,
        wide=True,
    )


def _summary(sweep: Sweep, frame: pd.DataFrame) -> page.Section:
    done = sum(point.finished for point in sweep.points)
    blocks: list[page.Block] = [page.Paragraph(text) for text in explanations.of_sweep(sweep)]
    blocks += [page.Paragraph(verdict.sentence) for verdict in verdicts(sweep)]
    missing = len(sweep.points) - done
    if missing:
        blocks.append(
            page.Paragraph(f"{missing} of {len(sweep.points)} points are missing.", "bad")
        )
    else:
        blocks.append(page.Paragraph(f"All {done} points have finished.", "good"))
    marks = frame.groupby("point")["fidelity"].first()
    degraded = int((marks == "degraded").sum())
    if degraded:
        blocks.append(
            page.Paragraph(
                f"DEGRADED: {degraded} of {done} points; the table has the reasons.", "bad"
            )
        )
    if bool(frame["exact"].all()):
        blocks.append(page.Paragraph(f"{tables.exactness(frame)}.", "good"))
    else:
        blocks.append(page.Paragraph("WRONG VALUES in at least one point.", "bad"))
    return page.Section("summary", "Summary", blocks)


def _chart(sweep: Sweep, panel: SweepPanel) -> page.Chart:
    """A measure over the varied number, or as a bar per series where none is varied."""
    name = f"measure-{panel.column}"
    keys = " and ".join(words(key) for key in sweep.keys if key != sweep.axis) or "point"
    if panel.bars is not None:
        return bar_chart(name, panel.title, panel.bars, f"A bar per {keys}.", single=True)
    axis = panel.axis
    assert axis is not None, "a panel has bars or an axis"
    traces = [
        _line(rank, line, axis, panel.unit)
        for rank, line in enumerate(panel.lines)
        if line.constant is not None or np.isfinite(line.means).any()
    ]
    layout = parts.layout(
        xaxis={
            "text": axis.label,
            "type": "log" if axis.logarithmic else "linear",
            "tickvals": parts.numbers(list(axis.ticks), 12),
            "ticktext": list(axis.ticks.values()),
        },
        yaxis={
            "text": panel.label,
            "type": "log" if panel.logarithmic else "linear",
            "rangemode": "tozero",
        },
        showlegend=True,
    )
    return page.Chart(
        name,
        panel.title,
        {"data": traces, "layout": layout},
        f"{'Points' if axis.named else 'A line'} per {keys} over {axis.label}.",
        "Means over repetitions; bars are 95 % confidence intervals, from three repetitions on.",
        height=380,
    )


def _line(rank: int, line: Line, axis: Axis, unit: str) -> parts.Trace:
    """A series: means, with 95 % intervals from three repetitions on. A series that knows nothing
    of the varied key is a dashed line across."""
    title, color = line.style.title, line.style.color
    if line.constant is not None:
        return {
            "type": "scatter",
            "mode": "lines",
            "name": title,
            "x": parts.numbers([min(axis.ticks), max(axis.ticks)], 12),
            "y": parts.numbers([line.constant] * 2),
            "line": {"color": color, "dash": "longdash", "width": 2},
            "hovertemplate": f"{title}: {significant(line.constant)} {unit}<extra></extra>",
        }
    known = np.isfinite(line.means)
    halves = line.half_widths[known]
    trace: parts.Trace = {
        "type": "scatter",
        "mode": "markers" if axis.named else "lines+markers",
        "name": title,
        "x": parts.numbers(line.x[known], 12),
        "y": parts.numbers(line.means[known]),
        "line": {"color": color, "dash": parts.dash(line.style.line), "width": 2},
        "marker": {"symbol": parts.symbol(line.style.marker), "size": 9},
        "hovertext": [
            f"{title}, {words}: {significant(mean)} {unit}".strip()
            for words, mean in zip(line.words, line.means, strict=True)
            if np.isfinite(mean)
        ],
        "hovertemplate": "%{hovertext}<extra></extra>",
        "legendrank": rank,
    }
    if np.isfinite(halves).any():
        trace["error_y"] = {"type": "data", "array": parts.numbers(halves), "thickness": 1.2}
    return trace


def _ranges(number: int, verdict: Verdict) -> page.Chart:
    """The dependence of a verdict: a row for each factor with the ratios that its values give, the
    range between them, and a line at 1. number: of the chart on the page."""
    traces: list[parts.Trace] = []
    for factor, found in verdict.ratios.items():
        ratios = [each.ratio for each in found]
        ends = [min(*ratios, verdict.base), max(*ratios, verdict.base)]
        own: parts.Trace = {"type": "scatter", "name": factor}
        where = {"y": [factor] * 2, "x": parts.numbers(ends), "hoverinfo": "skip"}
        line = {"color": "#888", "width": 6}
        traces.append({**own, "mode": "lines", "line": line, **where})
        traces.append(
            {
                **own,
                "mode": "markers",
                "y": [factor] * len(found),
                "x": parts.numbers(ratios),
                "marker": {"size": 9, "color": [FLIPS if e.flips else HOLDS for e in found]},
                "hovertext": [f"{factor} {e.run.text}: {e.ratio:.2f}x" for e in found],
                "hovertemplate": "%{hovertext}<extra></extra>",
            }
        )
    factors = [*verdict.ratios]
    for at, dash, name in ((1.0, "solid", "1"), (verdict.base, "dash", "nothing changed")):
        rows = [factors[0], factors[-1]] if factors else []
        across: parts.Trace = {"type": "scatter", "mode": "lines", "name": name, "y": rows}
        style = {"color": "#444", "dash": dash, "width": 1.5}
        traces.append({**across, "x": [at] * len(rows), "line": style, "hoverinfo": "name"})
    layout = parts.layout(
        showlegend=False,
        xaxis={"text": f"JCT of {verdict.slower} / JCT of {verdict.faster}"},
        yaxis={"categoryorder": "array", "categoryarray": factors, "autorange": "reversed"},
    )
    text = f"A row per factor: the range of the ratio of JCTs, with a line at 1. {verdict.sentence}"
    height = 150 + 30 * len(factors)
    spec = {"data": traces, "layout": layout}
    return page.Chart(f"robust-{number}", verdict.title, spec, text, verdict.sentence, height)


def _page_of(sweep: Sweep, point: Point) -> str:
    """The path of the point's page, or of its report in plain text, relative to the sweep's folder;
    "": nowhere."""
    if point.results is None:
        return ""
    folder = point.results.folder.relative_to(sweep.folder)
    there = (name for name in (FILE, "report.txt") if (sweep.folder / folder / name).exists())
    name = next(there, "")
    return f"{quote(str(folder))}/{name}" if name else ""


def _points(sweep: Sweep, frame: pd.DataFrame) -> page.TableView:
    """Every point, to sort and to search; its hash, the name of its folder, leads to its page, or
    to its report in plain text."""
    table = tables.sweep(sweep.points, sweep.keys, frame)
    rows, links = [], {}
    for row, point in zip(table.rows, sweep.points, strict=True):
        rows.append(replace(row, values=[*row.values, point.key]))
        if place := _page_of(sweep, point):
            links[point.key] = place
    columns = [*table.columns, Column("hash", "hash")]
    return page.TableView(
        Table("points", "", columns, rows),
        filtered=True,
        note=f"`{command_line('report SWEEP/HASH')}` creates the page of one point;"
        f" `{command_line('report SWEEP')}` then links to it.",
        links=links,
    )
