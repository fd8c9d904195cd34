"""Externs of v1model against values computed here or published check values."""

from __future__ import annotations

import zlib

import pytest
from p4engine.values.numbers import ControlError
from p4engine_testing.leftovers import data_bytes
from p4engine_testing.programs import send, switch, words


def test_registers_and_counters(tmp_path):
    s = switch(
        tmp_path,
        locals="register<bit<48>>(8) r; register<int<8>>(8) small; register<bit<200>>(4) wide;"
        " counter(4, CounterType.packets_and_bytes) c;",
        apply="bit<48> x; r.read(x, hdr.h.a); x = x + (bit<48>) hdr.h.b; r.write(hdr.h.a, x);"
        " hdr.h.c = (bit<32>) x;"
        " small.write(hdr.h.a, -1); wide.write(0, (bit<200>) hdr.h.b << 150); c.count(hdr.h.a);",
    )
    send(s, words(3, 5, 0))
    assert send(s, words(3, 6, 0)) == [(1, words(3, 6, 11))]
    assert send(s, words(8, 6, 0)) == [(1, words(8, 6, 6))]  # outside: reads 0, writes nothing
    assert s.register_read("r") == [0, 0, 0, 11, 0, 0, 0, 0]
    assert s.register_read("small", 2, 2) == [0, -1]
    assert s.register_read("wide", 0, 1) == [6 << 150]
    assert s.counter_read("c", 3) == {"packets": 2, "bytes": 24}
    s.register_write("r", (0, 8), 7)
    s.register_write("wide", 1, [2**199])
    assert s.register_read("r") == [7] * 8
    assert s.register_read("wide", 1, 1) == [2**199]


@pytest.mark.parametrize(
    ("algorithm", "want"),
    [
        ("crc32", zlib.crc32(b"123456789")),
        ("crc16", 0xBB3D),  # the published check value of CRC-16/ARC
        ("identity", int.from_bytes(b"12345678", "big")),
        ("xor16", 0x3132 ^ 0x3334 ^ 0x3536 ^ 0x3738 ^ 0x3900),
        ("csum16", (~((0x3132 + 0x3334 + 0x3536 + 0x3738 + 0x3900) % 0xFFFF)) & 0xFFFF),
    ],
)
def test_hashes(tmp_path, algorithm, want):
    s = switch(
        tmp_path,
        headers="header h_t { bit<72> a; bit<64> r; } struct headers_t { h_t h; }",
        apply=f"hash(hdr.h.r, HashAlgorithm.{algorithm}, 64w0, {{ hdr.h.a }},"
        f" 64w0xffffffffffffffff);",
    )
    [(_, out)] = send(s, b"123456789" + bytes(8))
    assert int.from_bytes(out[9:], "big") == want


def test_hash_stays_in_its_range(tmp_path):
    s = switch(
        tmp_path,
        apply="hash(hdr.h.c, HashAlgorithm.crc32, 32w100, { hdr.h.a, hdr.h.b }, 32w10);",
    )
    results = {int.from_bytes(send(s, words(i, 0, 0))[0][1][8:], "big") for i in range(100)}
    assert results == set(range(100, 110))


def test_checksums(tmp_path):
    fields = "{ hdr.h.a, hdr.h.b, hdr.h.n }"
    s = switch(
        tmp_path,
        headers="header h_t { bit<4> a; bit<12> b; bit<48> n; bit<16> sum; } struct headers_t {"
        " h_t h; }",
        verify=f"verify_checksum(hdr.h.isValid(), {fields}, hdr.h.sum, HashAlgorithm.csum16);",
        apply="standard.egress_spec = 2 + (bit<9>) standard.checksum_error; hdr.h.b = hdr.h.b + 1;",
        update=f"update_checksum_with_payload(hdr.h.isValid(), {fields}, hdr.h.sum,"
        f" HashAlgorithm.csum16);",
    )

    def rfc1071(data: bytes) -> int:
        data += b"\0" * (len(data) % 2)
        total = sum(int.from_bytes(data[i : i + 2], "big") for i in range(0, len(data), 2))
        while total >> 16:
            total = (total & 0xFFFF) + (total >> 16)
        return ~total & 0xFFFF

    body = bytes.fromhex("4005010203040506")
    after = bytes.fromhex("4006010203040506")
    payload = b"\x01\x02\x03"
    result = (2, after + rfc1071(after + payload).to_bytes(2, "big") + payload)
    assert send(s, body + rfc1071(body).to_bytes(2, "big") + payload) == [result]
    assert send(s, body + b"\0\0" + payload)[0][0] == 3


