"""A browser for the tests of this ring: Debian's Chromium without a window, driven by Playwright.

Whatever a page writes to the console, throws, or asks of the network fails its test. Each test's
last view is kept as a picture in results/browser-tests/.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from testbed.results import hand_over
from tests.support.paths import ROOT

PICTURES = ROOT / "results" / "browser-tests"
NAMES = ("chromium", "chromium-browser", "google-chrome")


def why_no_browser() -> str | None:
    """Why these tests can't run here; None if they can."""
    if browser() is None:
        return f"no browser ({' or '.join(NAMES)}); ./test installs Debian's chromium"
    try:
        import playwright  # noqa: F401
    except ImportError:
        return "the Python package playwright is missing; ./test installs it"
    return None


def browser() -> str | None:
    """Path of a browser on this machine."""
    return next((path for path in map(shutil.which, NAMES) if path), None)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = [item for item in items if Path(item.path).parent == Path(__file__).parent]
    why = why_no_browser() if here else None
    for item in here:
        item.add_marker(pytest.mark.browser)
        if why:
            item.add_marker(pytest.mark.skip(reason=why))


@pytest.fixture(scope="module")  # while Playwright is there, no other event loop can run
def chromium():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # Root, whom the tests belong to, has no sandbox.
        launched = playwright.chromium.launch(executable_path=browser(), args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture
def view(chromium, request):
    """Opens a file and returns Playwright's page once all its charts are drawn."""
    troubles: list[str] = []
    page = chromium.new_page(viewport={"width": 1200, "height": 900})
    page.set_default_timeout(120_000)
    page.on("console", lambda message: troubles.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: troubles.append(str(error)))

    def look_at(call) -> None:
        if not call.url.startswith(("file:", "data:", "blob:")):
            troubles.append(f"asks for {call.url}")

    page.on("request", look_at)

    def opened(path: Path):
        page.goto(path.as_uri())
        page.evaluate("document.querySelectorAll('details').forEach((each) => (each.open = true))")
        page.wait_for_function(
            "Number(document.documentElement.dataset.drawn)"
            " === document.querySelectorAll('.chart').length"
        )
        return page

    opened.page = page  # for what is to be done otherwise
    yield opened
    PICTURES.mkdir(parents=True, exist_ok=True)
    picture = PICTURES / f"{request.node.name}.png"
    page.screenshot(path=picture, full_page=True)
    hand_over(PICTURES)
    hand_over(picture)
    page.close()
    assert not troubles
