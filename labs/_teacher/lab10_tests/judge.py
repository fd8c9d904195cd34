"""The programs that submissions of lab 10 are graded with: right ones, which differ in what the
hand-out leaves open, and wrong ones."""

from __future__ import annotations

from labs.lab10_tests.programs import (
    AGAIN,
    PACKETS,
    ROUNDS,
    VALUES,
    WORKERS,
    Edits,
    Wrong,
)

_AGREED_AGAIN = """                agreement();
                standard.egress_spec = standard.ingress_port;
"""
RIGHT: list[Edits] = [
    (),
    (  # an answer to one worker is addressed to it; other names for what is inside
        (
            _AGREED_AGAIN,
            "                bit<48> asker = hdr.ethernet.source;\n"
            + _AGREED_AGAIN
            + "                hdr.ethernet.destination = asker;\n",
        ),
        ("    register<bit<16>>(1) current;\n", "    register<bit<16>>(1) round_now;\n"),
        ("current.read(meta.round, 0);", "round_now.read(meta.round, 0);"),
        ("current.write(0, meta.round);", "round_now.write(0, meta.round);"),
    ),
]
HIDDEN = [
    Wrong(
        VALUES,
        "it compares exponents as numbers without a sign",
        (
            ("(int<8>) hdr.agree.e0 > (int<8>) top0", "hdr.agree.e0 > top0"),
            ("(int<8>) hdr.agree.e1 > (int<8>) top1", "hdr.agree.e1 > top1"),
        ),
    ),
    Wrong(
        VALUES,
        "it compares the first exponent with the second's largest",
        (("(int<8>) hdr.agree.e0 > (int<8>) top0", "(int<8>) hdr.agree.e0 > (int<8>) top1"),),
    ),
    Wrong(
        ROUNDS,
        "a round begins with the largest values of the round before",
        (
            ("meta.seen == 0 || (int<8>) hdr.agree.e0", "(int<8>) hdr.agree.e0"),
            ("meta.seen == 0 || (int<8>) hdr.agree.e1", "(int<8>) hdr.agree.e1"),
        ),
    ),
    Wrong(
        ROUNDS,
        "the next round begins before this one is complete",
        (("meta.round + 1 && meta.seen == meta.everyone", "meta.round + 1"),),
    ),
    Wrong(
        WORKERS,
        "it takes proposals of workers that there are not",
        (
            (
                "hdr.agree.kind == PROPOSAL &&\n            hdr.agree.worker < meta.workers",
                "hdr.agree.kind == PROPOSAL",
            ),
            (
                "meta.seen = meta.seen | meta.mine;",
                "meta.seen = (meta.seen | meta.mine) & meta.everyone;",
            ),
        ),
    ),
    Wrong(
        WORKERS,
        "it counts a worker that proposes twice as two",
        (
            ("meta.seen & meta.mine != 0", "meta.seen > meta.everyone"),
            ("meta.seen = meta.seen | meta.mine;", "meta.seen = meta.seen << 1 | 1;"),
        ),
    ),
    Wrong(
        AGAIN,
        "it answers a repeated proposal to everybody",
        (
            (
                "standard.egress_spec = standard.ingress_port;",
                "standard.mcast_grp = WORKERS_GROUP;",
            ),
        ),
    ),
    Wrong(
        AGAIN,
        "it answers a repeated proposal with the worker's own exponents",
        (
            (
                "                hdr.agree.e0 = top0;\n                hdr.agree.e1 = top1;\n"
                "                agreement();\n                standard.egress_spec",
                "                agreement();\n                standard.egress_spec",
            ),
        ),
    ),
    Wrong(
        PACKETS,
        "it takes packets of other kinds for proposals",
        (("hdr.agree.isValid() && hdr.agree.kind == PROPOSAL", "hdr.agree.isValid()"),),
    ),
    Wrong(
        PACKETS,
        "an agreement comes from the last worker's address",
        (("        hdr.ethernet.source = meta.mac;\n", ""),),
    ),
]
