"""A sweep as a figure of matplotlib, in the style of the reports."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from testbed.api.results import SweepResult
from testbed.errors import UserError, did_you_mean, sentence
from testbed.results.schema import FIGURE_MEASURES, DeclaredFigure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST = 8  # measures


def figure(
    sweep: SweepResult | str | Path,
    x: str | None = None,
    y: str | Sequence[str] | None = None,
    *,
    x_label: str = "",
    against: str = "",
) -> Figure:
    """Draw measures of a sweep over one of its keys.

    x: the varied key on the axis; "": each point is a bar; None: what the file declares, else the
    key with most numbers. y: a measure, or up to eight, a panel each (`figure.panels` in
    experiment.md); None: what the file declares, else the usual ones. against: the series that
    `jct_ratio` compares with, by its name in the legend. Raises UserError for a key that was not
    varied, an unknown measure, and a sweep without a finished point."""
    from matplotlib import rc_context

    from testbed.analysis.data.sweep_chart_data import MEASURES, USUAL, with_links
    from testbed.analysis.data.sweep_data import frame
    from testbed.analysis.figures import sweep_figures
    from testbed.analysis.style import plot_style

    read = (sweep if isinstance(sweep, SweepResult) else SweepResult(sweep))._sweep
    chosen = read.figure
    if x is not None or y is not None or x_label or against:
        panels = _measures(y) if y is not None else None
        declared = read.figure or DeclaredFigure(x=read.axis or "", panels=USUAL)
        axis = declared.x if x is None else x
        if axis and axis not in read.keys:
            allowed = f"allowed: {', '.join(read.keys)}"
            raise UserError(
                sentence(f"x: {axis} is not varied", did_you_mean(axis, read.keys), allowed)
            )
        chosen = DeclaredFigure(
            x=axis,
            x_label=x_label or (declared.x_label if axis == declared.x else ""),
            panels=panels or declared.panels,
            against=against or declared.against,
        )
    shown = replace(read, figure=chosen)
    data = frame(shown)
    if data.empty:
        raise UserError(f"{read.folder}: no point has finished; there is nothing to draw")
    if chosen is not None:
        if "jct_ratio" in chosen.panels:
            _check_series(chosen.against, list(data["series"]))
        linked = with_links(data)
        for name in chosen.panels:
            if linked[MEASURES[name].column].isna().all():
                raise UserError(f"{read.folder}: no run of this sweep has measured {name}")
    with rc_context(plot_style.RC):
        drawn = sweep_figures.measures(shown, data)
    return _in_style(drawn, plot_style.RC)


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


def _check_series(against: str, known: Sequence[str]) -> None:
    if against not in known:
        names = ", ".join(dict.fromkeys(known))
        hint = did_you_mean(against, known)
        raise UserError(
            sentence(f"against: there is no series {against!r}", hint, f"series are: {names}")
        )


def _in_style(drawn: Figure, style: dict[Any, Any]) -> Figure:
    """The figure, whose files have the style's fonts and resolution, and which notebooks show."""
    from matplotlib import rc_context

    plain = drawn.savefig

    def savefig(*arguments: Any, **options: Any) -> None:
        with rc_context(style):
            plain(*arguments, **options)

    def png() -> bytes:
        file = io.BytesIO()
        savefig(file, format="png")
        return file.getvalue()

    drawn.savefig = savefig  # type: ignore[method-assign]
    drawn._repr_png_ = png  # type: ignore[attr-defined]  # IPython looks for this name
    return drawn
