"""Recorded gradients in each format of sums: what workers send, what they accept, and errors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from testbed.experiment import load_text
from testbed.number_formats import FORMATS
from testbed.protocols.formats import by_number, recorded_floats
from testbed.protocols.formats.float32 import word_of
from testbed.schemes import set_up
from testbed.setup.host_specs import host_specs
from tests.support.experiments import memory_line
from tests.support.recordings import write_recording
from tests.support.virtual import run_virtual

TEXT = """
name: recorded
runtime: virtual
topology: {kind: star, hosts: 5}
links: {bandwidth: 10 Gbit/s, delay: 5 us, jitter: 2 us, loss: 0.5 %%}
system: {name: %(system)s, sum: %(sum)s}
%(memory)s
values_per_packet: 32
virtual: {keep_sums: true}
jobs:
  - {name: x, model: %(model)s, workers: 4, iterations: 2, compute_scale: 0}
"""
# Largest error of a sum, over the sum of the absolute values, of values that differ by some powers
# of ten; None: packets have scales of their own.
MOST = {
    "float32": 3 * 2.0**-24,
    "float32_exact": 2.0**-24,
    "bfloat16": 4 * 2.0**-8,
    "bfloat16_in_float32": 2 * 2.0**-8,
}


def text(tmp_path, system: str, name: str) -> str:
    recording = write_recording(tmp_path / "recorded.npz", 4)
    memory = memory_line(system, 64)
    return TEXT % {"system": system, "sum": name, "memory": memory, "model": recording}


@pytest.mark.parametrize(
    "system, name",
    [
        ("switchml", "float32_exact"),
        ("ps", "mx8"),
        ("esa", "float32"),
        pytest.param("ps", "int8", marks=pytest.mark.slow),
        pytest.param("switchml", "int16", marks=pytest.mark.slow),
        pytest.param("atp", "bfloat16", marks=pytest.mark.slow),
        pytest.param("switchml", "bfloat16_in_float32", marks=pytest.mark.slow),
        pytest.param("switchml", "fpisa", marks=pytest.mark.slow),
        pytest.param("ring", "float32", marks=pytest.mark.slow),
    ],
)
def test_recorded_values_are_added_in_any_format(tmp_path, system, name):
    """A worker that receives a wrong sum ends the run."""
    tables = run_virtual(load_text(text(tmp_path, system, name)))
    (job,) = tables["jobs"]
    assert job["exact"] and job["values_checked"] == 4 * 2 * 312
    errors = pd.DataFrame(tables["sums"])["largest_error"]
    assert errors.isna().all() if (system, name) == ("switchml", "int16") else errors.notna().all()
    if name in MOST:
        assert 0 < errors.max() <= MOST[name]


@pytest.mark.parametrize("name", [name for name in FORMATS if FORMATS[name].is_float])
def test_a_worker_accepts_sums_within_the_bound_and_no_other(tmp_path, name):
    job = host_specs(set_up(load_text(text(tmp_path, "ps", name))))[0].job
    random = np.random.default_rng(1)
    gradients = random.normal(size=(4, 1, 64)).astype(np.float32)
    made = recorded_floats.of_workers(replace(job, gradients=None), 2, gradients)
    sent = np.stack([recorded_floats.numbers_sent(job, each) for each in gradients[:, 0]])
    np.testing.assert_array_equal(made.own[0], sent[2])
    row = made.sums[0].byteswap()
    sums = FORMATS[name]
    bound = by_number.bound(sums.adder, sums.numbers, 4)
    check = (0, 0, 0, 64, bound)
    assert recorded_floats.first_wrong(made, row, *check) == -1
    exact = sent.view(np.float32).sum(axis=0, dtype=np.float64)
    size = np.abs(sent.view(np.float32)).sum(axis=0, dtype=np.float64)
    for away, wrong in ((0.5, False), (2.5, True)):
        row = made.sums[0].byteswap()
        moved = np.float32(exact[5] + away * (max(bound, 0.0) + 2.0**-23) * size[5])
        row[5] = np.uint32(word_of(moved)).byteswap()
        changed = row[5] != made.sums[0].byteswap()[5]
        is_exact = bound == by_number.EXACT
        right = 5 if changed and (is_exact or wrong) else -1
        assert recorded_floats.first_wrong(made, row, *check) == right
    assert changed
