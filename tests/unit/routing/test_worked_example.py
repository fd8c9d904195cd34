"""The worked example of the GRID paper: its published numbers, and what follows when it is changed.

Other values are worked out by hand; the comment at each says how.
"""

from __future__ import annotations

from fractions import Fraction

import pytest

from testbed.routing.planners import make_plan
from tests.support.plan_networks import GBIT, example


def rates(plan):
    return [worker.rate_bps / GBIT for job in plan.jobs for worker in job.workers]


def loads(plan):
    """L1, L2, L3 towards the PS; S1, S2, S3; the PS."""
    ends = (("S1", "S3"), ("S1", "S2"), ("S2", "S3"))
    links = [plan.links[each].load_bps / GBIT for each in ends]
    switches = [plan.switches[name].load_bps / GBIT for name in ("S1", "S2", "S3")]
    (server,) = plan.servers.values()
    return links, switches, server.load_bps / GBIT


PUBLISHED = {
    "none": ([1] * 6 + [1.5] * 2, [3, 1, 3], [0, 0, 0], 9),
    "nearest": ([2.4375] * 4 + [3] * 4, [3, 0, 3], [9, 6, 6.75], 8.25),
    "grid-links": ([3] * 8, [3, 3, 3], [9, 9, 6], 9),
}


@pytest.mark.parametrize("planner", PUBLISHED)
def test_published_numbers(planner) -> None:
    plan = make_plan(*example(), planner)
    expected, links, switches, server = PUBLISHED[planner]
    assert rates(plan) == expected
    assert loads(plan) == (links, switches, server)


def packets(plan, fragments=1300):
    """Up-direction packets on L1, L2, L3 and at the PS, one iteration."""
    (job,) = plan.jobs
    ways = [
        (each.path, len(each.range.fragments(fragments)))
        for worker in job.workers
        for each in worker.assignments
    ]
    ways += [(group.path, len(group.range.fragments(fragments))) for group in job.groups]

    def over(a, b):
        return sum(count for path, count in ways if (a, b) in zip(path, path[1:], strict=False))

    return over("S1", "S3"), over("S1", "S2"), over("S2", "S3"), over("S3", "PS")


def test_packets() -> None:
    assert packets(make_plan(*example(), "none")) == (3900, 1300, 3900, 10400)
    assert packets(make_plan(*example(), "nearest")) == (1600, 0, 1300, 3800)
    assert packets(make_plan(*example(), "grid-links")) == (1300, 1300, 1300, 3900)


def test_policy_of_grid_links() -> None:
    (job,) = make_plan(*example(), "grid-links").jobs
    assert [worker.assignments[0].node for worker in job.workers] == (
        ["S1"] * 3 + ["S2"] * 3 + ["S3"] * 2
    )
    assert job.workers[3].assignments[0].path == ("W4", "S1", "S2")
    assert [(group.node, group.workers, bin(group.bitmap)) for group in job.groups] == [
        ("S1", (0, 1, 2), "0b111"),
        ("S2", (3, 4, 5), "0b111000"),
        ("S3", (6, 7), "0b11000000"),
    ]


def test_the_link_free_model() -> None:
    plan = make_plan(*example(), "grid")
    assert plan.bound_bps == Fraction("4.078125") * GBIT
    assert plan.rate_bps <= 3 * GBIT
    # Without links the same bound holds, and a rounding can come closer to it.
    free = make_plan(*example(l1=10**6, l2=10**6, l3=10**6, access=10**6), "grid")
    assert free.bound_bps == plan.bound_bps
    assert plan.rate_bps < free.rate_bps <= free.bound_bps


def test_gradients_take_what_results_would_need_if_these_are_ignored() -> None:
    """A PS that takes in 4, with two aggregates: W7 and W8 go back to S2, which adds four at 2."""
    plan = make_plan(*example(ps=4), "grid-links", results="ignored")
    assert plan.rate_bps == 2 * GBIT > plan.jobs[0].results.room_bps


