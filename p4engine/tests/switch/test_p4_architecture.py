"""core.p4 and v1model.p4: the built-in ones, and those that a program brings with -I."""

from __future__ import annotations

import pytest
from p4engine.switch.library import Switch
from p4engine_testing import ENGINE
from p4engine_testing.programs import send, source

from p4engine import P4Error, compile_program

BUILT_IN = {
    path.name: path.read_text() for path in (ENGINE / "src/p4engine/architectures").rglob("*.p4")
}


@pytest.fixture(autouse=True)
def fast_c(monkeypatch):
    monkeypatch.setenv("P4ENGINE_CFLAGS", "-O0")


def build(folder, text, changes=(), file="v1model.p4"):
    """The program with the built-in v1model.p4 or core.p4, changed, from a folder of includes."""
    includes = folder / "include"
    includes.mkdir()
    model = BUILT_IN[file]
    for old, new in changes:
        assert old in model
        model = model.replace(old, new)
    (includes / file).write_text(model)
    path = folder / "program.p4"
    path.write_text(text)
    return compile_program(path, include_dirs=[includes])


def messages(folder, text, changes=(), file="v1model.p4"):
    with pytest.raises(P4Error) as caught:
        build(folder, text, changes, file)
    return str(caught.value)


def test_the_guards_of_the_built_in_files(tmp_path):
    path = tmp_path / "program.p4"
    path.write_text(
        source(
            apply="\n#ifdef _CORE_P4_\n hdr.h.a = 1;\n#endif\n#ifdef _V1_MODEL_P4_\n hdr.h.b = 2;\n"
            "#endif\n if (__v1model_version == 20180101) { hdr.h.c = 3; }"
        )
    )
    want = bytes.fromhex("000000010000000200000003")
    assert send(Switch(compile_program(path)), bytes(12)) == [(1, want)]


PRIORITY = "                  bit<3>  priority;"


def test_a_further_field_of_standard_metadata(tmp_path):
    """It travels from ingress to egress, and begins at 0 with every packet."""
    compiled = build(
        tmp_path,
        source(
            parser="state start { packet.extract(hdr.h); hdr.h.c = (bit<32>)standard.tag;"
            " standard.tag = 9; transition accept; }",
            apply="standard.tag = standard.tag + (bit<5>)hdr.h.a; standard.late = hdr.h.a == 3;",
            egress="standard_metadata_t copy = standard; if (copy == standard)"
            " { hdr.h.b = (bit<32>)copy.tag; } if (standard.late) { hdr.h.a = 77; }",
        ),
        [(PRIORITY, PRIORITY + " bit<5> tag; bool late;")],
    )
    s = Switch(compiled)
    for _ in range(2):
        assert send(s, bytes.fromhex("000000030000000000000000")) == [
            (1, bytes.fromhex("0000004d0000000c00000000"))
        ]


def test_the_folders_of_includes_come_first(tmp_path):
    text = messages(tmp_path, source(), [("match_kind", "this is no P4; match_kind")])
    assert "include/v1model.p4" in text


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ([("bit<3>  priority;", "bit<4> priority;")], "priority must be bit<3>, not bit<4>"),
        ([(PRIORITY, PRIORITY + " bit<65> wide;")], "at most 64 bits"),
        ([(PRIORITY, PRIORITY + " tuple<bit<8>> t;")], "at most 64 bits"),
        (
            [(PRIORITY, PRIORITY + "".join(f" bit<8> x{i};" for i in range(5)))],
            "can have 4 fields beyond v1model's",
        ),
        ([("packets, bytes, packets_and_bytes", "bytes, packets")], "must begin with the members"),
    ],
)
def test_what_the_engine_needs(tmp_path, changes, message):
    assert message in messages(tmp_path, source(), changes)


def test_the_package_must_have_the_blocks_of_v1model(tmp_path):
    text = source().replace("MyUpdate(), MyDeparser()", "MyUpdate()")
    model = BUILT_IN["v1model.p4"]
    change = model[model.index("ComputeChecksum<H, M> ck,") : model.index("dep);") + len("dep);")]
    assert "six blocks" in messages(tmp_path, text, [(change, "ComputeChecksum<H, M> ck);")])


def test_errors_of_core_that_the_engine_needs(tmp_path):
    text = messages(tmp_path, source(), [("HeaderTooShort, ", "")], "core.p4")
    assert "core.p4 must declare error.HeaderTooShort" in text


@pytest.mark.parametrize("version", [20180101, 20200407, 20200408])
def test_versions(tmp_path, version):
    path = tmp_path / "program.p4"
    path.write_text(f"#define V1MODEL_VERSION {version}\n{source()}")
    compile_program(path)


@pytest.mark.parametrize("version", [0, 20180100, 20200409, 20990101])
def test_versions_that_do_not_exist(tmp_path, version):
    path = tmp_path / "program.p4"
    path.write_text(f"#define V1MODEL_VERSION {version}\n{source()}")
    with pytest.raises(P4Error, match=f"V1MODEL_VERSION is {version}"):
        compile_program(path)


def test_own_externs(tmp_path):
    path = tmp_path / "program.p4"
    for parts, wanted in [
        (
            {"top": "extern bit<32> mine(in bit<8> x);", "apply": "hdr.h.a = mine(3);"},
            ["extern function mine", "mark_to_drop", "verify_checksum"],
        ),
        (
            {"top": "extern mine { mine(); void f(); }", "locals": "mine() m;", "apply": "m.f();"},
            ["extern mine", "register", "action_selector"],
        ),
        (
            {"top": "extern void truncate(in bit<8> a, in bit<8> b);", "apply": "truncate(1, 2);"},
            ["truncate", "other parameters"],
        ),
    ]:
        path.write_text(source(**parts))
        with pytest.raises(P4Error) as caught:
            compile_program(path)
        assert all(w in str(caught.value) for w in wanted), str(caught.value)


def test_other_architectures(tmp_path):
    path = tmp_path / "program.p4"
    path.write_text(
        "#include <core.p4>\nparser proto<H>(packet_in p, out H h); control ctrl<H>(inout H h);"
        " package Board<H>(proto<H> p, ctrl<H> c); struct H { bit<8> x; }"
        " parser P(packet_in p, out H h) { state start { transition accept; } }"
        " control C(inout H h) { apply { } } Board(P(), C()) main;"
    )
    with pytest.raises(P4Error) as caught:
        compile_program(path)
    assert "architecture of package Board is not supported" in str(caught.value)
