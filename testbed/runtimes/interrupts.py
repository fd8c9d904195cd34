"""Ctrl-C, `kill` and a closed terminal: each ends a run in order, none can stop the tearing down.

The signals become KeyboardInterrupt wherever the runner happens to be, until `tear_down` says that
the clean-up has begun; from then on they are ignored, as the clean-up is short and bounded.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_AGAIN_S = 0.5  # much longer than it takes to get to the clean-up from anywhere
_received = signal.SIGINT


def install() -> None:
    """Turn the signals into KeyboardInterrupt. Called once, by the main thread."""
    for number in _SIGNALS:
        signal.signal(number, _interrupt)
    signal.signal(signal.SIGALRM, _repeat)


@contextlib.contextmanager
def tear_down() -> Iterator[None]:
    """A block that the signals do not interrupt; they are forgotten."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in _SIGNALS}
    signal.setitimer(signal.ITIMER_REAL, 0)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def exit_code() -> int:
    """What a shell expects of a program that a signal has ended: 130 for Ctrl-C.

    Asked for when the interrupt has arrived, so it does not come again."""
    signal.setitimer(signal.ITIMER_REAL, 0)
    return 128 + _received


def _interrupt(number: int, frame: object) -> None:
    global _received
    _received = signal.Signals(number)
    signal.setitimer(signal.ITIMER_REAL, _AGAIN_S)
    raise KeyboardInterrupt


def _repeat(number: int, frame: object) -> None:
    signal.setitimer(signal.ITIMER_REAL, _AGAIN_S)
    raise KeyboardInterrupt
