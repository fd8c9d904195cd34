"""Programs for which students write tests: agree.p4 with some pieces replaced.

The kit has one wrong program for each topic. Those that are graded with are the teacher's
(labs/_teacher/lab10_tests/judge.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

AGREE = Path(__file__).resolve().parent / "skeleton" / "agree.p4"
VALUES, ROUNDS, WORKERS = "the largest values", "rounds", "who has proposed"
AGAIN, PACKETS = "answers to repeated proposals", "addresses, kinds and other packets"

Edits = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Wrong:
    """A wrong program: what it does wrong, as a sentence, and (old, new) pieces of agree.p4."""

    topic: str
    why: str
    edits: Edits


PRACTICE = [
    Wrong(
        VALUES,
        "it keeps the first proposal's second exponent",
        (("meta.seen == 0 || (int<8>) hdr.agree.e1 > (int<8>) top1", "meta.seen == 0"),),
    ),
    Wrong(
        ROUNDS,
        "it takes proposals of every round for the current one",
        (("if (hdr.agree.round != meta.round) {", "if (hdr.agree.round == 65000) {"),),
    ),
    Wrong(
        WORKERS,
        "it waits for three workers, however many there are",
        (("((bit<32>) 1 << meta.workers) - 1", "7"),),
    ),
    Wrong(
        AGAIN,
        "it does not answer a proposal that is repeated after the agreement",
        (("standard.egress_spec = standard.ingress_port;", "drop();"),),
    ),
    Wrong(
        PACKETS,
        "an agreement has the number of a worker",
        (("        hdr.agree.worker = 255;\n", ""),),
    ),
]


def text(edits: Sequence[tuple[str, str]]) -> str:
    """agree.p4 with pieces replaced, each of which occurs once."""
    made = AGREE.read_text()
    for old, new in edits:
        assert made.count(old) == 1, old
        made = made.replace(old, new)
    return made
