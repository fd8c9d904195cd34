"""Externs of v1model against values computed here or published check values."""

from __future__ import annotations

import pytest
from p4engine.values.numbers import ControlError
from p4engine_testing.leftovers import data_bytes
from p4engine_testing.programs import send, switch, words


def test_a_reset_of_a_direct_counter_reaches_the_default_entry(tmp_path):
    s = switch(
        tmp_path,
        locals="direct_counter(CounterType.packets) dc; action go() { dc.count(); }"
        " table t { key = { hdr.h.a: exact; } actions = { go; } default_action = go;"
        " counters = dc; }",
        apply="t.apply();",
    )
    default, handle = -1, s.table_add("t", "go", [1])
    for each in (default, handle):
        s.counter_write("dc", each, packets=2, bytes=20)
        assert s.counter_read("dc", each) == {"packets": 2, "bytes": 20}
    s.counter_reset("dc")
    zero = {"packets": 0, "bytes": 0}
    assert [s.counter_read("dc", each) for each in (default, handle)] == [zero, zero]


def test_counters_and_meters_have_no_elements_behind_the_last(tmp_path):
    s = switch(
        tmp_path,
        locals="counter(4, CounterType.packets) c; meter(4, MeterType.packets) m;",
        apply="bit<2> x; c.count(hdr.h.a); m.execute_meter(hdr.h.a, x);",
    )
    rates = [(0.5, 3.0), (0.5, 4.0)]
    for name, array, *value in (
        ("counter_write", "c", 1),
        ("counter_read", "c"),
        ("meter_set", "m", rates),
        ("meter_get", "m"),
        ("meter_counts_set", "m"),
        ("meter_counts", "m"),
    ):
        call = getattr(s.pipeline, name)
        call(array, 3, *value)
        for index in (4, 5, 1 << 40):
            with pytest.raises(ControlError, match="out of range"):
                call(array, index, *value)
    assert (s.counter_read("c", 3)["packets"], s.meter_get("m", 3)) == (1, rates)


@pytest.mark.parametrize("excess", [[], [(0.0, 2.0)]])
def test_a_meter_s_buckets_hold_no_more_than_their_bursts(tmp_path, excess):
    """However long no packet comes; also with one rate, whose second bucket takes what the first
    one has no room for."""
    s = switch(
        tmp_path,
        locals="meter(1, MeterType.packets) m;",
        apply="m.execute_meter(0, hdr.h.c);",
    )
    peak = (0.001, 1.0) if excess else (0.001, 3.0)
    s.meter_set("m", 0, [(0.001, 1.0), peak, *excess])
    for now_ns in (10**9, 5 * 10**9):
        for _ in range(5):
            s.receive(0, words(0, 0, 7), now_ns)
        assert [data[-1] for _, _, data in s.advance(now_ns)] == [0, 1, 1, 2, 2]


def test_a_table_with_a_profile_has_no_default_of_its_own(tmp_path):
    s = switch(
        tmp_path,
        locals="action set(bit<32> v) { hdr.h.c = v; } action_profile(4) ap; table t { key ="
        " { hdr.h.a: exact; } actions = { set; } implementation = ap; default_action = set(4); }",
        apply="t.apply();",
    )
    assert any("action profile" in w.message for w in s.compiled.warnings)
    assert send(s, words(1, 0, 7)) == [(1, words(1, 0, 7))]


def test_random_is_within_bounds_and_repeats(tmp_path):
    parts = {"apply": "random(hdr.h.a, 5, 9); random(hdr.h.b, 0, 0xffffffff);"}
    first, again = switch(tmp_path, **parts), switch(tmp_path, **parts)
    results = [send(first, words(0, 0, 0))[0][1] for _ in range(100)]
    assert results == [send(again, words(0, 0, 0))[0][1] for _ in range(100)]
    assert {int.from_bytes(r[:4], "big") for r in results} == {5, 6, 7, 8, 9}


def test_assert_drops_and_log_msg_reports(tmp_path):
    s = switch(
        tmp_path,
        apply='log_msg("a={} b={}", { hdr.h.a, hdr.h.b }); assert(hdr.h.a != 3); hdr.h.c = 1;',
    )
    texts = []
    s.pipeline.on_log(texts.append)
    assert send(s, words(1, 2, 0)) == [(1, words(1, 2, 1))]
    assert send(s, words(3, 2, 0)) == []
    assert texts[:2] == ["a=1 b=2", "a=3 b=2"]
    assert "assert failed" in texts[2]


