"""Index of the aggregator that a fragment asks for."""

from __future__ import annotations

import numpy as np
import pytest

from testbed.protocols.esa import CONSECUTIVE, HASH, index_of, salt_of, start_of

POOL = 97


def indices(mode: int, job: int, count: int = 200, pool: int = POOL, seed: int = 1) -> np.ndarray:
    start = start_of(mode, salt_of(seed, job), pool)
    return np.array([index_of(mode, pool, start, fragment) for fragment in range(count)])


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


@pytest.mark.parametrize("mode", [CONSECUTIVE, HASH])
def test_how_jobs_lie_to_each_other_is_drawn_for_each_run(mode):
    """Whether two jobs share an aggregator depends neither on their numbers nor on their order."""
    met = {
        seed: [
            int((indices(mode, a, 1, 8, seed) == indices(mode, b, 1, 8, seed))[0])
            for a in range(6)
            for b in range(a)
        ]
        for seed in range(60)
    }
    by_pair = np.array(list(met.values())).mean(axis=0)
    assert (by_pair > 0).all() and (by_pair < 0.35).all()  # expected: 1/8 of the runs


def test_indices_are_the_same_in_every_version():
    """Results of virtual time depend on them."""
    pool = 1 << 32
    salts = [salt_of(seed, job) for seed, job in ((1, 0), (1, 1), (2, 0))]
    assert salts == [4206934111, 2025698688, 1363392985]
    start = start_of(HASH, salts[0], pool)
    assert [index_of(HASH, pool, start, fragment) for fragment in (0, 1)] == [
        3181942871,
        2767477822,
    ]
    start = start_of(CONSECUTIVE, salts[0], pool)
    assert [index_of(CONSECUTIVE, pool, start, f) for f in (0, 5)] == [salts[0], salts[0] + 5]


def test_in_a_scaled_pool_jobs_lie_to_each_other_as_in_the_whole_one():
    for job in range(20):
        salt = salt_of(1, job)
        whole = start_of(CONSECUTIVE, salt, 256)
        assert abs(start_of(CONSECUTIVE, salt, 32, 256) - whole / 8) < 1
        assert start_of(CONSECUTIVE, salt, 256, 256) == whole
