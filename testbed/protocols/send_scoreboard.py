"""A worker's book of one iteration's fragments: what is ready, sent, received, and what comes next.

Every system with a window uses it. A gradient has T tensors, in forward order; tensor t is the
fragments first[t] .. first[t+1] - 1 of the iteration's F fragments.

Order. Backward makes tensors ready from the last to the first. With `fifo` order tensors are sent
as they became ready, with `front` order the front-most one first, since the next forward pass waits
for it.

A sum takes all workers, and workers differ in speed. A worker that turned to a tensor as soon as it
has it would send what slower ones cannot send yet, and be missing from what they still send: both
tensors would lie in the switch in parts and reach the server one worker at a time. So the workers
turn together, by what all of them see in the same order, the results:

- Of a tensor that has become ready a worker sends the first few fragments, its *probes*, and goes
  on with what it was at.
- The first result of a tensor says that all workers have it; it is then *shared*. The front-most
  shared tensor is sent before all others,
- but only after those that it overtakes have come to a *stop*, which is the same on all workers: so
  far that no worker can have sent more of them. Otherwise what some have sent and others have not
  would wait until all turn back.
- Where nothing shared is left to send, the tensor that has been ready for longest goes on.

Window. Front-first under one common window dead-locks: one worker fills its window with rear
tensors, another with front ones, and neither can send what the other waits for. So with front order
a part of the window is kept for what is urgent: when everything in flight fills the window, a
shared tensor may still send while the fragments in flight of equally or more urgent shared tensors
(`URGENT`) are less than that part, and so may a tensor that is to come to its stop. It is a part of
the whole window, whatever marks have left of it: fragments that wait for another worker may fill
all that is left. What is not shared has no such part; it goes out only while everything in flight
is within the window, the probes of the tensor that became ready first before others. So that one
becomes shared as soon as the slowest worker has it, and a fast worker does not fill the switch with
what must wait for that one. With fifo order all workers send in the same order, and everything in
flight counts.

Timers. Each fragment in flight has a *flight*: when it was sent, how often, and when it is due to
be sent again, which a heap orders. Flights are few and used again at once, so what is written for
every packet stays in the processor's cache; of a large model's millions of fragments each takes
five bytes. A flight ends when its timer is reached and the result is here.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from testbed.protocols import heap
from testbed.protocols.sizes import fragments_of

FRONT = 0
FIFO = 1

LONGEST_BACKOFF_NS = 500_000_000
EQUAL_RETRIES = 2
MOST_ATTEMPTS = 20  # that count for the backoff
PROBES = 4  # of a tensor; more than one, since one may get lost
SHARE_OF_URGENT = 8  # of the window is for urgent fragments whatever else is in flight
NONE = -1

# Places in Book.s
ITERATION = 0  # whose gradients are exchanged
CURSOR = 1  # tensor that is sent next unless the ones below go first; NONE if none is ready
URGENT = 2  # fragments in flight of shared tensors up to the cursor
UNFINISHED = 3  # tensors of this iteration without all results
TIMERS = 4  # entries in the heap: flights
ORDER = 5
TENSORS = 6
FRAGMENTS = 7  # per iteration
VALUES = 8  # per fragment
IN_FLIGHT = 9  # fragments, of all tensors
FRONT_MOST = 10  # of the tensors that are ready; their number if none is
PROBING = 11  # tensor whose probes are to be sent, or NONE
FINISHING = 12  # tensor that is to come to its stop, or NONE
WINDOW = 13
ENDED = 14  # entries in Book.ended
BEGUN = 15  # flights that have ever been used in this iteration
SCALARS = 16

# Bits of Book.status
SENT = 1
RECEIVED = 2
ASKED = 4  # the server has asked for it before it was sent
RESENT = 8
FLOAT = 16  # the server wants it as floating-point numbers


class Book(NamedTuple):
    """`s` int64[SCALARS]; T tensors, F fragments, I iterations; times in ns since the run's start,
    -1 for not yet. There is room for F flights, but memory only for as many as there are at a time:
    a page that nobody has written to takes none."""

    s: np.ndarray
    first: np.ndarray  # int64[T + 1]
    size: np.ndarray  # int64[T], values
    ready: np.ndarray  # uint8[T]
    unsent: np.ndarray  # int64[T], next fragment of the tensor to send
    missing: np.ndarray  # int64[T], results still to come
    oldest: np.ndarray  # int64[T], all fragments of the tensor before it have results
    furthest: np.ndarray  # int64[T], no fragment of the tensor from it on has a result
    stop: np.ndarray  # int64[T], fragments before it go before more urgent tensors
    inflight: np.ndarray  # int64[T]
    tensor: np.ndarray  # int16[F]
    status: np.ndarray  # uint8[F]
    flight: np.ndarray  # int32[F], of a fragment in flight
    fragment: np.ndarray  # int32[F], of a flight
    attempts: np.ndarray  # uint8[F], of a flight
    sent_ns: np.ndarray  # int64[F], last transmission of a flight
    armed_ns: np.ndarray  # int64[F], since when a flight's timer runs
    due_ns: np.ndarray  # int64[F], resend time of a flight
    timers: np.ndarray  # int32[F], heap of flights by due_ns
    ended: np.ndarray  # int32[F], flights to use again, the last one first
    ready_ns: np.ndarray  # int64[I, T]
    first_sent_ns: np.ndarray  # int64[I, T]
    done_ns: np.ndarray  # int64[I, T]


# Of Book, what is of flights.
FLIGHTS = ("fragment", "attempts", "sent_ns", "armed_ns", "due_ns", "timers", "ended")


def new_book(sizes: list[int], values: int, iterations: int, order: int, window: int) -> Book:
    """An empty book for tensors of `sizes` values, in fragments of `values` values, of which a
    worker has at most `window` in flight."""
    first = fragments_of(sizes, values)
    tensors, fragments = len(sizes), int(first[-1])
    s = np.zeros(SCALARS, np.int64)
    s[ITERATION] = -1
    s[ORDER] = order
    s[TENSORS] = tensors
    s[FRAGMENTS] = fragments
    s[VALUES] = values
    s[WINDOW] = window
    return Book(
        s=s,
        first=first,
        size=np.asarray(sizes, np.int64),
        ready=np.zeros(tensors, np.uint8),
        unsent=np.zeros(tensors, np.int64),
        missing=np.zeros(tensors, np.int64),
        oldest=np.zeros(tensors, np.int64),
        furthest=np.zeros(tensors, np.int64),
        stop=np.zeros(tensors, np.int64),
        inflight=np.zeros(tensors, np.int64),
        tensor=np.repeat(np.arange(tensors, dtype=np.int16), np.diff(first)),
        status=np.zeros(fragments, np.uint8),
        flight=np.zeros(fragments, np.int32),
        fragment=np.zeros(fragments, np.int32),
        attempts=np.zeros(fragments, np.uint8),
        sent_ns=np.zeros(fragments, np.int64),
        armed_ns=np.zeros(fragments, np.int64),
        due_ns=np.zeros(fragments, np.int64),
        timers=np.zeros(fragments, np.int32),
        ended=np.zeros(fragments, np.int32),
        ready_ns=np.full((iterations, tensors), -1, np.int64),
        first_sent_ns=np.full((iterations, tensors), -1, np.int64),
        done_ns=np.full((iterations, tensors), -1, np.int64),
    )


@njit(cache=True)
def begin(book, iteration):
    """Open the book of an iteration. The one before it must be finished."""
    s = book.s
    s[ITERATION] = iteration
    s[URGENT] = 0
    s[TIMERS] = 0
    s[ENDED] = 0
    s[BEGUN] = 0
    s[UNFINISHED] = s[TENSORS]
    s[CURSOR] = NONE
    s[IN_FLIGHT] = 0
    s[FRONT_MOST] = s[TENSORS]
    s[PROBING] = NONE
    s[FINISHING] = NONE
    book.status[:] = 0
    for t in range(s[TENSORS]):
        book.ready[t] = 0
        book.unsent[t] = book.first[t]
        book.missing[t] = book.first[t + 1] - book.first[t]
        book.oldest[t] = book.first[t]
        book.furthest[t] = book.first[t]
        book.stop[t] = book.first[t]
        book.inflight[t] = 0


@njit(cache=True)
def make_ready(book, tensor, now):
    """The tensor's backward step is done: it may be sent."""
    s = book.s
    book.ready[tensor] = 1
    book.ready_ns[s[ITERATION], tensor] = now
    s[FRONT_MOST] = tensor  # tensors become ready from the last to the first
    _choose(book)


