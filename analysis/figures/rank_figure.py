"""The figure of a rank's graph over time: what it computes, and the calls of its groups."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib import rc_context
from matplotlib.patches import Patch
from p4fabric.base import units

from testbed.analysis.figures.figure_files import new_figure, save
from testbed.analysis.style import plot_style
from testbed.collective_kinds import COLLECTIVES

Span = tuple[str, float, float]  # kind of node, begin and end in ns
_BARS = 4000  # beyond that, bars of a vector figure become an image inside it
_TITLE = 110  # characters of a line of the title
_COLORS = {
    "compute": plot_style.GREY,
    "send": plot_style.ORANGE,
    "recv": plot_style.YELLOW,
    **{name: getattr(plot_style, kind.color.upper()) for name, kind in COLLECTIVES.items()},
}


def draw(path: Path, title: str, lanes: Mapping[str, Sequence[Span]]) -> list[Path]:
    """Writes `path` as PNG and PDF; returns both. lanes: a row of bars for each name, in order,
    from when the rank is ready until the node is done."""
    last_ns = max((end for spans in lanes.values() for _, _, end in spans), default=1)
    scale, unit = units.time_unit(last_ns)
    count = sum(map(len, lanes.values()))
    kinds = list(dict.fromkeys(kind for spans in lanes.values() for kind, _, _ in spans))
    with rc_context(plot_style.rc()):
        figure = new_figure(plot_style.PAGE, 0.9 + 0.3 * len(lanes))
        axes = figure.add_subplot()
        for row, spans in enumerate(lanes.values()):
            for kind in kinds:
                bars = [(a / scale, (b - a) / scale) for each, a, b in spans if each == kind]
                axes.broken_barh(
                    bars,
                    (row + 0.1, 0.8),
                    facecolor=_COLORS[kind],
                    edgecolor="white",
                    linewidth=0.2 if count < 200 else 0,
                    rasterized=count > _BARS,
                    snap=False,  # what is narrower than a pixel is a shade of it
                )
        axes.set_yticks([row + 0.5 for row in range(len(lanes))], list(lanes))
        axes.tick_params(axis="y", length=0)
        axes.set_ylim(len(lanes), 0)
        axes.set_xlim(0, last_ns / scale)
        axes.set_xlabel(f"time ({unit})")
        axes.set_title(textwrap.fill(title, _TITLE), loc="left", fontsize=7)
        shown = [Patch(facecolor=_COLORS[kind], label=kind) for kind in kinds]
        figure.legend(handles=shown, loc="outside lower left", ncols=len(shown), fontsize=6)
        return save(figure, path)
