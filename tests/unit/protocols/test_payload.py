"""A worker's values in packets, and its check of sums: recorded gradients, and those of a program.

The scoreboard has three tensors of two fragments of four values, of which the last one of each is
short. A program's tensors are blocks of such a size."""

from __future__ import annotations

import numpy as np
import pytest

from testbed.protocols import given, payload, send_scoreboard, wire
from testbed.protocols.given import FIXED, ROUNDED, SCALED, WHOLE
from tests.support.one_host import BASE, OneWorker

VALUES, FRAGMENTS = 4, 6
SIZES = [7, 6, 5]
FLOAT = send_scoreboard.FLOAT
ARENA = 100
SOURCE, TARGET = (10, 20, 30), (50, 60, 70)


def scoreboard_at(iteration: int):
    made = send_scoreboard.new_scoreboard(SIZES, VALUES, 8, send_scoreboard.FRONT, 8, 0)
    send_scoreboard.begin(made, iteration)
    return made


def packet(*numbers: float) -> np.ndarray:
    """A packet with these values, from word BASE on."""
    kind = np.float32 if any(isinstance(n, float) for n in numbers) else np.int32
    row = np.full(BASE + VALUES, 0xDEADBEEF, np.uint32)
    row[BASE:] = np.array(numbers, kind).view(np.uint32).byteswap()
    return row


def values_in(row: np.ndarray, kind=np.int32) -> list:
    assert row[:BASE].tolist() == [0xDEADBEEF] * BASE
    return row[BASE:].byteswap().view(kind).tolist()


@pytest.fixture
def worker():
    return OneWorker("esa", window=6).worker


# ---- recorded ----


def with_recorded(worker, iterations: int):
    """Values 100 i + place, whose sums are 1000 i + place."""
    places = np.arange(FRAGMENTS * VALUES, dtype=np.int32)
    own = np.stack([100 * (i + 1) + places for i in range(iterations)])
    return worker._replace(recorded=own, sums=np.stack([own[i] * 10 for i in range(iterations)]))


@pytest.mark.parametrize("iterations", [1, 3])
@pytest.mark.parametrize("iteration", [0, 2, 4])
def test_recorded_values_are_those_of_the_iteration(worker, iterations, iteration):
    worker = with_recorded(worker, iterations)
    base = 100 * (iteration % iterations + 1)
    scoreboard = scoreboard_at(iteration)
    for fragment, expected in ((2, [8, 9, 10, 11]), (3, [12, 13, None, None])):
        numbers = [0 if place is None else base + place for place in expected]
        row = packet(1, 2, 3, 4)
        payload.write_values(worker, scoreboard, row, BASE, fragment)
        assert values_in(row) == numbers
        total = [10 * number for number in numbers]
        before = int(worker.counters[0].values_checked)
        assert payload.check_values(worker, scoreboard, packet(*total), BASE, fragment, 0)
        checked = int(worker.counters[0].values_checked) - before
        assert checked == sum(place is not None for place in expected)
    assert worker.status[0].failed == 0


def test_recorded_values_of_16_bits_are_rounded(worker):
    recorded, scoreboard = with_recorded(worker, 1), scoreboard_at(0)
    for short in (0, 1):
        worker.config.rounds = short
        assert bool(payload.flags_of(recorded, scoreboard, 0) & wire.ROUND) is bool(short)
        assert payload.flags_of(worker, scoreboard, 0) == 0  # generated values fit


def test_without_sums_in_floats_no_result_in_floats_is_right(worker):
    assert not payload.check_floats(worker, scoreboard_at(2), packet(1.0, 0.0, 0.0, 0.0), BASE, 3)
    status = worker.status[0]
    assert (status.failed, status.iteration, status.fragment, status.position) == (1, 2, 3, 0)
    assert status.found == np.float32(1.0).view(np.int32)


# ---- of a program ----


def with_given(worker, form: int):
    words = np.zeros(ARENA, np.int32)
    made = given.new_given(3, 3, 3, fixed_scale=10, value_bits=16)
    made = made._replace(words=words, numbers=words.view(np.float32))
    made.source[:], made.target[:], made.form[:] = SOURCE, TARGET, form
    made.scale[:], made.counter[:], made.left[:] = 10.0, (0, 1, 2), 5
    made.fixed[1] = 250
    return worker._replace(given=made)


