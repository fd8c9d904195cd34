"""Reduce-scatter, all-gather, broadcast and barrier: the network's one operation in other uses."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from testbed.collective import CollectiveError, prelude
from testbed.protocols import sizes
from tests.support.fabric import MS, lossy, perfect
from tests.support.matrix import first_of
from tests.support.programs import BLOCK, draw, programs, step, sums, text

SYSTEMS = ["esa", "ring", "switchml", "atp", "ps", "grid"]
FAULTS = dict(loss=0.02, duplicate=0.02, reorder=0.05)


def called(jobs, name, given, *arguments, **options):
    """Result of each rank of a collective to which rank r gives given[r]."""
    handles = [
        getattr(job, f"{name}_async")(each, *arguments, **options)
        for job, each in zip(jobs, given, strict=True)
    ]
    return [handle.wait() for handle in handles]


@pytest.mark.parametrize("system", first_of(SYSTEMS, 1))
def test_each_rank_gets_its_part_of_a_sum(system):
    """The same bits as those of the sum over all ranks; int32 is exact."""
    _, jobs = programs(text(system), lossy(1, **FAULTS))
    for size in (4, 52, 2 * BLOCK + 8):
        whole = draw(size, size, np.int32)
        expected = np.sum(whole, axis=0, dtype=np.int32).reshape(4, -1)
        for rank, found in enumerate(called(jobs, "reduce_scatter", whole)):
            np.testing.assert_array_equal(found, expected[rank])
    floats = [array.reshape(8, -1) for array in draw(2, 2 * BLOCK)]
    everything = sums(jobs, floats, mean=True)[0]
    for rank, found in enumerate(called(jobs, "reduce_scatter", floats, mean=True)):
        assert found.shape == (2, BLOCK // 4)
        np.testing.assert_array_equal(found, everything[2 * rank : 2 * rank + 2])


# What a sum in floating point, or a wrong number of bytes, would not leave as it is.
ODD = [
    np.array([-0.0, np.nan, np.inf, 1e-45, 3.0, -1.5], np.float32),
    np.array([[1e300], [-np.nan]], np.float64),
    np.array([2**62 + 1, -(2**63)], np.int64),
    np.array([1, 255, 0, 7, 9], np.uint8),
    np.array([True, False, True]),
    np.array([1 + 2j], np.complex64),
    np.float16(0.3),
    np.zeros((0, 3), np.float32),
]


def drawn_bytes(array: np.ndarray) -> list[np.ndarray]:
    """`array`, and three of its kind with any bits."""
    random = np.random.default_rng(1)
    shape = np.asarray(array)
    others = [
        np.frombuffer(random.bytes(shape.nbytes), shape.dtype).reshape(shape.shape)
        if shape.dtype != bool
        else random.integers(0, 2, shape.shape).astype(bool)
        for _ in range(3)
    ]
    return [others[0], shape, *others[1:]]


def assert_same_bits(found: np.ndarray, expected: np.ndarray) -> None:
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("system", first_of(SYSTEMS, 2))
def test_what_ranks_give_arrives_bit_by_bit(system):
    _, jobs = programs(text(system), lossy(2, **FAULTS))
    for array in [*ODD, np.arange(BLOCK + 3, dtype=np.uint8)]:
        given = drawn_bytes(array)
        for found in called(jobs, "all_gather", given):
            assert_same_bits(found, np.stack(given))
        for root in (0, 1, 3):
            for found in called(jobs, "broadcast", given, root):
                assert_same_bits(found, given[root])


def test_arrays_longer_than_a_call_are_collected_in_pieces():
    """And one that is a part of the place where the result goes, as FSDP gives them."""
    _, jobs = programs(text("esa"))
    for job in jobs:
        job._most = most = 2 * BLOCK  # of a call; it has more than a test has time for
    random = np.random.default_rng(3)
    given = [random.integers(0, 2**31, most // 3, np.int32) for _ in jobs]
    places = [np.zeros((4, most // 3), np.int32) for _ in jobs]
    handles = []
    for rank, (job, place) in enumerate(zip(jobs, places, strict=True)):
        place[rank] = given[rank]
        handles.append(job.all_gather_async(place[rank], out=place))
    assert len(handles[0].calls) == 2
    for handle, place in zip(handles, places, strict=True):
        assert handle.wait().base is place or handle.wait() is place
        np.testing.assert_array_equal(place, np.stack(given))


def test_arrays_in_shared_memory_are_results_too():
    _, jobs = programs(text("esa"))
    shared = [job.empty((4, 10)) for job in jobs]
    for rank, array in enumerate(shared):
        array[:] = np.nan
        array[rank] = rank
    for rank, job in enumerate(jobs):
        job.all_gather_async(shared[rank][rank], out=shared[rank])
    jobs[0].barrier_async()
    handles = [job.barrier_async() for job in jobs[1:]]
    for handle in handles:
        handle.wait()
    for job, array in zip(jobs, shared, strict=True):
        job.look()
        np.testing.assert_array_equal(array, np.repeat(np.arange(4.0), 10).reshape(4, 10))


def test_nobody_leaves_a_barrier_before_all_have_come():
    fabric, jobs = programs(text("esa"))
    handles = [job.barrier_async() for job in jobs[:3]]
    while fabric.now < 10 * MS:
        step(fabric)
    assert not any(handle.done() for handle in handles)
    jobs[3].barrier()
    for handle in handles:
        handle.wait()


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda job: job.broadcast_async(np.zeros(4), job.rank // 3), "broadcast from rank 1 of 4"),
        (
            lambda job: job.all_gather_async(np.zeros(8, "f4" if job.rank < 3 else "i4")),
            "ranks 0, 1, 2: all_gather of 8 float32 values; rank 3: all_gather of 8 int32 values",
        ),
        (
            lambda job: (
                job.barrier_async() if job.rank < 3 else job.allreduce_async(np.zeros(1, np.int32))
            ),
            "ranks 0, 1, 2: barrier; rank 3: allreduce of 1 int32 values",
        ),
    ],
)
def test_ranks_that_call_different_collectives_are_told_so(call, message):
    _, jobs = programs(text("esa"))
    for handle in [call(job) for job in jobs]:
        with pytest.raises(CollectiveError, match=message):
            handle.wait()


def test_what_cannot_be_called_is_an_error_at_once():
    _, jobs = programs(text("ps"))
    job = jobs[0]
    with pytest.raises(ValueError, match="multiple of the 4 ranks"):
        job.reduce_scatter_async(np.zeros((6, 4), np.float32))
    with pytest.raises(TypeError, match="not float64"):
        job.reduce_scatter_async(np.zeros(4))
    with pytest.raises(TypeError, match="Python objects"):
        job.all_gather_async(np.array([None]))
    with pytest.raises(ValueError, match="no rank 4"):
        job.broadcast_async(np.zeros(4), 4)
    with pytest.raises(ValueError, match="have 16 float32 values; it has 4"):
        job.all_gather_async(np.zeros(4, np.float32), out=np.zeros(4, np.float32))


class Bytes:
    """A schedule that loses nothing and counts the bytes of what each host sends: of packets with
    values, and of those without."""

    def __init__(self, frame: int) -> None:
        self.frame = frame
        self.values: Counter[str] = Counter()
        self.others: Counter[str] = Counter()

    def __call__(self, now: int, node: str, frame: bytes) -> tuple[int, ...]:
        (self.values if len(frame) == self.frame else self.others)[node] += len(frame)
        return perfect(now, node, frame)


def packets(values: int, words: int, per_packet: int = 16) -> int:
    """Of a call with `values` values and a prelude of `words` words (docs/training.md)."""
    whole, rest = divmod(values, BLOCK)
    return -(-words // per_packet) + whole * BLOCK // per_packet + -(-rest // per_packet)


HEAD = prelude.WORDS_PER_RANK * 4


@pytest.mark.parametrize("system", first_of(["esa", "ring", "switchml", "atp", "ps"], 1))
@pytest.mark.parametrize(
    "name, given, expected",
    [
        ("reduce_scatter", draw(1, 12 * BLOCK), packets(12 * BLOCK, prelude.prelude_words(4, 12))),
        ("all_gather", [np.ones(20 * BLOCK, np.int8)] * 4, packets(20 * BLOCK, HEAD)),
        ("broadcast", [np.ones(5 * BLOCK, np.float64)] * 4, packets(10 * BLOCK, HEAD)),
    ],
)
def test_bytes_are_those_of_the_formula(system, name, given, expected):
    """docs/training.md: what a rank sends where nothing is lost and memory suffices."""
    frame = sizes.frame_bytes(16, 32)
    counted = Bytes(frame)
    fabric, jobs = programs(text(system, aggregators=4096), counted)
    called(jobs, name, given)
    for job in jobs:
        job.close()
    fabric.run()
    share = 2 * (4 - 1) / 4 if system == "ring" else 1
    for worker in fabric.workers():
        sent = counted.values[worker.spec.host]
        assert abs(sent - share * expected * frame) <= 0.01 * share * expected * frame
        acknowledgements = counted.others[worker.spec.host]
        assert acknowledgements <= (0.1 * sent if system == "ring" else 0)
