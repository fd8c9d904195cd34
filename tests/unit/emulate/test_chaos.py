"""Events of chaos before anything is run: what is drawn, and what is taken for a broken run."""

from __future__ import annotations

from typing import Any

import pytest

from testbed.experiment import load_text
from tests.support.chaos.invariants import broken, outcome
from tests.support.chaos.one_run import Done, Ended
from tests.support.chaos.plans import KINDS, PLAIN_EVERY, SYSTEMS, Happening, Moment, Plan, draw

JOB = {"name": "a", "outcome": "finished", "exact": True, "values": 10, "iterations": 2}
JOB |= {"workers": 3, "values_checked": 60}


def ended(code: int = 0, *done: Done, **more: Any) -> Ended:
    """A run that has finished; `more`: attributes that are different."""
    made = Ended(Plan(1, 1, "esa"), 1, code, 3.0, "", "", list(done), True)
    made.state, made.jobs = "finished", [dict(JOB)]
    for name, value in more.items():
        setattr(made, name, value)
    return made


def happened(what: str, victim: str, title: str, signal: str = "SIGKILL") -> Done:
    moment = Moment("command", 1.0)
    return Done(Happening(what, moment, victim, signal=signal), 1.0, [title])


def failed(cause: str) -> dict[str, str]:
    return {"state": "failed", "error": cause, "errors": f"failed: {cause}\n"}


def test_an_event_follows_from_its_seed_and_number():
    assert draw(1, 7) == draw(1, 7) != draw(2, 7)
    plans = [draw(1, number) for number in range(300)]
    assert {plan.system for plan in plans} == set(SYSTEMS)
    assert {kind for plan in plans for kind in plan.kinds} == set(KINDS)
    assert not any(plan.kinds or plan.setting for plan in plans[::PLAIN_EVERY])


def test_every_experiment_is_sound_and_has_a_stranger():
    for number in range(60):
        plan = draw(5, number)
        assert load_text(plan.experiment).jobs
        assert plan.stranger not in plan.experiment.replace(",", " ").replace("]", " ").split()


H2 = "the process of host h2 (worker 0 of job a)"


def killed(kind: str, what: str, told: str) -> Ended:
    """A run that has failed after a kill, and what it says was killed."""
    return ended(1, happened("kill", kind, what), **failed(f"{told} was killed by signal 9"))


@pytest.mark.parametrize(
    "sound",
    [
        ended(),
        ended(130, happened("signal", "runner", "the runner", "SIGINT"), state="interrupted"),
        ended(-9, happened("signal", "runner", "the runner"), state="killed"),
        killed("host", "ina host h2", H2),
        killed("namespace", "ina namespace s1", "the process that holds the namespace of s1"),
        killed("pool", "ina host pool", "the host pool (process 12)"),
    ],
)
def test_a_run_that_keeps_its_promises(sound):
    assert broken(sound) == []


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (ended(state="running"), "says running"),
        (ended(jobs=[]), "no job"),
        (ended(jobs=[JOB | {"values_checked": 59}]), "59 of 60"),
        (ended(jobs=[JOB | {"exact": False}]), "60 of 60"),
        (ended(in_time=False), "had not ended"),
        (ended(left=["process 3"]), "process 3"),
        (ended(errors="Traceback (most recent call last)\n"), "traceback"),
        (ended(3), "exit code 3"),
        (ended(2, errors="error: no\n", state=""), "refused"),
        (ended(1, **failed("nobody did anything")), "not the one"),
        (killed("host", "ina host h2", H2.replace("h2", "h22")), "not the one"),
        (killed("pool", "ina host pool", H2), "not the one"),
        (ended(1, happened("kill", "host", "ina host h2"), errors="failed: x\n"), "not the one"),
        (ended(130, state="interrupted"), "nobody sent"),
        (ended(-9, state="killed"), "nobody did it"),
        (ended(0, happened("signal", "runner", "the runner")), "says that it has finished"),
    ],
)
def test_a_run_that_breaks_one_is_found(found, words):
    assert any(words in each for each in broken(found)), broken(found)


def test_how_a_run_ended_in_a_word():
    words = [outcome(ended(code)) for code in (0, 1, 2, 130, -15, -9, 7)]
    expected = ["finished", "failed", "refused", "interrupted", "interrupted", "killed"]
    assert words == [*expected, "code 7"]
