"""The page of a run that goes on, in a browser."""

from __future__ import annotations

import time

from testbed.web.live_page import LivePage
from tests.support import page_layout
from tests.support.live_runs import JOBS, MS, FakeRun, snapshot, state


def until(page, expression: str) -> None:
    """Wait for what the page says of itself. Playwright's own way evaluates texts in the page,
    which its policy forbids."""
    deadline_s = time.monotonic() + 120
    while not page.evaluate(expression):
        assert time.monotonic() < deadline_s, expression
        time.sleep(0.05)


def until_sound(page, width: int, scheme: str) -> None:
    """Wait until the charts have followed the window and its colours, and nothing is wrong."""
    deadline_s = time.monotonic() + 60
    while found := page_layout.faults(page, width, scheme):
        assert time.monotonic() < deadline_s, found
        time.sleep(0.1)


def test_a_run_is_seen_growing_and_ending(chromium, tmp_path):
    troubles: list[str] = []
    page = chromium.new_page(viewport={"width": 1200, "height": 900})
    page.set_default_timeout(120_000)
    page.on("console", lambda message: troubles.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: troubles.append(str(error)))
    asked: set[str] = set()
    page.on("request", lambda call: asked.add(call.url))
    shown = "document.documentElement.dataset.charts || ''"
    run = FakeRun()
    with LivePage() as live:
        live.begin(JOBS, run.sources())
        live.show(state("first words"))
        live.draw(0, run.ports())
        page.goto(live.address)
        until(page, f"({shown}).includes('topology')")
        assert page.locator("h1").inner_text() == "first words"
        # What a run says is text, never part of the page.
        assert page.locator("#table-jobs tbody td").first.inner_text() == "small <b>"
        assert not page.locator("#chart-timeline").count()
        run.iterate(0)
        run.snapshots.add("s1", 5 * MS, snapshot(3, 2))
        live.draw(10 * MS, run.ports())
        until(page, f"({shown}).includes('pool-s1')")
        bars = "document.getElementById('chart-timeline').data.filter((each) => each.base)"
        marks = f"{bars}.reduce((count, each) => count + each.x.length, 0)"
        until(page, f"{marks} === 4")  # forward, backward, wait, communication
        assert page.locator("#memory .chart").count() == 3
        run.iterate(1)
        live.draw(20 * MS, run.ports())
        until(page, f"{marks} > 4")
        page.screenshot(path=tmp_path / "live.png", full_page=True)
        live.end("Finished.", tmp_path / "report.html")
        until(page, "document.documentElement.dataset.ended === 'yes'")
        assert str(tmp_path / "report.html") in page.locator("#state").inner_text()
    page.close()
    assert not troubles
    assert all(url.startswith((live.address, "data:", "blob:")) for url in asked)


def test_charts_that_lag_say_so_and_one_switch_is_picked(chromium):
    page = chromium.new_page(viewport={"width": 420, "height": 900}, color_scheme="dark")
    page.set_default_timeout(120_000)
    run = FakeRun()
    with LivePage() as live:
        live.begin(JOBS, run.sources())
        live.show(state("now", 10 * MS))
        run.iterate(0)
        for switch in ("s1", "s2"):
            run.snapshots.add(switch, 5 * MS, snapshot(3, 2))
        live.draw(10 * MS, run.ports())
        page.goto(live.address)
        until(page, "(document.documentElement.dataset.charts || '').includes('pool-s2')")
        assert page.locator("#lag").inner_text() == ""
        live.show(state("later", 25 * MS))
        until(page, "document.getElementById('lag').textContent !== ''")
        said = "Charts lag: they show the run up to 10.0 ms, 15.0 ms ago."
        assert page.locator("#lag").inner_text() == said
        assert page.evaluate("document.documentElement.scrollWidth") == 420
        shown = page.locator("#memory figure:visible h3")
        assert [text.split(":")[0] for text in shown.all_inner_texts()] == ["s1"] * 3
        page.locator("#memory select").select_option("s2")
        assert [text.split(":")[0] for text in shown.all_inner_texts()] == ["s2"] * 3
        drawn = "document.querySelectorAll('#chart-states-s2 .main-svg').length"
        until(page, f"{drawn} > 0")
        for width, scheme in ((420, "dark"), (1400, "dark"), (1400, "light"), (420, "light")):
            page.set_viewport_size({"width": width, "height": 900})
            page.emulate_media(color_scheme=scheme)
            until_sound(page, width, scheme)
    page.close()
