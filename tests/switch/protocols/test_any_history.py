"""Every system against its compiled P4 program, whatever is lost, doubled or held up: all values
arrive exactly, in packets that the contract of the wire allows.

Hypothesis draws a system's options, a network, formats of packets, and a history; it makes one that
breaks a system small, which is then told (tests/support/histories/history.py).
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st
from p4fabric.base.errors import UserError

from testbed.protocols import server_store, wire
from testbed.protocols.sizes import FRAME_OVERHEAD
from tests.support.budget import Budget
from tests.support.experiments import setup_of
from tests.support.fabric import lossy, run_exact
from tests.support.histories import cases
from tests.support.histories.history import LIMIT_NS, Fault, History, Network, histories, tell
from tests.support.paths import ROOT
from tests.support.recordings import sparse, write_recording
from tests.support.switches import ADDED_TWICE, change_program
from tests.support.wire_tap import TAP

SHARE = 1 / 8  # of a property's usual budget, for each system


@pytest.fixture(scope="module")
def recording(tmp_path_factory) -> Path:
    return write_recording(tmp_path_factory.mktemp("sparse") / "sparse.npz", 3, values=sparse)


def check(network: Network, limit_ns: int = LIMIT_NS) -> None:
    """Everything that holds after each history."""
    failure = network.play(limit_ns)
    if failure:
        TAP.forget()
        raise AssertionError(tell(network, failure))
    TAP.check()


def check_indices(network: Network) -> None:
    """All workers look for a fragment at the same aggregator, whichever other results they have
    when they send it: once its own is on its way, they send it for another worker.

    Except where a switch sends results and frames are doubled: the switch may complete a fragment
    with one copy and the server with the other, and only the server's result has a new index."""
    options = [host.spec.options for host in network.hosts.values() if not host.is_worker]
    delivered = any(getattr(option, "delivered", False) for option in options)
    if delivered and any(len(passage.extra_ns) > 1 for passage in network.passages):
        return
    indices: dict[tuple[bytes, bytes], set[bytes]] = defaultdict(set)
    done: set[tuple[str, bytes, bytes]] = set()
    for passage in network.passages:
        head = passage.frame[FRAME_OVERHEAD:]
        kind, fragment = head[0] & 7, (head[4:6], head[8:12])
        by_worker = passage.node in network.hosts and (passage.node, *fragment) not in done
        if kind in (wire.RESULT, wire.RESULT_ONE):
            done.add((passage.neighbour, *fragment))
        elif kind == wire.GRADIENT and by_worker:
            indices[fragment].add(head[12:16])
    several = {key for key, found in indices.items() if len(found) > 1}
    assert not several, several


@pytest.mark.timeout(900)
@pytest.mark.parametrize("system", cases.SYSTEMS)
def test_any_history_ends_with_every_value_right(system, recording, budget: Budget, request):
    """Where nothing is lost, no worker's timer has to end. A server may keep few results."""
    budget.seconds *= SHARE

    @settings(
        max_examples=10 * budget.examples,
        derandomize=not request.config.getoption("--slow"),
        suppress_health_check=[*HealthCheck],
        deadline=None,
    )
    @given(st.data())
    def holds(data: st.DataObject) -> None:
        lossless, few = data.draw(st.booleans()), data.draw(st.booleans())
        text = data.draw(cases.texts(system, recording, lossless))
        try:
            setup = setup_of(text)
        except UserError:
            reject()
        history = data.draw(histories(setup, lossless))
        if budget.is_spent():
            return
        with budget.example(), pytest.MonkeyPatch.context() as patch:
            if few:
                patch.setattr(server_store, "KEPT_WINDOWS", 0)
                patch.setattr(server_store, "KEPT_ROWS", 3)
            limit_ns = cases.PATIENCE_NS if lossless else LIMIT_NS
            network = cases.network_of(setup, history)
            check(network, limit_ns)
            if not few:  # else a result that is made anew may bring another index
                check_indices(network)

    holds()
    assert budget.done > 1


def test_a_failing_history_is_told(monkeypatch, tmp_path):
    """What happened, and the wrong fragment's way. The switch adds a packet that comes twice."""
    change_program(monkeypatch, tmp_path, "esa.p4", *ADDED_TWICE)
    faults = Fault("h9", "s1", 1, (5000,)), Fault("h2", "s1", 3, (0, 1000))
    setup = setup_of(cases.text_of("esa", aggregators=16))
    with pytest.raises(AssertionError) as caught:
        check(cases.network_of(setup, History(faults, 3)))
    lines = str(caught.value).splitlines()
    assert "wrong value in fragment" in lines[0] and lines[1] == "2 events:"
    assert "HELD UP FOR 5 US" in lines[2] or "(no such frame)" in lines[2]
    assert "gradient" in lines[3] and "DOUBLED, THE COPY 1 US LATER" in lines[3]
    assert lines[4].startswith("wires take longer, by us: h1 -> s1 ")
    way = "\n".join(lines[5:])
    assert "on the wires" in way and "gradient" in way and "result" in way


PLAIN = """
import sys, warnings
from tests.support.fabric import lossy, run_exact
warnings.simplefilter("ignore", RuntimeWarning)  # integers that wrap
fabric = run_exact(sys.argv[1], lossy(1, 0.05, 0.05, 0.05))
print(fabric.now, fabric.frames)
"""


def test_plain_python_does_the_same():
    """Without numba, the same packets at the same times: also what mutants of hosts run on."""
    text = cases.text_of("esa")
    fabric = run_exact(text.replace("%", "%%"), lossy(1, 0.05, 0.05, 0.05))
    done = subprocess.run(
        [sys.executable, "-c", PLAIN, text.replace("%", "%%")],
        cwd=ROOT,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == [str(fabric.now), str(fabric.frames)]
