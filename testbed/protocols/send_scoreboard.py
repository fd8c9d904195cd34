"""A worker's scoreboard of one iteration: which fragments are ready, sent, received, which is next.

Every system with a window uses it. A gradient has T tensors, in forward order; tensor t is the
fragments first[t] .. first[t+1] - 1 of the iteration's F fragments.

Order. Backward makes tensors ready from the last to the first. With `fifo` order tensors are sent
in the order in which they became ready. With `front` order the frontmost tensor is sent first,
since the next forward pass waits for it.

A sum needs all workers, and workers differ in speed. Suppose a worker switched to a tensor as soon
as it has it. Then it would send fragments that slower workers cannot send yet, and it would be
missing in the fragments that they still send. Both tensors would fill aggregators with incomplete
sums and reach the server one worker at a time. So all workers switch at the same point. The results
define that point, because all workers see them in the same order:

- A worker sends the first few fragments of a tensor that has become ready, its *probes*, and then
  continues with the tensor that it was sending.
- The first result of a tensor shows that all workers have it. The tensor is then *shared*. The
  frontmost shared tensor is sent before all others,
- but only after the tensors that it overtakes have reached their *stop*, which is the same on all
  workers: no worker can have sent a fragment beyond it. Without a stop, fragments that only some
  workers have sent would wait until all workers switch back.
- If no shared tensor is left to send, the tensor that became ready first continues.

Window. Front order with one common window can deadlock: one worker fills its window with rear
tensors, another with front tensors, and neither can send what the other waits for. So with front
order a part of the window is reserved for urgent fragments. When the fragments in flight fill the
window, a shared tensor may still send while fewer fragments of equally or more urgent shared
tensors (`urgent`) are in flight than that part; so may a tensor on the way to its stop. The part is
a share of the whole window, even if marks have made the window smaller, because fragments that wait
for another worker may fill all of the smaller window. Tensors that are not shared have no reserved
part. They are sent only while all fragments in flight fit into the window, and the probes of the
tensor that became ready first go first. So this tensor becomes shared as soon as the slowest worker
has it, and a fast worker does not fill the switch with fragments that must wait for the slowest
worker. With fifo order all workers send in the same order, and all fragments in flight count.

What counts. A worker sends while fewer fragments than the window are in flight. With the window
rule `positions` it must also not be further ahead than the window of the oldest fragment without a
result, in the order in which it sends. So one missing result stops it after a window, although
little is in flight. The reserved part is exempt from both, for the same reason: a worker that waits
for a fragment of another one must still send what that one waits for.

Timers. Each fragment in flight has a *flight*: when it was sent, how often, and when it is due to
be sent again. Nearly always the flight that begins last is due last, so flights wait in a queue,
and those that are due before its end in a heap. There are few flights, and they are reused at
once, so the data written for every packet stays in the processor's cache. Each of a large model's
millions of fragments takes only five bytes. A flight ends when its timer is due and the result has
come.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from p4fabric.simulate.jit import njit
from p4fabric.simulate.records import new_record, record

from testbed.protocols import heap
from testbed.protocols.sizes import fragments_of, sending_order

FRONT = 0
FIFO = 1

LONGEST_BACKOFF_NS = 500_000_000
EQUAL_RETRIES = 2
MOST_DOUBLINGS = 6  # of the backoff
MAX_ATTEMPTS = EQUAL_RETRIES + MOST_DOUBLINGS  # more do not lengthen the backoff
PROBES = 4  # per tensor; more than one, since one may get lost
SHARE_OF_URGENT = 8  # an eighth of the window is reserved for urgent fragments
NONE = -1
MAX_QUEUE = 4096  # flights in the queue of timers,
WINDOWS_QUEUED = 4  # or in so many windows: a short queue stays in the processor's cache

# SendScoreboard.state
STATE = record(
    "iteration",  # whose gradients are exchanged
    "cursor",  # tensor that is sent next unless the ones below go first; NONE if none is ready
    "urgent",  # fragments in flight of shared tensors up to the cursor
    "unfinished",  # tensors of this iteration without all results
    "timers",  # entries in the heap: flights
    "queue_first",  # place of the queue's first entry
    "queued",  # entries in the queue, those that have been taken out included
    "queue_due_ns",  # time at which the last one is due
    "order",
    "tensors",
    "fragments",  # per iteration
    "values",  # per fragment
    "in_flight",  # fragments, of all tensors
    "frontmost",  # of the tensors that are ready; their number if none is
    "probing",  # tensor whose probes are to be sent, or NONE
    "finishing",  # tensor that is to come to its stop, or NONE
    "window",
    "span",  # so far ahead of the oldest one without a result a fragment may be; 0: any distance
    "sent",  # fragments sent for the first time in this iteration, if there is a span
    "head",  # of them, those before the oldest one without a result
    "ended",  # entries in SendScoreboard.ended
    "begun",  # flights that have ever been used in this iteration
    "row",  # of the iteration in the tables of times
)

# A flight, in half a line of the cache
FLIGHT = np.dtype(
    (
        np.record,
        [
            ("sent_ns", np.int64),  # last transmission
            ("armed_ns", np.int64),  # since when its timer runs
            ("due_ns", np.int64),  # resend time
            ("fragment", np.int32),
            ("attempts", np.int32),
        ],
    )
)

# Bits of SendScoreboard.status
SENT = 1
RECEIVED = 2
REQUESTED = 4  # the server has requested it before it was sent
RESENT = 8
FLOAT = 16  # the server wants it as floating-point numbers


class SendScoreboard(NamedTuple):
    """T tensors, F fragments, I iterations; times in ns since the run's start,
    -1 for not yet. There is room for F flights, but memory only for those in use:
    a page that nobody has written to takes none."""

    state: np.record  # STATE
    first: np.ndarray  # int64[T + 1]
    end: np.ndarray  # int64[T], the tensor's fragments are those before it: first[t + 1], or less
    #                  where not all of a tensor's numbers are in use, or more where it has those of
    #                  the tensors behind it, too (`lay_out`)
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
    sent_order: np.ndarray  # int32[F], fragments in the order in which they are sent; int32[0] if
    #                         there is no span. With fifo order the same on all workers
    flights: np.ndarray  # FLIGHT[F]
    timers: np.ndarray  # int32[F], heap of flights by due_ns
    queue: np.ndarray  # int32[Q], flights by due_ns, in a ring; NONE: taken out; Q: a power of two
    ended: np.ndarray  # int32[F], flights to use again, the last one first
    ready_ns: np.ndarray  # int64[I, T], or int64[1, T] where only the latest iteration is kept
    first_sent_ns: np.ndarray  # likewise
    done_ns: np.ndarray  # likewise


# Of SendScoreboard, what is of flights.
FLIGHTS = ("flights", "timers", "ended")


def new_scoreboard(
    sizes: list[int], values: int, iterations: int, order: int, window: int, span: int = 0
) -> SendScoreboard:
    """An empty scoreboard for tensors of `sizes` values, in fragments of `values` values, of
    which a worker has at most `window` in flight, with a `span` at most so far ahead of the oldest
    one without a result (0: at any distance)."""
    first = fragments_of(sizes, values)
    tensors, fragments = len(sizes), int(first[-1])
    return SendScoreboard(
        state=new_record(
            STATE,
            iteration=-1,
            order=order,
            tensors=tensors,
            fragments=fragments,
            values=values,
            window=window,
            span=span,
        ),
        first=first,
        end=first[1:].copy(),
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
        sent_order=_new_sent_order(first, order) if span else np.zeros(0, np.int32),
        flights=np.zeros(fragments, FLIGHT),
        timers=np.zeros(fragments, np.int32),
        queue=np.zeros(_queue_size(min(fragments, WINDOWS_QUEUED * window)), np.int32),
        ended=np.zeros(fragments, np.int32),
        ready_ns=np.full((iterations, tensors), -1, np.int64),
        first_sent_ns=np.full((iterations, tensors), -1, np.int64),
        done_ns=np.full((iterations, tensors), -1, np.int64),
    )


def _queue_size(most: int) -> int:
    return min(1 << (most - 1).bit_length(), MAX_QUEUE)


def _new_sent_order(first: np.ndarray, order: int) -> np.ndarray:
    """Order of sending: with fifo order known at once, else filled in as fragments are sent."""
    return sending_order(first) if order == FIFO else np.zeros(int(first[-1]), np.int32)


@njit(cache=True)
def was_sent(scoreboard, fragment):
    return scoreboard.status[fragment] & SENT != 0


@njit(cache=True)
def has_result(scoreboard, fragment):
    return scoreboard.status[fragment] & RECEIVED != 0


@njit(cache=True)
def in_flight(scoreboard, fragment):
    return scoreboard.status[fragment] & (SENT | RECEIVED) == SENT


@njit(cache=True)
def sent_again(scoreboard, fragment):
    return scoreboard.status[fragment] & RESENT != 0


@njit(cache=True)
def sent_once(scoreboard, fragment):
    return scoreboard.status[fragment] & (SENT | RESENT) == SENT


@njit(cache=True)
def was_requested(scoreboard, fragment):
    """True if the server has requested the fragment before it was sent."""
    return scoreboard.status[fragment] & REQUESTED != 0


@njit(cache=True)
def begin(scoreboard, iteration):
    """Begin the scoreboard of an iteration. The one before it must be finished."""
    state = scoreboard.state
    state.iteration = iteration
    state.row = iteration % scoreboard.ready_ns.shape[0]
    state.urgent = 0
    state.timers = 0
    state.queue_first = 0
    state.queued = 0
    state.ended = 0
    state.begun = 0
    state.unfinished = state.tensors
    state.cursor = NONE
    state.in_flight = 0
    state.sent = 0
    state.head = 0
    state.frontmost = state.tensors
    state.probing = NONE
    state.finishing = NONE
    scoreboard.status[:] = 0
    for t in range(state.tensors):
        scoreboard.ready[t] = 0
        scoreboard.unsent[t] = scoreboard.first[t]
        scoreboard.missing[t] = scoreboard.end[t] - scoreboard.first[t]
        scoreboard.oldest[t] = scoreboard.first[t]
        scoreboard.furthest[t] = scoreboard.first[t]
        scoreboard.stop[t] = scoreboard.first[t]
        scoreboard.inflight[t] = 0


@njit(cache=True)
def lay_out(scoreboard, tensor, parts, values):
    """The tensors `tensor` to `tensor + parts - 1` of this iteration are one tensor, `tensor`, with
    `values` values. It has fewer fragments than the tensors have numbers for: the last ones stay
    unused.

    Only before these tensors are ready. The numbers that are not used count as received, and the
    other tensors as ready and done."""
    state = scoreboard.state
    used = (values + state.values - 1) // state.values
    first, limit = scoreboard.first[tensor], scoreboard.first[tensor + parts]
    scoreboard.size[tensor] = values
    scoreboard.end[tensor] = first + used
    scoreboard.missing[tensor] = used
    scoreboard.first_sent_ns[state.row, tensor] = -1
    scoreboard.done_ns[state.row, tensor] = -1
    scoreboard.tensor[first:limit] = tensor
    scoreboard.status[first : first + used] = 0
    scoreboard.status[first + used : limit] = RECEIVED
    for other in range(tensor + 1, tensor + parts):
        scoreboard.ready[other] = 1
        scoreboard.end[other] = scoreboard.first[other]
        scoreboard.missing[other] = 0
    state.unfinished -= parts - 1


@njit(cache=True)
def make_ready(scoreboard, tensor, now):
    """The tensor's backward step is done: it may be sent."""
    state = scoreboard.state
    scoreboard.ready[tensor] = 1
    scoreboard.ready_ns[state.row, tensor] = now
    state.frontmost = tensor  # tensors become ready from the last to the first
    _choose(scoreboard)


