"""The figure of a network: its nodes, its links, and the loads of these where it has run."""

from __future__ import annotations

from pathlib import Path

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.lines import Line2D

from testbed.analysis.data.network_picture import NetworkPicture
from testbed.analysis.figures.figure_files import new_figure, note, write
from testbed.analysis.style import plot_style

_WIDTH = 0.55  # points for a pixel of a page
# Marker, size in points, and whether it is filled, by role.
_LOOKS = {
    "switch": ("s", 9.0, True),
    "worker": ("o", 6.0, True),
    "ps": ("*", 9.0, True),
    "host": ("o", 6.0, True),
    "idle": ("o", 5.0, False),
}


def draw(picture: NetworkPicture, path: Path) -> None:
    """Draw the network as the file `path`, of the kind that its suffix names. Raises OSError."""
    with rc_context(plot_style.rc()):
        figure = new_figure(plot_style.PAGE, 1.4 + 1.0 * picture.height)
        axes = figure.add_subplot()
        handles = _links(axes, picture) + _nodes(axes, picture)
        axes.set_xlim(-0.02, 1.02)
        axes.set_ylim(-0.4, picture.height + 0.4)
        axes.axis("off")
        figure.legend(handles=handles, loc="outside upper center", ncols=min(len(handles), 4))
        if picture.load:
            note(figure, f"load: {picture.load}")
        write(figure, path)


def _links(axes: Axes, picture: NetworkPicture) -> list[Line2D]:
    """Draws the links, the most loaded on top; returns what the legend shows."""
    handles = []
    for order, (kind, some) in enumerate(picture.by_load()):
        style, width = kind.dash[1], kind.width * _WIDTH
        ends = [picture.way(a, b) for a, b in zip(some["a"], some["b"], strict=True)]
        lines = LineCollection(
            ends, colors=kind.color, linewidths=width, linestyles=style, zorder=1 + order / 10
        )
        axes.add_collection(lines)
        handles.append(Line2D([], [], color=kind.color, lw=width, ls=style, label=kind.title))
    return handles


def _nodes(axes: Axes, picture: NetworkPicture) -> list[Line2D]:
    """Draws the nodes with their names; returns what the legend shows."""
    handles = []
    for some in picture.nodes:
        if not some.names:
            continue
        marker, size, filled = _LOOKS[some.role]
        x, y = zip(*(picture.place[name] for name in some.names), strict=True)
        handles += axes.plot(
            x,
            y,
            marker,
            markersize=size,
            color=some.color,
            markerfacecolor=some.color if filled else "white",
            markeredgecolor="#222222" if some.role in ("worker", "ps", "host") else some.color,
            markeredgewidth=0.5,
            label=some.title,
            zorder=3,
        )
        above = some.role == "switch"
        for name in some.names if picture.named(some) else ():
            axes.annotate(
                name,
                picture.place[name],
                (0, 7 if above else -6),
                textcoords="offset points",
                ha="center",
                va="bottom" if above else "top",
                fontsize="small",
                zorder=4,
            )
    return handles
