"""Plans of small networks have the best rates, which are worked out by hand."""

from __future__ import annotations

from fractions import Fraction

import pytest
from p4fabric.base.errors import UserError

from testbed.routing.plan_check import violations
from testbed.routing.planners import make_plan
from testbed.setup.plan_input import of_file
from tests.support.known_optima import INPUTS
from tests.support.plan_networks import GBIT

CASES = [
    pytest.param(text, planner, rates, id=f"{name}: {planner}")
    for name, (text, planners) in INPUTS.items()
    for planner, rates in planners.items()
]


@pytest.mark.parametrize(("text", "planner", "rates"), CASES)
def test_plans_have_the_rates_worked_out_by_hand(text, planner, rates, tmp_path) -> None:
    path = tmp_path / "network.txt"
    path.write_text(text)
    network, jobs = of_file(path)
    plan = make_plan(network, jobs, planner)
    found = [float(each.rate_bps / GBIT) for job in plan.jobs for each in job.workers]
    assert found == pytest.approx(rates, rel=1e-12)
    assert violations(network, jobs, plan) == []
    assert plan.bound_bps >= plan.rate_bps


BAD = {
    "capacity: found '0Gbit/s'; allowed: from 1 bit/s to 100 Tbit/s, or unlimited": (
        "s1 s2 1Gbit/s",
        "s1 s2 0Gbit/s",
    ),
    "its parameter server ps is not connected": ("ps s2 3Gbit/s\n", "ps s2 3Gbit/s failed\n"),
    "worker w2 has no path": ("w2 s1 3Gbit/s", "w2 s1 3Gbit/s failed"),
    "aggregation: found '0Gbit/s'; allowed: from 1 bit/s to 100 Tbit/s, or unlimited, or none": (
        "s1 s2 1",
        "switch s1 aggregation=0Gbit/s\ns1 s2 1",
    ),
    "switch s1: the grid-links plan keeps": (
        "w2 s1 3Gbit/s",
        "switch s1 slots=3\nw2 s1 3Gbit/s delay=100us",
    ),
    "its worker w9 is not there": ("workers=w1,w2", "workers=w1,w9"),
    "link w1 -> ps is between hosts; allowed: from or to a switch": (
        "job ",
        "host w1\nhost ps\nw1 ps 1Gbit/s\njob ",
    ),
}


@pytest.mark.parametrize("message", BAD)
def test_an_impossible_plan_is_one_clear_error(message, tmp_path) -> None:
    path = tmp_path / "network.txt"
    text, _ = INPUTS["the narrow direction is the gradients'"]
    old, new = BAD[message]
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(UserError) as caught:
        make_plan(*of_file(path), "grid-links")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_rate_is_exact(tmp_path) -> None:
    """Thirds stay thirds: three raw workers at a PS of 1."""
    path = tmp_path / "network.txt"
    path.write_text(
        "switch s aggregation=none\na s 1Gbit/s\nb s 1Gbit/s\nc s 1Gbit/s\np s 1Gbit/s\n"
        "job j workers=a,b,c ps=p\n"
    )
    assert make_plan(*of_file(path), "grid-links").rate_bps == Fraction(GBIT, 3)
