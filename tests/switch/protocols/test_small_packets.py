"""Packets without zeros and with values of 16 bits: every system's hosts and P4 program together.

Recorded gradients, mostly 0, arrive exactly as the formats say (docs/wire.md), whatever is lost,
doubled or held up, and with little memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from testbed.collective import prelude
from testbed.protocols import block_float, sizes, wire
from testbed.systems import SYSTEMS as SYSTEM_ENTRIES
from tests.support.experiments import memory_line, setup_of
from tests.support.fabric import lossy, perfect, run_setup
from tests.support.histories import cases
from tests.support.histories.history import explain, hunt
from tests.support.matrix import first_of
from tests.support.programs import BLOCK, draw, programs, sums
from tests.support.programs import text as program_text
from tests.support.recordings import SIZES, write_recording

SYSTEMS = ["esa", "atp", "switchml", "ps", "grid"]
OF_HOSTS = ["ring", "double_tree", "colocated_ps", "halving_doubling", "hierarchical"]
FORMATS = ["zeros", "short", "both"]
KINDS_OF_ZEROS = (wire.GRADIENT_ZEROS, wire.RESULT_ZEROS, wire.RESULT_ONE_ZEROS)
FAULTS = dict(loss=0.03, duplicate=0.03, reorder=0.05)
VALUES = 4  # per packet
TEXT = """
name: small-packets
topology: {kind: star, hosts: 8}
links: {bandwidth: 1 Gbit/s}
system: {name: %(system)s, zeros: %(zeros)s}
%(memory)s
values_per_packet: 4
value_bits: %(bits)d
jobs:
  - {model: %(model)s, workers: 3, iterations: 3, compute_scale: 0}
  - {model: %(model)s, workers: 3, iterations: 3, compute_scale: 0, start: 20 us}
