"""The page of several runs side by side: what differs in their experiments and in what came out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from p4fabric.base import units
from p4fabric.base.config.data_files import read_text

from testbed.analysis.data import explanations, job_chart_data
from testbed.analysis.data.memory_chart_data import memory_shares
from testbed.analysis.data.run_summary import Frames
from testbed.analysis.html import html_page as page
from testbed.analysis.html import plotly_parts as parts
from testbed.analysis.html.bar_charts import bar_chart
from testbed.analysis.html.run_page import FILE, listing, state
from testbed.analysis.style.plot_style import PlotStyle, plot_styles
from testbed.analysis.tables import report_tables as tables

if TYPE_CHECKING:
    from testbed.results import Results

JOBS = 32  # that get bars of their own


def write_comparison(runs: Sequence[Results], folder: Path) -> Path:
    """Writes report.html of several runs into `folder`; returns the path."""
    return page.write(comparison_page(runs), folder / FILE)


def comparison_page(runs: Sequence[Results]) -> page.Page:
    """The page of at least two runs; those that have not finished are named and not drawn."""
    frames = [explanations.frames_of(results) for results in runs]
    styles = plot_styles(runs)
    titles = [style.title for style in styles]
    blocks: list[page.Block] = [
        page.Paragraph(text) for text in explanations.of_comparison(frames, titles)
    ]
    for results, style in zip(runs, styles, strict=True):
        words = state(results)
        blocks.append(page.Paragraph(f"{style.title}: {words.text}", words.tone))
    blocks.append(page.TableView(tables.comparison(runs, frames, styles)))
    sections = [page.Section("summary", "Comparison", blocks)]
    if any(results.finished for results in runs):
        ended = [number for number, results in enumerate(runs) if results.finished]
        drawn = [frames[number] for number in ended], [styles[number] for number in ended]
        sections.append(page.Section("jobs", "Jobs", [completion_times(*drawn)]))
        charts = [chart for chart in (_memory(*drawn), _ps_packets(*drawn)) if chart]
        if charts:
            sections.append(page.Section("switches", "Switches and servers", charts))
    sections.append(_differences(runs, styles))
    sections += [
        page.Section(
            f"experiment-{number}", f"Experiment of {style.title}", [_experiment(run)], folded=True
        )
        for number, (run, style) in enumerate(zip(runs, styles, strict=True))
    ]
    return page.Page(
        title=" and ".join(style.title for style in styles) if len(styles) < 4 else "Comparison",
        subtitle=f"{len(runs)} runs: {parts.listed([run.folder.name for run in runs])}",
        sections=sections,
    )


def completion_times(frames: Sequence[Frames], styles: Sequence[PlotStyle]) -> page.Chart:
    """JCT per job and on average (per model, where there are too many jobs); bars per run."""
    bars, by = job_chart_data.jct_by_run([frame["jobs"] for frame in frames], styles, JOBS)
    return bar_chart(
        "jct",
        "Job completion time",
        bars,
        "Bars per job, one for each run: the time from its start to the end of its last iteration.",
        note="Jobs of one model together." if by == "model" else "",
    )


def _memory(frames: Sequence[Frames], styles: Sequence[PlotStyle]) -> page.Chart | None:
    """Shares of aggregator-time, a stacked bar per run; None where none has switch memory."""
    known = [
        (frame["run"], style.title)
        for frame, style in zip(frames, styles, strict=True)
        if len(frame["switches"])
    ]
    if not known:
        return None
    traces = [
        {
            "type": "bar",
            "orientation": "h",
            "name": layer.title,
            "y": [title for _, title in known],
            "x": parts.numbers(layer.shares),
            "marker": parts.bar_marker(layer.color, layer.hatch)
            | {"line": {"color": "#888", "width": 0.5}},
            "hovertemplate": f"%{{y}}: {layer.title} %{{x:.1f}} %<extra></extra>",
        }
        for layer in memory_shares([run for run, _ in known])
    ]
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


def _ps_packets(frames: Sequence[Frames], styles: Sequence[PlotStyle]) -> page.Chart | None:
    bars = job_chart_data.ps_packets_by_run([frame["run"] for frame in frames], styles)
    title = "PS packets per fragment"
    text = "A bar per run: 1 means that every sum was completed in the switch."
    return bar_chart("ps-packets", title, bars, text, units.ratio, single=True) if bars else None


def _differences(runs: Sequence[Results], styles: Sequence[PlotStyle]) -> page.Section:
    """The keys in which the resolved experiments differ."""
    table = tables.differences([run.experiment for run in runs], styles)
    block: page.Block = page.Paragraph("The resolved experiments are the same.")
    if table.rows:
        block = page.TableView(table, filtered=len(table.rows) > 20)
    return page.Section("differences", "Differences between the experiments", [block])


def _experiment(results: Results) -> page.Block:
    path = results.folder / "experiment.yaml"
    if not path.exists():
        return page.Paragraph("The run ended before this was written.")
    return listing(read_text(path))
