"""Times that a host takes with frames that arrive at a link's full rate: range, mean, deviation and
the duration of a delay, measured as a run computes them."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit
from p4fabric.simulate import loop
from p4fabric.simulate.state import HOST

from testbed.experiment import load_text
from testbed.schemes import platform_of
from testbed.simulate.world import _delays

FRAME_PS = 25_600  # 320 bytes at 100 Gbit/s
TEXT = """
name: delays
runtime: virtual
topology: {kind: star, hosts: 3}
system: esa
memory: {aggregators: 8}
jobs: [{model: resnet50, scale: 0.001, workers: 2, iterations: 1}]
"""


def delays(virtual="", frames=200_000, stream=77, worker=True, frame_ps=FRAME_PS):
    """The delay of each of so many frames that arrive one behind the other; int64 ns."""
    rows = np.zeros(1, HOST)
    rows["stream"] = stream
    platform = platform_of(load_text(TEXT + virtual))
    _delays(platform, "worker" if worker else "server", rows[0])
    arrivals = 1000 + np.arange(frames) * frame_ps // 1000
    handled = np.zeros(frames, np.int64)
    _handle(rows, arrivals, handled)
    assert (np.diff(handled) >= 0).all()  # in order
    return handled - arrivals


@njit
def _handle(rows, arrivals, handled):
    for i in range(arrivals.size):
        handled[i] = loop._handling_ns(rows[0], arrivals[i])


def correlation(values, lag_ns, frame_ps=FRAME_PS):
    lag = lag_ns * 1000 // frame_ps
    return np.corrcoef(values[:-lag], values[lag:])[0, 1]


def test_at_line_rate_a_delay_has_the_range_mean_and_deviation_that_its_keys_say():
    """Uniform from 0.5 to 3 us: mean 1.75, deviation 1.25 / sqrt 3 = 0.72 us. Order adds a little
    where a delay follows a longer one: a frame waits for those before it."""
    for worker in (True, False):
        found = np.concatenate([delays(stream=stream, worker=worker) for stream in (7, 8, 9)])
        assert found.min() < 520 and 2980 < found.max() <= 3000
        assert found.mean() == pytest.approx(1776, abs=60)
        assert found.std() == pytest.approx(715, abs=30)


def test_a_delay_lasts_as_long_as_its_key_says():
    found = delays()  # eight times the jitter: 10 us
    for lag_us, expected in ((1, 0.9), (2, 0.8), (5, 0.5), (10, 0), (15, 0)):
        assert correlation(found, lag_us * 1000) == pytest.approx(expected, abs=0.1), lag_us
    found = delays("virtual: {worker_jitter_time: 40 us}\n", frames=600_000)
    for lag_us, expected in ((10, 0.75), (20, 0.5), (40, 0)):
        assert correlation(found, lag_us * 1000) == pytest.approx(expected, abs=0.1), lag_us


def test_delays_drawn_for_each_frame_are_nearly_constant_at_line_rate():
    """Each frame waits for the longest delay of the hundred before it."""
    found = delays("virtual: {worker_jitter_time: 0}\n")
    assert found.mean() == pytest.approx(2710, abs=20)
    assert found.std() == pytest.approx(160, abs=20)


def test_rare_frames_have_independent_delays_either_way():
    for virtual in ("", "virtual: {worker_jitter_time: 0}\n"):
        found = delays(virtual, frames=20_000, frame_ps=256_000_000)
        assert found.mean() == pytest.approx(1750, abs=25)
        assert found.std() == pytest.approx(722, abs=15)
        assert abs(correlation(found, 256_000, 256_000_000)) < 0.03


def test_hosts_change_their_delays_at_different_times():
    changes = []
    for stream in range(1, 9):
        found = delays(frames=1500, stream=stream * 1_234_567)
        changes.append(int(np.flatnonzero(np.abs(np.diff(found)) > 60)[0]))
    assert len(set(changes)) > 4


def test_without_jitter_the_delay_is_constant():
    found = delays("virtual: {worker_jitter: 0}\n", frames=1000)
    assert set(found.tolist()) == {1750}
