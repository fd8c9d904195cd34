"""A sweep as a figure of matplotlib, in the style of the reports."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from reprlib import repr as brief
from typing import TYPE_CHECKING, Any

from p4fabric.base.errors import UserError, did_you_mean, sentence

from testbed.api.results import SweepResult
from testbed.results.schema import FIGURE_MEASURES, DeclaredFigure

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from testbed.analysis.data.sweep_data import Sweep

_KINDS: dict[str, tuple[Any, str]] = {
    "sweep": (SweepResult | str | os.PathLike, "a sweep, or its folder"),
    "x": (str | None, "the path of a varied key"),
    "y": (str | Sequence | None, "a measure, or a list of measures"),
    "x_label": (str, "text"),
    "against": (str, "the name of a series"),
    "style": (str | Mapping | None, "the name of a style, or a mapping of settings"),
    "labels": (Mapping | None, "a mapping of names to text"),
}
MOST = 8  # measures
WIDEST = 100.0  # inches


def figure(
    sweep: SweepResult | str | Path,
    x: str | None = None,
    y: str | Sequence[str] | None = None,
    *,
    x_label: str = "",
    against: str = "",
    width: str | float | None = None,
    ax: Axes | Sequence[Axes] | None = None,
    style: str | Mapping[str, Any] | None = None,
    labels: Mapping[str, str] | None = None,
) -> Figure:
    """Draw measures of a sweep over one of its keys.

    x: the varied key on the axis; "": each point is a bar; None: what the file declares, else the
    key with most numbers. y: a measure, or up to eight, a panel each (`figure.panels` in
    experiment.md); None: what the file declares, else the usual ones. against: the series that
    `jct_ratio` compares with, by its name in the legend.

    width: of the figure and of its files, exactly: "column" (3.5 inches), "text" (7.2), or inches;
    None: as wide as its panels need. ax: axes to draw into, one per measure; the figure is theirs,
    and saved with their size. style: matplotlib settings, as a mapping, as the name of a style
    sheet, or "paper" (see `style`); what it leaves open is as in rcParams where they differ from
    matplotlib's defaults, else as in the reports. labels: other names of series in the legend,
    other titles of measures, and other words for varied keys, on the axis and in the legend.

    Raises UserError for a key that was not varied, an unknown measure, series, style or width, a
    value of another type, and a sweep without a finished point."""
    from matplotlib import rc_context

    from testbed.analysis.data.sweep_data import frame
    from testbed.analysis.figures import sweep_figures
    from testbed.analysis.style import plot_style

    given = {"sweep": sweep, "x": x, "y": y, "x_label": x_label, "against": against}
    _check_kinds({**given, "style": style, "labels": labels})
    read = (sweep if isinstance(sweep, SweepResult) else SweepResult(sweep))._sweep
    axes = _axes(ax)
    inches = _inches(width)
    if axes and inches is not None:
        raise UserError("width: goes without ax, whose figure has its own width")
    shown = replace(read, figure=_chosen(read, x, y, x_label, against))
    data = frame(shown)
    if data.empty:
        raise UserError(f"{read.folder}: no point has finished; there is nothing to draw")
    measures = _check_measured(shown, data)
    if axes and len(axes) != len(measures):
        raise UserError(f"ax: found {len(axes)} axes for {len(measures)} measures; name y")
    named = _labels(shown, labels, measures)
    settings = plot_style.rc(_settings(style))
    with rc_context(settings), plot_style.as_wide_as(inches):
        drawn = sweep_figures.measures(shown, data, named, axes)
    if axes:
        return drawn
    # A file is as large as the figure, whatever the user's settings for cutting files are.
    return _in_style(drawn, settings | {"savefig.bbox": None} if inches else settings)


def style(name: str) -> AbstractContextManager[None]:
    """Set matplotlib's rcParams as the reports do, for figures of one's own: `tb.style("paper")`,
    or `with tb.style("paper"):`, which sets them back. Raises UserError for another name."""
    from matplotlib import rcParams

    if name not in STYLES:
        raise UserError(sentence(f"there is no style {name!r}", f"styles are: {', '.join(STYLES)}"))
    settings = _settings(name)
    before = {key: rcParams[key] for key in settings}
    rcParams.update(settings)

    @contextmanager
    def until_the_end() -> Iterator[None]:
        try:
            yield
        finally:
            rcParams.update(before)

    return until_the_end()


STYLES = ("paper",)


def _settings(style: str | Mapping[str, Any] | None) -> dict[Any, Any]:
    """A style as matplotlib's settings. Raises UserError."""
    from matplotlib import rcParams
    from matplotlib.style import library

    from testbed.analysis.style import plot_style

    if style == "paper":
        return plot_style.PAPER
    if isinstance(style, str):
        if style not in library:
            known = [*STYLES, *library]
            hint = did_you_mean(style, known)
            allowed = "paper, and matplotlib's style sheets (matplotlib.style.available)"
            raise UserError(sentence(f"style: there is no {style!r}", hint, f"allowed: {allowed}"))
        return dict(library[style])
    for key in style or ():
        if key not in rcParams:
            hint = did_you_mean(key, list(rcParams))
            raise UserError(sentence(f"style: matplotlib has no setting {key!r}", hint))
    return dict(style or {})


