"""Where jobs land in a network of several switches, and warnings about what they leave unused."""

from __future__ import annotations

import pytest

from testbed.cli.main import main
from testbed.setup import placement_check
from tests.support.experiments import setup_of

EXPERIMENT = """
name: places
runtime: virtual
topology: {{kind: leaf_spine, leaves: 2, spines: {spines}, hosts: 4}}
system: {system}
{memory}
jobs:
  - {{name: a, model: vgg11, iterations: 1, workers: {workers}, placement: {placement}}}
"""


def made(workers, placement="packed", spines=1, system="esa"):
    memory = "" if system == "ring" else "memory: {aggregators: 64}"
    return EXPERIMENT.format(
        workers=workers, placement=placement, spines=spines, system=system, memory=memory
    )


def test_it_says_where_the_hosts_of_a_job_are():
    setup = setup_of(made(5))
    leaves = [setup.platform.topology.ports(f"h{n}")[1][0] for n in (1, 5)]
    assert placement_check.places(setup) == [
        f"job a: workers h1, h2, h3, h4 below {leaves[0]} and h5 below {leaves[1]};"
        f" servers h6 below {leaves[1]}"
    ]


@pytest.mark.parametrize("system", ["esa", "ring"])
def test_jobs_below_one_switch_never_cross_the_spine(system):
    (text,) = placement_check.warnings(setup_of(made(3, system=system)))
    assert "nothing crosses the links between switches; `placement` spreads them" in text
    assert placement_check.warnings(setup_of(made(3, "spread", system="ring"))) == []


def test_a_switch_where_nothing_meets_is_named():
    """The workers are below one leaf; the spine and the other leaf pass their sum on."""
    setup = setup_of(made(4))
    (text,) = placement_check.warnings(setup)
    tree = setup.jobs[0].group.routed_tree
    alone = [each for each in setup.platform.topology.switches if each not in tree.below or
             len(tree.receivers(each)) < 2]  # fmt: skip
    assert len(alone) == 2 and text.startswith(f"switches {alone[0]}, {alone[1]} aggregate nothing")


def test_one_switch_needs_no_words():
    text = made(3).replace(
        "{kind: leaf_spine, leaves: 2, spines: 1, hosts: 4}", "{kind: star, hosts: 5}"
    )
    setup = setup_of(text)
    assert placement_check.places(setup) == placement_check.warnings(setup) == []


def test_check_prints_both(tmp_path, capsys):
    path = tmp_path / "places.yaml"
    path.write_text(made(3))
    assert main(["check", str(path)]) == 0
    said = capsys.readouterr().out
    assert (
        "job a: workers h1, h2, h3 below " in said and "warning: every job has all of its" in said
    )
