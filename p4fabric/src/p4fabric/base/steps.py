"""Steps that name themselves while they take long, so that a user always sees the current one.

    with step(console, "building the network"):
        ...

A log has every step, with the time that it took.

Within `silent()` nothing is shown, whatever the console.

A step that is done at once says nothing. On a terminal and in a notebook, a longer one shows a line
that is taken away at its end, and so does a short one that follows on others that were not shown;
elsewhere a long one prints a line from time to time. Steps do not nest, and no live view is shown
within one, since a terminal has one such line.
"""

from __future__ import annotations

import contextlib
import io
import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from rich.console import Console, RenderableType
from rich.live import Live

_log = logging.getLogger(__name__)
FIRST_S = 1.5  # shorter steps are not shown
LEAST_S = 0.2  # nor those, also after others that were not
REPEAT_S, SELDOM_S = 3.0, 30.0  # between lines where there is no terminal; more and more
LIVE_S = 0.5

_seen_s = time.monotonic()  # when a step was last shown; at first, when the process began
_silent = False


def quiet_console() -> Console:
    """A console that shows nothing, in a notebook neither."""
    return Console(quiet=True, force_jupyter=False)


@contextlib.contextmanager
def silent(wanted: bool = True) -> Iterator[None]:
    """Within, no progress is shown: no steps, no live areas. wanted: False: as without it."""
    global _silent
    before, _silent = _silent, _silent or wanted
    try:
        yield
    finally:
        _silent = before


def shows_progress(console: Console | None) -> bool:
    """True if a console is to show how far something is."""
    return console is not None and not console.quiet and not _silent


class Area(Protocol):
    """A place whose content changes, and which is empty again at the end."""

    def start(self) -> None:
        """Open it."""

    def update(self, renderable: RenderableType, *, refresh: bool = False) -> None:
        """Show something else. `refresh`: at once."""

    def stop(self) -> None:
        """Empty it."""


def live_area(console: Console) -> Area | None:
    """Area for live text in a terminal or below a notebook's cell; None: there is none, or nothing
    is to be shown."""
    if not shows_progress(console):
        return None
    if console.is_jupyter:
        return NotebookArea()
    return (
        Live(console=console, auto_refresh=False, transient=True) if console.is_terminal else None
    )


class NotebookArea:
    """An output of a notebook's cell. Rich's own needs ipywidgets in the notebook's server."""

    WIDTH = 120

    def __init__(self) -> None:
        self._shown: Any = None

    def start(self) -> None:
        from IPython.display import HTML, display

        self._shown = display(HTML(""), display_id=True)

    def update(self, renderable: RenderableType, *, refresh: bool = False) -> None:
        from IPython.display import HTML

        page = Console(file=io.StringIO(), record=True, width=self.WIDTH, force_jupyter=False)
        page.print(renderable)
        style = "line-height: 1.2; white-space: pre"
        text = page.export_html(
            inline_styles=True, code_format=f'<pre style="{style}">{{code}}</pre>'
        )
        self._shown.update(HTML(text))

    def stop(self) -> None:
        from IPython.display import HTML

        self._shown.update(HTML(""))


@contextlib.contextmanager
def step(console: Console | None, text: str | Callable[[], str]) -> Iterator[None]:
    """Name the step inside. text: its name, as in "building the network"; or a function that
    returns its progress, which another thread calls. None or a quiet console: nothing is shown."""
    began = time.monotonic()
    try:
        with _shown(console, text):
            yield
    finally:
        if _log.isEnabledFor(logging.INFO):
            said = text if isinstance(text, str) else text()
            _log.info("%s: %.3f s", said, time.monotonic() - began)


@contextlib.contextmanager
def _shown(console: Console | None, text: str | Callable[[], str]) -> Iterator[None]:
    if console is None or not shows_progress(console):
        yield
        return
    ended = threading.Event()
    thread = threading.Thread(target=_tell, args=(console, text, ended), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _tell(console: Console, text: str | Callable[[], str], ended: threading.Event) -> None:
    began = time.monotonic()

    def line() -> str:
        what = text if isinstance(text, str) else text()
        return f"{what} ({time.monotonic() - began:.0f} s)"

    if ended.wait(_patience_s(console, began)):
        return
    _note()
    if console.is_jupyter:
        area = NotebookArea()
        area.start()
        while True:
            area.update(line())
            if ended.wait(LIVE_S):
                _note()
                return area.stop()
    if not console.is_terminal:
        while True:
            console.print(line(), markup=False, highlight=False, soft_wrap=True)
            so_far_s = time.monotonic() - began
            if ended.wait(min(SELDOM_S, max(REPEAT_S, so_far_s / 4))):
                return
    with console.status("") as status:
        while True:
            status.update(line())
            if ended.wait(LIVE_S):
                _note()
                return


def _note() -> None:
    global _seen_s
    _seen_s = time.monotonic()


def _patience_s(console: Console, began_s: float) -> float:
    """Time for which a step that began then is not shown."""
    if console.is_jupyter or console.is_terminal:
        return max(LEAST_S, FIRST_S - (began_s - _seen_s))
    return FIRST_S
