"""The machines of a host process: whose a packet is, and how they share the link."""

from __future__ import annotations

import pytest
from p4fabric.simulate.machine import new_batch

from testbed.hosts import machine_table
from testbed.protocols import wire
from testbed.protocols.host_spec import SlotsSpec
from testbed.schemes import new_machine
from testbed.workload import machine_group
from tests.support.host_specs import OPTIONS, host_spec

WORDS = 71


def machine_of(job: int):
    options = SlotsSpec.of(OPTIONS, sets=2)
    return new_machine(host_spec({"number": job, "system": "switchml"}, options=options))


@pytest.fixture
def made():
    """A table with the machines of jobs 0 and 7."""
    table = machine_table.MachineTable(new_batch(8, WORDS), new_batch(8, WORDS))
    for place, job in enumerate((0, 7)):
        table.put(place, machine_of(job), job, 10 * place)
    return table


def arrive(table, *jobs: int) -> None:
    """Packets of these jobs, numbered by their fragments."""
    for i, job in enumerate(jobs):
        row = table.arrived.packets[i]
        wire.write_header(row, wire.RESULT, 1, 0, job, 0, i, 0, 0)
        table.arrived.lengths[i] = 100 + i


@pytest.mark.parametrize(
    ("jobs", "owner", "first", "second"),
    [
        ((7, 7), 1, [], [0, 1]),
        ((0, 7, 0), -1, [0, 2], [1]),
        ((7, 5, 7), -1, [1], [0, 2]),  # of nobody: the first one's, which counts it
        ((5, 0), 0, [0, 1], []),
    ],
)
def test_each_machine_gets_its_packets(made, jobs, owner, first, second):
    arrive(made, *jobs)
    table = made.table
    assert machine_group.find_owners(table, made.arrived, len(jobs)) == owner
    for machine, expected in enumerate((first, second)):
        kept = machine_group.pick(table, machine, made.arrived, len(jobs), made.picked)
        found = [wire.fragment(made.picked.packets[i]) for i in range(kept)]
        assert found == expected
        assert made.picked.lengths[:kept].tolist() == [100 + i for i in expected]


def test_what_one_sends_takes_the_link_s_time_from_the_others(made):
    table, own = made.table, [made._kept[place][3] for place in (0, 1)]
    own[0][0] = 5000
    machine_group.take_pace(table, 0)
    machine_group.give_pace(table, 1)
    assert own[1][0] == 5000
    own[1][0] = 7000
    machine_group.take_pace(table, 1)
    machine_group.give_pace(table, 0)
    assert (own[0][0], table.pace_ps[0]) == (7000, 7000)
    own[0][0] = 6000  # never back
    machine_group.take_pace(table, 0)
    assert table.pace_ps[0] == 7000


def test_a_place_is_used_again_and_its_counts_stay(made):
    made.table.counters[1] = 3
    made.table.status[1].news = 1
    made.remove(1)
    assert made.free_place() == 1 and made.table.status[1].news == 0
    assert made.table.jobs.tolist()[:2] == [0, -1]
    made.put(1, machine_of(9), 9, 4)
    assert (made.table.counters[0] == 3).all() and (made.table.counters[1] == 0).all()
    assert (made.table.jobs[1], made.table.first[1]) == (9, 4)
    for place in range(2, machine_table.MACHINES):
        made.put(place, machine_of(20 + place), 20 + place, 0)
    assert made.free_place() is None
