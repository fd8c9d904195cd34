"""Sums that hosts make, without a server: a worker adds its values to what others send it, and
passes the sums on, as the chunks of an algorithm say (testbed/algorithms).

Fragments take turns in chunks. In a chunk a partial sum goes up a tree to the worker that completes
it, and the whole sum goes down another one. A fragment moves on when all its parts have come and
the worker's own gradient of its tensor is ready. No step waits for other fragments, so a small
tensor costs what its few fragments cost, and every tensor is done as early as its own fragments
allow. If a sum is for one worker only (reduce_scatter, reduce), nothing goes down; if one worker
alone gives values (all_gather, broadcast), nothing goes up.

Packets are reliable between two hosts (host_links.py). What has come once is known by the bitmap of
workers and never added twice.

A neighbour may be in iteration i + 1 while this worker waits for rear tensors of i. So a member
keeps rows for two iterations. It takes no packet of i + 2 before its neighbours have all that it
has to give them of i, and until then they try with a single packet. A sum is held only from its
arrival until the neighbours have what became of it, in a place that is used again at once: a window
of sums, and those that wait for this worker's own gradient. The packet's fields: docs/baselines.md.

With a cost profile a packet has to wait until the worker may use it, as long as a step from its
sender takes. It is acknowledged before, so that windows need not grow with steps.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from p4fabric.simulate.jit import njit
from p4fabric.simulate.records import new_record, record

from testbed.number_formats import INT32
from testbed.protocols import (
    heap,
    host_links,
    lag,
    payload,
    pool_worker,
    send_scoreboard,
    values,
    wire,
    worker_state,
)
from testbed.protocols.formats import by_number
from testbed.protocols.host_links import NONE
from testbed.protocols.host_spec import CallCosts, ChunksPart, HostSpec, HostSumsSpec
from testbed.protocols.worker_state import NEVER

# Directions in a chunk, and of items of a queue
UP = 0  # a partial sum
DOWN = 1  # the sum of all

# Member.state
STATE = record(
    "tensor",  # the last tensor whose own gradient has not been added yet, -1: none
    "order",  # how many items have been queued in this iteration, at least
    "free",  # entries in Member.free
    "held",  # rows of Member.sums that have ever been used
    "over",  # entries in Member.over
    "paced_ps",  # time from which a partial sum for one worker may go that waits for its pace alone
    "span",  # most fragments of a tensor that have begun here and are not whole yet
    "met",  # the latest iteration that all workers are known to have begun, -1: none
)

HELD = ("sums", "free", "queue", "over")  # of Member: what takes memory only where it is used

ORDERS = 1 << 31  # more than items of an iteration
# Bits of Member.stage, per row
ADDED = 1  # this worker's own values are in the sum
WHOLE = 2  # the sum of all workers is here
GOING_UP = 4  # the partial sum has not arrived yet where it goes
FOR_ONE = 8  # the sum is for one worker


class Chunks(NamedTuple):
    """C chunks from a worker's point of view; peers by their places."""

    table: (
        np.ndarray
    )  # int64[3, 2], of a use of values (host_spec.ChunksPart): the first chunk, and
    #                    how many of them take turns
    up: np.ndarray  # int64[C], who gets the partial sum; NONE: this worker completes it
    source: np.ndarray  # int64[C], from whom the whole sum comes; NONE
    first_below: np.ndarray  # int64[C + 1], where in `below` those begin
    below: np.ndarray  # int64[*], whose partial sums come
    first_after: np.ndarray  # int64[C + 1], where in `after` those begin
    after: np.ndarray  # int64[*], who gets the whole sum
    pace: np.ndarray  # int64[C], see host_spec.ChunksPart


class Steps(NamedTuple):
    """Costs of steps, and packets that wait for theirs: K kinds of costs, P peers, T tensors, R
    places of packets, W words. Everything is empty without a cost profile."""

    step_ns: np.ndarray  # int64[K, P]
    kinds: np.ndarray  # int64[T]
    paces: np.ndarray  # int64[K], see host_spec.CallCosts
    waiting: np.ndarray  # int64[1], packets that wait
    heap: np.ndarray  # int32[R], their places, what is due first on top
    free: np.ndarray  # int32[R], the other places, from `waiting` on
    due_ns: np.ndarray  # int64[R]
    peer: np.ndarray  # int64[R]
    rows: np.ndarray  # uint32[R, W]


