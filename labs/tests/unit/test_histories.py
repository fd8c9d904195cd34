"""Histories of the labs' switches: strangers of each kind, numbers from all places, and the changes
that show what histories miss."""

from __future__ import annotations

import random
from collections import Counter

from labs.grader.histories import (
    DIFFERENCES,
    NUMBERS,
    Strangers,
    alike,
    draw_numbers,
    dress,
    leaving,
)
from labs.grader.packets import GRADIENT, RESULT, Agg, agg, differences
from labs.tests.support import lab_changes, mutants

KINDS = (0, 7)


def _gradient(rng: random.Random):
    made = agg(1, "switch", job=4, number=9, slot=3, bitmap=1, values=[1, -2, 3])
    return dress(rng, made, flags=0xF8)


def test_no_stranger_is_left_to_luck():
    rng = random.Random(1)
    strange = Strangers(rng, KINDS, [4], (GRADIENT,), {"of nobody": lambda p: None})
    kinds = len(KINDS) + 6 + 1  # those that there are with another bit, and its own
    count = 2 * (len(DIFFERENCES) + 1) + kinds + 5
    for _ in range(3):
        packet = _gradient(rng)
        made = [strange.next(packet) for _ in range(count)]
        seen = Counter(what.removeprefix("a packet that is ") for what, _ in made)
        assert seen.pop("outside of the pool") == 5
        assert set(seen) == {*DIFFERENCES, "of nobody", "of another kind"}
        assert seen.pop("of another kind") == kinds
        assert set(seen.values()) == {2}
        same = [what for what, data in made if data == bytes(packet)]
        assert not {what for what in same if "nobody" not in what}
        values = bytes(packet)[-4 * len(packet[Agg].values) :]
        assert not [what for what, data in made if values in data], "no trace would show"


def test_numbers_cross_the_places_where_fewer_bits_and_signs_end():
    for seed in range(20):
        rng = random.Random(seed)
        made = draw_numbers(rng)
        assert made[0] == 0 and made[-1] == (1 << 32) - 1 and made == sorted(set(made))
        assert all(n in place for n, place in zip(made[1::2], NUMBERS, strict=False))
        assert any(b - a == 1 << 31 for a, b in zip(made, made[2:], strict=False))
        assert made[3] < 1 << 31 <= made[4]
        for number in made[1:]:
            assert (number - alike(rng, number)).bit_count() == 1


def test_what_leaves_has_all_other_fields_of_what_came():
    rng = random.Random(2)
    came = _gradient(rng)
    made = leaving(came, 5, True, kind=RESULT, values=[7, 8])
    changed = {d.field.partition("[")[0] for d in differences(bytes(came), bytes(made))}
    outer = {"Ether.dst", "Ether.src", "IP.dst", "IP.src", "IP.len", "IP.chksum", "UDP.len"}
    assert changed <= {*outer, "Agg.kind", "Agg.values", "UDP.chksum"}
    assert int(dress(rng, came, flags=0xF8)[Agg].flags) & 7 == 0


def test_changes_that_labs_have_beside_the_others():
    found = [c for c in mutants.changes("lab17_experts") if c.kind == lab_changes.CHECK]
    home = next(c for c in found if "ingress_port" in c.name)
    text = (mutants.ROOT / home.file).read_text()
    assert home.apply(text).count("\n") == text.count("\n")
    assert text.replace("standard.ingress_port == meta.home", "true") == home.apply(text)
    kinds = Counter(c.kind for c in lab_changes.changes(home.file))
    assert min(kinds[kind] for kind in (lab_changes.FIELD, lab_changes.BITS)) >= 10
