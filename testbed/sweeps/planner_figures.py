"""The figures that compare planners: rate over workers, and memory over arrival skew."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from testbed.analysis.data.run_summary import interval
from testbed.analysis.figures import figure_files
from testbed.analysis.style import plot_style
from testbed.results import hand_over
from testbed.routing.planners import PLANNERS
from testbed.sweeps.planner_scenarios import SCENARIOS


def rate(frame: pd.DataFrame, path: Path) -> list[Path]:
    """The smallest worker's rate over the number of workers, a panel per scenario. Writes PDF, PNG
    and the numbers drawn as CSV; returns the paths. `frame`: see
    testbed/sweeps/planner_comparison.py."""
    frame = frame[frame.host_spread_ns == 0].assign(gbps=frame.rate_bps / 1e9)
    table = _table(frame, "workers", {"gbps": "rate_gbps"})
    with rc_context(plot_style.RC):
        figure, panels = _panels(frame)
        for scenario, panel in panels.items():
            _lines(panel, table[table.scenario == scenario], "workers", "rate_gbps")
            panel.set(xlabel="workers", yscale="log", title=SCENARIOS[scenario].title)
        next(iter(panels.values())).set_ylabel("rate of the slowest worker / Gbit/s")
        return [*_legend_and_save(figure, panels, path), _csv(table, path)]


def skew(frame: pd.DataFrame, path: Path) -> list[Path]:
    """Aggregators needed at the fullest switch, and what all switches aggregate with a memory of
    fixed size, over the spread of the hosts. Returns the paths."""
    frame = frame.assign(
        spread_us=frame.host_spread_ns / 1e3, aggregated_tbps=frame.aggregated_bps / 1e12
    )
    frame = frame[frame.planner != "none"]  # aggregates nothing
    table = _table(frame, "spread_us", {"slots": "slots", "aggregated_tbps": "aggregated_tbps"})
    scenarios = list(dict.fromkeys(frame.scenario))
    with rc_context(plot_style.RC):
        size = (plot_style.PAGE, 2.4 * len(scenarios))
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.subplots(len(scenarios), 2, squeeze=False)
        for row, scenario in zip(axes, scenarios, strict=True):
            part = table[table.scenario == scenario]
            for panel, column, label in (
                (row[0], "slots", "aggregators in use\nat the fullest switch"),
                (row[1], "aggregated_tbps", "aggregated by all switches\n/ Tbit/s"),
            ):
                _lines(panel, part, "spread_us", column)
                panel.set(ylabel=label, xlabel="spread of the hosts / us")
                panel.set_xscale("symlog", linthresh=1)
            # An interval that goes below zero would fill the axis with powers of ten of nothing.
            row[0].set_yscale("log")
            row[0].set_ylim(bottom=max(part.slots.min(), 1) / 2)
            row[0].set_title(SCENARIOS[scenario].title)
        return [*_legend_and_save(figure, {"": axes[0][0]}, path), _csv(table, path)]


def _panels(frame: pd.DataFrame) -> tuple[Figure, dict[str, Axes]]:
    scenarios = list(dict.fromkeys(frame.scenario))
    figure = Figure(figsize=(plot_style.PAGE, 2.6), layout="constrained")
    axes = figure.subplots(1, len(scenarios), sharey=True, squeeze=False)[0]
    return figure, dict(zip(scenarios, axes, strict=True))


def _table(frame: pd.DataFrame, x: str, columns: dict[str, str]) -> pd.DataFrame:
    """Means over the seeds and the half widths of their 95 % confidence intervals."""
    rows = []
    for (scenario, planner, at), part in frame.groupby(["scenario", "planner", x], sort=False):
        row = {"scenario": scenario, "planner": planner, x: at, "seeds": part.seed.nunique()}
        for column, name in columns.items():
            row[name], row[f"{name}_half_width"] = interval(part[column])
        rows.append(row)
    return pd.DataFrame(rows)


def _lines(panel: Axes, table: pd.DataFrame, x: str, column: str) -> None:
    for name, planner in PLANNERS.items():
        part = table[table.planner == name].sort_values(x)
        if len(part):
            errors = part[f"{column}_half_width"].where(part.seeds >= 3, 0).fillna(0)
            panel.errorbar(
                part[x],
                part[column],
                yerr=errors,
                label=planner.title,
                color=planner.color,
                marker=planner.marker,
                markersize=4,
                linewidth=1,
                capsize=2,
            )


def _legend_and_save(figure: Figure, panels: dict[str, Axes], path: Path) -> list[Path]:
    handles, labels = next(iter(panels.values())).get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
    return figure_files.save(figure, path)


def _csv(table: pd.DataFrame, path: Path) -> Path:
    written = path.with_suffix(".csv")
    table.to_csv(written, index=False)
    hand_over(written)
    return written
