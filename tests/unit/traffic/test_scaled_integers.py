"""Scaling a trace: at least one value per layer, an exact total, proportions kept."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from testbed.traffic.scaled_integers import scale_times, scale_values, share_out
from testbed.traffic.trace import Layer, Trace, TraceError, load_trace

SIZES = st.lists(st.integers(1, 10**9), min_size=1, max_size=60)
TIMES = st.lists(st.integers(0, 10**12), min_size=1, max_size=60)
SCALES = st.floats(1e-9, 4, allow_nan=False)


@given(SIZES, SCALES)
@example([1, 1, 1], 0.5)
@example([10**9] + [1] * 59, 1e-8)
@example([3, 1, 10**6, 1, 3], 0.4)
def test_values(sizes: list[int], scale: float) -> None:
    got = scale_values(sizes, scale)
    assert len(got) == len(sizes)
    assert min(got) >= 1
    assert sum(got) == max(len(sizes), round(scale * sum(sizes)))


@given(SIZES, SCALES)
def test_no_layer_overtakes_a_bigger_one(sizes: list[int], scale: float) -> None:
    got = scale_values(sizes, scale)
    pairs = sorted(zip(sizes, got, strict=True))
    for (small, few), (big, many) in zip(pairs, pairs[1:], strict=False):
        assert many >= few - 1 or small == big


@given(SIZES, SCALES)
def test_error_is_carried_along(sizes: list[int], scale: float) -> None:
    """If no layer has to be lifted to one value, every prefix is within one of its share."""
    total = round(scale * sum(sizes))
    if any(size * total < sum(sizes) for size in sizes):
        return
    got = scale_values(sizes, scale)
    for end in range(len(sizes) + 1):
        exact = total * sum(sizes[:end]) / sum(sizes)
        assert abs(sum(got[:end]) - exact) <= 0.5 + 1e-6 * exact


@given(SIZES)
def test_scale_one_changes_nothing(sizes: list[int]) -> None:
    assert scale_values(sizes, 1.0) == sizes


@given(TIMES, st.floats(0, 4, allow_nan=False))
def test_times(times: list[int], scale: float) -> None:
    got = scale_times(times, scale)
    assert sum(got) == round(scale * sum(times))
    assert min(got) >= 0
    assert all(new == 0 for new, old in zip(got, times, strict=True) if old == 0)


@given(st.integers(0, 10**15), st.lists(st.integers(0, 10**12), min_size=1, max_size=50))
def test_share_out(total: int, weights: list[int]) -> None:
    if not any(weights):
        return
    shares = share_out(total, weights)
    assert sum(shares) == total
    whole = sum(weights)
    for weight, part in zip(weights, shares, strict=True):
        assert abs(part * whole - total * weight) <= whole


def test_compute_scale_is_its_own() -> None:
    trace = load_trace("alexnet")
    assert trace.scaled(0.01, 1).forward_ns == trace.forward_ns
    assert trace.scaled(0.01, 1).values == 611_008
    still = trace.scaled(1, 0)
    assert still.values == trace.values and still.forward_ns == still.backward_ns == 0


@pytest.mark.parametrize("scale", [0, -1, float("nan"), float("inf")])
def test_bad_scale(scale: float) -> None:
    with pytest.raises(TraceError, match="alexnet: scale is .* must be above 0"):
        load_trace("alexnet").scaled(scale)


def test_bad_compute_scale() -> None:
    with pytest.raises(TraceError, match="compute_scale is -1"):
        load_trace("alexnet").scaled(1, -1)


def test_trace_without_compute_time_scales() -> None:
    layers = (Layer("a", ((4,),), 4, 0, 0), Layer("b", ((6,),), 6, 0, 0))
    trace = Trace("t", "t", layers, "computed", "none", ("test",), Path("t.csv"))
    assert [layer.values for layer in trace.scaled(0.5).layers] == [2, 3]
    assert trace.scaled(0.5).forward_ns == 0
