"""Arrays of programs, summed by the hosts' machines and the compiled P4 programs."""

from __future__ import annotations

import numpy as np
import pytest
from p4fabric_testing.matrix import first_of

from testbed.collective import CollectiveError
from tests.support.fabric import MS, lossy, total
from tests.support.programs import BLOCK, draw, programs, reference, sums, text

SYSTEMS = ["esa", "switchml", "ring", "atp", "ps", "grid"]


@pytest.mark.parametrize("system", first_of(SYSTEMS, 1))
def test_many_arrays_are_under_way_at_a_time(system):
    """More calls than a round has tensors, of all sizes; those of front layers are urgent."""
    _, jobs = programs(text(system), lossy(3, loss=0.01, reorder=0.02))
    random = np.random.default_rng(5)
    calls = [
        draw(i, int(size), np.int32 if i % 3 else np.float32)
        for i, size in enumerate(random.choice([1, 5, 60, 3000], 200, p=[0.3, 0.2, 0.4, 0.1]))
    ]
    handles = [
        [job.allreduce_async(arrays[rank], layer=200 - i) for i, arrays in enumerate(calls)]
        for rank, job in enumerate(jobs)
    ]
    for i, arrays in enumerate(calls):
        expected = np.sum(arrays, axis=0, dtype=np.int32) if i % 3 else reference(arrays)
        for rank in range(4):
            np.testing.assert_array_equal(handles[rank][i].wait(), expected)
    assert jobs[0]._link.host.machine.status["iterations"][0] >= 1, "it took a second round"


def test_mean_shape_and_place_of_the_result():
    _, jobs = programs(text("esa"))
    arrays = [array.reshape(3, 10) for array in draw(1, 30)]
    for found in sums(jobs, arrays, mean=True):
        assert found.shape == (3, 10)
        np.testing.assert_array_equal(
            found.reshape(-1), reference([array.reshape(-1) for array in arrays], 4)
        )
    shared = [job.empty((2, 8)) for job in jobs]
    for rank, array in enumerate(shared):
        array[:] = rank
    handles = [job.allreduce_async(a, out=a) for job, a in zip(jobs, shared, strict=True)]
    for handle, array in zip(handles, shared, strict=True):
        handle.wait()
        assert (array == 6).all()
    empty = [np.zeros((0, 3), np.float32) for _ in jobs]
    assert [found.shape for found in sums(jobs, empty)] == [(0, 3)] * 4


def test_what_is_not_finite_is_told(capsys):
    _, jobs = programs(text("esa"))
    arrays = [np.linspace(-1, 1, 2 * BLOCK).astype(np.float32) for _ in range(4)]
    arrays[0][3] = np.nan
    arrays[1][5] = np.inf
    arrays[2][7] = -np.inf
    arrays[0][9], arrays[3][9] = np.inf, -np.inf
    handles = [job.allreduce_async(array) for job, array in zip(jobs, arrays, strict=True)]
    for handle in handles:
        handle.wait()
        assert handle.rare_blocks == 1
    name = f"collective 1, allreduce of {2 * BLOCK} float32 values"
    line = f"ina: {name}: 4 values of the result are not finite, the first is nan at index 3"
    assert capsys.readouterr().err.splitlines() == 4 * [line]


@pytest.mark.parametrize("system", first_of(["esa", "switchml", "ring"], 1))
def test_different_arrays_are_one_clear_error_on_every_rank(system):
    _, jobs = programs(text(system))
    sums(jobs, draw(0, 4))
    handles = [
        job.allreduce_async(np.zeros(2000 if rank == 2 else 1000, np.float32))
        for rank, job in enumerate(jobs)
    ]
    said = set()
    for handle in handles:
        with pytest.raises(CollectiveError) as caught:
            handle.wait()
        said.add(str(caught.value))
    (only,) = said
    given = "allreduce of {} float32 values"
    assert f"ranks 0, 1, 3: {given.format(1000)}; rank 2: {given.format(2000)}" in only
    assert "collective 1" in only


def test_an_array_of_another_type_is_an_error_before_anything_is_sent():
    fabric, jobs = programs(text("esa"))
    with pytest.raises(TypeError, match="float64"):
        jobs[0].allreduce_async(np.zeros(3))
    with pytest.raises(TypeError, match="mean of int32"):
        jobs[0].allreduce_async(np.zeros(3, np.int32), mean=True)
    assert total(fabric.workers(), "gradient_packets") == 0


def test_a_rank_that_has_left_finishes_its_machine():
    fabric, jobs = programs(text("esa"))
    sums(jobs, draw(0, 100))
    for job in jobs:
        job.close()
    fabric.run()
    assert all(worker.finished() for worker in fabric.workers())
    with pytest.raises(CollectiveError, match="has left"):
        jobs[0].allreduce(np.zeros(1, np.int32))


@pytest.mark.parametrize("system", first_of(["esa", "grid"], 1))
def test_a_loss_costs_a_call_no_long_timer_once_losses_are_proven(system):
    """On a real clock a timer is 100 ms at least, in case a process stands still. Where packets are
    known to get lost, it is as short as what shows a gap (worker_state.timeout_ns)."""
    fabric, jobs = programs(text(system), lossy(3, loss=0.01))
    took = []
    for seed in range(12):
        begun = fabric.now
        sums(jobs, draw(seed, 4000, np.int32))
        took.append(fabric.now - begun)
    assert total(fabric.workers(), "retransmissions") > 20
    assert sorted(took)[len(took) // 2] < 60 * MS
