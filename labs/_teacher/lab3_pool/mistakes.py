"""Typical mistakes in lab 3."""

from __future__ import annotations

from labs._teacher import Mistake

MISTAKES = [
    Mistake(
        "one slot for all",
        "has a pool, but always uses its first element",
        (
            (
                "slot, hdr.values.v##n);\n        EACH_VALUE(STORE",
                "slot * 0, hdr.values.v##n);\n        EACH_VALUE(STORE",
            ),
            ("value_##n.read(old, (bit<32>) hdr.agg.slot);", "value_##n.read(old, 0);"),
            (
                "value_##n.write((bit<32>) hdr.agg.slot, hdr.values.v##n);\n        EACH_VALUE(ADD",
                "value_##n.write(0, hdr.values.v##n);\n        EACH_VALUE(ADD",
            ),
        ),
        frozenset({"slots", "histories"}),
    ),
    Mistake(
        "off-by-one pool",
        "lets the slot behind the last one pass",
        (("hdr.agg.slot < SLOTS", "hdr.agg.slot <= SLOTS"),),
        frozenset({"outside"}),
    ),
    Mistake(
        "no limit",
        "does not look whether the slot is in the pool",
        ((" && hdr.agg.slot < SLOTS", ""),),
        frozenset({"outside"}),
    ),
    Mistake(
        "stale IPv4 checksum",
        "changes the addresses and leaves the checksum",
        (("update_checksum(hdr.ip.isValid(),", "update_checksum(hdr.ip.ttl == 0,"),),
        frozenset({"ip_checksum", "histories"}),
    ),
    Mistake(
        "stale UDP checksum",
        "keeps the sender's UDP checksum",
        (("        hdr.udp.checksum = 0;\n", ""),),
        frozenset({"udp_checksum", "histories"}),
    ),
    Mistake(
        "addressed once",
        "does not address the copies; all go to the same host",
        (("        receiver.apply();\n", ""),),
        frozenset({"addresses", "ip_checksum", "histories"}),
    ),
    Mistake(
        "keeps the sender's address",
        "a host drops packets that seem to come from itself",
        (("        hdr.ip.source = meta.ip;\n", ""),),
        frozenset({"addresses", "ip_checksum", "histories"}),
    ),
    Mistake(
        "hidden clearing",
        "forgets the count after a result",
        (("                n = 0;\n", ""),),
        frozenset({"again", "histories"}),
    ),
]