@njit(cache=True)
def _shared(book, tensor):
    """Whether all workers are known to have the tensor."""
    return book.missing[tensor] < book.first[tensor + 1] - book.first[tensor]


@njit(cache=True)
def _choose(book):
    """Which tensors are to be sent by now. That changes when a tensor becomes ready or shared, and
    when its probes, or its fragments up to the stop, or all of them are out."""
    s = book.s
    front = s[ORDER] == FRONT
    s[PROBING] = NONE
    s[FINISHING] = NONE
    s[CURSOR] = NONE
    rear_most = NONE
    for tensor in range(s[FRONT_MOST], s[TENSORS]):
        if book.unsent[tensor] == book.first[tensor + 1]:
            continue
        rear_most = tensor
        if front and _shared(book, tensor):
            if book.unsent[tensor] < book.stop[tensor]:
                s[FINISHING] = tensor
            if s[CURSOR] == NONE:
                s[CURSOR] = tensor
        elif front and book.unsent[tensor] < book.first[tensor] + PROBES:
            s[PROBING] = tensor
    s[URGENT] = 0
    if s[CURSOR] == NONE:
        s[CURSOR] = rear_most
    else:
        for tensor in range(s[FRONT_MOST], s[CURSOR] + 1):
            if _shared(book, tensor):
                s[URGENT] += book.inflight[tensor]


