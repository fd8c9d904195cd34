"""Tokens of experts: a rank that owns them, and those to which some go (p4/tokens.p4).

The *owner*, worker 0 of the communicator, is the server of its sums. Each fragment of a call has a
*chunk*, and the owner has at most a window of chunks in flight, which it clocks by itself:

    owner       a result to the members of the call, whom its bitmap names: in a dispatch with
                tokens, in a combine without values, as a question
    members     a gradient each to the owner: in a dispatch without values, as an acknowledgement;
                in a combine with the answer to the tokens. `wanted` names all members
    switches    copy the result, and add the gradients up, with the rules of their system
    owner       adds what comes: a sum of all members, or, from a pool, several of some of them

Members ask nothing and time nothing out. They answer each question, again too, once their call has
begun. The owner asks those that a chunk lacks after a timeout again, and their answers carry the
flag `resend`. A congestion mark that a question or its answer got on its way halves the owner's
window. It takes gradients of workers that it lacks, and drops others, so each answer is in a
sum once. The next chunk of a slot comes after the last one is whole, so a switch may overwrite what
it has of older chunks, and late packets are of chunks that are over.

A member is done with a dispatch when it has the tokens, and with a combine when it has answered; it
answers again after that, also in the next iteration. Values are generated (values.py), so it needs
no memory of what it gave. It takes tokens up to one iteration ahead.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from p4fabric.simulate.jit import njit
from p4fabric.simulate.records import new_record, record

from testbed.protocols import (
    esa,
    given,
    lag,
    payload,
    priority,
    send_scoreboard,
    sizes,
    unproven_losses,
    values,
    wire,
    worker_state,
)
from testbed.protocols.formats import kept_sums, recorded_floats
from testbed.protocols.host_spec import (
    REMINDERS_OF_PATIENCE,
    HostSpec,
    PoolSpec,
    SlotsSpec,
    TreesPart,
)
from testbed.protocols.slot_worker import ONE_TREE, SECOND_SET, Trees, new_trees
from testbed.protocols.status import new_counters, new_status

OWNER = 0
NOTHING = -1
FEWEST = 4  # chunks that an owner begins with
GAP = 16  # chunks before a whole one that are looked at

WINDOW = record(
    "next",  # place of the chunk that the owner sends next
    "in_flight",  # chunks
    "earliest_ns",  # no chunk is due to be sent again before, by a timeout alone,
    "partial_ns",  # or because some of it, or a later one, is here
    "early",  # fragments whose tokens are here, and whose call has not begun
    "waiting",  # entries in Tokens.line
)


class Tokens(NamedTuple):
    """T tensors, F fragments and as many chunks per iteration, S slots, B words of a bitmap."""

    config: np.record  # worker_state.CONFIG; `window` is S
    state: np.record  # worker_state.STATE
    window: np.record  # WINDOW
    trees: Trees  # of slots
    fragment: np.ndarray  # int32[F], of each chunk: the first call is the last tensor
    wanted: np.ndarray  # int64[T, B], the members of each call, as words of a packet
    mine: np.ndarray  # uint8[T], 1: this worker takes part
    down: np.ndarray  # uint8[T], 1: a dispatch
    level: np.ndarray  # int64[T], priority of its gradients in a pool
    chunk: np.ndarray  # int64[S], number of the chunk in flight
    busy: np.ndarray  # uint8[S]
    attempts: np.ndarray  # uint8[S]
    gap: np.ndarray  # uint8[S], 1: it is not whole, and one of its call that was sent later is
    sent_ns: np.ndarray  # int64[S]
    due_ns: np.ndarray  # int64[S]
    got: np.ndarray  # int64[S, B], the members in the sum so far
    rows: np.ndarray  # uint32[S, words], and the sum; of a member uint32[0, words]
    asked: np.ndarray  # int64[S], a chunk to answer; NOTHING
    again: np.ndarray  # int64[S], flags of the answer
    line: np.ndarray  # int32[S], the slots with such chunks, in order
    have: np.ndarray  # uint8[2, F], of an iteration and the next one: tokens are here
    early: np.ndarray  # int64[2, T], of them, those that the scoreboard does not know of
    recorded: np.ndarray
    sums: np.ndarray
    singles: recorded_floats.RecordedFloats
    given: given.Given
    kept_sums: np.ndarray
    lag: np.ndarray
    counters: np.ndarray
    status: np.ndarray


def new_worker(spec: HostSpec) -> Tokens:
    """A machine of the owner or of a member."""
    job, options = spec.job, spec.options
    slots, fragments = options.window, job.fragments
    half, tensors = job.bitmap_width // 64, len(job.tensors)
    words = sizes.packet_words(job.values, job.bitmap_width)
    # Members have owners' tokens from all of them at once. Up to the first mark it doubles.
    begun = min(slots, max(slots // job.workers, FEWEST))
    more = {"index_mode": NOTHING}
    if isinstance(options, PoolSpec):
        more = esa.places_of(spec)
        # What a pool keeps does not come by itself, also where links lose nothing.
        rest_ns = REMINDERS_OF_PATIENCE * options.min_reminder_delay_ns
        spec = replace(spec, options=replace(options, min_patience_ns=rest_ns))
    more["sets"] = options.sets if isinstance(options, SlotsSpec) else 1
    wanted = np.zeros((tensors, half), np.int64)
    for tensor, members in enumerate(job.wanted):
        for member in members:
            wanted[tensor, half - 1 - member // 32] |= 1 << (member % 32)
    part = spec.worker_part if isinstance(spec.worker_part, TreesPart) else ONE_TREE
    takes_part = [spec.number == OWNER or spec.number in members for members in job.wanted]
    return Tokens(
        config=worker_state.configuration(spec, **more),
        state=new_record(worker_state.STATE, credit=begun * worker_state.UNIT),
        window=new_record(WINDOW, earliest_ns=worker_state.NEVER, partial_ns=worker_state.NEVER),
        trees=new_trees(part, slots),
        fragment=sizes.sending_order(job.first_fragments),
        wanted=wanted,
        mine=np.array(takes_part, np.uint8),
        down=np.array([gives == given.ONE for _, _, gives in job.shares], np.uint8),
        level=np.array(
            [each or priority.MIDDLE for each in job.levels or (0,) * tensors], np.int64
        ),
        chunk=np.full(slots, NOTHING, np.int64),
        busy=np.zeros(slots, np.uint8),
        attempts=np.zeros(slots, np.uint8),
        gap=np.zeros(slots, np.uint8),
        sent_ns=np.zeros(slots, np.int64),
        due_ns=np.zeros(slots, np.int64),
        got=np.zeros((slots, half), np.int64),
        rows=np.zeros((slots * (spec.number == OWNER), words), np.uint32),
        asked=np.full(slots, NOTHING, np.int64),
        again=np.zeros(slots, np.int64),
        line=np.zeros(slots, np.int32),
        have=np.zeros((2, fragments), np.uint8),
        early=np.zeros((2, tensors), np.int64),
        recorded=np.zeros((0, 0), np.int32),
        sums=np.zeros((0, 0), np.int32),
        singles=recorded_floats.no_floats(),
        given=given.no_values(),
        kept_sums=kept_sums.new_sums(spec),
        lag=lag.new_lag(),
        counters=new_counters(),
        status=new_status(),
    )


@njit(cache=True)
def begin(worker, scoreboard, iteration):
    """An iteration begins. Calls of others are over."""
    send_scoreboard.begin(scoreboard, iteration)
    worker_state.begin(worker, iteration)
    worker.window.next = 0
    following = (iteration + 1) & 1
    worker.window.early -= worker.early[following].sum()
    worker.early[following] = 0
    worker.have[following] = 0
    for tensor in range(worker.mine.size):
        if worker.mine[tensor] == 0:
            scoreboard.ready[tensor] = 1
            scoreboard.missing[tensor] = 0
            scoreboard.state.unfinished -= 1


@njit(cache=True)
def open_tensor(worker, scoreboard, tensor, layer):
    """Calls of programs have no tokens of this kind."""


@njit(cache=True)
def receive(worker, scoreboard, now, packets, lengths, count):
    """Take `count` packets: uint32[*, words] rows with their payload lengths in bytes.

    Returns True when the iteration's last result is among them. After a wrong value it stops, with
    the status FAILED set."""
    config, chunks = worker.config, worker.fragment.size
    base = wire.HEADER_WORDS + config.bitmap_words
    full = 4 * (base + scoreboard.state.values)
    finished = False
    for i in range(count):
        row = packets[i]
        length = wire.expand(row, lengths[i], base, scoreboard.state.values, config.short)
        kind, number = wire.kind(row), wire.fragment(row)
        if (
            length != full
            or wire.is_foreign(row, length, base, config.job)
            or number >= config.iterations * chunks
            or kind != (wire.GRADIENT if config.number == OWNER else wire.RESULT)
        ):
            worker.counters[0].foreign += 1
            continue
        if kind == wire.GRADIENT:
            finished |= _take_answer(worker, scoreboard, row, base, number, now)
        else:
            _take_question(worker, scoreboard, row, base, number)
        if worker.status[0].failed == 1:
            return finished
    return finished


@njit(cache=True)
def _take_question(worker, scoreboard, row, base, number):
    """Tokens or a question from the owner: to be answered."""
    config, counters, chunks = worker.config, worker.counters[0], worker.fragment.size
    iteration, fragment = number // chunks, np.int64(worker.fragment[number % chunks])
    tensor, slot = scoreboard.tensor[fragment], number % config.window
    current = max(scoreboard.state.iteration, 0)
    if worker.mine[tensor] == 0:
        counters.foreign += 1
        return
    if number < worker.asked[slot] or iteration > current + 1:
        counters.stale += 1
        return
    if worker.down[tensor] == 1 and iteration >= current:
        side = iteration & 1
        if worker.have[side, fragment] == 1:
            counters.duplicate_results += 1
        else:
            if not _check(worker, scoreboard, row, base, iteration, fragment):
                return
            worker.have[side, fragment] = 1
            worker.early[side, tensor] += 1
            worker.window.early += 1
    if worker.asked[slot] == NOTHING:
        worker.line[worker.window.waiting] = slot
        worker.window.waiting += 1
    worker.asked[slot] = number
    worker.again[slot] = wire.flags(row) & (wire.RESEND | wire.ECN)


@njit(cache=True)
def _check(worker, scoreboard, row, base, iteration, fragment):
    """True if a row has the right values of a fragment of an iteration; else the place is noted."""
    state, before = scoreboard.state, scoreboard.state.iteration
    state.iteration = iteration
    right = payload.check_values(worker, scoreboard, row, base, fragment, wire.flags(row))
    state.iteration = before
    return right


@njit(cache=True)
def add_ready(worker, scoreboard, now):
    """Tell the scoreboard of tokens that are here and whose call has begun. Returns (whether there
    are any, whether they finish the iteration)."""
    window, iteration = worker.window, scoreboard.state.iteration
    if window.early == 0 or iteration < 0:
        return False, False
    early, have, some, finished = (
        worker.early[iteration & 1],
        worker.have[iteration & 1],
        False,
        False,
    )
    for tensor in range(worker.mine.size):
        if early[tensor] == 0 or scoreboard.ready[tensor] == 0:
            continue
        some = True
        window.early -= early[tensor]
        early[tensor] = 0
        for fragment in range(scoreboard.first[tensor], scoreboard.end[tensor]):
            if have[fragment] == 1 and not send_scoreboard.has_result(scoreboard, fragment):
                worker.counters[0].results += 1
                finished |= send_scoreboard.mark_received(scoreboard, fragment, now)
    return some, finished


@njit(cache=True)
def _take_answer(worker, scoreboard, row, base, number, now):
    """A sum of some members, or of all; True if it finishes the iteration."""
    config, state, counters = worker.config, worker.state, worker.counters[0]
    slot, half = number % config.window, worker.wanted.shape[1]
    if worker.busy[slot] == 0 or worker.chunk[slot] != number:
        counters.stale += 1
        return False
    fragment = np.int64(worker.fragment[number % worker.fragment.size])
    tensor, first = scoreboard.tensor[fragment], wire.HEADER_WORDS + half
    nobody, added, strange, is_whole = True, False, False, True
    for i in range(half):
        their, got = wire.word(row, first + i), worker.got[slot, i]
        nobody = nobody and got == 0
        added = added or their & got != 0
        strange = strange or their & ~worker.wanted[tensor, i] != 0
        is_whole = is_whole and their | got == worker.wanted[tensor, i]
    if added or strange:
        counters.ps_overlaps += 1
        return False
    counters.ps_packets += 1
    total, stop = worker.rows[slot], base + scoreboard.state.values
    if nobody:
        total[:stop] = row[:stop]
    elif worker.down[tensor] == 0:
        for i in range(base, stop):
            wire.set_word(total, i, wire.word(total, i) + wire.word(row, i))
    wire.set_word(total, 0, wire.word(total, 0) | wire.flags(row) & wire.ECN)
    for i in range(half):
        worker.got[slot, i] |= wire.word(row, first + i)
    if not is_whole:
        # The others may be in an aggregator where nobody else comes any more.
        due = now + _rest_ns(worker)
        worker.due_ns[slot] = min(worker.due_ns[slot], due)
        worker.window.partial_ns = min(worker.window.partial_ns, worker.due_ns[slot])
        return False
    if worker.down[tensor] == 0 and not _check_sum(
        worker, scoreboard, total, base, tensor, fragment
    ):
        return False
    if wire.flags(row) & wire.RESEND:
        unproven_losses.prove(worker)
    if worker.attempts[slot] == 0:
        worker_state.measure_round_trip(state, now - worker.sent_ns[slot])
        _see_gaps(worker, scoreboard, number, now)
    marked = wire.flags(total) & wire.ECN != 0
    worker_state.adapt_window(worker, marked, state.cut_ns == 0, worker.sent_ns[slot], now)
    worker.busy[slot] = 0
    worker.window.in_flight -= 1
    counters.results += 1
    return send_scoreboard.mark_received(scoreboard, fragment, now)


@njit(cache=True)
def _rest_ns(worker):
    """Time after which what a chunk lacks is asked for, if some of it is here. A pool may keep the
    rest without end, so the owner reminds, also before it has measured a round trip."""
    config = worker.config
    if worker.state.round_trip_ns == 0 and config.index_mode != NOTHING and config.timeout_ns == 0:
        return config.min_patience_ns
    return worker_state.retry_ns(worker)


@njit(cache=True)
def _see_gaps(worker, scoreboard, number, now):
    """A chunk is whole: those of its call that were sent before it are due after a round trip."""
    patience, chunks = worker_state.patience_ns(worker), worker.fragment.size
    tensor = scoreboard.tensor[worker.fragment[number % chunks]]
    if patience == worker_state.NEVER:
        return
    for before in range(number - 1, max(number - GAP, number - number % chunks) - 1, -1):
        slot = before % worker.config.window
        if scoreboard.tensor[worker.fragment[before % chunks]] != tensor:
            return
        if worker.busy[slot] == 1 and worker.chunk[slot] == before and worker.attempts[slot] == 0:
            worker.gap[slot] = 1
            due = max(worker.sent_ns[slot] + patience, now)
            worker.due_ns[slot] = min(worker.due_ns[slot], due)
            worker.window.partial_ns = min(worker.window.partial_ns, worker.due_ns[slot])


@njit(cache=True)
def _check_sum(worker, scoreboard, row, base, tensor, fragment):
    """True if a row has the sum of a call's members."""
    config, state, iteration = worker.config, worker.state, scoreboard.state.iteration
    total, size = state.factor_sum, state.factor_size
    own = worker_state.factor_of(config, iteration, OWNER)  # which the check takes away
    state.factor_sum, state.factor_size = own, abs(own)
    half = worker.wanted.shape[1]
    for member in range(config.workers):
        if worker.wanted[tensor, half - 1 - member // 32] >> (member % 32) & 1:
            factor = worker_state.factor_of(config, iteration, member)
            state.factor_sum += factor
            state.factor_size += abs(factor)
    right = payload.check_values(worker, scoreboard, row, base, fragment, wire.flags(row))
    state.factor_sum, state.factor_size = total, size
    return right


@njit(cache=True)
def _index(worker, number):
    """Index of a chunk in a packet."""
    config = worker.config
    if config.index_mode != NOTHING:
        return esa.index_of(config.index_mode, config.aggregators, config.index_start, number)
    index = np.int64(worker.trees.place[number % config.window])
    if (number // config.window) % config.sets:
        index |= SECOND_SET
    return index


@njit(cache=True)
def _write(worker, scoreboard, row, number, kind, flags):
    """Write a packet of a chunk, without its bitmaps; returns the bytes of the payload."""
    config, chunks = worker.config, worker.fragment.size
    iteration, fragment = number // chunks, np.int64(worker.fragment[number % chunks])
    tensor = scoreboard.tensor[fragment]
    base, index = wire.HEADER_WORDS + config.bitmap_words, _index(worker, number)
    node = worker.trees.number[worker.trees.of[number % config.window]]
    level = worker.level[tensor]
    wire.write_header(row, kind, level, flags, config.job, node, number, index, config.number)
    if (kind == wire.RESULT) != (worker.down[tensor] == 1):
        values.write_zeros(row, base, base + scoreboard.state.values)
    else:
        # Perhaps of an iteration that is over for this worker.
        state, now = scoreboard.state, scoreboard.state.iteration
        state.iteration = iteration
        worker.state.factor = worker_state.factor_of(config, iteration, config.number)
        payload.write_values(worker, scoreboard, row, base, fragment)
        state.iteration = now
    return wire.compact(row, base, scoreboard.state.values, config.omit_zeros, config.short)


@njit(cache=True)
def _ask(worker, scoreboard, row, slot, flags):
    """Write what the owner sends of a slot's chunk: for those that it lacks."""
    half, number = worker.wanted.shape[1], worker.chunk[slot]
    tensor = scoreboard.tensor[worker.fragment[number % worker.fragment.size]]
    length = _write(worker, scoreboard, row, number, wire.RESULT, flags)
    for i in range(half):
        wire.set_word(row, wire.HEADER_WORDS + i, 0)
        missing = worker.wanted[tensor, i] & ~worker.got[slot, i]
        wire.set_word(row, wire.HEADER_WORDS + half + i, missing)
    worker_state.take_pace(worker.state, worker.config, worker.sent_ns[slot], length)
    return length


@njit(cache=True)
def _ask_again(worker, scoreboard, now, packets, lengths, destinations):
    """Ask again for chunks that are due, into the first rows; returns their number."""
    window = worker.window
    if _next_ns(worker) > now:
        return 0
    filled = 0
    window.earliest_ns = window.partial_ns = worker_state.NEVER
    retry = _rest_ns(worker)
    for slot in range(worker.config.window):
        if worker.busy[slot] == 0:
            continue
        partial = worker.gap[slot] == 1 or worker.got[slot].any()
        if (
            worker.due_ns[slot] <= now
            and filled < packets.shape[0]
            and (partial or unproven_losses.take(worker, now))
        ):
            worker.counters[0].gap_resends += worker.gap[slot]
            worker.gap[slot] = 0
            worker.attempts[slot] = min(worker.attempts[slot] + 1, send_scoreboard.MAX_ATTEMPTS)
            worker.sent_ns[slot] = now
            lengths[filled] = _ask(worker, scoreboard, packets[filled], slot, wire.RESEND)
            destinations[filled] = 0
            worker.counters[0].retransmissions += 1
            worker.due_ns[slot] = now + send_scoreboard.backoff_ns(retry, worker.attempts[slot])
            filled += 1
        if partial:
            window.partial_ns = min(window.partial_ns, worker.due_ns[slot])
        else:
            window.earliest_ns = min(window.earliest_ns, worker.due_ns[slot])
    return filled


@njit(cache=True)
def _next_ns(worker):
    """Time at which the next chunk is due to be asked for again."""
    earliest = max(worker.window.earliest_ns, unproven_losses.not_before(worker))
    return min(earliest, worker.window.partial_ns)


@njit(cache=True)
def _is_due(worker, scoreboard, number):
    """True if this member may answer a chunk now: acknowledge tokens, or its answer is there."""
    iteration = number // worker.fragment.size
    tensor = scoreboard.tensor[worker.fragment[number % worker.fragment.size]]
    if worker.down[tensor] == 1 or iteration < scoreboard.state.iteration:
        return True
    return iteration == scoreboard.state.iteration and scoreboard.ready[tensor] == 1


@njit(cache=True)
def _answer(worker, scoreboard, now, packets, lengths, destinations, filled):
    """Answer what is due, from row `filled` on; returns the number of rows that are filled then."""
    config, state, window, half = worker.config, worker.state, worker.window, worker.wanted.shape[1]
    left = 0
    for place in range(window.waiting):
        slot = np.int64(worker.line[place])
        number = worker.asked[slot]
        waits = filled == packets.shape[0] or not _is_due(worker, scoreboard, number)
        if not waits and state.next_send_ps > now * 1000:
            state.pacing = 1
            waits = True
        if waits:
            worker.line[left] = slot
            left += 1
            continue
        row, chunks = packets[filled], worker.fragment.size
        lengths[filled] = _write(worker, scoreboard, row, number, wire.GRADIENT, worker.again[slot])
        fragment = np.int64(worker.fragment[number % chunks])
        tensor = scoreboard.tensor[fragment]
        wire.set_worker(row, config.bitmap_words, config.number)
        for i in range(half):
            wire.set_word(row, wire.HEADER_WORDS + i, worker.wanted[tensor, i])
        destinations[filled] = 0
        worker_state.take_pace(state, config, now, lengths[filled])
        worker.counters[0].gradient_packets += 1
        worker.counters[0].retransmissions += 1 if worker.again[slot] & wire.RESEND else 0
        worker.asked[slot] = NOTHING
        filled += 1
        if (
            worker.down[tensor] == 0
            and number // chunks == scoreboard.state.iteration
            and not send_scoreboard.has_result(scoreboard, fragment)
        ):
            if scoreboard.first_sent_ns[scoreboard.state.row, tensor] < 0:
                scoreboard.first_sent_ns[scoreboard.state.row, tensor] = now
            worker.counters[0].results += 1
            send_scoreboard.mark_received(scoreboard, fragment, now)
            state.more = 1  # the graph is to hear of it
    window.waiting = left
    return filled


@njit(cache=True)
def send(worker, scoreboard, now, packets, lengths, destinations):
    """Fill rows of `packets` with what is due at `now`; returns their number."""
    config, state, window = worker.config, worker.state, worker.window
    capacity, chunks = packets.shape[0], worker.fragment.size
    state.pacing = 0
    state.more = 0
    filled = _ask_again(worker, scoreboard, now, packets, lengths, destinations)
    filled = _answer(worker, scoreboard, now, packets, lengths, destinations, filled)
    if config.number != OWNER or scoreboard.state.iteration < 0:
        state.more = 1 if filled == capacity else state.more
        return filled
    timeout = worker_state.timeout_ns(worker)
    while filled < capacity and window.next < chunks:
        number = scoreboard.state.iteration * chunks + window.next
        slot, tensor = number % config.window, scoreboard.tensor[worker.fragment[window.next]]
        if worker.busy[slot] == 1 or scoreboard.ready[tensor] == 0:
            break
        if (window.in_flight + 1) * worker_state.UNIT > state.credit:
            break
        if state.next_send_ps > now * 1000:
            state.pacing = 1
            break
        worker.busy[slot], worker.chunk[slot], worker.attempts[slot] = 1, number, 0
        window.in_flight += 1
        worker.got[slot] = 0
        worker.gap[slot] = 0
        worker.sent_ns[slot], worker.due_ns[slot] = now, now + timeout
        window.earliest_ns = min(window.earliest_ns, worker.due_ns[slot])
        lengths[filled] = _ask(worker, scoreboard, packets[filled], slot, 0)
        destinations[filled] = 0
        if scoreboard.first_sent_ns[scoreboard.state.row, tensor] < 0:
            scoreboard.first_sent_ns[scoreboard.state.row, tensor] = now
        window.next += 1
        filled += 1
    state.more = 1 if filled == capacity else state.more
    return filled


@njit(cache=True)
def deadline(worker, scoreboard):
    """Time of the next call of `send` if nothing arrives before; ns, NEVER if there is none."""
    due = 0 if worker.state.more == 1 else _next_ns(worker)
    if worker.state.pacing == 1:
        due = min(due, worker_state.paced_ns(worker.state, worker.config))
    return due
