"""Typical mistakes in lab 2."""

from __future__ import annotations

from labs._teacher import Mistake

_ALL = frozenset(
    ["multicast", "sums", "negative", "header", "rounds", "any_number", "others", "histories"]
)
MISTAKES = [
    Mistake(
        "off-by-one fan-in",
        "compares before counting the packet itself, so a round ends one gradient too late",
        (
            ("            n = n + 1;\n            if (n == ", "            if (n == "),
            ("            count.write(0, n);", "            count.write(0, n + 1);"),
        ),
        _ALL,
    ),
    Mistake(
        "count never reset",
        "the second round starts with the count of the first",
        (("                n = 0;\n", ""),),
        frozenset({"rounds", "histories"}),
    ),
    Mistake(
        "sum never reset",
        "adds the first gradient of a round to what the last round has left",
        (
            (
                "            if (n == 0) {\n                store();",
                "            if (n == 255) {\n                store();",
            ),
        ),
        frozenset({"rounds", "histories"}),
    ),
    Mistake(
        "reply to the last worker only",
        "sends the result back where the packet came from",
        (("standard.mcast_grp = WORKERS_GROUP;", "standard.egress_spec = standard.ingress_port;"),),
        frozenset({"multicast", "histories"}),
    ),
    Mistake(
        "copy and paste",
        "the fourth value is added to the third register's content",
        (("        sum3.read(old, 0);", "        sum2.read(old, 0);"),),
        frozenset({"sums", "negative", "rounds", "others", "histories"}),
    ),
    Mistake(
        "everything counts",
        "does not look at the packet's kind",
        (("hdr.sum.isValid() && hdr.sum.kind == GRADIENT", "hdr.sum.isValid()"),),
        frozenset({"others", "histories"}),
    ),
    Mistake(
        "gradient instead of result",
        "forgets to make the packet a result",
        (("        hdr.sum.kind = RESULT;\n", ""),),
        frozenset({"header", "histories"}),
    ),
    Mistake(
        "hard-coded fan-in",
        "ignores the control plane's number of workers",
        (("if (n == meta.workers)", "if (n == 9)"),),
        _ALL,
    ),
]
