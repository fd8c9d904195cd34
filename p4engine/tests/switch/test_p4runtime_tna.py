"""A P4Runtime controller of a switch that runs a program for TNA."""

from __future__ import annotations

import pytest
from p4engine.p4runtime.p4info import p4info
from p4engine_testing import programs
from p4engine_testing.controller import Failed, ServedSwitch
from p4engine_testing.tna import source

PROGRAM = source(
    top="struct pair_t { bit<32> low; bit<32> high; } struct learned_t { bit<16> b; bit<32> c; }",
    locals="Register<pair_t, bit<8>>(4) pairs;"
    " RegisterAction<pair_t, bit<8>, bit<32>>(pairs) add = {"
    " void apply(inout pair_t value, out bit<32> result)"
    " { value.low = value.low + 1; value.high = hdr.h.c; result = value.low; } };"
    " action to(PortId_t port) { ig_tm.ucast_egress_port = port; hdr.h.c = add.execute(1); }"
    " table t { key = { hdr.h.op: exact; } actions = { to; } size = 4; }",
    apply="ig_dprsr.drop_ctl = 0; if (!t.apply().hit) { ig_dprsr.drop_ctl = 1; }"
    " ig_dprsr.digest_type = 1;",
    deparser_locals="Digest<learned_t>() learned;",
    deparser="if (hdr.h.a == 9) { learned.pack({ hdr.h.b, hdr.h.c }); } packet.emit(hdr);",
)
REGISTER = "register_entry { register_id: $pairs index { index: 1 } %s }"


@pytest.fixture
def served(tmp_path):
    path = tmp_path / "program.p4"
    path.write_text(PROGRAM)
    made = ServedSwitch(path)
    yield made
    made.close()


def packet(op: int, a: int = 0, c: int = 0) -> bytes:
    return bytes([op, a, 0, 0]) + c.to_bytes(4, "big")


def test_tables_registers_and_digests(served, controller):
    ids = controller.ids
    assert served.receive(1, packet(7)) == []
    controller.write(
        (
            "INSERT",
            ids.entity(
                'table_entry { table_id: $t match { field_id: 1 exact { value: "\\x07" } } action {'
                ' action { action_id: $to params { param_id: 1 value: "\\x03" } } } }'
            ),
        ),
        ("INSERT", ids.entity("digest_entry { digest_id: $learned config { max_list_size: 1 } }")),
    )
    assert served.receive(1, packet(7, c=0x1234)) == [(3, packet(7, c=1))]
    (found,) = controller.read(ids.entity(REGISTER % ""))
    members = [m.bitstring for m in found.register_entry.data.struct.members]
    assert members == [b"\x01", b"\x12\x34"]
    data = "data { struct { members { bitstring: '\\x10' } members { bitstring: '\\x20' } } }"
    controller.write(("MODIFY", ids.entity(REGISTER % data)))
    assert served.switch.register_read("pairs", 1, 1) == [0x10 << 32 | 0x20]
    assert served.receive(1, packet(7, a=9)) == [(3, packet(7, a=9, c=0x11))]
    message = controller.hear()
    (learned,) = message.digest.data
    assert [m.bitstring for m in learned.struct.members] == [b"\x00", b"\x11"]
    for wrong in (
        "data { bitstring: '\\1' }",
        "data { struct { members { bitstring: '\\1' } } }",
        "data { struct { members { bool: true } members { bitstring: '\\1' } } }",
    ):
        codes = controller.refused(("MODIFY", ids.entity(REGISTER % wrong)))
        assert codes == ["INVALID_ARGUMENT"]


def test_a_program_for_another_architecture_is_refused(served, controller, tmp_path):
    served.switch.register_write("pairs", 1, [1])
    controller.set_config("VERIFY_AND_COMMIT", served.info, device=PROGRAM.encode())
    assert served.switch.register_read("pairs", 1, 1) == [0]
    other = tmp_path / "v1model.p4"
    other.write_text(programs.source())
    with pytest.raises(Failed, match="is for v1model, and this switch for tna"):
        controller.set_config("VERIFY", p4info(other), device=programs.source().encode())
