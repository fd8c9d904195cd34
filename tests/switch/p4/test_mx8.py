"""The functions of p4/mx8.p4 against numpy: a block rounded, taken apart for a packet, and made
again of what a packet has."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from p4engine.switch.library import Switch
from p4engine_testing.programs import source

from p4engine import compile_program
from testbed.number_formats import FLOAT32_EXACT
from testbed.protocols.formats import mx8
from tests.support.floats import KINDS, hard_pairs
from tests.support.paths import ROOT

pytestmark = pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
PROGRAM = source(
    top="""
#include "values.p4"
#include "adder.p4"
""",
    headers="""
header words_t {
#define WORD(n) bit<32> v##n;
    EACH_VALUE(WORD)
}
header steps_t {
#define STEPS(n) bit<8> v##n;
    EACH_VALUE(STEPS)
#define SCALE(a, b) bit<32> scale_##a; bit<32> rest_##a;
    EACH_BLOCK(SCALE)
}
struct headers_t { words_t words; words_t again; steps_t steps; }
""",
    parser="state start { packet.extract(hdr.words); transition accept; }",
    locals="""
    action round_all() {
        bit<32> scale;
        bit<32> more;
        bit<32> rest;
#define GROW(n) scale = mx8_larger(scale, hdr.words.v##n);
#define MORE(n) more = more | mx8_rounds_up(hdr.words.v##n, scale);
#define ROUND(n) hdr.words.v##n = mx8_rounded(hdr.words.v##n, scale);
#define REST(n) rest = rest | mx8_rest(hdr.words.v##n, scale);
#define APART(n) \
        hdr.steps.v##n = mx8_steps(hdr.words.v##n, scale); \
        hdr.again.v##n = mx8_number(hdr.steps.v##n, scale);
#define BLOCK(a, b) \
        scale = 0; \
        more = 0; \
        rest = 0; \
        EACH_IN_BLOCK(GROW, a, b) \
        EACH_IN_BLOCK(MORE, a, b) \
        scale = scale + more; \
        EACH_IN_BLOCK(ROUND, a, b) \
        scale = 0; \
        EACH_IN_BLOCK(GROW, a, b) \
        EACH_IN_BLOCK(REST, a, b) \
        EACH_IN_BLOCK(APART, a, b) \
        hdr.steps.scale_##a = scale; \
        hdr.steps.rest_##a = rest;
        EACH_BLOCK(BLOCK)
    }
""",
    apply="hdr.steps.setValid(); hdr.again.setValid(); round_all();",
)
VALUES = 64


@pytest.fixture(scope="module")
def rounder(tmp_path_factory):
    """(rounded words, the words made again of steps and scales, scales, bits that are lost)."""
    program = tmp_path_factory.mktemp("mx8") / "rounder.p4"
    program.write_text(PROGRAM)
    defines = {"VALUES": VALUES, "VALUE_BITS": 8, "ADDER": FLOAT32_EXACT}
    with contextlib.closing(
        Switch(compile_program(program, defines, (ROOT / "p4",)), ports=[0, 1])
    ) as switch:

        def run(words: np.ndarray) -> tuple[np.ndarray, ...]:
            switch.receive(0, words.byteswap().tobytes(), 1000)
            ((_, _, frame),) = switch.advance(1000)
            rounded, again = np.frombuffer(frame, np.uint32, 2 * VALUES).reshape(2, -1).byteswap()
            scales = np.frombuffer(frame, np.uint32, offset=9 * VALUES).byteswap()
            return rounded, again, scales[::2], scales[1::2]

        yield run


@pytest.mark.parametrize("kind", [*KINDS, "near"])
def test_blocks_in_a_switch_are_those_of_numpy(rounder, kind):
    draw = np.random.default_rng(len(kind))
    for _ in range(200):
        if kind == "near":
            fields = int(draw.choice((0, 1, 9, 100, 247))) + draw.integers(0, 8, VALUES)
            words = (fields << 23 | draw.integers(0, 2**24, VALUES) >> draw.integers(1, 9)).astype(
                np.uint32
            ) ^ (draw.integers(0, 2, VALUES).astype(np.uint32) << np.uint32(31))
            words[draw.random(VALUES) < 0.3] |= np.uint32(0x7F0000)  # rounded up to 128 steps
        else:
            words, _ = hard_pairs(draw, kind, VALUES)
        rounded, again, scales, rests = rounder(words)
        assert rounded.tolist() == mx8.quantised(words).tolist()
        for block, scale in enumerate(scales):
            part = slice(32 * block, 32 * block + 32)
            assert int(scale) == max(int(mx8.exponent_of(each)) for each in rounded[part])
            if scale != mx8.NONE:
                assert rests[block] == 0 and again[part].tolist() == rounded[part].tolist()
            else:
                assert rests[block] != 0
