"""Order in which a worker sends fragments: the next one, window and retransmissions."""

import numpy as np
import pytest

from testbed.protocols import send_scoreboard
from testbed.protocols.sizes import fragments_of


def sent_until_blocked(scoreboard, window, now=0):
    out = []
    while (fragment := int(send_scoreboard.next_fragment(scoreboard, window))) >= 0:
        send_scoreboard.mark_sent(scoreboard, fragment, now, 1000)
        out.append(fragment)
    return out


def new(sizes, order=send_scoreboard.FRONT, values=4, iterations=2, window=8, span=0):
    scoreboard = send_scoreboard.new_scoreboard(sizes, values, iterations, order, window, span)
    send_scoreboard.begin(scoreboard, 0)
    return scoreboard


def overtaking(window, span=0):
    """The rear, fragments 20 to 59, has used the window up when the front, 0 to 19, becomes ready;
    then the results of 20 and 0 come."""
    scoreboard = new([80, 160], window=window, span=span)
    send_scoreboard.make_ready(scoreboard, 1, 0)
    assert sent_until_blocked(scoreboard, window) == list(range(20, 20 + window))
    send_scoreboard.make_ready(scoreboard, 0, 0)
    assert sent_until_blocked(scoreboard, window) == []
    send_scoreboard.mark_received(scoreboard, 20, 0)
    assert sent_until_blocked(scoreboard, window) == [0]
    send_scoreboard.mark_received(scoreboard, 0, 0)
    return scoreboard


def test_fragments_round_up_per_tensor():
    assert fragments_of([1, 4, 5, 64], 4).tolist() == [0, 1, 2, 4, 20]


def test_probes_go_before_what_is_under_way_and_the_rest_when_all_workers_have_the_tensor():
    scoreboard = new([40, 80], window=9)
    send_scoreboard.make_ready(scoreboard, 1, 0)
    assert sent_until_blocked(scoreboard, 6) == [10, 11, 12, 13, 14, 15]
    send_scoreboard.mark_received(scoreboard, 10, 1)
    send_scoreboard.make_ready(scoreboard, 0, 2)
    assert sent_until_blocked(scoreboard, 7) == [0, 1]  # as far as the window goes
    assert sent_until_blocked(scoreboard, 12) == [
        2,
        3,
        16,
        17,
        18,
    ]  # four probes, then the rear again
    send_scoreboard.mark_received(
        scoreboard, 0, 3
    )  # all have it: the rear stops a window after its first result
    assert scoreboard.stop[1] == 20
    assert sent_until_blocked(scoreboard, 30) == [19, *range(4, 10), *range(20, 30)]


def test_a_stop_stays_where_the_first_result_has_put_it():
    scoreboard = new([40, 80], window=8)
    send_scoreboard.make_ready(scoreboard, 1, 0)
    send_scoreboard.make_ready(scoreboard, 0, 0)
    sent_until_blocked(scoreboard, 30)
    for fragment in (10, 0):
        send_scoreboard.mark_received(scoreboard, fragment, 0)
    assert scoreboard.stop[1] == 19
    sent_until_blocked(scoreboard, 40)
    for fragment in (*range(11, 25), 1, 2):
        send_scoreboard.mark_received(scoreboard, fragment, 0)
    assert scoreboard.furthest[1] > scoreboard.stop[1] == 19


def test_the_front_has_a_part_of_the_window_of_its_own():
    scoreboard = overtaking(16)
    # Of the rear, as much as before is in flight; of the front, an eighth of the window.
    assert sent_until_blocked(scoreboard, 16) == [36, 1, 2]


def test_with_a_span_the_oldest_fragment_without_a_result_stops_the_window():
    for order in (send_scoreboard.FIFO, send_scoreboard.FRONT):
        for span, more in ((6, []), (0, [16, 17, 18])):
            scoreboard = new([40, 80], order=order, window=6, span=span)
            send_scoreboard.make_ready(scoreboard, 1, 0)
            assert sent_until_blocked(scoreboard, 6) == [10, 11, 12, 13, 14, 15]
            for fragment in (11, 13, 14):
                send_scoreboard.mark_received(scoreboard, fragment, 0)
            assert sent_until_blocked(scoreboard, 6) == more
            send_scoreboard.mark_received(scoreboard, 10, 0)
            following = 16 + len(more)
            assert sent_until_blocked(scoreboard, 6)[0] == following
            # Behind 12, which has no result: six places in its order of sending, or in flight.
            last = int(scoreboard.unsent[1]) - 1
            assert last == (17 if span else 19)


