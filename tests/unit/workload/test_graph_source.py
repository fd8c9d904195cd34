"""The engine of ranks' graphs: turns, carried edges, the order of calls and compute nodes."""

from __future__ import annotations

import numpy as np
import pytest

from testbed.protocols import lag
from testbed.protocols.host_spec import Compute, Tensor
from testbed.workload.graph_source import CALL, COMPUTE, NOTHING, Nodes, Port
from tests.support.graphs import Driven
from tests.support.host_specs import host_spec

MS = 1_000_000


def driven(nodes: Nodes, durations: list[int], iterations: int, tensors: int, ahead: int) -> Driven:
    job = {
        "tensors": tuple(Tensor(str(number), 4, 0, 0) for number in range(max(1, tensors))),
        "iterations": iterations,
    }
    spec = host_spec(job, compute=Compute())
    graph = nodes.graph(spec, 0, [[each * MS for each in durations]], ahead=ahead, timed=True)
    port = Port(graph, np.zeros(1, np.int64), lag.new_lag())
    return Driven(port, [4] * max(1, tensors), iterations)


@pytest.mark.parametrize("ahead, ends", [(0, [4, 8, 12]), (1, [4, 7, 10])])
def test_an_iteration_may_begin_before_the_one_before_it_is_over(ahead, ends):
    """A step of 3 ms, and one of 1 ms after it that the next iteration's first step need not wait
    for; a call takes no time, and the processor takes the older iteration first."""
    nodes = Nodes()
    first = nodes.add(COMPUTE, carried=[0])
    second = nodes.add(COMPUTE, [first])
    nodes.add(NOTHING, [second])
    loop = driven(nodes, [3, 1, 0], 3, 0, ahead)
    loop.run(100 * MS)
    if ahead:  # one processor: iteration 1 ends with the second step, after the first
        assert loop.graph.start_ns.tolist()[1] <= 4 * MS
    assert loop.graph.end_ns.tolist()[0] == ends[0] * MS
    assert loop.graph.state.iteration == 3
    busy = 3 * 4 * MS
    assert loop.graph.end_ns.tolist()[2] == busy


def test_no_node_is_more_than_one_iteration_ahead():
    """A call whose sum never comes holds up the iteration after the next, not the next."""
    nodes = Nodes()
    compute = nodes.add(COMPUTE, carried=[0])
    nodes.add(CALL, [compute], port=0, tensor=0)
    loop = driven(nodes, [5, 0], 4, 1, ahead=1)
    loop.run(1000 * MS)
    assert loop.graph.compute_end_ns.tolist() == [5 * MS, 10 * MS, -1, -1]
    assert loop.scoreboard.state.iteration == 0  # the next call waits for the sum
    loop.arrive(0, 1000 * MS)
    loop.run(1001 * MS)
    assert loop.graph.end_ns.tolist() == [1000 * MS, -1, -1, -1]
    assert loop.scoreboard.state.iteration == 1
    assert loop.scoreboard.ready_ns[1, 0] == 10 * MS
    loop.run(1100 * MS)
    assert loop.graph.compute_end_ns[2] > 0 and loop.graph.compute_end_ns[3] == -1


def test_calls_begin_in_their_order_and_end_in_any():
    nodes = Nodes()
    slow, fast = nodes.add(COMPUTE), nodes.add(COMPUTE)
    one = nodes.add(CALL, [fast], port=0, tensor=1)
    two = nodes.add(CALL, [slow], port=0, tensor=0)
    after = nodes.add(COMPUTE, [two])
    last = nodes.add(COMPUTE, [one, after])
    loop = driven(nodes, [10, 20, 0, 0, 1, 2], 1, 2, ahead=0)
    loop.run(29 * MS)
    assert not loop.scoreboard.ready.any()  # the first call waits for the second step
    loop.run(30 * MS)
    assert loop.scoreboard.ready_ns.tolist() == [[30 * MS, 30 * MS]]
    loop.arrive(0, 40 * MS)
    loop.run(41 * MS)
    assert loop.graph.turn[[one, two, after, last]].tolist() == [0, 1, 1, 0]
    loop.arrive(1, 50 * MS)
    loop.run(52 * MS)
    assert loop.graph.end_ns.tolist() == [52 * MS]
    calls = loop.graph.node_end_ns - loop.graph.node_start_ns
    assert calls[0, [one, two]].tolist() == [20 * MS, 10 * MS]
    starts = loop.graph.node_start_ns[0, [slow, fast, after, last]] // MS
    assert starts.tolist() == [0, 10, 40, 50]


def test_of_the_steps_that_may_run_the_first_one_of_the_oldest_iteration_does():
    nodes = Nodes()
    gate = nodes.add(COMPUTE)
    for _ in range(3):
        nodes.add(COMPUTE, [gate])
    loop = driven(nodes, [1, 4, 3, 2], 2, 0, ahead=0)
    order = []
    for tick in range(2 * 10 + 1):
        loop.run(tick * MS)
        running = int(loop.graph.state.running)
        if not order or order[-1] != running:
            order.append(running)
    assert order == [0, 1, 2, 3, 0, 1, 2, 3, -1]
