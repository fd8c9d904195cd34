"""The world of a run in virtual time: the hosts of a job whose links have failed."""

from __future__ import annotations

import pytest
from p4fabric.simulate.event_queue import NEVER, put

from testbed.run_parts.program import prepare
from testbed.setup.job_setups import NewPart
from testbed.simulate import world
from tests.support.experiments import setup_of
from tests.support.link_faults import text


@pytest.fixture
def nodes() -> world.Nodes:
    down = "{at: 400 us, fault: link_down, between: [s1, s3], for: 20 ms}"
    setup = setup_of(text("grid", down))
    return world.build(setup, prepare(setup).compiled)


@pytest.mark.parametrize(
    "due_ns, done, then_ns",
    [(900, 0, 500), (500, 0, 500), (400, 0, 400), (NEVER, 0, NEVER), (900, 1, 900)],
)
def test_a_host_goes_on_another_way_at_once_unless_it_has_nothing_to_do(
    nodes, due_ns, done, then_ns
):
    number, node = next((n, node) for n, node in nodes.present if node.is_worker)
    put(nodes.world.queue, number, due_ns)
    nodes.world.hosts[number].done = done
    new = NewPart(node.spec.job.number, node.spec.number, node.spec.worker_part)
    nodes.on_new_way(new, now_ns=500)
    assert nodes.world.queue.time[number] == then_ns


def test_the_hosts_of_a_job_that_cannot_finish_stop(nodes):
    state, rows = nodes.world.state[0], nodes.world.hosts
    others = [n for n, node in nodes.present if node.spec.job.number != 0]
    own = [n for n, node in nodes.present if node.spec.job.number == 0]
    workers = [n for n in own if nodes.present_at(n).is_worker]
    assert len(workers) == 4 and state.open == 6
    rows[workers[0]].done, state.open = 1, 5  # it has finished already
    before = [nodes.world.queue.time[n] for n in others]
    nodes.stop(0)
    assert state.open == 2 and all(rows[n].done for n in workers)
    assert all(nodes.world.queue.time[n] == NEVER for n in own)
    assert all(nodes.world.leads[rows[n].switch, rows[n].port] == -1 for n in own)
    assert [nodes.world.queue.time[n] for n in others] == before
    assert all(nodes.world.leads[rows[n].switch, rows[n].port] == n for n in others)
    assert not any(rows[n].done for n in others)
