"""Why packets left for a PS: the causes add up to what the PS link carried, in varied settings."""

from __future__ import annotations

import pytest

from tests.support.departures import causes_of
from tests.support.experiments import experiment
from tests.support.random_networks import drawn
from tests.support.virtual import run_virtual

JOBS = """
jobs:
  - {name: a, placement: spread, model: resnet50, workers: 3, iterations: 2, scale: 0.002,
     compute_scale: 0.01}
  - {name: b, placement: spread, model: vgg16, workers: 4, iterations: 2, scale: 0.0005,
     compute_scale: 0.01}
"""
STAR = "topology: {kind: star, hosts: 9}"


def run(system: str, topology: str, links: str, aggregators: int = 16, more: str = "") -> dict:
    memory = f"memory: {{aggregators: {aggregators}}}" if "name: ps" not in system else ""
    text = f"""
name: departures
runtime: virtual
seed: 3
{topology}
links: {{bandwidth: 1 Gbit/s, delay: 5 us{links}}}
system: {system}
{memory}
{JOBS}{more}"""
    return run_virtual(experiment(text))


def test_results_that_the_switch_sends_leave_for_the_ps_too():
    tables = run("{name: esa, window: 64, results_from: switch}", STAR, ", loss: 1 %", 64)
    results = {row["job"]: row for row in tables["jobs"]}
    for job, counted in causes_of(tables["departures"]).items():
        fragments = results[job]["fragments"] * 2
        assert 0.5 * fragments < counted["completed"] < fragments


def test_a_ps_without_aggregation_gets_workers_gradients():
    tables = run("{name: ps}", STAR, ", loss: 1 %")
    for job, counted in causes_of(tables["departures"]).items():
        assert set(counted) <= {"not_aggregated", "retransmitted"}
        assert counted["retransmitted"]
        sent = next(row for row in tables["jobs"] if row["job"] == job)
        assert sum(counted.values()) <= sent["gradient_packets"]


RAILS = """
name: groups
runtime: virtual
topology: {kind: rails, servers: 4, ranks: 2, leaves: 2, spines: 1, rail_optimized: false, ps: 2,
           server_ps: 1, scale_up: 10 Gbit/s, nic: 1 Gbit/s, fabric: 1 Gbit/s}
system: %s
memory: {aggregators: 32}
jobs:
  - model: {transformer: llama2-7b, layers: 2, sequence: 128, global_batch: 4, gpu: h100}
    parallel: {tp: 2, dp: 4, sequence_parallel: true, sharding: zero1}
    workers: 8
    iterations: 1
    scale: 0.0001
"""


@pytest.mark.parametrize("system", ["esa", "{name: atp}"])
def test_groups_have_servers_of_their_own(system):
    """What a switch passes on to the next one is not what a PS gets, although another group's PS
    hangs on it."""
    tables = run_virtual(experiment(RAILS % system))
    passed = [row for row in tables["departures"] if not row["at_ps"] and row["switch"] < "s5"]
    assert {row["cause"] for row in passed} >= {"not_aggregated"}
    assert {row["switch"] for row in tables["departures"] if row["at_ps"]} > {"s1", "s2"}


def test_gradients_that_pass_the_switch_of_their_ps_do_not_leave_for_it():
    """A plan leads them to another switch, which adds them up."""
    left = run_virtual(experiment(drawn(9)))["departures"]
    here, on = (
        {(row["switch"], row["job"]) for row in left if row["at_ps"] is at_ps}
        for at_ps in (True, False)
    )
    assert here & on


def test_background_traffic_on_the_ps_link_is_no_departure():
    flow = "background: [{kind: udp, from: h1, to: h4, rate: 50 Mbit/s}]\n"
    tables = run("{name: esa, window: 64}", STAR, "", more=flow)
    (server,) = [row["host"] for row in tables["hosts"] if (row["job"], row["role"]) == (0, "ps")]
    assert server == "h4"
    (link,) = [
        row for row in tables["links"] if (row["neighbour"], row["direction"]) == ("h4", "egress")
    ]
    counted = sum(row["packets"] for row in tables["departures"] if row["job"] == 0)
    (flow,) = tables["flows"]
    beside = link["packets"] - counted
    assert 0 < flow["packets_received"] <= beside <= flow["packets_sent"]
