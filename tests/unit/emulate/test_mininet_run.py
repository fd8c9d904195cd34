"""The end of a repetition on Mininet, with stand-ins for its switches."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from p4engine.control.client import CallError

from testbed.emulate.mininet_run import Repetition
from testbed.errors import RunError
from testbed.experiment import load_text
from tests.support.experiments import BASE


def test_a_switch_that_cannot_be_read_at_the_end_is_named():
    class Gone:
        def __getattr__(self, name):
            raise CallError("connection refused")

    ended = []
    switches = SimpleNamespace(clients={"s1": Gone()}, check=lambda: ended.append(True))
    experiment = load_text(BASE)
    repetition = SimpleNamespace(switches=switches, experiment=experiment, lives={}, stats={})
    with pytest.raises(RunError, match="switch s1 cannot be read: connection refused"):
        Repetition._keep_counts(repetition, "s1")
    assert ended and not repetition.lives
