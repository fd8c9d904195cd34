"""tb.figure and tb.style: the width, the style, the axes and the names that somebody asks for."""

from __future__ import annotations

import contextlib
import re

import pytest
from matplotlib import rc_context, rcParams
from matplotlib.figure import Figure
from PIL import Image

import testbed as tb
from tests.support.synthetic_results import write_sweep


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """ESA at two sizes, of which one three times, ATP at one, and the ring."""
    return tb.read(write_sweep(tmp_path_factory.mktemp("swept")))


def settings():
    """matplotlib's, without the backend, which is found out when it is asked for."""
    return {key: value for key, value in rcParams.items() if key != "backend"}


@pytest.mark.parametrize(
    ("width", "inches"), [("column", 3.5), ("text", 7.2), (5, 5.0), (2.25, 2.25)]
)
def test_a_file_is_exactly_as_wide_as_asked_for(swept, tmp_path, width, inches):
    """Whatever else a user's matplotlib does to files."""
    with rc_context({"savefig.bbox": "tight", "savefig.pad_inches": 1}):
        figure = tb.figure(swept, y=["jct", "in_switch_share"], width=width)
        for name in ("figure.png", "figure.pdf"):
            figure.savefig(tmp_path / name)
    with Image.open(tmp_path / "figure.png") as image:
        assert image.width == round(200 * inches)
    text = (tmp_path / "figure.pdf").read_bytes().decode("latin-1")
    box = re.search(r"/MediaBox \[ ?0 0 ([\d.]+) ", text)
    assert float(box[1]) == pytest.approx(72 * inches, abs=0.01)


def test_settings_of_the_user_win_over_ours_and_the_argument_over_both(swept):
    def size(**how):
        return tb.figure(swept, y="jct", **how).axes[0].xaxis.label.get_size()

    assert size() == 8
    with rc_context({"axes.labelsize": 13}):
        assert size() == 13
        assert size(style={"axes.labelsize": 5}) == 5
        assert size(style="paper") == 8
    assert tb.figure(swept, y="jct", style="ggplot").axes[0].get_facecolor()[:3] != (1, 1, 1)


def test_paper_is_a_style_for_figures_of_one_s_own():
    before = settings()
    with tb.style("paper"):
        assert rcParams["font.size"] == 8 and rcParams["pdf.fonttype"] == 42
        assert rcParams["figure.figsize"][0] == 3.5
    assert settings() == before
    with rc_context():
        tb.style("paper")
        assert rcParams["font.size"] == 8


def test_a_measure_is_drawn_into_axes(swept):
    figure = Figure(figsize=(4, 6))
    first, second = figure.subplots(2)
    drawn = tb.figure(swept, y=["jct", "in_switch_share"], ax=[first, second])
    assert drawn is figure and tuple(figure.get_size_inches()) == (4, 6)
    assert first.get_ylabel() == "average JCT (ms)\n95 % confidence interval, n = 3"
    assert second.get_ylabel() == "completed in the switch (%)"
    names = [text.get_text() for text in first.get_legend().get_texts()]
    assert names == ["ESA", "ATP (gap 3)", "Ring"]
    assert tb.figure(swept, y="jct", ax=second) is figure


def test_series_and_measures_have_the_names_that_are_given(swept):
    labels = {"ESA": "ours", "jct": "completion time"}
    figure = tb.figure(swept, y="jct", labels=labels)
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["ours", "ATP (gap 3)", "Ring"]
    assert figure.axes[0].get_title("left") == "completion time (ms)"
    # Their colours are those of the systems.
    colors = [handle.lines[0].get_color() for handle in figure.axes[0].containers]
    assert colors[0] == "#D55E00"


def test_keys_have_words_or_those_that_are_given(swept):
    """On the axis, where a key is on it, and in the legend."""
    for labels, said in ((None, "aggregators"), ({"memory.aggregators": "slots"}, "slots")):
        across = tb.figure(swept, y="jct", labels=labels)
        assert across.axes[0].get_xlabel() == said
        bars = tb.figure(swept, x="", y="jct", labels=labels)
        names = [text.get_text() for text in bars.legends[0].get_texts()]
        assert sorted(names)[1:3] == [f"ESA, {said} {number}" for number in (16, 32)]
    # A series is renamed by the name that a reader sees, and by the one in data.csv.
    for key in ("aggregators", "memory.aggregators"):
        renamed = tb.figure(swept, x="", y="jct", labels={f"ESA, {key} 16": "small"})
        assert "small" in [text.get_text() for text in renamed.legends[0].get_texts()]
    ratio = tb.figure(swept, x="", y="jct_ratio", against="ESA, aggregators 16")
    assert ratio.axes[0].get_title("left") == "JCT relative to ESA, aggregators 16"


def test_bars_are_sorted_and_the_interval_is_named(swept):
    figure = tb.figure(swept, x="", y="jct")
    bars = [patch.get_height() for patch in figure.axes[0].patches]
    assert bars == sorted(bars) and len(bars) == 4
    assert figure.get_supxlabel() == "error bars: 95 % confidence interval, n = 3"


def test_a_narrow_figure_cuts_no_name(swept):
    figure = tb.figure(swept, x="", y="jct", width="column")
    figure.draw_without_rendering()
    box = figure.legends[0].get_window_extent()
    assert box.x0 >= 0 and box.x1 <= figure.bbox.x1


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"width": "colum"}, "width: found 'colum'; did you mean column? allowed: column, text"),
        ({"width": 0}, "width: found 0; allowed: column, text, or inches up to 100"),
        ({"width": "text", "ax": Figure().subplots()}, "goes without ax"),
        ({"ax": "axes"}, "ax: found str; allowed: axes of matplotlib"),
        ({"ax": Figure().subplots(), "y": ["jct", "retransmissions"]}, "1 axes for 2 measures"),
        ({"style": "papers"}, "style: there is no 'papers'; did you mean paper"),
        ({"style": {"font.sice": 3}}, "no setting 'font.sice'; did you mean font.size"),
        (
            {"labels": {"Esa": "ours"}},
            "labels: there is no series, measure or key 'Esa'; did you mean ESA",
        ),
        ({"labels": {"ESA": "Ring"}}, "labels: two series are called 'Ring'"),
    ],
)
def test_what_a_figure_cannot_be_is_one_message(swept, how, message):
    with pytest.raises(tb.UserError) as caught:
        tb.figure(swept, **({"y": "jct"} | how))
    assert message in str(caught.value)


KINDS = "sweep", "x", "y", "x_label", "against", "width", "ax", "style", "labels"


@pytest.mark.parametrize("name", KINDS)
def test_a_value_of_any_type_is_used_or_refused(swept, name):
    given = {"sweep": swept, "y": "jct"}
    if name in ("sweep", "ax", "labels"):
        with pytest.raises(tb.UserError, match=f"{name}: found (3|int)"):
            tb.figure(**given | {name: 3})
    for value in (True, 3, 1.5, b"a", [], [3], {"ESA": 3}, {3: "a"}, object()):
        with contextlib.suppress(tb.UserError):
            tb.figure(**given | {name: value})


def test_another_style_is_one_message():
    with pytest.raises(tb.UserError, match="there is no style 'slides'; styles are: paper"):
        tb.style("slides")


def test_drawing_leaves_matplotlib_as_it_was(swept):
    before = settings()
    tb.figure(swept, y="jct", style="paper", width="text")
    assert settings() == before
