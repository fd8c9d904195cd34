"""Index of the aggregator that a fragment asks for."""

from __future__ import annotations

import numpy as np
import pytest

from testbed.protocols.esa import CONSECUTIVE, HASH, index_of, start_of

POOL = 97


def indices(mode: int, job: int, count: int = 200, pool: int = POOL) -> np.ndarray:
    start = start_of(job, pool)
    return np.array([index_of(mode, pool, start, job, fragment) for fragment in range(count)])


@pytest.mark.parametrize("mode", [CONSECUTIVE, HASH])
def test_every_index_is_in_the_pool_and_all_are_used(mode):
    found = indices(mode, 3, 2000)
    assert set(found) == set(range(POOL))


def test_consecutive_fragments_have_neighbouring_aggregators():
    for job in range(5):
        assert ((np.diff(indices(CONSECUTIVE, job)) - 1) % POOL == 0).all()


def test_each_job_starts_at_a_place_of_its_own():
    assert len({int(indices(CONSECUTIVE, job, 1, 2**32)[0]) for job in range(100)}) == 100


def test_hashed_fragments_collide_within_a_job_as_if_drawn():
    distinct = len(set(indices(HASH, 1, POOL)))
    assert 0.5 * POOL < distinct < 0.75 * POOL  # expected is 1 - 1/e of the pool
    assert (indices(HASH, 1) != indices(HASH, 2)).mean() > 0.9


def test_indices_are_the_same_in_every_version():
    """Results of virtual time depend on them."""
    assert [index_of(HASH, 1 << 32, 0, job, f) for job, f in ((0, 0), (0, 1), (1, 0))] == [
        33350994,
        2672842292,
        2988215890,
    ]
    start = start_of(0, 1 << 32)
    assert index_of(CONSECUTIVE, 1 << 32, start, 0, 0) == 2021333925
    assert index_of(CONSECUTIVE, 1 << 32, start, 0, 5) == 2021333930


def test_in_a_scaled_pool_jobs_lie_to_each_other_as_in_the_whole_one():
    for job in range(20):
        assert abs(start_of(job, 32, 256) - start_of(job, 256) / 8) < 1
        assert start_of(job, 256, 256) == start_of(job, 256)
