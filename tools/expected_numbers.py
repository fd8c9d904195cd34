"""Measured values of the rows of experiments/expected/numbers.yaml, by runs in virtual time.

    .venv/bin/python -m tools.expected_numbers [ROW...] [--write]

prints each row with its expected value and what was measured. --write puts the measured values into
the file, and nothing else.

A format is measured on sums that its workers keep (`virtual.keep_sums`). Bits that differ are those
between a run without losses and jitter and runs with 20 other delays, jitters and losses, for each
number of ranks, and between the ranks of each run.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd

from testbed.analysis.data.sum_data import between_runs, between_workers
from testbed.experiment import load_text
from testbed.number_formats import BLOCKS, FORMATS
from testbed.protocols import wire
from testbed.protocols.formats import by_number, float32_exact, fpisa, mx8
from testbed.protocols.formats.sum_errors import ExactSums, exact_sums, words_sent
from testbed.results.counters import OVERWRITTEN
from testbed.run_parts.program import prepare
from testbed.schemes import set_up
from testbed.setup import Setup
from testbed.setup.host_specs import host_specs
from testbed.simulate.virtual_run import run_repetition
from tools.expected_rows import command

FILE = Path(__file__).resolve().parents[1] / "experiments/expected/numbers.yaml"
RANKS = (2, 3, 8, 64)
STEPS = 20  # networks beside the one without losses and jitter
TEXT = """
name: numbers
runtime: virtual
seed: 1
topology: {{kind: star, hosts: {hosts}}}
links: {{bandwidth: 10 Gbit/s, delay: {delay} us, jitter: {jitter} us, loss: {loss} %}}
system: {{name: {system}, sum: {sum}}}
{memory}
values_per_packet: 64
virtual: {{keep_sums: true}}
jobs:
  - {{model: alexnet, workers: {ranks}, iterations: 2, scale: 0.0001, compute_scale: 0}}
"""
TENSOR_PARALLEL = """
name: numbers
runtime: virtual
seed: 1
topology: {{kind: star, hosts: 17}}
links: {{bandwidth: 10 Gbit/s, delay: {delay} us, jitter: {step} us, loss: {loss} %}}
system: {{name: switchml, sum: {sum}}}
memory: {{aggregators: 512}}
values_per_packet: 64
virtual: {{keep_sums: true, sum_parts: 8}}
jobs:
  - model: {{transformer: llama2-7b, sequence: 128, global_batch: 2, layers: 2}}
    parallel: {{tp: {tp}, dp: 2}}
    workers: {workers}
    iterations: 2
    scale: 0.001
    compute_scale: 0
