"""The packet is declared three times (P4, hosts, scapy) and described once: all must agree."""

from __future__ import annotations

import re

import numpy as np
import pytest
from p4engine.frontend.diagnostics import Diagnostics
from p4engine.frontend.preprocessor import preprocess as preprocessor

from p4engine import compile_program
from testbed import dissect
from testbed.protocols import sizes, wire
from tests.support.paths import ROOT

PROGRAMS = sorted(
    path for path in (ROOT / "p4").glob("*.p4") if "V1Switch(" in path.read_text("utf-8")
)


def scapy_fields() -> list[tuple[str, int]]:
    return [
        (field.name.removesuffix("_number"), round(field.sz * 8) or getattr(field, "size", 0))
        for field in dissect.Ina.fields_desc
        if field.name not in ("wanted", "bitmap", "values")
    ]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_p4_and_scapy_declare_the_same_fields(program):
    headers = {h.name: h for h in compile_program(program).info.headers}
    declared = [(f.name, f.width) for f in headers["ina"].fields]
    assert [name for name, _ in declared] == [name for name, _ in scapy_fields()]
    assert sum(width for _, width in declared) == 32 * wire.HEADER_WORDS
    offset = 0
    for (name, width), field in zip(declared, dissect.Ina.fields_desc, strict=False):
        assert getattr(field, "size", round(field.sz * 8)) in (width, 0), name
        offset += width


def test_hosts_write_what_scapy_reads():
    row = np.zeros(sizes.packet_words(2, 32), np.uint32)
    wire.write_header(row, wire.REMINDER, 7, wire.ECN, 513, 9, 123456, 654321, 3)
    wire.set_worker(row, 1, 5)
    row[-2:] = np.array([1, -2], ">i4").view(np.uint32)
    packet = dissect.Ina(row.tobytes())
    read = {name: packet.getfieldval(name) for name in packet.fields if name != "flags"}
    assert read == {
        "version": 1,
        "kind": wire.REMINDER,
        "priority": 7,
        "job": 513,
        "node": 9,
        "fragment_number": 123456,
        "index": 654321,
        "extra": 0,
        "sender": 3,
        "exponent": 0,
        "next_exponent": 0,
        "bitmap": 1 << 5,
        "values": [1, -2],
    }
    assert packet.flags == "ecn"


@pytest.mark.parametrize("prefix", ["KIND_", "FLAG_"])
def test_constants_are_the_same_everywhere(prefix):
    tokens, _ = preprocessor.preprocess(ROOT / "p4" / "forward.p4", {}, (), Diagnostics())
    source = " ".join(token.text for token in tokens)
    in_p4 = {
        name: int(value, 0)
        for name, value in re.findall(rf"{prefix}(\w+)\s*=\s*(0x[0-9a-fA-F]+|\d+)\s*;", source)
    }
    assert in_p4 and in_p4 == {name: getattr(wire, name) for name in in_p4}
    page = (ROOT / "docs" / "wire.md").read_text("utf-8")
    for name, value in in_p4.items():
        shown = f"0x{value:04x}" if prefix == "FLAG_" else str(value)
        assert f"| {shown} | {name.lower()} |" in page


def test_the_page_lists_every_field():
    page = (ROOT / "docs" / "wire.md").read_text("utf-8")
    rows = re.findall(r"^\| (\d+) \| (\w+) \| (\d+)", page, re.MULTILINE)
    described = [(name, int(width)) for _, name, width in rows if name != "values"][:-1]
    assert [name for name, _ in described] == [name for name, _ in scapy_fields()]
    offset = 0
    for (start, name, width), _ in zip(rows, described, strict=False):
        assert int(start) == offset // 8, name
        offset += int(width)
