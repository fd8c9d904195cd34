"""An empty figure, and a drawn one as files.

pyplot is not used: it keeps global state and costs start-up time.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from matplotlib import rcParams
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_pdf import FigureCanvasPdf
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
    """Writes a figure as PNG and PDF beside each other; the same figure gives the same files.

    Both have the layout of the PNG: to find it takes as long as to draw the figure. The figure
    keeps it. The canvases are asked, since `savefig` draws each figure once more before."""
    png, pdf = path.with_suffix(".png"), path.with_suffix(".pdf")
    if rcParams["savefig.dpi"] != "figure":
        figure.set_dpi(rcParams["savefig.dpi"])
    drawn = io.BytesIO()
    FigureCanvasAgg(figure).print_png(drawn, metadata={"Software": None})
    _put(drawn, png)
    figure.set_layout_engine("none")
    drawn = io.BytesIO()
    with _fonts_without_rules():
        of_nobody = {"CreationDate": None, "Creator": None, "Producer": None}
        FigureCanvasPdf(figure).print_pdf(drawn, metadata=of_nobody)
    _put(drawn, pdf)
    return [png, pdf]


def write(figure: Figure, path: Path, metadata: Mapping[str, None] | None = None) -> None:
    """Writes a figure as a file of the kind that its suffix names. Raises OSError, ValueError for a
    kind that does not exist.

    It is drawn in memory, because matplotlib hides an OSError of its file, such as that of a full
    disk, behind errors of its own."""
    drawn = io.BytesIO()
    figure.savefig(drawn, format=path.suffix[1:], metadata=metadata)
    _put(drawn, path)


def _put(drawn: io.BytesIO, path: Path) -> None:
    try:
        path.write_bytes(drawn.getbuffer())
    except OSError as error:
        error.filename = str(path)  # Python names the file only where it could not be opened
        raise
    hand_over(path)


@contextmanager
def _fonts_without_rules() -> Iterator[None]:
    """Within, fonts are cut to the glyphs of a PDF without their rules for placing and joining
    glyphs, which is most of the work. In a PDF every glyph has its place already."""
    from fontTools import subset  # matplotlib cuts fonts with it

    load = subset.load_font

    def load_without(*arguments: Any, **options: Any) -> Any:
        font = load(*arguments, **options)
        for table in ("GDEF", "GPOS", "GSUB"):
            if table in font:
                del font[table]
        return font

    subset.load_font = load_without
    try:
        yield
    finally:
        subset.load_font = load


def which_repetition(results: Results, repetition: int) -> str:
    """The remark in the label of a figure of one repetition where there are several."""
    several = results.jobs["repetition"].nunique() > 1
    return f", repetition {repetition}" if several else ""
