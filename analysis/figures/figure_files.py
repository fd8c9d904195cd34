"""An empty figure, and a drawn one as files.

pyplot is not used: it keeps global state and costs start-up time.
"""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import rcParams
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_pdf import FigureCanvasPdf
from matplotlib.collections import FillBetweenPolyCollection
from matplotlib.container import BarContainer, ErrorbarContainer
from matplotlib.figure import Figure

from testbed.analysis.style import plot_style
from testbed.results import write_whole

if TYPE_CHECKING:
    from testbed.results import Results

_log = logging.getLogger(__name__)
_READ = 40  # bars of a series


def new_figure(width: float, height: float) -> Figure:
    """An empty figure; inches. `plot_style.as_wide_as` replaces the width."""
    figure = Figure(figsize=(plot_style.width_of(width), height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def hatch_color(color: str) -> str:
    """The colour of the hatch on an area of a colour."""
    return "black" if color == plot_style.HELD else "white"


def note(figure: Figure, text: str, **look: Any) -> None:
    """Adds a line below the figure."""
    lines = [line for line in (figure.get_supxlabel(), text) if line]
    look = {"fontsize": "small", "color": plot_style.SOFT} | look
    figure.supxlabel("\n".join(lines), x=0.01, ha="left", **look)


def mark(figure: Figure, text: str) -> None:
    """Writes on the figure itself why it is not to be trusted."""
    note(figure, text, color=plot_style.FAULT, weight="bold")


def beside(figure: Figure, interval: str) -> None:
    """Names the interval that the figure's error bars are, if it has some."""
    if interval:
        note(figure, f"error bars: {interval}")


def align(figures: Sequence[Figure]) -> None:
    """Gives axes over the same time the same place: the same left and right edge, and the same
    end."""
    if len(figures) < 2:
        return
    places, last = {}, 0.0
    for figure in figures:
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
        for axes in figure.axes:
            places[axes] = axes.get_position()
            last = max(last, axes.get_xlim()[1])
    left, right = max(box.x0 for box in places.values()), min(box.x1 for box in places.values())
    for axes, box in places.items():
        axes.set_position((left, box.y0, right - left, box.height))
        axes.set_xlim(0, last)


def save(figure: Figure, path: Path) -> list[Path]:
    """Writes a figure as PNG and PDF beside each other; the same figure gives the same files.

    Both have the layout of the PNG: to find it takes as long as to draw the figure. The figure
    keeps it. The canvases are asked, since `savefig` draws each figure once more before."""
    stem = path.with_suffix("") if path.suffix in (".png", ".pdf") else path  # not of memory-x0.5
    png, pdf = (stem.with_name(f"{stem.name}{ending}") for ending in (".png", ".pdf"))
    if rcParams["savefig.dpi"] != "figure":
        figure.set_dpi(rcParams["savefig.dpi"])
    drawn = io.BytesIO()
    FigureCanvasAgg(figure).print_png(drawn, metadata=_of_png(figure))  # type: ignore[no-untyped-call]
    _put(drawn, png)
    figure.set_layout_engine("none")
    drawn = io.BytesIO()
    with _fonts_without_rules():
        of_nobody = {"CreationDate": None, "Creator": None, "Producer": None}
        FigureCanvasPdf(figure).print_pdf(drawn, metadata=of_nobody)  # type: ignore[no-untyped-call]
    _put(drawn, pdf)
    return [png, pdf]


def numbers(figure: Figure) -> list[dict[str, Any]]:
    """Numbers of the figure: for each of its axes the title, the label of y, and by series pairs of
    a place on x (its tick's text, if it has one) and a value. Of an area, and of more bars than
    somebody reads, the mean."""
    found = []
    for axes in figure.axes:
        ticks = zip(axes.get_xticks(), axes.get_xticklabels(), strict=False)
        words = {round(float(place), 6): text.get_text() for place, text in ticks}
        series: dict[str, list[tuple[Any, float]]] = {}
        for drawn in axes.containers:
            name = str(drawn.get_label())
            if isinstance(drawn, BarContainer):
                across = drawn.orientation == "vertical"
                places = [bar.get_x() if across else bar.get_y() for bar in drawn.patches]
                values = np.asarray(drawn.datavalues, dtype=float).tolist()
                pairs: list[tuple[Any, float]] = list(zip(places, values, strict=True))
            elif isinstance(drawn, ErrorbarContainer) and drawn.lines[0] is not None:
                line = np.asarray(drawn.lines[0].get_xydata(), dtype=float).tolist()
                pairs = [(words.get(round(x, 6)) or x, y) for x, y in line]
            else:
                continue
            if len(pairs) > _READ:
                pairs = [("mean", sum(value for _, value in pairs) / len(pairs))]
            if not name.startswith("_"):
                series[name] = pairs
        for area in axes.collections:
            if isinstance(area, FillBetweenPolyCollection):
                series[str(area.get_label())] = [("mean", _mean_height(area))]
        if series:
            title = axes.get_title("left") or axes.get_title()
            found.append({"title": title, "y": axes.get_ylabel(), "series": series})
    return found


def _mean_height(area: FillBetweenPolyCollection) -> float:
    corners = np.asarray(area.get_paths()[0].vertices, dtype=float)
    x, y = corners[:, 0], corners[:, 1]
    surface = 0.5 * abs(float(np.sum(x * np.roll(y, -1) - y * np.roll(x, -1))))
    return surface / max(float(np.ptp(x)), 1e-12)


def write(figure: Figure, path: Path, metadata: Mapping[str, str | None] | None = None) -> None:
    """Writes a figure as a file of the kind that its suffix names. Raises OSError, ValueError for a
    kind that does not exist. The text Description of a PNG has its numbers (see `numbers`).

    It is drawn in memory, because matplotlib hides an OSError of its file, such as that of a full
    disk, behind errors of its own."""
    if path.suffix == ".png":
        metadata = _of_png(figure)
    drawn = io.BytesIO()
    figure.savefig(drawn, format=path.suffix[1:], metadata=metadata)
    _put(drawn, path)


def _of_png(figure: Figure) -> dict[str, str | None]:
    return {"Software": None, "Description": json.dumps(numbers(figure))}


def _put(drawn: io.BytesIO, path: Path) -> None:
    write_whole(path, drawn.getvalue())
    _log.debug("%s: %d B", path, drawn.getbuffer().nbytes)


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
