"""Parsers: stacks, unions, varbit, lookahead, sub-parsers, value sets, errors."""

from __future__ import annotations

import pytest
from p4engine_testing.programs import send, switch, words

BYTES = "header b_t { bit<8> x; }"


def test_header_stack_with_next_and_last(tmp_path):
    s = switch(
        tmp_path,
        headers="header l_t { bit<7> label; bit<1> bottom; } struct headers_t { l_t[3] l; }",
        metadata="bit<8> n;",
        parser="state start { packet.extract(hdr.l.next); meta.n = meta.n + 1;"
        " transition select(hdr.l.last.bottom) { 1: accept; default: start; } }",
        apply="hdr.l[0].label = (bit<7>) meta.n; if (standard.parser_error =="
        " error.StackOutOfBounds)"
        " { hdr.l[0].label = 99; } if (standard.parser_error == error.PacketTooShort) {"
        " hdr.l[0].label = 77; }",
    )
    assert send(s, bytes([2, 4, 7, 50])) == [(1, bytes([3 << 1, 4, 7, 50]))]
    assert send(s, bytes([2, 4, 6, 9])) == [(1, bytes([99 << 1, 4, 6, 9]))]
    assert send(s, bytes([2, 4])) == [(1, bytes([77 << 1, 4]))]


def test_push_and_pop(tmp_path):
    s = switch(
        tmp_path,
        headers=f"{BYTES} struct headers_t {{ b_t[4] s; }}",
        parser="state start { packet.extract(hdr.s.next); packet.extract(hdr.s.next); transition"
        " accept; }",
        apply="if (hdr.s[0].x == 0) { hdr.s.push_front(1); hdr.s[0].setValid(); hdr.s[0].x = 9; }"
        " else if (hdr.s[0].x == 1) { hdr.s.pop_front(1); }"
        " else { bit<8> i = hdr.s[1].x; hdr.s[i].setValid(); hdr.s[i].x = 7; }",
    )
    assert send(s, bytes([0, 5])) == [(1, bytes([9, 0, 5]))]
    assert send(s, bytes([1, 5])) == [(1, bytes([5]))]
    assert send(s, bytes([2, 3])) == [(1, bytes([2, 3, 7]))]
    assert send(s, bytes([2, 200])) == [(1, bytes([2, 200]))]  # outside: ignored


def test_union_holds_one_header(tmp_path):
    s = switch(
        tmp_path,
        headers="header a_t { bit<8> k; bit<8> x; } header c_t { bit<8> k; bit<16> y; }"
        " header_union u_t { a_t a; c_t c; } struct headers_t { u_t u; }",
        parser="state start { transition select(packet.lookahead<bit<8>>()) { 1: pa; 2: pc;"
        " default: accept; } }"
        " state pa { packet.extract(hdr.u.a); transition accept; }"
        " state pc { packet.extract(hdr.u.c); transition accept; }",
        apply="if (hdr.u.a.isValid()) { hdr.u.c.setValid(); hdr.u.c.k = 7; hdr.u.c.y = 0x1234; }"
        " else if (hdr.u.isValid()) { hdr.u.a.setValid(); hdr.u.a.k = 8; hdr.u.a.x = 9; }",
    )
    assert send(s, bytes([1, 5])) == [(1, bytes([7, 0x12, 0x34]))]
    assert send(s, bytes([2, 5, 6])) == [(1, bytes([8, 9]))]
    assert send(s, bytes([3, 5])) == [(1, bytes([3, 5]))]


def test_varbit(tmp_path):
    s = switch(
        tmp_path,
        headers="header v_t { bit<8> n; varbit<32> v; bit<8> end; } struct headers_t { v_t v; v_t"
        " w; }",
        parser="state start { bit<8> n = packet.lookahead<bit<8>>();"
        " packet.extract(hdr.v, (bit<32>) n * 8); transition accept; }",
        apply="hdr.w = hdr.v; hdr.w.n = hdr.w.n + 10;"
        " if (standard.parser_error == error.HeaderTooShort) { standard.egress_spec = 5; }",
    )
    assert send(s, bytes([2, 1, 2, 3, 99])) == [(1, bytes([2, 1, 2, 3, 12, 1, 2, 3, 99]))]
    assert send(s, bytes([0, 3])) == [(1, bytes([0, 3, 10, 3]))]
    assert send(s, bytes([5, 1, 2, 3, 4, 5, 6])) == [(5, bytes([5, 1, 2, 3, 4, 5, 6]))]


def test_varbit_between_bytes(tmp_path):
    """3 bits, then 5 and 8 for each unit, 136 and 8: 20 bytes with one unit, 19 with none."""
    s = switch(
        tmp_path,
        headers="header v_t { bit<3> n; varbit<29> v; bit<136> wide; bit<8> end; }"
        " struct headers_t { v_t v; v_t w; }",
        parser="state start { bit<3> n = packet.lookahead<bit<3>>();"
        " packet.extract(hdr.v, n == 7 ? 32w6 : (bit<32>) n * 8 + 5); transition accept; }",
        apply="hdr.w = hdr.v; hdr.w.end = hdr.w.end + 1; hdr.w.wide = hdr.w.wide ^ 1;"
        " if (standard.parser_error == error.HeaderTooShort) { standard.egress_spec = 5; }"
        " if (standard.parser_error == error.ParserInvalidArgument) { standard.egress_spec = 4; }"
        " if (standard.parser_error == error.PacketTooShort) { standard.egress_spec = 3; }",
    )
    wide = bytes(range(1, 18))
    other = wide[:-1] + bytes([wide[-1] ^ 1])
    for head in (bytes([0b00010101]), bytes([0b00110101, 0xCC]), bytes([0b01111111, 1, 2, 3])):
        packet = head + wide + bytes([40])
        assert send(s, packet + b"xy") == [(1, packet + head + other + bytes([41]) + b"xy")]
    assert send(s, bytes([0b10000000]) + bytes(30)) == [(5, bytes([0b10000000]) + bytes(30))]
    assert send(s, bytes([0b11100000]) + bytes(30)) == [(4, bytes([0b11100000]) + bytes(30))]
    assert send(s, bytes([0b00100000]) + bytes(18)) == [(3, bytes([0b00100000]) + bytes(18))]


