"""Figures of a network file's run in virtual time, and a page that shows them, its network and the
tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from p4fabric.base import units
from p4fabric.netfile.virtual_checks import Outcome
from p4fabric.netfile.virtual_network import Row
from p4fabric.netfile.virtual_results import printed
from p4fabric.netfile.virtual_run import ties

from testbed.analysis.data.network_picture import of_ports
from testbed.analysis.html import html_page as page
from testbed.analysis.html import plotly_parts as parts
from testbed.analysis.html import topology_chart
from testbed.analysis.style import plot_style

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from p4fabric.netfile.virtual_run import VirtualRun

Rows = list[Row]
MOST_LINES = 8  # in a figure; those with the most


class Lines(NamedTuple):
    """Series over time: `values` by name, in the order of `times_ns`."""

    name: str
    title: str
    unit: str
    times_ns: list[int]
    values: dict[str, list[Any]]


def write_report(
    folder: Path, run: VirtualRun, tables: dict[str, Rows], outcomes: list[Outcome]
) -> None:
    """Draw queues and rates over time, and write report.html. Raises OSError."""
    import matplotlib

    from testbed.analysis.figures.figure_files import save as save_figure

    drawn = [each for each in (_queues(run), *_rates(tables["throughput"])) if each.values]
    with matplotlib.rc_context(plot_style.rc()):
        for each in drawn:
            save_figure(_figure(each), folder / f"{each.name}.png")
    page.write(_page(run, tables, outcomes, drawn), folder / "report.html")


def _page(
    run: VirtualRun, tables: dict[str, Rows], outcomes: list[Outcome], drawn: list[Lines]
) -> page.Page:
    checks = [
        page.Paragraph(
            f"{'ok' if each.holds else 'FAILED'}: {each.what} (found {each.found})",
            "good" if each.holds else "bad",
        )
        for each in outcomes
    ]
    checks += [page.Paragraph(f"warning: {tied}", "bad") for tied in ties(run)]
    sections = [page.Section("checks", "Checks", checks)] if checks else []
    if picture := of_ports(tables["ports"]):
        sections.append(page.Section("network", "Network", [topology_chart.chart(picture)]))
    if drawn:
        charts = [_chart(each) for each in drawn]
        sections.append(page.Section("time", "Over time", charts))
    for table in printed(run, tables):
        sections.append(page.Section(table.name, table.title, [page.TableView(table)]))
    return page.Page(run.network.plan.name, "A network in virtual time", sections)


def _queues(run: VirtualRun) -> Lines:
    """Packets that wait, of the fullest ports."""
    looks = run.looks
    found = {key: depths for key, depths in looks.queues.items() if any(depths)}
    chosen = sorted(found, key=lambda key: (-sum(found[key]), key))[:MOST_LINES]
    series = {}
    for switch, port, direction in chosen:
        ahead = "" if direction == "egress" else "to "
        series[f"{ahead}{switch}-p{port}"] = found[switch, port, direction]
    return Lines("queues", "Packets in the queue", "", list(looks.times_ns), series)


def _rates(rows: Rows) -> Iterator[Lines]:
    """Throughput of the fastest flows, and the rates at which congestion control lets them send."""
    for name, title in (("throughput", "Throughput"), ("sending", "Rate of sending")):
        found: dict[str, list[float]] = {}
        times: dict[int, None] = {}
        for row in rows:
            if (rate_bps := row[f"{name}_bps"]) is not None:
                found.setdefault(row["flow"], []).append(rate_bps / 1e9)
                times[row["time_ns"]] = None
        chosen = sorted(found, key=lambda flow: (-sum(found[flow]), flow))[:MOST_LINES]
        yield Lines(name, title, "Gbit/s", list(times), {flow: found[flow] for flow in chosen})


def _label(lines: Lines) -> str:
    return f"{lines.title}, {lines.unit}" if lines.unit else lines.title


def _color(number: int) -> str:
    return plot_style.JOB_COLORS[number % len(plot_style.JOB_COLORS)]


def _figure(lines: Lines) -> Figure:
    from testbed.analysis.figures.figure_files import new_figure

    figure = new_figure(plot_style.PAGE, 2.6)
    axes = figure.subplots()
    scale, unit = units.time_unit(lines.times_ns[-1])
    times = [each / scale for each in lines.times_ns]
    for number, (name, values) in enumerate(lines.values.items()):
        axes.plot(times, values, color=_color(number), label=name, lw=0.8)
    axes.set_xlabel(f"time, {unit}")
    axes.set_ylabel(_label(lines))
    axes.set_ylim(bottom=0)
    axes.legend(loc="upper right")
    return figure


def _chart(lines: Lines) -> page.Chart:
    times = parts.seconds(lines.times_ns)
    traces = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": name,
            "x": times,
            "y": parts.numbers(values),
            "line": {"color": _color(number), "width": 1.5},
        }
        for number, (name, values) in enumerate(lines.values.items())
    ]
    layout = parts.layout(
        xaxis=parts.time_axis(times[-1]),
        yaxis={"text": _label(lines), "rangemode": "tozero"},
        showlegend=True,
    )
    text = f"A line for each of the {len(traces)} with the most."
    spec = {"data": traces, "layout": layout}
    return page.Chart(lines.name, lines.title, spec, text, over_time=True)
