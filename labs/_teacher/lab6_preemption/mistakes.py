"""Typical mistakes in lab 6."""

from __future__ import annotations

from labs._teacher import Mistake

MISTAKES = [
    Mistake(
        "newcomer's bit lost",
        "the swap puts the newcomer's values into the slot, but not its worker",
        (("bit<32> bitmap_in = hdr.agg.bitmap;", "bit<32> bitmap_in = 0;"),),
        frozenset({"newcomer", "utilisation", "histories"}),
    ),
    Mistake(
        "partial to the wrong PS",
        "looks the port up for the job that the packet came with",
        (
            (
                "        bit<1> leaves = 0;               // towards a PS\n",
                "        bit<1> leaves = 0;\n        bit<8> job_came = hdr.agg.job;\n        bit<8> job_goes = 0;\n",
            ),
            (
                "            server.apply();\n",
                "            job_goes = hdr.agg.job;\n            hdr.agg.job = job_came;\n            server.apply();\n            hdr.agg.job = job_goes;\n",
            ),
        ),
        frozenset({"home", "histories"}),
    ),
    Mistake(
        "equal priority preempts",
        "takes the slot when the priorities are equal",
        (("hdr.agg.priority > meta.priority", "hdr.agg.priority >= meta.priority"),),
        frozenset({"refused", "histories"}),
    ),
    Mistake(
        "eviction without the values",
        "evicts the owner and lets the newcomer's own values travel on",
        (("                trade_values();\n", "                store_values();\n"),),
        frozenset({"swap", "downgrade", "histories"}),
    ),
    Mistake(
        "partial not flagged",
        "an evicted sum looks like a complete one",
        (
            (
                "                become_content();\n                hdr.agg.flags = hdr.agg.flags | PARTIAL;\n                meta.job = job_in;",
                "                become_content();\n                meta.job = job_in;",
            ),
        ),
        frozenset({"partial", "histories"}),
    ),
    Mistake(
        "no downgrading",
        "an owner of high priority keeps its slot for ever, even when it is dead",
        (("meta.priority = meta.priority >> 1;", "meta.priority = meta.priority;"),),
        frozenset({"downgrade", "histories"}),
    ),
    Mistake(
        "reminder frees whoever is there",
        "does not compare the owner",
        (
            (
                "                leaves = 1;\n                if (mine == 1) {\n                    add_value_header",
                "                leaves = 1;\n                if (meta.state != EMPTY) {\n                    add_value_header",
            ),
        ),
        frozenset({"remind", "histories"}),
    ),
    Mistake(
        "new owner's name on the old sum",
        "writes the newcomer into the slot before the packet has taken the old owner out",
        (
            (
                "                trade_values();\n                become_content();\n",
                "                trade_values();\n                hdr.agg.bitmap = meta.bitmap;\n",
            ),
        ),
        frozenset({"swap", "home", "downgrade", "histories"}),
    ),
    Mistake(
        "evicted sum without its priority",
        "leaves the newcomer's priority in the packet",
        (("        hdr.agg.priority = meta.priority;\n", ""),),
        frozenset({"swap", "histories"}),
    ),
    Mistake(
        "results to nobody",
        "forgets the workers, who wait for the result",
        (("                standard.mcast_grp = meta.group;\n", "                drop();\n"),),
        frozenset({"complete", "histories"}),
    ),
    Mistake(
        "one slot more",
        "takes the first slot behind the pool for one of it",
        (("hdr.agg.slot < meta.size", "hdr.agg.slot <= meta.size"),),
        frozenset({"refused", "histories"}),
    ),
    Mistake(
        "priorities with a sign",
        "compares priorities as int8, so the most urgent fragments are the least urgent",
        (
            (
                "hdr.agg.priority > meta.priority",
                "(int<8>) hdr.agg.priority > (int<8>) meta.priority",
            ),
        ),
        frozenset({"swap", "refused", "histories"}),
    ),
    Mistake(
        "takes slots without being asked",
        "does not look at the policy",
        (("meta.preemption == 1 && hdr.agg.priority >", "hdr.agg.priority >"),),
        frozenset({"refused", "utilisation", "histories"}),
    ),
]
