"""Every system against its compiled P4 program, under random loss, duplication and delay.

A history that breaks a system is shrunk to the few events that matter, and told
(tests/support/histories/history.py). The same seeds are drawn every time.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest

from tests.support.histories import cases
from tests.support.histories.history import Chances, explain, hunt, shrink, tell
from tests.support.matrix import first_of
from tests.support.paths import ROOT
from tests.support.switches import ADDED_TWICE, change_program

# A case is one experiment; that many histories of each.
HISTORIES = 4
CASES = [
    *((system, "star") for system in cases.SYSTEMS),
    *((system, "deep") for system in cases.IN_NETWORK),
    ("esa", "cycle"),
    ("grid", "racks"),
]  # always
ALL = [
    *CASES,
    *(
        (system, network)
        for system in cases.IN_NETWORK
        for network in ("racks", "cycle")
        if (system, network) not in CASES
    ),
]


def survive(system: str, network: str, numbers: range) -> None:
    """Every value arrives exactly, whatever is lost, doubled or held up."""
    for number in numbers:
        run = cases.run_of_text(cases.drawn(system, number, network))
        found = hunt(run, range(HISTORIES * number, HISTORIES * (number + 1)))
        assert found is None, cases.drawn(system, number, network) + explain(run, found)


def survive_without_timers(system: str, network: str, numbers: range, **fixed: object) -> None:
    """Packets that are doubled and held up, but not lost, never make a host wait for a timeout."""
    for number in numbers:
        text = cases.drawn(system, number, network, **cases.patient(system), **fixed)
        run = cases.run_of_text(text, cases.PATIENCE_NS)
        found = hunt(run, range(HISTORIES * number, HISTORIES * (number + 1)), lossless=True)
        assert found is None, text + explain(run, found)


@pytest.mark.parametrize("system, network", first_of(ALL, len(CASES)))
def test_histories(system, network):
    survive(system, network, range(1))


@pytest.mark.parametrize("system, network", first_of(ALL, len(CASES)))
def test_lossless_histories_need_no_timers(system, network):
    survive_without_timers(system, network, range(1))


@pytest.mark.parametrize("network", cases.NETWORKS)
def test_lossless_histories_of_slots_with_one_set(network):
    survive_without_timers("switchml", network, range(1), sets=1)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("system, network", ALL)
def test_many_histories(system, network):
    survive(system, network, range(1, 9))


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("system, network", ALL)
def test_many_lossless_histories_need_no_timers(system, network):
    survive_without_timers(system, network, range(1, 6))


def test_a_failing_history_is_shrunk_and_told(monkeypatch, tmp_path):
    """A switch that adds a known worker again is wrong after a doubled packet or two."""
    change_program(monkeypatch, tmp_path, "esa.p4", *ADDED_TWICE)
    run = cases.run_of_text(cases.text_of("esa", aggregators=16))
    all_found = (hunt(run, [seed]) for seed in range(40))
    found = next(f for f in all_found if f is not None and len(f.history.events) > 25)
    history = shrink(run, found.history, found.failure)
    assert 1 <= len(history.events) <= 3
    for event in history.events:  # none is there in vain
        fewer = tuple(other for other in history.events if other != event)
        _, failure = run(replace(history, events=fewer), False)
        assert "wrong value" not in failure
    lines = tell(run, history).splitlines()
    assert "wrong value in fragment" in lines[0]
    assert lines[1] == f"{len(history.events)} events:"
    # What happened, and then the wrong fragment's way: workers' packets and the wrong result.
    assert "DOUBLED" in lines[2] or "HELD UP" in lines[2] or "LOST" in lines[2]
    way = "\n".join(lines[2 + len(history.events) :])
    assert "on the wires" in way and "gradient" in way and "result" in way


def test_plain_python_does_the_same(tmp_path):
    """Without numba, the same packets at the same times: also what mutants of hosts run on."""
    text = cases.text_of("esa")
    seeds = range(3)
    expected = []
    for seed in seeds:
        network, failure = cases.run_of_text(text)(Chances(seed), False)
        expected.append([seed, network.now, network.frames, failure])
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.histories", text, str(len(seeds))],
        cwd=ROOT,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == expected
