"""The pages on wide and narrow screens, light and dark: nothing is cut, hidden or unreadable."""

from __future__ import annotations

import pytest

from testbed.analysis import html
from testbed.analysis.data import sweep_data as sweeps
from testbed.results import Writer, read
from tests.support.synthetic_results import ENVIRONMENT, tables, write_run, write_sweep

SIZES = (1400, 420)
# Texts of charts that reach out of their chart, which would cut them.
CUT = """
() => [...document.querySelectorAll(".chart:not([hidden] *)")].flatMap((chart) => {
  const box = chart.getBoundingClientRect();
  return [...chart.querySelectorAll("text")].filter((text) => {
    const own = text.getBoundingClientRect();
    return own.width && (own.left < box.left - 1 || own.right > box.right + 1
      || own.top < box.top - 1 || own.bottom > box.bottom + 1);
  }).map((text) => `${chart.id}: ${text.textContent}`);
})
"""
# Tables whose last row is below the edge of what shows them.
HIDDEN_ROWS = """
() => [...document.querySelectorAll(".scroll:not(.long)")].filter((each) => {
  const last = each.querySelector("tbody tr:last-child");
  return last && last.getBoundingClientRect().bottom > each.getBoundingClientRect().bottom + 1;
}).map((each) => each.getAttribute("aria-label"))
"""
# Pixels between the texts of neighbouring cells, the fewest.
GAP = """
() => {
  const text = (cell) => {
    const range = document.createRange();
    range.selectNodeContents(cell);
    return range.getBoundingClientRect();
  };
  const gaps = [...document.querySelectorAll("tr")].flatMap((row) => {
    const cells = [...row.cells].filter((cell) => cell.textContent.trim());
    return cells.slice(1).map((cell, at) => text(cell).left - text(cells[at]).right);
  });
  return Math.min(...gaps);
}
"""
# Contrast of each text of a chart's axes and legend with the page (WCAG 2.1), the least.
CONTRAST = """
() => {
  const light = (color) => {
    const [r, g, b] = color.match(/[0-9.]+/g).map(Number).map((part) => part / 255)
      .map((part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const paper = light(getComputedStyle(document.body).backgroundColor);
  const ratio = (ink) => (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
  const texts = document.querySelectorAll(".xtick text, .ytick text, .legendtext, td, th, h2, p");
  return Math.min(...[...texts].map((each) => {
    const style = getComputedStyle(each);
    return ratio(light(each.closest("svg") ? style.fill : style.color));
  }));
}
"""
PAPER = "getComputedStyle(document.body).backgroundColor"


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    runs = [read(write_run(folder, name, system)) for name, system in (("x", "esa"), ("y", "atp"))]
    (folder / "sweep").mkdir()
    sweep = sweeps.read_sweep(write_sweep(folder / "sweep"))
    return {
        "run": html.write_run(read(write_run(folder, stretches=(1.0, 1.1, 1.2)))),
        "comparison": html.write_comparison(runs, folder),
        "sweep": html.write_sweep(sweep, sweeps.frame(sweep)),
    }


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", SIZES)
@pytest.mark.parametrize("name", ["run", "comparison", "sweep"])
def test_nothing_is_cut_hidden_or_unreadable(new_view, pages, name, width, scheme):
    seen = new_view(width, scheme)
    seen.open(pages[name])
    try:
        assert seen.page.evaluate("document.documentElement.scrollWidth") <= width
        assert seen.page.evaluate(CUT) == []
        assert seen.page.evaluate(HIDDEN_ROWS) == []
        assert seen.page.evaluate(GAP) >= 8
        assert seen.page.evaluate(CONTRAST) >= 4
        dark = seen.page.evaluate(PAPER) != "rgb(255, 255, 255)"
        assert dark == (scheme == "dark")
    finally:
        seen.keep_picture(f"layout-{name}-{width}-{scheme}")
        seen.page.close()
    assert not seen.troubles


def test_the_colours_follow_the_reader_and_paper_is_white(view, pages):
    page = view(pages["run"])
    ink = "getComputedStyle(document.querySelector('.xtick text')).fill"
    light = page.evaluate(ink)
    box = page.get_by_label("small")
    box.uncheck()
    page.emulate_media(color_scheme="dark")
    page.wait_for_function(f"{ink} !== '{light}'")
    hidden = "document.getElementById('chart-jct').data.map((each) => each.visible)"
    assert page.evaluate(hidden)[1] is False  # a job that was switched off stays so
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.wait_for_function(f"{ink} === '{light}'")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    page.wait_for_function(f"{ink} !== '{light}'")


def write_three_switches(folder):
    """A run whose tables say the same of three switches."""
    with Writer.create(folder, "three", "system: esa", ENVIRONMENT) as writer:
        for name, rows in tables().items():
            if name in ("memory", "events", "pool", "switch_counters"):
                rows = [row | {"switch": switch} for switch in ("s1", "s2", "s3") for row in rows]
            writer.write(name, rows, repetition=0)
        writer.finish()
    return html.write_run(read(writer.folder))


def test_one_switch_is_picked_for_all_sections(view, pages, tmp_path):
    page = view(write_three_switches(tmp_path))
    shown = page.locator("#memory figure:visible h3, #events figure:visible h3")
    assert [text.split(":")[0] for text in shown.all_inner_texts()] == ["s1"] * 4
    page.locator("#memory select").select_option("s3")
    page.wait_for_function("document.querySelector('#chart-pool-s3 .main-svg')")
    assert [text.split(":")[0] for text in shown.all_inner_texts()] == ["s3"] * 4
    assert page.locator("#events select").input_value() == "s3"
    height = page.evaluate("document.documentElement.scrollHeight")
    one = view(pages["run"]).evaluate("document.documentElement.scrollHeight")
    # The tables have rows of all switches; the charts of two would be 2700 pixels.
    assert height < one + 1000


ENDS = """
(names) => names.map((name) => document.getElementById(`chart-${name}`).layout.xaxis.range[1])
"""
LEFTS = """
(names) => names.map((name) => {
  const plot = document.querySelector(`#chart-${name} .nsewdrag`);
  const { left, right } = plot.getBoundingClientRect();
  return [Math.round(left), Math.round(right)].join();
})
"""


def test_axes_over_the_run_s_time_are_aligned(view, pages):
    page = view(pages["run"])
    over_time = ["timeline", "states-s1", "owners-s1", "pool-s1", "events-s1"]
    assert len(set(page.evaluate(LEFTS, over_time))) == 1
    assert len(set(page.evaluate(ENDS, over_time))) == 1