@njit(cache=True)
def _becomes_shared(book, urgent):
    """The first result of a tensor is here: those that it overtakes are to come to a stop.

    Nobody has sent more of a tensor than a window beyond its furthest result, and that one is the
    same on all workers when this result arrives. One that has not gone on since its last stop is at
    a stop already."""
    for tensor in range(urgent + 1, book.s[TENSORS]):
        if book.furthest[tensor] > max(book.stop[tensor], book.first[tensor]):
            stop = book.furthest[tensor] + book.s[WINDOW]
            book.stop[tensor] = min(stop, book.first[tensor + 1])


@njit(cache=True)
def next_fragment(book, window):
    """The fragment to send next, or -1 if none is ready or the window is full."""
    s = book.s
    if s[ITERATION] < 0 or s[CURSOR] == NONE:
        return -1
    cursor, room = s[CURSOR], s[IN_FLIGHT] < window
    if s[PROBING] != NONE and room:
        return book.unsent[s[PROBING]]
    least = max(s[WINDOW] // SHARE_OF_URGENT, 1)
    if s[FINISHING] != NONE and (room or book.inflight[s[FINISHING]] < least):
        return book.unsent[s[FINISHING]]
    if s[ORDER] == FRONT and _shared(book, cursor):
        room = room or s[URGENT] < least
    return book.unsent[cursor] if room else -1


@njit(cache=True)
def mark_sent(book, fragment, now, timeout):
    """The fragment that `next_fragment` named has been sent for the first time."""
    s = book.s
    tensor = book.tensor[fragment]
    if fragment == book.first[tensor]:
        book.first_sent_ns[s[ITERATION], tensor] = now
    book.unsent[tensor] = fragment + 1
    book.inflight[tensor] += 1
    s[IN_FLIGHT] += 1
    book.status[fragment] |= SENT
    if s[ENDED] > 0:
        s[ENDED] -= 1
        flight = np.int64(book.ended[s[ENDED]])
    else:
        flight = s[BEGUN]
        s[BEGUN] += 1
    book.flight[fragment] = flight
    book.fragment[flight] = fragment
    book.attempts[flight] = 0
    book.sent_ns[flight] = now
    book.armed_ns[flight] = now
    book.due_ns[flight] = now + timeout
    s[TIMERS] = heap.push(book.timers, s[TIMERS], book.due_ns, flight)
    if tensor <= s[CURSOR] and _shared(book, tensor):
        s[URGENT] += 1
    unsent = book.unsent[tensor]
    probed = s[ORDER] == FRONT and unsent == book.first[tensor] + PROBES
    if probed or unsent == book.stop[tensor] or unsent == book.first[tensor + 1]:
        _choose(book)


@njit(cache=True)
def sent_ns(book, fragment):
    """When a fragment was last sent that has no result, or whose result is just being taken in."""
    return book.sent_ns[book.flight[fragment]]


@njit(cache=True)
def mark_missed(book, fragment, now):
    """A fragment is to be sent again, soon; what tells so need not tell it twice."""
    book.sent_ns[book.flight[fragment]] = now


@njit(cache=True)
def mark_tried_again(book, fragment, now):
    """A fragment that a switch has refused is sent once more now; its timer runs on, since that may
    go on for ever."""
    book.status[fragment] |= RESENT
    book.sent_ns[book.flight[fragment]] = now


@njit(cache=True)
def mark_sent_again(book, fragment, now, retry):
    """A fragment without a result is sent again now, before its timer."""
    s = book.s
    flight = np.int64(book.flight[fragment])
    _count_attempt(book, flight, now)
    due = now + backoff_ns(retry, book.attempts[flight])
    if due < book.due_ns[flight]:
        heap.hasten(book.timers, s[TIMERS], book.due_ns, flight, due)


@njit(cache=True)
def _count_attempt(book, flight, now):
    book.status[book.fragment[flight]] |= RESENT
    book.sent_ns[flight] = now
    book.armed_ns[flight] = now
    book.attempts[flight] = min(book.attempts[flight] + 1, MOST_ATTEMPTS)


@njit(cache=True)
def mark_received(book, fragment, now):
    """The fragment's result is here. Returns True when that finishes the iteration."""
    s = book.s
    tensor = book.tensor[fragment]
    book.status[fragment] |= RECEIVED
    if book.status[fragment] & SENT:
        book.inflight[tensor] -= 1
        s[IN_FLIGHT] -= 1
        if tensor <= s[CURSOR] and _shared(book, tensor):
            s[URGENT] -= 1
    first_result = not _shared(book, tensor)
    book.missing[tensor] -= 1
    book.furthest[tensor] = max(book.furthest[tensor], fragment + 1)
    if first_result and s[ORDER] == FRONT:
        _becomes_shared(book, tensor)
        _choose(book)
    while book.oldest[tensor] < book.first[tensor + 1]:
        if book.status[book.oldest[tensor]] & RECEIVED == 0:
            break
        book.oldest[tensor] += 1
    if book.missing[tensor] == 0:
        book.done_ns[s[ITERATION], tensor] = now
        s[UNFINISHED] -= 1
        return s[UNFINISHED] == 0
    return False


@njit(cache=True)
def next_resend_ns(book):
    """When the earliest fragment in flight is due for retransmission, or -1."""
    s = book.s
    while s[TIMERS] > 0 and book.status[book.fragment[book.timers[0]]] & RECEIVED:
        book.ended[s[ENDED]] = book.timers[0]
        s[ENDED] += 1
        s[TIMERS] = heap.pop(book.timers, s[TIMERS], book.due_ns)
    if s[TIMERS] == 0:
        return -1
    return book.due_ns[book.timers[0]]


@njit(cache=True)
def backoff_ns(retry, attempts):
    """How long to wait for the answer to a retransmission, the first, second... of a fragment.

    It doubles with each beyond EQUAL_RETRIES, up to LONGEST_BACKOFF_NS or `retry` itself: where
    packets are lost by chance, some are lost many times in a row, and everybody waits for them."""
    doublings = max(np.int64(attempts) - EQUAL_RETRIES, 0)
    return min(retry << doublings, max(retry, LONGEST_BACKOFF_NS))


@njit(cache=True)
def resend(book, now, timeout, retry):
    """Take the earliest due fragment and arm its timer anew; -1 if none is due.

    What has been sent once waits for `timeout` ns, what has been sent again for `backoff_ns` of
    `retry`. A timer that was armed when round trips were shorter is put off to what they are by
    now: a queue that grows must not make everybody send what is still in it."""
    s = book.s
    while True:
        due = next_resend_ns(book)
        if due < 0 or due > now:
            return -1
        flight = np.int64(book.timers[0])
        s[TIMERS] = heap.pop(book.timers, s[TIMERS], book.due_ns)
        waits = timeout
        if book.attempts[flight] > 0:
            waits = backoff_ns(retry, book.attempts[flight])
        if book.armed_ns[flight] + waits <= now:
            break
        book.due_ns[flight] = book.armed_ns[flight] + waits
        s[TIMERS] = heap.push(book.timers, s[TIMERS], book.due_ns, flight)
    _count_attempt(book, flight, now)
    book.due_ns[flight] = now + backoff_ns(retry, book.attempts[flight])
    s[TIMERS] = heap.push(book.timers, s[TIMERS], book.due_ns, flight)
    return np.int64(book.fragment[flight])


@njit(cache=True)
def values_in(book, fragment):
    """Values that the fragment really carries; the last of a tensor may carry fewer."""
    tensor = book.tensor[fragment]
    before = (fragment - book.first[tensor]) * book.s[VALUES]
    return min(book.s[VALUES], book.size[tensor] - before)
