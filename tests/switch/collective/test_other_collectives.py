"""Reduce-scatter, all-gather, broadcast and barrier: the network's one operation in other uses."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from p4fabric_testing.matrix import first_of

from testbed.collective import CollectiveError, prelude
from testbed.collective_kinds import CARRIED, OTHERS, OWN, ROOT, WHOLE, Collective
from testbed.protocols import sizes
from tests.support.experiments import memory_line
from tests.support.fabric import MS, perfect
from tests.support.programs import BLOCK, draw, programs, step, text

SYSTEMS = ["esa", "ring", "switchml", "atp", "ps", "grid"]


def called(jobs, name, given, *arguments, **options):
    """Result of each rank of a collective to which rank r gives given[r]."""
    handles = [
        getattr(job, f"{name}_async")(each, *arguments, **options)
        for job, each in zip(jobs, given, strict=True)
    ]
    return [handle.wait() for handle in handles]


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
    fabric, jobs = programs(text("esa"))
    shared, handles = [job.empty((4, 10)) for job in jobs], []
    for rank, array in enumerate(shared):
        array[:] = np.nan
        array[rank] = rank
    for rank, job in enumerate(jobs):
        handles.append(job.all_gather_async(shared[rank][rank], out=shared[rank]))
    while not all(handle.done() for handle in handles):
        step(fabric)
    for array in shared:
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


class Packets:
    """A schedule that loses nothing and counts the packets that each host sends and gets: with
    values, and without."""

    def __init__(self, values: int = 16) -> None:
        self.full = sizes.frame_bytes(values, 32)
        self.sent: Counter[tuple[str, bool]] = Counter()
        self.got: Counter[tuple[str, bool]] = Counter()

    def __call__(self, now: int, node: str, frame: bytes) -> tuple[int, ...]:
        whole = len(frame) == self.full
        if node.startswith("h"):
            self.sent[node, whole] += 1
        elif frame[:4] == b"\2\0\0\0":  # a host's MAC address
            self.got[f"h{frame[5]}", whole] += 1
        return perfect(now, node, frame)


TWO_LEVELS = """
name: test
topology: {kind: leaf_spine, leaves: 2, spines: 1, hosts: 6}
links: {bandwidth: 1 Gbit/s}
system: {name: %s}
%s
values_per_packet: 16
jobs:
  - {name: digits, command: "true", workers: 4, placement: {workers: [h1, h2, h4, h5]%s}}
"""
SIZE = 12 * BLOCK + 16 * 4  # words of an array; its quarters are whole packets


def moved(kind: Collective, rank: int) -> tuple[float, float]:
    """Share of the array that a rank sends, and gets (docs/training.md), of four ranks."""
    if kind.empty:
        return 0, 0
    share = {WHOLE: 1, OWN: 1 / 4, ROOT: rank == 2, OTHERS: rank != 2}
    return share[kind.gives], share[kind.gets] - (0 if kind.sums else share[kind.gives])


@pytest.mark.parametrize("levels", [1, 2])
@pytest.mark.parametrize("system", first_of(["esa", "switchml", "atp", "grid", "ps"], 2))
@pytest.mark.parametrize("kind", CARRIED.values(), ids=list(CARRIED))
def test_no_link_carries_values_that_nobody_needs(system, levels, kind):
    """Values that a rank sends and gets, where nothing is lost and memory suffices. Beside them
    only a prelude has values, and every other packet is a header."""
    # Who sends headers is ahead of who sends values, so results come in another order than
    # fragments, which ATP would take for losses.
    options = ", gap: 0" if system == "atp" else ""
    experiment = text(system, 4096, options)
    if levels == 2:
        server = "" if system == "switchml" else ", ps: h3"
        memory = memory_line(system, 4096)
        experiment = TWO_LEVELS % (system + options, memory, server)
    counted = Packets()
    fabric, jobs = programs(experiment, counted)
    part = kind.given_size(SIZE, 4)
    given = [np.full(part, 1 + rank, np.float32) for rank in range(4)]
    arguments = [2] if kind.rooted else []
    if kind.empty:
        for handle in [job.barrier_async() for job in jobs]:
            handle.wait()
    else:
        called(jobs, kind.call or kind.name, given, *arguments)
    for job in jobs:
        job.close()
    fabric.run()
    assert sum(worker.counters()["retransmissions"] for worker in fabric.workers()) == 0
    blocks = -(-SIZE // BLOCK) if kind.sums and not kind.empty else 0
    opening = -(-prelude.prelude_words(4, blocks) // 16)
    every = opening + (0 if kind.empty else SIZE // 16)
    for rank, worker in enumerate(fabric.workers()):
        host = worker.spec.host
        for count, share in zip((counted.sent, counted.got), moved(kind, rank), strict=True):
            assert 0 <= count[host, True] - share * SIZE / 16 <= opening, (host, share)
            assert count[host, True] + count[host, False] == every, host


def test_values_of_a_packet_that_two_ranks_need_go_to_all():
    counted = Packets()
    fabric, jobs = programs(text("esa", aggregators=4096), counted)
    given = [np.arange(4 * 40, dtype=np.int32) for _ in jobs]
    for rank, found in enumerate(called(jobs, "reduce_scatter", given)):
        np.testing.assert_array_equal(found, 4 * given[0][40 * rank : 40 * rank + 40])
    # Of 10 packets that hold 16 of 40 values each, 2 belong to each rank, and 2 to two of them.
    assert [counted.got[worker.spec.host, True] for worker in fabric.workers()] == [1 + 2 + 2] * 4


def test_a_sum_of_a_few_numbers_takes_one_round_trip():
    at_once = "timers: {burst: 1 ns}\njobs:"  # else packets gather at the start
    fabric, jobs = programs(text("esa").replace("jobs:", at_once))
    times = []
    for size in (16, 17):
        before = fabric.now
        called(jobs, "allreduce", [np.ones(size, np.float32)] * 4)
        times.append(fabric.now - before)
    assert 1.6 < times[1] / times[0] < 2.4


@pytest.mark.parametrize("system", first_of(SYSTEMS, 2))
def test_a_few_whole_numbers_travel_with_what_is_said_of_them(system):
    counted = Packets()
    fabric, jobs = programs(text(system), counted)
    for size, packets in ((4, 1), (52, 4), (53, 5)):  # beside 12 words, 16 in a packet
        before = counted.sent["h1", True]
        given = draw(size, size, np.int32)
        for found in called(jobs, "allreduce", given):
            np.testing.assert_array_equal(found, sum(given))
        if system != "ring":
            assert counted.sent["h1", True] - before == packets
