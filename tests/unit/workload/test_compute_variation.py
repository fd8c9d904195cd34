"""Compute times that differ between workers and iterations: within their bounds, and repeatable."""

from __future__ import annotations

from testbed.workload.training import varied

HOUR = 3600 * 10**9


def test_no_share_no_change():
    assert varied(12345, 7, 1, 0) == 12345


def test_durations_stay_within_their_share():
    for duration in (1, 999, 10**6, HOUR // 2):
        for share in (1, 200_000, 990_000):
            found = [varied(duration, 5, number, share) for number in range(200)]
            most = duration * share // 1_000_000
            assert min(found) >= duration - most
            assert max(found) <= duration + most
            if most > 100:
                assert len(set(found)) > 100
                assert abs(sum(found) / 200 - duration) < most / 5


def test_streams_and_draws_differ():
    draws = {varied(10**9, stream, number, 10**5) for stream in range(20) for number in range(20)}
    assert len(draws) > 395
