"""Recorded gradients that are mostly 0, with and without packets of zeros: every system's hosts and
P4 program together, every value exact, whatever is lost, doubled or held up."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from testbed.protocols import sizes, wire
from tests.support.experiments import experiment
from tests.support.fabric import lossy, perfect, run_experiment
from tests.support.histories import cases
from tests.support.histories.history import explain, hunt
from tests.support.matrix import first_of
from tests.support.programs import draw, programs, sums
from tests.support.programs import text as program_text
from tests.support.recordings import SIZES, write_recording

HISTORIES = [
    *((system, "deep") for system in ("esa", "switchml", "atp", "grid")),
    *((system, "star") for system in cases.SYSTEMS),
]
SYSTEMS = ["esa", "atp", "switchml", "ps", "grid", "ring"]
FAULTS = dict(loss=0.03, duplicate=0.03, reorder=0.05)
VALUES = 4  # per packet
TEXT = """
name: zeros
topology: {kind: star, hosts: 8}
links: {bandwidth: 1 Gbit/s}
system: {name: %(system)s, zeros: %(zeros)s%(options)s}
%(memory)s
values_per_packet: 4
jobs:
  - {model: %(model)s, workers: 3, iterations: 3, compute_scale: 0}
  - {model: %(model)s, workers: 3, iterations: 3, compute_scale: 0, start: 20 us}
"""


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
    return write_recording(tmp_path_factory.mktemp("zeros") / "sparse.npz", 3, values=sparse)


def run(recording, system, schedule, zeros="header_only", aggregators=6, options=""):
    memory = "" if system in ("ps", "ring") else f"memory: {{aggregators: {aggregators}}}"
    parts = {"system": system, "zeros": zeros, "options": options, "memory": memory}
    return run_experiment(experiment(TEXT % (parts | {"model": recording})), schedule)


class Watch:
    """A schedule that counts what passes: packets by kind, and bytes."""

    def __init__(self, schedule) -> None:
        self.schedule = schedule
        self.kinds: dict[int, int] = {}
        self.bytes = 0

    def __call__(self, now, node, frame):
        kind = frame[sizes.FRAME_OVERHEAD] & 0xF
        self.kinds[kind] = self.kinds.get(kind, 0) + 1
        self.bytes += len(frame)
        return self.schedule(now, node, frame)


@pytest.mark.parametrize("system", first_of(SYSTEMS, 3))
def test_faults_on_every_wire_and_little_memory(recording, system):
    watch = Watch(lossy(1, **FAULTS))
    run(recording, system, watch)
    assert watch.kinds[wire.GRADIENT_ZEROS] > 100 < watch.kinds[wire.RESULT_ZEROS]
    assert watch.kinds[wire.GRADIENT] > 100 < watch.kinds[wire.RESULT]


@pytest.mark.parametrize("system", first_of([each for each in SYSTEMS if each != "atp"], 1))
def test_what_is_zero_on_all_workers_costs_headers_only(recording, system):
    """On wires that lose nothing the same packets pass, some of them without their values. (ATP's
    indices collide at first, and who comes first depends on the time.)"""
    with_values, without = Watch(perfect), Watch(perfect)
    run(recording, system, with_values, zeros="sent", aggregators=512)
    run(recording, system, without, aggregators=512)
    shorter = sum(without.kinds.get(kind, 0) for kind in range(wire.GRADIENT_ZEROS, 12))
    assert shorter > 100
    assert sum(with_values.kinds.values()) == sum(without.kinds.values())
    assert with_values.bytes - without.bytes == 4 * VALUES * shorter


@pytest.mark.parametrize("system, network", first_of(HISTORIES, 1))
def test_histories(recording, system, network):
    for number in range(1 if (system, network) == HISTORIES[0] else 3):
        text = cases.drawn(system, number, network).replace(
            "{name: ", "{zeros: header_only, name: "
        )
        text = text.replace(f"{{model: {cases.TINY},", f"{{model: {recording}, compute_scale: 0,")
        assert "zeros: header_only" in text and str(recording) in text
        run = cases.run_of_text(text)
        found = hunt(run, range(4 * number, 4 * number + 4))
        assert found is None, text + explain(run, found)


@pytest.mark.parametrize("system", first_of(SYSTEMS, 1))
def test_sums_of_programs(system):
    keys = ", numbers: fixed" if system == "atp" else ""
    watch = Watch(lossy(2, **FAULTS))
    _, jobs = programs(program_text(system, options=", zeros: header_only", keys=keys), watch)
    for seed, dtype in enumerate((np.int32, np.float32)):
        arrays = [np.rint(array.clip(-500, 500)) for array in draw(seed, 2000, dtype)]
        for rank, array in enumerate(arrays):
            array[100:1500] = 0
            array[1500 + 50 * rank :] = 0
        if system == "atp" and dtype == np.float32:
            arrays[0][40] = np.inf  # its fragment goes as float32, also from ranks with zeros
            arrays[1][32:48] = 0
        arrays = [array.astype(dtype) for array in arrays]
        for found in sums(jobs, arrays):
            np.testing.assert_array_equal(found, np.sum(arrays, axis=0, dtype=dtype))
    for job in jobs:
        job.barrier_async()
    assert watch.kinds[wire.GRADIENT_ZEROS] > 100 < watch.kinds[wire.RESULT_ZEROS]
