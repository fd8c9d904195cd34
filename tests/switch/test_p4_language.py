"""Many small programs over the whole language and v1model, packets in and packets out.

The programs and packets are in tests/data/p4_language.txt, so that a new case is a few lines of
P4 and hexadecimal digits.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.switch.p4 import send, switch

CASES = Path(__file__).parent.parent / "data" / "p4_language.txt"


def cases() -> list:
    """pytest parameters (parts of the program, [(packet, [(port, bytes)])])."""
    result = []
    for block in CASES.read_text().split("\n== ")[1:]:
        name, *lines = block.splitlines()
        parts: dict[str, list[str]] = {}
        packets: list[tuple[bytes, list]] = []
        current: list[str] = []
        for line in lines:
            if line.startswith("> ") or line == ">":
                packets.append((bytes.fromhex(line[1:]), []))
            elif line.startswith("< "):
                _, port, *data = line.split(" ")
                packets[-1][1].append((int(port), bytes.fromhex("".join(data))))
            elif line.startswith("    "):
                current.append(line[4:])
            elif line:
                current = parts.setdefault(line.rstrip(":"), [])
        made = {part: "\n".join(text) for part, text in parts.items()}
        result.append(pytest.param(made, packets, id=name))
    return result


@pytest.mark.parametrize(("parts", "packets"), cases())
def test_case(tmp_path, monkeypatch, parts, packets):
    monkeypatch.setenv("P4ENGINE_CFLAGS", "-O0")
    s = switch(tmp_path, **parts)
    for data, want in packets:
        assert sorted(send(s, data)) == want, data.hex()


def test_generic_blocks_need_their_types(tmp_path):
    s = switch(
        tmp_path,
        top="header h_t { bit<32> a; bit<32> b; bit<32> c; } struct headers_t { h_t h; }"
        " control Swap<T>(inout T x, inout T y) { apply { T z = x; x = y; y = z; } }",
        headers="",
        locals="Swap<bit<32>>() wide; Swap<bit<8>>() narrow;",
        apply="wide.apply(hdr.h.a, hdr.h.b); narrow.apply(hdr.h.c[31:24], hdr.h.c[7:0]);",
    )
    assert send(s, bytes(range(12))) == [(1, bytes([4, 5, 6, 7, 0, 1, 2, 3, 11, 9, 10, 8]))]
