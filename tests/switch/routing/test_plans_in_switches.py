"""GRID in virtual time: links, switches and workers do what the plan says."""

from __future__ import annotations

import pytest
from p4fabric.base.errors import UserError
from p4fabric_testing.matrix import first_of

from testbed.protocols.sizes import frame_bytes
from testbed.systems import PLANNERS
from tests.support import topologies
from tests.support.experiments import experiment
from tests.support.grid import FRAGMENTS, SCHEMES, UPWARDS, passed, plan_of, planned, text_of
from tests.support.paths import ROOT
from tests.support.virtual import run_virtual

FRAME_BITS = 8 * frame_bytes(64, 32)


def run(**changes):
    """(experiment, the job's row, packets by link, sum of each switch counter)."""
    spec = experiment(text_of(**changes))
    tables = run_virtual(spec)
    (job,) = tables["jobs"]
    assert job["exact"] and job["fragments"] == FRAGMENTS
    counters: dict[str, int] = {}
    for row in tables["switch_counters"]:
        counters[row["counter"]] = counters.get(row["counter"], 0) + row["value"]
    return spec, job, passed(tables["links"]), counters


@pytest.mark.parametrize(
    "memory, planners", [("esa", SCHEMES), ("atp", ["nearest"]), ("plain", ["nearest"])]
)
def test_the_worked_example(memory, planners):
    times = {}
    for planner in planners:
        _, job, links, counters = run(planner=planner, memory=memory)
        packets, units = SCHEMES[planner]
        assert tuple(links[ends] for ends in UPWARDS) == packets
        assert counters["over_rate"] == 0 and job["retransmissions"] == 0
        # A quarter of GRID's time is that of 1300 / 4 fragments at 3 Gbit/s.
        unit_ns = FRAGMENTS * FRAME_BITS / 3 / 4
        times[planner] = job["jct_ns"] / unit_ns / units
    assert all(1 <= time < 1.02 for time in times.values()), times


CHANGES = {  # the first three are always tried
    "results go around a narrow link": {"links": "{between: [s2, s3], bandwidth: 1 Gbit/s}"},
    "a switch that only forwards": {"switches": "{switch: s1, aggregates: false}"},
    "other names, a third of the rates": {
        "topology": f"{{class: '{topologies.FILE}:Corner'}}",
        "capacity": "3 Gbit/s",
        "job": ", placement: {workers: [a, k, y, z, d, f, e, c], ps: ps}",
    },
    "ten times the rates": {
        "topology": "{kind: triangle, bandwidth: 30 Gbit/s}",
        "capacity": "90 Gbit/s",
    },
    "no link between s1 and s2": {"links": "{between: [s1, s2], failed: true}"},
    "no link to the server's switch": {"links": "{between: [s1, s3], failed: true}"},
    "a narrow link": {"links": "{between: [s2, s3], bandwidth: 2 Gbit/s}"},
    "a weak switch": {"switches": "{switch: s1, capacity: 4 Gbit/s}"},
    "only the server's switch": {
        "switches": "{switch: s1, aggregates: false}, {switch: s2, aggregates: false}"
    },
}


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("none",)]


@pytest.mark.parametrize("planner", ["grid-links", "nearest", *SLOW])
@pytest.mark.parametrize("change", first_of(CHANGES, 3))
def test_runs_match_their_plan(change, planner):
    spec, job, links, counters = run(planner=planner, **CHANGES[change])
    assert {ends: packets for ends, packets in links.items() if packets} == +planned(spec)
    assert counters["over_rate"] == 0
    # As fast as planned; what comes on top is the last packet's way and its result's.
    min_ns = FRAGMENTS * FRAME_BITS * 10**9 / plan_of(spec).rate_bps
    assert min_ns <= job["jct_ns"] < 1.02 * min_ns + 15_000


@pytest.mark.parametrize(("growth", "round_trips"), [("window", 1), ("packet", 11)])
def test_windows_grow(growth, round_trips):
    """A round trip is 4 ms, over two links there and back. Windows of 1, 2, 4, ... packets have
    sent 1300 after the eleventh; a window of two bandwidth-delay products sends them at once."""
    text = text_of(
        topology="{kind: star, hosts: 9}",
        capacity="27 Gbit/s",
        memory=f"esa, window_growth: {growth}",
    )
    links = "links: {bandwidth: 3 Gbit/s, delay: 1 ms}"
    tables = run_virtual(experiment(text.replace("links: {each: []}", links)))
    (job,) = tables["jobs"]
    assert job["exact"] and job["retransmissions"] == 0
    assert round_trips <= job["jct_ns"] / 4e6 < round_trips + 0.3


@pytest.mark.parametrize("memory", ["atp", "plain"])
def test_split_fragments_with_other_memory(memory):
    """Fragments come out of order, which must not be taken for a loss."""
    change = CHANGES["a weak switch"]
    spec, job, links, _ = run(planner="nearest", memory=memory, **change)
    assert {ends: packets for ends, packets in links.items() if packets} == +planned(spec)
    assert job["retransmissions"] == 0


def test_64_workers_on_a_leaf_spine_network():
    """A small part of experiments/grid-leaf-spine.yaml."""
    text = (ROOT / "experiments" / "grid-leaf-spine.yaml").read_text().split("sweep:")[0]
    spec = experiment(text.replace("scale: 0.0005", "scale: 0.00005"))
    tables = run_virtual(spec)
    (job,) = tables["jobs"]
    links = passed(tables["links"])
    assert job["exact"] and job["workers"] == 64
    assert {ends: packets for ends, packets in links.items() if packets} == +planned(spec)
    assert sum(r["value"] for r in tables["switch_counters"] if r["counter"] == "over_rate") == 0


def test_the_known_planners():
    from testbed.routing.planners import PLANNERS as entries

    assert set(PLANNERS) == set(entries)


@pytest.mark.parametrize(
    "change, message",
    [
        (
            {"memory": "atp, order: front"},
            "system: found order: front with memory: atp; allowed: o",
        ),
        ({"planner": "grids"}, "system.planner: found 'grids'; allowed: grid-links, "),
    ],
)
def test_bad_input(change, message):
    with pytest.raises(UserError) as caught:
        experiment(text_of(**change))
    assert message in str(caught.value)


def test_other_systems_do_not_plan():
    text = text_of().replace("{name: grid, planner: grid-links, memory: esa}", "esa")
    with pytest.raises(
        UserError, match="switches: switch s1: ESA has no plan that would use a cap"
    ):
        experiment(text)
