"""What a system's jobs, hosts and switches are told when a link has failed."""

from __future__ import annotations

import pytest

from testbed.dataplane.table_calls import TO_SERVER
from testbed.experiment import load_text
from testbed.schemes import set_up
from testbed.setup.rerouting import Rerouting
from tests.support.link_faults import text

FAILS = "{at: 150 ms, fault: link_down, between: [s1, s3], failover: 100 ms, for: 400 ms}"


def rerouted(system, ended=()):
    """The setups before and after link s1-s3 has failed, and the parts for hosts."""
    setup = set_up(load_text(text(system, FAILS)))
    rerouting = Rerouting(setup)
    rerouting.change(setup.link_changes[0])
    made = rerouting.reroute(ended)
    return setup, made


def calls(setup, switch, job):
    found = []
    setup.platform.scheme.job_tables(setup.platform, switch, setup.jobs[job], found)
    return found


@pytest.mark.parametrize("system", ["esa", "atp"])
def test_a_pool_aggregates_on_the_new_paths_and_its_server_reminds_all_that_hold_sums(system):
    before, made = rerouted(system)
    for job in (0, 1):
        assert before.jobs[job].group.routed_tree.switches == ("s1", "s2", "s3")
        tree = made.setup.jobs[job].group.routed_tree
        assert (tree.switches, tree.former) == (("s1", "s2", "s4"), {"s3"})
    told = [(part.job, part.number, part.part.reached) for part in made.parts]
    assert told == [(0, 4, ((1, 1, 1, 1),)), (1, 2, ((1, 1, 1, 1),))]
    assert before.jobs[0].group.reminded == made.setup.jobs[0].group.reminded
    # What s3 still holds goes to the server when it is asked for.
    actions = [call[2] for call in calls(made.setup, "s3", 0) if call[0] == "table_add"]
    assert actions == ["to_server"]


def test_a_pools_job_that_has_ended_stays_as_it_was():
    before, made = rerouted("esa", ended=(1,))
    assert {part.job for part in made.parts} == {0}
    assert made.setup.jobs[1].group.routed_tree == before.jobs[1].group.routed_tree


def test_the_root_of_switchml_goes_on_alone():
    before, made = rerouted("switchml", ended=(1,))
    tree = made.setup.jobs[0].group.routed_tree
    assert before.jobs[0].group.routed_tree.switches == ("s1", "s2", "s3")
    assert (tree.target, tree.switches, tree.former) == ("s3", ("s3",), {"s1", "s2"})
    assert made.setup.jobs[1].group.routed_tree == before.jobs[1].group.routed_tree
    for switch in ("s1", "s2"):
        assert calls(made.setup, switch, 0) == [("table_add", "job", "do_not_aggregate", [0], [])]
    assert list(made.parts) == []


@pytest.mark.parametrize("system", ["grid", "grid-atp"])
def test_grid_plans_again_with_new_tags(system):
    before, made = rerouted(system, ended=(1,))
    assert made.setup.jobs[1].group.routed_plan == before.jobs[1].group.routed_plan
    old, new = (each.jobs[0].group for each in (before, made.setup))
    held = {group.node for group in old.routed_plan.groups}
    assert new.former == held
    last = max(group.tag for group in old.routed_plan.groups)
    assert min(each.tag for worker in new.routed_plan.workers for each in worker.assignments) > last
    assert [(part.job, part.number) for part in made.parts] == [(0, n) for n in range(5)]
    now = held | {group.node for group in new.routed_plan.groups}
    (reached,) = made.parts[-1].part.reached
    assert {name for name, there in zip(new.reminded, reached, strict=True) if there} == now
    for switch in now:  # what is without a tag, such as answers to a reminder, finds the server
        keys = [call[3] for call in calls(made.setup, switch, 0) if call[1] == "job_route"]
        assert [0, TO_SERVER, 0] in keys


def test_grid_with_several_paths_takes_no_early_result_for_a_loss():
    """With the memory of ATP, whose workers look at gaps."""
    text_of = text("grid-atp").replace("faults:\n\n", "")
    several = set_up(load_text(text_of))
    spec = several.platform.scheme.host_options(several, several.jobs[0])
    paths = max(len(each.assignments) for each in several.jobs[0].group.routed_plan.workers)
    assert (spec.positions.gap == 0) == (paths > 1)
    one = text("grid").replace("planner: grid-links", "planner: grid-links, memory: atp")
    single = set_up(load_text(one.replace("faults:\n\n", "")))
    assert all(len(each.assignments) == 1 for each in single.jobs[0].group.routed_plan.workers)
    assert single.platform.scheme.host_options(single, single.jobs[0]).positions.gap > 0
    failing, _ = rerouted("grid-atp")
    assert failing.platform.scheme.host_options(failing, failing.jobs[0]).positions.gap == 0
    esa, _ = rerouted("grid")
    assert esa.platform.scheme.host_options(esa, esa.jobs[0]).positions is None


def test_a_member_of_a_ring_has_the_next_and_the_one_before_as_peers():
    setup = set_up(load_text(text("ring").replace("faults:\n\n", "")))
    group = setup.jobs[0].group
    assert group.workers == ("h1", "h2", "h5", "h6")
    peers = [setup.platform.scheme.peers(group, worker) for worker in range(4)]
    assert [*map(set, peers)] == [{"h2", "h6"}, {"h5", "h1"}, {"h6", "h2"}, {"h1", "h5"}]