def test_fragments_that_not_all_workers_have_stay_within_the_window():
    scoreboard = new([40, 40, 40], window=6)
    for tensor in (2, 1, 0):
        send_scoreboard.make_ready(scoreboard, tensor, 0)
    # The one that was ready first probes first: a slower worker will have it before the others.
    assert sent_until_blocked(scoreboard, 6) == [20, 21, 22, 23, 10, 11]
    send_scoreboard.mark_received(scoreboard, 20, 0)
    assert sent_until_blocked(scoreboard, 6) == [12]


def test_marks_leave_the_front_its_part():
    """Fragments that wait for another worker may fill a window that marks have cut to one
    fragment."""
    scoreboard = overtaking(16)
    finishing = sent_until_blocked(scoreboard, 1)
    assert finishing[-2:] == [1, 2]  # an eighth of 16
    send_scoreboard.mark_received(scoreboard, 21, 0)  # of the rear: that is no room for the front
    assert sent_until_blocked(scoreboard, 1) == []


def test_what_comes_to_a_stop_has_a_part_of_a_small_window_too():
    scoreboard = overtaking(16)
    for fragment in range(21, 34):
        send_scoreboard.mark_received(scoreboard, fragment, 0)
    # 34 and 35 are in flight, an eighth of 16, so 36 waits; the front has a part of its own.
    assert send_scoreboard.next_fragment(scoreboard, 1) == 1
    send_scoreboard.mark_received(scoreboard, 34, 0)
    assert send_scoreboard.next_fragment(scoreboard, 1) == 36


def test_a_span_counts_in_the_order_of_sending():
    """Probes of another tensor are places like any others."""
    scoreboard = new([40, 80], window=8, span=8)
    send_scoreboard.make_ready(scoreboard, 1, 0)
    assert sent_until_blocked(scoreboard, 4) == [10, 11, 12, 13]
    send_scoreboard.make_ready(scoreboard, 0, 0)
    assert sent_until_blocked(scoreboard, 8) == [0, 1, 2, 3]
    for fragment in (11, 12, 13):
        send_scoreboard.mark_received(scoreboard, fragment, 0)
    assert sent_until_blocked(scoreboard, 8) == []
    send_scoreboard.mark_received(scoreboard, 10, 0)
    assert sent_until_blocked(scoreboard, 8) == [14, 15, 16, 17]


def test_a_span_leaves_the_front_its_part():
    scoreboard = overtaking(16, span=16)
    # 21 has no result and the span is used up; an eighth of the window is left to the front.
    assert sent_until_blocked(scoreboard, 16) == [1, 2]


def test_what_has_no_result_yet_gets_no_stop():
    scoreboard = new([40, 80], window=8)
    for tensor in (1, 0):
        send_scoreboard.make_ready(scoreboard, tensor, 0)
    sent_until_blocked(scoreboard, 30)
    send_scoreboard.mark_received(scoreboard, 0, 0)
    assert scoreboard.stop[1] == scoreboard.first[1] == 10


@pytest.mark.parametrize("window", [7, 8])
def test_the_fronts_part_is_at_least_one(window):
    scoreboard = overtaking(window)
    # The rear has used the window up again; a part of it is left to the front.
    assert sent_until_blocked(scoreboard, window) == [20 + window, 1]


def test_a_span_of_one_waits_for_each_result():
    scoreboard = new([40], window=8, span=1)
    send_scoreboard.make_ready(scoreboard, 0, 0)
    for fragment in range(5):
        assert sent_until_blocked(scoreboard, 8) == [fragment]
        send_scoreboard.mark_received(scoreboard, fragment, 0)


