"""Workers with slots of their own (SwitchML, static trees): a self-clocked window, and no parameter
server.

Each slot of the job's part of the pool has at most one chunk in flight. Its next chunk is `slots`
later in the stream and is sent when the result of the last one is here. So a worker is never more
than one chunk ahead of another in any slot, and the switch's two sets are enough. A chunk without a
result is sent again after a timeout, to the same slot and set, and the switch sends the result from
there. With one set the switch adds the packet if it is missing in the sum; it keeps no result to
send again.

The slots may be those of several trees (system `tree`), which take turns. A packet names its tree,
and a slot has a place in its tree's part of the memory. Where switches may lose their memory or
trees may change during a run, workers also keep the last result of each slot. A worker whose chunk
has been sent again in vain asks others for the result, more of them each time. At most one chunk of
a slot can have a result that others lack: nobody goes on to the next one before all have sent this
one.

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
from p4fabric.simulate.jit import njit
from p4fabric.simulate.records import new_record, record

from testbed.protocols import (
    block_float,
    given,
    heap,
    lag,
    payload,
    send_scoreboard,
    sizes,
    unproven_losses,
    values,
    wire,
    worker_state,
)
from testbed.protocols.formats import kept_sums, recorded_floats
from testbed.protocols.host_spec import HostSpec, SlotsSpec, TreesPart
from testbed.protocols.status import new_counters, new_status

ONE_TREE = TreesPart((0,), (0,), (0,))  # of all slots; the root is the only destination
QUESTIONS = 256  # that may wait for an answer
ASKED_AFTER = 2  # attempts
SECOND_SET = 1 << 31  # in a packet's index, if slots have two

# Worker.window
WINDOW = record(
    "earliest_ns",  # no slot is due for retransmission before
    "free",  # entries in Worker.free
    "heard_ns",  # last send time of chunks that have a result and were sent once
    "oldest_ns",  # no chunk in flight was sent before
    "first_chunk",  # number of the iteration's first chunk
    "chunks",  # of this iteration, as far as they are known
    "follows_marks",  # 1: a mark in a result halves the window
    "in_flight",  # slots that wait for their result
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


class Trees(NamedTuple):
    """The trees of S slots; T trees."""

    of: np.ndarray  # int32[S], a slot's tree
    place: np.ndarray  # int32[S], of a slot in its tree's part of the memory
    number: np.ndarray  # int64[T], in packets
    root: np.ndarray  # int64[T], the destination of its packets


def new_trees(part: TreesPart, slots: int) -> Trees:
    """Trees of so many slots in turn, as long as a tree has more of them."""
    most = max(part.slots) or slots
    order = [
        (tree, place)
        for place in range(most)
        for tree, count in enumerate(part.slots)
        if place < (count or slots)
    ]
    of, place = np.array(order[:slots], np.int32).T.copy()
    return Trees(of, place, np.array(part.numbers, np.int64), np.array(part.roots, np.int64))


class Kept(NamedTuple):
    """The last results of S slots, for other workers, and their Q questions; S and Q are 0 where
    the switches keep results."""

    chunk: np.ndarray  # int64[S], NOTHING: none yet
    rows: np.ndarray  # uint32[S, words], the packets
    asked: np.ndarray  # int64[S], how many workers have been asked for the chunk in flight
    slot: np.ndarray  # int32[Q], the chunk that a question is about
    worker: np.ndarray  # int32[Q], who asks
    waiting: np.ndarray  # int64[1], questions
    workers_at: np.ndarray  # int64[1], destination of the first worker


def new_kept(spec: HostSpec) -> Kept:
    job, options = spec.job, spec.options_of(SlotsSpec)
    slots, questions = (options.window, QUESTIONS) if options.workers_at else (0, 0)
    words = sizes.packet_words(job.values, job.bitmap_width)
    return Kept(
        chunk=np.full(slots, NOTHING, np.int64),
        rows=np.zeros((slots, words), np.uint32),
        asked=np.zeros(slots, np.int64),
        slot=np.zeros(questions, np.int32),
        worker=np.zeros(questions, np.int32),
        waiting=np.zeros(1, np.int64),
        workers_at=np.array([options.workers_at], np.int64),
    )


class Worker(NamedTuple):
    """S slots; F fragments and C chunks per iteration, I recorded iterations."""

    config: np.record  # worker_state.CONFIG; `window` is S
    state: np.record  # worker_state.STATE
    window: np.record  # WINDOW
    stream: Stream  # the first `chunks` places of it are in use
    trees: Trees
    kept: Kept
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
    singles: recorded_floats.RecordedFloats  # in place of these, in a format of floats
    given: given.Given
    kept_sums: np.ndarray  # uint32[I, F * V], see formats/kept_sums.py
    counters: np.ndarray  # int64
    status: np.ndarray  # int64, see records.py
    lag: np.ndarray  # int64, see lag.py


def new_worker(
    spec: HostSpec, recorded: Blocks | recorded_floats.RecordedFloats | None = None
) -> Worker:
    """A worker machine; `recorded` for a trace with values."""
    blocks = recorded if isinstance(recorded, Blocks) else NOTHING_RECORDED
    singles = recorded_floats.no_floats()
    if isinstance(recorded, recorded_floats.RecordedFloats):
        singles = recorded
    options = spec.options_of(SlotsSpec)
    slots = options.window
    config = worker_state.configuration(spec, sets=options.sets)
    follows = int(options.follows_marks)
    window = new_record(WINDOW, earliest_ns=worker_state.NEVER, free=slots, follows_marks=follows)
    first = spec.job.first_fragments
    stream = new_stream(first, slots, isinstance(recorded, Blocks))
    part = spec.worker_part if isinstance(spec.worker_part, TreesPart) else ONE_TREE
    window.chunks = stream.tensor.size
    return Worker(
        config=config,
        state=new_record(worker_state.STATE, credit=slots * worker_state.UNIT),
        window=window,
        stream=stream,
        trees=new_trees(part, slots),
        kept=new_kept(spec),
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
        singles=singles,
        given=given.no_values(),
        kept_sums=kept_sums.new_sums(spec),
        counters=new_counters(),
        status=new_status(),
        lag=lag.new_lag(),
    )


def on_new_way(worker: Worker, part: TreesPart) -> Worker:
    """A worker whose trees have changed: what is in flight goes to the new ones, and other workers
    are asked at once."""
    worker.trees.number[:] = part.numbers
    worker.trees.root[:] = part.roots
    busy = worker.busy == 1
    worker.due_ns[busy] = 0
    worker.attempts[busy] = np.maximum(worker.attempts[busy], ASKED_AFTER - 1)
    worker.window.earliest_ns = 0 if busy.any() else worker.window.earliest_ns
    return worker


@njit(cache=True)
def begin(worker, scoreboard, iteration):
    """Start exchanging the gradients of an iteration."""
    window = worker.window
    send_scoreboard.begin(scoreboard, iteration)
    worker_state.begin(worker, iteration)
    if iteration > 0:
        window.first_chunk += window.chunks
    if worker.given.source.size > 0:
        window.chunks = 0  # `open_tensor` adds them
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
        if worker.kept.chunk.size > 0 and _is_question(config, row, lengths[i], base):
            _hear(worker, row)
            continue
        if (
            wire.expand(row, lengths[i], base, value_count, config.short) != full
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
        if wire.flags(row) & wire.RESEND or wire.kind(row) == wire.RESULT_ONE:
            unproven_losses.prove(worker)
        if worker.stream.announced[place] >= 0:
            worker.exponent[worker.stream.announced[place]] = wire.next_exponent(row)
        if worker.attempts[slot] == 0:
            worker_state.measure_round_trip(state, now - worker.sent_ns[slot])
            window.heard_ns = max(window.heard_ns, worker.sent_ns[slot])
        if worker.kept.chunk.size > 0:
            worker.kept.chunk[slot] = number
            worker.kept.rows[slot] = row
        if window.follows_marks == 1:
            marked = wire.flags(row) & wire.ECN != 0
            worker_state.adapt_window(worker, marked, False, worker.sent_ns[slot], now)
        worker.busy[slot] = 0
        window.in_flight -= 1
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
def _is_question(config, row, length, base):
    """True if a worker of the job asks for a result."""
    return not wire.is_foreign(row, length, base, config.job) and wire.kind(row) == wire.ASK


@njit(cache=True)
def _hear(worker, row):
    """Note a question if this worker has the result. Without room for it, it is asked again."""
    kept, number = worker.kept, wire.fragment(row)
    slot, asker = number % worker.config.window, wire.sender(row)
    waiting = kept.waiting[0]
    if kept.chunk[slot] == number and asker < worker.config.workers and waiting < kept.slot.size:
        kept.slot[waiting], kept.worker[waiting] = slot, asker
        kept.waiting[0] = waiting + 1


@njit(cache=True)
def _answer(worker, now, packets, lengths, destinations, filled):
    """Answer questions, from row `filled` on; returns the number of rows that are filled then."""
    kept, config = worker.kept, worker.config
    base = wire.HEADER_WORDS + config.bitmap_words
    while kept.waiting[0] > 0 and filled < packets.shape[0]:
        kept.waiting[0] -= 1
        last = kept.waiting[0]
        row = packets[filled]
        row[:] = kept.rows[kept.slot[last]]
        wire.set_word(row, 0, (wire.word(row, 0) & 0xF0FFFFFF) | wire.RESULT_ONE << 24)
        lengths[filled] = wire.compact(row, base, row.size - base, config.omit_zeros, config.short)
        destinations[filled] = kept.workers_at[0] + kept.worker[last]
        worker_state.take_pace(worker.state, config, now, lengths[filled])
        filled += 1
    return filled


@njit(cache=True)
def _ask(worker, slot, packets, lengths, destinations, filled):
    """Ask the next workers for the result of a slot's chunk, from row `filled` on: one, then two,
    then four. Returns the number of rows that are filled then."""
    kept, config = worker.kept, worker.config
    if config.workers < 2:
        return filled
    count = np.int64(1) << (worker.attempts[slot] - ASKED_AFTER)
    while count > 0 and filled < packets.shape[0]:
        other = (config.number + 1 + kept.asked[slot]) % config.workers
        row = packets[filled]
        wire.write_header(row, wire.ASK, 1, 0, config.job, 0, worker.chunk[slot], 0, config.number)
        wire.set_worker(row, config.bitmap_words, config.number)
        lengths[filled] = 4 * (wire.HEADER_WORDS + config.bitmap_words)
        destinations[filled] = kept.workers_at[0] + other
        filled += 1
        count -= 1
        kept.asked[slot] += 1
        if kept.asked[slot] >= config.workers - 1:
            kept.asked[slot] = 0
            break
    return filled


@njit(cache=True)
def _check(worker, scoreboard, row, base, place, fragment):
    """True if the packet holds the sum over all workers; else the place is noted in the status."""
    if fragment >= 0:
        return payload.check_values(worker, scoreboard, row, base, fragment, wire.flags(row))
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
    index = np.int64(worker.trees.place[slot])
    if (number // config.window) % config.sets:
        index |= SECOND_SET
    if fragment >= 0:
        flags |= payload.flags_of(worker, scoreboard, fragment)
    node = worker.trees.number[worker.trees.of[slot]]
    wire.write_header(row, wire.GRADIENT, 1, flags, config.job, node, number, index, config.number)
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
        if config.short > 0:
            scale = block_float.short_scale_of(exponent, wire.bits_of(config.short))
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
    if config.omit_zeros == 1 or config.short > 0:
        return wire.compact(row, base, scoreboard.state.values, config.omit_zeros, config.short)
    return 4 * (base + scoreboard.state.values)


@njit(cache=True)
def _next_slot(worker, scoreboard):
    """The slot whose next chunk comes first in the stream, or -1 if that may not be sent yet. All
    workers send in the order of the stream, so with one chunk each in flight they go on."""
    window = worker.window
    if window.free == 0:
        return -1
    if (
        window.follows_marks == 1
        and (window.in_flight + 1) * worker_state.UNIT > worker.state.credit
    ):
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
def _resend(worker, scoreboard, now, packets, lengths, destinations):
    """Send again what is due, or was sent well before a chunk whose result is here, into the first
    rows; returns their number."""
    config, state, window = worker.config, worker.state, worker.window
    lost_ns = window.heard_ns - worker_state.patience_ns(worker)
    if window.earliest_ns > now and window.oldest_ns > lost_ns:
        return 0
    if unproven_losses.not_before(worker) > now:
        return 0
    filled = 0
    earliest, oldest = worker_state.NEVER, worker_state.NEVER
    retry = worker_state.retry_ns(worker)
    for slot in range(config.window):
        if worker.busy[slot] == 0:
            continue
        late = worker.due_ns[slot] <= now
        if (
            (late or worker.sent_ns[slot] <= lost_ns)
            and filled < packets.shape[0]
            and unproven_losses.take(worker, now)
        ):
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
            destinations[filled] = worker.trees.root[worker.trees.of[slot]]
            worker_state.take_pace(state, config, now, lengths[filled])
            worker.counters[0].retransmissions += 1
            worker.due_ns[slot] = now + send_scoreboard.backoff_ns(retry, worker.attempts[slot])
            filled += 1
            if worker.kept.chunk.size > 0 and worker.attempts[slot] >= ASKED_AFTER:
                filled = _ask(worker, slot, packets, lengths, destinations, filled)
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
    filled = _resend(worker, scoreboard, now, packets, lengths, destinations)
    filled = _answer(worker, now, packets, lengths, destinations, filled)
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
            lag.record(worker.lag, now - worker_state.paced_ns(state, config))
            waited = False
        window.free = heap.pop(worker.free, window.free, worker.chunk)
        lengths[filled] = _write_gradient(worker, scoreboard, packets[filled], slot, 0)
        destinations[filled] = worker.trees.root[worker.trees.of[slot]]
        worker_state.take_pace(state, config, now, lengths[filled])
        tensor = worker.stream.tensor[worker.chunk[slot] - window.first_chunk]
        row = scoreboard.state.row
        if scoreboard.first_sent_ns[row, tensor] < 0:
            scoreboard.first_sent_ns[row, tensor] = now
        worker.busy[slot] = 1
        window.in_flight += 1
        worker.attempts[slot] = 0
        if worker.kept.chunk.size > 0:
            worker.kept.asked[slot] = 0
        worker.sent_ns[slot] = now
        worker.due_ns[slot] = now + timeout
        window.earliest_ns = min(window.earliest_ns, worker.due_ns[slot])
        window.oldest_ns = min(window.oldest_ns, now)
        filled += 1
    state.more = 1 if filled == capacity else 0
    return filled


@njit(cache=True)
def deadline(worker, scoreboard):
    """Time of the next call of `send` if nothing arrives before; ns, NEVER if there is none."""
    state, window = worker.state, worker.window
    if state.more == 1:
        return 0
    due = max(window.earliest_ns, unproven_losses.not_before(worker))
    if state.pacing == 1:
        due = min(due, worker_state.paced_ns(state, worker.config))
    return due
