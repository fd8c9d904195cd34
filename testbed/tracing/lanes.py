"""The picture of a fragment's path: a lane for each node, packets between them over time."""

from __future__ import annotations

from pathlib import Path as FilePath
from typing import TYPE_CHECKING

from testbed.protocols import wire
from testbed.setup import Setup
from testbed.tracing.fragments import Fragment, title_of
from testbed.tracing.path import ARRIVED, HANDLED, SENT, Path, Step
from testbed.tracing.trace_text import evicted_by

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


# Of what became of a packet (path.ENDS).
MARKS = {"lost": "x", "queue drop": "s", "down": "P", "duplicated": "D", "egress drop": "v"}


def draw(setup: Setup, fragment: Fragment, path: Path, file: FilePath) -> None:
    """Write the picture; its suffix says which kind. Raises OSError, ValueError for a kind that
    there is not."""
    from matplotlib import rc_context

    from testbed.analysis.figures.figure_files import write
    from testbed.analysis.style import plot_style

    with rc_context(plot_style.rc()):
        write(figure(setup, fragment, path), file)


def figure(setup: Setup, fragment: Fragment, path: Path) -> Figure:
    """Workers above, switches in the middle, PSs below. Lines are packets on their way: gradients
    and results solid, what the PS asks for dashed; marks are what is dropped, lost or doubled
    (MARKS). A bar on a switch's lane is the time for which it holds the fragment."""
    from matplotlib.lines import Line2D
    from p4fabric.base import units

    from testbed.analysis.figures.figure_files import new_figure
    from testbed.analysis.style import plot_style

    nodes = _lanes(setup, fragment, path)
    places = {node: -number for number, node in enumerate(nodes)}
    begin_ns = path.steps[0].time_ns if path.steps else 0
    scale, unit = units.time_unit(float(path.steps[-1].time_ns - begin_ns) if path.steps else 1.0)

    def at(ns: int) -> float:
        return (ns - begin_ns) / scale

    made = new_figure(plot_style.PAGE, 1.0 + 0.38 * len(nodes))
    axes = made.add_subplot()
    for node in nodes:
        axes.axhline(places[node], color=plot_style.EDGE, linewidth=0.5, zorder=0)
    colors = {
        wire.GRADIENT: plot_style.BLUE,
        wire.RESULT: plot_style.GREEN,
        wire.RESULT_ONE: plot_style.GREEN,
    }
    ended: list[str] = []
    for step in path.steps:
        color = colors.get(step.packet.kind, plot_style.ORANGE)
        cause = step.cause
        # A packet's way from one node to the next.
        if cause is not None and cause.node != step.node and step.kind in (HANDLED, ARRIVED):
            asked = step.packet.kind not in colors
            axes.plot(
                [at(cause.time_ns), at(step.time_ns)],
                [places[cause.node], places[step.node]],
                color=color,
                linewidth=1,
                linestyle="--" if asked else "-",
            )
        for what, peer in step.ends:
            x, y = at(step.time_ns), float(places[step.node])
            if peer in places:
                y += 0.3 if places[peer] > y else -0.3
                axes.plot([x, x], [places[step.node], y], color=color, linewidth=1)
            if what in MARKS:
                axes.plot(x, y, MARKS[what], color=plot_style.VERMILION, markersize=5)
                ended.append(what)
        if step.kind == SENT:
            axes.plot(at(step.time_ns), places[step.node], "o", color=color, markersize=2.5)
        if step.kind == HANDLED and step.event and not step.copies:
            _event(axes, at(step.time_ns), places[step.node], step)
    for switch, start_ns, end_ns in _held(fragment, path):
        axes.barh(
            places[switch],
            at(end_ns) - at(start_ns),
            left=at(start_ns),
            height=0.3,
            color=plot_style.PARTIAL,
            alpha=0.5,
            zorder=0.5,
        )
    axes.set_yticks([places[node] for node in nodes], nodes)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(places[nodes[-1]] - 0.6 if nodes else -1, 0.8)
    axes.set_xlabel(f"time since its first packet ({unit})")
    axes.set_title(title_of(setup, fragment), loc="left")
    handles = [
        Line2D([], [], color=plot_style.BLUE, label="gradient"),
        Line2D([], [], color=plot_style.GREEN, label="result"),
        Line2D([], [], color=plot_style.ORANGE, linestyle="--", label="reminder, request, answer"),
        Line2D([], [], color=plot_style.PARTIAL, alpha=0.5, linewidth=5, label="in an aggregator"),
        *(
            Line2D([], [], color=plot_style.VERMILION, marker=mark, linestyle="", label=what)
            for what, mark in MARKS.items()
            if what in ended
        ),
    ]
    made.legend(handles=handles, loc="outside upper center", ncols=min(len(handles), 6))
    return made


def _event(axes: Axes, x: float, y: float, step: Step) -> None:
    evicted = evicted_by(step) is not None
    axes.plot(x, y, "v" if evicted else ".", color="black", markersize=4)
    if step.event not in ("additions", "results_passed", "passes"):
        axes.annotate(
            step.event.replace("_", " "),
            (x, y),
            xytext=(1, 3),
            textcoords="offset points",
            fontsize=5,
            rotation=30,
        )


def _lanes(setup: Setup, fragment: Fragment, path: Path) -> list[str]:
    """The nodes that its packets met: workers' hosts, switches, then other hosts."""
    met = {step.node for step in path.steps}
    job = setup.jobs.get(fragment.job) or setup.groups.get(fragment.job)
    workers = job.group.workers if job else ()
    switches = [name for name in setup.platform.topology.switches if name in met]
    first = [name for name in workers if name in met]
    rest = [name for name in setup.platform.topology.hosts if name in met and name not in first]
    return [*first, *switches, *rest]


def _held(fragment: Fragment, path: Path) -> list[tuple[str, int, int]]:
    """(switch, begin, end) of the times in which a switch held the fragment's sum."""
    since: dict[tuple[str, int], int] = {}
    found = []
    for step in path.steps:
        if step.kind != HANDLED or step.after is None:
            continue
        place = step.node, step.after.place
        if step.after.fragment == fragment:
            since.setdefault(place, step.time_ns)
        elif place in since:
            found.append((step.node, since.pop(place), step.time_ns))
    end_ns = path.steps[-1].time_ns if path.steps else 0
    return found + [(switch, begin, end_ns) for (switch, _), begin in since.items()]
