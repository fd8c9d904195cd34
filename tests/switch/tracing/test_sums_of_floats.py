"""Partial sums of floats in traces: those of the values in the order in which they came."""

from __future__ import annotations

import re
from functools import reduce

import numpy as np
import pytest

from testbed.number_formats import FORMATS
from testbed.protocols.formats import bfloat16, float32, fpisa
from testbed.run_parts.program import prepare
from testbed.tracing import rerun
from testbed.tracing.fragments import fragment_of, offset_of
from testbed.tracing.trace_text import lines
from tests.support.experiments import memory_line, setup_of

TEXT = """
name: floats
runtime: virtual
seed: 3
topology: {kind: star, hosts: 5}
links: {bandwidth: 10 Gbit/s, delay: 5 us, jitter: 3 us}
system: {name: %s, sum: %s}
%s
values_per_packet: 32
jobs:
  - {name: a, model: alexnet, workers: 4, iterations: 1, scale: 0.0001, compute_scale: 0}
"""


def exact(words: list[np.ndarray]) -> np.ndarray:
    return np.sum([each.view(np.float32) for each in words], axis=0, dtype=float).astype(np.float32)


SUMS = {
    "float32": lambda words: reduce(float32.added, words),
    "bfloat16": lambda words: reduce(bfloat16.added, words),
    "fpisa": lambda words: fpisa.sums(words)[0],
    "bfloat16_in_float32": lambda words: reduce(float32.added, words),
    "float32_exact": lambda words: exact(words).view(np.uint32),
}


@pytest.mark.parametrize("number_format", SUMS)
@pytest.mark.parametrize("system", ["esa", "switchml"])
def test_each_step_has_the_sum_of_what_has_come_before(system, number_format):
    if FORMATS[number_format].is_wide and system == "esa":
        pytest.skip("sums of some workers leave ESA's aggregators")
    setup = setup_of(TEXT % (system, number_format, memory_line(system, 4096)))
    name = "a/0/features.6:37" if system == "esa" else "a#0"
    fragment = fragment_of(setup, name)
    offset = offset_of(setup, [name])
    assert offset == (5 if system == "esa" else 0)
    found, error = rerun.paths(setup, prepare(setup).compiled, [fragment], offset=offset)
    assert error == ""
    text = "\n".join(lines(setup, fragment, found[fragment]))
    steps = re.findall(r"s1 +gradient .*; value (\S+); sum.* (\S+)$", text, re.M)
    came = [np.array([value], np.float32).view(np.uint32) for value, _ in steps]
    assert len(came) == 4
    for count, (_, said) in enumerate(steps, 1):
        right = SUMS[number_format](came[:count]).view(np.float32)[0]
        if count == 4 and FORMATS[number_format].bits == 16:
            right = bfloat16.added(right.view(np.uint32), np.uint32(0)).view(np.float32)
        assert said == f"{right:.9g}"