"""


def pairs(systems: list[str], count: int) -> list:
    """Of each system with each format that it has, the first `count` always."""
    every = [(system, form) for form in FORMATS for system in systems]
    usual = [("esa", "both"), ("switchml", "both"), ("atp", "short")]
    every.sort(key=lambda pair: pair not in usual)
    return first_of(every, count)


def settings(form: str) -> dict[str, object]:
    return {
        "zeros": "sent" if form in ("short", "full") else "header_only",
        "bits": 32 if form in ("zeros", "full") else 16,
    }


def sparse(rank: int, step: int, bucket: int) -> np.ndarray:
    """Fragments of which each rank has values in a third, and all ranks none in another third."""
    size = SIZES[bucket]
    fragments = -(-size // VALUES)
    random = np.random.default_rng((rank, step, bucket))
    shared = np.random.default_rng((step, bucket)).random(fragments) < 1 / 3
    zeros = shared | (random.random(fragments) < 1 / 2)
    values = random.normal(size=size) * 10.0 ** random.integers(-3, 3, size)
    return np.where(np.repeat(zeros, VALUES)[:size], 0, values).astype(np.float32)


@pytest.fixture(scope="module")
def recording(tmp_path_factory) -> Path:
    return write_recording(tmp_path_factory.mktemp("sparse") / "sparse.npz", 3, values=sparse)


def run(model, system, schedule, form, aggregators=6):
    memory = memory_line(system, aggregators)
    parts = {"system": system, "memory": memory, "model": model, **settings(form)}
    return run_setup(setup_of(TEXT % parts), schedule)


class Watch:
    """A schedule that counts what passes: packets by kind, short ones, and bytes."""

    def __init__(self, schedule) -> None:
        self.schedule = schedule
        self.kinds: dict[int, int] = {}
        self.short = 0
        self.bytes = 0

    def __call__(self, now, node, frame):
        kind = frame[sizes.FRAME_OVERHEAD] & 0xF
        self.kinds[kind] = self.kinds.get(kind, 0) + 1
        self.short += frame[sizes.FRAME_OVERHEAD + 2] & wire.SHORT >> 8
        self.bytes += len(frame)
        return self.schedule(now, node, frame)

    @property
    def zeros(self) -> int:
        return sum(self.kinds.get(kind, 0) for kind in KINDS_OF_ZEROS)


@pytest.mark.parametrize("system, form", pairs(SYSTEMS, 3))
def test_faults_on_every_wire_and_little_memory(recording, system, form):
    watch = Watch(lossy(1, **FAULTS))
    run(recording, system, watch, form)
    assert watch.kinds[wire.GRADIENT] > 100 < watch.kinds[wire.RESULT]
    assert (watch.zeros > 200) == (form != "short")
    assert (watch.short > 200) == (form != "zeros")


@pytest.mark.parametrize("system", first_of(SYSTEMS, 1))
def test_generated_values_fit_16_bits(system):
    watch = Watch(lossy(1, **FAULTS))
    run(cases.TINY, system, watch, "short")
    assert watch.short == watch.kinds[wire.GRADIENT] + watch.kinds[wire.RESULT] + (
        watch.kinds.get(wire.RESULT_ONE, 0)
    )


@pytest.mark.parametrize(
    "system, form", pairs([each for each in SYSTEMS if each not in ("atp", "grid")], 1)
)
def test_the_same_packets_pass_and_some_are_shorter(recording, system, form):
    """On wires that lose nothing, without collisions."""
    full, small = Watch(perfect), Watch(perfect)
    run(recording, system, full, "full", aggregators=512)
    run(recording, system, small, form, aggregators=512)
    assert (small.zeros > 100) == (form != "short") and (small.short > 100) == (form != "zeros")
    assert sum(full.kinds.values()) == sum(small.kinds.values())
    assert full.bytes - small.bytes == 4 * VALUES * small.zeros + 2 * VALUES * small.short


@pytest.mark.parametrize("system", first_of(OF_HOSTS, 1))
def test_hosts_that_add_leave_out_zeros(recording, system):
    """A sum of nothing but zeros is a header. (All of these packets are of kind `control`.)"""
    full, small = Watch(perfect), Watch(perfect)
    run(recording, system, full, "full")
    run(recording, system, small, "zeros")
    assert set(full.kinds) == set(small.kinds) == {wire.CONTROL}
    assert small.bytes < full.bytes - 4 * VALUES * 100
    run(recording, system, lossy(1, **FAULTS), "zeros")


HISTORIES = [
    *((system, "deep") for system in ("esa", "switchml", "atp", "grid")),
    *((system, "star") for system in cases.SYSTEMS),
]


@pytest.mark.parametrize("system, network", first_of(HISTORIES, 1))
def test_histories(recording, system, network):
    for number in range(1 if (system, network) == HISTORIES[0] else 3):
        text = cases.drawn(system, number, network).replace(
            "{name: ", "{zeros: header_only, name: "
        )
        text = text.replace(f"{{model: {cases.TINY},", f"{{model: {recording}, compute_scale: 0,")
        assert "zeros: header_only" in text and str(recording) in text
        text += "" if SYSTEM_ENTRIES[system].algorithm else "value_bits: 16\n"
        run = cases.run_of_text(text)
        found = hunt(run, range(4 * number, 4 * number + 4))
        assert found is None, text + explain(run, found)


def program(system: str, form: str, watch: Watch, numbers: str = "exponents") -> list:
    chosen = settings(form)
    text = program_text(system, options=f", zeros: {chosen['zeros']}", keys=f", numbers: {numbers}")
    return programs(f"{text}value_bits: {chosen['bits']}\n", watch)[1]


def sparse_arrays(seed: int, dtype: type) -> list[np.ndarray]:
    """Of four ranks: whole numbers, of which all have 0 from 100 to 1500, and more near the end."""
    arrays = [np.rint(array.clip(-500, 500)) for array in draw(seed, 2000, dtype)]
    for rank, array in enumerate(arrays):
        array[100:1500] = 0
        array[1500 + 50 * rank :] = 0
    return [array.astype(dtype) for array in arrays]


@pytest.mark.parametrize("system", first_of(SYSTEMS, 1))
def test_sums_of_programs_without_zeros(system):
    watch = Watch(lossy(2, **FAULTS))
    jobs = program(system, "zeros", watch, "fixed" if system == "atp" else "exponents")
    for seed, dtype in enumerate((np.int32, np.float32)):
        arrays = sparse_arrays(seed, dtype)
        if system == "atp" and dtype == np.float32:
            arrays[0][40] = np.inf  # its fragment goes as float32, also from ranks with zeros
            arrays[1][32:48] = 0
        for found in sums(jobs, arrays):
            np.testing.assert_array_equal(found, np.sum(arrays, axis=0, dtype=dtype))
    assert watch.zeros > 200


@pytest.mark.parametrize(
    "system, form",
    first_of([(system, form) for form in ("both", "short") for system in SYSTEMS], 1),
)
def test_sums_of_programs_with_16_bits(system, form):
    watch = Watch(lossy(2, **FAULTS))
    jobs = program(system, form, watch)
    whole = sparse_arrays(0, np.int32)  # and others that need all their bits
    whole = [np.concatenate([a, b]) for a, b in zip(whole, draw(1, 100, np.int32), strict=True)]
    for found in sums(jobs, whole):
        np.testing.assert_array_equal(found, np.sum(whole, axis=0, dtype=np.int32))
    arrays = draw(3, 3 * BLOCK + 5)
    arrays[2][BLOCK + 7] = np.nan
    exact = np.sum(arrays, axis=0, dtype=np.float64)
    found = sums(jobs, arrays)
    for other in found:
        np.testing.assert_array_equal(other, found[0])
    for start in range(0, exact.size, BLOCK):
        block = slice(start, start + BLOCK)
        level = max(prelude.levels_of(array[block], BLOCK)[0][0] for array in arrays)
        bound = block_float.short_error_bound(prelude.exponent_of(int(level)), 4)
        if start == BLOCK:
            assert np.isnan(found[0][BLOCK + 7])
            bound = prelude.error_bound(4, 2.0 ** (prelude.exponent_of(int(level)) - 0.5), True)
        ok = np.abs(found[0][block] - exact[block]) <= bound + np.abs(exact[block]) * 2.0**-24
        assert (ok | np.isnan(exact[block])).all()
    mean = sums(jobs, arrays[:4], mean=True)[1]
    np.testing.assert_allclose(mean, found[1] / np.float32(4), rtol=1e-6)
    assert watch.short > 200 and (watch.zeros > 200) == (form == "both")
