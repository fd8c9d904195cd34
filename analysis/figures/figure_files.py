"""An empty figure, and a drawn one as files.

pyplot is not used: it keeps global state and costs start-up time.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from testbed.analysis.style import plot_style
from testbed.results import hand_over

if TYPE_CHECKING:
    from testbed.results import Results


def new_figure(width: float, height: float) -> Figure:
    """An empty figure; inches. `plot_style.as_wide_as` replaces the width."""
    figure = Figure(figsize=(plot_style.width_of(width), height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def hatch_color(color: str) -> str:
    """The colour of the hatch on an area of a colour."""
    return "black" if color == plot_style.HELD else "white"


def mark(figure: Figure, text: str) -> None:
    """Writes on the figure itself why it is not to be trusted."""
    red = plot_style.VERMILION
    figure.supxlabel(text, x=0.01, ha="left", fontsize=6, color=red, weight="bold")


def save(figure: Figure, path: Path) -> list[Path]:
    """Writes a figure as PNG and PDF beside each other; the same figure gives the same files."""
    png, pdf = path.with_suffix(".png"), path.with_suffix(".pdf")
    figure.savefig(png, metadata={"Software": None})
    figure.savefig(pdf, metadata={"CreationDate": None, "Creator": None, "Producer": None})
    for written in (png, pdf):
        hand_over(written)
    return [png, pdf]


def which_repetition(results: Results, repetition: int) -> str:
    """What the label of a figure of one repetition says where there are several."""
    several = results.jobs["repetition"].nunique() > 1
    return f", repetition {repetition}" if several else ""
