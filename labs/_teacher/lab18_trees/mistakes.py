"""Typical mistakes in lab 18."""

from __future__ import annotations

from labs._teacher import Mistake

_SWITCH, _MODEL = "tree.p4", "costs.py"
_ROUNDED = frozenset({"orders", "rounding", "shapes", "histories", "network"})
MISTAKES = [
    Mistake(
        "rounded at every step",
        "rounds a leaf's sum to bf16 before it goes up, so the tree decides the last bits",
        (
            (
                "                        if (meta.bitmap == meta.everyone && meta.parent == 0) {\n"
                "                            EACH_VALUE(TO_BF16)\n",
                "                        if (meta.bitmap == meta.everyone) {\n"
                "                            EACH_VALUE(TO_BF16)\n"
                "                            if (meta.parent != 0) { EACH_VALUE(TO_FIXED) }\n",
            ),
        ),
        frozenset({"upwards", "downwards", "reminders", "histories", "network"}),
        _SWITCH,
    ),
    Mistake(
        "cut off",
        "does not round, so sums are too small",
        (
            (
                "if (rest > 0x800000 || (rest == 0x800000 && size[0:0] == 1)) {",
                "if (rest > 0xffffffff) {",
            ),
        ),
        _ROUNDED,
        _SWITCH,
    ),
    Mistake(
        "half a step up",
        "rounds two equally near numbers up, and not to the even one",
        (("(rest == 0x800000 && size[0:0] == 1)", "rest == 0x800000"),),
        frozenset({"rounding", "histories"}),
        _SWITCH,
    ),
    Mistake(
        "no sign",
        "adds up absolute values",
        (("        if (code[15:15] == 1) { size = -size; }                     \\\n", ""),),
        frozenset({*_ROUNDED, "upwards", "downwards", "reminders"}),
        _SWITCH,
    ),
    Mistake(
        "small numbers wrap",
        "shifts by a negative number, so what is below a unit becomes large or nothing",
        (
            (
                "        if (exponent < hdr.agg.priority) {                          \\\n",
                "        if (false) {                          \\\n",
            ),
        ),
        frozenset({*_ROUNDED, "upwards", "downwards", "reminders"}),
        _SWITCH,
    ),
    Mistake(
        "sums of sums as numbers",
        "takes the sums of leaves for bf16",
        (("(hdr.agg.flags & PARTIAL) == 0", "hdr.agg.flags < 8"),),
        frozenset({"shapes", "histories", "network"}),
        _SWITCH,
    ),
    Mistake(
        "a leaf that ends it",
        "sends a leaf's sum to its hosts as the result",
        (
            (
                "                    if (meta.bitmap == meta.everyone && meta.parent == 0) {\n"
                "                        meta.state = DONE;",
                "                    if (meta.bitmap == meta.everyone) {\n"
                "                        meta.state = DONE;",
            ),
        ),
        frozenset({"upwards", "downwards", "reminders", "histories", "network"}),
        _SWITCH,
    ),
    Mistake(
        "waits for the parent",
        "drops copies until the result is here, so a sum that is lost is lost for ever",
        (
            (
                "                    take_values();\n                    make_partial(PARTIAL | RESEND);",
                "                    drop();",
            ),
        ),
        frozenset({"downwards", "histories", "network"}),
        _SWITCH,
    ),
    Mistake(
        "results from anywhere",
        "takes a result from any port",
        (("(meta.state == SENT && standard.ingress_port == meta.parent)", "meta.state == SENT"),),
        frozenset({"downwards", "histories"}),
        _SWITCH,
    ),
    Mistake(
        "never asks",
        "a new root waits for sums that nobody sends",
        (
            (
                "(hdr.agg.flags & (PARTIAL | RESEND)) == (PARTIAL | RESEND)",
                "hdr.agg.flags == 0xff",
            ),
        ),
        frozenset({"asking", "histories", "network"}),
        _SWITCH,
    ),
    Mistake(
        "reminders without end",
        "answers a reminder with a flag that makes the root ask again",
        (
            (
                "                if (meta.state == SENT) {\n"
                "                    make_partial(PARTIAL);",
                "                if (meta.state == SENT) {\n"
                "                    make_partial(PARTIAL | RESEND);",
            ),
        ),
        frozenset({"reminders", "histories", "network"}),
        _SWITCH,
    ),
    Mistake(
        "values without room",
        "answers a reminder with the lengths of a packet without values",
        (
            ("        hdr.ip.length = hdr.ip.length + 4 * VALUES;\n", ""),
            ("        hdr.udp.length = hdr.udp.length + 4 * VALUES;\n", ""),
        ),
        frozenset({"reminders", "histories"}),
        _SWITCH,
    ),
    Mistake(
        "one way",
        "counts the way up and forgets the way down",
        (("2 * tiers * (alpha_s", "tiers * (alpha_s"),),
        frozenset({"costs"}),
        _MODEL,
    ),
]
