"""Controls, actions, tables: calls, copying in and out, exit and return, switch, loops, entries."""

from __future__ import annotations

import pytest
from p4engine.values.numbers import ControlError
from p4engine_testing.programs import send, switch, words


def out_words(result, size=4):
    [(_, data)] = result
    return [int.from_bytes(data[i : i + size], "big") for i in range(0, len(data), size)]


def test_exit_copies_out_and_stops(tmp_path):
    s = switch(
        tmp_path,
        locals="action leave(inout bit<32> x) { x = x + 1; if (x == 6) { exit; } x = x + 10; }",
        apply="leave(hdr.h.a); hdr.h.b = 1;",
    )
    assert out_words(send(s, words(5, 0, 0))) == [6, 0, 0]
    assert out_words(send(s, words(1, 0, 0))) == [12, 1, 0]


def test_return_leaves_only_the_action(tmp_path):
    s = switch(
        tmp_path,
        locals="action maybe() { if (hdr.h.a == 1) { return; } hdr.h.b = 7; }",
        apply="maybe(); hdr.h.c = 1; if (hdr.h.a == 2) { return; } hdr.h.c = 2;",
    )
    assert out_words(send(s, words(1, 0, 0))) == [1, 0, 2]
    assert out_words(send(s, words(2, 0, 0))) == [2, 7, 1]


def test_inout_arguments_that_alias(tmp_path):
    s = switch(
        tmp_path,
        top="void f(inout bit<32> x, inout bit<32> y) { x = x + 1; y = y + 10; }",
        locals="action g(inout bit<32> x) { hdr.h.c = 5; x = x + 1; }",
        apply="f(hdr.h.a, hdr.h.a); g(hdr.h.c); hdr.h.b[7:0] = 3;",
    )
    assert out_words(send(s, words(1, 0x1FF, 0))) == [11, 0x103, 1]


def test_controls_within_controls(tmp_path):
    s = switch(
        tmp_path,
        headers="header h_t { bit<32> a; bit<32> b; bit<32> c; } struct headers_t { h_t h; }"
        " control Adder(inout bit<32> x)(bit<32> step) {"
        " register<bit<32>>(1) sum; apply { bit<32> t; sum.read(t, 0); t = t + step; sum.write(0,"
        " t); x = t; } }",
        locals="Adder(3) three; Adder(100) hundred;",
        apply="three.apply(hdr.h.a); hundred.apply(hdr.h.b); three.apply(hdr.h.c);",
    )
    assert out_words(send(s, words(0, 0, 0))) == [3, 100, 6]
    assert s.register_read("three.sum") == [6]
    assert s.register_read("MyIngress.hundred.sum") == [100]


def test_loops(tmp_path):
    s = switch(
        tmp_path,
        apply="for (bit<32> i = 0; i < hdr.h.a; i = i + 1) { if (i == 2) { continue; } if (i =="
        " 5) { break; }"
        " hdr.h.b = hdr.h.b + i; }"
        " for (bit<8> j in 1..3) { for (bit<8> k in 254..255) { hdr.h.c = hdr.h.c + (bit<32>) j;"
        " } }",
    )
    assert out_words(send(s, words(9, 0, 0))) == [9, 0 + 1 + 3 + 4, 12]


def test_switch_on_values_and_actions(tmp_path):
    s = switch(
        tmp_path,
        locals="action x() {} action y(bit<32> v) { hdr.h.b = v; } action z() {}"
        " table t { key = { hdr.h.a: exact; } actions = { x; y; z; } const default_action = z();"
        " const entries = { 1: x(); 2: y(8); } }",
        apply="switch (t.apply().action_run) { x: { hdr.h.c = 1; } y: z: { hdr.h.c = 2; } }"
        " switch (hdr.h.a) { 1: 2: { hdr.h.c = hdr.h.c + 10; } default: { hdr.h.c = hdr.h.c + 20;"
        " } }",
    )
    assert [out_words(send(s, words(a, 0, 0))) for a in (1, 2, 3)] == [
        [1, 0, 11],
        [2, 8, 12],
        [3, 0, 22],
    ]
    with pytest.raises(ControlError, match="constant"):
        s.table_add("t", "x", [5])