def test_drop_and_truncate(tmp_path):
    s = switch(
        tmp_path,
        apply="if (hdr.h.a == 1) { mark_to_drop(standard); } truncate(14);",
    )
    assert send(s, words(1, 0, 0)) == []
    assert send(s, words(2, 0, 0, 4)) == [(1, words(2, 0, 0) + b"\0\0")]


def test_multicast_sets_rid(tmp_path):
    s = switch(
        tmp_path,
        apply="standard.mcast_grp = 7;",
        egress="hdr.h.b = (bit<32>) standard.egress_rid; hdr.h.c = standard.instance_type;",
    )
    s.multicast_group(7, [(3, 30), (4, 40)])
    assert sorted(send(s, words(1, 0, 0))) == [(3, words(1, 30, 5)), (4, words(1, 40, 5))]


def test_clone_and_field_lists(tmp_path):
    s = switch(
        tmp_path,
        metadata="@field_list(1) bit<32> kept; bit<32> lost;",
        apply="meta.kept = 5; meta.lost = 6; clone_preserving_field_list(CloneType.I2E, 9, 1);"
        " hdr.h.a = 100;",
        egress="hdr.h.b = meta.kept * 10 + meta.lost; hdr.h.c = standard.instance_type;",
    )
    s.mirror_session(9, 4)
    assert sorted(send(s, words(1, 0, 0))) == [(1, words(100, 56, 0)), (4, words(1, 50, 1))]


def test_resubmit_and_recirculate(tmp_path):
    s = switch(
        tmp_path,
        metadata="@field_list(0) bit<32> round;",
        apply="hdr.h.c = hdr.h.c * 10 + standard.instance_type; if (hdr.h.a == 1 && meta.round =="
        " 0)"
        " { meta.round = 1; resubmit_preserving_field_list(0); }",
        egress="if (hdr.h.a == 2 && meta.round == 0) { meta.round = 1; hdr.h.b = hdr.h.b + 1;"
        " recirculate_preserving_field_list(0); }",
    )
    assert send(s, words(1, 0, 0)) == [(1, words(1, 0, 6))]
    assert send(s, words(2, 0, 0)) == [(1, words(2, 1, 4))]


def test_direct_counter_and_meters(tmp_path):
    s = switch(
        tmp_path,
        metadata="bit<2> color;",
        locals="direct_counter(CounterType.packets) dc; direct_meter<bit<2>>(MeterType.packets) dm;"
        " meter(4, MeterType.bytes) m;"
        " action go() { dc.count(); dm.read(meta.color); }"
        " table t { key = { hdr.h.a: exact; } actions = { go; NoAction; } counters = dc; meters ="
        " dm; }",
        apply="t.apply(); hdr.h.b = (bit<32>) meta.color; m.execute_meter(hdr.h.a, hdr.h.c);",
    )
    handle = s.table_add("t", "go", [1])
    s.meter_set("dm", handle, [(0.0, 1), (0.0, 2)])
    s.meter_set("m", 1, [(0.0, 12), (0.0, 24)])
    assert [send(s, words(1, 0, 0))[0][1] for _ in range(3)] == [
        words(1, 0, 0),
        words(1, 1, 1),
        words(1, 2, 2),
    ]
    assert s.counter_read("dc", handle)["packets"] == 3
    assert send(s, words(0, 0, 0)) == [(1, words(0, 0, 0))]


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


def test_a_direct_meter_colours_every_hit(tmp_path):
    s = switch(
        tmp_path,
        metadata="bit<2> color;",
        locals="direct_meter<bit<2>>(MeterType.packets) dm; action go() { dm.read(meta.color); }"
        " action stay() {} table t { key = { hdr.h.a: exact; } actions = { go; stay; NoAction; }"
        " meters = dm; }",
        apply="meta.color = 3; t.apply(); hdr.h.b = (bit<32>) meta.color;",
    )
    handle = s.table_add("t", "stay", [1])
    s.meter_set("dm", handle, [(0.0, 1), (0.0, 2)])
    colours = [send(s, words(1, 0, 0))[0][1] for _ in range(3)]
    assert colours == [words(1, 0, 0), words(1, 1, 0), words(1, 2, 0)]
    assert send(s, words(2, 0, 0)) == [(1, words(2, 3, 0))]


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
