"""Random draws of a job mix, and the lines of its CSV file."""

from __future__ import annotations

import math

import pytest

from testbed.traffic.arrivals import kinds, lengths, poisson, read_mix, sizes
from testbed.traffic.draws import Stream


def test_gaps_are_exponential():
    stream = Stream(3, 0)
    drawn = [stream.exponential(10**6) for _ in range(20_000)]
    assert sum(drawn) / len(drawn) == pytest.approx(10**6, rel=0.03)
    for share in (0.1, 0.5, 0.9, 0.99):
        within = sum(each <= -(10**6) * math.log(1 - share) for each in drawn) / len(drawn)
        assert within == pytest.approx(share, abs=0.01)


def test_draws_are_the_same_everywhere():
    # Whole-number and decimal arithmetic alone, so these numbers hold on any machine.
    assert poisson(1, 5, 1_000_000) == [0, 151231, 382317, 1083334, 1178118]
    assert kinds(1, 12, [1, 3]) == [1, 1, 1, 1, 0, 1, 1, 1, 1, 0, 0, 0]
    assert lengths(1, [(4, 400, 1.1)] * 6) == [6, 4, 9, 41, 15, 7]
    assert Stream(7, 1).sample(list("abcdef"), 4) == ["f", "d", "e", "b"]


def test_streams_do_not_shift_each_other():
    assert poisson(1, 10, 1000)[:5] == poisson(1, 5, 1000)
    assert poisson(1, 50, 1000) != poisson(2, 50, 1000)
    drawn = kinds(1, 4000, [1, 3])
    assert sum(drawn) / 4000 == pytest.approx(0.75, abs=0.03)


def test_equal_jobs_are_drawn_once(monkeypatch):
    drawn = []

    def counted(stream, *given):
        drawn.append(given)
        return pareto(stream, *given)

    pareto = Stream.pareto
    monkeypatch.setattr(Stream, "pareto", counted)
    first = lengths(77, [(4, 400, 1.1)] * 3)
    first.append(0)  # the caller's own list
    assert lengths(77, [(4, 400, 1.1)] * 3) == first[:3]
    assert len(drawn) == 3
    assert lengths(78, [(4, 400, 1.1)] * 3) != first[:3]
    assert len(drawn) == 6


def test_lengths_are_heavy_tailed():
    for tail in (0.5, 1.0, 2.0):
        drawn = lengths(5, [(1, 99, tail)] * 4000)
        assert min(drawn) == 1 and max(drawn) <= 99
        for n in (2, 5, 20):  # the bounded Pareto distribution on 1 to 100
            longer = (n**-tail - 100**-tail) / (1 - 100**-tail)
            assert sum(each >= n for each in drawn) / 4000 == pytest.approx(longer, abs=0.025)
    drawn = lengths(5, [(1, 99, 0.0)] * 4000)
    assert sum(each >= 10 for each in drawn) / 4000 == pytest.approx(0.5, abs=0.025)
    assert lengths(5, [(7, 7, 1.0)] * 3) == [7, 7, 7]


def test_sizes_are_halved_with_each_doubling():
    drawn = sizes(2, [(2, 4, 8)] * 4000)
    shares = [drawn.count(each) / 4000 for each in (2, 4, 8)]
    assert shares == pytest.approx([4 / 7, 2 / 7, 1 / 7], abs=0.025)


def test_lines_of_a_mix(tmp_path):
    path = tmp_path / "mix.csv"
    path.write_text('a, b\n1, "x, y"\n , z\n')
    assert [(line.number, line.cells) for line in read_mix(path)] == [
        (2, {"a": "1", "b": "x, y"}),
        (3, {"b": "z"}),
    ]