def test_all_match_kinds(tmp_path):
    s = switch(
        tmp_path,
        top="match_kind { unused_kind }",
        locals="action set(bit<32> v) { hdr.h.c = v; } action miss() { hdr.h.c = 99; }"
        " table lpm_t { key = { hdr.h.a: lpm; } actions = { set; miss; } default_action = miss(); }"
        " table tern { key = { hdr.h.a: ternary; hdr.h.b: range; } actions = { set; miss; }"
        " default_action = miss(); }"
        " table opt { key = { hdr.h.a: optional; hdr.h.b: exact; } actions = { set; miss; }"
        " default_action = miss(); }",
        apply="if (hdr.h.c == 0) { lpm_t.apply(); } else if (hdr.h.c == 1) { tern.apply(); } else"
        " { opt.apply(); }",
    )
    s.table_add("lpm_t", "set", ["10.0.0.0/8"], [1])
    s.table_add("lpm_t", "set", [("10.1.0.0", 16)], [2])
    s.table_add("lpm_t", "set", [(0x0A010203, 32)], [3])
    for address, want in (("0a020304", 1), ("0a010304", 2), ("0a010203", 3), ("0b000000", 99)):
        assert out_words(send(s, bytes.fromhex(address) + words(0, 0)))[2] == want
    s.table_add("tern", "set", [(1, 0xFF), (10, 20)], [1], 2)
    s.table_add("tern", "set", [(0x101, 0xFFF), (15, 15)], [2], 1)
    for a, b, want in (
        (0x101, 15, 2),
        (0x101, 16, 1),
        (0x201, 10, 1),
        (0x201, 21, 99),
        (2, 15, 99),
    ):
        assert out_words(send(s, words(a, b, 1)))[2] == want
    s.table_add("opt", "set", [None, 5], [1], 2)
    s.table_add("opt", "set", [7, 5], [2], 1)
    for a, b, want in ((7, 5, 2), (8, 5, 1), (7, 6, 99)):
        assert out_words(send(s, words(a, b, 2)))[2] == want


def test_entries_with_priorities(tmp_path):
    s = switch(
        tmp_path,
        locals="action set(bit<32> v) { hdr.h.c = v; }"
        " table t { key = { hdr.h.a: ternary; } actions = { set; NoAction; } default_action ="
        " NoAction;"
        " entries = { const priority = 10: 1 &&& 1: set(1); priority = 20: 3 &&& 3: set(3);"
        " priority = 1: _: set(7); } }",
        apply="t.apply();",
    )
    assert [out_words(send(s, words(a, 0, 0)))[2] for a in (1, 3, 2)] == [1, 3, 7]


def test_table_calls(tmp_path):
    s = switch(
        tmp_path,
        locals="action set(bit<32> v) { hdr.h.c = v; }"
        " table t { key = { hdr.h.a: exact; hdr.h.b: exact; } actions = { set; NoAction; } size ="
        " 2; }",
        apply="if (t.apply().hit) { hdr.h.b = 1; }",
    )
    one = s.table_add("t", "set", [1, 0], [5])
    s.table_add("t", "MyIngress.set", [2, 0], [6])
    with pytest.raises(ControlError, match="full"):
        s.table_add("t", "set", [3, 0], [6])
    with pytest.raises(ControlError, match="exists"):
        s.table_add("t", "set", [1, 0], [6])
    with pytest.raises(ControlError, match="fit"):
        s.table_add("t", "set", [2**32, 0], [6])
    assert out_words(send(s, words(1, 0, 0))) == [1, 1, 5]
    s.table_modify("t", one, "set", [50])
    assert out_words(send(s, words(1, 0, 0))) == [1, 1, 50]
    s.table_delete("t", one)
    with pytest.raises(ControlError, match="no such entry"):
        s.table_delete("t", one)
    assert out_words(send(s, words(1, 0, 0))) == [1, 0, 0]
    s.table_set_default("t", "set", [9])
    assert out_words(send(s, words(1, 0, 0))) == [1, 0, 9]
    assert [e["params"] for e in s.table_dump("t")] == [[6], [9]]
    s.table_clear("t")
    assert s.table_count("t") == 0


