"""Aggregators that a dead or ended job has filled become free for others."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from testbed import dataplane
from testbed.protocols import wire
from tests.support.experiments import setup_of
from tests.support.fabric import NEVER, US
from tests.support.histories import cases
from tests.support.histories.history import History, Pause
from tests.support.switches import OneSwitch
from tests.support.switchml import SlotSwitch

DIES_NS = 60 * US


def kill_job_zero(text: str):
    """The network after job 1's end. Job 0 has left what two of its three workers sent first."""
    deaths = tuple(Pause(host, DIES_NS, NEVER) for host in ("h1", "h2", "h4"))
    deaths += (Pause("h3", 0, NEVER),)
    network = cases.network_of(setup_of(text), History(deaths))
    failure = network.play()
    assert not failure, failure
    assert {worker.spec.job.number for worker in network.workers()} == {1}
    return network


def occupied(network) -> dict[int, int]:
    """Aggregators that each job fills at the end."""
    found = dataplane.occupancy(network.setup.platform, network.switches["s1"])
    return {job: filling + held for job, filling, held in found}


def counters(network, switch: str) -> dict[tuple[int, str], int]:
    """A switch's counters by (job, name)."""
    found = dataplane.counters(network.setup.platform, network.switches[switch])
    return {(job, name): value for job, name, value in found}


def many_iterations(text: str) -> str:
    return text.replace("iterations: 3, start: 30 us", "iterations: 20, start: 30 us")


def test_a_dead_jobs_aggregators_are_taken_by_downgrading():
    text = cases.text_of("esa", aggregators=16, priority="constant")
    network = kill_job_zero(many_iterations(text))
    assert counters(network, "s1")[0, "ended_evicted"] > 0, "nothing was left to be taken"
    assert occupied(network)[0] == 0


def test_a_dead_jobs_aggregators_age():
    text = cases.text_of("atp", max_age="200 us", index="consecutive")
    network = kill_job_zero(many_iterations(text))
    assert counters(network, "s1")[1, "ghosts"] > 0, "nothing was left to be taken"
    assert occupied(network)[0] == 0


def test_partial_and_collided_packets_are_not_aggregated_above():
    """A partial or a collided packet never claims an aggregator of the servers' switch."""
    text = cases.text_of("esa", "racks")
    network = cases.network_of(setup_of(text), History())
    failure = network.play()
    assert not failure, failure
    counted = counters(network, "s3")
    passed = counted[0, "passes"] + counted[1, "passes"]
    flagged = 0
    for passage in network.passages:
        flags = int.from_bytes(passage.frame[44:46], "big")
        if passage.neighbour == "s3" and passage.node in ("s1", "s2"):
            flagged += bool(flags & (wire.PARTIAL | wire.COLLISION))
    assert flagged >= 10 and passed == flagged, (flagged, passed)


def test_an_ended_jobs_aggregators_are_free_for_others():
    """The control plane says that a job has ended; who comes next takes what it has left. The job's
    number is another's only then."""
    for system in ("esa", "atp"):
        switch = OneSwitch(system=system, **({"downgrading": "false"} if system == "esa" else {}))
        switch.gradient(0, 0, priority=255)
        assert switch.gradient(1, 0, priority=1)[0].flags == wire.COLLISION
        setup, control = switch.setup, switch.switch
        ended = setup.platform, setup.jobs[0], "s1", control
        setup.platform.scheme.release(*ended)
        assert not setup.platform.scheme.renew(*ended)
        assert switch.gradient(1, 0, priority=1) == []
        assert setup.platform.scheme.renew(*ended)
        assert control.register_read("job_gone", 0, 1) == [0]
        assert switch.occupancy() == [(0, 0, 0), (1, 1, 0)]
        assert switch.counters(1)["ghosts"] == 1


class _LatePackets:
    """A switch's control interface. A packet reaches the switch after each batch but a dump, before
    which the job still is in its table."""

    def __init__(self, switch: SlotSwitch, packets: list[Callable[[], object]]) -> None:
        self._switch, self._packets = switch, packets

    def batch(self, calls):
        found = self._switch.switch.batch(calls)
        if self._packets and calls[0][0] != "table_dump":
            self._packets.pop(0)()
        return found


@pytest.mark.parametrize("sets", [1, 2])
def test_packets_of_a_killed_job_that_are_still_on_their_way_change_no_counts(sets):
    """After each of the control plane's batches one comes that would complete a chunk."""
    switch = SlotSwitch(sets=sets)
    for number in (0, 1):
        switch.chunk(0, 0, number=number)
        switch.chunk(0, 1, number=number)
    switch.chunk(1, 0)
    late = [partial(switch.chunk, 0, 2, number=number) for number in (0, 1)]
    switch.setup.platform.scheme.release(
        switch.setup.platform, switch.setup.jobs[0], "s1", _LatePackets(switch, late)
    )
    assert switch.occupancy() == [(0, 0, 0), (1, 1, 0)]
    counted = switch.counters(0)
    assert counted["ended_discarded"] == counted["allocations"] == 2
