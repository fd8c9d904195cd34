"""The page of several runs side by side: what differs in their experiments and in what came out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from testbed.analysis.data.run_summary import summary
from testbed.analysis.html import bar_charts
from testbed.analysis.html import html_page as page
from testbed.analysis.html import plotly_parts as parts
from testbed.analysis.html.run_page import FILE, listing, state
from testbed.analysis.style import units
from testbed.analysis.style.plot_style import (
    FILLING,
    FREE,
    HELD,
    PARTIAL,
    PlotStyle,
    leaves,
    plot_styles,
)
from testbed.analysis.tables import report_tables as tables

if TYPE_CHECKING:
    from testbed.results import Results

JOBS = 32  # that get bars of their own
# Of aggregator-time, as in the printed tables: columns of frame run, title, colour, hatch.
STATES = (
    (("filling_completed_share",), "filling, completed", FILLING, ""),
    (("filling_evicted_share",), "filling, evicted", PARTIAL, "xxx"),
    (("filling_pulled_share",), "filling, pulled", PARTIAL, "..."),
    (
        ("filling_discarded_share", "filling_open_share"),
        "filling, discarded or open",
        PARTIAL,
        "",
    ),
    (("held_share",), "held", HELD, "///"),
    (("free_share",), "free", FREE, ""),
)


def write_comparison(runs: Sequence[Results], folder: Path) -> Path:
    """Writes report.html of several runs into `folder`; returns the path."""
    return page.write(comparison_page(runs), folder / FILE)


def comparison_page(runs: Sequence[Results]) -> page.Page:
    """The page of at least two runs; those that have not finished are named and not drawn."""
    frames = [summary(results) for results in runs]
    styles = plot_styles(runs)
    finished = [
        (frame, look)
        for results, frame, look in zip(runs, frames, styles, strict=True)
        if results.finished
    ]
    blocks: list[page.Block] = []
    for results, look in zip(runs, styles, strict=True):
        (words,) = state(results)
        blocks.append(page.Words(f"{look.title}: {words.text}", words.tone))
    blocks.append(page.TableView(tables.comparison(runs, frames, styles)))
    sections = [page.Section("summary", "Comparison", blocks)]
    if finished:
        sections.append(
            page.Section("jobs", "Jobs", [completion_times(*zip(*finished, strict=True))])
        )
        charts = [chart for chart in (_memory(finished), _ps_packets(finished)) if chart]
        if charts:
            sections.append(page.Section("switches", "Switches and servers", charts))
    sections.append(_differences(runs, styles))
    sections += [
        page.Section(
            f"experiment-{number}", f"Experiment of {look.title}", [_experiment(run)], folded=True
        )
        for number, (run, look) in enumerate(zip(runs, styles, strict=True))
    ]
    return page.Page(
        title=" and ".join(look.title for look in styles) if len(styles) < 4 else "Comparison",
        subtitle=f"{len(runs)} runs: {parts.listed([run.folder.name for run in runs])}",
        sections=sections,
    )


def completion_times(
    frames: Sequence[Mapping[str, pd.DataFrame]], styles: Sequence[PlotStyle]
) -> page.Chart:
    """JCT per job and on average (per model, where there are too many jobs); bars per run."""
    by = "name"
    names = list(dict.fromkeys(name for frame in frames for name in frame["jobs"][by]))
    if len(names) > JOBS:
        by = "model"
        names = list(dict.fromkeys(name for frame in frames for name in frame["jobs"][by]))
    longest = max(float(frame["jobs"]["jct_ns"].max()) for frame in frames)
    scale, unit = units.time_unit(longest)
    found = []
    for frame, look in zip(frames, styles, strict=True):
        jobs = frame["jobs"]
        samples = {name: _means(jobs[jobs[by] == name], scale) for name in names}
        if len(names) > 1:
            samples["average"] = _means(jobs, scale)
        found.append(bar_charts.Bars(look.title, look.color, look.hatch, samples))
    groups = [*names, "average"] if len(names) > 1 else names
    return bar_charts.grouped(
        "jct",
        "Job completion time",
        found,
        groups,
        f"JCT ({unit})",
        "Bars per job, one for each run: the time from its start to the end of its last iteration.",
        bar_charts.worded(unit),
        horizontal=True,
        note="Jobs of one model together." if by == "model" else "",
    )


def _means(jobs: pd.DataFrame, scale: float) -> list[float]:
    """Mean JCT of some jobs, per repetition."""
    return (jobs.groupby("repetition")["jct_ns"].mean() / scale).tolist()


def _memory(runs: Sequence[tuple[Mapping[str, pd.DataFrame], PlotStyle]]) -> page.Chart | None:
    """Shares of aggregator-time, a stacked bar per run; None where none has switch memory."""
    known = [(frame["run"], look) for frame, look in runs if len(frame["switches"])]
    if not known:
        return None
    traces = []
    for columns, title, color, hatch in STATES:
        shares = [100 * float(run[list(columns)].fillna(0).sum(axis=1).mean()) for run, _ in known]
        if not any(shares):
            continue
        traces.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": title,
                "y": [look.title for _, look in known],
                "x": parts.numbers(shares),
                "marker": parts.bar_marker(color, hatch)
                | {"line": {"color": "#888", "width": 0.5}},
                "hovertemplate": f"%{{y}}: {title} %{{x:.1f}} %<extra></extra>",
            }
        )
    layout = parts.layout(
        barmode="stack",
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "traceorder": "normal"},
        xaxis={"text": "aggregator-time (%)", "range": [0, 100]},
        yaxis={"autorange": "reversed", "showgrid": False},
    )
    return page.Chart(
        "memory",
        "Switch memory",
        {"data": traces, "layout": layout},
        "A bar per run: the shares of aggregator-time filling (by how it ended), held and free.",
        "Mean over aggregators and repetitions, from the switches' own accumulators.",
        height=150 + 36 * len(known),
    )


def _ps_packets(
    runs: Sequence[tuple[Mapping[str, pd.DataFrame], PlotStyle]],
) -> page.Chart | None:
    found = []
    for frame, look in runs:
        values = frame["run"]["ps_packets_per_fragment"].dropna().tolist()
        if values:
            found.append(bar_charts.Bars(look.title, look.color, look.hatch, {look.title: values}))
    if not found:
        return None
    chart = bar_charts.grouped(
        "ps-packets",
        "PS packets per fragment",
        found,
        [each.title for each in found],
        "packets / fragment",
        "A bar per run: 1 means that every sum was completed in the switch.",
        units.ratio,
        horizontal=True,
    )
    for trace in chart.spec["data"]:  # one bar in each place: none needs room beside it
        trace["offsetgroup"] = "0"
    chart.spec["layout"]["showlegend"] = False
    return chart


def _differences(runs: Sequence[Results], styles: Sequence[PlotStyle]) -> page.Section:
    """The keys in which the resolved experiments differ."""
    table = tables.differences([dict(leaves(run.experiment)) for run in runs], styles)
    block: page.Block = page.Words("The resolved experiments are the same.")
    if table.rows:
        block = page.TableView(table, filtered=len(table.rows) > 20)
    return page.Section("differences", "What differs in the experiments", [block])


def _experiment(results: Results) -> page.Block:
    path = results.folder / "experiment.yaml"
    if not path.exists():
        return page.Words("The run did not get so far.")
    return listing(path.read_text(encoding="utf-8"))
