"""Steps that take long name themselves; others say nothing."""

from __future__ import annotations

import io
import threading

import pytest
from p4fabric.base import steps
from rich.console import Console


class Shown(io.StringIO):
    """Output that says when something has been written."""

    def __init__(self) -> None:
        super().__init__()
        self.lines = threading.Semaphore(0)

    def write(self, text: str) -> int:
        for _ in range(text.count("\n")):
            self.lines.release()
        return super().write(text)

    def wait_for_lines(self, count: int) -> None:
        for _ in range(count):
            assert self.lines.acquire(timeout=60)


def console(shown: io.StringIO, **options) -> Console:
    return Console(file=shown, width=100, **options)


def test_a_short_step_says_nothing():
    shown = Shown()
    with steps.step(console(shown), "nothing much"):
        pass
    assert shown.getvalue() == ""


def test_a_long_step_names_itself_again_and_again(monkeypatch):
    monkeypatch.setattr(steps, "FIRST_S", 0)
    monkeypatch.setattr(steps, "REPEAT_S", 0.01)
    shown, done = Shown(), []
    with steps.step(console(shown), lambda: f"counting to 3: {len(done)}"):
        shown.wait_for_lines(1)
        done.append(1)
        shown.wait_for_lines(2)
    lines = shown.getvalue().splitlines()
    assert lines[0] == "counting to 3: 0 (0 s)" and lines[-1].startswith("counting to 3: 1 (")


def test_on_a_terminal_the_line_is_taken_away(monkeypatch):
    monkeypatch.setattr(steps, "FIRST_S", 0)
    monkeypatch.setattr(steps, "LIVE_S", 0.01)
    shown, asked = Shown(), threading.Event()

    def text() -> str:
        asked.set()
        return "building"

    with steps.step(console(shown, force_terminal=True), text):
        assert asked.wait(60)
    assert "building" in shown.getvalue()
    assert shown.getvalue().rstrip("\n").endswith("\x1b[2K")  # the line is erased


@pytest.mark.parametrize("quiet", [None, Console(quiet=True)])
def test_nobody_looks(quiet, monkeypatch):
    monkeypatch.setattr(steps, "FIRST_S", 0)

    def text() -> str:
        raise AssertionError("nobody asks")

    with steps.step(quiet, text):
        pass


@pytest.mark.parametrize("wanted", [True, False])
def test_within_silence_nothing_is_shown(wanted, monkeypatch):
    monkeypatch.setattr(steps, "FIRST_S", 0)
    shown = Shown()
    with steps.silent(), steps.silent(False), steps.step(console(shown), "hidden"):
        assert steps.live_area(console(shown, force_terminal=True)) is None
    assert shown.getvalue() == ""
    with steps.silent(wanted):
        assert steps.shows_progress(console(shown)) is not wanted
    with steps.step(console(shown), "seen"):
        shown.wait_for_lines(1)
    assert "seen" in shown.getvalue()


def test_an_error_ends_the_step():
    before = threading.active_count()
    with pytest.raises(ValueError), steps.step(console(Shown()), "failing"):
        raise ValueError
    assert threading.active_count() <= before


@pytest.mark.parametrize(("terminal", "waits_s"), [(True, steps.LEAST_S), (False, steps.FIRST_S)])
def test_a_short_step_after_others_that_were_not_shown_names_itself(monkeypatch, terminal, waits_s):
    """Each of them is short, but the terminal must not be silent for long."""
    shown = console(Shown(), force_terminal=terminal)
    monkeypatch.setattr(steps, "_seen_s", 100.0)
    assert steps._patience_s(shown, 100.5) == (steps.FIRST_S - 0.5 if terminal else steps.FIRST_S)
    assert steps._patience_s(shown, 109.0) == waits_s


def test_a_step_that_was_shown_counts(monkeypatch):
    monkeypatch.setattr(steps, "_seen_s", 0.0)
    monkeypatch.setattr(steps, "LEAST_S", 0)
    shown, asked = Shown(), threading.Event()

    def text() -> str:
        asked.set()
        return "building"

    with steps.step(console(shown, force_terminal=True), text):
        assert asked.wait(60)
    assert steps._seen_s > 0