def test_action_profile_and_selector(tmp_path):
    s = switch(
        tmp_path,
        locals="action set(bit<32> v) { hdr.h.c = v; }"
        " action_selector(HashAlgorithm.crc16, 16, 14) sel;"
        " table t { key = { hdr.h.a: exact; hdr.h.b: selector; } actions = { set; NoAction; }"
        " implementation = sel; }",
        apply="t.apply();",
    )
    p = s.pipeline
    members = [p.member_add("sel", "set", [v]) for v in (10, 20)]
    group = p.group_add("sel", members)
    p.table_add_indirect("t", [1], member=members[0])
    p.table_add_indirect("t", [2], group=group)
    assert out_words(send(s, words(1, 5, 0)))[2] == 10
    assert {out_words(send(s, words(2, b, 0)))[2] for b in range(30)} == {10, 20}
    with pytest.raises(ControlError, match="in use"):
        p.member_delete("sel", members[1])


def test_action_arguments_bound_in_the_table(tmp_path):
    s = switch(
        tmp_path,
        locals="action add(inout bit<32> x, in bit<32> y, bit<32> z) { x = x + y + z; }"
        " table t { key = { hdr.h.a: exact; } actions = { add(hdr.h.c, hdr.h.b); } default_action"
        " = add(hdr.h.c, hdr.h.b, 100);"
        " const entries = { 1: add(hdr.h.c, hdr.h.b, 1); } }",
        apply="t.apply();",
    )
    assert out_words(send(s, words(1, 20, 300)))[2] == 321
    assert out_words(send(s, words(2, 20, 300)))[2] == 420


def test_structs_tuples_and_lists(tmp_path):
    s = switch(
        tmp_path,
        top="struct pair { bit<32> x; bit<32> y; } const pair P = { 3, 4 };"
        " enum bit<8> Color { Red = 1, Blue = 5 } enum Plain { A, B }",
        apply="pair p = { hdr.h.a, hdr.h.b }; p = { p.y, p.x }; pair q = { y = 7, x = p.x };"
        " tuple<bit<32>, bool> t = { p.y, true }; Plain e = Plain.B;"
        " if (t[1] && q == (pair) { p.x, 7 } && e != Plain.A) { hdr.h.c = t[0] + P.y + (bit<32>)"
        " (bit<8>) Color.Blue; }"
        " hdr.h.a = p.x;",
    )
    assert out_words(send(s, words(1, 2, 0))) == [2, 2, 10]


def test_headers_are_compared_and_copied_with_their_validity(tmp_path):
    s = switch(
        tmp_path,
        headers="header h_t { bit<8> a; bit<8> b; } struct headers_t { h_t h; h_t k; h_t r; }",
        parser="state start { packet.extract(hdr.h); transition accept; }",
        apply="hdr.r = { 0, 0 }; if (hdr.h == hdr.k) { hdr.r.a = 1; } hdr.k = hdr.h; if (hdr.h =="
        " hdr.k)"
        " { hdr.r.b = 1; } hdr.k.setInvalid(); h_t x = hdr.k; if (x.isValid()) { hdr.r.b = 9; }"
        " hdr.h = {#};",
    )
    assert send(s, b"\x05\x06") == [(1, b"\x00\x01")]


def test_generic_functions(tmp_path):
    s = switch(
        tmp_path,
        top="T larger<T>(in T x, in T y) { if (x > y) { return x; } return y; }",
        apply="hdr.h.c = larger(hdr.h.a, hdr.h.b) + (bit<32>) larger<bit<8>>(3, hdr.h.a[7:0]);",
    )
    assert out_words(send(s, words(5, 9, 0)))[2] == 14


