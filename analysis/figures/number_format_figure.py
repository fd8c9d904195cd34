"""The figure of a recording's sums in the number formats of the wire: how far they are off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib import rc_context

from testbed.analysis.figures.figure_files import new_figure, save
from testbed.analysis.style import plot_style


@dataclass(frozen=True)
class FixedScale:
    """Sums in steps of a fixed size. `steps` per 1.0; `error`: root of their mean square error, as
    a share of that of the exact sums; `lost`: the share of sums that become 0 although they are
    not; `floats`: the share that travels as float32, since a value does not fit."""

    steps: int
    error: float
    lost: float
    floats: float


def draw(
    path: Path, title: str, fixed: Sequence[FixedScale], others: Mapping[str, float]
) -> list[Path]:
    """Writes `path` as PNG and PDF; returns both. `others`: errors of formats without a fixed
    scale, by their titles."""
    with rc_context(plot_style.rc()):
        figure = new_figure(plot_style.PAGE, 2.6)
        left, right = figure.subplots(1, 2)
        scales = [each.steps for each in fixed]
        left.set_title("(a) error of the sums / the sums", loc="left")
        left.plot(scales, [each.error for each in fixed], color=plot_style.BLUE, marker="s",
                  markersize=3, linewidth=1, label="fixed")  # fmt: skip
        colors = (plot_style.VERMILION, plot_style.GREEN, plot_style.PURPLE)
        for (name, error), color in zip(others.items(), colors, strict=False):
            left.axhline(error, color=color, linestyle=(0, (5, 2)), linewidth=1, label=name)
        left.set_yscale("log")
        left.legend()
        right.set_title("(b) sums with a fixed scale (%)", loc="left")
        lost, floats = [each.lost for each in fixed], [each.floats for each in fixed]
        for shares, label, color, marker in (
            (lost, "lost: 0, although not 0", plot_style.ORANGE, "v"),
            (floats, "as float32, past the switches", plot_style.SKY, "^"),
        ):
            right.plot(scales, [100 * share for share in shares], color=color, marker=marker,
                       markersize=3, linewidth=1, label=label)  # fmt: skip
        right.set_ylim(0)
        right.legend()
        for axes in (left, right):
            axes.set_xscale("log")
            axes.set_xlabel("fixed scale (steps per 1.0)")
        figure.suptitle(title, fontsize=8, x=0.01, ha="left")
        return save(figure, path)
