"""Typical mistakes in lab 12."""

from __future__ import annotations

from labs._teacher import Mistake

_SPEED = frozenset({"better_than_none", "better_than_fcfs", "as_good_as_esa", "better_than_esa"})
_CHOICE = "                } else {\n                    bit<8> state_first = meta.state;"
_ONE_PLACE = _CHOICE.replace("else {", "else if (meta.size == 0) {")
_EVICTS = "meta.preemption == 1 && hdr.agg.priority > meta.priority"
MISTAKES = [
    Mistake(
        "ESA again",
        "is no better than what it is compared with",
        ((_CHOICE, _ONE_PLACE),),
        frozenset({"better_than_esa"}),
    ),
    Mistake(
        "first come, first served",
        "has no idea",
        ((_CHOICE, _ONE_PLACE), (_EVICTS, "meta.size == 0")),
        _SPEED - {"better_than_none"},
    ),
    Mistake(
        "newcomer's bit lost",
        "the swap puts the newcomer's values into the slot, but not its worker",
        (("bit<32> bitmap_in = hdr.agg.bitmap;", "bit<32> bitmap_in = 0;"),),
        _SPEED | {"exact"},
    ),
    Mistake(
        "eviction without the values",
        "evicts the owner and lets the newcomer's own values travel on",
        (("                trade_values();\n", "                store_values();\n"),),
        _SPEED | {"exact"},
    ),
    Mistake(
        "a reminder's checksum is kept",
        "the answer has values that the reminder has not, and its UDP checksum does not fit them",
        (("        hdr.udp.checksum = 0;\n", ""),),
        _SPEED | {"exact"},
    ),
    Mistake(
        "reminders know one place",
        "a sum in the second place is never handed out",
        (
            (
                "                bit<16> other = hdr.agg.slot + (meta.size >> 1);\n",
                "                bit<16> other = hdr.agg.slot + (meta.size >> 1);\n"
                "                if (hdr.agg.kind == REMINDER) {\n                    other = hdr.agg.slot;\n"
                "                }\n",
            ),
        ),
        _SPEED | {"exact"},
    ),
]
