"""Operators against Python's integers, over widths on both sides of every C type."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from p4engine_testing.programs import send, switch

WIDTHS = [1, 3, 8, 13, 16, 24, 31, 32, 33, 48, 63, 64, 65, 100, 127, 128, 129, 192, 200, 256]
SIZE = 32  # bytes of each operand on the wire


def _wrap(value: int, width: int, signed: bool) -> int:
    value &= (1 << width) - 1
    return value - (1 << width) if signed and value >> (width - 1) else value


# (a, b, n, the least and the greatest value) -> the result, which is then cut to the width.
OPS: dict[str, Callable[[int, int, int, int, int], int]] = {
    "a + b": lambda a, b, n, low, high: a + b,
    "a - b": lambda a, b, n, low, high: a - b,
    "a * b": lambda a, b, n, low, high: a * b,
    "a & b": lambda a, b, n, low, high: a & b,
    "a | b": lambda a, b, n, low, high: a | b,
    "a ^ b": lambda a, b, n, low, high: a ^ b,
    "~a": lambda a, b, n, low, high: ~a,
    "-a": lambda a, b, n, low, high: -a,
    "a |+| b": lambda a, b, n, low, high: max(low, min(high, a + b)),
    "a |-| b": lambda a, b, n, low, high: max(low, min(high, a - b)),
    "a << n": lambda a, b, n, low, high: a << n,
    "a >> n": lambda a, b, n, low, high: a >> n,
    "a < b ? a : b": lambda a, b, n, low, high: min(a, b),
    "a >= b ? a : b": lambda a, b, n, low, high: max(a, b),
    "a == b ? a : b": lambda a, b, n, low, high: b,
}


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("width", WIDTHS)
def test_operators(tmp_path, width, signed):
    kind = f"{'int' if signed else 'bit'}<{width}>"
    results = " ".join(f"bit<256> r{i};" for i in range(len(OPS)))
    text = " ".join(f"hdr.r.r{i} = (bit<256>) (bit<{width}>) ({op});" for i, op in enumerate(OPS))
    s = switch(
        tmp_path,
        headers=f"header h_t {{ bit<256> a; bit<256> b; bit<16> n; }} header r_t {{ {results} }}"
        " struct headers_t { h_t h; r_t r; }",
        apply=f"{kind} a = ({kind}) (bit<{width}>) hdr.h.a; {kind} b = ({kind}) (bit<{width}>)"
        f" hdr.h.b;"
        f" bit<16> n = hdr.h.n; hdr.r.setValid(); {text}",
        deparser="packet.emit(hdr.r);",
    )
    ones = (1 << width) - 1
    low, high = (-(ones // 2) - 1, ones // 2) if signed else (0, ones)
    rng = random.Random(width)
    edge = [0, 1, ones, 1 << (width - 1), (1 << (width - 1)) - 1]
    cases = [(x, y, n) for x in edge for y in edge for n in (0, 1, width - 1, width, 300)]
    cases += [
        (rng.getrandbits(width), rng.getrandbits(width), rng.randrange(width + 2))
        for _ in range(30)
    ]
    for x, y, n in cases:
        packet = x.to_bytes(SIZE, "big") + y.to_bytes(SIZE, "big") + n.to_bytes(2, "big")
        [(_, out)] = send(s, packet)
        a, b = _wrap(x, width, signed), _wrap(y, width, signed)
        for i, (op, result) in enumerate(OPS.items()):
            got = int.from_bytes(out[SIZE * i : SIZE * (i + 1)], "big")
            want = result(a, b, n, low, high) & ones
            assert got == want, f"{kind}: {op} with a={a} b={b} n={n}"
