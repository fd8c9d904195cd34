"""The keys `paths` and `fabric`: what cannot be, what a preset sets, and what a check says."""

from __future__ import annotations

import pytest

from testbed.costs.fabrics import FABRICS, fabric
from testbed.experiment import load_text
from testbed.setup import placement_check
from tests.support.experiments import BASE, message, setup_of

SPREAD = """
name: spread
runtime: virtual
topology: {kind: leaf_spine, leaves: 3, spines: 2, hosts: 2}
system: esa
memory: {aggregators: 64}
jobs: [{name: a, model: vgg11, workers: 2, iterations: 1, placement: {workers: [h1, h3], ps: h5}}]
"""
FORWARDING = "switches: {each: [{switch: s1, aggregates: false}]}\n"
FAULT = "faults: [{at: 1 ms, fault: link_down, between: [s1, s4]}]\n"
TREE = SPREAD.replace("system: esa", "system: tree").replace(", ps: h5", "")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (TREE + "paths: {sums: unpinned}", "paths.sums: found unpinned with system tree"),
        (
            SPREAD.replace("system: esa", "system: {name: esa, results_from: switch}")
            + "paths: {sums: per_root}",
            "paths.sums: found per_root with results_from switch",
        ),
        (SPREAD + FORWARDING + "paths: {choice: ecmp}", "several paths through s1"),
        (
            SPREAD + FORWARDING + "paths: {choice: first, sums: per_root}",
            "several paths through s1",
        ),
        (SPREAD + FAULT + "paths: {sums: per_root}", "paths: found with the fault link_down"),
        (TREE + FAULT + "paths: {choice: spray}", "paths: found with the fault link_down"),
        (  # the key is in no line of the file
            SPREAD + "fabric: nvlink",
            "line 8, links.lossless: h1-s1 has no bandwidth, which pauses are counted in; give all"
            " (set by fabric: nvlink)",
        ),
    ],
)
def test_what_cannot_be_is_an_error(text, says):
    assert says in message(text)


@pytest.mark.parametrize(
    "paths",
    [FORWARDING + "paths: {choice: first}", FORWARDING + "paths: {choice: spray, sums: unpinned}"],
)
def test_gradients_may_pass_what_only_forwards_where_they_have_one_path_or_need_not_meet(paths):
    assert load_text(SPREAD + paths).paths is not None


def test_a_file_may_change_what_a_preset_sets():
    text = BASE + "runtime: virtual\nfabric: roce-lossy\n"
    plain = load_text(text)
    assert (plain.links.queue_packets, plain.links.delay_ns) == (240, 10_000)
    assert (plain.values_per_packet, plain.paths.choice) == (256, "ecmp")
    own = load_text(text.replace("delay: 10 us", "queue: 9 packets") + "paths: {choice: spray}\n")
    assert (own.links.queue_packets, own.paths.choice) == (9, "spray")
    assert own.values_per_packet == 256


@pytest.mark.parametrize("name", FABRICS)
def test_a_preset_is_written_out_with_the_results(name):
    experiment = load_text(BASE + f"runtime: virtual\nfabric: {name}\n")
    whole = experiment.resolved_yaml()
    again = load_text(whole)
    assert f"fabric: {name}" in whole and again.identity == experiment.identity
    # What it says is in the file, not in its name.
    assert load_text(whole.replace(f"fabric: {name}\n", "")).paths == experiment.paths
    assert all(each.source in fabric(name).sources for each in fabric(name).settings.values())


@pytest.mark.parametrize(
    ("paths", "says"),
    [
        ("", ["sums of job a take 1 of 2 equal paths (over s4); paths.sums: per_root takes all"]),
        (
            "paths: {choice: spray, sums: unpinned}",
            [
                "sums of job a take any of 2 equal paths and meet by chance; the server completes"
                " the others"
            ],
        ),
        ("paths: {sums: per_root}", []),
    ],
)
def test_a_check_says_which_path_sums_take(paths, says):
    setup = setup_of(SPREAD + paths)
    assert placement_check.path_warnings(setup) == says
    (idle,) = placement_check.warnings(setup)
    assert ("s5" in idle) == (paths == "")  # else sums meet at both spines
