"""An empty figure, and a drawn one as files.

pyplot is not used: it keeps global state and costs start-up time.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from testbed.results import hand_over

if TYPE_CHECKING:
    from testbed.results import Results


def new_figure(width: float, height: float) -> Figure:
    """An empty figure; inches."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


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