def test_a_log_message_has_wide_numbers_whole_and_is_cut_at_its_end(tmp_path):
    s = switch(
        tmp_path,
        apply="bit<200> x = (bit<200>) hdr.h.a << 150; x = x | (bit<200>) hdr.h.b;"
        ' log_msg("{}, {} and {}", { hdr.h.c, x, 9w4 });'
        f' log_msg("{40 * "{}"}", {{ {", ".join(40 * ["x"])} }});',
    )
    texts: list[str] = []
    s.pipeline.on_log(texts.append)
    send(s, words(3, 5, 7))
    wide = f"0x{3 << 150 | 5:064x}"
    assert texts[0] == f"7, {wide} and 4"
    assert (40 * wide).startswith(texts[1]) and 900 < len(texts[1]) < 1024


def test_a_packet_may_grow_by_a_long_header(tmp_path):
    """By more than the room that the deparser is given first; without a link, and on one."""
    s = switch(
        tmp_path,
        headers="header h_t { bit<32> a; bit<32> b; bit<32> c; } header long_t { bit<4000> x; }"
        " struct headers_t { h_t h; long_t more; }",
        apply="hdr.more.setValid(); hdr.more.x = (bit<4000>) hdr.h.a;",
    )
    grown = words(5, 6, 7) + (5).to_bytes(500, "big")
    for now_ns, delay_ns in ((0, 0), (10**10, 5)):
        s.port_shape(1, "egress", delay_ns=delay_ns)
        assert send(s, words(5, 6, 7), now_ns=now_ns) == [(1, grown)]
    before = data_bytes()
    for n in range(20, 4000):
        send(s, words(5, 6, 7), now_ns=n * 10**9)
    assert data_bytes() - before < 1 << 20


def test_digests_reach_the_hook(tmp_path):
    s = switch(
        tmp_path,
        top="struct seen_t { bit<32> a; bit<72> wide; bool flag; int<8> small; }",
        apply="digest<seen_t>(32w5, { hdr.h.a, 72w3 << 64, true, -1 });"
        " if (hdr.h.b == 7) digest(32w6, { hdr.h.b, hdr.h.c });",
    )
    heard = []
    s.pipeline.on_digest(lambda name, receiver, values: heard.append((name, receiver, values)))
    send(s, words(1, 2, 3))
    assert heard == [("seen_t", 5, [1, 3 << 64, 1, 255])]
    heard.clear()
    send(s, words(9, 7, 8))
    assert [receiver for _, receiver, _ in heard] == [5, 6]
    assert heard[1][2] == [7, 8]


def test_names_of_profiles_made_by_a_property(tmp_path):
    s = switch(
        tmp_path,
        locals="action a(bit<32> v) { hdr.h.b = v; }"
        " table t { key = { hdr.h.a: exact; } actions = { a; NoAction; }"
        ' @name("ap") implementation = action_profile(4); }'
        " table u { key = { hdr.h.a: exact; } actions = { a; NoAction; }"
        ' @name(".all.ap") implementation = action_profile(4); }',
        apply="t.apply(); u.apply();",
    )
    assert [p.name for p in s.pipeline.info.profiles] == ["MyIngress.ap", "all.ap"]


@pytest.mark.parametrize("kind", ["I2E", "E2E"])
@pytest.mark.parametrize("queued", [False, True])
def test_clones_are_shortened_to_the_length_of_their_session(tmp_path, kind, queued):
    clone = f"if (standard.instance_type == 0) clone(CloneType.{kind}, 9);"
    grown = "header g_t { bit<16> size; } struct headers_t { g_t g; h_t h; }"
    s = switch(
        tmp_path,
        headers="header h_t { bit<32> a; bit<32> b; } " + grown,
        apply=clone if kind == "I2E" else "",
        egress=(clone if kind == "E2E" else "")
        + "if (standard.instance_type != 0) { hdr.g.setValid();"
        " hdr.g.size = (bit<16>) standard.packet_length; }",
    )
    data = words(1, 2, 3, 4)  # two headers' fields, two words of payload
    if queued:  # the clone waits behind another packet
        s.port_shape(4, "egress", rate_bps=8_000_000)
    for length, expected in (
        (None, data),
        (16, data),
        (100, data),
        (15, data[:15]),
        (9, data[:9]),
        (8, data[:8]),
        (0, data),
    ):
        s.mirror_session(9, 4, length=length)
        start = s.now_ns() + 10**6
        for _ in range(2):
            s.receive(0, data, start)
        left = [(port, packet) for _, port, packet in s.run()]
        size = len(expected).to_bytes(2, "big")
        wanted = [(1, data)] * 2 + [(4, size + expected)] * 2
        assert sorted(left) == wanted, length
    s.mirror_session(9, 4, length=5)
    s.receive(0, data, s.now_ns() + 10**6)
    left = sorted((port, packet) for _, port, packet in s.run())
    assert left == [(1, data), (4, b"\0\5" + data[:3])], "headers alone are longer"
