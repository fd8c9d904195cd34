"""Sums that workers keep (`virtual.keep_sums`), and the bits in which two runs differ."""

from __future__ import annotations

from functools import reduce

import numpy as np
import pandas as pd
import pytest
from p4fabric_testing.matrix import first_of

from testbed.analysis.data.sum_data import (
    Difference,
    between_runs,
    between_workers,
    difference,
    not_alike,
)
from testbed.experiment import load_text
from testbed.number_formats import FORMATS
from testbed.protocols import values
from testbed.protocols.formats import bfloat16, by_number, float32, fpisa, sum_errors
from testbed.results.reader import ResultsError
from testbed.results.schema import TABLES
from testbed.results.schema_check import to_arrow
from testbed.schemes import set_up
from testbed.setup.host_specs import host_specs
from testbed.workload import gradients
from tests.support.experiments import memory_line, message
from tests.support.virtual import run_virtual

TEXT = """
name: kept
runtime: virtual
seed: 3
topology: {kind: star, hosts: 6}
links: {bandwidth: 10 Gbit/s, delay: 5 us, jitter: %(jitter)s, loss: %(loss)s}
system: {name: %(system)s, sum: %(sum)s}
%(memory)s
values_per_packet: 16
virtual: {keep_sums: true}
jobs:
  - {model: alexnet, workers: 4, iterations: 2, scale: %(scale)s, compute_scale: 0}
"""


def text(system="switchml", sum="float32", jitter="1 us", loss="0 %", scale="0.000002") -> str:
    memory = memory_line(system, 256)
    least = max(16, FORMATS[sum].least_values)
    return TEXT.replace("packet: 16", f"packet: {least}") % {
        **{"system": system, "sum": sum, "memory": memory},
        **{"jitter": jitter, "loss": loss, "scale": scale},
    }


def kept(**parts: str) -> pd.DataFrame:
    rows = run_virtual(load_text(text(**parts)))["sums"]
    to_arrow(TABLES["sums"], rows, repetition=0)  # as the writer checks them
    return pd.DataFrame(rows).assign(repetition=0)


@pytest.mark.parametrize("number_format", ["int32", "float32", "int8", "mx8", "fpisa"])
def test_delays_change_bits_of_floats_alone(number_format):
    first, second = (kept(sum=number_format, jitter=jitter) for jitter in ("1 us", "4 us"))
    (found,) = between_runs(first, second).values()
    assert (found.bits > 0) == FORMATS[number_format].ordered
    (among,) = between_workers(second).values()
    assert among == Difference(3 * found.sums)
    # Each word is the one sum of a position: as many as the model has values, none of filling.
    (job,) = load_text(text()).jobs
    assert found.sums == 2 * sum(layer.values for layer in job.trace().layers)


IN_ORDER = {
    "float32": lambda rows: reduce(float32.added, rows),
    "bfloat16": lambda rows: reduce(bfloat16.added, rows),
    "bfloat16_in_float32": lambda rows: bfloat16.added(
        reduce(float32.added, rows), np.zeros_like(rows[0])
    ),
    "fpisa": lambda rows: fpisa.sums(rows)[0],
}


@pytest.mark.parametrize("number_format", IN_ORDER)
@pytest.mark.parametrize("model", ["alexnet", "smallcnn"])
def test_bits_of_order_are_those_that_differ_from_sums_in_the_order_of_ranks(number_format, model):
    said = text(sum=number_format, jitter="4 us").replace("alexnet", model)
    spec = host_specs(set_up(load_text(said)))[0]
    made = gradients if spec.job.gradients else sum_errors
    found = pd.DataFrame(run_virtual(load_text(said))["sums"])
    for iteration, rows in found.groupby("iteration"):
        right = IN_ORDER[number_format]([*made.words_sent(spec, iteration)])
        for words, bits in zip(rows["words"], rows["order_bits"], strict=True):
            each = difference(np.frombuffer(words, "<u4"), right)
            assert bits == each.bits / each.sums
    assert found["order_bits"].any() == (number_format != "bfloat16_in_float32")
    assert not kept(sum="int32")["order_bits"].any()


def test_words_are_the_sums():
    table = kept(system="ps", sum="int32", loss="1 %")
    rows = table[table["iteration"] == 1]
    key = values.fragment_key(3, 0, int(load_text(text()).jobs[0].trace().fragments(16)))
    shift = values.hash_shift(4)
    total, _ = by_number.factor_sums(0, 3, 0, 1, 4, 0)
    expected = np.int32(int(values.position_hash(key, 0, shift)) * total)
    assert {np.frombuffer(words, np.int32)[0] for words in rows["words"]} == {expected}


def test_a_difference_counts_every_bit():
    a = np.array([0, 1, 0xFFFFFFFF, 5], np.uint32)
    b = np.array([0, 3, 0, 5], np.uint32)
    assert difference(a, b) == Difference(4, 2, 33)
    assert difference(a, b).text == "33 bits differ, in 2 of 4 sums (50.0 %)"
    with pytest.raises(ResultsError, match="4 and 3 sums"):
        difference(a, b[:3])


TENSOR_PARALLEL = """
name: kept
runtime: virtual
seed: 3
topology: {kind: star, hosts: 17}
links: {bandwidth: 10 Gbit/s, delay: 5 us, jitter: %(jitter)s, loss: %(loss)s}
system: {name: %(system)s, sum: %(sum)s}
%(memory)s
values_per_packet: 32
virtual: {keep_sums: true, sum_parts: %(parts)s}
jobs:
  - name: job
    model: {transformer: llama2-7b, sequence: 64, global_batch: 2, layers: 1%(more)s}
    parallel: {tp: %(tp)d, dp: 2}
    workers: %(workers)d
    iterations: 2
    scale: 0.0001
    compute_scale: 0
"""


def tensor_parallel(
    tp, sum="int32", parts=8, system="switchml", jitter="1 us", loss="0.5 %", more=""
):
    memory = memory_line(system, 256)
    return TENSOR_PARALLEL % {**locals(), "workers": 2 * tp}


@pytest.mark.parametrize(
    "number_format", first_of(["int32", "float32", "float32_exact", "int16", "mx8", "fpisa"], 3)
)
def test_ranks_of_other_sizes_add_the_same_parts(number_format):
    """Integers and exact sums are the same bits with 2, 4 and 8 ranks of a group."""
    tables = []
    for tp in (2, 4, 8):
        rows = run_virtual(load_text(tensor_parallel(tp, number_format)))["sums"]
        to_arrow(TABLES["sums"], rows, repetition=0)
        tables.append(pd.DataFrame(rows).assign(repetition=0))
    for other in tables[1:]:
        found = between_runs(tables[0], other, (8, 8))
        assert {group for _, _, group in found} == {"tp.0", "tp.1"}
        bits = sum(each.bits for each in found.values())
        assert (bits > 0) == FORMATS[number_format].ordered
        left_out = not_alike(tables[0], other, (8, 8))
        assert {group[:3] for _, _, group in left_out} == {"dp."}
        with pytest.raises(
            ResultsError, match="2 and 4 workers add|2 and 8 workers add|one of the"
        ):
            between_runs(tables[0], other)
    assert not sum(each.bits for each in between_workers(tables[0]).values())


def test_too_many_sums_are_an_error():
    assert "keep_sums: found true, and the sums" in message(text(scale="1").replace("16", "64"))
