"""SwitchML's hosts: workers with a self-clocked window of slots, and no parameter server.

Each slot of the job's part of the pool has at most one chunk in flight. Its next chunk is `slots`
later in the stream and is sent when the result of the last one is here. So a worker is never more
than one chunk ahead of another in any slot, and the switch's two sets are enough. A chunk without a
result is sent again after a timeout, to the same slot and set, and the switch sends the result from
there. With one set the switch adds the packet if it is missing in the sum; it keeps no result to
send again.

The worker's records are those of `worker_state`, since values, checks, pacing and round-trip times
are the same as those of other workers. Only the slots are its own.

The stream of chunks is the common order in which all workers of a job send their gradients. A chunk
is the content of one packet. Tensors come in the order in which backward makes them ready, from the
last to the first, and a tensor's fragments in their own order. With C chunks per
iteration, chunk c of iteration i has the number i * C + c. So numbers only grow, and all workers
agree on the slot and the set of a chunk without messages:

    slot = number % slots,   set = number // slots % 2

Block floating point needs a fragment's exponent before the fragment is sent. So chunk j of a tensor
carries the exponent of fragment j, which follows one window later. A tensor begins with
min(slots, fragments) *opening* chunks, which carry exponents and no values.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from testbed.protocols import (
    block_float,
    given,
    heap,
    lag,
    payload,
    send_scoreboard,
    values,
    wire,
    worker_state,
)
from testbed.protocols.host_spec import HostSpec, SwitchmlSpec
from testbed.protocols.jit import njit
from testbed.protocols.records import new_counters, new_record, new_status, record

TO_ROOT = 0  # the only destination
SECOND_SET = 1 << 31  # in a packet's index, if slots have two

# Worker.window
WINDOW = record(
    "earliest_ns",  # no slot is due for retransmission before
    "free",  # entries in Worker.free
    "heard_ns",  # last send time of chunks that have a result and were sent once
    "oldest_ns",  # no chunk in flight was sent before
    "first_chunk",  # number of the iteration's first chunk
    "chunks",  # of this iteration, as far as they are known
)
UNKNOWN = 1000  # no exponent
NOTHING = -1  # no fragment in a chunk


class Stream(NamedTuple):
    """Chunks of an iteration; C chunks."""

    tensor: np.ndarray  # int16[C]
    fragment: np.ndarray  # int32[C], whose values it carries; NOTHING in an opening chunk
    announced: np.ndarray  # int32[C], whose exponent it carries; NOTHING if none


def new_stream(first: np.ndarray, slots: int, exponents: bool) -> Stream:
    """The stream of tensors whose fragments are first[t] .. first[t + 1] - 1, int64[T + 1].

    `exponents`: whether the values are floats, which need them."""
    tensors: list[np.ndarray] = []
    fragments: list[np.ndarray] = []
    announced: list[np.ndarray] = []
    for tensor in reversed(range(len(first) - 1)):
        own = np.arange(first[tensor], first[tensor + 1], dtype=np.int32)
        opening = min(slots, own.size) if exponents else 0
        blank = np.full(opening, NOTHING, np.int32)
        fragments += [blank, own]
        announced += [own, blank] if exponents else [np.full(own.size, NOTHING, np.int32)]
        tensors.append(np.full(opening + own.size, tensor, np.int16))
    return Stream(np.concatenate(tensors), np.concatenate(fragments), np.concatenate(announced))


class Blocks(NamedTuple):
    """Recorded gradients of a worker; I iterations, F fragments of V values."""

    own: np.ndarray  # float32[I, F * V]
    exponents: np.ndarray  # int8[I, F]
    sums: np.ndarray  # int32[I, F * V], of all workers' quantised values


NOTHING_RECORDED = Blocks(
    np.zeros((0, 0), np.float32), np.zeros((0, 0), np.int8), np.zeros((0, 0), np.int32)
)


class Worker(NamedTuple):
    """S slots; F fragments and C chunks per iteration, I recorded iterations."""

    config: np.record  # worker_state.CONFIG; `window` is S
    state: np.record  # worker_state.STATE
    window: np.record  # WINDOW
    stream: Stream  # the first `chunks` places of it are in use
    chunk: np.ndarray  # int64[S], number of the slot's chunk in flight, or else of its next one
    busy: np.ndarray  # uint8[S], 1: a chunk is in flight
    attempts: np.ndarray  # uint8[S], how often it has been sent again
    sent_ns: np.ndarray  # int64[S]
    due_ns: np.ndarray  # int64[S], when it is sent again
    free: np.ndarray  # int32[S], heap of the slots that are not busy, by their next chunk
    exponent: np.ndarray  # int16[F], all workers' largest, of this iteration; UNKNOWN at first
    own_exponent: np.ndarray  # int8[I, F]
    recorded: np.ndarray  # float32[I, F * V], this worker's gradients if the trace has values
    sums: np.ndarray  # int32[I, F * V], the sums over the workers of the quantised gradients
    given: given.Given
    counters: np.ndarray  # int64
    status: np.ndarray  # int64, see records.py
    lag: np.ndarray  # int64, see lag.py


def new_worker(spec: HostSpec, recorded: Blocks | None = None) -> Worker:
    """A worker machine; `recorded` for a trace with values."""
    blocks = NOTHING_RECORDED if recorded is None else recorded
    options = spec.options_of(SwitchmlSpec)
    slots = options.window
    config = worker_state.configuration(spec, sets=options.sets)
    window = new_record(WINDOW, earliest_ns=worker_state.NEVER, free=slots)
    first = spec.job.first_fragments
    stream = new_stream(first, slots, recorded is not None)
    window.chunks = stream.tensor.size
    return Worker(
        config=config,
        state=new_record(worker_state.STATE),
        window=window,
        stream=stream,
        chunk=np.arange(slots, dtype=np.int64),
        busy=np.zeros(slots, np.uint8),
        attempts=np.zeros(slots, np.uint8),
        sent_ns=np.zeros(slots, np.int64),
        due_ns=np.zeros(slots, np.int64),
        free=np.arange(slots, dtype=np.int32),  # in order, so it is a heap
        exponent=np.full(int(first[-1]), UNKNOWN, np.int16),
        own_exponent=blocks.exponents,
        recorded=blocks.own,
        sums=blocks.sums,
        given=given.no_values(),
        counters=new_counters(),
        status=new_status(),
        lag=lag.new_lag(),
    )


@njit(cache=True)
def begin(worker, scoreboard, iteration):
    """Start exchanging the gradients of an iteration."""
    config, state, window = worker.config, worker.state, worker.window
    send_scoreboard.begin(scoreboard, iteration)
    worker_state.begin(state)
    if iteration > 0:
        window.first_chunk += window.chunks
    if worker.given.source.size > 0:
        window.chunks = 0  # `open_tensor` adds them
    state.factor = values.factor(config.seed, config.job, iteration, config.number)
    state.factor_sum = values.factor_sum(config.seed, config.job, iteration, config.workers)
    worker.exponent[:] = UNKNOWN


@njit(cache=True)
def open_tensor(worker, scoreboard, tensor, layer):
    """A tensor that a program has given is next in the stream (see send_scoreboard.lay_out)."""
    window = worker.window
    for fragment in range(scoreboard.first[tensor], scoreboard.end[tensor]):
        worker.stream.tensor[window.chunks] = tensor
        worker.stream.fragment[window.chunks] = fragment
        window.chunks += 1


@njit(cache=True)
def receive(worker, scoreboard, now, packets, lengths, count):
    """Take `count` packets: uint32[*, words] rows with their payload lengths in bytes.

    Returns True when the iteration's last result is among them. After a wrong value it stops, with
    the status FAILED set."""
    config, state, window = worker.config, worker.state, worker.window
    counters = worker.counters[0]
    base = wire.HEADER_WORDS + config.bitmap_words
    value_count = scoreboard.state.values
    full = 4 * (base + value_count)
    finished = False
    for i in range(count):
        row = packets[i]
        if (
            wire.expand(row, lengths[i], base, value_count) != full
            or wire.version(row) != wire.VERSION
            or wire.job(row) != config.job
            or (wire.kind(row) != wire.RESULT and wire.kind(row) != wire.RESULT_ONE)
        ):
            counters.foreign += 1
            continue
        number = wire.fragment(row)
        slot = number % config.window
        if worker.busy[slot] == 0 or worker.chunk[slot] != number:
            if number < worker.chunk[slot]:
                counters.duplicate_results += 1
            else:
                counters.foreign += 1
            continue
        place = number - window.first_chunk
        fragment = worker.stream.fragment[place]
        if not _check(worker, scoreboard, row, base, place, fragment):
            return finished
        if worker.stream.announced[place] >= 0:
            worker.exponent[worker.stream.announced[place]] = wire.next_exponent(row)
        if worker.attempts[slot] == 0:
            worker_state.measure_round_trip(state, now - worker.sent_ns[slot])
            window.heard_ns = max(window.heard_ns, worker.sent_ns[slot])
        worker.busy[slot] = 0
        worker.chunk[slot] = number + config.window
        window.free = heap.push(worker.free, window.free, worker.chunk, slot)
        if fragment >= 0:
            counters.results += 1
            if wire.flags(row) & wire.OVERFLOW:
                counters.saturated += 1
            if send_scoreboard.mark_received(scoreboard, fragment, now):
                finished = True
    return finished


@njit(cache=True)
def _check(worker, scoreboard, row, base, place, fragment):
    """True if the packet holds the sum over all workers; else the place is noted in the status."""
    if fragment >= 0:
        return payload.check_values(worker, scoreboard, row, base, fragment)
    wrong = values.first_nonzero(row, base, base + scoreboard.state.values)
    if wrong < 0:
        return True
    worker.status[0].failed = 1
    worker.status[0].iteration = scoreboard.state.iteration
    worker.status[0].fragment = worker.stream.announced[place]
    worker.status[0].position = wrong
    worker.status[0].found = np.int64(np.int32(wire.swap(row[base + wrong])))
    worker.status[0].expected = 0
    return False


@njit(cache=True)
def _write_gradient(worker, scoreboard, row, slot, flags):
    """Returns the bytes of the payload."""
    config = worker.config
    number = worker.chunk[slot]
    place = number - worker.window.first_chunk
    fragment, announced = worker.stream.fragment[place], worker.stream.announced[place]
    index = slot
    if (number // config.window) % config.sets:
        index |= SECOND_SET
    if fragment >= 0 and payload.is_rounded(worker, scoreboard, fragment):
        flags |= wire.ROUND
    wire.write_header(row, wire.GRADIENT, 1, flags, config.job, 0, number, index, config.number)
    wire.set_worker(row, config.bitmap_words, config.number)
    base = wire.HEADER_WORDS + config.bitmap_words
    exponent, following = 0, 0
    if fragment >= 0 and payload.name_meant(worker, scoreboard, row, fragment):
        worker.counters[0].gradient_packets += 1
        return wire.omit_values(row, base)
    if fragment < 0:
        values.write_zeros(row, base, base + scoreboard.state.values)
    elif worker.recorded.shape[0] > 0:
        exponent = np.int64(worker.exponent[fragment])
        i = scoreboard.state.iteration % worker.recorded.shape[0]
        start = fragment * scoreboard.state.values
        block = worker.recorded[i, start : start + scoreboard.state.values]
        if config.short == 1:
            block_float.write_steps(row, base, block, block_float.short_scale_of(exponent))
        else:
            scale = block_float.scale_of(exponent, config.workers)
            block_float.write_steps(row, base, block, scale)
    else:
        payload.write_values(worker, scoreboard, row, base, fragment)
    if announced >= 0:
        i = scoreboard.state.iteration % worker.own_exponent.shape[0]
        following = np.int64(worker.own_exponent[i, announced])
    if worker.recorded.shape[0] > 0:
        wire.set_exponents(row, exponent, following)
    worker.counters[0].gradient_packets += 1
    if config.omit_zeros == 1 or config.short == 1:
        return wire.compact(row, base, scoreboard.state.values, config.omit_zeros, config.short)
    return 4 * (base + scoreboard.state.values)


@njit(cache=True)
def _next_slot(worker, scoreboard):
    """The slot whose next chunk comes first in the stream, or -1 if that may not be sent yet."""
    if worker.window.free == 0:
        return -1
    slot = np.int64(worker.free[0])
    place = worker.chunk[slot] - worker.window.first_chunk
    if (
        scoreboard.state.iteration < 0
        or place >= worker.window.chunks
        or scoreboard.ready[worker.stream.tensor[place]] == 0
    ):
        return -1
    fragment = worker.stream.fragment[place]
    if worker.recorded.shape[0] > 0 and fragment >= 0 and worker.exponent[fragment] == UNKNOWN:
        return -1
    return slot


@njit(cache=True)
def _resend(worker, scoreboard, now, packets, lengths):
    """Send again what is due, or was sent well before a chunk whose result is here, into the first
    rows; returns their number."""
    config, state, window = worker.config, worker.state, worker.window
    lost_ns = window.heard_ns - worker_state.patience_ns(worker)
    if window.earliest_ns > now and window.oldest_ns > lost_ns:
        return 0
    filled = 0
    earliest, oldest = worker_state.NEVER, worker_state.NEVER
    retry = worker_state.retry_ns(worker)
    for slot in range(config.window):
        if worker.busy[slot] == 0:
            continue
        late = worker.due_ns[slot] <= now
        if (late or worker.sent_ns[slot] <= lost_ns) and filled < packets.shape[0]:
            if (
                worker.attempts[slot] == 0
                or late
                and worker.attempts[slot] < send_scoreboard.MAX_ATTEMPTS
            ):
                worker.attempts[slot] += 1
            worker.counters[0].gap_resends += 0 if late else 1
            worker.sent_ns[slot] = now
            lengths[filled] = _write_gradient(
                worker, scoreboard, packets[filled], slot, wire.RESEND
            )
            worker_state.take_pace(state, config, now, lengths[filled])
            worker.counters[0].retransmissions += 1
            worker.due_ns[slot] = now + send_scoreboard.backoff_ns(retry, worker.attempts[slot])
            filled += 1
        earliest = min(earliest, worker.due_ns[slot])
        oldest = min(oldest, worker.sent_ns[slot])
    window.earliest_ns = earliest
    window.oldest_ns = oldest
    return filled


@njit(cache=True)
def send(worker, scoreboard, now, packets, lengths, destinations):
    """Fill rows of `packets` with what is due at `now`; returns their number."""
    config, state, window = worker.config, worker.state, worker.window
    capacity = packets.shape[0]
    filled = _resend(worker, scoreboard, now, packets, lengths)
    timeout = worker_state.timeout_ns(worker)
    waited = state.pacing == 1
    state.pacing = 0
    while filled < capacity:
        slot = _next_slot(worker, scoreboard)
        if slot < 0:
            break
        if state.next_send_ps > now * 1000:
            state.pacing = 1
            break
        if waited:
            lag.record(worker.lag, now - state.next_send_ps // 1000)
            waited = False
        window.free = heap.pop(worker.free, window.free, worker.chunk)
        lengths[filled] = _write_gradient(worker, scoreboard, packets[filled], slot, 0)
        worker_state.take_pace(state, config, now, lengths[filled])
        tensor = worker.stream.tensor[worker.chunk[slot] - window.first_chunk]
        row = scoreboard.state.row
        if scoreboard.first_sent_ns[row, tensor] < 0:
            scoreboard.first_sent_ns[row, tensor] = now
        worker.busy[slot] = 1
        worker.attempts[slot] = 0
        worker.sent_ns[slot] = now
        worker.due_ns[slot] = now + timeout
        window.earliest_ns = min(window.earliest_ns, worker.due_ns[slot])
        window.oldest_ns = min(window.oldest_ns, now)
        filled += 1
    state.more = 1 if filled == capacity else 0
    for i in range(filled):
        destinations[i] = TO_ROOT
    return filled


@njit(cache=True)
def deadline(worker, scoreboard):
    """Time of the next call of `send` if nothing arrives before; ns, NEVER if there is none."""
    state, window = worker.state, worker.window
    if state.more == 1:
        return 0
    due = window.earliest_ns
    if state.pacing == 1:
        due = min(due, (state.next_send_ps + 999) // 1000)
    return due
