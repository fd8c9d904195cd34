"""Plans of small networks have the best rates, which are worked out by hand."""

from __future__ import annotations

from fractions import Fraction

import pytest

from testbed.routing.fair import Term, fair_rates
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


def test_a_rate_is_exact(tmp_path) -> None:
    """Thirds stay thirds: three raw workers at a PS of 1."""
    path = tmp_path / "network.txt"
    path.write_text(
        "switch s aggregation=none\na s 1Gbit/s\nb s 1Gbit/s\nc s 1Gbit/s\np s 1Gbit/s\n"
        "job j workers=a,b,c ps=p\n"
    )
    assert make_plan(*of_file(path), "grid-links").rate_bps == Fraction(GBIT, 3)


def test_who_only_gets_results_over_a_full_link_goes_on() -> None:
    """A link with room for 10 carries worker 0's gradients and the results of both workers, which
    come at the rate of the slower one."""
    one = Fraction(1)
    uses = {
        ("link", "a"): [Term((0,), one), Term((0, 1), one, slowest=True)],
        ("link", "b"): [Term((1,), one)],
    }
    assert fair_rates(uses, {("link", "a"): 10, ("link", "b"): 30}, 2) == [5, 30]
