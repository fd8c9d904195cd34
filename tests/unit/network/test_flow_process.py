"""Send times of the small senders of background flows."""

from __future__ import annotations

import socket

import pytest

from testbed.network import flow_process
from testbed.network.flow_process import SECOND, STILL_NS, Backlog, packets_due, sending_until

FLOW = {"start_ns": 100, "end_ns": None, "on_ns": None, "off_ns": None}
PULSED = FLOW | {"on_ns": 10, "off_ns": 30, "end_ns": 185}


def test_when_a_flow_sends():
    assert sending_until(FLOW, 99) == (False, 100)
    assert sending_until(FLOW, 100) == (True, -1)
    assert sending_until(FLOW | {"end_ns": 150}, 120) == (True, 150)
    assert sending_until(FLOW | {"end_ns": 150}, 150) == (False, -1)
    assert sending_until(PULSED, 105) == (True, 110)
    assert sending_until(PULSED, 110) == (False, 140)
    assert sending_until(PULSED, 182) == (True, 185)


@pytest.mark.parametrize("flow", [FLOW, FLOW | {"end_ns": 170}, PULSED])
@pytest.mark.parametrize("interval_ns", [1, 3, 5.5, 12])
def test_packets_due_are_those_of_a_step_by_step_count(flow, interval_ns):
    due, phase_ns, counted = 0, None, []
    for now_ns in range(300):
        on = sending_until(flow, now_ns)[0]
        if not on:
            phase_ns = None
        elif phase_ns is None:
            phase_ns, due = now_ns, due + 1
            sent_at = 1
        while on and phase_ns is not None and phase_ns + sent_at * interval_ns <= now_ns:
            sent_at, due = sent_at + 1, due + 1
        counted.append(due)
    found = [packets_due(flow, interval_ns, now_ns) for now_ns in range(300)]
    if flow["end_ns"] is not None:  # the packet due at the very end may count
        counted, found = counted[: flow["end_ns"]], found[: flow["end_ns"]]
    assert found == counted


def grows(backlogs: list[int], each_ns: int = 1_000_000_000) -> list[bool]:
    backlog = Backlog()
    return [backlog.grows(packets, n * each_ns) for n, packets in enumerate(backlogs, 1)]


def test_a_sender_that_falls_further_behind_for_ten_seconds_is_given_up():
    assert grows([100 * n for n in range(1, 12)]) == [False] * 9 + [True, True]
    # The machine stood still, and the sender catches up; a second without growth begins anew.
    assert not any(grows([0, 0, 9000, *range(8000, 0, -500), 0, 0]))
    assert not any(grows([*range(1, 10), 9, *range(10, 19)]))
    # It is looked at once a second, however often it is asked.
    assert grows(list(range(1, 101)), 100_000_000) == [False] * 99 + [True]


def test_a_process_notes_that_it_stood_still(monkeypatch):
    """Waiting does not count, however long; what a wait takes beyond its time does."""
    clock = [0]
    extra: list[int] = []  # that waits take beyond their time

    def wait(_reading, _writing, _failed, wait_s):
        clock[0] += int(wait_s * SECOND) + (extra.pop(0) if extra else 0)
        return [], [], []

    monkeypatch.setattr(flow_process.time, "monotonic_ns", lambda: clock[0])
    monkeypatch.setattr(flow_process.select, "select", wait)
    control = flow_process.Control(socket.socket())
    with control.channel:
        control.sleep_until(10 * SECOND)
        assert (clock[0], control.still_ns) == (10 * SECOND, 0)
        extra[:] = [STILL_NS, 3 * SECOND, 0, STILL_NS + 1]
        control.sleep_until(20 * SECOND)
        assert control.still_ns == 3 * SECOND + STILL_NS + 1
        clock[0] += SECOND  # between two waits
        control.sleep_until(21 * SECOND)
        assert control.still_ns == 4 * SECOND + STILL_NS + 1
        due_ns = clock[0] + SECOND // 30  # less than its longest sleep
        control.sleep_until(due_ns)
        assert abs(clock[0] - due_ns) <= 1
