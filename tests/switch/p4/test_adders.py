"""The additions of p4/adder.p4: by themselves, against numpy; and in the programs that aggregate,
against the additions in the order in which packets have come."""

from __future__ import annotations

import contextlib
import functools
import random

import numpy as np
import pytest
from p4engine.switch.library import Switch
from p4engine_testing.programs import source
from p4fabric_testing.matrix import first_of

from p4engine import compile_program
from testbed.number_formats import BFLOAT16, FLOAT32, FLOAT32_EXACT, FPISA
from testbed.protocols import sizes, wire
from testbed.protocols.formats import bfloat16, float32, fpisa
from tests.support.experiments import memory_line
from tests.support.fabric import US, run_exact
from tests.support.floats import KINDS, hard_pairs
from tests.support.paths import ROOT

VALUES = 16  # pairs in a packet
PROGRAM = source(
    top="""
#include "values.p4"
#include "adder.p4"
""",
    headers="""
header pairs_t {
#define PAIR(n) bit<32> a##n; bit<32> b##n;
    EACH_VALUE(PAIR)
}
header sums_t {
#define FIELD(n) bit<32> v##n;
    EACH_VALUE(FIELD)
}
struct headers_t { pairs_t pairs; sums_t sums; }
""",
    parser="state start { packet.extract(hdr.pairs); transition accept; }",
    locals="""
    action add() {
#define SUM(n) hdr.sums.v##n = ADD(hdr.pairs.a##n, hdr.pairs.b##n);
        EACH_VALUE(SUM)
    }
""",
    apply="hdr.sums.setValid(); add(); hdr.pairs.setInvalid();",
)


# A sum of two is exact if it is rounded once.
ADDERS = {
    FLOAT32: float32.added,
    BFLOAT16: bfloat16.added,
    FLOAT32_EXACT: float32.added,
    FPISA: lambda a, b: fpisa.sums([a, b])[0],
}


@pytest.fixture(scope="module", params=ADDERS)
def adders(request, tmp_path_factory):
    """Sums of pairs of words, by the P4 function and by numpy."""
    program = tmp_path_factory.mktemp("adder") / "adder_of_pairs.p4"
    program.write_text(PROGRAM)
    compiled = compile_program(program, {"VALUES": VALUES, "ADDER": request.param}, (ROOT / "p4",))
    with contextlib.closing(Switch(compiled, ports=[0, 1])) as switch:

        def added(a: np.ndarray, b: np.ndarray) -> np.ndarray:
            switch.receive(0, np.stack([a, b], 1).byteswap().tobytes(), 1000)
            ((_, _, frame),) = switch.advance(1000)
            return np.frombuffer(frame, np.uint32).byteswap()

        yield added, ADDERS[request.param]


@pytest.mark.parametrize("kind", KINDS)
def test_floats_in_a_switch_are_those_of_the_processor(adders, kind):
    adder, reference = adders
    draw = np.random.default_rng(len(kind))
    for _ in range(500):
        a, b = hard_pairs(draw, kind, VALUES)
        expected, found = reference(a, b), adder(a, b)
        wrong = np.flatnonzero(found != expected)
        assert wrong.size == 0, [f"{x[wrong[0]]:08x}" for x in (a, b, found, expected)]


TEXT = """
name: adders
topology: {kind: star, hosts: 6}
links: {bandwidth: 1 Gbit/s}
system: {name: %(system)s, sum: %(sum)s%(options)s}
%(memory)s
values_per_packet: 4
jobs:
  - {model: alexnet, workers: 4, iterations: 2, scale: 0.000005, compute_scale: 0}
"""
SYSTEMS = ["esa", "switchml", "ps", "atp", "a2tp", "tree", "grid"]


def one_by_one(added):
    """The sums of rows by an addition of two."""
    return lambda rows: functools.reduce(added, rows)


EVERYONE = 0b1111  # the bitmap of all workers


class Order:
    """A schedule that holds gradients up at random, and keeps in which order they come to the
    switch; and the results that leave it: by fragment."""

    def __init__(self, seed: int, sums=None, values: int = 4) -> None:
        self.draw, self.values = random.Random(seed), values
        self._sums = sums or one_by_one(float32.added)
        self.arrivals: dict[int, dict[str, tuple[int, int, np.ndarray]]] = {}  # of each host
        self.results: dict[int, set[bytes]] = {}
        self.at_server: set[int] = set()  # fragments of which a part has left the switch
        self.count = 0

    def __call__(self, now: int, node: str, frame: bytes) -> tuple[int, ...]:
        base, length = sizes.HEADER_WORDS + 1, len(frame) - sizes.FRAME_OVERHEAD
        row = np.zeros(base + self.values, np.uint32)
        row.view(np.uint8)[:length] = np.frombuffer(frame[sizes.FRAME_OVERHEAD :], np.uint8)
        wire.expand(row, length, base, self.values, wire.SHORT_FLOATS)
        words = row[base:].byteswap()
        kind, fragment = int(wire.kind(row)), int(wire.fragment(row))
        if node == "s1" and kind == wire.RESULT:
            self.results.setdefault(fragment, set()).add(words.tobytes())
        elif node == "s1" and row[sizes.HEADER_WORDS].byteswap() != EVERYONE:
            self.at_server.add(fragment)
        if not node.startswith("h") or kind != wire.GRADIENT:
            return (0,)
        delay = self.draw.randrange(40) * US
        self.count += 1
        came = self.arrivals.setdefault(fragment, {})
        came.setdefault(node, (now + delay, self.count, words))  # a copy is not added
        return (delay,)

    def sums(self, fragment: int) -> bytes:
        """The sums of a fragment, in the order of arrival."""
        came = sorted(self.arrivals[fragment].values(), key=lambda each: each[:2])
        rows = [words for *_, words in came]
        return self._sums(rows).tobytes()


def parts(system: str, number_format: str, options: str = "") -> dict[str, str]:
    return {
        "system": system,
        "sum": number_format,
        "memory": memory_line(system, 256),
        "options": options,
    }


ORDERED = {
    "float32": one_by_one(float32.added),
    "bfloat16": one_by_one(bfloat16.added),
    "fpisa": lambda rows: fpisa.sums(rows)[0],
}
CASES = [("esa", "float32"), ("ps", "bfloat16"), ("switchml", "fpisa"), ("switchml", "bfloat16")]
CASES += [(system, each) for system in SYSTEMS for each in ORDERED if (system, each) not in CASES]


@pytest.mark.parametrize("system, number_format", first_of(CASES, 4))
def test_sums_are_the_additions_in_the_order_of_arrival(system, number_format):
    sums = ORDERED[number_format]
    order = Order(3, sums)
    run_exact(TEXT, order, **parts(system, number_format))
    in_parts = set() if system == "ps" else order.at_server  # whose order is another one
    assert len(order.results) - len(in_parts) > 100
    for fragment in order.results.keys() - in_parts:
        assert order.results[fragment] == {order.sums(fragment)}, fragment
    other = Order(4, sums)
    run_exact(TEXT, other, **parts(system, number_format))
    differ = [each for each in order.results if order.results[each] != other.results[each]]
    assert len(differ) > 10
