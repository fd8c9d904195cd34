"""Programs for TNA: packets in and packets out, with the control plane's commands in between."""

from __future__ import annotations

import functools
import subprocess
import sys
import tempfile
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from p4engine.switch.library import Switch
from p4engine.trace.tracer import Tracer
from p4engine.values.numbers import ControlError
from p4engine_testing import programs
from p4engine_testing.cases import Case
from p4engine_testing.sanitizers import fuzz
from p4engine_testing.tna import cases, source

from p4engine import P4Error, compile_program


@pytest.fixture(autouse=True)
def fast_c(monkeypatch):
    monkeypatch.setenv("P4ENGINE_CFLAGS", "-O0")


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_programs(tmp_path, case: Case):
    path = tmp_path / "program.p4"
    path.write_text(source(**case.parts))
    if case.error:
        with pytest.raises(P4Error) as caught:
            compile_program(path)
        assert case.error in str(caught.value)
        assert len(caught.value.diagnostics) == 1
        return
    case.check(Switch(compile_program(path), ports=[*range(16), 130, 192]))


def test_random_packets_find_nothing():
    fuzz(0, 0, 300, "--tna", share=40)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_random_packets_find_nothing_in_any_program():
    fuzz(0, 0, 600, "--tna")


def test_a_switch_cannot_change_its_architecture(tmp_path):
    (tmp_path / "tna.p4").write_text(source())
    (tmp_path / "v1model.p4").write_text(programs.source())
    switch = Switch(compile_program(tmp_path / "tna.p4"))
    with pytest.raises(ControlError, match="program is for v1model, and the switch for tna"):
        switch.install(compile_program(tmp_path / "v1model.p4"))
    switch.install(compile_program(tmp_path / "tna.p4"))


def test_digests_reach_the_control_plane(tmp_path):
    (tmp_path / "program.p4").write_text(
        source(
            top="struct learned_t { bit<16> b; bit<9> port; }",
            metadata="bit<9> port;",
            apply="meta.port = ig_intr.ingress_port; ig_dprsr.digest_type = hdr.h.a[2:0];",
            deparser_locals="Digest<learned_t>() learned;",
            deparser="if (ig_dprsr.digest_type == 3) { learned.pack({ hdr.h.b, meta.port }); }"
            " packet.emit(hdr);",
        )
    )
    switch = Switch(compile_program(tmp_path / "program.p4"))
    got = []
    switch.pipeline.on_digest(lambda *what: got.append(what))
    for a in (3, 2, 3):
        switch.receive(5, bytes([1, a, 0x12, 0x34, 0, 0, 0, 0]), 0)
    assert [digest.name for digest in switch.compiled.info.digests] == ["MyIngressDeparser.learned"]
    assert len(got) == 2
    assert list(got[0][-1]) == [0x1234, 5]


def test_a_trace_shows_both_gresses(tmp_path):
    (tmp_path / "program.p4").write_text(source(apply="hdr.h.a = 7;"))
    switch = Switch(compile_program(tmp_path / "program.p4", trace=True))
    tracer = Tracer(switch)
    switch.receive(3, bytes.fromhex("0105000000000000aa"), 0)
    text = "\n".join(tracer.lines())
    assert "parser MyIngressParser: 9 bytes on port 3" in text
    assert "hdr.h, bytes 16 to 23" in text
    assert "hdr.h.a = 7" in text and "to port 1" in text
    assert "egress parser MyEgressParser: 9 bytes to port 1" in text
    assert "hdr.h, bytes 27 to 34" in text
    assert text.index("ingress deparser") < text.index("egress MyEgress: to port 1")


