"""The order and the window of fragments."""

import numpy as np

from testbed.protocols import send_scoreboard as bk
from testbed.protocols.sizes import fragments_of


def sent_until_blocked(book, window, now=0):
    out = []
    while (fragment := int(bk.next_fragment(book, window))) >= 0:
        bk.mark_sent(book, fragment, now, 1000)
        out.append(fragment)
    return out


def new(sizes, order=bk.FRONT, values=4, iterations=2, window=8):
    book = bk.new_book(sizes, values, iterations, order, window)
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


def test_probes_go_before_what_is_under_way_and_the_rest_when_all_workers_have_the_tensor():
    book = new([40, 80], window=9)
    bk.make_ready(book, 1, 0)
    assert sent_until_blocked(book, 6) == [10, 11, 12, 13, 14, 15]
    bk.mark_received(book, 10, 1)
    bk.make_ready(book, 0, 2)
    assert sent_until_blocked(book, 7) == [0, 1]  # as far as the window goes
    assert sent_until_blocked(book, 12) == [2, 3, 16, 17, 18]  # four probes, then the rear again
    bk.mark_received(book, 0, 3)  # all have it: the rear stops a window after its first result
    assert book.stop[1] == 20
    assert sent_until_blocked(book, 30) == [19, *range(4, 10), *range(20, 30)]


def test_a_stop_is_the_same_whatever_a_worker_has_sent():
    stops = set()
    for sent in range(2, 8):
        book = new([40, 80])
        bk.make_ready(book, 1, 0)
        sent_until_blocked(book, sent)
        bk.make_ready(book, 0, 0)
        sent_until_blocked(book, sent + 4)
        for fragment in (10, 11, 0):
            bk.mark_received(book, fragment, 0)
        assert book.unsent[1] <= book.stop[1]
        stops.add(int(book.stop[1]))
    assert stops == {20}


def test_what_not_all_workers_have_stays_within_the_window():
    book = new([40, 40, 40], window=6)
    for tensor in (2, 1, 0):
        bk.make_ready(book, tensor, 0)
    # The one that was ready first probes first: a slower worker will have it before the others.
    assert sent_until_blocked(book, 6) == [20, 21, 22, 23, 10, 11]
    bk.mark_received(book, 20, 0)
    assert sent_until_blocked(book, 6) == [12]


def test_the_front_has_a_part_of_the_window_of_its_own():
    book = new([80, 160], window=16)
    bk.make_ready(book, 1, 0)
    assert len(sent_until_blocked(book, 16)) == 16
    bk.make_ready(book, 0, 0)
    assert sent_until_blocked(book, 16) == []
    bk.mark_received(book, 20, 0)
    assert sent_until_blocked(book, 16) == [0]
    bk.mark_received(book, 0, 0)
    # Of the rear, as much as before is in flight; of the front, an eighth of the window.
    assert sent_until_blocked(book, 16) == [36, 1, 2]


def test_marks_leave_the_front_its_part():
    """What waits for another worker may fill a window that marks have cut to one fragment."""
    book = new([80, 160], window=16)
    bk.make_ready(book, 1, 0)
    sent_until_blocked(book, 16)
    bk.make_ready(book, 0, 0)
    bk.mark_received(book, 20, 0)
    assert sent_until_blocked(book, 16) == [0]
    bk.mark_received(book, 0, 0)
    finishing = sent_until_blocked(book, 1)
    assert finishing[-2:] == [1, 2]  # an eighth of 16


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
    assert bk.resend(book, 109, 100, 7) == -1
    assert bk.resend(book, 110, 100, 7) == 1
    assert bk.next_resend_ns(book) == 117
    sent = [110]
    for _ in range(5):
        sent.append(int(bk.next_resend_ns(book)))
        if sent[-1] < 120:
            assert bk.resend(book, sent[-1], 100, 7) == 1
        else:
            break
    assert sent == [110, 117, 120]
    for fragment in (2, 3):
        bk.mark_received(book, fragment, 120)
    again = []
    for _ in range(4):
        again.append(int(bk.next_resend_ns(book)))
        assert bk.resend(book, again[-1], 100, 7) == 1
    assert again == [124, 138, 166, 222]
    finished = bk.mark_received(book, 1, 230)
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
    assert bk.resend(book, 115, 150, 150) == -1
    assert [int(book.due_ns[book.flight[fragment]]) for fragment in (0, 1)] == [150, 160]
    assert bk.next_resend_ns(book) == 150
    assert bk.resend(book, 150, 150, 20) == 0
    # What has been sent again does not wait for the longest of round trips.
    due = int(book.due_ns[book.flight[0]])
    assert due == 170
    assert bk.resend(book, due, 10**9, 20) == 0


def test_what_is_missed_is_due_soon_after_it_has_been_sent_again():
    book = new([32])
    bk.make_ready(book, 0, 0)
    for now in range(8):
        bk.mark_sent(book, int(bk.next_fragment(book, 9)), now, 1000)
    bk.mark_missed(book, 5, 90)
    assert bk.next_resend_ns(book) == 1000
    bk.mark_sent_again(book, 5, 100, 30)
    bk.mark_sent_again(book, 3, 110, 30)
    assert bk.resend(book, 130, 1000, 30) == 5
    assert bk.resend(book, 130, 1000, 30) == -1
    assert bk.resend(book, 140, 1000, 30) == 3
    # A timer that comes first stays.
    bk.mark_sent_again(book, 0, 999, 30)
    assert bk.next_resend_ns(book) == 160
    bk.mark_received(book, 5, 150)
    bk.mark_received(book, 3, 150)
    assert bk.next_resend_ns(book) == 1000
    assert bk.resend(book, 1000, 1000, 30) == -1
    assert bk.next_resend_ns(book) == 1001


def test_what_a_switch_refuses_again_and_again_still_comes_to_its_timer():
    book = new([16])
    bk.make_ready(book, 0, 0)
    bk.mark_sent(book, int(bk.next_fragment(book, 9)), 0, 100)
    for now in range(10, 100, 10):
        bk.mark_tried_again(book, 0, now)
        assert bk.resend(book, now, 100, 50) == -1
        assert bk.sent_ns(book, 0) == now
    assert bk.resend(book, 100, 100, 50) == 0
    for now in range(110, 150, 10):
        bk.mark_tried_again(book, 0, now)
        assert bk.resend(book, now, 100, 50) == -1
    assert bk.resend(book, 150, 100, 50) == 0


def test_flights_are_used_again():
    book = new([4 * 1000])
    bk.make_ready(book, 0, 0)
    for now in range(1000):
        fragment = int(bk.next_fragment(book, 8))
        bk.mark_sent(book, fragment, now, 50)
        assert bk.sent_ns(book, fragment) == now
        if now >= 7:
            bk.mark_received(book, fragment - 7, now)
        bk.next_resend_ns(book)
    assert book.s[bk.BEGUN] == 8
    assert sorted(book.fragment[:8]) == list(range(992, 1000))
    bk.mark_sent_again(book, 995, 5000, 50)
    assert bk.sent_ns(book, 995) == 5000
