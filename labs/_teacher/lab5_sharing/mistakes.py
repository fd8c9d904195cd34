"""Typical mistakes in lab 5."""

from __future__ import annotations

from labs._teacher import Mistake

MISTAKES = [
    Mistake(
        "frees another owner's slot",
        "a result frees whatever it finds",
        (
            (
                "                if (mine == 1) {\n                    meta.state",
                "                if (inside == 1) {\n                    meta.state",
            ),
        ),
        frozenset({"owner", "histories"}),
    ),
    Mistake(
        "owner without the job",
        "compares fragment numbers only, so the jobs' fragments mix",
        (("meta.state != EMPTY && meta.job == hdr.agg.job &&\n", "meta.state != EMPTY &&\n"),),
        frozenset({"collision", "held", "owner", "resend", "histories"}),
    ),
    Mistake(
        "free when complete",
        "does not keep a sum until its result has passed",
        (("                    meta.state = HELD;", "                    meta.state = EMPTY;"),),
        frozenset({"held", "duplicate", "histories"}),
    ),
    Mistake(
        "never freed",
        "results pass, and slots stay taken",
        (
            (
                "                    meta.state = EMPTY;\n                    write_slot();\n                }\n            } else if ((hdr",
                "                    write_slot();\n                }\n            } else if ((hdr",
            ),
        ),
        frozenset({"released", "histories"}),
    ),
    Mistake(
        "double counting",
        "adds a worker that is in the sum already",
        (
            (
                "                    drop();\n                }\n            } else {\n                add_values();",
                "                    add_values();\n                    drop();\n                }\n            } else {\n                add_values();",
            ),
        ),
        frozenset({"duplicate", "histories"}),
    ),
    Mistake(
        "own bitmap",
        "sends a sum with the bitmap of the last packet",
        (
            (
                "                    hdr.agg.bitmap = meta.merged;\n                    to_server();\n                } else {\n                    drop();",
                "                    to_server();\n                } else {\n                    drop();",
            ),
        ),
        frozenset({"complete", "collision", "owner", "duplicate", "partition", "histories"}),
    ),
    Mistake(
        "no collision flag",
        "sends what found no slot on its way without a word",
        (
            (
                "            } else if (mine == 0) {\n                hdr.agg.flags = hdr.agg.flags | COLLISION;\n",
                "            } else if (mine == 0) {\n",
            ),
        ),
        frozenset({"collision", "held", "histories"}),
    ),
    Mistake(
        "partition ignored",
        "maps slots into the whole pool",
        (("(bit<32>) (meta.base + hdr.agg.slot)", "(bit<32>) hdr.agg.slot"),),
        frozenset({"partition", "histories"}),
    ),
    Mistake(
        "one slot more",
        "takes the first slot behind its part for its own",
        (("hdr.agg.slot < meta.size", "hdr.agg.slot <= meta.size"),),
        frozenset({"partition", "histories"}),
    ),
    Mistake(
        "short numbers",
        "keeps the lower half of an owner's number",
        (
            ("    bit<32> number;", "    bit<16> number;"),
            ("register<bit<32>>(SLOTS) slot_number", "register<bit<16>>(SLOTS) slot_number"),
            ("meta.number == hdr.agg.number", "meta.number == (bit<16>) hdr.agg.number"),
            ("meta.number = hdr.agg.number;", "meta.number = (bit<16>) hdr.agg.number;"),
        ),
        frozenset({"collision", "owner", "histories"}),
    ),
]