@njit(cache=True)
def _shared(scoreboard, tensor):
    """True if all workers are known to have the tensor."""
    return scoreboard.missing[tensor] < scoreboard.end[tensor] - scoreboard.first[tensor]


@njit(cache=True)
def _choose(scoreboard):
    """Choose the tensors to send now. The choice changes when a tensor becomes ready or shared, and
    when its probes, or its fragments up to the stop, or all of them are out."""
    state = scoreboard.state
    front = state.order == FRONT
    state.probing = NONE
    state.finishing = NONE
    state.cursor = NONE
    rearmost = NONE
    for tensor in range(state.frontmost, state.tensors):
        if scoreboard.unsent[tensor] == scoreboard.end[tensor]:
            continue
        rearmost = tensor
        if front and _shared(scoreboard, tensor):
            if scoreboard.unsent[tensor] < scoreboard.stop[tensor]:
                state.finishing = tensor
            if state.cursor == NONE:
                state.cursor = tensor
        elif front and scoreboard.unsent[tensor] < scoreboard.first[tensor] + PROBES:
            state.probing = tensor
    state.urgent = 0
    if state.cursor == NONE:
        state.cursor = rearmost
    else:
        for tensor in range(state.frontmost, state.cursor + 1):
            if _shared(scoreboard, tensor):
                state.urgent += scoreboard.inflight[tensor]


