"""The hazards that the switches' P4 programs guard against; most are a line of them."""

from __future__ import annotations

from tests.support.mutations.mutation import Histories, Mutation, Test

ESA, ATP, SWITCHML, POOL = "p4/esa.p4", "p4/atp.p4", "p4/switchml.p4", "p4/pool.p4"
ADMISSION, ZEROS, SHORT_VALUES = "p4/admission.p4", "p4/zeros.p4", "p4/short_values.p4"

IF_MINE_ON_RESULT = """                meta.event = RESULT_PASSES;
                if (meta.mine == 1) {"""
IF_TAKEN_ON_RESULT = IF_MINE_ON_RESULT.replace("meta.mine == 1", "slot.state != EMPTY")
IF_RESEND = "} else if ((hdr.ina.flags & FLAG_RESEND) != 0) {"
NEVER_RESEND = "} else if ((hdr.ina.flags & FLAG_RESEND) == 0xffff) {"
IF_OVERLAP = "} else if (meta.known != 0 || slot.state == HELD) {"
NEVER_OVERLAP = "} else if (slot.state == HELD) {"

MUTATIONS = (
    # ---- what nobody in the job can have sent ----
    Mutation(
        "admission by port",
        "a packet that claims a job is believed wherever it comes from",
        ADMISSION,
        "        meta.refused = 1;\n",
        "",
        Test("p4.test_esa_events.test_a_job_is_refused_at_ports_where_it_has_no_host"),
        quick=True,
    ),
    Mutation(
        "last fragment",
        "a fragment that the job does not have takes an aggregator",
        ESA,
        "            if (hdr.ina.fragment > meta.last) {",
        "            if (false) {",
        Test("p4.test_esa_events.test_a_fragment_behind_the_job_s_last_one_is_a_collision"),
    ),
    Mutation(
        "next chunk of a set",
        "a chunk far in the future makes all due ones stale",
        SWITCHML,
        "                        inside = 0;      // no worker can be so far ahead\n",
        "",
        Test("p4.test_switchml_events.test_a_chunk_further_ahead_than_a_worker_can_be_is_dropped"),
    ),
    # ---- packets without values ----
    Mutation(
        "a sum that zeros complete",
        "a packet without values takes nothing along, though it completes a sum",
        ZEROS,
        "        meta.move = TAKE;  ",
        "        meta.move = KEEP;  ",
        Test("p4.test_zeros.test_zeros_that_complete_a_sum_leave_with_it"),
        quick=True,
    ),
    Mutation(
        "every value counts",
        "a packet goes without its values when only the last one is 0",
        ZEROS,
        "some_bit = some_bit | hdr.values.v##n;",
        "some_bit = hdr.values.v##n;",
        Test("p4.test_zeros.test_zeros_that_complete_a_sum_leave_with_it"),
    ),
    # ---- values of 16 bits ----
    Mutation(
        "rounding of whole sums",
        "the sum of some workers is rounded, and once more when the others are in",
        SHORT_VALUES,
        "        if (everyone != 0 && hdr.workers.bitmap == everyone) {  ",
        "        if (everyone != 0) {  ",
        Test(
            "p4.test_short_values.test_a_swap_carries_the_evicted_sum_to_its_own_server_unrounded"
        ),
        quick=True,
    ),
    Mutation(
        "every value is measured",
        "a sum is cut to 16 bits because its last value fits",
        SHORT_VALUES,
        "too_wide = too_wide | ((",
        "too_wide = ((",
        Test(
            "p4.test_short_values.test_a_swap_carries_the_evicted_sum_to_its_own_server_unrounded"
        ),
    ),
    # ---- ESA's switch ----
    Mutation(
        "newcomer's bit",
        "after a swap the newcomer's values are in the sum, but not its worker",
        ESA,
        "                vacate(EVICTED);\n                occupy();\n",
        "                vacate(EVICTED);\n                occupy();\n"
        "                next.bitmap = 0;\n",
        Histories("esa"),
        quick=True,
    ),
    Mutation(
        "trade",
        "a swap sends the newcomer's values as the evicted sum",
        ESA,
        "                meta.move = TRADE;\n",
        "",
        Histories("esa"),
    ),
    Mutation(
        "route by owner",
        "an evicted sum goes to the server of the job that evicted it",
        POOL,
        "        meta.job = slot.job;\n",
        "",
        Histories("esa"),
        quick=True,
    ),
    Mutation(
        "route by owner, two servers",
        "the same, seen packet by packet",
        POOL,
        "        meta.job = slot.job;\n",
        "",
        Test("p4.test_esa_events.test_swap_in_one_pass_between_jobs_with_different_servers"),
    ),
    Mutation(
        "known worker",
        "a packet that comes twice is added twice",
        ESA,
        "                        meta.event = DUPLICATE;",
        "                        meta.event = ADD;",
        Histories("esa"),
        quick=True,
    ),
    Mutation(
        "partly known workers",
        "a sum that shares workers with the aggregator's is added",
        ESA,
        IF_OVERLAP,
        NEVER_OVERLAP,
        Test("p4.test_esa_events.test_partly_known_set_goes_to_the_server_unchanged"),
    ),
    Mutation(
        "owner of a result",
        "a late result frees an aggregator that another fragment has taken since",
        ESA,
        IF_MINE_ON_RESULT,
        IF_TAKEN_ON_RESULT,
        Histories("esa", lossless=True, options={"release": "on_result"}),
        quick=True,
    ),
    Mutation(
        "owner of a result, two levels",
        "the same in a rack's switch",
        ESA,
        IF_MINE_ON_RESULT,
        IF_TAKEN_ON_RESULT,
        Histories("esa", racks=True, lossless=True, options={"release": "on_result"}),
    ),
    Mutation(
        "resends bypass allocation",
        "a retransmission claims an aggregator that can never fill: its other workers are at the"
        " server already",
        ESA,
        IF_RESEND,
        NEVER_RESEND,
        Histories("esa", options={"reminder": "false"}),
    ),
    Mutation(
        "resends flush",
        "a retransmission of a fragment that is held here leaves the rest behind",
        ESA,
        "                        meta.event = FLUSH_ADD;",
        "                        meta.event = PASS;",
        Test("p4.test_esa_events.test_resend_takes_a_matching_sum_along"),
    ),
    Mutation(
        "a flushed aggregator is free",
        "the sum that has left with a retransmission stays, and holds its aggregator for ever",
        ESA,
        "vacate(PULLED);\n                meta.move = TAKE;\n"
        "                take_content(slot.flags | FLAG_RESEND);",
        "meta.move = TAKE;\n                take_content(slot.flags | FLAG_RESEND);",
        Test("p4.test_esa_events.test_resend_takes_a_matching_sum_along"),
    ),
    Mutation(
        "reminders pull the remainder",
        "what is left of an evicted fragment stays in the switch",
        ESA,
        "                    meta.event = PULL;",
        "                    meta.event = NOTHING_HELD;",
        Test("p4.test_esa_events.test_reminder_pulls_the_remainder_once"),
    ),
    Mutation(
        "owner of a reminder",
        "a reminder takes another fragment's sum away",
        ESA,
        "                if (meta.mine == 1) {\n                    meta.event = PULL;",
        "                if (slot.state != EMPTY) {\n                    meta.event = PULL;",
        Test("p4.test_esa_events.test_reminder_leaves_another_owner_alone"),
    ),
    Mutation(
        "downgrading",
        "an aggregator whose job is dead keeps its priority, and the aggregator",
        ESA,
        "slot.priority >> 1",
        "slot.priority",
        Test(
            "protocols.test_abandoned_aggregators.test_a_dead_jobs_aggregators_are_taken_by_downgrading"
        ),
    ),
    Mutation(
        "held sums are evicted in silence",
        "a sum that has left already leaves once more",
        ESA,
        "if (meta.preempts == 1 && slot.state == HELD) {",
        "if (meta.preempts == 1 && slot.state > 100) {",
        Test("p4.test_esa_events.test_held_sum_is_evicted_without_a_packet"),
    ),
    Mutation(
        "empty has a flag of its own",
        "an empty aggregator looks like job 0's fragment 0",
        ESA,
        "slot.state != EMPTY && slot.job == hdr.ina.job",
        "slot.job == hdr.ina.job",
        Test("p4.test_esa_events.test_job_zero_fragment_zero_is_not_an_empty_aggregator"),
    ),
    Mutation(
        "ghosts give way",
        "a late copy of what is over keeps its aggregator for ever",
        ESA,
        "                    meta.aged = 1;\n",
        "",
        Test("p4.test_esa_events.test_ghost_gives_way_when_old"),
    ),
    Mutation(
        "an ended job holds nothing",
        "the aggregators of a killed job are never reclaimed",
        ESA,
        "meta.aged = meta.gone;",
        "meta.aged = 0;",
        Test(
            "protocols.test_abandoned_aggregators.test_an_ended_jobs_aggregators_are_free_for_others"
        ),
    ),
    Mutation(
        "ATP: an ended job holds nothing",
        "the aggregators of a killed job are never reclaimed",
        ATP,
        "meta.aged = meta.gone;",
        "meta.aged = 0;",
        Test(
            "protocols.test_abandoned_aggregators.test_an_ended_jobs_aggregators_are_free_for_others"
        ),
    ),
    Mutation(
        "partials go up untouched",
        "what left an aggregator claims the next one on its way, where the rest never comes",
        ESA,
        "(FLAG_PARTIAL | FLAG_COLLISION)) != 0",
        "(FLAG_PARTIAL | FLAG_COLLISION)) == 0xffff",
        Test(
            "protocols.test_abandoned_aggregators.test_partial_and_collided_packets_are_not_aggregated_above"
        ),
    ),
    # ---- ATP's switch ----
    Mutation(
        "ATP: known worker",
        "a packet that comes twice is added twice",
        ATP,
        "                        meta.event = DUPLICATE;",
        "                        meta.event = ADD;",
        Histories("atp"),
        quick=True,
    ),
    Mutation(
        "ATP: owner of a result",
        "a late result frees an aggregator that another fragment has taken since",
        ATP,
        IF_MINE_ON_RESULT,
        IF_TAKEN_ON_RESULT,
        Histories("atp", lossless=True),
    ),
    Mutation(
        "ATP: held until the result",
        "an aggregator is free before its fragment's result is out",
        ATP,
        "                if (meta.hold == 1) {",
        "                if (meta.hold != meta.hold) {",
        Test("p4.test_atp_events.test_held_until_the_owners_result_passes"),
    ),
    Mutation(
        "ATP: collisions fall back",
        "what finds its aggregator taken is lost",
        ATP,
        "                    meta.event = COLLISION;",
        "                    meta.event = DUPLICATE;",
        Histories("atp", lossless=True, options={"gap": 0}),
    ),
    Mutation(
        "ATP: resends bypass allocation",
        "a retransmission claims an aggregator that can never fill",
        ATP,
        IF_RESEND,
        NEVER_RESEND,
        Histories("atp", options={"reminder": "false"}),
    ),
    Mutation(
        "ATP: partly known workers",
        "a sum that shares workers with the aggregator's is added",
        ATP,
        IF_OVERLAP,
        NEVER_OVERLAP,
        Test("p4.test_atp_events.test_partly_known_set_goes_to_the_server_unchanged"),
    ),
    Mutation(
        "ATP: floats void the sum",
        "whole numbers of a fragment that goes on as floats stay in the switch",
        ATP,
        "                vacate(DISCARDED);       // the PS adds",
        "                // the PS adds",
        Test("p4.test_atp_events.test_floats_make_the_sum_of_whole_numbers_void"),
    ),
    Mutation(
        "ATP: floats pass",
        "float32 are added as if they were whole numbers",
        ATP,
        "(FLAG_PARTIAL | FLAG_COLLISION | FLAG_FLOAT)) != 0",
        "(FLAG_PARTIAL | FLAG_COLLISION)) != 0",
        Test("p4.test_atp_events.test_floats_make_the_sum_of_whole_numbers_void"),
    ),
    Mutation(
        "ATP: a killed job's aggregators age",
        "nobody gets an aggregator whose job is dead",
        ATP,
        "                    meta.aged = 1;\n",
        "",
        Test("protocols.test_abandoned_aggregators.test_a_dead_jobs_aggregators_age"),
    ),
    # ---- SwitchML's switch ----
    Mutation(
        "SwitchML: the set remembers its chunk",
        "a late copy starts a chunk that is over and spoils the next",
        SWITCHML,
        "if (own.state != EMPTY) {",
        "if (own.state > 100) {",
        Histories("switchml"),
        quick=True,
    ),
    Mutation(
        "SwitchML: a slot of one set remembers its chunk",
        "a late copy enters the slot's next chunk",
        SWITCHML,
        "if (own.state != EMPTY) {",
        "if (own.state > 100) {",
        Histories("switchml", lossless=True, options={"sets": 1}),
    ),
    Mutation(
        "SwitchML: a slot of one set is free when it is complete",
        "a late copy of a chunk that is over starts it anew",
        SWITCHML,
        "                    own.state = RELEASED;\n                }\n                meta.leaves",
        "                    own.state = EMPTY;\n                }\n                meta.leaves",
        Test(
            "protocols.test_switchml_one_set.test_a_complete_slot_is_free_and_remembers_its_chunk"
        ),
    ),
    Mutation(
        "SwitchML: known worker",
        "a packet that comes twice is added twice",
        SWITCHML,
        "                meta.event = DUPLICATE;",
        "                meta.event = ADD;",
        Histories("switchml"),
    ),
    Mutation(
        "SwitchML: the shadow copy answers",
        "a worker whose result got lost never gets it",
        SWITCHML,
        "(meta.known != 0 && own.state == HELD)",
        "(meta.known != 0 && own.state > 100)",
        Histories("switchml"),
    ),
    Mutation(
        "SwitchML: subtotals are served upwards",
        "the same with the result lost between two switches",
        SWITCHML,
        "(meta.known != 0 && own.state == HELD)",
        "(meta.known != 0 && own.state == HELD && meta.root == 1)",
        Histories("switchml", racks=True),
    ),
    Mutation(
        "SwitchML: workers leave the other set",
        "a set is not free when all its workers have moved on",
        SWITCHML,
        "        other.bitmap = other.bitmap & ~hdr.workers.bitmap;\n",
        "",
        Test(
            "p4.test_switchml_events.test_sets_alternate_and_the_shadow_copy_lasts_until_all_have_moved_on"
        ),
    ),
    Mutation(
        "SwitchML: exponents are signed",
        "the largest exponent of a window is taken for the smallest",
        SWITCHML,
        "(int<8>) hdr.ina.next_exponent > (int<8>) meta.exponent",
        "hdr.ina.next_exponent > meta.exponent",
        Test("p4.test_switchml_events.test_largest_exponent_wins_signed"),
    ),
)