def test_p4info_names_the_generation_and_has_filters_as_registers(tmp_path):
    p4info = pytest.importorskip("p4engine.p4runtime.p4info").p4info
    (tmp_path / "program.p4").write_text(
        source(
            architecture="t2na",
            locals="Wred<bit<16>, bit<8>>(16, 1, 0) early;",
            apply="hdr.h.a = early.execute(hdr.h.b, hdr.h.a);",
        )
    )
    info = p4info(tmp_path / "program.p4")
    assert info.pkg_info.arch == "t2na"
    names = {register.preamble.name.split(".")[-1]: register.size for register in info.registers}
    assert names == dict.fromkeys(
        ("value", "time_ns", "time_constant_ns", "min", "max", "probability"), 16
    )


def test_p4info_of_a_program(tmp_path):
    p4info = pytest.importorskip("p4engine.p4runtime.p4info").p4info
    (tmp_path / "program.p4").write_text(
        source(
            top="struct pair_t { bit<32> low; bit<32> high; }",
            locals="Register<pair_t, bit<8>>(16) pairs;"
            " Counter<bit<64>, bit<8>>(4, CounterType_t.PACKETS_AND_BYTES) seen;"
            " Meter<bit<8>>(4, MeterType_t.BYTES) rate; ActionProfile(8) members;"
            " Hash<bit<16>>(HashAlgorithm_t.CRC16) hash;"
            " ActionSelector(members, hash, SelectorMode_t.FAIR, 4, 2) selector; action a() { }"
            " table t { key = { hdr.h.op: exact; hdr.h.c: selector; } actions = { a; }"
            " implementation = selector; size = 4; }",
            apply="t.apply(); seen.count(0); hdr.h.a = rate.execute(1);",
        )
    )
    info = p4info(tmp_path / "program.p4")
    assert info.pkg_info.arch == "tna"
    assert [register.type_spec.struct.name for register in info.registers] == ["pair_t"]
    [profile] = info.action_profiles
    assert (profile.preamble.name, profile.size, profile.with_selector) == (
        "MyIngress.selector",
        8,
        True,
    )
    assert info.counters[0].spec.unit == info.counters[0].spec.BOTH
    assert info.meters[0].spec.unit == info.meters[0].spec.BYTES


