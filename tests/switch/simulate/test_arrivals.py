"""Jobs that come and go in virtual time: hosts, tables and memory change hands."""

from __future__ import annotations

import pytest

from testbed.run_parts.program import prepare
from testbed.schemes import set_up
from testbed.simulate.simulation import Simulation
from tests.support.experiments import experiment, memory_line
from tests.support.virtual import run_virtual

# Ten hosts, and jobs of three to six roles: some wait.
TEXT = """
name: come-and-go
runtime: virtual
topology: %(topology)s
links: {bandwidth: 10 Gbit/s, delay: 1 us, loss: %(loss)s}
system: %(system)s
%(memory)s
values_per_packet: 16
repetitions: 2
arrivals:
  placement: %(placement)s
  poisson:
    jobs: 7
    interval: 20 us
    kinds:
      - {name: small, model: resnet18, workers: 3, iterations: 2, scale: 0.0002}
      - {name: large, model: vgg16, workers: 5, iterations: 1, scale: 0.00003}
"""
TWO_LEVEL = "{kind: two_level, tors: 2, hosts: 4, servers: 2}"


def spec(system="esa", placement="random", topology=TWO_LEVEL, loss="0 %"):
    memory = memory_line(system, 16)
    names = {"system": system, "placement": placement, "topology": topology, "memory": memory}
    return experiment(TEXT % {**names, "loss": loss})


@pytest.mark.parametrize("system", ["esa", "atp", "switchml", "ps", "ring"])
def test_jobs_take_turns(system):
    drawn = spec(system, loss="0.2 %")
    jobs = run_virtual(drawn)["jobs"]
    assert len(jobs) == 7 and all(job["exact"] for job in jobs)
    assert any(job["waiting_ns"] > 0 for job in jobs)
    # Never more than there are hosts for, and in the order of submission.
    roles = drawn.system_entry.servers_per_job(drawn.system)
    for job in jobs:
        there = [j for j in jobs if j["start_ns"] <= job["start_ns"] < j["end_ns"]]
        assert sum(j["workers"] + roles for j in there) <= 10
    by_submission = sorted(jobs, key=lambda job: job["submitted_ns"])
    assert [j["start_ns"] for j in by_submission] == sorted(j["start_ns"] for j in jobs)


def test_a_host_changes_hands():
    drawn = spec(placement="packed")
    tables = run_virtual(drawn)
    roles = [(row["host"], row["job"]) for row in tables["hosts"]]
    assert len(set(roles)) == len(roles) == sum(job["workers"] + 1 for job in tables["jobs"])
    assert len({host for host, _ in roles}) <= 10 < len(roles)
    # What went over a server's link while others had its host is not counted for it.
    on_links = sum(
        row["bytes"]
        for row in tables["links"]
        if row["direction"] == "egress" and row["neighbour"].startswith("h")
    )
    assert 0 < sum(job["ps_link_bytes_in"] for job in tables["jobs"]) < on_links
    for job in tables["jobs"]:
        assert job["ps_link_bytes_in"] >= job["ps_packets"] * 64


def test_memory_of_an_ended_job_is_free():
    setup = set_up(spec("switchml", loss="0.5 %"))
    simulation = Simulation(setup, prepare(setup).compiled)
    simulation.run()
    for switch in simulation.nodes.switches.values():
        assert set(switch.register_read("first_state", 0, None)) == {0}
        assert set(switch.register_read("second_bitmap", 0, None)) == {0}
        for table in ("job", "worker_route", "receiver"):
            assert [entry["handle"] for entry in switch.table_dump(table)] == [-1]  # the default
    assert all(node is None for node in simulation.nodes.hosts)


def test_placements_and_repetitions_differ_and_reruns_do_not():
    def ends(placement, repetition=0):
        drawn = spec(placement=placement)
        jobs = run_virtual(drawn, repetition)["jobs"]
        return [(job["name"], job["end_ns"]) for job in jobs]

    found = [ends("packed"), ends("spread"), ends("random"), ends("random", 1)]
    assert len({tuple(each) for each in found}) == 4
    assert ends("random", 1) == found[-1]
