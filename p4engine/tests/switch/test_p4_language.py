"""Many small programs over the whole language and v1model, packets in and packets out.

They are in p4engine_testing/data/p4_language.txt and p4_specification.txt.
"""

from __future__ import annotations

import pytest
from p4engine_testing.language import cases
from p4engine_testing.programs import send, switch


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in cases()])
def test_case(tmp_path, monkeypatch, case):
    monkeypatch.setenv("P4ENGINE_CFLAGS", "-O0")
    s = switch(tmp_path, **case.parts)
    for data, want in case.packets:
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
