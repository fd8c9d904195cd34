"""Signals that become KeyboardInterrupt, and when they do."""

from __future__ import annotations

import os
import signal

import pytest

from testbed.runtimes import interrupts


@pytest.fixture
def installed():
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM)
    before = {number: signal.getsignal(number) for number in numbers}
    interrupts.install()
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_postponed_signal_follows_the_block(installed):
    reached = False
    with pytest.raises(KeyboardInterrupt), interrupts.postponed():
        os.kill(os.getpid(), signal.SIGTERM)
        reached = True
    assert reached and interrupts.exit_code() == 128 + signal.SIGTERM