def test_flights_are_used_again():
    scoreboard = new([4 * 1000])
    send_scoreboard.make_ready(scoreboard, 0, 0)
    for now in range(1000):
        fragment = int(send_scoreboard.next_fragment(scoreboard, 8))
        send_scoreboard.mark_sent(scoreboard, fragment, now, 50)
        assert send_scoreboard.sent_ns(scoreboard, fragment) == now
        if now >= 7:
            send_scoreboard.mark_received(scoreboard, fragment - 7, now)
        send_scoreboard.next_resend_ns(scoreboard)
    assert scoreboard.state.begun == 8
    assert sorted(scoreboard.flights["fragment"][:8]) == list(range(992, 1000))
    send_scoreboard.mark_sent_again(scoreboard, 995, 5000, 50)
    assert send_scoreboard.sent_ns(scoreboard, 995) == 5000


def test_more_timers_than_the_queue_has_places_for():
    """A fragment without a result keeps its place, while others come and go behind it."""
    scoreboard = new([4 * 2 * send_scoreboard.MAX_QUEUE])
    send_scoreboard.make_ready(scoreboard, 0, 0)
    send_scoreboard.mark_sent(scoreboard, 0, 0, 10**6)
    for now in range(1, 2 * send_scoreboard.MAX_QUEUE):
        send_scoreboard.mark_sent(scoreboard, now, now, 10**6)
        send_scoreboard.mark_received(scoreboard, now, now)
        assert send_scoreboard.next_resend_ns(scoreboard) == 10**6


def test_an_iteration_begins_as_if_there_had_been_none():
    scoreboard = new([40, 80, 4], window=6, span=6)
    for tensor in (2, 1, 0):
        send_scoreboard.make_ready(scoreboard, tensor, 0)
    while sent := sent_until_blocked(scoreboard, 6):
        for fragment in sent:
            send_scoreboard.mark_received(scoreboard, fragment, 0)
    assert scoreboard.state.unfinished == 0
    send_scoreboard.begin(scoreboard, 1)
    fresh = new([40, 80, 4], window=6, span=6)
    for name in ("status", "ready", "unsent", "missing", "oldest", "furthest", "stop", "inflight"):
        np.testing.assert_array_equal(getattr(scoreboard, name), getattr(fresh, name), name)
    kept = ("iteration", "row", "queue_due_ns")
    for name in scoreboard.state.dtype.names:
        assert name in kept or scoreboard.state[name] == fresh.state[name], name


@pytest.mark.parametrize("values, used", [(36, 9), (37, 10), (40, 10), (48, 12)])
def test_tensors_may_be_laid_out_as_one(values, used):
    """Three of four fragments each become one with fragments of four values."""
    scoreboard = new([16, 16, 16, 16])
    state = scoreboard.state
    scoreboard.first_sent_ns[0, 1] = scoreboard.done_ns[0, 1] = 5
    scoreboard.status[4:] = send_scoreboard.SENT
    send_scoreboard.lay_out(scoreboard, 1, 3, values)
    end = 4 + used
    assert (scoreboard.first[1], scoreboard.end[1], scoreboard.missing[1]) == (4, end, used)
    assert (
        scoreboard.tensor[4:16].tolist() == [1] * 12 and scoreboard.tensor[:4].tolist() == [0] * 4
    )
    sizes = [int(send_scoreboard.values_in(scoreboard, f)) for f in range(4, 16)]
    assert sum(sizes) == values and sizes == sorted(sizes, reverse=True)
    assert scoreboard.status[4:end].tolist() == [0] * used
    assert scoreboard.status[end:].tolist() == [send_scoreboard.RECEIVED] * (12 - used)
    assert scoreboard.ready.tolist() == [0, 0, 1, 1] and state.unfinished == 2
    assert scoreboard.end[2:].tolist() == [8, 12] and scoreboard.missing[2:].tolist() == [0, 0]
    assert scoreboard.first_sent_ns[0, 1] == scoreboard.done_ns[0, 1] == -1
    send_scoreboard.make_ready(scoreboard, 1, 0)
    seen, finished = [], False
    while sent := sent_until_blocked(scoreboard, 8):
        seen += sent
        for fragment in sent:
            finished = send_scoreboard.mark_received(scoreboard, fragment, 7)
    assert seen == list(range(4, end)) and not finished
    assert scoreboard.done_ns[0].tolist() == [-1, 7, -1, -1]
