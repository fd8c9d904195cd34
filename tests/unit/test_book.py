"""The order and the window of fragments."""

import numpy as np

from testbed.protocols import book as bk
from testbed.protocols.sizes import fragments_of


def sent_until_blocked(book, window, now=0):
    out = []
    while (fragment := int(bk.next_fragment(book, window))) >= 0:
        bk.mark_sent(book, fragment, now, 1000)
        out.append(fragment)
    return out


def new(sizes, order=bk.FRONT, values=4, iterations=2):
    book = bk.new_book(sizes, values, iterations, order)
    bk.begin(book, 0)
    return book


def test_fragments_round_up_per_tensor():
    assert fragments_of([1, 4, 5, 64], 4).tolist() == [0, 1, 2, 4, 20]


def test_nothing_is_sent_before_it_is_ready():
    book = new([4, 4])
    assert sent_until_blocked(book, 8) == []
    bk.make_ready(book, 1, 5)
    assert sent_until_blocked(book, 8) == [1]
    assert book.ready_ns[0].tolist() == [-1, 5]


def test_front_tensor_overtakes():
    book = new([8, 40])
    bk.make_ready(book, 1, 0)
    assert sent_until_blocked(book, 3) == [2, 3, 4]
    bk.make_ready(book, 0, 0)
    assert sent_until_blocked(book, 3) == [0, 1]  # of its own credit: the rear fills none of it
    for fragment in (0, 1):
        bk.mark_received(book, fragment, 9)
    assert book.done_ns[0, 0] == 9
    assert sent_until_blocked(book, 3) == []  # three of the rear are still in flight
    bk.mark_received(book, 2, 9)
    assert sent_until_blocked(book, 3) == [5]


def test_fifo_sends_as_produced_under_one_window():
    book = new([8, 8], order=bk.FIFO)
    bk.make_ready(book, 1, 0)
    bk.make_ready(book, 0, 0)
    assert sent_until_blocked(book, 3) == [2, 3, 0]
    bk.mark_received(book, 2, 0)
    assert sent_until_blocked(book, 3) == [1]


def test_two_workers_with_other_readiness_do_not_dead_lock():
    """One has only the rear tensor ready, the other both: with a common window they would hold
    each other up for ever (the first full of rear, the second full of front fragments)."""
    books = [new([40, 40]), new([40, 40])]
    bk.make_ready(books[0], 1, 0)
    for tensor in (1, 0):
        bk.make_ready(books[1], tensor, 0)
    sent = [set(), set()]
    done = set()
    for step in range(200):
        if step == 50:
            bk.make_ready(books[0], 0, 0)
        for i in range(2):
            sent[i] |= set(sent_until_blocked(books[i], 2))
        for fragment in sorted((sent[0] & sent[1]) - done):
            done.add(fragment)
            for book in books:
                bk.mark_received(book, fragment, 0)
    assert len(done) == 20
    assert books[0].s[bk.UNFINISHED] == 0 and books[1].s[bk.UNFINISHED] == 0


def test_resend_comes_by_due_time_and_backs_off():
    book = new([16])
    bk.make_ready(book, 0, 0)
    for now in (0, 10, 20, 30):
        bk.mark_sent(book, int(bk.next_fragment(book, 9)), now, 100)
    assert bk.next_resend_ns(book) == 100
    bk.mark_received(book, 0, 50)
    assert bk.next_resend_ns(book) == 110
    assert bk.resend(book, 109, 100) == -1
    assert bk.resend(book, 110, 100) == 1
    assert book.due_ns[1] == 310
    assert bk.next_resend_ns(book) == 120
    for fragment in (1, 2, 3):
        finished = bk.mark_received(book, fragment, 130)
    assert finished and bk.next_resend_ns(book) == -1


def test_last_fragment_of_a_tensor_may_be_short():
    book = new([5, 8])
    assert [int(bk.values_in(book, f)) for f in range(4)] == [4, 1, 4, 4]
    assert isinstance(book.first, np.ndarray)


def test_a_first_timer_is_put_off_when_round_trips_have_grown():
    book = new([16])
    bk.make_ready(book, 0, 0)
    for now in (0, 10):
        bk.mark_sent(book, int(bk.next_fragment(book, 9)), now, 100)
    assert bk.resend(book, 115, 150) == -1
    assert [int(book.due_ns[fragment]) for fragment in (0, 1)] == [150, 160]
    assert bk.next_resend_ns(book) == 150
    assert bk.resend(book, 150, 150) == 0
    # What has been sent again keeps its time, whatever the round trips.
    due = int(book.due_ns[0])
    assert bk.resend(book, due, 10**9) == 0
