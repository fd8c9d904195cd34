"""A picture of a network with the loads that a plan puts on it.

Several plans of one network stand side by side, drawn in the same way, so that what differs between
them is what they do: which links are full, where gradients are added, how much reaches the
parameter server (PS). How full a link is shows twice, in its colour and in its width, and colours
are those of cividis, whose order people with a colour deficiency see as well. A host has its job's
colour; workers whose gradients meet in one switch have one tint of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from textwrap import fill
from typing import Any

import networkx
import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch

from testbed.analysis.data.topology_data import levels
from testbed.analysis.figures.figure_files import new_figure, note
from testbed.analysis.style import plot_style
from testbed.routing.network import Network
from testbed.routing.plan import Load, Plan

Position = tuple[float, float]

LABELLED = 30  # links between switches up to which loads are written beside them
NAMED = 40  # hosts up to which they are drawn one by one
COLORS = "cividis_r"  # the fuller the darker
_TINTS = (0.0, 0.45, 0.7)  # how white the colour of a job's groups is
_BESIDE = 0.13  # from a node to its text, where links to hosts are 0.75 long
_LETTERS = 15  # of a caption, on an inch


def draw(network: Network, plans: Sequence[Plan]) -> Figure:
    """One panel per plan. Rates are in the unit of the largest link."""
    places = positions(network)
    unit, size = _unit(plans)
    width = min(2 * plot_style.PAGE, 1.5 + plot_style.PAGE / 2.4 * len(plans))
    figure = new_figure(width, 3.6)
    axes = figure.subplots(1, len(plans), squeeze=False)[0]
    for panel, plan in zip(axes, plans, strict=True):
        _panel(panel, network, plan, places, size)
        bound = "" if plan.bound_bps is None else f", LP bound {_number(plan.bound_bps / size)}"
        panel.set_title(f"{plan.planner}: {_number(plan.rate_bps / size)} {unit}{bound}")
    bar = figure.colorbar(
        ScalarMappable(Normalize(0, 100), COLORS), ax=list(axes), shrink=0.7, pad=0.01
    )
    bar.set_label("load of a link (%)")
    names = [job.name for job in plans[0].jobs]
    said = (
        f"beside links and nodes: load / capacity in {unit}; a switch's is what it aggregates;"
        " one tint: gradients that meet in one switch"
    )
    letters = int(_LETTERS * figure.get_figwidth())
    note(figure, fill(said, letters))
    if len(network.hosts) <= NAMED:
        handles = [
            Line2D([], [], marker="o", linestyle="", color=plot_style.job_color(number), label=name)
            for number, name in enumerate(names)
        ]
        handles.append(
            Line2D([], [], marker="D", linestyle="", color=plot_style.GREY, label="its PS")
        )
        fit = letters // (6 + max(map(len, names)))
        figure.legend(
            handles=handles, loc="outside upper center", ncols=max(1, min(len(handles), fit))
        )
    return figure


def positions(network: Network) -> dict[str, Position]:
    """Positions of the nodes. Switches stand in layers by their distance from the hosts, or by
    their distances from each other where all have hosts. Hosts stand around their switch."""
    hosts_at: dict[str, list[str]] = {switch.name: [] for switch in network.switches}
    for link in network.links:
        if link.source in network.host and link.target in hosts_at:
            hosts_at[link.target].append(link.source)
    graph = network.switch_graph.to_undirected()
    layers = levels(graph, [name for name, hosts in hosts_at.items() if hosts])
    nodes_at: dict[int, list[str]] = {}
    for name, layer in layers.items():
        nodes_at.setdefault(layer, []).append(name)
    if len(nodes_at) > 1:
        found = networkx.multipartite_layout(graph, nodes_at, align="horizontal", scale=2)
    elif len(graph) > 2:
        found = networkx.kamada_kawai_layout(graph, scale=1)
    else:
        found = {name: np.array((2.0 * place, 0.0)) for place, name in enumerate(graph)}
    places = {name: (float(x), float(y)) for name, (x, y) in found.items()}
    middle = np.mean(list(places.values()), axis=0)
    for switch, hosts in hosts_at.items():
        x, y = places[switch]
        away = math.atan2(y - middle[1], x - middle[0]) if len(graph) > 1 else math.pi / 2
        if len(nodes_at) > 1:
            away = -math.pi / 2
        spread = min(0.5, 2.6 / max(len(hosts), 1))
        for place, host in enumerate(hosts):
            angle = away + spread * (place - (len(hosts) - 1) / 2)
            places[host] = (x + 0.75 * math.cos(angle), y + 0.75 * math.sin(angle))
    return places


def _panel(
    panel: Axes, network: Network, plan: Plan, places: dict[str, Position], size: int
) -> None:
    panel.set_aspect("equal")
    panel.axis("off")
    detailed = len(network.hosts) <= NAMED
    between = [
        (ends, load)
        for ends, load in plan.links.items()
        if all(node in network.switch for node in ends)
    ]
    labelled = len(between) <= 2 * LABELLED
    for (a, b), load in plan.links.items():
        inner = a in network.switch and b in network.switch
        if not inner and not detailed:
            continue
        _link(panel, places[a], places[b], load, size, inner and labelled)
    middle = np.mean([places[switch.name] for switch in network.switches], axis=0)
    for switch in network.switches:
        place = places[switch.name]
        _node(panel, place, "s", 8 if detailed else 4, "white")
        lines = [switch.name] if detailed else []
        if labelled and switch.aggregates:
            lines.append(_loads(plan.switches[switch.name], size))
        if lines:
            _label(panel, (place[0], place[1] - _BESIDE), "\n".join(lines), va="top")
    if not detailed:
        for name in plan.servers:
            (home,) = network.after[name][:1]
            _node(panel, places[home], "*", 9, plot_style.FAULT)
        return
    center = (float(middle[0]), float(middle[1]))
    homes = {
        name: places.get(after[0], center) if (after := network.after[name]) else center
        for name in network.host
    }
    for number, job in enumerate(plan.jobs):
        nodes = {group.node: place for place, group in enumerate(job.groups)}
        for worker in job.workers:
            first = worker.assignments[0]
            color = plot_style.job_color(number)
            if first.group:
                color = plot_style.tint(color, _TINTS[nodes[first.node] % len(_TINTS)])
            _node(panel, places[worker.host], "o", 8, color)
            rate = _number(worker.rate_bps / size)
            _outside(panel, homes[worker.host], places[worker.host], f"{worker.host}\n{rate}")
        received = _loads(plan.servers[job.ps], size)
        _node(panel, places[job.ps], "D", 9, plot_style.job_color(number))
        _outside(panel, homes[job.ps], places[job.ps], f"{job.ps}\n{received}")
    panel.margins(0.12)


def _outside(panel: Axes, home: Position, place: Position, text: str) -> None:
    """A text beside a host, on the side away from its switch, where no link is."""
    across, up = place[0] - home[0], place[1] - home[1]
    length = max(math.hypot(across, up), 1e-9)
    x, y = (place[0] + _BESIDE * across / length, place[1] + _BESIDE * up / length)
    side = {-1: "right", 0: "center", 1: "left"}[_sign(across / length)]
    _label(
        panel, (x, y), text, ha=side, va={-1: "top", 0: "center", 1: "bottom"}[_sign(up / length)]
    )


def _sign(share: float) -> int:
    return 0 if abs(share) < 0.4 else int(math.copysign(1, share))


def _link(panel: Axes, a: Position, b: Position, load: Load, size: int, label: bool) -> None:
    """One direction, bent to its left; those without a load are a thin line."""
    used = load.load_bps > 0
    share = min(load.share, 1.0)
    arrow = FancyArrowPatch(
        a,
        b,
        connectionstyle="arc3,rad=0.08" if used else "arc3,rad=0",
        arrowstyle="-|>" if used else "-",
        mutation_scale=7,
        shrinkA=5,
        shrinkB=5,
        linewidth=0.8 + 2.2 * share if used else 0.4,
        color=_color(share) if used else plot_style.EDGE,
        zorder=2 if used else 1,
    )
    panel.add_patch(arrow)
    if label and used:
        (ax, ay), (bx, by) = a, b
        across = np.array((ay - by, bx - ax)) / max(math.hypot(bx - ax, by - ay), 1e-9)
        x, y = np.array((ax + bx, ay + by)) / 2 - 0.12 * across
        side = {-1: "left", 0: "center", 1: "right"}[_sign(float(across[0]))]
        _label(panel, (x, y), _loads(load, size), ha=side)


def _color(share: float) -> tuple[float, float, float, float]:
    """The colour of a link that is full to `share`, 0 to 1."""
    return colormaps[COLORS](share)


def _node(panel: Axes, place: Position, marker: str, size: float, color: str) -> None:
    panel.plot(*place, marker, markersize=size, color=color, markeredgecolor="black", zorder=3)


def _label(panel: Axes, place: Position, text: str, **style: Any) -> None:
    """Text beside something, readable over lines."""
    paper = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.4}
    look: dict[str, Any] = {"ha": "center", "va": "center", "bbox": paper, "linespacing": 1.0}
    panel.text(*place, text, fontsize="small", zorder=5, **(look | style))


def _loads(load: Load, size: int) -> str:
    capacity = "" if load.capacity_bps is None else f" / {_number(load.capacity_bps / size)}"
    return f"{_number(load.load_bps / size)}{capacity}"


def _number(value: float | Fraction) -> str:
    return f"{float(value):.5g}"


def _unit(plans: Sequence[Plan]) -> tuple[str, int]:
    rates = [load.capacity_bps or load.load_bps for plan in plans for load in plan.links.values()]
    most = max(rates, default=1)
    for unit, size in (("Tbit/s", 10**12), ("Gbit/s", 10**9), ("Mbit/s", 10**6)):
        if most >= size:
            return unit, size
    return "kbit/s", 1000