def _check_kinds(given: Mapping[str, Any]) -> None:
    for name, value in given.items():
        kinds, allowed = _KINDS[name]
        if not isinstance(value, kinds):
            raise UserError(f"{name}: found {brief(value)}; allowed: {allowed}")
    for name, text in (given["labels"] or {}).items():
        if not isinstance(text, str):
            raise UserError(f"labels: found {brief(text)} for {name}; allowed: text")


def _inches(width: str | float | None) -> float | None:
    from testbed.analysis.style.plot_style import WIDTHS

    if width is None:
        return None
    allowed = f"allowed: {', '.join(WIDTHS)}, or inches up to {WIDEST:g}"
    if isinstance(width, str):
        if width not in WIDTHS:
            raise UserError(
                sentence(f"width: found {width!r}", did_you_mean(width, WIDTHS), allowed)
            )
        return WIDTHS[width]
    if isinstance(width, bool) or not isinstance(width, int | float) or not 1 <= width <= WIDEST:
        raise UserError(f"width: found {width!r}; {allowed}, and at least 1")
    return float(width)


def _axes(ax: Axes | Sequence[Axes] | None) -> list[Axes]:
    from matplotlib.axes import Axes

    found = [] if ax is None else list(ax) if isinstance(ax, Iterable) else [ax]
    for each in found:
        if not isinstance(each, Axes):
            raise UserError(f"ax: found {type(each).__name__}; allowed: axes of matplotlib")
    if ax is not None and not found:
        raise UserError("ax: found no axes")
    return found


def _chosen(
    read: Sweep, x: str | None, y: str | Sequence[str] | None, x_label: str, against: str
) -> DeclaredFigure | None:
    """Declarations of the sweep's file, with those of the arguments instead."""
    from testbed.analysis.data.sweep_chart_data import USUAL

    if x is None and y is None and not x_label and not against:
        return read.figure
    panels = _measures(y) if y is not None else None
    declared = read.figure or DeclaredFigure(x=read.axis or "", panels=USUAL)
    axis = declared.x if x is None else x
    if axis and axis not in read.keys:
        allowed = f"allowed: {', '.join(read.keys)}"
        raise UserError(
            sentence(f"x: {axis} is not varied", did_you_mean(axis, read.keys), allowed)
        )
    return DeclaredFigure(
        x=axis,
        x_label=x_label or (declared.x_label if axis == declared.x else ""),
        panels=panels or declared.panels,
        against=against or declared.against,
    )


def _measures(y: str | Sequence[str]) -> tuple[str, ...]:
    names = (y,) if isinstance(y, str) else tuple(y)
    for name in names:
        if name not in FIGURE_MEASURES:
            allowed = f"measures are: {', '.join(FIGURE_MEASURES)}"
            hint = did_you_mean(name, FIGURE_MEASURES)
            raise UserError(sentence(f"y: there is no measure {name!r}", hint, allowed))
    if not 1 <= len(names) <= MOST:
        raise UserError(f"y: found {len(names)} measures; allowed: 1 to {MOST}")
    return names


def _check_measured(sweep: Sweep, data: pd.DataFrame) -> list[str]:
    """The measures that will be drawn. Raises UserError for one that was named and that no run has
    measured."""
    from testbed.analysis.data.sweep_chart_data import MEASURES, USUAL, with_links

    named = sweep.figure.panels if sweep.figure else ()
    if "jct_ratio" in named:
        assert sweep.figure is not None
        against = sweep.series_called(sweep.figure.against)
        if against not in set(data["series"]):
            raise _no_such("against", "series", against, sweep.titles().values())
    linked = with_links(data)
    measured = [name for name in named or USUAL if linked[MEASURES[name].column].notna().any()]
    for name in named:
        if name not in measured:
            raise UserError(f"{sweep.folder}: no run of this sweep has measured {name}")
    return measured


def _labels(
    sweep: Sweep, labels: Mapping[str, str] | None, measures: Sequence[str]
) -> dict[str, str]:
    said, series = dict(labels or {}), sweep.titles()
    keys = [key for key in sweep.keys if key != "system"]
    for name in said:
        if name not in {*series, *series.values(), *measures, *keys}:
            known = [*series.values(), *measures, *keys]
            raise _no_such("labels", "series, measure or key", name, known)
    titles = list(sweep.titles(said).values())
    for title in titles:
        if titles.count(title) > 1:
            raise UserError(f"labels: two series are called {title!r}")
    return said


def _no_such(argument: str, kind: str, name: str, known: Iterable[str]) -> UserError:
    known = list(dict.fromkeys(known))
    said = f"{argument}: there is no {kind} {name!r}"
    return UserError(sentence(said, did_you_mean(name, known), f"{kind}: {', '.join(known)}"))


def _in_style(drawn: Figure, settings: dict[Any, Any]) -> Figure:
    """The figure, whose files have the style's fonts and resolution, and which notebooks show."""
    from matplotlib import rc_context

    plain = drawn.savefig

    def savefig(*arguments: Any, **options: Any) -> None:
        with rc_context(settings):
            plain(*arguments, **options)

    def png() -> bytes:
        file = io.BytesIO()
        savefig(file, format="png")
        return file.getvalue()

    drawn.savefig = savefig  # type: ignore[method-assign]
    drawn._repr_png_ = png  # type: ignore[attr-defined]  # IPython looks for this name
    return drawn
