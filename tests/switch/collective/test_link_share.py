"""Share of a link's rate that the all-reduce of a program uses, in virtual time.

Hosts answer as late as processes that have to be woken. Nothing is lost, so no timer may send
anything twice, and a long array must take about the time that the links allow (docs/training.md).
ATP takes three later results for a loss, also where a fragment had only found its aggregator taken.
"""

from __future__ import annotations

import numpy as np
import pytest
from p4fabric_testing.matrix import first_of

from bench.allreduce import least_s
from tests.support.programs import SlowNetwork

RANKS = 4
VALUES = 1_250_000  # more than a round and a call have room for
TEXT = """
name: test
topology: {kind: star, hosts: 5}
links: {bandwidth: 100 Mbit/s}
system: {name: %s}
memory: {aggregators: 4096}
jobs:
  - {name: sums, command: "true", workers: 4}
"""


@pytest.mark.parametrize("system", first_of(["esa", "atp", "switchml", "grid"], 1))
def test_a_long_array_keeps_a_slow_link_busy(system):
    network = SlowNetwork(TEXT % system, host_us=700, words=2 * VALUES)
    arrays = [job.empty(VALUES) for job in network.jobs]
    for rank, array in enumerate(arrays):
        array[:] = rank + 1
    handles = [
        job.allreduce_async(array, out=array)
        for job, array in zip(network.jobs, arrays, strict=True)
    ]
    for handle, array in zip(handles, arrays, strict=True):
        handle.wait()
        assert (array == RANKS * (RANKS + 1) / 2).all()
    taken_for_lost = network.counted("gap_resends") if system == "atp" else [0] * RANKS
    assert network.counted("retransmissions") == taken_for_lost
    assert max(taken_for_lost) <= VALUES // 64 // 1000
    assert network.counted("marked_results") == [0] * RANKS
    least = least_s(system, RANKS, VALUES, 100)
    assert 1 <= network.done_ns() / 1e9 / least < 1.1


def test_two_arrays_share_a_slow_link_in_the_order_of_their_layers():
    """The front one is submitted later, and overtakes."""
    network = SlowNetwork(TEXT % "esa, order: front", host_us=700, words=4 * VALUES)
    rear = [job.allreduce_async(np.ones(500_000, np.float32), layer=1) for job in network.jobs]
    front = [job.allreduce_async(np.ones(50_000, np.float32)) for job in network.jobs]
    for handle in front:
        assert (handle.wait() == RANKS).all()
    assert not any(handle.done() for handle in rear)
    for handle in rear:
        assert (handle.wait() == RANKS).all()
    assert network.counted("retransmissions") == [0] * RANKS
