"""The parts of labs 10 and 11 that judge, without a sandbox: what is no set of tests is told, and
the network in virtual time finds what a worker may not do."""

from __future__ import annotations

import random
import runpy
from types import SimpleNamespace

import pytest

from labs._teacher import solution
from labs.grader.failure import Failure
from labs.lab10_tests import checks
from labs.lab11_worker.network import MS, US, Line, Record, run
from labs.tests.support import InProcess


def _tests(text: str) -> list[checks.Test]:
    return checks.tests(SimpleNamespace(read=lambda name: text))


def test_tests_keep_their_lines():
    one, two = _tests("# mine\n#: first\npacket 1 00\n#:second\nno_packet\n")
    assert (one.name, two.name) == ("first", "second")
    assert one.stf.splitlines()[2] == "packet 1 00" and two.stf.splitlines()[4] == "no_packet"
    assert "no_packet" not in one.stf


@pytest.mark.parametrize(
    "text, told",
    [
        ("", "has 0 tests"),
        ("packet 1 00\n", "has 0 tests"),
        ("#: alone\n", "has 1 tests"),
        ("#: a\n" * 21, "has 21 tests"),
        ("#: a\n" + "wait\n" * 200 + "#: b\n", "line 1: a test has at most 200 lines"),
        ("#: a\n#: b\nregister_write current 0 1\n", "line 3: register_write is not for"),
        ("#: a\n  check_counter c(0) packets == 1\n#: b\n", "line 2: check_counter is not for"),
    ],
)
def test_what_is_no_set_of_tests_is_told(text, told):
    with pytest.raises(Failure, match=told):
        _tests(text)


@pytest.fixture(scope="module")
def worker() -> type:
    return runpy.run_path(str(solution("lab11_worker") / "worker.py"))["Worker"]


def _run(kind: type, line: Line, seed: int = 1, fragments: int = 60, window: int = 8) -> Record:
    bench = SimpleNamespace(random=random.Random(seed))
    return run(bench, InProcess(kind), fragments, window, line)


def test_without_loss_the_network_is_a_pipe(worker):
    made = _run(worker, Line(lambda now: 50 * US))
    assert made.again == 0 and len(made.results) == 60
    # Eight fragments every round trip of 100 us, in a window of eight.
    assert made.end_ns == 8 * 100 * US
    assert [at for at, _ in made.sent] == [n // 8 * 100 * US for n in range(60)]


@pytest.mark.parametrize("seed", range(5))
def test_losses_and_copies_come_in_the_shares_that_were_asked_for(worker, seed):
    made = _run(worker, Line(lambda now: 50 * US, loss=0.2, copies=0.5), seed, fragments=400)
    # A round trip gets through with 0.8 * 0.8, so a fragment takes 1.56 packets.
    assert 1.35 < len(made.sent) / 400 < 1.85


def test_nothing_gets_through_a_dead_time(worker):
    dead = (1 * MS, 20 * MS)
    made = _run(worker, Line(lambda now: 50 * US, dead_ns=dead), fragments=200)
    assert not [at for at in made.results.values() if dead[0] + 50 * US < at < dead[1] + 100 * US]


def test_timeouts_are_those_of_the_hand_out(worker):
    """The network computes what the solution does, whatever comes back when."""
    rng = random.Random(3)
    line = Line(lambda now: rng.randrange(20, 90) * US, loss=0.1, copies=0.2)
    made = _run(worker, line, fragments=400)
    first = [(times[1] - times[0], n) for n in range(400) if len(times := made.times(n)) > 1]
    assert len(first) > 40
    for wait, n in first:
        assert wait == pytest.approx(made.timeouts[n], abs=2)


@pytest.mark.parametrize("last_us", [10, 140])
def test_timeouts_follow_round_trips_that_change(worker, last_us):
    made = _run(worker, Line(lambda now: 100 * US if now < 2 * MS else last_us * US), fragments=800)
    expected = max(1.5 * 2 * last_us * US, 20 * US)
    assert made.timeouts[799] == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize(
    "method, told",
    [
        (lambda self, now: [0] if now == 0 else [70], "there is no fragment 70"),
        (lambda self, now: [8], "while its slot is in use"),
        (lambda self, now: [0], "a fragment is sent whose result is here"),
        (lambda self, now: "0", "no list of fragment numbers"),
        (lambda self, now: [True], "no list of fragment numbers"),
    ],
)
def test_what_a_worker_may_not_send_is_told(method, told, worker):
    kind = type("Wrong", (worker,), {"poll": method})
    with pytest.raises(Failure, match=told):
        _run(kind, Line(lambda now: 50 * US))


@pytest.mark.parametrize("wake", [0, -1, 1.5, True])
def test_a_time_that_is_not_later_is_told(wake, worker):
    kind = type("Wrong", (worker,), {"wake_ns": lambda self: wake})
    with pytest.raises(Failure, match="no later time"):
        _run(kind, Line(lambda now: 50 * US))


def test_a_worker_that_gives_up_is_told(worker):
    kind = type("Wrong", (worker,), {"wake_ns": lambda self: None, "poll": lambda self, now: []})
    with pytest.raises(Failure, match="60 of 60 results have not come"):
        _run(kind, Line(lambda now: 50 * US))
