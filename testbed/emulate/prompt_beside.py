"""Mininet's prompt while jobs run.

The prompt has the main thread, as Mininet and the terminal expect, and another thread watches the
run. When the jobs have ended, the prompt is closed, since the counters must be read then.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from p4fabric.emulate.prompt import open_prompt

if TYPE_CHECKING:
    from p4fabric.emulate.mininet_network import Network


class _Over(BaseException):
    """The jobs have ended while the prompt was open."""


def prompt_beside(network: Network, work: Callable[[], None]) -> None:
    """Do `work` in another thread with the prompt open; the prompt closes when the work is done.
    Leaving it earlier waits for the work. Raises the errors of the work."""
    raised: list[BaseException] = []
    main = threading.main_thread().ident
    assert main is not None
    done = threading.Event()
    open_ = threading.Event()
    open_.set()

    def watch() -> None:
        try:
            work()
        except BaseException as error:
            raised.append(error)
        done.set()
        if open_.is_set():
            signal.pthread_kill(main, signal.SIGUSR1)

    def over(number: int, frame: Any) -> None:
        if open_.is_set():
            open_.clear()
            raise _Over

    before = signal.signal(signal.SIGUSR1, over)
    thread = threading.Thread(target=watch, name="watch", daemon=True)
    try:
        thread.start()
        open_prompt(network)
        open_.clear()
        if not done.is_set():
            print("the prompt is closed; the jobs go on", flush=True)
        thread.join()
    except _Over:
        print("\nthe jobs have ended; the prompt is closed", flush=True)
        thread.join()
    finally:
        open_.clear()
        signal.signal(signal.SIGUSR1, before)
        sys.stdout.flush()
    if raised:
        raise raised[0]
