"""Signals that become KeyboardInterrupt, and when they do."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
from p4fabric.base import interrupts
from p4fabric.base.interrupts import install  # itself, which tests do without elsewhere

from tests.support.paths import ROOT


@pytest.fixture
def installed(monkeypatch):
    monkeypatch.setattr(interrupts, "_received", signal.SIGINT)
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM)
    before = {number: signal.getsignal(number) for number in numbers}
    install()
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_postponed_signal_follows_the_block(installed):
    reached = False
    with pytest.raises(KeyboardInterrupt), interrupts.postponed():
        os.kill(os.getpid(), signal.SIGTERM)
        reached = True
    assert reached and interrupts.exit_code() == 128 + signal.SIGTERM


INTERRUPTED_IMPORT = """
import signal, sys

class Interrupts:
    def find_spec(self, name, *_):
        if name == "testbed.experiment.schema":
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Interrupts())
from testbed.cli.main import main
code = main(sys.argv[1:])
assert "testbed.experiment.schema" in sys.modules, "the import was interrupted"
sys.exit(code)
"""


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (signal.SIGINT, "stopped by you"),
        (signal.SIGTERM, "stopped by SIGTERM"),
        (signal.SIGHUP, "stopped: its terminal was closed"),
    ],
)
def test_the_last_line_says_who_has_stopped_it(number, said):
    code = (
        "import signal\nfrom p4fabric.base import interrupts\ninterrupts.install()\n"
        f"try:\n    signal.raise_signal({int(number)})\nexcept KeyboardInterrupt:\n"
        "    code = interrupts.exit_code()\nprint(code, interrupts.reason())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == f"{128 + number} {said}\n"


@pytest.mark.parametrize("words", [[], ["check"], ["sweep"]])
def test_an_interrupt_waits_until_the_schemas_are_imported(words):
    """In the middle of them it can be a panic of pydantic's Rust code, or a RuntimeError."""
    file = str(ROOT / "experiments" / "compare.yaml")
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_IMPORT, *words, file],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "stopped by you\n")