def test_the_rounding_reports_what_it_exceeds() -> None:
    plan = make_plan(*example(), "grid", roundings=7)
    made = plan.before_repair
    assert made.method == "rounding" and made.roundings == 7
    assert made.rate_bps == plan.bound_bps and 1 <= plan.seed < 8
    # At 4.078125 each, C of 9 is enough for two workers, and B of 9 for two streams.
    assert made.violating == 7
    for what, (load, capacity) in made.exceeded.items():
        assert load > capacity and (load / made.rate_bps).denominator == 1, what
    most = max(
        load / capacity for what, (load, capacity) in made.exceeded.items() if what[0] != "l"
    )
    assert most <= made.worst
    more = make_plan(*example(), "grid", roundings=40)
    assert more.rate_bps >= plan.rate_bps and more.before_repair.roundings == 40


def test_the_integer_program_exceeds_links_only() -> None:
    """Three switches add for three workers at most, so 3 Gbit/s, of which S1 and S2 send one sum
    each; but its workers are not where the switches are."""
    plan = make_plan(*example(), "grid", exact=True)
    made = plan.before_repair
    assert (made.method, made.rate_bps, made.violating) == ("exact", 3 * GBIT, 0)
    assert all(what.startswith("link ") for what in made.exceeded)
    assert plan.rate_bps <= made.rate_bps <= plan.bound_bps


def test_no_worker_is_faster_than_the_largest_rate() -> None:
    for planner in (
        "none",
        "nearest",
        "nearest-anywhere",
        "grid",
        "grid-links",
        "two-level",
    ):
        plan = make_plan(*example(), planner, max_rate_bps=GBIT // 2)
        assert {worker.rate_bps for worker in plan.jobs[0].workers} == {GBIT // 2}
    exact = make_plan(*example(), "grid", exact=True, max_rate_bps=GBIT // 2)
    assert exact.before_repair.rate_bps == GBIT // 2
    # In the published program T limits a worker's rate to each node: three switches and the PS.
    assert make_plan(*example(), "grid", max_rate_bps=GBIT // 2).bound_bps == 2 * GBIT


@pytest.mark.parametrize(
    ("change", "none", "nearest", "grid_links"),
    [
        # L2 cut: all four of S1 share L1, or its C (9 / 4).
        ({"l2": None}, Fraction(3, 4), Fraction(39, 16), Fraction(9, 4)),
        # L1 cut: all cross L3, raw 3 / 6; nearest: the aggregates of S1 and S2, 3 / 2; the same if
        # S2 aggregates all six, 9 / 6.
        ({"l1": None}, Fraction(1, 2), Fraction(3, 2), Fraction(3, 2)),
        # L3 cut: the same over L1.
        ({"l3": None}, Fraction(1, 2), Fraction(3, 2), Fraction(3, 2)),
        # S1 does not aggregate: two of its workers send raw over L1 to S3, two over L2 to S2.
        ({"capacities": (None, 9, 9)}, Fraction(1), Fraction(3, 4), Fraction(3, 2)),
        # C of S2 lowered to 6: W4 has no room there. W1..W4 at S1, 9 / 4.
        ({"capacities": (9, 6, 9)}, Fraction(1), Fraction(39, 16), Fraction(9, 4)),
        # PS takes in 4: none 4 / 8, three aggregates 4 / 3; two are enough if W7 and W8 go back to
        # S2, which adds four, and then share L3 with results: at most 1. Five at S1, 9 / 5, and the
        # others at S3 leave them room.
        ({"ps": 4}, Fraction(1, 2), Fraction(4, 3), Fraction(9, 5)),
        # Nobody aggregates.
        ({"capacities": (None, None, None)}, Fraction(1), Fraction(3, 4), Fraction(1)),
    ],
)
def test_changes(change, none, nearest, grid_links) -> None:
    assert make_plan(*example(**change), "none").rate_bps == none * GBIT
    assert make_plan(*example(**change), "nearest").rate_bps == nearest * GBIT
    assert make_plan(*example(**change), "grid-links").rate_bps == grid_links * GBIT
