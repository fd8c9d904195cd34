"""The page of a sweep: each measure against what was varied, and every point in a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pandas as pd

from testbed.analysis.data import sweep_measures as measures
from testbed.analysis.data.run_summary import interval
from testbed.analysis.data.sweep_data import Sweep
from testbed.analysis.data.sweep_measures import Measure
from testbed.analysis.html import bar_charts
from testbed.analysis.html import html_page as page
from testbed.analysis.html import plotly_parts as parts
from testbed.analysis.html.run_page import FILE
from testbed.analysis.style import plot_style
from testbed.analysis.style.units import UNKNOWN, significant
from testbed.analysis.tables import report_tables as tables
from testbed.results import ResultsError
from testbed.text_table import Column, Table


def write_sweep(sweep: Sweep, frame: pd.DataFrame) -> Path:
    """Writes report.html into the sweep's folder; `frame`: of `sweeps.frame`. Returns the path."""
    return page.write(sweep_page(sweep, frame), sweep.folder / FILE)


def sweep_page(sweep: Sweep, frame: pd.DataFrame) -> page.Page:
    """The page of a sweep, of the points that have finished."""
    if frame.empty:
        raise ResultsError(f"{sweep.folder}: no point has finished")
    sections = [_summary(sweep, frame)]
    frame = measures.with_links(frame)
    shown = [each for each in measures.chosen(sweep) if frame[each.column].notna().any()]
    styles = measures.series_styles(
        list(dict.fromkeys(zip(frame["series"], frame["system"], strict=True)))
    )
    draw = _bars if sweep.axis is None else _lines
    charts = [draw(sweep, frame, each, styles) for each in shown]
    sections.append(page.Section("measures", "Figures", charts))
    sections.append(page.Section("points", "Points", [_points(sweep, frame)]))
    return page.Page(
        title=sweep.name,
        subtitle=f"A sweep over {parts.listed(list(sweep.keys))}, {len(sweep.points)} points",
        sections=sections,
    )


def _summary(sweep: Sweep, frame: pd.DataFrame) -> page.Section:
    done = sum(point.finished for point in sweep.points)
    blocks: list[page.Block] = []
    missing = len(sweep.points) - done
    if missing:
        blocks.append(page.Words(f"{missing} of {len(sweep.points)} points are missing.", "bad"))
    else:
        blocks.append(page.Words(f"All {done} points have finished.", "good"))
    marks = frame.groupby("point")["fidelity"].first()
    degraded = int((marks == "degraded").sum())
    if degraded:
        blocks.append(
            page.Words(f"DEGRADED: {degraded} of {done} points; the table says which.", "bad")
        )
    if bool(frame["exact"].all()):
        checked = f"{int(frame['values_checked'].sum()):,}".replace(",", " ")
        blocks.append(page.Words(f"{checked} aggregated values checked, all right.", "good"))
    else:
        blocks.append(page.Words("WRONG VALUES in at least one point.", "bad"))
    return page.Section("summary", "Summary", blocks)


def _title(sweep: Sweep, measure: Measure) -> str:
    return measure.title.format(against=sweep.figure.against if sweep.figure else "")


def _axis_title(sweep: Sweep) -> str:
    return (sweep.figure.x_label if sweep.figure else "") or str(sweep.axis)


