"""`p4engine compile --warn-index`: which indices a packet can take out of their array."""

from __future__ import annotations

import re
from random import Random
from struct import unpack

import pytest
from p4engine.cli.main import main
from p4engine.indices.bounds import index_warnings
from p4engine.switch.library import Switch
from p4engine_testing.programs import send, source, words

from p4engine import compile_program

ARRAYS = (
    "register<bit<32>>(16) r; register<bit<8>>(16) q; register<bit<32>>(16) kept;"
    " counter(512, CounterType.packets) c; meter(3, MeterType.packets) m; bit<32> i = hdr.h.a;"
    " bit<32> x = 0; bit<2> color;"
)
TABLE = (
    "action set(bit<32> base, bit<32> mask, bit<32> size) {"
    " x = base + (hdr.h.a & mask); i = size; } action none() { }"
    " table t { key = { hdr.h.b: exact; hdr.h.c: ternary; }"
    " actions = { set; none; } default_action = none(); } "
)
FUNCTION = "void put(register<bit<32>> a, in bit<32> at) { a.write(at, 1); }"

# Programs of which no packet can make an index too large ...
RIGHT = [
    "r.write(15, 1);",
    "r.write(i & 15, 1); r.write(i % 16, 1); r.write(i >> 28, 1); r.write((bit<32>) i[7:4], 1);",
    "r.write((bit<32>) (i[1:0] ++ i[9:8]), 1); r.write((i & 7) + 8, 1); r.write((i & 1) * 15, 1);",
    "r.write(i & 3 | (i & 3) << 2, 1); r.write((i & 12) ^ 3, 1); r.write((i |-| 5) & 15, 1);",
    "c.count((bit<32>) standard.ingress_port);",
    "if (i < 16) { r.write(i, 1); }",
    "if (i >= 16) { return; } r.write(i, 1);",
    "if (15 >= i && hdr.h.b == 1) { i = i - 0; r.write(i, 1); }",
    "if (!(i > 15 || hdr.h.b == 1)) { bit<32> j = i; r.write(j, 1); }",
    "if (i > 15) { i = 15; } r.write(i, 1);",
    "i = i < 16 ? i : 0; r.write(i, 1);",
    "if (i >= 16 && i < 32) { r.write(i - 16, 1); }",
    "x = i & 31; if (x >= 16) { x = x - 16; } r.write(x, 1);",
    "if (i == 3 || hdr.h.c == 0) { if (i == 3) { r.write(i, 1); } }",
    "if ((bit<32>) i[15:0] < 16) { r.write((bit<32>) i[15:0], 1); }",
    # A variable remembers a comparison.
    "bit<1> ok = 0; if (i < 16) { ok = 1; } if (ok == 1) { r.write(i, 1); }",
    "bit<1> ok = 1; if (i > 15) { ok = 0; } else if (hdr.h.b == 1) { ok = 0; }"
    " if (ok == 1) { r.write(i, 1); }",
    # Functions, and registers as parameters.
    "if (i < 16) { put(r, i); }",
    # v1model's functions, and a meter's colour.
    "hash(x, HashAlgorithm.crc32, 32w4, { hdr.h.b }, 32w12); r.write(x, 1);",
    "random(x, 32w3, 32w15); r.write(x, 1);",
    "m.execute_meter(2, color); r.write((bit<32>) color, 1);",
    # What packets write into a register is as small as they make it.
    "kept.write(0, i & 15); kept.read(x, 1); r.write(x, 1);",
    "bit<32> n; kept.read(n, 0); kept.write(0, n > 14 ? 0 : n + 1); r.write(n & 15, 1);",
    # What the control plane chooses: data, a mask, a limit, an exact key, a register.
    "if (t.apply().hit) { r.write(x, 1); }",
    "if (t.apply().hit) { r.write(hdr.h.b, 1); }",
    "switch (t.apply().action_run) { set: { if (hdr.h.c < i) { r.write(hdr.h.c, 1); } } }",
    "kept.read(x, 0); r.write(x, 1); if (i < x) { r.write(i, 1); }",
    "if (t.apply().hit) { i = x + i; x = i - x; r.write(x, 1); }",
    # No packet comes there.
    "if (i == 1) { if (i == 2) { r.write(hdr.h.b, 1); } }",
    "for (bit<32> k in 0 .. 15) { r.write(k, 1); }",
]
# ... and of which it can, with the largest index.
WRONG = [
    ("r.write(i, 1);", 0xFFFFFFFF),
    ("r.write(16, 1);", 16),
    ("r.write(i & 16, 1);", 16),
    ("r.write((bit<32>) i[4:0], 1);", 31),
    ("r.write((i & 15) + 1, 1);", 16),
    ("r.write((i & 15) - 1, 1);", 0xFFFFFFFF),
    ("r.write((i & 15) << 1, 1);", 30),
    ("r.write((bit<32>) (int<32>) (int<8>) i[7:0], 1);", 0xFFFFFFFF),
    ("m.execute_meter((bit<32>) i[1:0], color);", 3),
    ("c.count((bit<32>) standard.packet_length[9:0]);", 1023),
    ("if (i <= 16) { r.write(i, 1); }", 16),
    ("if (i < 16) { r.write(hdr.h.b, 1); }", 0xFFFFFFFF),
    ("if (i < 16) { i = hdr.h.b; r.write(i, 1); }", 0xFFFFFFFF),
    ("if (i < hdr.h.b) { r.write(i, 1); }", 0xFFFFFFFE),
    ("if ((int<8>) i[7:0] < 16) { r.write((bit<32>) i[7:0], 1); }", 255),
    ("if (i < 16 || hdr.h.b == 1) { r.write(i, 1); }", 0xFFFFFFFF),
    ("if (i < 16) { r.write(i, 1); } else { q.write(i, 1); }", 0xFFFFFFFF),
    ("bit<1> ok = 1; if (i > 15) { ok = 0; } if (ok == 0) { r.write(i, 1); }", 0xFFFFFFFF),
    ("if (hdr.h.b == 1) { i = i & 15; } else { i = i & 63; } r.write(i, 1);", 63),
    ("put(r, i & 31);", 31),
    ("hash(x, HashAlgorithm.crc32, 32w4, { hdr.h.b }, 32w13); r.write(x, 1);", 16),
    ("random(x, 32w3, 32w16); r.write(x, 1);", 16),
    ("kept.write(0, i & 63); kept.read(x, 1); r.write(x, 1);", 63),
    ("bit<32> n; kept.read(n, 0); kept.write(0, n + 1); r.write(n, 1);", 0xFFFFFFFF),
    # Of a table's key only what an exact one has matched, and only where it has.
    ("t.apply(); r.write(hdr.h.b, 1);", 0xFFFFFFFF),
    ("if (!t.apply().hit) { r.write(hdr.h.b, 1); }", 0xFFFFFFFF),
    ("if (t.apply().hit) { r.write(hdr.h.c, 1); }", 0xFFFFFFFF),
    ("if (t.apply().hit) { r.write(x * (hdr.h.c & 1), 1); }", 0xFFFFFFFF),
    ("if (t.apply().hit) { r.write((hdr.h.a & 1) - x, 1); }", 0xFFFFFFFF),
]


