"""Ctrl-C, `kill` and a closed terminal: each ends a run in order, none can stop the tearing down.

What is written after the terminal has been closed goes nowhere, so that no error about it stops the
tearing down either.

The signals become KeyboardInterrupt wherever the runner happens to be, until `tear_down` says that
the clean-up has begun; from then on they are ignored, as the clean-up is short and bounded.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_AGAIN_S = 0.5  # much longer than it takes to get to the clean-up from anywhere
_received = signal.SIGINT
_terminals: list[int] = []  # of the standard streams


def install() -> None:
    """Turn the signals into KeyboardInterrupt. Called once, by the main thread."""
    _terminals[:] = [stream for stream in (0, 1, 2) if os.isatty(stream)]
    for number in _SIGNALS:
        signal.signal(number, _interrupt)
    signal.signal(signal.SIGALRM, _repeat)


@contextlib.contextmanager
def _handled_by(
    handler: Callable[[int, FrameType | None], None] | signal.Handlers,
) -> Iterator[None]:
    """A block with another handler of the signals."""
    before = {number: signal.signal(number, handler) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, former)


@contextlib.contextmanager
def tear_down() -> Iterator[None]:
    """A block that the signals do not interrupt; they are forgotten."""
    with _handled_by(signal.SIG_IGN):
        signal.setitimer(signal.ITIMER_REAL, 0)
        yield


@contextlib.contextmanager
def postponed() -> Iterator[None]:
    """A block that the signals do not interrupt; one that comes meanwhile follows it."""
    came: list[int] = []
    with _handled_by(lambda number, frame: came.append(number)):
        yield
    for number in came:
        signal.raise_signal(number)


def exit_code() -> int:
    """Exit code that a shell expects of a program that a signal has ended: 130 for Ctrl-C.

    Called when the interrupt has arrived, so it does not come again."""
    signal.setitimer(signal.ITIMER_REAL, 0)
    return 128 + _received


def reason() -> str:
    """Cause of the program's end, as its last line."""
    if _received == signal.SIGINT:
        return "stopped by you"
    return (
        "stopped: its terminal was closed" if _received == signal.SIGHUP else "stopped by SIGTERM"
    )


class Ended(BaseException):
    """A signal that is to end the program came while a prompt was open. Not a KeyboardInterrupt,
    which a prompt takes for the wish to stop one command."""


@contextlib.contextmanager
def at_prompt() -> Iterator[None]:
    """A block in which a user types commands: Ctrl-C is one KeyboardInterrupt, for the prompt. The
    other signals end the block; KeyboardInterrupt follows it."""
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    signal.setitimer(signal.ITIMER_REAL, 0)
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, _end)
        yield
    except Ended:
        raise KeyboardInterrupt from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(number: int, frame: object) -> None:
    global _received
    _received = signal.Signals(number)
    if number == signal.SIGHUP:
        _leave_closed_terminals()
    raise Ended


def _interrupt(number: int, frame: object) -> None:
    global _received
    _received = signal.Signals(number)
    if number == signal.SIGHUP:
        _leave_closed_terminals()
    signal.setitimer(signal.ITIMER_REAL, _AGAIN_S)
    raise KeyboardInterrupt


def _leave_closed_terminals() -> None:
    for stream in _terminals:
        if not os.isatty(stream):
            nowhere = os.open(os.devnull, os.O_RDWR)
            os.dup2(nowhere, stream)
            os.close(nowhere)


def _repeat(number: int, frame: object) -> None:
    signal.setitimer(signal.ITIMER_REAL, _AGAIN_S)
    raise KeyboardInterrupt
