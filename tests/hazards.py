"""The hazards of the protocols and what guards against each: the table of named mutations.

Most are a line of the P4 programs. The rest is what servers and workers must know about packets
that are late, doubled, or sums of several workers.
"""

from __future__ import annotations

from tests.mutations import Histories, Mutation, Test

ESA, ATP, SWITCHML, POOL = "p4/esa.p4", "p4/atp.p4", "p4/switchml.p4", "p4/pool.p4"
SERVER = "testbed/protocols/pool_server.py"
WORKER = "testbed/protocols/pool_worker.py"
PROMPTS = "testbed/protocols/prompts.py"

IF_MINE_ON_RESULT = """                meta.event = RESULT_PASSES;
                if (meta.mine == 1) {"""
IF_TAKEN_ON_RESULT = IF_MINE_ON_RESULT.replace("meta.mine == 1", "slot.state != EMPTY")
IF_RESEND = "} else if ((hdr.ina.flags & FLAG_RESEND) != 0) {"
NEVER_RESEND = "} else if ((hdr.ina.flags & FLAG_RESEND) == 0xffff) {"
IF_OVERLAP = "} else if (meta.known != 0 || slot.state == HELD) {"
NEVER_OVERLAP = "} else if (slot.state == HELD) {"

MUTATIONS = (
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
        Test("test_esa_events.test_swap_in_one_pass_between_jobs_with_different_servers"),
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
        Test("test_esa_events.test_partly_known_set_goes_to_the_server_unchanged"),
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
        Test("test_esa_events.test_resend_takes_a_matching_sum_along"),
    ),
    Mutation(
        "a flushed aggregator is free",
        "the sum that has left with a retransmission stays, and holds its aggregator for ever",
        ESA,
        "vacate(PULLED);\n                meta.move = TAKE;\n"
        "                take_content(slot.flags | FLAG_RESEND);",
        "meta.move = TAKE;\n                take_content(slot.flags | FLAG_RESEND);",
        Test("test_esa_events.test_resend_takes_a_matching_sum_along"),
    ),
    Mutation(
        "reminders pull the remainder",
        "what is left of an evicted fragment stays in the switch",
        ESA,
        "                    meta.event = PULL;",
        "                    meta.event = NOTHING_HELD;",
        Test("test_esa_events.test_reminder_pulls_the_remainder_once"),
    ),
    Mutation(
        "owner of a reminder",
        "a reminder takes another fragment's sum away",
        ESA,
        "                if (meta.mine == 1) {\n                    meta.event = PULL;",
        "                if (slot.state != EMPTY) {\n                    meta.event = PULL;",
        Test("test_esa_events.test_reminder_leaves_another_owner_alone"),
    ),
    Mutation(
        "downgrading",
        "an aggregator whose job is dead keeps its priority, and the aggregator",
        ESA,
        "slot.priority >> 1",
        "slot.priority",
        Test("test_hazards.test_a_dead_jobs_aggregators_are_taken_by_downgrading"),
    ),
    Mutation(
        "held sums are evicted in silence",
        "a sum that has left already leaves once more",
        ESA,
        "if (meta.preempts == 1 && slot.state == HELD) {",
        "if (meta.preempts == 1 && slot.state > 100) {",
        Test("test_esa_events.test_held_sum_is_evicted_without_a_packet"),
    ),
    Mutation(
        "empty has a flag of its own",
        "an empty aggregator looks like job 0's fragment 0",
        ESA,
        "slot.state != EMPTY && slot.job == hdr.ina.job",
        "slot.job == hdr.ina.job",
        Test("test_esa_events.test_job_zero_fragment_zero_is_not_an_empty_aggregator"),
    ),
    Mutation(
        "ghosts give way",
        "a late copy of what is over keeps its aggregator for ever",
        ESA,
        "                    meta.aged = 1;\n",
        "",
        Test("test_esa_events.test_ghost_gives_way_when_old"),
    ),
    Mutation(
        "an ended job holds nothing",
        "the aggregators of a killed job are never reclaimed",
        ESA,
        "meta.aged = meta.gone;",
        "meta.aged = 0;",
        Test("test_hazards.test_an_ended_jobs_aggregators_are_free_for_others"),
    ),
    Mutation(
        "ATP: an ended job holds nothing",
        "the aggregators of a killed job are never reclaimed",
        ATP,
        "meta.aged = meta.gone;",
        "meta.aged = 0;",
        Test("test_hazards.test_an_ended_jobs_aggregators_are_free_for_others"),
    ),
    Mutation(
        "partials go up untouched",
        "what left an aggregator claims the next one on its way, where the rest never comes",
        ESA,
        "(FLAG_PARTIAL | FLAG_COLLISION)) != 0",
        "(FLAG_PARTIAL | FLAG_COLLISION)) == 0xffff",
        Test("test_hazards.test_what_left_a_rack_is_not_aggregated_above"),
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
        Test("test_atp_events.test_held_until_the_owners_result_passes"),
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
        Test("test_atp_events.test_partly_known_set_goes_to_the_server_unchanged"),
    ),
    Mutation(
        "ATP: floats void the sum",
        "whole numbers of a fragment that goes on as floats stay in the switch",
        ATP,
        "                vacate(DISCARDED);       // the PS adds",
        "                // the PS adds",
        Test("test_atp_events.test_floats_make_the_sum_of_whole_numbers_void"),
    ),
    Mutation(
        "ATP: floats pass",
        "float32 are added as if they were whole numbers",
        ATP,
        "(FLAG_PARTIAL | FLAG_COLLISION | FLAG_FLOAT)) != 0",
        "(FLAG_PARTIAL | FLAG_COLLISION)) != 0",
        Test("test_atp_events.test_floats_make_the_sum_of_whole_numbers_void"),
    ),
    Mutation(
        "ATP: a killed job's aggregators age",
        "nobody gets an aggregator whose job is dead",
        ATP,
        "                    meta.aged = 1;\n",
        "",
        Test("test_hazards.test_a_dead_jobs_aggregators_age"),
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
            "test_switchml_events.test_sets_alternate_and_the_shadow_copy_lasts_until_all_have_moved_on"
        ),
    ),
    Mutation(
        "SwitchML: exponents are signed",
        "the largest exponent of a window is taken for the smallest",
        SWITCHML,
        "(int<8>) hdr.ina.next_exponent > (int<8>) meta.exponent",
        "hdr.ina.next_exponent > meta.exponent",
        Test("test_switchml_events.test_largest_exponent_wins_signed"),
    ),
    # ---- parameter servers ----
    Mutation(
        "server: overlapping sums are not added",
        "workers that are in two sums are counted twice",
        SERVER,
        "        elif not common:\n",
        "        elif True:\n",
        Histories("esa"),
    ),
    Mutation(
        "server: only what contains all replaces",
        "workers that a sum lacks are lost, although their bits stay",
        SERVER,
        "        elif not lacks:\n",
        "        elif True:\n",
        Histories("esa"),
    ),
    Mutation(
        "server: past iterations are over",
        "a late packet enters the sum of a fragment two iterations later",
        SERVER,
        "        if iteration < v.iteration[place]:\n",
        "        if iteration < v.iteration[place] - 2:\n",
        Histories("esa"),
    ),
    Mutation(
        "server: results are served again",
        "a worker whose result got lost never gets it",
        SERVER,
        "            if flags & wire.RESEND and worker < c[ss.WORKERS]:\n"
        "                out_lengths[m]",
        "            if flags & wire.RESEND and worker > c[ss.WORKERS]:\n"
        "                out_lengths[m]",
        Histories("esa"),
    ),
    Mutation(
        "server: it reminds",
        "the remainder of an evicted fragment waits for the workers' timers",
        PROMPTS,
        "        if v.c[ss.REMIND] == 1:\n",
        "        if v.c[ss.REMIND] == 2:\n",
        Histories("esa", lossless=True),
    ),
    Mutation(
        "server: ATP's is reminded likewise",
        "the same: every system with a pool needs the pull",
        PROMPTS,
        "        if v.c[ss.REMIND] == 1:\n",
        "        if v.c[ss.REMIND] == 2:\n",
        Histories("atp", lossless=True, options={"gap": 0}),
    ),
    # ---- workers ----
    Mutation(
        "worker: a result counts once",
        "a tensor is taken for finished before it is",
        WORKER,
        "        if b.status[fragment] & bk.RECEIVED:\n            k[n.DUPLICATE_RESULTS]",
        "        if b.status[fragment] & 0:\n            k[n.DUPLICATE_RESULTS]",
        Histories("esa"),
    ),
    Mutation(
        "worker: past results are over",
        "a late result is checked against another iteration's sum",
        WORKER,
        "        if iteration < b.s[bk.ITERATION]:\n            k[n.STALE] += 1\n",
        "        if iteration < -1:\n            k[n.STALE] += 1\n",
        Histories("esa"),
    ),
    Mutation(
        "worker: retransmissions say so",
        "a retransmission claims an aggregator that can never fill",
        WORKER,
        "        if fragment < 0:\n"
        "            break\n"
        "        _write_gradient(w, b, packets[m], fragment, wire.RESEND)\n",
        "        if fragment < 0:\n"
        "            break\n"
        "        _write_gradient(w, b, packets[m], fragment, 0)\n",
        Histories("esa", options={"reminder": "false"}),
    ),
    Mutation(
        "SwitchML's worker: timers",
        "what is lost is not sent again",
        "testbed/protocols/switchml_worker.py",
        "        late = w.due_ns[slot] <= now\n",
        "        late = w.due_ns[slot] < 0\n",
        Histories("switchml"),
    ),
    Mutation(
        "ring: a sum counts once",
        "a packet that comes twice is added twice",
        "testbed/protocols/ring.py",
        "    if r.stage[place] & rs.CAME:\n",
        "    if r.stage[place] & 0:\n",
        Histories("ring"),
        quick=True,
    ),
    Mutation(
        "ring: what is late is acknowledged",
        "a neighbour whose acknowledgement got lost sends for ever",
        "testbed/protocols/ring.py",
        "            k[n.STALE] += 1\n"
        "            link.acknowledge(r, wire.index(row), flags, now)\n",
        "            k[n.STALE] += 1\n",
        Histories("ring"),
    ),
)


def named(name: str) -> Mutation:
    return next(mutation for mutation in MUTATIONS if mutation.name == name)
