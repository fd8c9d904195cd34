"""The report's pages as somebody sees and uses them: marks, switches, zoom, sorting, paper."""

from __future__ import annotations

import pytest

from testbed.analysis import html
from testbed.analysis.data import sweep_data as sweeps
from testbed.analysis.html.run_page import run_page
from testbed.results import read
from tests.support.synthetic_results import ITERATIONS, write_run, write_sweep

# What Plotly draws, by the kind of trace.
COUNT = """
(name) => {
  const chart = document.getElementById(`chart-${name}`);
  const count = (selector) => chart.querySelectorAll(selector).length;
  return {
    bars: count(".barlayer .point path"),
    points: count(".scatterlayer .points path"),
    lines: count(".scatterlayer .lines path.js-line"),
    areas: count(".scatterlayer .fills path"),
    images: count(".heatmaplayer image"),
    // One without an extent stands where there is only one repetition.
    intervals: [...chart.querySelectorAll("path.xerror, path.yerror")].filter((each) => {
      const { width, height } = each.getBBox();
      return width > 0 && height > 0;
    }).length,
    texts: count(".scatterlayer .textpoint"),
  };
}
"""
SHOWN = "(name) => document.getElementById(`chart-${name}`).data.map((each) => each.visible)"
RANGE = "(name) => document.getElementById(`chart-${name}`).layout.xaxis.range.map(Number)"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = write_run(tmp_path_factory.mktemp("run"), stretches=(1.0, 1.1, 1.2))
    return html.write_run(read(folder))


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    found = sweeps.read_sweep(write_sweep(tmp_path_factory.mktemp("sweep")))
    return html.write_sweep(found, sweeps.frame(found))


def test_every_chart_has_its_marks(shared_view, run):
    page = shared_view(run)
    marks = {
        chart.name: page.evaluate(COUNT, chart.name) for chart in run_page(read(run.parent)).charts
    }
    assert len(marks) == page.locator(".chart").count() == 10
    # Two jobs, three repetitions: a bar and an interval each.
    assert marks["jct"]["bars"] == 2 and marks["jct"]["intervals"] == 2
    assert marks["ps-packets"]["bars"] == 2
    assert marks["ps-bytes"]["bars"] == 4
    # An iteration of job 0 and 1 is a point, the mean over workers.
    assert marks["iterations"]["points"] == 2 + 3 and marks["iterations"]["lines"] == 2
    # Six hosts and a switch, and a point on each of the six links.
    assert marks["topology"]["points"] == 6 + 1 + 6 and marks["topology"]["texts"] == 7
    passes = sum(map(len, ITERATIONS.values()))
    waits = 2 * passes  # between the layers of a forward pass, and after the backward pass
    legend = 4  # bars without a place
    assert marks["timeline"]["bars"] == 2 * passes + passes + passes + waits + legend
    # Filling, held and free at 11 times; two preemptions.
    assert marks["states-s1"]["bars"] == 33 and marks["states-s1"]["points"] == 2
    assert marks["owners-s1"]["bars"] == 22
    assert marks["pool-s1"]["images"] == 1
    assert marks["events-s1"]["lines"] == 1


# Names of the charts in the order in which they are drawn.
ORDER = """
window.order = [];
new MutationObserver((changes) => {
  for (const { target } of changes)
    if (target.classList.contains("js-plotly-plot") && !window.order.includes(target.id))
      window.order.push(target.id);
}).observe(document, { subtree: true, attributes: true, attributeFilter: ["class"] });
"""


def test_visible_charts_are_drawn_first_and_folded_ones_later(view, run):
    page = view.page
    page.add_init_script(ORDER)
    page.goto(f"{run.as_uri()}#memory")
    count = page.locator(".chart").count()
    page.wait_for_function(f"Number(document.documentElement.dataset.drawn) === {count - 1}")
    order = page.evaluate("window.order")
    assert order.index("chart-states-s1") < order.index("chart-jct")
    assert "chart-events-s1" not in order
    page.locator("#events summary").click()
    page.wait_for_function("window.order.includes('chart-events-s1')")


def test_a_job_is_switched_off_everywhere_and_on_again(shared_view, run):
    page = shared_view(run)
    before = page.evaluate(COUNT, "timeline")["bars"]
    box = page.get_by_label("small")
    box.focus()
    page.keyboard.press("Space")  # no pointer needed
    page.wait_for_function(f"({SHOWN})('owners-s1').includes(false)")
    assert page.evaluate(SHOWN, "jct") == [True, False]
    assert page.evaluate(SHOWN, "owners-s1") == [True, False]
    assert 0 < page.evaluate(COUNT, "timeline")["bars"] < before
    page.keyboard.press("Space")
    page.wait_for_function(f"({SHOWN})('owners-s1')[1] === true")
    assert page.evaluate(COUNT, "timeline")["bars"] == before


