"""Typical mistakes in lab 10."""

from __future__ import annotations

from labs._teacher import Mistake

_ALL = frozenset({"right", "values", "rounds", "workers", "again", "packets"})
MISTAKES = [
    Mistake(
        "expects what is left open",
        "the destination of an answer to one worker may be its own address",
        (("expect 1 ************ 0a", "expect 1 ffffffffffff 0a"),),
        _ALL,
    ),
    Mistake(
        "positive numbers only",
        "a comparison without a sign is right for them",
        (
            ("88b6 01 00 0000 fb 85", "88b6 01 00 0000 05 05"),
            ("88b6 01 02 0000 f0 0a", "88b6 01 02 0000 00 0a"),
            ("88b6 01 01 0000 fd 83", "88b6 01 01 0000 07 03"),
            (
                "expect 1 ffffffffffff 0a0000000100 88b6 02 ff 0000 fd 0a $",
                "expect 1 ffffffffffff 0a0000000100 88b6 02 ff 0000 07 0a $",
            ),
            (
                "expect 2 ffffffffffff 0a0000000100 88b6 02 ff 0000 fd 0a $",
                "expect 2 ffffffffffff 0a0000000100 88b6 02 ff 0000 07 0a $",
            ),
            (
                "expect 3 ffffffffffff 0a0000000100 88b6 02 ff 0000 fd 0a $",
                "expect 3 ffffffffffff 0a0000000100 88b6 02 ff 0000 07 0a $",
            ),
        ),
        frozenset({"values"}),
    ),
    Mistake(
        "only one round at a time",
        "nobody proposes for a round too early",
        (
            ("packet 1 0a0000000100 0a0000000001 88b6 01 00 0001 70 70\n", ""),
            ("packet 1 0a0000000100 0a0000000001 88b6 01 00 0002 71 71\n", ""),
        ),
        frozenset({"rounds"}),
    ),
    Mistake(
        "no stranger",
        "all packets come from workers that there are",
        (("packet 3 0a0000000100 0a0000000003 88b6 01 02 0000 60 60\n", ""),),
        frozenset({"workers"}),
    ),
    Mistake(
        "does not look where it does not expect",
        "without no_packet, packets on ports that the test does not name are not seen; with the same"
        " exponents an answer with the own ones is right",
        (
            (
                "packet 1 0a0000000100 0a0000000001 88b6 01 00 0000 11 02\npacket 2",
                "packet 1 0a0000000100 0a0000000001 88b6 01 00 0000 11 13\npacket 2",
            ),
            (
                "88b6 01 01 0000 00 13\npacket 1 0a0000000100 0a0000000001 88b6 01 00 0000 01 02",
                "88b6 01 01 0000 00 13\npacket 1 0a0000000100 0a0000000001 88b6 01 00 0000 11 13",
            ),
        ),
        frozenset({"again"}),
    ),
]