class Member(NamedTuple):
    """P peers, F fragments, B words of bitmap, V values. Row of fragment f of iteration i: (i & 1)
    F + f. Item 2 r + d is the sum of row r on its way up or down. A transmission's token is its
    item + 4 F i.

    `worker` is the pool systems' worker, whose values are used."""

    worker: pool_worker.Worker
    links: host_links.Links
    steps: Steps
    state: np.record  # STATE
    chunks: Chunks
    unbegun: np.ndarray  # int64[T], of a tensor that is ready: what begins here has, before it
    begun: np.ndarray  # int64[T], its fragments that have begun here and are not whole
    opened: np.ndarray  # int64[2], the iterations that the rows belong to, -1: none
    undelivered: np.ndarray  # int64[2], items of theirs that are queued or under way
    stage: np.ndarray  # uint8[2F]
    flags: np.ndarray  # uint16[2F]
    chunk: np.ndarray  # int32[2F]
    came: np.ndarray  # int16[2F], partial sums that have come
    uses: np.ndarray  # int16[2F], items of a row that are queued or under way
    sums: np.ndarray  # uint32[2F, B + V], bitmap and values as in a packet, network byte order.
    #                   Only those in use take memory: a page that nobody has written to takes none
    held: np.ndarray  # int32[2F], where a row's sum is, from 1; 0: none is held
    free: np.ndarray  # int32[2F], places of sums to use again, the last one first
    rank: np.ndarray  # int64[4F], of items, the smaller the sooner
    queue: np.ndarray  # int32[P, 4F], heaps of items by rank
    queued: np.ndarray  # int64[P]
    free_ps: np.ndarray  # int64[P], time from which a partial sum for one worker may go there
    over: np.ndarray  # int32[F], fragments that have left and whose sum this worker does not need
    own: np.ndarray  # uint32[B + V], scratch


class HostSumsRules(pool_worker.Stateless, pool_worker.Rules):
    """Nothing of a pool: no switch aggregates, and no server answers."""


def new_member(spec: HostSpec, gradients: pool_worker.Gradients | None = None) -> Member:
    """A member of a worker's specification."""
    job, options = spec.job, spec.options_of(HostSumsSpec)
    part = spec.worker_part_of(ChunksPart)
    worker = pool_worker.new_worker(spec, HostSumsRules(), gradients)
    words, rows, peers = job.bitmap_width // 32, 2 * job.fragments, len(part.partners)
    windows = options.window, options.window
    below, after = [each[2] for each in part.chunks], [each[3] for each in part.chunks]
    row_words = wire.HEADER_WORDS + words + job.values
    ahead = spec.costs.ahead if spec.costs is not None else 0
    return Member(
        worker=worker,
        links=host_links.new_links(
            spec, part.partners, options.ack_delay_ns, windows, worker.counters, yields=False
        ),
        steps=_new_steps(spec.costs, row_words),
        state=new_record(
            STATE, tensor=-1, met=-1, paced_ps=NEVER, span=_span(part.steps, options.window) + ahead
        ),
        chunks=Chunks(
            table=np.array(part.table, np.int64),
            up=np.array([each[0] for each in part.chunks], np.int64),
            source=np.array([each[1] for each in part.chunks], np.int64),
            first_below=np.cumsum([0, *map(len, below)]),
            below=np.array([place for own in below for place in own], np.int64),
            first_after=np.cumsum([0, *map(len, after)]),
            after=np.array([place for own in after for place in own], np.int64),
            pace=np.array([each[4] for each in part.chunks], np.int64),
        ),
        unbegun=np.zeros(len(job.tensors), np.int64),
        begun=np.zeros(len(job.tensors), np.int64),
        opened=np.full(2, -1, np.int64),
        undelivered=np.zeros(2, np.int64),
        stage=np.zeros(rows, np.uint8),
        flags=np.zeros(rows, np.uint16),
        chunk=np.zeros(rows, np.int32),
        came=np.zeros(rows, np.int16),
        uses=np.zeros(rows, np.int16),
        sums=np.zeros((rows, words + job.values), np.uint32),
        held=np.zeros(rows, np.int32),
        free=np.zeros(rows, np.int32),
        rank=np.zeros(2 * rows, np.int64),
        queue=np.zeros((peers, 2 * rows), np.int32),
        queued=np.zeros(peers, np.int64),
        free_ps=np.zeros(peers, np.int64),
        over=np.zeros(job.fragments, np.int32),
        own=np.zeros(words + job.values, np.uint32),
    )


def _new_steps(costs: CallCosts | None, words: int) -> Steps:
    costs = costs or CallCosts((), (), (), (), waiting=0, ahead=0)
    kinds, room = len(costs.step_ns), costs.waiting
    return Steps(
        step_ns=np.array(costs.step_ns, np.int64).reshape(kinds, -1 if kinds else 0),
        kinds=np.array(costs.kinds, np.int64),
        paces=np.array(costs.paces, np.int64),
        waiting=np.zeros(1, np.int64),
        heap=np.zeros(room, np.int32),
        free=np.arange(room, dtype=np.int32),
        due_ns=np.zeros(room, np.int64),
        peer=np.zeros(room, np.int64),
        rows=np.zeros((room, words), np.uint32),
    )


