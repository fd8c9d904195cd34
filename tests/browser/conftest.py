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
    """Reason why these tests can't run here; None if they can."""
    if browser() is None:
        return f"no browser ({' or '.join(NAMES)}); ./test --all installs Debian's chromium"
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


class View:
    """A page of the browser, and what went wrong in it."""

    def __init__(self, chromium, width: int = 1200, scheme: str = "light") -> None:
        self.troubles: list[str] = []
        size = {"width": width, "height": 900}
        self.page = page = chromium.new_page(viewport=size, color_scheme=scheme)
        page.set_default_timeout(120_000)
        page.on("console", lambda message: self.troubles.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: self.troubles.append(str(error)))
        page.on("request", self._asked)

    def _asked(self, call) -> None:
        if not call.url.startswith(("file:", "data:", "blob:")):
            self.troubles.append(f"asks for {call.url}")

    def open(self, path: Path) -> None:
        """Until all charts of the file are drawn."""
        self.page.goto(path.as_uri())
        opened = "document.querySelectorAll('details').forEach((each) => (each.open = true))"
        self.page.evaluate(opened)
        self.page.wait_for_function(
            "Number(document.documentElement.dataset.drawn)"
            " === document.querySelectorAll('.chart:not([hidden] *)').length"
        )

    def keep_picture(self, name: str) -> None:
        PICTURES.mkdir(parents=True, exist_ok=True)
        picture = PICTURES / f"{name}.png"
        self.page.screenshot(path=picture, full_page=True)
        hand_over(PICTURES)
        hand_over(picture)


@pytest.fixture
def new_view(chromium):
    """Makes a `View` of a width, in a colour scheme; the test closes it."""
    return lambda width, scheme: View(chromium, width, scheme)


@pytest.fixture
def view(chromium, request):
    """Opens a file and returns Playwright's page once all its charts are drawn."""
    seen = View(chromium)

    def opened(path: Path):
        seen.open(path)
        return seen.page

    opened.page = seen.page  # for what is to be done otherwise
    yield opened
    seen.keep_picture(request.node.name)
    seen.page.close()
    assert not seen.troubles


@pytest.fixture(scope="module")
def kept_views(chromium):
    """The views that are open for several tests, by file."""
    views: dict[Path, View] = {}
    yield views
    for seen in views.values():
        seen.page.close()


@pytest.fixture
def shared_view(chromium, kept_views, request):
    """The same as `view` for tests that leave a page as it was: a file is opened once for all of
    them, which takes seconds. After a failed test it is opened again."""
    failed = request.session.testsfailed
    used: list[Path] = []

    def opened(path: Path):
        used.append(path)
        if path not in kept_views:
            kept_views[path] = View(chromium)
            kept_views[path].open(path)
        return kept_views[path].page

    yield opened
    for path in used:
        seen = kept_views[path]
        seen.keep_picture(request.node.name)
        if seen.troubles or request.session.testsfailed > failed:
            kept_views.pop(path).page.close()
        assert not seen.troubles