def test_all_time_axes_zoom_together(shared_view, run):
    page = shared_view(run)
    over_time = [chart.name for chart in run_page(read(run.parent)).charts if chart.over_time]
    assert len(over_time) == 5
    whole = page.evaluate(RANGE, "states-s1")
    page.get_by_role("spinbutton", name="from").fill("0.02")
    page.get_by_role("spinbutton", name="to").fill("0.05")
    page.keyboard.press("Enter")
    for name in over_time:
        page.wait_for_function(f"({RANGE})('{name}').join() === '0.02,0.05'")
    page.get_by_role("button", name="whole run").click()
    page.wait_for_function(f"({RANGE})('states-s1').join() === '{','.join(map(str, whole))}'")


def test_a_comparison_has_its_bars(view, tmp_path):
    runs = [
        read(write_run(tmp_path, name, system)) for name, system in (("x", "esa"), ("y", "atp"))
    ]
    page = view(html.write_comparison(runs, tmp_path))
    assert page.evaluate(COUNT, "jct")["bars"] == 6
    # Of both runs: completed, evicted, pulled, held, free.
    assert page.evaluate(COUNT, "memory")["bars"] == 10
    assert page.evaluate(COUNT, "ps-packets")["bars"] == 2


def test_a_sweep_has_its_lines_and_its_table_sorts_and_filters(shared_view, sweep):
    page = shared_view(sweep)
    marks = page.evaluate(COUNT, "measure-jct_mean_ns")
    assert marks["points"] == 3 and marks["lines"] == 3 and marks["intervals"] == 1
    rows = page.locator("#table-points tbody tr")
    column = page.locator("#table-points tbody td:nth-child(2)")
    heading = page.get_by_role("button", name="aggregators")
    heading.focus()
    page.keyboard.press("Enter")
    assert [text.strip() for text in column.all_inner_texts()] == ["16", "16", "32", "32", "-"]
    page.keyboard.press("Enter")
    assert [text.strip() for text in column.all_inner_texts()][1:] == ["32", "32", "16", "16"]
    # Not "32": a folder may have it in its time of day.
    page.get_by_label("Show rows with").fill("atp not run")
    assert [row.is_visible() for row in rows.all()].count(True) == 1
    assert page.locator(".found").inner_text() == "1 of 5 rows"
    page.get_by_label("Show rows with").fill("")


BOXES = """
(section) => [...document.querySelectorAll(`#${section} .chart`)].map((each) => {
  const { left, right, bottom } = each.getBoundingClientRect();
  return [left, right, bottom].map(Math.round);
})
"""


def test_charts_of_a_sweep_s_points_fill_the_window_side_by_side(shared_view, sweep):
    page = shared_view(sweep)
    for width, in_a_row in ((1200, 4), (600, 2), (300, 1)):
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_function(
            "document.documentElement.scrollWidth <= innerWidth"
            " && [...document.querySelectorAll('.chart')].every((each) => each.offsetWidth + 1"
            " >= each.querySelector('.main-svg').getBoundingClientRect().width)"
        )
        boxes = page.evaluate(BOXES, "all-states")
        assert len(boxes) == 4
        assert len({left for left, _, _ in boxes}) == in_a_row
        assert max(right for _, right, _ in boxes) > width - 40
    # Zoomed together, and back to the scale that all share.
    names = [f"timeline-{key}" for key in "abce"]
    shared = page.evaluate(RANGE, names[0])
    page.get_by_role("spinbutton", name="from").fill("0.02")
    page.get_by_role("spinbutton", name="to").fill("0.05")
    page.keyboard.press("Enter")
    for name in names:
        page.wait_for_function(f"({RANGE})('{name}').join() === '0.02,0.05'")
    page.get_by_role("button", name="whole run").click()
    for name in names:
        page.wait_for_function(f"({RANGE})('{name}').join() === '{','.join(map(str, shared))}'")
    page.set_viewport_size({"width": 1200, "height": 900})


def test_paper_has_the_charts_and_no_controls(view, run, tmp_path):
    page = view(run)
    page.emulate_media(media="print")
    assert not page.locator(".controls").is_visible()
    assert page.locator("#chart-jct").is_visible()
    path = tmp_path / "report.pdf"
    page.pdf(path=path)
    assert path.read_bytes()[:4] == b"%PDF" and path.stat().st_size > 20_000
