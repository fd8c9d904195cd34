"""Steps that name themselves while they take long, so that a user always sees what is going on.

    with step(console, "building the network"):
        ...

A step that is done at once says nothing. On a terminal, a longer one shows a line that is taken
away at its end; elsewhere it prints a line from time to time. Steps do not nest, and no live view
is shown within one, since a terminal has one such line.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

from rich.console import Console

FIRST_S = 1.5  # what takes less says nothing
REPEAT_S = 3.0  # lines where there is no terminal
LIVE_S = 0.5


@contextlib.contextmanager
def step(console: Console | None, text: str | Callable[[], str]) -> Iterator[None]:
    """Name what is done inside. text: what, as in "building the network"; or a function that says
    how far it is, which another thread calls. None or a quiet console: nothing is shown."""
    if console is None or console.quiet:
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

    if ended.wait(FIRST_S):
        return
    if not console.is_terminal:
        while True:
            console.print(line(), markup=False, highlight=False, soft_wrap=True)
            if ended.wait(REPEAT_S):
                return
    with console.status("") as status:
        while True:
            status.update(line())
            if ended.wait(LIVE_S):
                return
