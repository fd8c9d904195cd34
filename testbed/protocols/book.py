"""A worker's book of one iteration's fragments: what is ready, sent, received, and what comes next.

Every system with a window uses it. A gradient has T tensors, in forward order; tensor t is the
fragments first[t] .. first[t+1] - 1 of the iteration's F fragments.

Order. Backward makes tensors ready from the last to the first. With `front` order the front-most
ready tensor is sent first, since the next forward pass waits for it; with `fifo` order tensors are
sent as they became ready. Either way the choice is one *cursor* over tensors.

Window. Front-first under one common window dead-locks: one worker fills its window with rear
tensors, another with front ones, and neither can send what the other waits for. So with front
order, credit is counted over the fragments in flight of equally or more urgent tensors only:
`URGENT` is their number, up to the cursor. With fifo order all workers send in the same order and
`URGENT` counts everything in flight.

Timers. Each fragment in flight has one entry in a heap of resend times.
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

# Places in Book.s
ITERATION = 0  # whose gradients are exchanged
CURSOR = 1  # tensor that is sent next
URGENT = 2  # fragments in flight that count against the window
UNFINISHED = 3  # tensors of this iteration without all results
TIMERS = 4  # entries in the heap
ORDER = 5
TENSORS = 6
FRAGMENTS = 7  # per iteration
VALUES = 8  # per fragment
SCALARS = 9

# Bits of Book.status
SENT = 1
RECEIVED = 2
ASKED = 4  # the server has asked for it before it was sent
RESENT = 8
FLOAT = 16  # the server wants it as floating-point numbers


class Book(NamedTuple):
    """`s` int64[SCALARS]; T tensors, F fragments, I iterations; times in ns since the run's start,
    -1 for not yet."""

    s: np.ndarray
    first: np.ndarray  # int64[T + 1]
    size: np.ndarray  # int64[T], values
    ready: np.ndarray  # uint8[T]
    unsent: np.ndarray  # int64[T], next fragment of the tensor to send
    missing: np.ndarray  # int64[T], results still to come
    oldest: np.ndarray  # int64[T], all fragments of the tensor before it have results
    inflight: np.ndarray  # int64[T]
    tensor: np.ndarray  # int16[F]
    status: np.ndarray  # uint8[F]
    attempts: np.ndarray  # uint8[F]
    sent_ns: np.ndarray  # int64[F], last transmission
    due_ns: np.ndarray  # int64[F], resend time
    timers: np.ndarray  # int32[F]
    ready_ns: np.ndarray  # int64[I, T]
    first_sent_ns: np.ndarray  # int64[I, T]
    done_ns: np.ndarray  # int64[I, T]


def new_book(sizes: list[int], values: int, iterations: int, order: int) -> Book:
    """An empty book for tensors of `sizes` values, in fragments of `values` values."""
    first = fragments_of(sizes, values)
    tensors, fragments = len(sizes), int(first[-1])
    s = np.zeros(SCALARS, np.int64)
    s[ITERATION] = -1
    s[ORDER] = order
    s[TENSORS] = tensors
    s[FRAGMENTS] = fragments
    s[VALUES] = values
    return Book(
        s=s,
        first=first,
        size=np.asarray(sizes, np.int64),
        ready=np.zeros(tensors, np.uint8),
        unsent=np.zeros(tensors, np.int64),
        missing=np.zeros(tensors, np.int64),
        oldest=np.zeros(tensors, np.int64),
        inflight=np.zeros(tensors, np.int64),
        tensor=np.repeat(np.arange(tensors, dtype=np.int16), np.diff(first)),
        status=np.zeros(fragments, np.uint8),
        attempts=np.zeros(fragments, np.uint8),
        sent_ns=np.zeros(fragments, np.int64),
        due_ns=np.zeros(fragments, np.int64),
        timers=np.zeros(fragments, np.int32),
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
    s[UNFINISHED] = s[TENSORS]
    s[CURSOR] = s[TENSORS] - 1
    book.status[:] = 0
    book.attempts[:] = 0
    for t in range(s[TENSORS]):
        book.ready[t] = 0
        book.unsent[t] = book.first[t]
        book.missing[t] = book.first[t + 1] - book.first[t]
        book.oldest[t] = book.first[t]
        book.inflight[t] = 0


@njit(cache=True)
def make_ready(book, tensor, now):
    """The tensor's backward step is done: it may be sent."""
    s = book.s
    book.ready[tensor] = 1
    book.ready_ns[s[ITERATION], tensor] = now
    if s[ORDER] == FRONT:
        s[CURSOR] = tensor  # tensors become ready from the last to the first
        s[URGENT] = book.inflight[tensor]