def test_a_programs_values_are_those_of_its_blocks(worker):
    worker, scoreboard = with_given(worker, WHOLE), scoreboard_at(1)
    worker.given.words[:] = np.arange(ARENA)
    for fragment, expected in ((2, [20, 21, 22, 23]), (3, [24, 25, 0, 0]), (5, [34, 0, 0, 0])):
        row = packet(1, 2, 3, 4)
        payload.write_values(worker, scoreboard, row, BASE, fragment)
        assert values_in(row) == expected


def test_sums_go_back_to_the_program(worker):
    worker, scoreboard = with_given(worker, WHOLE), scoreboard_at(1)
    assert payload.check_values(worker, scoreboard, packet(1, 2, 3, 4), BASE, 2, 0)
    assert payload.check_values(worker, scoreboard, packet(5, 6, 0, 0), BASE, 3, 0)
    assert worker.given.words[60:66].tolist() == [1, 2, 3, 4, 5, 6]
    assert worker.given.words.sum() == 21
    assert worker.given.left.tolist() == [5, 3, 5]
    assert worker.counters[0].values_checked == 6 and worker.status[0].failed == 0


def test_a_program_may_have_one_block(worker):
    made = given.new_given(1, 1, 3)._replace(words=np.arange(ARENA, dtype=np.int32))
    made.source[:], made.target[:] = 10, 50
    worker = worker._replace(given=made)
    scoreboard = send_scoreboard.new_scoreboard([7], VALUES, 8, send_scoreboard.FRONT, 8, 0)
    send_scoreboard.begin(scoreboard, 0)
    row = packet(1, 2, 3, 4)
    payload.write_values(worker, scoreboard, row, BASE, 1)
    assert values_in(row) == [14, 15, 16, 0]
    assert payload.check_values(worker, scoreboard, packet(7, 8, 9, 0), BASE, 1, 0)
    assert made.words[54:57].tolist() == [7, 8, 9]
    assert payload.check_floats(worker, scoreboard, packet(7, 8, 9, 0), BASE, 0)
    assert worker.status[0].failed == 0
    assert payload.flags_of(worker, scoreboard, 1) == 0
    made.form[:] = ROUNDED
    assert payload.flags_of(worker, scoreboard, 1) == wire.ROUND


def test_sums_in_floats_go_back_to_the_program(worker):
    worker, scoreboard = with_given(worker, FIXED), scoreboard_at(1)
    assert payload.check_floats(worker, scoreboard, packet(1.5, -2.5, 0.0, 0.0), BASE, 3)
    assert worker.given.numbers[64:66].tolist() == [1.5, -2.5]
    assert worker.given.left.tolist() == [5, 4, 5]
    assert worker.counters[0].values_checked == 2 and worker.status[0].failed == 0


def test_a_programs_values_go_as_floats_where_one_does_not_fit(worker):
    worker, scoreboard = with_given(worker, FIXED), scoreboard_at(0)
    worker.given.numbers[20:26] = [1.0, 2.0, 3.0, 4.0, 5.0, 26.0]
    worker.given.numbers[26:30] = 1e9  # behind the block's values
    goes = [bool(payload.goes_as_floats(worker, scoreboard, fragment)) for fragment in (2, 3)]
    assert goes == [False, True]
    row = packet(1, 2, 3, 4)
    payload.write_floats(worker, scoreboard, row, BASE, 3)
    assert values_in(row, np.float32) == [5.0, 26.0, 0.0, 0.0]
    scoreboard.status[2] |= FLOAT  # another worker's does not fit
    assert payload.goes_as_floats(worker, scoreboard, 2)
    scoreboard.status[2] = send_scoreboard.SENT
    assert not payload.goes_as_floats(worker, scoreboard, 2)
    worker.given.form[1] = SCALED  # whose steps fit by construction
    assert not payload.goes_as_floats(worker, scoreboard, 3)


def test_only_steps_of_16_bits_are_rounded(worker):
    worker, scoreboard = with_given(worker, SCALED), scoreboard_at(0)
    worker.given.form[:] = SCALED, ROUNDED, WHOLE
    rounded = [bool(payload.flags_of(worker, scoreboard, f) & wire.ROUND) for f in range(FRAGMENTS)]
    assert rounded == [False, False, True, True, False, False]


def test_generated_values_never_go_as_floats(worker):
    scoreboard = scoreboard_at(0)
    scoreboard.status[0] |= FLOAT
    assert not payload.goes_as_floats(worker, scoreboard, 0)
