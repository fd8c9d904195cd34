"""Typical mistakes in lab 17."""

from __future__ import annotations

from labs._teacher import Mistake

_SWITCH, _MODEL = "experts.p4", "costs.py"
MISTAKES = [
    Mistake(
        "tokens for everybody",
        "does not look at the bitmap of experts",
        (("(hdr.agg.bitmap & meta.worker) == 0", "meta.worker == 0"),),
        frozenset({"dispatch", "again", "passed", "histories", "lossy", "burst"}),
        _SWITCH,
    ),
    Mistake(
        "tokens from anybody",
        "lets a host claim the slot of another one",
        (
            (
                "hdr.values.isValid() &&\n                standard.ingress_port == meta.home",
                "hdr.values.isValid()",
            ),
        ),
        frozenset({"dispatch", "histories"}),
        _SWITCH,
    ),
    Mistake(
        "always the same number of experts",
        "ends a sum with the second answer",
        (
            (
                "                    if (meta.seen == meta.wanted) {\n                        make_result();",
                "                    if ((meta.seen & (meta.seen - 1)) != 0) {\n"
                "                        make_result();",
            ),
        ),
        frozenset({"combine", "dropped", "histories", "lossy", "burst"}),
        _SWITCH,
    ),
    Mistake(
        "slots that are not cleared",
        "adds the answers to those of the slot's last token",
        (("#define CLEAR_VALUE(n) value_##n.write(meta.slot, 0);", "#define CLEAR_VALUE(n)"),),
        frozenset({"combine", "histories", "lossy"}),
        _SWITCH,
    ),
    Mistake(
        "answers counted twice",
        "adds a copy of an answer",
        (
            (
                "(hdr.agg.bitmap & meta.wanted & ~meta.seen) != 0",
                "(hdr.agg.bitmap & meta.wanted) != 0",
            ),
        ),
        frozenset({"again", "histories", "lossy"}),
        _SWITCH,
    ),
    Mistake(
        "late answers",
        "adds an answer to the slot's next token",
        (("} else if (hdr.agg.number == meta.number &&\n", "} else if (\n"),),
        frozenset({"histories", "lossy"}),
        _SWITCH,
    ),
    Mistake(
        "everything again",
        "sends a token that comes again to all of its experts",
        (("                    hdr.agg.bitmap = meta.wanted & ~meta.seen;\n", ""),),
        frozenset({"again", "histories"}),
        _SWITCH,
    ),
    Mistake(
        "starts again",
        "clears the slot when a token is sent again",
        (("hdr.agg.number > meta.number)", "hdr.agg.number >= meta.number)"),),
        frozenset({"again", "histories"}),
        _SWITCH,
    ),
    Mistake(
        "waits for who has dropped",
        "takes answers with values alone",
        (
            (
                "((hdr.agg.kind == GRADIENT && hdr.values.isValid()) ||\n"
                "                       hdr.agg.kind == NOTHING)",
                "(hdr.agg.kind == GRADIENT && hdr.values.isValid())",
            ),
        ),
        frozenset({"dropped", "passed", "histories", "lossy", "burst"}),
        _SWITCH,
    ),
    Mistake(
        "a result without room",
        "puts values into a packet whose lengths say that it has none",
        (
            ("        hdr.ip.length = hdr.ip.length + 4 * VALUES;\n", ""),
            ("        hdr.udp.length = hdr.udp.length + 4 * VALUES;\n", ""),
        ),
        frozenset({"dropped", "histories"}),
        _SWITCH,
    ),
    Mistake(
        "slots behind the last",
        "treats a token without a slot as if it had one",
        (
            (
                "                if (hdr.agg.slot >= SLOTS) {\n"
                "                    standard.egress_spec = meta.home;\n"
                "                } else if",
                "                if",
            ),
        ),
        frozenset({"passed", "histories", "lossy"}),
        _SWITCH,
    ),
    Mistake(
        "twice as fast",
        "counts one direction of the tokens' way",
        (("2 * experts * tokens", "experts * tokens"),),
        frozenset({"costs"}),
        _MODEL,
    ),
    Mistake(
        "no room in the queue",
        "counts what the link cannot take, without what waits",
        ((" - queue)", ")"),),
        frozenset({"costs"}),
        _MODEL,
    ),
]
