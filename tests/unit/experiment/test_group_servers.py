"""Parameter servers of a job's groups, on servers with several ranks."""

from __future__ import annotations

import pytest
from p4fabric.base.config.problems import ExperimentError

from testbed.experiment import load_text
from testbed.schemes import set_up
from testbed.setup.host_specs import host_specs

# Ranks h1 to h4; h5 and h6 are on the leaves, h7 and h8 parts of the servers.
TEXT = """
topology: {kind: %s}
system: %s
memory: {aggregators: 64}
jobs:
  - {name: p, command: "true", workers: 4%s}
"""
RAILS = "rails, servers: 2, ranks: 2, server_ps: 1"
MESH = ", parallel: {tp: 2, dp: 2}"
NAMED = ", placement: {workers: [h1, h2, h3, h4], ps: [h5, h7]}"


def servers(topology: str = RAILS, system: str = "esa", keys: str = MESH) -> str:
    experiment = load_text(TEXT % (topology, system, keys))
    again = load_text(experiment.resolved_yaml())
    assert again.resolved_yaml() == experiment.resolved_yaml()
    placement = experiment.jobs[0].fixed_placement
    assert placement.workers == ("h1", "h2", "h3", "h4")
    return " ".join(placement.servers)


def test_each_group_that_is_known_gets_the_nearest_free_host() -> None:
    assert servers() == "h5 h7 h8 h6" and servers(system="atp") == servers()
    assert servers(RAILS.replace("server_ps: 1", "ps: 1")) == "h5 h6"
    assert servers(keys="") == "h5", "no groups are known"


def test_hosts_of_other_jobs_are_not_free() -> None:
    other = "\n  - {name: r, command: 'true', workers: 1, placement: {workers: [h7], ps: h6}}"
    text = TEXT % (RAILS, "esa", MESH)
    first, second = load_text(text.rstrip() + other + "\n").jobs
    assert first.fixed_placement.servers == ("h5", "h8")
    assert second.fixed_placement.servers == ("h6",)


@pytest.mark.parametrize("system", ["grid", "ps"])
def test_other_systems_have_as_many_as_ever(system: str) -> None:
    text = TEXT.replace("memory: {aggregators: 64}\n", "") if system == "ps" else TEXT
    experiment = load_text(text % (RAILS, system, MESH))
    assert experiment.jobs[0].fixed_placement.servers == ("h5",)
    with pytest.raises(ExperimentError, match="found 2 hosts; allowed for"):
        load_text(text % (RAILS, system, NAMED))


def test_several_can_be_named_where_servers_have_several_ranks() -> None:
    assert servers(keys=NAMED) == "h5 h7"
    with pytest.raises(ExperimentError, match="found 2 hosts; allowed for ESA: one parameter"):
        load_text(TEXT % ("star, hosts: 8", "esa", NAMED))


def test_the_job_has_the_first_one_and_each_has_a_process() -> None:
    setup = set_up(load_text(TEXT % (RAILS, "esa", MESH)))
    assert setup.jobs[0].group.servers == ("h5",)
    found = [(spec.number, spec.host, spec.address) for spec in host_specs(setup)[4:]]
    assert found == [
        (0, "h5", "10.0.0.5"),
        (1, "h7", "10.0.0.7"),
        (2, "h8", "10.0.0.8"),
        (3, "h6", "10.0.0.6"),
    ]