STACK = {
    "headers": "header h_t { bit<32> a; bit<32> b; bit<32> c; } header s_t { bit<8> v; }"
    " struct headers_t { h_t h; s_t[4] s; }",
    "apply": "bit<8> v = hdr.s[i].v; if (i < 4) { hdr.s[i].v = v; }",
}


@pytest.fixture
def warnings(tmp_path):
    """The warnings of a program whose ingress does this."""

    def run(apply, **parts):
        path = tmp_path / "program.p4"
        text = source(top=FUNCTION, locals=ARRAYS + TABLE, apply=f"\n{apply}\n", **parts)
        path.write_text(text)
        return index_warnings(path)

    return run


@pytest.mark.parametrize("apply", RIGHT)
def test_no_packet_takes_it_out_of_its_array(warnings, apply):
    assert [str(w) for w in warnings(apply)] == []


@pytest.mark.parametrize(("apply", "largest"), WRONG)
def test_a_packet_takes_it_out_of_its_array(warnings, apply, largest):
    (found,) = warnings(apply)
    assert f"make this index {largest}," in found.message


def test_a_header_stack(warnings):
    (found,) = warnings(**STACK)
    assert "the last element of the header stack is 3" in found.message


def test_the_command_names_the_place(tmp_path, capsys):
    path = tmp_path / "program.p4"
    apply = "\n r.write(\n   hdr.h.a + 1, 1);\n r.write(hdr.h.a & 15, 1);"
    path.write_text(source(locals="register<bit<32>>(16) r;", apply=apply))
    assert main(["compile", str(path)]) == 0 and not capsys.readouterr().err
    assert main(["compile", str(path), "--warn-index"]) == 0
    line, text, mark = capsys.readouterr().err.rstrip("\n").split("\n")
    assert line.startswith(f"{path}:15:12: warning: a packet can make this index 4294967295,")
    assert text.strip() == "hdr.h.a + 1, 1);" and mark.index("^") == text.index("+")


