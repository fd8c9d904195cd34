"""Typical mistakes in lab 4."""

from __future__ import annotations

from labs._teacher import Mistake

MISTAKES = [
    Mistake(
        "double counting",
        "adds a duplicate, since the bitmap hides that it is one",
        (
            (
                "                drop();                  // in the sum already\n",
                "                add_values();\n                drop();\n",
            ),
        ),
        frozenset({"doubled", "lossy"}),
    ),
    Mistake(
        "result to everybody",
        "answers a retransmission with another multicast",
        (
            (
                "                standard.egress_spec = standard.ingress_port;",
                "                standard.mcast_grp = meta.group;",
            ),
        ),
        frozenset({"retransmission", "shadow", "lossy"}),
    ),
    Mistake(
        "retransmissions dropped",
        "treats a retransmission like any duplicate, so a lost result is lost for ever",
        (("if (known == 1 && meta.state == COMPLETE)", "if (known == 1 && meta.state == 9)"),),
        frozenset({"retransmission", "shadow", "lossy"}),
    ),
    Mistake(
        "no shadow copy",
        "uses one set per slot, whatever the packet asks for",
        (
            ("        meta.own = pair | second;", "        meta.own = pair;"),
            ("        meta.other = pair | (second ^ 1);", "        meta.other = pair | 1;"),
        ),
        frozenset({"shadow", "lossy"}),
    ),
    Mistake(
        "own packet instead of the sum",
        "answers a retransmission with the values that it brought",
        (("                take_values();\n", ""),),
        frozenset({"retransmission", "shadow", "lossy"}),
    ),
    Mistake(
        "late copies start a sum",
        "does not compare fragment numbers",
        (
            (
                "(meta.bitmap & hdr.agg.bitmap) != 0 && hdr.agg.number == meta.number",
                "(meta.bitmap & hdr.agg.bitmap) != 0",
            ),
            (
                "} else if (hdr.agg.number < meta.number ||\n                       (hdr",
                "} else if (hdr.agg.number < 0 && (hdr",
            ),
            ("hdr.agg.number > meta.number || meta.bitmap == 0", "meta.bitmap == 0"),
        ),
        frozenset({"moved_on", "late", "lossy"}),
    ),
    Mistake(
        "set never emptied",
        "forgets that a worker in one set has left the other",
        (
            (
                "set_bitmap.write(meta.other, others & ~hdr.agg.bitmap);",
                "set_bitmap.write(meta.other, others);",
            ),
            (
                "(meta.bitmap & hdr.agg.bitmap) != 0 && hdr.agg.number == meta.number",
                "(meta.bitmap & hdr.agg.bitmap) != 0",
            ),
            ("hdr.agg.number > meta.number || meta.bitmap == 0", "meta.bitmap == 0"),
        ),
        frozenset({"lossless", "moved_on", "again", "late", "lossy"}),
    ),
    Mistake(
        "smaller numbers are not late",
        "compares with the set's number for equality alone, so an old copy enters a newer sum",
        (
            (
                "hdr.agg.number < meta.number ||\n                       (hdr.agg.number ==",
                "(hdr.agg.number ==",
            ),
        ),
        frozenset({"late", "lossy"}),
    ),
    Mistake(
        "workers never leave a set",
        "answers late copies of workers that have moved on",
        (
            (
                "set_bitmap.write(meta.other, others & ~hdr.agg.bitmap);",
                "set_bitmap.write(meta.other, others);",
            ),
        ),
        frozenset({"moved_on", "lossy"}),
    ),
    Mistake(
        "short numbers",
        "compares the lower half of a fragment's number alone",
        (
            ("bit<32> number;                      //", "bit<16> number;                      //"),
            ("register<bit<32>>(2 * SLOTS) set_number", "register<bit<16>>(2 * SLOTS) set_number"),
            ("hdr.agg.number == meta.number) {", "(bit<16>) hdr.agg.number == meta.number) {"),
            ("hdr.agg.number < meta.number ||", "(bit<16>) hdr.agg.number < meta.number ||"),
            ("(hdr.agg.number == meta", "((bit<16>) hdr.agg.number == meta"),
            ("hdr.agg.number > meta.number ||", "(bit<16>) hdr.agg.number > meta.number ||"),
            ("meta.number = hdr.agg.number;", "meta.number = (bit<16>) hdr.agg.number;"),
        ),
        frozenset({"lossless", "again", "late", "lossy"}),
    ),
]
