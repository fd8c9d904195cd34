"""Typical mistakes in lab 1."""

from __future__ import annotations

from labs._teacher import Mistake

FILE = "forward.p4"
MISTAKES = [
    Mistake(
        "TTL forgotten",
        "forwards without making the TTL smaller",
        (("        hdr.ip.ttl = hdr.ip.ttl - 1;\n", ""),),
        frozenset({"ttl", "checksum"}),
        FILE,
    ),
    Mistake(
        "TTL 1 forwarded",
        "drops only what has no hop left at all, so that a packet leaves with TTL 0",
        (("hdr.ip.ttl > 1", "hdr.ip.ttl > 0"),),
        frozenset({"expired"}),
        FILE,
    ),
    Mistake(
        "TTL not looked at",
        "lets the TTL wrap from 0 to 255",
        ((" && hdr.ip.ttl > 1", ""),),
        frozenset({"expired"}),
        FILE,
    ),
    Mistake(
        "stale checksum",
        "does not compute the checksum again",
        (("update_checksum(hdr.ip.isValid(),", "update_checksum(hdr.ip.ttl == 0,"),),
        frozenset({"checksum"}),
        FILE,
    ),
    Mistake(
        "source address kept",
        "a frame leaves with the MAC address of its first sender",
        (("        hdr.ethernet.source = meta.mac;\n", ""),),
        frozenset({"ports"}),
        FILE,
    ),
    Mistake(
        "everything is IPv4",
        "extracts an IPv4 header from whatever comes",
        (
            ("            default: accept;", "            default: parse_ip;"),
            ("        default_action = drop();", "        default_action = forward(1, 1);"),
        ),
        frozenset({"dropped"}),
        FILE,
    ),
    Mistake(
        "guessed answers",
        "has looked at the ports that packets leave on, and not at the trace",
        (("75 2f 00     walk    trap    trap", "75 2f 00     walk    jump    trap"),),
        frozenset({"answers"}),
        "answers.txt",
    ),
]
