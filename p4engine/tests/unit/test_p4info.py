"""P4Info: numbers and names as p4c gives them. The numbers here were printed by p4c 1.2."""

from __future__ import annotations

import subprocess
import sys

import pytest
from p4engine.cli.main import main
from p4engine.p4runtime.p4info import aliases, assign_ids, p4info
from p4engine.p4runtime.proto import p4info_pb2
from p4engine_testing import DATA
from p4engine_testing.programs import source

from p4engine import P4Error, compile_program

PROGRAM = DATA / "p4info.p4"
EXPECTED = {
    "tables": {
        "I.s1.t": 34259664,
        "I.s2.t": 42904422,
        "I.ipv4": 33554517,
        "I.tern": 38394784,
        "I.selt": 48658990,
        "I.proft": 47934611,
    },
    "actions": {
        "NoAction": 21257015,
        "I.s1.a": 31388797,
        "I.s2.a": 22043373,
        "I.fwd": 16777293,
        "I.drop": 32117294,
    },
    "action_profiles": {"I.sel": 290691693, "I.prof": 296091141},
    "counters": {"I.c": 309948943},
    "direct_counters": {"I.dc": 319370046},
    "meters": {"I.m": 349562055},
    "direct_meters": {"I.dm": 353366856},
    "value_sets": {"P.vs1": 53248655},
    "registers": {"I.r": 384619250},
    "digests": {"dg_t": 392663092},
}


@pytest.fixture(scope="module")
def info():
    pytest.importorskip("google.protobuf")
    return p4info(PROGRAM)


def test_ids_are_those_of_p4c(info):
    for kind, expected in EXPECTED.items():
        found = {o.preamble.name: o.preamble.id for o in getattr(info, kind)}
        assert found == expected, kind


def test_tables_tell_keys_actions_and_resources(info):
    tables = {t.preamble.alias: t for t in info.tables}
    ipv4 = tables["ipv4"]
    assert [(m.id, m.name, m.bitwidth, m.match_type) for m in ipv4.match_fields] == [
        (1, "dst", 32, 3),
        (2, "hdr.h.b", 32, 2),
    ]
    assert [(a.id, a.scope) for a in ipv4.action_refs] == [
        (16777293, 0),
        (32117294, 0),
        (21257015, 2),
    ]
    assert ipv4.size == 512 and ipv4.const_default_action_id == 21257015
    assert list(ipv4.direct_resource_ids) == [319370046, 353366856]
    tern = tables["tern"]
    assert [m.name for m in tern.match_fields][3] == "hdr.h.$valid$"
    assert tern.is_const_table and tern.has_initial_entries and tern.size == 1024
    assert [m.name for m in tables["selt"].match_fields] == ["hdr.h.a"]
    fwd = next(a for a in info.actions if a.preamble.name == "I.fwd")
    assert [(p.id, p.name, p.bitwidth) for p in fwd.params] == [(5, "port", 9), (2, "mac", 48)]


def test_names_of_what_has_none_of_its_own(tmp_path):
    pytest.importorskip("google.protobuf")
    path = tmp_path / "program.p4"
    path.write_text(
        source(
            top="struct vs_t { @match(ternary) bit<32> a; bit<32> b; }",
            parser="value_set<vs_t>(4) vs; state start { packet.extract(hdr.h); transition"
            " select(hdr.h.a, hdr.h.b) { vs: accept; default: accept; } }",
            locals='action set(@name("value") bit<32> v) { hdr.h.c = v; }'
            " action plain(bit<8> x) { digest(1, { hdr.h.a, x }); }"
            " table t { key = { hdr.h.a: exact; } actions = { set; } default_action = set(3); }",
            apply="t.apply(); plain(5);",
        )
    )
    made = p4info(path)
    actions = {a.preamble.name: a for a in made.actions}
    assert [p.name for p in actions["MyIngress.set"].params] == ["value"]
    assert not actions["MyIngress.plain"].params
    assert made.tables[0].initial_default_action.arguments[0].value == bytes([0, 0, 0, 3])
    [digest] = made.digests
    assert digest.preamble.name == "digest_0"
    members = digest.type_spec.tuple.members
    assert [m.bitstring.bit.bitwidth for m in members] == [32, 8]
    assert [(m.name, m.match_type) for m in made.value_sets[0].match] == [("a", 4), ("b", 2)]


def test_digests_of_the_calls_that_can_run(tmp_path):
    """In the order of the calls: stage after stage, a callee's where it is called."""
    pytest.importorskip("google.protobuf")
    path = tmp_path / "program.p4"
    path.write_text(
        source(
            top="struct a_t { bit<32> x; } struct b_t { bit<8> y; bool z; }"
            " struct c_t { bit<4> x; } struct d_t { bit<5> x; } struct e_t { bit<6> x; }"
            " const bool DEBUG = false;",
            egress="digest<b_t>(1, { 2, true }); if (DEBUG) digest<c_t>(1, { 3 });",
            locals="action never() { digest<d_t>(1, { 4 }); }"
            " action other() { digest(1, { hdr.h.a, hdr.h }); }"
            " action again() { digest(2, hdr.h.b); digest<e_t>(1, { 5 }); }"
            " table t { key = { hdr.h.a: exact; } actions = { again; other; } }",
            apply="if (t.apply().hit) { digest<a_t>(1, { 1 }); } again();",
        )
    )
    info = compile_program(path).info
    assert [(d.id, d.name, [f.width for f in d.fields]) for d in info.digests] == [
        (0, "digest_0", [32]),
        (1, "e_t", [6]),
        (2, "digest_1", [32, 32, 32, 32]),
        (3, "a_t", [32]),
        (4, "b_t", [8, 1]),
    ]
    assert [d.preamble.name for d in p4info(path).digests] == [d.name for d in info.digests]


