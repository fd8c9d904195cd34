"""Seeds of gradings: repeatable, different for everybody, and of no use when seen."""

from __future__ import annotations

import math
import statistics

import pytest
from p4fabric.base.errors import UserError

from labs.grader.seeds import Seed, Stream, read_secret

SECRET = b"a secret that nobody guesses"


def test_a_stream_repeats_and_differs_by_its_key():
    first, again, other = Stream("a"), Stream("a"), Stream("b")
    made = [[s.getrandbits(64) for _ in range(50)] for s in (first, again, other)]
    assert made[0] == made[1] != made[2]


def test_a_stream_is_even():
    stream = Stream("x")
    values = [stream.random() for _ in range(4000)]
    assert min(values) >= 0 and max(values) < 1
    assert math.isclose(statistics.mean(values), 0.5, abs_tol=0.02)
    gauss = [stream.gauss(0, 1) for _ in range(4000)]
    assert math.isclose(statistics.stdev(gauss), 1, abs_tol=0.05)
    counts = [sum(stream.randrange(7) == n for _ in range(700)) for n in range(7)]
    assert min(counts) > 60


def test_the_state_of_pythons_generator_gives_nothing_away():
    """Whoever has seen 624 numbers of a Mersenne twister knows all that follow."""
    stream = Stream("x")
    assert [stream.getrandbits(32) for _ in range(700)] != [
        Stream("y").getrandbits(32) for _ in range(700)
    ]
    before = stream.getstate()
    stream.getrandbits(32)
    assert stream.getstate() == before, "its numbers do not come from there"


def test_a_hidden_key_depends_on_all_that_it_should():
    key = Seed(student="ada", secret=SECRET).key("lab2")
    assert key == Seed(student="ada", secret=SECRET).key("lab2")
    others = [
        Seed(student="eve", secret=SECRET).key("lab2"),
        Seed(student="ada", secret=SECRET + b"!").key("lab2"),
        Seed(student="ada", secret=SECRET).key("lab3"),
        Seed(student="ada", secret=SECRET).common_key("lab2"),
        Seed(7, "ada").key("lab2"),
    ]
    assert key not in others and len(set(others)) == len(others)


def test_practice_is_the_same_for_all():
    assert Seed(7, "ada").key("lab2") == Seed(7, "eve").key("lab2")


def test_a_secret_that_could_be_guessed_is_refused(tmp_path):
    (tmp_path / "short").write_text("2026\n")
    with pytest.raises(UserError, match="at least 16 characters; make one: head"):
        read_secret(tmp_path / "short")
    with pytest.raises(UserError, match="No such file"):
        read_secret(tmp_path / "none")