def test_select_labels(tmp_path):
    s = switch(
        tmp_path,
        headers=f"{BYTES} header r_t {{ bit<8> r; }} struct headers_t {{ b_t a; b_t b; r_t r; }}",
        metadata="bit<8> r;",
        parser="state start { packet.extract(hdr.a); packet.extract(hdr.b);"
        " transition select(hdr.a.x, hdr.b.x) { (1, 2): one; (1, _): two; (16 &&& 0xf0, 3..5):"
        " three;"
        " (_, 200): four; } }"
        + " ".join(
            f"state {n} {{ meta.r = {i}; transition accept; }}"
            for i, n in enumerate(["one", "two", "three", "four"], 1)
        ),
        apply="hdr.r.setValid(); hdr.r.r = meta.r;"
        " if (standard.parser_error == error.NoError && meta.r == 0) { hdr.r.r = 50; }",
        deparser="packet.emit(hdr.r);",
    )
    # No label matches: BMv2 has no error for this, the parser just ends.
    for a, b, want in ((1, 2, 1), (1, 3, 2), (0x1F, 5, 3), (0x1F, 6, 50), (9, 200, 4), (0, 0, 50)):
        assert send(s, bytes([a, b])) == [(1, bytes([want]))]


def test_subparser_verify_and_advance(tmp_path):
    s = switch(
        tmp_path,
        top="error { Odd } header b_t { bit<8> x; }"
        " parser Sub(packet_in p, out b_t b, in bit<8> limit)(bit<8> factor) {"
        " state start { p.extract(b); verify(b.x < limit * factor, error.Odd); transition accept;"
        " } }",
        headers="struct headers_t { b_t a; b_t b; }",
        parser="Sub(2) sub; state start { packet.extract(hdr.a); packet.advance(8);"
        " sub.apply(packet, hdr.b, hdr.a.x); transition accept; }",
        apply="if (standard.parser_error == error.Odd) { standard.egress_spec = 3; }",
    )
    assert send(s, bytes([5, 0, 9, 1])) == [(1, bytes([5, 9, 1]))]
    assert send(s, bytes([5, 0, 10, 1])) == [(3, bytes([5, 10, 1]))]


def test_value_set(tmp_path):
    s = switch(
        tmp_path,
        headers=f"{BYTES} struct headers_t {{ b_t a; b_t b; }}",
        parser="value_set<bit<8>>(4) known; state start { packet.extract(hdr.a);"
        " transition select(hdr.a.x) { known: more; default: accept; } }"
        " state more { packet.extract(hdr.b); transition accept; }",
        apply="if (hdr.b.isValid()) { hdr.b.x = 0; }",
    )
    assert send(s, bytes([1, 2])) == [(1, bytes([1, 2]))]
    s.pipeline.value_set_add("known", [1])
    assert send(s, bytes([1, 2])) == [(1, bytes([1, 0]))]


def test_lookahead_of_a_header(tmp_path):
    s = switch(
        tmp_path,
        headers="header h_t { bit<4> x; bit<12> y; } struct headers_t { h_t h; h_t k; }",
        parser="state start { hdr.k = packet.lookahead<h_t>(); packet.extract(hdr.h); transition"
        " accept; }",
        apply="hdr.k.y = hdr.k.y + 1;",
    )
    assert send(s, b"\x12\x34") == [(1, b"\x12\x34\x12\x35")]


@pytest.mark.parametrize(
    "states",
    [
        "state start { transition select(packet.lookahead<bit<8>>())"
        " { 0: start; default: accept; } }",
        "state start { transition two; } state two { transition select(packet.lookahead<bit<8>>())"
        " { 1: accept; default: start; } }",
    ],
)
def test_endless_parser_is_stopped(tmp_path, states):
    s = switch(
        tmp_path,
        parser=states,
        apply="if (standard.parser_error == error.ParserTimeout) { standard.egress_spec = 9; }",
    )
    assert send(s, words(0)) == [(9, words(0))]


def test_a_value_set_of_several_and_of_wide_fields(tmp_path):
    s = switch(
        tmp_path,
        top="struct pair_t { bit<8> a; bit<72> wide; bit<16> b; }",
        headers="header h_t { bit<8> a; bit<72> wide; bit<16> b; } struct headers_t { h_t h; }",
        parser="value_set<pair_t>(4) known; state start { packet.extract(hdr.h);"
        " transition select(hdr.h.a, hdr.h.wide, hdr.h.b) { known: yes; default: accept; } }"
        " state yes { hdr.h.a = 99; transition accept; }",
    )
    s.pipeline.value_set_add("known", [1, 5 << 64 | 6, 3])
    data = bytes([1, 5]) + (6).to_bytes(8, "big") + bytes([0, 3])
    assert send(s, data) == [(1, bytes([99]) + data[1:])]
    for place in (0, 1, 9, 10, 11):
        other = bytearray(data)
        other[place] ^= 16
        assert send(s, bytes(other)) == [(1, bytes(other))]