def test_an_stf_test(tmp_path):
    (tmp_path / "program.p4").write_text(
        source(
            locals="action to(PortId_t port) { ig_tm.ucast_egress_port = port; }"
            " table t { key = { hdr.h.op: exact; } actions = { to; } size = 4; }",
            apply="t.apply();",
        )
    )
    (tmp_path / "program.stf").write_text(
        "add t hdr.h.op:1 to(port:4)\n"
        "packet 2 0100000000000000 aa\n"
        "expect 4 0100000000000000 aa $\n"
    )
    command = [sys.executable, "-m", "p4engine", "stf", "program.p4", "program.stf"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_ports_in_loopback_mode(tmp_path):
    (tmp_path / "program.p4").write_text(
        source(
            apply="hdr.h.b = hdr.h.b + 1;"
            " if (ig_intr.ingress_port == 3) { ig_tm.ucast_egress_port = 130; }"
            " else { hdr.h.c = (bit<32>)ig_intr.ingress_port; }",
        )
    )
    switch = Switch(compile_program(tmp_path / "program.p4"), ports=range(8))
    assert programs.send(switch, bytes([1, 0, 0, 0, 0, 0, 0, 0]), port=3) == []
    switch.port_loopback(130)
    expected = [(1, bytes([1, 0, 0, 2, 0, 0, 0, 130]))]
    assert programs.send(switch, bytes([1, 0, 0, 0, 0, 0, 0, 0]), port=3, now_ns=10**9) == expected
    switch.port_loopback(130, False)
    assert programs.send(switch, bytes([1, 0, 0, 0, 0, 0, 0, 0]), port=3, now_ns=2 * 10**9) == []
    v1model = programs.switch(tmp_path)
    with pytest.raises(ControlError, match="which only programs for tna and t2na have"):
        v1model.port_loopback(1)


def test_deflection_of_what_a_queue_has_no_room_for(tmp_path):
    """Of five packets one leaves, two wait, and of the others that which asks is deflected."""
    parts = {
        "apply": "ig_tm.deflect_on_drop = hdr.h.a[0:0];",
        "egress": "hdr.h.b = 15w0 ++ eg_intr.deflection_flag;"
        " hdr.h.c = 23w0 ++ eg_intr.egress_port;",
    }
    for queues in (1, 4):
        switch = build(tmp_path, queues, **parts)
        switch.port_shape(1, "egress", rate_bps=64_000, queue_packets=2)
        for deflect in (0, 1, 0, 0, 1):
            switch.receive(0, bytes([9, deflect, 0, 0, 0, 0, 0, 0]), 0)
        left = [(port, bytes(data)) for _, port, data in switch.run()]
        assert [(port, data[1], data[3], data[7]) for port, data in left] == [
            (1, 0, 0, 1),
            (1, 1, 0, 1),
            (1, 0, 0, 1),
        ], "without a port for them"
        switch.deflection_port(3)
        now = switch.now_ns() + 10**9
        for deflect in (0, 1, 0, 0, 1):
            switch.receive(0, bytes([9, deflect, 0, 0, 0, 0, 0, 0]), now)
        left = [(port, bytes(data)) for _, port, data in switch.run()]
        assert sorted((port, data[1], data[3], data[7]) for port, data in left) == [
            (1, 0, 0, 1),
            (1, 0, 0, 1),
            (1, 1, 0, 1),
            (3, 1, 1, 3),
        ]
        assert sum(row["queue_drops"] for row in switch.port_stats()) == 2 + 1
        switch.deflection_port(None)
    v1model = programs.switch(tmp_path)
    with pytest.raises(ControlError, match="deflection to port 1, which only programs for tna"):
        v1model.deflection_port(1)


def test_multicast_copies_are_deflected_one_by_one(tmp_path):
    switch = build(
        tmp_path,
        apply="ig_tm.ucast_egress_port = 511; ig_tm.mcast_grp_a = 7; ig_tm.deflect_on_drop = 1;",
        egress="hdr.h.b = 15w0 ++ eg_intr.deflection_flag; hdr.h.c = 23w0 ++ eg_intr.egress_port;",
    )
    switch.multicast_group(7, [(1, 0), (2, 0)])
    switch.port_shape(1, "egress", rate_bps=64_000, queue_packets=0)
    switch.deflection_port(3)
    for number in range(2):
        switch.receive(0, bytes([number, 0, 0, 0, 0, 0, 0, 0]), 0)
    left = [(port, data[0], data[3]) for _, port, data in switch.run()]
    assert sorted(left) == [(1, 0, 0), (2, 0, 0), (2, 1, 0), (3, 1, 1)]


def test_the_port_of_the_cpu(tmp_path):
    switch = build(tmp_path, apply="ig_tm.copy_to_cpu = 1; ig_tm.ucast_egress_port = 511;")
    switch.cpu_copies(5)
    assert programs.send(switch, bytes([1, 2, 3, 4, 5, 6, 7, 8])) == [(5, bytes(range(1, 9)))]
    with pytest.raises(ControlError, match="port 511 for the CPU"):
        switch.cpu_copies(511)


def build(folder, queues: int = 4, **parts: str) -> Switch:
    (folder / "program.p4").write_text(source(**parts))
    return Switch(compile_program(folder / "program.p4"), ports=range(8), priority_queues=queues)


def test_a_session_s_copies_go_to_its_port_and_its_group_and_are_shortened(tmp_path):
    switch = build(
        tmp_path,
        apply="ig_dprsr.mirror_type = 1;",
        deparser_locals="Mirror() mirror;",
        deparser="if (ig_dprsr.mirror_type == 1) { mirror.emit(9); } packet.emit(hdr);",
        egress_parser="state parse { transition accept; }",
    )
    data = bytes.fromhex("0100000000000000aabb")
    groups = {None: [], 1: [2], 7: [3, 4]}
    for group in (1, 7):
        switch.multicast_group(group, [(port, 1) for port in groups[group]])
    for length, port, group in product((None, 9, 20, 4), (None, 6), groups):
        switch.mirror_session(9, port, group, length)
        to = [*groups[group], *([] if port is None else [port])]
        left = programs.send(switch, data, now_ns=switch.now_ns() + 1)
        assert sorted(left) == [(1, data), *((each, data[:length]) for each in to)]


def test_what_egress_knows_of_the_queue(tmp_path):
    """Three packets for a port that takes 1 ms for each; the highest queue goes first."""
    switch = build(
        tmp_path,
        apply="ig_tm.qid = hdr.h.a[4:0];",
        egress="hdr.h.b = 11w0 ++ eg_intr.egress_qid; hdr.h.a = eg_intr.enq_qdepth[3:0] ++"
        " eg_intr.deq_qdepth[3:0]; hdr.h.c = 14w0 ++ eg_intr.deq_timedelta;"
        " hdr.h.op = eg_intr.enq_tstamp[17:10];",
    )
    switch.port_shape(1, "egress", rate_bps=64_000)  # 8 bytes in 1 ms
    for number, queue in enumerate((0, 1, 1, 3)):
        switch.receive(0, bytes([9, queue, 0, 0, 0, 0, 0, 0]), 1024 * number)
    left = [bytes(data) for _, _, data in switch.run()]
    assert [data[3] for data in left] == [0, 3, 1, 1], "queues"
    assert [data[1] for data in left] == [0x00, 0x00, 0x01, 0x10], "enqueued, dequeued"
    assert [data[0] for data in left] == [0, 3, 1, 2], "times of arrival in units of 1024 ns"
    times = [int.from_bytes(data[4:], "big") for data in left]
    assert times == [
        0,
        (10**6 - 3072) % 2**18,
        (2 * 10**6 - 1024) % 2**18,
        (3 * 10**6 - 2048) % 2**18,
    ]


WISHES = "a b rid node_exclusion exclusion port cpu drop"


@settings(max_examples=200, derandomize=True, deadline=None)
@given(st.data())
def test_what_leaves_is_what_nothing_excludes(data):
    """Two groups, a port, the CPU's port and drops, in any combination of a packet's wishes."""
    switch = copying_switch()
    few = st.sampled_from((0, 1, 2, 3))
    groups = {
        number: data.draw(st.lists(st.tuples(st.sampled_from((1, 2, 3)), few), max_size=5))
        for number in (1, 2)
    }
    for number, members in groups.items():
        switch.multicast_group(number, members)
    before = switch.stats()
    for _ in range(4):
        wish = {name: data.draw(few) for name in WISHES.split()}
        wish["port"] = data.draw(st.sampled_from((511, 511, 1, 4)))
        wish["cpu"] &= 1
        expected, copies = [], 0
        for group in (wish["a"], wish["b"]):
            first = 1
            for port, rid in groups.get(group, ()):
                pruned = (rid, port) == (wish["rid"], wish["exclusion"]) != (0, 0)
                if wish["drop"] & 1 or pruned or rid == wish["node_exclusion"] != 0:
                    continue
                expected.append((port, rid, first))
                first, copies = 0, copies + 1
        if wish["cpu"] and not wish["drop"] & 2:
            expected.append((5, 0, 0))
        if wish["port"] != 511 and not wish["drop"] & 1:
            expected.append((wish["port"], 0, 0))
        packet = b"".join(value.to_bytes(2, "big") for value in wish.values())
        switch.receive(0, packet + bytes(8), switch.now_ns() + 1)
        left = [(port, frame[2] << 8 | frame[3], frame[1]) for _, port, frame in switch.run()]
        assert sorted(left) == sorted(expected), wish
        after = switch.stats()
        assert after["copies"] - before["copies"] == copies
        assert after["ingress_drops"] - before["ingress_drops"] == (not expected)
        before = after


@functools.cache
def copying_switch() -> Switch:
    """Its packets say in eight words of 16 bits what is to become of them. Egress writes down which
    copy a packet is."""
    fields = "".join(f"bit<16> {name}; " for name in WISHES.split())
    with tempfile.TemporaryDirectory() as folder:
        switch = build(
            Path(folder),
            top=f"header wish_t {{ {fields} }}",
            headers="wish_t wish;",
            parser="state parse { packet.extract(hdr.wish); transition wished; }"
            " state wished { packet.extract(hdr.h); transition accept; }",
            apply="""
                ig_tm.mcast_grp_a = hdr.wish.a; ig_tm.mcast_grp_b = hdr.wish.b;
                ig_tm.rid = hdr.wish.rid; ig_tm.level1_exclusion_id = hdr.wish.node_exclusion;
                ig_tm.level2_exclusion_id = hdr.wish.exclusion[8:0];
                ig_tm.ucast_egress_port = hdr.wish.port[8:0];
                ig_tm.copy_to_cpu = hdr.wish.cpu[0:0]; ig_dprsr.drop_ctl = hdr.wish.drop[2:0];
                hdr.wish.setInvalid();
            """,
            egress="hdr.h.b = eg_intr.egress_rid; hdr.h.a = 7w0 ++ eg_intr.egress_rid_first;",
        )
    switch.cpu_copies(5)
    return switch


def test_drops_are_counted(tmp_path):
    switch = build(
        tmp_path,
        apply="if (hdr.h.op == 1) { ig_dprsr.drop_ctl = 1; }"
        " if (hdr.h.op == 2) { ig_tm.ucast_egress_port = 9; }"
        " if (hdr.h.op == 3) { ig_tm.mcast_grp_a = 5; ig_tm.ucast_egress_port = 511; }",
        egress="if (hdr.h.op == 4) { eg_dprsr.drop_ctl = 1; }",
    )
    for op in (1, 1, 2, 3, 4, 5):
        assert len(programs.send(switch, bytes([op]) + bytes(7))) == (op == 5)
    assert programs.send(switch, b"short") == []
    stats = switch.stats()
    names = ("received", "sent", "ingress_drops", "egress_drops", "no_port", "no_group")
    assert [stats[name] for name in names] == [7, 1, 4, 1, 1, 1]


def test_packets_that_wait_are_what_they_were(tmp_path):
    """Copies for a queue keep their bytes, of headers and payload."""
    switch = build(
        tmp_path,
        apply="ig_tm.ucast_egress_port = 511; ig_tm.mcast_grp_a = 7; hdr.h.c = hdr.h.c + 1;",
        egress="hdr.h.b = eg_intr.egress_rid;",
    )
    switch.multicast_group(7, [(1, 10), (1, 11), (2, 12)])
    switch.port_shape(1, "egress", rate_bps=1_000_000)
    for number in range(3):
        switch.receive(0, bytes([number, 0, 0, 0, 0, 0, 0, 0]) + bytes([number]) * 50, 0)
    left = [(port, bytes(data)) for _, port, data in switch.run()]
    expected = [
        (port, bytes([number, 0, 0, rid, 0, 0, 0, 1]) + bytes([number]) * 50)
        for number in range(3)
        for port, rid in ((1, 10), (1, 11), (2, 12))
    ]
    assert sorted(left) == sorted(expected)


def test_entries_with_idle_timeouts(tmp_path):
    switch = build(
        tmp_path,
        locals="action a() { } table t { key = { hdr.h.op: exact; } actions = { a; }"
        " idle_timeout = true; size = 4; }",
        apply="t.apply();",
    )
    handle = switch.table_add("t", "a", [1])
    switch.table_set_timeout("t", handle, 1000)
    switch.receive(0, bytes([1, 0, 0, 0, 0, 0, 0, 0]), 700)
    switch.advance(1000)
    assert switch.table_age("t", handle) == (1000, 300)
