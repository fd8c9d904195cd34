"""The hazards that GRID's steps in the switches guard against (p4/grid.p4)."""

from __future__ import annotations

from tests.support.mutations.mutation import Mutation, Test

POOL = "p4/pool.p4"
ARRIVAL, DEPARTURE = "p4/grid_arrival.p4", "p4/grid_departure.p4"
GRID_TABLES = "p4/grid_tables.p4"


def grid_test(name: str) -> Test:
    return Test(f"p4.test_grid_events.test_{name}")


MUTATIONS = (
    Mutation(
        "GRID: a switch minds its own fragments",
        "what names nobody counts against the capacity of whoever it passes, and is added there",
        ARRIVAL,
        "if (hdr.ina.node != meta.node) {",
        "if (hdr.ina.node == 0xfffe) {",
        grid_test("the_capacity_is_shared_by_all_whose_fragments_name_the_switch"),
    ),
    Mutation(
        "GRID: a sum is complete by its group",
        "a sum waits for workers whose fragments meet elsewhere",
        GRID_TABLES,
        "        meta.complete = complete;\n",
        "",
        grid_test("a_switch_adds_what_names_it_and_forwards_the_rest"),
        quick=True,
    ),
    Mutation(
        "GRID: a sum goes on with its group's tag",
        "a sum goes back to where its last contribution came from",
        GRID_TABLES,
        "        meta.tag = tag;\n",
        "",
        grid_test("a_sum_that_turns_back_gets_another_tag"),
    ),
    Mutation(
        "GRID: an aggregator remembers its tag",
        "a sum that is pulled goes nowhere, or another group's way",
        POOL,
        "        next.tag = meta.tag;\n",
        "",
        grid_test("a_reminder_pulls_a_sum_on_its_way"),
    ),
    Mutation(
        "GRID: what leaves has the aggregator's tag",
        "an evicted sum takes the way of the fragment that evicted it",
        DEPARTURE,
        "                meta.tag = slot.tag;\n",
        "",
        grid_test("each_group_has_its_own_tag"),
    ),
    Mutation(
        "GRID: only a complete sum is added to others",
        "part of a sum is added at the next switch, and its rest comes to the server alone",
        DEPARTURE,
        "if (meta.event == COMPLETE || meta.event == RE_EMIT) {",
        "if (meta.leaves == 1) {",
        grid_test("a_complete_sum_names_the_switch_that_adds_it_to_others"),
    ),
    Mutation(
        "GRID: the capacity is enforced",
        "a switch adds more than it can",
        ARRIVAL,
        "if (meta.color != GREEN) {",
        "if (meta.color == 3) {",
        grid_test("packets_beyond_the_capacity_pass_unchanged"),
    ),
    Mutation(
        "GRID: what is over the rate is not added",
        "it is marked, and added all the same",
        ARRIVAL,
        "                        meta.aggregated = 0;\n                        meta.event",
        "                        meta.event",
        grid_test("packets_beyond_the_capacity_pass_unchanged"),
    ),
    Mutation(
        "GRID: retransmissions are not metered",
        "a retransmission beyond the capacity leaves the rest of its sum behind",
        ARRIVAL,
        "meta.aggregated == 1 && (hdr.ina.flags & NOT_AGGREGATED) == 0",
        "meta.aggregated == 1",
        grid_test("packets_beyond_the_capacity_pass_unchanged"),
    ),
    Mutation(
        "GRID: collisions are signalled",
        "with drop and signal, what collides goes to the server",
        DEPARTURE,
        "&& meta.signals == 1) {",
        "&& meta.signals != meta.signals) {",
        grid_test("a_collision_goes_to_the_server_or_back"),
    ),
    Mutation(
        "GRID: a lost contest is a collision",
        "with ESA's memory, who loses a contest is never told",
        DEPARTURE,
        "(meta.event == COLLISION || meta.event == DOWNGRADE)",
        "(meta.event == COLLISION)",
        grid_test("a_contender_that_loses_is_told_too"),
    ),
    Mutation(
        "GRID: a signal has no values",
        "telling of a collision takes as much of the link as the fragment",
        GRID_TABLES,
        "        hdr.values.setInvalid();\n",
        "",
        grid_test("a_collision_goes_to_the_server_or_back"),
    ),
)
