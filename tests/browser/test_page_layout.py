"""The pages on wide and narrow screens, light and dark: nothing is cut, hidden or unreadable."""

from __future__ import annotations

import pytest
from p4fabric_testing.virtual_networks import MARKING, run_text, star

from testbed.analysis import html
from testbed.analysis.data import sweep_data as sweeps
from testbed.cli.network_report import write_report
from testbed.results import Writer, read
from tests.support import page_layout
from tests.support.synthetic_results import (
    ENVIRONMENT,
    tables,
    write_cluster,
    write_map,
    write_run,
    write_sweep,
)

# The colours of ticks, which are drawn again for another scheme.
INKS = "[...document.querySelectorAll('.xtick text')].map((each) => getComputedStyle(each).fill)"
DARK_INK = "(color) => Number(color.match(/[0-9]+/)) < 128"
LIGHT_INK = "(color) => Number(color.match(/[0-9]+/)) >= 128"
SMALL_MAP = {
    ("vgg16", "10 Gbit/s", "v100"): {"esa": 2, "switchml": 1, "ring": 3},
    ("gpt2", "100 Gbit/s", "a100"): {"esa": 1, "ring": 8},
}
INCAST = """
virtual: {duration: 100 us}
flows: [{name: incast, from: [h1, h2], to: h3, rate: 80 Gbit/s, size: 1000 B}]
"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    runs = [read(write_run(folder, name, system)) for name, system in (("x", "esa"), ("y", "atp"))]
    (folder / "sweep").mkdir()
    sweep = sweeps.read_sweep(write_sweep(folder / "sweep"))
    found = sweeps.read_sweep(write_map(folder / "map", SMALL_MAP))
    return {
        "run": html.write_run(read(write_run(folder, stretches=(1.0, 1.1, 1.2)))),
        "many-jobs": html.write_run(read(write_cluster(folder / "cluster", 60))),
        "comparison": html.write_comparison(runs, folder),
        "sweep": html.write_sweep(sweep, sweeps.frame(sweep)),
        "map": html.write_sweep(found, sweeps.frame(found)),
        "network": _network_page(folder / "network"),
    }


def _network_page(folder):
    """The page of two generators that fill a queue in virtual time."""
    folder.mkdir()
    run, found = run_text(folder, star(MARKING, 3, INCAST))
    write_report(folder, run, found, [])
    return folder / "report.html"


# A page is drawn once, which takes seconds; the reader changes the window and the scheme.
SEEN = ((1400, "light"), (1400, "dark"), (390, "dark"), (390, "light"))
FITS = """
[...document.querySelectorAll(".chart:not([hidden] *)")].every((each) =>
  Math.abs(each.clientWidth - each.querySelector(".main-svg").clientWidth) <= 1)
"""


LARGE = [pytest.param(name, marks=pytest.mark.slow) for name in ("many-jobs", "sweep", "map")]


@pytest.mark.parametrize("name", ["run", "comparison", "network", *LARGE])
def test_nothing_is_cut_hidden_covered_or_unreadable(new_view, pages, name):
    seen = new_view(*SEEN[0])
    seen.open(pages[name])
    try:
        for width, scheme in SEEN:
            seen.page.set_viewport_size({"width": width, "height": 900})
            seen.page.emulate_media(color_scheme=scheme)
            ink = DARK_INK if scheme == "light" else LIGHT_INK
            seen.page.wait_for_function(f"{FITS} && {INKS}.every({ink})")
            assert page_layout.faults(seen.page, width, scheme) == []
            seen.keep_picture(f"layout-{name}-{width}")
    finally:
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