def test_a_loop_that_is_not_followed_is_told(warnings):
    (found,) = warnings("for (bit<32> k = 0; k < hdr.h.b; k = k + 1) { r.write(k, 1); }")
    assert "the indices in a loop" in found.message


# ---- against the switch ----


def expression(random, depth):
    """A random expression of 32 bits."""
    if depth == 0:
        return random.choice(
            ("hdr.h.a", "hdr.h.b", "x", "y", f"32w{random.choice((0, 1, 7, 255))}")
        )
    inner = [f"({expression(random, depth - 1)})" for _ in range(4)]
    number, (high, low) = random.randrange(1, 9), sorted(random.sample(range(32), 2), reverse=True)
    op = random.choice(("+", "-", "*", "&", "|", "^", "|+|", "|-|", "&", "-"))
    compared = f"{inner[0]} {random.choice(('<', '<=', '>', '>=', '==', '!='))} {inner[1]}"
    return random.choice(
        (
            f"{inner[0]} {op} {inner[1]}",
            f"{inner[0]} {random.choice(('<<', '>>', '%', '&'))} {number}",
            f"(bit<32>) {inner[0]}[{high}:{low}]",
            f"(bit<32>) ({inner[0]}[{number}:0] ++ {inner[1]}[7:{number - 1}])",
            f"(bit<32>) (int<32>) (int<8>) {inner[0]}[7:0]",
            f"{compared} ? {inner[0]} : {inner[2]}",
            f"{compared} && {inner[0]} < {number} ? {inner[0]} - {inner[1]} : {inner[1]}",
        )
    )


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, 30))]
)
def test_no_packet_makes_an_index_larger(tmp_path, seed):
    """Random indices, and the largest values that the pass gives, hold for random packets."""
    random, count = Random(seed), 40
    registers = [f"register<bit<8>>(1) r{n};" for n in range(count)]
    lines = [
        f"x = {expression(random, 1)}; y = hdr.h.b; if (hdr.h.a >= {random.choice(('x', 9))}) {{"
        f" y = {expression(random, 1)}; }} x = {expression(random, 2)};"
        f" r{n}.write(x, 1); hdr.o.v{n} = x;"
        for n in range(count)
    ]
    fields = " ".join(f"bit<32> v{n};" for n in range(count))
    path = tmp_path / "program.p4"
    path.write_text(
        source(
            headers="header h_t { bit<32> a; bit<32> b; } struct headers_t { h_t h; out_t o; }",
            top=f"header out_t {{ {fields} }}",
            locals=f"{' '.join(registers)} bit<32> x = 0; bit<32> y;",
            apply="hdr.o.setValid();\n" + "\n".join(lines),
        )
    )
    said = [re.search(r"index (\d+), .* register r(\d+) ", w.message) for w in index_warnings(path)]
    largest = [0] * count
    for match in said:
        largest[int(match[2])] = int(match[1])
    assert min(largest) < 256 and max(largest) == 2**32 - 1  # it knows something, and not all
    s = Switch(compile_program(path))
    values = (0, 1, 6, 7, 8, 254, 255, 256, 2**31, 2**32 - 1)
    for _ in range(400):
        sent = [random.choice((*values, random.getrandbits(32), random.getrandbits(4)))] * 2
        sent[1] = random.choice((sent[0], random.choice(values), random.getrandbits(32)))
        ((_, data),) = send(s, words(*sent))
        found = unpack(f">{count}I", data[8:])
        over = [
            (n, v, most) for n, (v, most) in enumerate(zip(found, largest, strict=True)) if v > most
        ]
        assert not over, [(lines[n], value, most, sent) for n, value, most in over]