def test_a_hidden_variable_is_still_the_action_s(tmp_path):
    s = switch(
        tmp_path,
        locals="bit<32> v = 3; action a() { v = v + 1; }",
        apply="a(); { bit<32> v = 9; a(); hdr.h.b = v; } hdr.h.a = v;",
    )
    assert out_words(send(s, words(0, 0, 0))) == [5, 9, 0]


def test_priorities_among_many_masks(tmp_path):
    """The lowest priority number wins, whatever the masks and whatever was deleted before."""
    import random

    s = switch(
        tmp_path,
        locals="action set(bit<32> v) { hdr.h.c = v; } table t { key = { hdr.h.a: ternary;"
        " hdr.h.b: optional; } actions = { set; NoAction; } size = 4096; }",
        apply="t.apply();",
    )
    rng = random.Random(3)
    entries = []
    for number in range(1, 400):
        mask = rng.choice((0xFF, 0xF0, 0x0F, 0xFFFFFFFF, 0, 0x81))
        match = (rng.randrange(256) & mask, mask), rng.choice((None, 0, 1))
        priority = rng.randrange(20)
        if all((m, p) != (match, priority) for m, p, *_ in entries):
            handle = s.table_add("t", "set", list(match), [number], priority)
            entries.append((match, priority, number, handle))
    for entry in rng.sample(entries, len(entries) // 2):
        s.table_delete("t", entry[3])
        entries.remove(entry)
    assert s.table_count("t") == len(entries)
    for a in range(256):
        for b in (0, 1, 2):
            fitting = [
                (priority, number)
                for ((value, mask), other), priority, number, _ in entries
                if a & mask == value and other in (None, b)
            ]
            want = min(fitting)[1] if fitting else 0
            assert send(s, words(a, b, 0)) == [(1, words(a, b, want))]


def test_names_of_instances_that_are_arguments(tmp_path):
    """An instance that is made as an argument has the name of the parameter; one with a name of its
    own keeps it, and has its tables once."""
    s = switch(
        tmp_path,
        top="control CT(inout bit<32> x); control Add(inout bit<32> x) {"
        " action add(bit<32> n) { x = x + n; }"
        " table t { actions = { add; NoAction; } default_action = NoAction; }"
        " apply { t.apply(); } } control Use(inout bit<32> x)(CT c) { apply { c.apply(x); } }",
        locals="Add() own; Use(own) u; Use(Add()) v;",
        apply="own.apply(hdr.h.a); u.apply(hdr.h.b); v.apply(hdr.h.c);",
    )
    s.table_set_default("MyIngress.own.t", "add", [1])
    s.table_set_default("MyIngress.v.c.t", "add", [2])
    assert out_words(send(s, words(0, 0, 0))) == [1, 1, 2]


def test_an_argument_that_is_read_and_written_is_read_as_it_was(tmp_path):
    """Whichever of the two comes first."""
    s = switch(
        tmp_path,
        top="void first(in bit<32> a, out bit<32> b, out bit<32> c) { b = 1; c = a; }"
        " void last(out bit<32> b, out bit<32> c, in bit<32> a) { b = 1; c = a; }",
        apply="first(hdr.h.a, hdr.h.a, hdr.h.b); last(hdr.h.c, hdr.h.a, hdr.h.c);",
    )
    assert send(s, words(5, 6, 7)) == [(1, words(7, 5, 1))]


def test_a_control_that_is_applied_without_an_instance_has_a_register(tmp_path):
    s = switch(
        tmp_path,
        top="header h_t { bit<32> a; bit<32> b; bit<32> c; } struct headers_t { h_t h; }"
        " control Counting(inout h_t h) { register<bit<32>>(4) seen; apply {"
        " bit<32> x; seen.read(x, h.a); x = x + 1; seen.write(h.a, x); h.b = x; } }",
        headers="",
        apply="Counting.apply(hdr.h);",
    )
    assert send(s, words(2, 0, 0)) == [(1, words(2, 1, 0))]
    assert send(s, words(2, 0, 0)) == [(1, words(2, 2, 0))]
    assert s.register_read("Counting.seen") == [0, 0, 2, 0]
