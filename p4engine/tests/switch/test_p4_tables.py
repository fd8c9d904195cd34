"""Tables of every kind against a plain list of their entries, through additions and deletions."""

from __future__ import annotations

from random import Random

import pytest
from p4engine.values.numbers import ControlError
from p4engine_testing.leftovers import data_bytes
from p4engine_testing.programs import send, switch

# (kind, bits) of each key; every kind alone and in company, ranges of more than one word too.
SHAPES = [
    [("exact", 16)],
    [("lpm", 16)],
    [("exact", 8), ("lpm", 16)],
    [("ternary", 16)],
    [("optional", 8), ("ternary", 16)],
    [("range", 16)],
    [("range", 8), ("range", 8)],
    [("exact", 8), ("range", 16), ("ternary", 8)],
    [("lpm", 8), ("range", 8)],
    [("range", 136)],
    [("range", 40), ("exact", 72)],
]


def some(random: Random, bits: int) -> int:
    """Few different values, so that entries overlap and packets hit."""
    return random.randrange(24) << random.choice((0, 0, bits - 5))


def match_of(random: Random, kind: str, bits: int) -> object:
    value = some(random, bits)
    if kind == "exact":
        return value
    if kind == "optional":
        return random.choice((None, value))
    if kind == "range":
        other = random.choice((value, some(random, bits), 0, (1 << bits) - 1))
        return (min(value, other), max(value, other))
    ones = random.randrange(bits + 1)
    mask = (1 << bits) - (1 << (bits - ones))
    if kind == "lpm":
        return (value & mask, ones)
    mask = random.choice((mask, some(random, bits)))
    return (value & mask, mask)


def fits(kind: str, bits: int, match: object, value: int) -> bool:
    if kind == "exact":
        return value == match
    if kind == "optional":
        return match is None or value == match
    low, second = match
    if kind == "range":
        return low <= value <= second
    mask = (1 << bits) - (1 << (bits - second)) if kind == "lpm" else second
    return value & mask == low


def expected(shape: list, entries: dict, values: list[int]) -> int:
    """The parameter of the entry that wins: the longest prefix, or the lowest priority and then
    the oldest entry; 0 if none matches."""
    ordered = any(kind in ("ternary", "range", "optional") for kind, _ in shape)
    best = None
    for age, (matches, priority, parameter) in enumerate(entries.values()):
        if not all(map(fits, *zip(*shape, strict=True), matches, values)):
            continue
        lengths = [m[1] for (kind, _), m in zip(shape, matches, strict=True) if kind == "lpm"]
        rank = (priority, age) if ordered else (-sum(lengths), 0)
        if best is None or rank < best[0]:
            best = (rank, parameter)
    return best[1] if best else 0


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: "-".join(f"{k}{b}" for k, b in s))
def test_a_table_finds_what_a_list_of_its_entries_would(tmp_path, shape):
    random = Random(str(shape))
    fields = "".join(f"bit<{bits}> k{i}; " for i, (_, bits) in enumerate(shape))
    keys = "".join(f"hdr.h.k{i}: {kind}; " for i, (kind, _) in enumerate(shape))
    s = switch(
        tmp_path,
        headers=f"header h_t {{ {fields} bit<32> found; }} struct headers_t {{ h_t h; }}",
        locals="action set(bit<32> value) { hdr.h.found = value; } action none() { }"
        f"table t {{ key = {{ {keys} }} actions = {{ set; none; }} default_action = none; }}",
        apply="t.apply();",
    )
    ordered = any(kind in ("ternary", "range", "optional") for kind, _ in shape)
    entries: dict[int, tuple] = {}
    hits = 0
    for step in range(1500):
        if random.randrange(3 if len(entries) < 60 else 8) == 0:
            matches = [match_of(random, *key) for key in shape]
            priority = random.randrange(6) if ordered else None
            same = [h for h, e in entries.items() if e[:2] == (matches, priority)]
            assert s.table_count("t") == len(entries)
            if same:
                assert s.table_find("t", matches, priority) == same[0]
            elif random.randrange(4) == 0:
                with pytest.raises(ControlError, match="there is no such entry"):
                    s.table_find("t", matches, priority)
            else:
                handle = s.table_add("t", "set", matches, [step + 1], priority)
                entries[handle] = (matches, priority, step + 1)
        elif entries and random.randrange(4) == 0:
            handle = random.choice(list(entries))
            s.table_delete("t", handle)
            del entries[handle]
        values = [some(random, bits) for _, bits in shape]
        key = b"".join(v.to_bytes(b // 8, "big") for v, (_, b) in zip(values, shape, strict=True))
        want = expected(shape, entries, values)
        assert send(s, key + bytes(4)) == [(1, key + want.to_bytes(4, "big"))], (step, values)
        hits += want > 0
    assert hits > 200, "the entries matched too seldom to tell anything"
    s.table_clear("t")
    assert s.table_count("t") == 0


def test_the_handle_of_a_deleted_entry_is_never_that_of_another(tmp_path):
    s = switch(
        tmp_path,
        locals="action set(bit<32> v) { hdr.h.b = v; } table t { key = { hdr.h.a: exact; }"
        " actions = { set; NoAction; } }",
        apply="t.apply();",
    )
    first = s.table_add("t", "set", [1], [5])
    s.table_delete("t", first)
    second = s.table_add("t", "set", [2], [6])
    assert first != second
    with pytest.raises(ControlError, match="there is no such entry"):
        s.table_delete("t", first)
    with pytest.raises(ControlError, match="there is no such entry"):
        s.table_modify("t", first, "set", [7])
    assert [entry["handle"] for entry in s.table_dump("t")] == [second, -1]


@pytest.mark.parametrize("kind", ["exact", "lpm", "ternary"])
def test_entries_that_come_and_go_leave_no_memory_behind(tmp_path, kind):
    s = switch(
        tmp_path,
        locals="action set() { }"
        f" table t {{ key = {{ hdr.h.a: {kind}; }} actions = {{ set; }} }}",
        apply="t.apply();",
    )
    match, priority = {"exact": (1, None), "lpm": ((1, 32), None), "ternary": ((1, 1), 1)}[kind]

    def come_and_go(times: int) -> int:
        """The memory that this process has after it."""
        for _ in range(times):
            s.table_delete("t", s.table_add("t", "set", [match], [], priority))
        return data_bytes()

    before = come_and_go(1000)
    assert come_and_go(60_000) - before < 1 << 20
