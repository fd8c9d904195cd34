"""The page of a run that goes on, in a browser."""

from __future__ import annotations

import time

from testbed.web.live_page import LivePage
from tests.support.live_runs import JOBS, MS, FakeRun, snapshot, state


def until(page, expression: str) -> None:
    """Wait for what the page says of itself. Playwright's own way evaluates texts in the page,
    which its policy forbids."""
    deadline_s = time.monotonic() + 120
    while not page.evaluate(expression):
        assert time.monotonic() < deadline_s, expression
        time.sleep(0.05)


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
        marks = "document.querySelectorAll('#chart-timeline .barlayer .point path').length"
        until(page, f"{marks} === 3")  # forward, backward, communication
        assert page.locator("#memory .chart").count() == 3
        run.iterate(1)
        live.draw(20 * MS, run.ports())
        until(page, f"{marks} > 3")
        page.screenshot(path=tmp_path / "live.png", full_page=True)
        live.end("Finished.", tmp_path / "report.html")
        until(page, "document.documentElement.dataset.ended === 'yes'")
        assert str(tmp_path / "report.html") in page.locator("#state").inner_text()
    page.close()
    assert not troubles
    assert all(url.startswith((live.address, "data:", "blob:")) for url in asked)