@njit(cache=True)
def next_fragment(book, window):
    """The fragment to send next, or -1 if none is ready or the window is full."""
    s = book.s
    if s[ITERATION] < 0:
        return -1
    cursor = s[CURSOR]
    if s[ORDER] == FRONT:
        while book.ready[cursor] == 1 and book.unsent[cursor] == book.first[cursor + 1]:
            if cursor + 1 == s[TENSORS]:
                return -1
            cursor += 1
            s[CURSOR] = cursor
            s[URGENT] += book.inflight[cursor]
    else:
        while book.ready[cursor] == 1 and book.unsent[cursor] == book.first[cursor + 1]:
            if cursor == 0:
                return -1
            cursor -= 1
            s[CURSOR] = cursor
    if book.ready[cursor] == 0 or s[URGENT] >= window:
        return -1
    return book.unsent[cursor]


@njit(cache=True)
def mark_sent(book, fragment, now, timeout):
    """The fragment that `next_fragment` named has been sent for the first time."""
    s = book.s
    tensor = book.tensor[fragment]
    if fragment == book.first[tensor]:
        book.first_sent_ns[s[ITERATION], tensor] = now
    book.unsent[tensor] = fragment + 1
    book.inflight[tensor] += 1
    s[URGENT] += 1
    book.status[fragment] |= SENT
    book.sent_ns[fragment] = now
    book.due_ns[fragment] = now + timeout
    s[TIMERS] = heap.push(book.timers, s[TIMERS], book.due_ns, fragment)


@njit(cache=True)
def mark_received(book, fragment, now):
    """The fragment's result is here. Returns True when that finishes the iteration."""
    s = book.s
    tensor = book.tensor[fragment]
    book.status[fragment] |= RECEIVED
    if book.status[fragment] & SENT:
        book.inflight[tensor] -= 1
        if s[ORDER] != FRONT or tensor <= s[CURSOR]:
            s[URGENT] -= 1
    book.missing[tensor] -= 1
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
    while s[TIMERS] > 0 and book.status[book.timers[0]] & RECEIVED:
        s[TIMERS] = heap.pop(book.timers, s[TIMERS], book.due_ns)
    if s[TIMERS] == 0:
        return -1
    return book.due_ns[book.timers[0]]


@njit(cache=True)
def backoff_ns(timeout, attempts):
    """How long to wait for the answer to a transmission after so many others of the same.

    It doubles with each, up to LONGEST_BACKOFF_NS or the timeout itself: where packets are lost by
    chance, some are lost many times in a row, and everybody waits for them."""
    return min(timeout << np.int64(attempts), max(timeout, LONGEST_BACKOFF_NS))


@njit(cache=True)
def resend(book, now, timeout):
    """Take the earliest due fragment and arm its timer anew; -1 if none is due.

    A first timer that was armed when round trips were shorter is put off to what the timeout is by
    now: a queue that grows must not make everybody send what is still in it. What comes after a
    retransmission takes `backoff_ns`."""
    s = book.s
    while True:
        due = next_resend_ns(book)
        if due < 0 or due > now:
            return -1
        fragment = book.timers[0]
        s[TIMERS] = heap.pop(book.timers, s[TIMERS], book.due_ns)
        if book.status[fragment] & RESENT or book.sent_ns[fragment] + timeout <= now:
            break
        book.due_ns[fragment] = book.sent_ns[fragment] + timeout
        s[TIMERS] = heap.push(book.timers, s[TIMERS], book.due_ns, fragment)
    if book.attempts[fragment] < 6:
        book.attempts[fragment] += 1
    book.status[fragment] |= RESENT
    book.sent_ns[fragment] = now
    book.due_ns[fragment] = now + backoff_ns(timeout, book.attempts[fragment])
    s[TIMERS] = heap.push(book.timers, s[TIMERS], book.due_ns, fragment)
    return fragment


@njit(cache=True)
def values_in(book, fragment):
    """Values that the fragment really carries; the last of a tensor may carry fewer."""
    tensor = book.tensor[fragment]
    before = (fragment - book.first[tensor]) * book.s[VALUES]
    return min(book.s[VALUES], book.size[tensor] - before)
