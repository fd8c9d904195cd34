"""A server's knowledge of the workers' progress."""

import numpy as np
import pytest

from testbed.protocols import progress, wire


def packet(*workers, words=2):
    row = np.zeros(wire.HEADER_WORDS + words + 4, np.uint32)
    for worker in workers:
        wire.set_worker(row, words, worker)
    bits = sum(1 << worker for worker in workers)
    for word in range(words):
        value = np.uint32(bits >> 32 * (words - 1 - word) & 0xFFFFFFFF)
        row[wire.HEADER_WORDS + word] = wire.swap(value)
    return row


def new(workers=3):
    made = progress.new_progress(np.array([0, 4, 20]), workers)
    progress.begin(made)
    return made


def test_a_fragment_that_all_have_sent_is_named_once():
    p = new()
    assert progress.note(p, 4, packet(0), 2) == (4, 4)
    assert progress.note(p, 9, packet(0, 1), 2) == (4, 4)
    assert progress.note(p, 6, packet(2), 2) == (4, 7)
    assert progress.note(p, 6, packet(1, 2), 2) == (7, 7)
    assert progress.note(p, 19, packet(0, 1, 2), 2) == (7, 20)


def test_tensors_are_apart():
    p = new()
    assert progress.note(p, 2, packet(0, 1, 2), 2) == (0, 3)
    assert progress.note(p, 4, packet(0, 1), 2) == (4, 4)


@pytest.mark.parametrize("last", [0, 31, 32, 39])
def test_workers_beyond_one_word(last):
    p = new(workers=40)
    others = [worker for worker in range(40) if worker != last]
    assert progress.note(p, 5, packet(*others), 2) == (4, 4)
    assert progress.note(p, 5, packet(last), 2) == (4, 6)


def test_an_iteration_begins_with_nothing_sent():
    p = new()
    progress.note(p, 19, packet(0, 1, 2), 2)
    progress.put(p, 3)
    p.state.head = 1  # it has been pulled
    progress.begin(p)
    assert p.state.tolist() == (0, 0)
    assert progress.note(p, 4, packet(0, 1, 2), 2) == (4, 5)