@njit(cache=True)
def _becomes_shared(scoreboard, urgent):
    """The first result of a tensor is here: those that it overtakes are to come to a stop.

    Nobody has sent more of a tensor than a window beyond its furthest result, and that one is the
    same on all workers when this result arrives. One that has not gone on since its last stop is at
    a stop already."""
    for tensor in range(urgent + 1, scoreboard.state.tensors):
        if scoreboard.furthest[tensor] > max(scoreboard.stop[tensor], scoreboard.first[tensor]):
            stop = scoreboard.furthest[tensor] + scoreboard.state.window
            scoreboard.stop[tensor] = min(stop, scoreboard.end[tensor])


@njit(cache=True)
def next_fragment(scoreboard, window):
    """The fragment to send next, or -1 if none is ready or the window is full."""
    state = scoreboard.state
    if state.iteration < 0 or state.cursor == NONE:
        return -1
    cursor, room = state.cursor, state.in_flight < window
    if state.span > 0:
        room = room and state.sent - state.head < state.span
    if state.probing != NONE and room:
        return scoreboard.unsent[state.probing]
    min_urgent = max(state.window // SHARE_OF_URGENT, 1)
    if state.finishing != NONE and (room or scoreboard.inflight[state.finishing] < min_urgent):
        return scoreboard.unsent[state.finishing]
    if state.order == FRONT and _shared(scoreboard, cursor):
        room = room or state.urgent < min_urgent
    return scoreboard.unsent[cursor] if room else -1


@njit(cache=True)
def mark_sent(scoreboard, fragment, now, timeout):
    """The fragment that `next_fragment` named has been sent for the first time."""
    state = scoreboard.state
    tensor = scoreboard.tensor[fragment]
    if fragment == scoreboard.first[tensor]:
        scoreboard.first_sent_ns[state.row, tensor] = now
    scoreboard.unsent[tensor] = fragment + 1
    scoreboard.inflight[tensor] += 1
    state.in_flight += 1
    scoreboard.status[fragment] |= SENT
    if state.span > 0:
        if state.order == FRONT:
            scoreboard.sent_order[state.sent] = fragment
        state.sent += 1
    if state.ended > 0:
        state.ended -= 1
        flight = np.int64(scoreboard.ended[state.ended])
    else:
        flight = state.begun
        state.begun += 1
    scoreboard.flight[fragment] = flight
    row = scoreboard.flights[flight]
    row.fragment = fragment
    row.attempts = 0
    row.sent_ns = now
    row.armed_ns = now
    row.due_ns = now + timeout
    _arm(scoreboard, flight)
    if tensor <= state.cursor and _shared(scoreboard, tensor):
        state.urgent += 1
    unsent = scoreboard.unsent[tensor]
    probed = state.order == FRONT and unsent == scoreboard.first[tensor] + PROBES
    if probed or unsent == scoreboard.stop[tensor] or unsent == scoreboard.end[tensor]:
        _choose(scoreboard)


@njit(cache=True)
def sent_ns(scoreboard, fragment):
    """Time at which a fragment was last sent that has no result, or whose result is just being
    taken in."""
    return scoreboard.flights[scoreboard.flight[fragment]].sent_ns


@njit(cache=True)
def mark_missed(scoreboard, fragment, now):
    """Note that a fragment must be sent again soon. One call per loss is enough."""
    scoreboard.flights[scoreboard.flight[fragment]].sent_ns = now


@njit(cache=True)
def mark_tried_again(scoreboard, fragment, now):
    """A fragment that a switch has refused is sent once more now; its timer runs on, since that may
    go on for ever."""
    scoreboard.status[fragment] |= RESENT
    scoreboard.flights[scoreboard.flight[fragment]].sent_ns = now


@njit(cache=True)
def mark_sent_again(scoreboard, fragment, now, retry):
    """A fragment without a result is sent again now, before its timer."""
    state = scoreboard.state
    flight = np.int64(scoreboard.flight[fragment])
    _count_attempt(scoreboard, flight, now)
    due = now + backoff_ns(retry, scoreboard.flights[flight].attempts)
    if due >= scoreboard.flights[flight].due_ns:
        return
    for i in range(state.queued):
        place = (state.queue_first + i) & (scoreboard.queue.size - 1)
        if scoreboard.queue[place] == flight:
            scoreboard.queue[place] = NONE
            scoreboard.flights[flight].due_ns = due
            _push_timer(scoreboard, flight)
            return
    due_ns = scoreboard.flights["due_ns"]
    heap.decrease_due(scoreboard.timers, state.timers, due_ns, flight, due)


@njit(cache=True)
def _arm(scoreboard, flight):
    """Have a flight's timer run, up to its due_ns."""
    state = scoreboard.state
    due = scoreboard.flights[flight].due_ns
    room = state.queued < scoreboard.queue.size
    if room and (state.queued == 0 or due >= state.queue_due_ns):
        place = (state.queue_first + state.queued) & (scoreboard.queue.size - 1)
        scoreboard.queue[place] = flight
        state.queued += 1
        state.queue_due_ns = due
    else:
        _push_timer(scoreboard, flight)


@njit(cache=True)
def _push_timer(scoreboard, flight):
    state = scoreboard.state
    due_ns = scoreboard.flights["due_ns"]
    state.timers = heap.push(scoreboard.timers, state.timers, due_ns, flight)


@njit(cache=True)
def _pop_timer(scoreboard):
    state = scoreboard.state
    state.timers = heap.pop(scoreboard.timers, state.timers, scoreboard.flights["due_ns"])


@njit(cache=True)
def _leave_queue(state, size):
    """The queue's first entry is done with."""
    state.queue_first = (state.queue_first + 1) & (size - 1)
    state.queued -= 1


@njit(cache=True)
def _is_first_queued(scoreboard):
    """True if the next flight that is due is the queue's first, and not the heap's. There is one,
    and neither has its result."""
    state = scoreboard.state
    if state.queued == 0 or state.timers == 0:
        return state.queued > 0
    queued = np.int64(scoreboard.queue[state.queue_first])
    return scoreboard.flights[queued].due_ns <= scoreboard.flights[scoreboard.timers[0]].due_ns


@njit(cache=True)
def _count_attempt(scoreboard, flight, now):
    row = scoreboard.flights[flight]
    scoreboard.status[row.fragment] |= RESENT
    row.sent_ns = now
    row.armed_ns = now
    row.attempts = min(row.attempts + 1, MAX_ATTEMPTS)


@njit(cache=True)
def mark_received(scoreboard, fragment, now):
    """The fragment's result is here. Returns True when that finishes the iteration."""
    state = scoreboard.state
    tensor = scoreboard.tensor[fragment]
    scoreboard.status[fragment] |= RECEIVED
    if was_sent(scoreboard, fragment):
        scoreboard.inflight[tensor] -= 1
        state.in_flight -= 1
        if tensor <= state.cursor and _shared(scoreboard, tensor):
            state.urgent -= 1
    while state.head < state.sent and has_result(scoreboard, scoreboard.sent_order[state.head]):
        state.head += 1
    first_result = not _shared(scoreboard, tensor)
    scoreboard.missing[tensor] -= 1
    scoreboard.furthest[tensor] = max(scoreboard.furthest[tensor], fragment + 1)
    if first_result and state.order == FRONT:
        _becomes_shared(scoreboard, tensor)
        _choose(scoreboard)
    while scoreboard.oldest[tensor] < scoreboard.end[tensor]:
        if not has_result(scoreboard, scoreboard.oldest[tensor]):
            break
        scoreboard.oldest[tensor] += 1
    if scoreboard.missing[tensor] == 0:
        scoreboard.done_ns[state.row, tensor] = now
        state.unfinished -= 1
        return state.unfinished == 0
    return False


@njit(cache=True)
def next_resend_ns(scoreboard):
    """Time at which the earliest fragment in flight is due for retransmission, or -1."""
    state = scoreboard.state
    while state.queued > 0:
        flight = np.int64(scoreboard.queue[state.queue_first])
        if flight != NONE:
            if not has_result(scoreboard, scoreboard.flights[flight].fragment):
                break
            scoreboard.ended[state.ended] = flight
            state.ended += 1
        _leave_queue(state, scoreboard.queue.size)
    while state.timers > 0:
        if not has_result(scoreboard, scoreboard.flights[scoreboard.timers[0]].fragment):
            break
        scoreboard.ended[state.ended] = scoreboard.timers[0]
        state.ended += 1
        _pop_timer(scoreboard)
    if _is_first_queued(scoreboard):
        return scoreboard.flights[scoreboard.queue[state.queue_first]].due_ns
    if state.timers > 0:
        return scoreboard.flights[scoreboard.timers[0]].due_ns
    return -1


@njit(cache=True)
def backoff_ns(retry, attempts):
    """Time to wait for the answer to a retransmission, the first, second... of a fragment.

    It doubles with each beyond EQUAL_RETRIES, MOST_DOUBLINGS times and up to LONGEST_BACKOFF_NS, or
    `retry` itself: where packets are lost by chance, some are lost many times in a row, and all
    workers wait for them. Many attempts may also have waited for another worker. Without a limit,
    the next loss would wait for their backoff, and the other workers' backoffs for that."""
    doublings = min(max(np.int64(attempts) - EQUAL_RETRIES, 0), MOST_DOUBLINGS)
    return doubled_ns(retry, doublings)


@njit(cache=True)
def doubled_ns(time, doublings):
    """A time that waits twice as long with each doubling, up to LONGEST_BACKOFF_NS, or itself."""
    return min(time << doublings, max(time, LONGEST_BACKOFF_NS))


@njit(cache=True)
def resend(scoreboard, now, timeout, retry):
    """Take the earliest due fragment and arm its timer again; -1 if none is due.

    What has been sent once waits for `timeout` ns, what has been sent again for `backoff_ns` of
    `retry`. A timer that was armed when round trips were shorter is put off to what they are by
    now: a queue that grows must not make everybody send what is still in it."""
    state = scoreboard.state
    while True:
        due = next_resend_ns(scoreboard)
        if due < 0 or due > now:
            return -1
        if _is_first_queued(scoreboard):
            flight = np.int64(scoreboard.queue[state.queue_first])
            _leave_queue(state, scoreboard.queue.size)
        else:
            flight = np.int64(scoreboard.timers[0])
            _pop_timer(scoreboard)
        row = scoreboard.flights[flight]
        waits = timeout
        if row.attempts > 0:
            waits = backoff_ns(retry, row.attempts)
        if row.armed_ns + waits <= now:
            break
        row.due_ns = row.armed_ns + waits
        _arm(scoreboard, flight)
    _count_attempt(scoreboard, flight, now)
    row.due_ns = now + backoff_ns(retry, row.attempts)
    _arm(scoreboard, flight)
    return np.int64(row.fragment)


@njit(cache=True)
def values_in(scoreboard, fragment):
    """Values that the fragment really carries; the last of a tensor may carry fewer, and one that
    the tensor does not use (`lay_out`) has none."""
    tensor = scoreboard.tensor[fragment]
    before = (fragment - scoreboard.first[tensor]) * scoreboard.state.values
    return max(0, min(scoreboard.state.values, scoreboard.size[tensor] - before))