def test_no_code_is_generated(tmp_path):
    """P4Info comes of the passes before the back end."""
    pytest.importorskip("google.protobuf")
    code = (
        "import sys; from p4engine.p4runtime.p4info import p4info;"
        f"assert len(p4info({str(PROGRAM)!r}).tables) == 6;"
        "print([name for name in sys.modules if name.startswith('p4engine.backend')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_a_package_of_another_architecture(tmp_path):
    pytest.importorskip("google.protobuf")
    path = tmp_path / "program.p4"
    path.write_text("package Box(bit<8> n); Box(1) main;")
    with pytest.raises(P4Error, match="the architecture of package Box is not supported"):
        p4info(path)


def test_text_and_binary(info, tmp_path, capsysbinary):
    out = tmp_path / "p4info.bin"
    assert main(["p4info", str(PROGRAM), "--binary", "-o", str(out)]) == 0
    assert out.read_bytes() == info.SerializeToString(deterministic=True)
    assert len(p4info_pb2.P4Info.FromString(out.read_bytes()).tables) == 6
    assert main(["p4info", str(PROGRAM)]) == 0
    text = capsysbinary.readouterr().out.decode()
    assert 'name: "I.ipv4"' in text and 'key: "dg_t"' in text


def test_ids_that_meet_and_ids_that_are_asked_for():
    made = assign_ids("table", {"a": None, "b": 7})
    assert made["b"] == 0x02000007
    again = assign_ids("table", {"a": None, "b": made["a"]})
    assert again == {"a": made["a"] + 1, "b": made["a"]}


def test_aliases_are_the_shortest_unique_ends():
    assert aliases(["I.a.t", "I.b.t", "I.u"]) == {"I.a.t": "a.t", "I.b.t": "b.t", "I.u": "u"}


WITHOUT = """
import sys
sys.modules["google.protobuf"] = None
from p4engine.cli.main import main
sys.exit(main(["p4info", sys.argv[1]]))
"""


def test_without_protobuf_the_error_says_what_to_install():
    command = [sys.executable, "-c", WITHOUT, str(PROGRAM)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2 and "pip install 'p4engine[p4runtime]'" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("first", ["finsy.proto", "p4engine.p4runtime.proto"])
def test_another_copy_of_the_messages_may_be_in_the_process(first):
    """finsy has the same definitions, and registers them in protobuf's default pool."""
    pytest.importorskip("finsy")
    program = f"""
import {first}
from finsy.proto import p4i, p4r
from p4engine.p4runtime.proto import p4info_pb2, p4runtime_pb2, status_pb2
ours = p4runtime_pb2.Entity()
ours.table_entry.table_id = 3
assert p4r.Entity.FromString(ours.SerializeToString()).table_entry.table_id == 3
assert not isinstance(ours, p4r.Entity) and p4info_pb2.P4Info is not p4i.P4Info
status = status_pb2.Status()
status.details.add().Pack(p4runtime_pb2.Error(message="why"))
assert status.details[0].type_url.endswith("/p4.v1.Error")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_types_with_names_are_described(tmp_path):
    path = tmp_path / "program.p4"
    path.write_text(
        source(
            top="""enum bit<12> why_t { NEW = 1, OLD = 0xabc }
            type bit<9> place_t;
            @controller_header("packet_in") 
            header in_t { why_t why; place_t place; bit<3> pad; }""",
            headers="header h_t { bit<8> a; } struct headers_t { h_t h; in_t i; }",
        )
    )
    info = p4info(path)
    (header,) = info.controller_packet_metadata
    assert [(m.name, m.bitwidth, m.type_name.name) for m in header.metadata] == [
        ("why", 12, ""),
        ("place", 9, "place_t"),
        ("pad", 3, ""),
    ]
    why = info.type_info.serializable_enums["why_t"]
    assert why.underlying_type.bitwidth == 12
    assert [(m.name, m.value) for m in why.members] == [("NEW", b"\0\1"), ("OLD", b"\x0a\xbc")]


def test_externs_have_their_numbers_and_annotations(tmp_path):
    path = tmp_path / "program.p4"
    path.write_text(
        source(
            locals="""@id(0x77) @brief("how many") counter(4, CounterType.packets) c;
            @single_rate_two_color meter(4, MeterType.bytes) m;
            @max_group_size(8) @mark
            action_selector(HashAlgorithm.crc16, 32w16, 32w16) s;
            table t { key = { hdr.h.a: exact; hdr.h.b: selector; } actions = { NoAction; }
                      implementation = s; support_timeout = true; }
            table plain { key = { hdr.h.a: exact; } actions = { NoAction; }
                      support_timeout = false; }""",
            apply="c.count(1); m.execute_meter(1, hdr.h.a); t.apply(); plain.apply();",
        )
    )
    info = p4info(path)
    (counter,) = info.counters
    assert counter.preamble.id == 0x12000077
    assert list(counter.preamble.annotations) == ['@brief("how many")']
    assert info.meters[0].spec.type == p4info_pb2.MeterSpec.SINGLE_RATE_TWO_COLOR
    (profile,) = info.action_profiles
    assert profile.max_group_size == 8
    assert list(profile.preamble.annotations) == ["@mark"]
    ages = {t.preamble.alias: t.idle_timeout_behavior for t in info.tables}
    assert ages == {"t": p4info_pb2.Table.NOTIFY_CONTROL, "plain": 0}