def _lines(
    sweep: Sweep, frame: pd.DataFrame, measure: Measure, styles: Mapping[str, plot_style.PlotStyle]
) -> page.Chart:
    """A measure over the varied number, a line per series: means, with 95 % intervals from three
    repetitions on. A series that knows nothing of the varied key is a dashed line across."""
    scale, unit = measures.unit_of(frame[measure.column], measure.unit)
    places = measures.positions(sweep)
    words = measures.asked(sweep)
    traces = []
    for number, (title, look) in enumerate(styles.items()):
        rows = frame[frame["series"] == title]
        constant = rows[rows["x"].isna()][measure.column].dropna()
        if len(constant):
            traces.append(_across(title, look, constant / scale, sorted(places.values()), unit))
            continue
        xs, means, halves, texts = [], [], [], []
        for x, group in rows.dropna(subset=["x"]).groupby("x"):
            values = (group[measure.column] / scale).dropna()
            if not len(values):
                continue
            mean, half = interval(values)
            xs.append(places[x])
            means.append(mean)
            halves.append(half if len(values) > 2 else float("nan"))
            texts.append(f"{title}, {words[x]}: {significant(mean)} {unit}".strip())
        if not xs:
            continue
        trace: parts.Trace = {
            "type": "scatter",
            "mode": "lines+markers",
            "name": title,
            "x": parts.numbers(xs, 12),
            "y": parts.numbers(means),
            "line": {"color": look.color, "dash": parts.dash(_rank(look)), "width": 2},
            "marker": {"symbol": parts.symbol(look.marker), "size": 9},
            "hovertext": texts,
            "hovertemplate": "%{hovertext}<extra></extra>",
            "legendrank": number,
        }
        if any(half == half for half in halves):
            trace["error_y"] = {
                "type": "data",
                "array": parts.numbers(halves),
                "thickness": 1.2,
            }
        traces.append(trace)
    wide = min(places) > 0 and max(places) >= measures.RANGE * min(places)
    tall = measure.unit == "time" and measures.is_wide(frame, measure.column)
    title = _title(sweep, measure)
    layout = parts.layout(
        xaxis={
            "text": _axis_title(sweep),
            "type": "log" if wide else "linear",
            "tickvals": parts.numbers(places.values(), 12),
            "ticktext": [words[number] for number in places],
        },
        yaxis={
            "text": f"{title} ({unit})" if unit else title,
            "type": "log" if tall else "linear",
            "rangemode": "tozero",
        },
        showlegend=True,
    )
    return page.Chart(
        f"measure-{measure.column}",
        title,
        {"data": traces, "layout": layout},
        f"A line per {_series_words(sweep)} over {_axis_title(sweep)}.",
        "Means over repetitions; bars are 95 % confidence intervals, from three repetitions on.",
        height=380,
    )


def _across(
    title: str, look: plot_style.PlotStyle, values: pd.Series, places: list[float], unit: str
) -> parts.Trace:
    mean = float(values.mean())
    return {
        "type": "scatter",
        "mode": "lines",
        "name": title,
        "x": parts.numbers([places[0], places[-1]], 12),
        "y": parts.numbers([mean, mean]),
        "line": {"color": look.color, "dash": "longdash", "width": 2},
        "hovertemplate": f"{title}: {significant(mean)} {unit}<extra></extra>",
    }


def _rank(look: plot_style.PlotStyle) -> int:
    return plot_style.HATCHES.index(look.hatch)


def _bars(
    sweep: Sweep, frame: pd.DataFrame, measure: Measure, styles: Mapping[str, plot_style.PlotStyle]
) -> page.Chart:
    """A measure as a bar per series, where no number is varied."""
    scale, unit = measures.unit_of(frame[measure.column], measure.unit)
    found = [
        bar_charts.Bars(
            title,
            look.color,
            look.hatch,
            {title: (frame[frame["series"] == title][measure.column] / scale).dropna().tolist()},
        )
        for title, look in styles.items()
    ]
    title = _title(sweep, measure)
    chart = bar_charts.grouped(
        f"measure-{measure.column}",
        title,
        found,
        list(styles),
        f"{title} ({unit})" if unit else title,
        f"A bar per {_series_words(sweep)}.",
        bar_charts.worded(unit),
        horizontal=True,
    )
    for trace in chart.spec["data"]:  # one bar in each place: none needs room beside it
        trace["offsetgroup"] = "0"
    chart.spec["layout"]["showlegend"] = False
    return chart


def _series_words(sweep: Sweep) -> str:
    keys = [key for key in sweep.keys if key != sweep.axis]
    return " and ".join(keys) or "point"


def _points(sweep: Sweep, frame: pd.DataFrame) -> page.TableView:
    """Every point with its folder, to sort and to search."""
    table = tables.sweep(sweep.points, sweep.keys, frame)
    rows = []
    for row, point in zip(table.rows, sweep.points, strict=True):
        folder = point.results.folder.relative_to(sweep.folder) if point.results else UNKNOWN
        rows.append(replace(row, values=[*row.values, str(folder)]))
    columns = [*table.columns, Column("folder", "folder")]
    return page.TableView(
        Table("points", "", columns, rows),
        filtered=True,
        note="`run.py report FOLDER` makes the page of one point.",
    )