def _span(steps: int, window: int) -> int:
    """Number of fragments of a tensor that a worker may begin before they are whole. A window is
    two round trips; a sum is back after the steps, each half of one."""
    return max(window, steps * window // 8)


# ---- rows ----


@njit(cache=True)
def _is_open(member, iteration):
    """True if there are rows for an iteration. Its rows are those of two iterations before, from
    which they are taken when the neighbours have everything of that. If all workers have begun the
    one between, they have, even if some acknowledgement is still missing."""
    parity = iteration & 1
    if member.opened[parity] >= iteration:
        return True
    if member.undelivered[parity] > 0 and member.state.met < iteration - 1:
        return False
    member.opened[parity] = iteration
    member.undelivered[parity] = 0
    fragments = member.stage.size // 2
    low = parity * fragments
    for place in range(low, low + fragments):
        _let_go(member, place)
    member.stage[low : low + fragments] = 0
    member.flags[low : low + fragments] = 0
    member.came[low : low + fragments] = 0
    member.uses[low : low + fragments] = 0
    return True


@njit(cache=True)
def _hold(member, place):
    """Give the row a place for a sum, unless it has one."""
    state = member.state
    if member.held[place] != 0:
        return
    if state.free > 0:
        state.free -= 1
        member.held[place] = member.free[state.free]
    else:
        state.held += 1
        member.held[place] = state.held


@njit(cache=True)
def _let_go(member, place):
    """The row's sum, if it holds one, is needed no more."""
    if member.held[place] == 0:
        return
    member.free[member.state.free] = member.held[place]
    member.state.free += 1
    member.held[place] = 0


@njit(cache=True)
def _sum_of(member, place):
    """The sum that the row holds: bitmap and values, uint32[B + V]."""
    return member.sums[member.held[place] - 1]


@njit(cache=True)
def _begin_sum(member, scoreboard, place, fragment):
    """Hold this worker's own values as the row's sum."""
    worker = member.worker
    words, number = worker.config.bitmap_words, worker.config.number
    _hold(member, place)
    row = _sum_of(member, place)
    row[:words] = 0
    row[words - 1 - number // 32] = wire.swap(np.uint32(1 << (number % 32)))
    payload.write_values(worker, scoreboard, row, words, fragment)
    member.flags[place] |= np.uint16(payload.flags_of(worker, scoreboard, fragment) & wire.INTEGERS)


@njit(cache=True)
def _add(member, place, row, first):
    """Add bitmap and values, from word `first` of a row on, to the sum that is held."""
    words = member.worker.config.bitmap_words
    total = _sum_of(member, place)
    for i in range(words):
        total[i] |= row[first + i]
    adder = member.worker.config.adder
    if adder != INT32 and member.flags[place] & wire.INTEGERS == 0:
        wrong = np.int64(0)
        for i in range(words, total.size):
            both, lost = by_number.add(adder, wire.swap(total[i]), wire.swap(row[first + i]))
            total[i] = wire.swap(both)
            wrong |= lost
        if wrong:
            member.flags[place] |= np.uint16(wire.OVERFLOW)
        return
    overflow = np.int32(0)
    for i in range(words, total.size):
        old = np.int32(wire.swap(total[i]))
        more = np.int32(wire.swap(row[first + i]))
        both = np.int32(np.int64(old) + np.int64(more) & 0xFFFFFFFF)
        overflow |= (old ^ both) & (more ^ both)
        total[i] = wire.swap(np.uint32(both))
    if overflow < 0:
        member.flags[place] |= np.uint16(wire.OVERFLOW)


@njit(cache=True)
def _enqueue(member, scoreboard, p, item, fragment):
    """Let a row's sum go to a peer."""
    state, fragments = member.state, scoreboard.state.fragments
    parity = np.int64((item >> 1) >= fragments)
    member.rank[item] = state.order
    state.order += 1
    if scoreboard.state.order == send_scoreboard.FRONT:
        front = scoreboard.first[scoreboard.tensor[fragment]]
        member.rank[item] += (member.opened[parity] * fragments + front) * ORDERS
    member.uses[item >> 1] += 1
    member.undelivered[parity] += 1
    member.queued[p] = heap.push(member.queue[p], member.queued[p], member.rank, item)


@njit(cache=True)
def _give_down(member, scoreboard, place, fragment):
    """Let the whole sum go to those that get it from this worker."""
    chunks, chunk = member.chunks, member.chunk[place]
    for i in range(chunks.first_after[chunk], chunks.first_after[chunk + 1]):
        _enqueue(member, scoreboard, chunks.after[i], 2 * place + DOWN, fragment)


@njit(cache=True)
def _delivered(member, item):
    """A peer has what an item carries."""
    place = item >> 1
    if item & 1 == UP:
        if member.stage[place] & GOING_UP == 0:
            return
        member.stage[place] &= ADDED | WHOLE | FOR_ONE
    member.uses[place] -= 1
    member.undelivered[np.int64(place >= member.stage.size // 2)] -= 1
    if member.uses[place] == 0:
        _let_go(member, place)


# ---- one iteration ----


@njit(cache=True)
def begin(member, scoreboard, iteration):
    """Start exchanging the gradients of an iteration."""
    pool_worker.begin(member.worker, scoreboard, iteration)
    host_links.begin(member.links, iteration)
    if scoreboard.state.order == send_scoreboard.FRONT:
        member.state.order = 0
    member.state.tensor = scoreboard.state.tensors - 1


@njit(cache=True)
def open_tensor(member, scoreboard, tensor, layer):
    """Nothing is to be done for a tensor that a program has given."""


@njit(cache=True)
def _use(member, scoreboard, fragment):
    """(flag, worker, chunk) of a fragment whose tensor is ready: FOR_ONE, FROM_ONE or 0, the worker
    that the flag names, and the chunk."""
    worker, chunks = member.worker, member.chunks
    flag, meant = payload.meant_for(worker, scoreboard, fragment)
    use, root = 0, 0
    if flag != 0:
        use, root = 1 + payload.is_rooted(worker, scoreboard, fragment), meant
    first, count = chunks.table[use]
    return flag, meant, first + root * count + fragment % count


@njit(cache=True)
def _meet(member, iteration):
    """A sum of all workers says that all have begun the iteration."""
    if member.state.met < iteration:
        member.state.met = iteration
        for p in range(member.links.peers.size):
            member.links.peers[p].iteration = max(member.links.peers[p].iteration, iteration)


@njit(cache=True)
def _finish(member, scoreboard, fragment, place, now):
    """The worker has the sum of a fragment, or has given what it had to give. True if that ends the
    iteration; after a wrong value the status is FAILED."""
    worker, counters = member.worker, member.worker.counters[0]
    if send_scoreboard.has_result(scoreboard, fragment):
        return False  # not used by this worker: the ranks of a program give different arrays
    words = worker.config.bitmap_words
    total, flags = _sum_of(member, place), np.int64(member.flags[place])
    if not payload.check_values(worker, scoreboard, total, words, fragment, flags):
        return False
    counters.results += 1
    if payload.meant_for(worker, scoreboard, fragment)[0] == 0:
        _meet(member, scoreboard.state.iteration)
        tensor = np.int64(scoreboard.tensor[fragment])
        if _begins_here(member.chunks, member.chunk[place]):
            member.begun[tensor] -= 1
            _begin_fragments(member, scoreboard, tensor)
    if member.flags[place] & wire.OVERFLOW:
        counters.saturated += 1
    return send_scoreboard.mark_received(scoreboard, fragment, now)


@njit(cache=True)
def _add_own(member, scoreboard, fragment, place, now):
    """The own gradient of a fragment is ready, and all its parts may have come. True if that ends
    the iteration."""
    chunks, stage = member.chunks, member.stage
    if stage[place] & WHOLE:  # it came before the own gradient was ready
        member.uses[place] -= 1
        finished = _finish(member, scoreboard, fragment, place, now)
        if member.uses[place] == 0:
            _let_go(member, place)
        return finished
    flag, meant, chunk = _use(member, scoreboard, fragment)
    number = member.worker.config.number
    member.chunk[place] = chunk
    if flag == wire.FROM_ONE and meant != number:
        return False  # it comes
    if flag == wire.FROM_ONE:
        stage[place] |= ADDED | WHOLE  # its values are made when it is sent
        member.flags[place] |= np.uint16(wire.FROM_ONE)
        _give_down(member, scoreboard, place, fragment)
        if member.uses[place] == 0:  # to nobody
            _begin_sum(member, scoreboard, place, fragment)
            finished = _finish(member, scoreboard, fragment, place, now)
            _let_go(member, place)
            return finished
        return False
    below = chunks.first_below[chunk + 1] - chunks.first_below[chunk]
    if member.came[place] < below or _begins_here(chunks, chunk) and flag == 0:
        return False
    stage[place] |= ADDED
    if below > 0:
        worker = member.worker
        words = worker.config.bitmap_words
        payload.write_values(worker, scoreboard, member.own, words, fragment)
        member.own[:words] = 0
        member.own[words - 1 - number // 32] = wire.swap(np.uint32(1 << (number % 32)))
        _add(member, place, member.own, 0)
    if chunks.up[chunk] != NONE:  # if it begins here, its values are made when it is sent
        stage[place] |= GOING_UP if flag == 0 else GOING_UP | FOR_ONE
        _enqueue(member, scoreboard, chunks.up[chunk], 2 * place + UP, fragment)
        return False
    stage[place] |= WHOLE
    if below == 0:  # alone
        _begin_sum(member, scoreboard, place, fragment)
    if flag == 0:
        _give_down(member, scoreboard, place, fragment)
    finished = _finish(member, scoreboard, fragment, place, now)
    if member.uses[place] == 0:
        _let_go(member, place)
    return finished


@njit(cache=True)
def _begins_here(chunks, chunk):
    """True if this worker's values are the first ones of a partial sum."""
    has_none_below = chunks.first_below[chunk] == chunks.first_below[chunk + 1]
    return has_none_below and chunks.up[chunk] != NONE


@njit(cache=True)
def _begin_fragments(member, scoreboard, tensor):
    """Let fragments of a tensor begin that are sums of all workers, as many as the span allows.

    Without a span, workers at whose turn nobody else has to be would send long before the others,
    and take the links of those from which they then wait for sums."""
    chunks, fragments = member.chunks, scoreboard.state.fragments
    offset = (scoreboard.state.iteration & 1) * fragments
    while member.begun[tensor] < member.state.span:
        fragment = member.unbegun[tensor]
        if fragment >= scoreboard.end[tensor]:
            return
        member.unbegun[tensor] += 1
        flag, _, chunk = _use(member, scoreboard, fragment)
        if flag != 0 or not _begins_here(chunks, chunk):
            continue
        place = offset + fragment
        member.begun[tensor] += 1
        member.chunk[place] = chunk
        member.stage[place] |= ADDED | GOING_UP
        _enqueue(member, scoreboard, chunks.up[chunk], 2 * place + UP, fragment)


@njit(cache=True)
def add_ready(member, scoreboard, now):
    """Add the own gradients of tensors that have become ready, to what has come of them.

    Take, too, what has waited for its step. Returns whether there were any, and whether that ends
    the iteration."""
    some, finished = _add_tensors(member, scoreboard, now)
    # After the tensors: what is taken now finds all own gradients that are ready in the sums.
    if member.steps.waiting[0] > 0:
        taken, ended = _take_due(member, scoreboard, now)
        return some or taken, finished or ended
    return some, finished


@njit(cache=True)
def _add_tensors(member, scoreboard, now):
    """`add_ready` for what has become ready."""
    state, iteration, config = member.state, scoreboard.state.iteration, member.links.config
    if iteration < 0 or not _is_open(member, iteration):
        return False, False
    before, finished = state.tensor, False
    offset = (iteration & 1) * scoreboard.state.fragments
    for i in range(state.over):
        fragment = np.int64(member.over[i])
        finished |= _finish(member, scoreboard, fragment, offset + fragment, now)
    some = state.over > 0
    state.over = 0
    while state.tensor >= 0 and scoreboard.ready[state.tensor] == 1:
        first = scoreboard.first[state.tensor]
        count = scoreboard.end[state.tensor] - first
        turn = 0
        flag, _ = payload.meant_for(member.worker, scoreboard, first)
        if flag == wire.FOR_ONE and not payload.is_rooted(member.worker, scoreboard, first):
            # The parts of one worker are neighbours, so each worker begins with those of another.
            turn = count * (config.number + 1) // config.workers
        for i in range(count):
            fragment = first + (turn + i) % count
            finished |= _add_own(member, scoreboard, fragment, offset + fragment, now)
        member.begun[state.tensor] = 0
        member.unbegun[state.tensor] = scoreboard.first[state.tensor]
        _begin_fragments(member, scoreboard, state.tensor)
        state.tensor -= 1
    return some or state.tensor != before, finished


# ---- what has arrived ----


@njit(cache=True)
def _take_partial(member, scoreboard, row, iteration, fragment, place, now):
    """A sum over some workers. True if that ends the iteration."""
    words = member.worker.config.bitmap_words
    known = member.stage[place] & ADDED != 0
    if member.held[place] != 0:
        total = _sum_of(member, place)
        for i in range(words):
            known |= total[i] & row[wire.HEADER_WORDS + i] != 0
    if known:  # it must not be added twice
        member.worker.counters[0].duplicate_results += 1
        return False
    member.flags[place] |= np.uint16(wire.flags(row) & (wire.OVERFLOW | wire.INTEGERS))
    if member.held[place] == 0:
        _hold(member, place)
        total = _sum_of(member, place)
        total[:] = row[wire.HEADER_WORDS : wire.HEADER_WORDS + total.size]
    else:
        _add(member, place, row, wire.HEADER_WORDS)
    member.came[place] += 1
    is_ready = scoreboard.ready[scoreboard.tensor[fragment]] == 1
    if iteration == scoreboard.state.iteration and is_ready:
        return _add_own(member, scoreboard, fragment, place, now)
    return False


@njit(cache=True)
def _take_whole(member, scoreboard, row, iteration, fragment, place, now):
    """The sum over all workers. True if that ends the iteration."""
    if member.stage[place] & WHOLE:
        member.worker.counters[0].duplicate_results += 1
        return False
    if member.stage[place] & GOING_UP:  # it has been all around: its acknowledgement was lost
        _delivered(member, 2 * place + UP)
    member.stage[place] |= WHOLE
    kept = wire.OVERFLOW | wire.FROM_ONE | wire.INTEGERS
    member.flags[place] = np.uint16(wire.flags(row) & kept)
    member.chunk[place] = wire.extra(row) - 1 >> 1
    _hold(member, place)
    total = _sum_of(member, place)
    total[:] = row[wire.HEADER_WORDS : wire.HEADER_WORDS + total.size]
    _give_down(member, scoreboard, place, fragment)
    is_ready = scoreboard.ready[scoreboard.tensor[fragment]] == 1
    if iteration != scoreboard.state.iteration or not is_ready:
        member.uses[place] += 1  # of this worker
        return False
    finished = _finish(member, scoreboard, fragment, place, now)
    if member.uses[place] == 0:
        _let_go(member, place)
    return finished


@njit(cache=True)
def _gives(chunks, chunk, direction, p):
    """True if a peer gives this worker sums of a chunk in this direction."""
    if direction == DOWN:
        return chunks.source[chunk] == p
    for i in range(chunks.first_below[chunk], chunks.first_below[chunk + 1]):
        if chunks.below[i] == p:
            return True
    return False


@njit(cache=True)
def _take_data(member, scoreboard, p, row, length, now):
    """A packet with values. True if that ends the iteration."""
    links, counters = member.links, member.worker.counters[0]
    fragments, chunks = scoreboard.state.fragments, member.chunks
    whole = wire.fragment(row)
    iteration = whole // fragments
    fragment = whole - iteration * fragments
    chunk, direction = wire.extra(row) - 1 >> 1, wire.extra(row) - 1 & 1
    base, full = wire.HEADER_WORDS + links.config.bitmap_words, member.sums.shape[1]
    if length == 4 * base:  # its values are all 0
        values.write_zeros(row, base, wire.HEADER_WORDS + full)
        length = 4 * (wire.HEADER_WORDS + full)
    if (
        chunk >= chunks.up.size
        or not _gives(chunks, chunk, direction, p)
        or length != 4 * (wire.HEADER_WORDS + full)
        or iteration >= links.config.iterations
    ):
        counters.foreign += 1
        return False
    if iteration < scoreboard.state.iteration:
        # Its acknowledgement was lost: without another the neighbour would send for ever.
        host_links.acknowledge(links, p, row, now)
        counters.duplicate_results += 1
        return False
    place = (iteration & 1) * fragments + fragment
    if iteration > scoreboard.state.iteration + 1 or not _is_open(member, iteration):
        host_links.refuse(links, p, row)
        return False
    is_from_one = wire.flags(row) & wire.FROM_ONE != 0
    added = member.stage[place] & ADDED != 0
    fits = direction == UP or is_from_one or added  # none of all workers without this one
    is_ready = scoreboard.ready[scoreboard.tensor[fragment]] == 1
    if iteration == scoreboard.state.iteration and is_ready:
        flag, _, expected = _use(member, scoreboard, fragment)
        fits &= chunk == expected and is_from_one == (flag == wire.FROM_ONE)
    if not fits:
        counters.foreign += 1
        return False
    if member.steps.paces.size > 0:
        return _wait_for_step(member, scoreboard, p, row, fragment, now)
    host_links.acknowledge(links, p, row, now)
    if direction == UP:
        return _take_partial(member, scoreboard, row, iteration, fragment, place, now)
    return _take_whole(member, scoreboard, row, iteration, fragment, place, now)


@njit(cache=True)
def _wait_for_step(member, scoreboard, p, row, fragment, now):
    """Keep a packet until its step is over. Without room it counts as lost: the peer sends it
    again."""
    steps = member.steps
    count = steps.waiting[0]
    if count == steps.heap.size:
        member.worker.counters[0].stale += 1
        return False
    host_links.acknowledge(member.links, p, row, now)
    place = np.int64(steps.free[count])
    steps.rows[place, :] = row[: steps.rows.shape[1]]
    steps.peer[place] = p
    steps.due_ns[place] = now + steps.step_ns[steps.kinds[scoreboard.tensor[fragment]], p]
    steps.waiting[0] = heap.push(steps.heap, count, steps.due_ns, place)
    return False


@njit(cache=True)
def _take_due(member, scoreboard, now):
    """Take the packets whose steps are over. Returns whether there were any, and whether that ends
    the iteration."""
    steps, worker = member.steps, member.worker
    fragments = scoreboard.state.fragments
    some, finished = False, False
    while steps.waiting[0] > 0 and worker.status[0].failed == 0:
        item = np.int64(steps.heap[0])
        if steps.due_ns[item] > now:
            break
        steps.waiting[0] = heap.pop(steps.heap, steps.waiting[0], steps.due_ns)
        steps.free[steps.waiting[0]] = item
        some = True
        row = steps.rows[item]
        whole = wire.fragment(row)
        iteration = whole // fragments
        if iteration < scoreboard.state.iteration:  # it came twice
            worker.counters[0].duplicate_results += 1
            continue
        fragment = whole - iteration * fragments
        place = (iteration & 1) * fragments + fragment
        if wire.extra(row) - 1 & 1 == UP:
            finished |= _take_partial(member, scoreboard, row, iteration, fragment, place, now)
        else:
            finished |= _take_whole(member, scoreboard, row, iteration, fragment, place, now)
    return some, finished


@njit(cache=True)
def receive(member, scoreboard, now, packets, lengths, count):
    """Take `count` packets; True when the iteration's last sum is among them. After a wrong value
    it stops, with the status FAILED set."""
    links, worker = member.links, member.worker
    items = 2 * member.stage.size
    finished = False
    for i in range(count):
        row = packets[i]
        p = host_links.peer_with(links, row, lengths[i])
        if p == NONE:
            worker.counters[0].foreign += 1
            continue
        if wire.extra(row) == 0:
            for k in range(host_links.take_ack(links, p, row, now)):
                token = links.delivered[k]
                if _is_current(member, token):
                    _delivered(member, token % items)
            continue
        finished |= _take_data(member, scoreboard, p, row, lengths[i], now)
        if worker.status[0].failed == 1:
            break
    return finished


@njit(cache=True)
def _is_current(member, token):
    """True if a transmission is of an iteration whose rows are kept: a partial sum whose sum is
    whole may outlive them."""
    iteration = token // (2 * member.stage.size)
    return member.opened[iteration & 1] == iteration


# ---- what is sent ----


@njit(cache=True)
def _transmit(member, scoreboard, p, item, row, flags, now):
    """Write the packet that carries the item; returns the bytes of its payload."""
    fragments = scoreboard.state.fragments
    place = item >> 1
    fragment = place % fragments
    iteration = member.opened[place // fragments]
    if member.held[place] == 0:  # of the current iteration: it does not end before this is sent
        _begin_sum(member, scoreboard, place, fragment)
    flags |= np.int64(member.flags[place])
    extra = 1 + 2 * member.chunk[place] + (item & 1)
    host_links.write_header(member.links, p, row, flags, iteration * fragments + fragment, extra)
    row[wire.HEADER_WORDS :] = _sum_of(member, place)
    config = member.links.config
    base = wire.HEADER_WORDS + config.bitmap_words
    length = 4 * row.size
    if config.omit_zeros == 1 and values.first_nonzero(row, base, row.size) < 0:
        length = 4 * base
    token = item + 2 * member.stage.size * iteration
    host_links.note_sent(member.links, p, token, length, now)
    if member.steps.paces.size > 0:  # a share of the link's rate takes longer
        pace = member.steps.paces[member.steps.kinds[scoreboard.tensor[fragment]]]
        member.links.state.next_send_ps += config.pace_ps * (pace - 65536) >> 16
    return length


@njit(cache=True)
def _is_paced(member, item):
    """True if an item is a partial sum for one worker. Nothing comes back from it, so nothing would
    keep workers that have no others to wait for from sending long before the others, and taking the
    links of those from which the others wait for sums. So each sends at the rate of its share of
    the next one's link."""
    return item & 1 == UP and member.stage[item >> 1] & FOR_ONE != 0


@njit(cache=True)
def _next(member, scoreboard, now):
    """The peer whose next packet may go and is the first one of all; NONE if windows and paces let
    none go."""
    fragments = scoreboard.state.fragments
    member.state.paced_ps = NEVER
    found = np.int64(NONE)
    for p in range(member.queued.size):
        if member.queued[p] == 0:
            continue
        item = member.queue[p, 0]
        if found != NONE and member.rank[item] >= member.rank[member.queue[found, 0]]:
            continue
        if member.free_ps[p] > now * 1000 and _is_paced(member, item):
            member.state.paced_ps = min(member.state.paced_ps, member.free_ps[p])
            continue
        if host_links.has_room(member.links, p, member.opened[(item >> 1) // fragments]):
            found = np.int64(p)
    return found


@njit(cache=True)
def send(member, scoreboard, now, packets, lengths, destinations):
    """Fill rows of `packets` with what is due at `now`; returns their number."""
    links, worker = member.links, member.worker
    state = links.state
    filled = host_links.send_acks(links, now, packets, lengths, destinations)
    waited = state.pacing == 1
    state.pacing = 0
    member.state.paced_ps = NEVER  # of the last call; where the pacer stops this one, none is known
    # What is lost goes first.
    for p in range(links.peers.size if state.again > 0 else 0):
        while filled < packets.shape[0]:
            token = host_links.first_lost(links, p)
            if token == NONE:
                break
            item = token % (2 * member.stage.size)
            gone = item & 1 == UP and member.stage[item >> 1] & GOING_UP == 0
            if gone or not _is_current(member, token):
                host_links.drop_lost(links, p)
                continue
            iteration = token // (2 * member.stage.size)
            if not host_links.has_room(links, p, iteration) or not host_links.may_send(links, now):
                break
            host_links.drop_lost(links, p)
            lengths[filled] = _transmit(
                member, scoreboard, p, item, packets[filled], wire.RESEND, now
            )
            destinations[filled] = p
            worker.counters[0].retransmissions += 1
            filled += 1
    while filled < packets.shape[0] and state.pacing == 0:
        p = _next(member, scoreboard, now)
        if p == NONE or not host_links.may_send(links, now):
            break
        if waited:
            lag.record(worker.lag, now - worker_state.paced_ns(state, links.config))
            waited = False
        item = np.int64(member.queue[p, 0])
        member.queued[p] = heap.pop(member.queue[p], member.queued[p], member.rank)
        first = member.held[item >> 1] == 0
        lengths[filled] = _transmit(member, scoreboard, p, item, packets[filled], 0, now)
        destinations[filled] = p
        if _is_paced(member, item):
            earliest = now * 1000 - links.config.burst_ps
            time_ps = links.config.pace_ps * member.chunks.pace[member.chunk[item >> 1]] >> 8
            member.free_ps[p] = max(member.free_ps[p], earliest) + time_ps
        _note_sent(member, scoreboard, item, first, now)
        filled += 1
    state.more = 1 if filled == packets.shape[0] else 0
    return filled


@njit(cache=True)
def _note_sent(member, scoreboard, item, first, now):
    """An item has been sent for the first time. first: the row's sum has been made for that.

    Note when a tensor's first fragment leaves, unless the tensor is done: a worker that completes
    all of its sums itself waits for nothing, and sends them for the others only. Note, too, what
    this worker has given and does not get back."""
    fragments, place = scoreboard.state.fragments, item >> 1
    if member.opened[place // fragments] != scoreboard.state.iteration:
        return
    fragment = place % fragments
    tensor, row = scoreboard.tensor[fragment], scoreboard.state.row
    if scoreboard.first_sent_ns[row, tensor] < 0 and scoreboard.done_ns[row, tensor] < 0:
        scoreboard.first_sent_ns[row, tensor] = now
    if scoreboard.ready[tensor] == 0 or send_scoreboard.has_result(scoreboard, fragment):
        return
    flag, meant, _ = _use(member, scoreboard, fragment)
    number = member.worker.config.number
    gives = flag == wire.FOR_ONE and meant != number
    if gives or first and flag == wire.FROM_ONE and meant == number:
        member.over[member.state.over] = fragment
        member.state.over += 1


@njit(cache=True)
def all_sent(member):
    """True if the neighbours have everything."""
    return member.undelivered[0] + member.undelivered[1] + member.steps.waiting[0] == 0


@njit(cache=True)
def deadline(member, scoreboard):
    """Time of the next call of `send` if nothing arrives before; ns, NEVER if there is none."""
    if member.state.over > 0:
        return 0
    due = host_links.deadline(member.links)
    if member.state.paced_ps < NEVER:
        due = min(due, (member.state.paced_ps + 999) // 1000)
    if member.steps.waiting[0] > 0:
        due = min(due, member.steps.due_ns[member.steps.heap[0]])
    return due