"""
SYSTEMS = ("esa", "switchml")
EXACT_SYSTEMS = ("switchml", "ps")  # of float32_exact
HARD = 20_000  # sums that are hard to round
Sums = tuple[Setup, pd.DataFrame]


def sums_of(number_format: str, ranks: int, step: int) -> Sums:
    """A run in the network of this step, 0 to STEPS, and its table of sums."""
    setup, sums, _ = run_of(number_format, ranks, step)
    return setup, sums


def counters_of(number_format: str, ranks: int, step: int) -> int:
    """Overwritten sums that the switches of this run have counted."""
    _, _, counted = run_of(number_format, ranks, step)
    return counted


@cache
def run_of(number_format: str, ranks: int, step: int) -> tuple[Setup, pd.DataFrame, int]:
    """A run, its table of sums, and the overwritten sums that its switches have counted."""
    system = (EXACT_SYSTEMS if FORMATS[number_format].is_wide else SYSTEMS)[step % 2]
    text = TEXT.format(
        hosts=ranks + 1,
        system=system,
        memory="" if system == "ps" else "memory: {aggregators: 512}",
        delay=20 + step,
        jitter=step,
        loss=0 if step % 4 else step / STEPS,
        sum=number_format,
        ranks=ranks,
    )
    setup = set_up(load_text(text))
    tables = run_repetition(setup, prepare(setup).compiled)
    counters = [row for row in tables["switch_counters"] if row["counter"] == OVERWRITTEN]
    sums = pd.DataFrame(tables["sums"]).assign(repetition=0)
    return setup, sums, sum(int(row["value"]) for row in counters)


def bits(number_format: str, ranks: Sequence[int] = RANKS) -> float:
    """Bits that differ between runs and between ranks."""
    found = 0
    for count in ranks:
        _, first = sums_of(number_format, count, 0)
        for step in range(STEPS + 1):
            _, table = sums_of(number_format, count, step)
            found += sum(each.bits for each in between_runs(first, table).values())
            found += sum(each.bits for each in between_workers(table).values())
    return found


def bits_of_sizes(number_format: str) -> float:
    """Bits that differ between tensor parallel sizes, in several networks."""
    found, first = 0, None
    for step in range(0, STEPS + 1, 4):
        for tp in (2, 4, 8):
            text = TENSOR_PARALLEL.format(
                **{"delay": 20 + step, "step": step, "loss": step / STEPS, "sum": number_format},
                **{"tp": tp, "workers": 2 * tp},
            )
            setup = set_up(load_text(text))
            tables = run_repetition(setup, prepare(setup).compiled)
            table = pd.DataFrame(tables["sums"]).assign(repetition=0)
            table = table[table["group"].str.startswith("tp.")]
            first = table if first is None else first
            found += sum(each.bits for each in between_runs(first, table, (8, 8)).values())
    return found


def exact(setup: Setup) -> Iterator[ExactSums]:
    """The exact sums of generated values, by iteration."""
    spec = host_specs(setup)[0]
    for iteration in range(spec.job.iterations):
        yield exact_sums(spec, iteration)


def received(table: pd.DataFrame, iteration: int) -> np.ndarray:
    """float32[W, N], what each worker has received in an iteration."""
    rows = table[table["iteration"] == iteration].sort_values("worker")
    return np.stack([np.frombuffer(words, np.float32) for words in rows["words"]])


def error_over_bound(number_format: str) -> float:
    """Greatest error of a sum over its bound."""
    found = 0.0
    for ranks in RANKS:
        for step in range(0, STEPS + 1, 4):
            setup, table = sums_of(number_format, ranks, step)
            bound = (ranks - 1) * 2.0**-24
            for i, (sums, sizes, *_) in enumerate(exact(setup)):
                error = np.abs(received(table, i).astype(float) - sums) / (bound * sizes)
                found = max(found, float(error.max()))
    return found


@cache
def rounded_once(number_format: str) -> float:
    """Share of sums that are the exact sum rounded once to bfloat16."""
    right = count = 0
    for ranks in RANKS:
        for step in range(0, STEPS + 1, 4):
            setup, table = sums_of(number_format, ranks, step)
            for i, (sums, *_) in enumerate(exact(setup)):
                same = received(table, i) == nearest_bfloat16(sums)
                right, count = right + int(same.sum()), count + same.size
    return right / count


def wrong_exact() -> float:
    """Sums of float32_exact that are not the exact sum rounded once: of runs, and of few numbers
    that are hard to add."""
    found = 0
    for ranks in RANKS:
        for step in range(0, STEPS + 1, 4):
            setup, table = sums_of("float32_exact", ranks, step)
            for i, (sums, *_) in enumerate(exact(setup)):
                found += int((received(table, i) != sums.astype(np.float32)).sum())
    draw = np.random.default_rng(1)
    for _ in range(HARD):
        words = draw.integers(0, 2**32, int(draw.integers(1, 6)), dtype=np.uint32)
        low = np.uint32(1) << draw.integers(0, 24, words.size, dtype=np.uint32)
        words = np.concatenate([words, words ^ np.uint32(0x80000000) ^ low])
        total = np.zeros(float32_exact.WIDTH, np.int64)
        for word in words:
            float32_exact.add(total, word)
        found += int(float32_exact.rounded(total)) != float32_exact.nearest(words)
    return found


def fpisa_unexpected() -> float:
    """Overwritten sums of FPISA where the arriving exponent is at most SPARE above the sum's, of
    numbers with any exponents; a sum that leaves 32 bits is none."""
    draw, found = np.random.default_rng(1), 0
    for _ in range(HARD):
        total = np.zeros(fpisa.WIDTH, np.int64)
        for word in draw.integers(0, 255 << 23, int(draw.integers(2, 9)), dtype=np.uint32):
            exponent, largest = int(total[0]), abs(int(total[1])) >= fpisa.LARGEST
            fpisa.add(total, word)
            own, mantissa = fpisa.split(word)
            replaced = bool(exponent) and (total[0], total[1]) == (own, mantissa)
            found += replaced and own - exponent <= fpisa.SPARE and not largest
    return found


def fpisa_uncounted() -> float:
    """Overwritten sums less those that switches have counted. Of two workers' numbers, whose
    exponents differ by less than 24, the sum is one of the two if, and only if, it is
    overwritten."""
    found = 0
    for step in range(1, STEPS + 1, 2):  # on SwitchML, where one switch adds all
        setup, table = sums_of("fpisa", 2, step)
        counted = counters_of("fpisa", 2, step)
        for i in range(setup.jobs[0].iterations):
            sums = received(table, i)[0]
            given = [words.view(np.float32) for words in words_sent(host_specs(setup)[0], i)]
            found += int(((sums == given[0]) | (sums == given[1])).sum())
        found -= counted
    return found


def mx8_bytes() -> float:
    """Bytes of 32 generated values in a packet, and of those of 2,048 divided by 64; 0 if the two
    are not the same."""
    found = set()
    for blocks in (1, 64):
        base, count = wire.HEADER_WORDS + 1, blocks * mx8.BLOCK
        row = np.zeros(base + count, np.uint32)
        by_number.write_generated(BLOCKS, row, base, count, 5, 7)
        payload = wire.compact(row, base, count, 0, wire.short_of(8, BLOCKS))
        found.add((int(payload) - 4 * base) / blocks)
    return found.pop() if len(found) == 1 else 0


def nearest_bfloat16(exact_sums: np.ndarray) -> np.ndarray:
    """float32[N], the nearest bfloat16 of float64[N], a half to the even one."""
    share, exponent = np.frexp(exact_sums)
    return np.ldexp(np.rint(np.ldexp(share, 8)), exponent - 8).astype(np.float32)


ROWS: dict[str, Callable[[], float]] = {
    "bits_int32": lambda: bits("int32"),
    "bits_int16": lambda: bits("int16"),
    "bits_int8": lambda: bits("int8"),
    "bits_mx8": lambda: bits("mx8"),
    "bits_float32_exact": lambda: bits("float32_exact"),
    "bits_tp_int32": lambda: bits_of_sizes("int32"),
    "bits_tp_float32_exact": lambda: bits_of_sizes("float32_exact"),
    "bits_tp_float32": lambda: bits_of_sizes("float32"),
    "exact_wrong": wrong_exact,
    "bits_float32_2": lambda: bits("float32", (2,)),
    "bits_float32_3": lambda: bits("float32", (3,)),
    "float32_error": lambda: error_over_bound("float32"),
    "bfloat16_in_float32": lambda: rounded_once("bfloat16_in_float32"),
    "bfloat16_in_float32_rest": lambda: 1e6 * (1 - rounded_once("bfloat16_in_float32")),
    "mx8_bytes": mx8_bytes,
    "fpisa_unexpected": fpisa_unexpected,
    "fpisa_uncounted": fpisa_uncounted,
}


if __name__ == "__main__":
    sys.exit(command(FILE, ROWS, __doc__))
