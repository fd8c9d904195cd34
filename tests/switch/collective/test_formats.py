"""Float32 of programs in each format of sums: the same training twice, on networks that lose, delay
and reorder other packets, with ranks on other hosts; and mx8, whose packets are larger than those
of test_any_calls.py.
"""

from __future__ import annotations

import numpy as np
import pytest
from p4fabric.base.errors import UserError

from testbed.collective import CollectiveError, Job
from testbed.number_formats import FORMATS
from testbed.protocols.formats import float32_exact, mx8
from tests.support.fabric import lossy
from tests.support.programs import draw, programs, sums, text

STEPS = 6
SIZES = (12, 16, 4)  # of the layers of a network


def ranks(system: str, name: str, seed: int, seats: tuple[int, ...], keys: str = "") -> list[Job]:
    """Four ranks on the hosts that `seats` says, with losses of this seed."""
    experiment = text(system, options=f", sum: {name}", keys=keys)
    if name == "mx8":
        experiment = experiment.replace("values_per_packet: 16", "values_per_packet: 32")
    _, workers = programs(experiment, lossy(seed, 0.02, 0.02, 0.1))
    jobs = [Job(workers[worker]._link, rank) for rank, worker in enumerate(seats)]
    for job in jobs:
        job.seat(list(seats))
    return jobs


def trained(jobs: list[Job]) -> np.ndarray:
    """The weights after each step, float32[STEPS, N], of ranks that average their gradients."""
    random = np.random.default_rng(3)
    first, second = SIZES[0] * SIZES[1], SIZES[1] * SIZES[2]
    weights = random.normal(0, 0.3, first + second).astype(np.float32)
    samples = random.normal(size=(4, 20, SIZES[0])).astype(np.float32)
    labels = np.tanh(samples[..., : SIZES[2]] * 2)
    kept = []
    for _ in range(STEPS):
        one, two = weights[:first].reshape(SIZES[:2]), weights[first:].reshape(SIZES[1:])
        gradients = []
        for own, label in zip(samples, labels, strict=True):
            hidden = np.tanh(own @ one)
            away = (hidden @ two - label) / len(own)
            back = (away @ two.T) * (1 - hidden * hidden)
            parts = (own.T @ back).reshape(-1), (hidden.T @ away).reshape(-1)
            gradients.append(np.concatenate(parts).astype(np.float32))
        found = sums(jobs, gradients, mean=True)
        for each in found:
            np.testing.assert_array_equal(each, found[0])
        weights = weights - np.float32(0.3) * found[0]
        kept.append(weights)
    return np.array(kept)


def differing_bits(a: np.ndarray, b: np.ndarray) -> list[int]:
    """Bits in which two trainings differ after each step."""
    differs = a.view(np.uint32) ^ b.view(np.uint32)
    return np.unpackbits(differs.view(np.uint8), axis=1).sum(axis=1).tolist()


@pytest.mark.parametrize(
    "system, name",
    [
        *[("switchml", name) for name in ("int8", "float32", "float32_exact")],
        *[
            pytest.param(system, name, marks=pytest.mark.slow)
            for system, names in (
                ("switchml", ("int32", "int16", "bfloat16", "bfloat16_in_float32", "fpisa")),
                ("esa", ("int16", "float32")),
                ("ps", ("int16", "float32", "float32_exact")),
            )
            for name in names
        ],
    ],
)
def test_two_trainings_have_the_same_bits_where_no_order_counts(system, name):
    runs = [
        trained(ranks(system, name, seed, seats))
        for seed, seats in ((1, (0, 1, 2, 3)), (2, (2, 0, 3, 1)))
    ]
    bits = differing_bits(*runs)
    if FORMATS[name].ordered and name != "bfloat16_in_float32":
        assert bits[-1] > 0
        # They learn the same, but for what an overwritten sum of FPISA loses.
        assert name == "fpisa" or np.abs(runs[0] - runs[1]).max() < 0.02
    elif not FORMATS[name].ordered:
        assert bits == STEPS * [0]


def exact(arrays: list[np.ndarray]) -> np.ndarray:
    """The sums, rounded once, as uint32."""
    columns = np.stack(arrays).view(np.uint32).T
    return np.array([float32_exact.nearest(column.tolist()) for column in columns], np.uint32)


@pytest.mark.parametrize("system", ["switchml", "ps"])
def test_exact_sums_are_rounded_once(system):
    arrays = draw(5, 200)
    arrays[0][:4], arrays[1][:4] = (1e30, -0.0, 3e38, np.nan), (-1e30, -0.0, 3e38, 1)
    arrays[2][1] = arrays[3][1] = -0.0
    for found in sums(ranks(system, "float32_exact", 3, (1, 0, 3, 2)), arrays):
        np.testing.assert_array_equal(found.view(np.uint32), exact(arrays))


@pytest.mark.parametrize("system", ["switchml", "ps"])
def test_blocks_are_those_of_what_ranks_give_and_of_their_sum(system):
    arrays = draw(6, 320)
    blocks = [mx8.quantised(array.view(np.uint32)).view(np.float32) for array in arrays]
    right = mx8.quantised(exact(blocks))
    jobs = ranks(system, "mx8", 4, (3, 2, 1, 0))
    for found in sums(jobs, arrays):
        np.testing.assert_array_equal(found.view(np.uint32), right)
    whole = [array.view(np.int32) for array in draw(7, 100)]
    for found in sums(jobs, whole):
        np.testing.assert_array_equal(found, np.sum(whole, axis=0, dtype=np.int32))


@pytest.mark.parametrize(
    "system, name, wide",
    [
        ("switchml", "bfloat16_in_float32", "float32"),
        ("esa", "int16", "int32"),
        ("switchml", "mx8", "float32_exact"),
    ],
)
def test_types_have_formats_of_their_own(system, name, wide):
    """A type that the key `sums` names has the sums of the wider format, others those of `sum`."""
    arrays = draw(8, 320)
    mixed = ranks(system, name, 5, (1, 2, 3, 0), f", sums: {{float32: {wide}}}")
    for kind, alone in (("float32", wide), ("bfloat16", name)):
        (found, *_), (right, *_) = (
            sums(jobs, arrays, kind=kind) for jobs in (mixed, ranks(system, alone, 6, (1, 2, 3, 0)))
        )
        away = 2.0**-22 * np.abs(arrays).sum(axis=0) if alone == "float32" else 0
        assert (np.abs(found - right) <= away).all()
    with pytest.raises(UserError, match=f"sums cannot be fpisa here; allowed: {name}, {wide}"):
        mixed[0].add_in("fpisa")
    for job in mixed:
        job.add_in(wide)
    right, *_ = sums(ranks(system, wide, 6, (1, 2, 3, 0)), arrays)
    away = 2.0**-22 * np.abs(arrays).sum(axis=0) if wide == "float32" else 0
    assert (np.abs(sums(mixed, arrays, kind="bfloat16")[0] - right) <= away).all()
    for job in mixed[:1]:
        job.add_in(name)
    handles = [
        job.allreduce_async(arrays[0], kind=kind)
        for job, kind in zip(mixed, ("bfloat16", *["float32"] * 3), strict=True)
    ]
    with pytest.raises(CollectiveError, match="of 320 float32 values of all bits"):
        handles[0].wait()
