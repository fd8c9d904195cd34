"""Ring all-reduce: the workers pass their fragments around, without a server.

Fragment f of an iteration belongs to chunk f modulo W, and chunk m starts at worker m. Steps 0 to
W - 2 are the reduce-scatter: worker m sends its own values of chunk m to its neighbour, which adds
its own and sends the sum on, until W - 1 steps later the sum is whole. Steps W - 1 to 2W - 3 are
the all-gather: the whole sum goes round once more. So each worker sends 2(W - 1)/W of its gradient.

The steps are counted per fragment, not per tensor: a fragment moves on when it has come and the
worker's own gradient of its tensor is ready. No step waits for a whole chunk, so a small tensor
costs what its few fragments cost, and every tensor is done as early as its own fragments allow.
Striping by fragment gives each worker its W-th part of every tensor, within one fragment.

Reliability is between neighbours (ring_link). What has come once is known by its step and never
added twice. `ring_state` has the rows of sums.
The packet's fields: docs/baselines.md.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from testbed.protocols import counters as n
from testbed.protocols import payload, pool_worker, wire
from testbed.protocols import ring_link as link
from testbed.protocols import ring_state as rs
from testbed.protocols import send_scoreboard as bk
from testbed.protocols import status as st
from testbed.protocols import worker as wk


@njit(cache=True)
def begin(r, b, iteration):
    """Start exchanging the gradients of an iteration."""
    pool_worker.begin(r.worker, b, iteration)
    if iteration > r.s[rs.LATEST]:
        rs.open_rows(r, b, iteration)
    r.s[rs.TENSOR] = b.s[bk.TENSORS] - 1


@njit(cache=True)
def _finish(r, b, fragment, place, now):
    """The row holds the sum of all workers: check and book it. True if that ends the iteration;
    after a wrong value the status is FAILED."""
    w = r.worker
    k = w.counters
    words = w.c[wk.BITMAP_WORDS]
    r.stage[place] |= rs.WHOLE
    if not payload.check_values(w, b, r.sums[place], words, fragment):
        return False
    k[n.RESULTS] += 1
    if r.flags[place] & wire.OVERFLOW:
        k[n.SATURATED] += 1
    return bk.mark_received(b, fragment, now)


@njit(cache=True)
def _add_own(r, b, fragment, place, now):
    """The fragment has come and the own gradient is ready. True if that ends the iteration."""
    w = r.worker
    c = w.c
    workers, words = c[wk.WORKERS], c[wk.BITMAP_WORDS]
    position = rs.position_of(r, fragment)
    row = r.sums[place]
    values = b.s[bk.VALUES]
    if position == 0:
        payload.write_values(w, b, row, words, fragment)
        row[:words] = 0
    else:
        payload.write_values(w, b, r.own, 0, fragment)
        overflow = 0
        for i in range(values):
            old = np.int32(wire.swap(row[words + i]))
            mine = np.int32(wire.swap(r.own[i]))
            total = np.int32(np.int64(old) + np.int64(mine) & 0xFFFFFFFF)
            overflow |= (old ^ total) & (mine ^ total)
            row[words + i] = wire.swap(np.uint32(total))
        if overflow < 0:
            r.flags[place] |= np.uint16(wire.OVERFLOW)
    number = c[wk.NUMBER]
    row[words - 1 - number // 32] |= wire.swap(np.uint32(1 << (number % 32)))
    r.stage[place] |= rs.ADDED
    if position < workers - 1:
        link.enqueue(r, b, 2 * place, fragment)
        return False
    if workers > 1:
        link.enqueue(r, b, 2 * place + 1, fragment)
    return _finish(r, b, fragment, place, now)


@njit(cache=True)
def add_ready(r, b, now):
    """Add the own gradients of tensors that have become ready, to what has come of them.

    True if that ends the iteration."""
    s = r.s
    finished = False
    offset = (b.s[bk.ITERATION] & 1) * b.s[bk.FRAGMENTS]
    while s[rs.TENSOR] >= 0 and b.ready[s[rs.TENSOR]] == 1:
        for fragment in range(b.first[s[rs.TENSOR]], b.first[s[rs.TENSOR] + 1]):
            place = offset + fragment
            if rs.position_of(r, fragment) == 0 or r.stage[place] & rs.CAME:
                finished |= _add_own(r, b, fragment, place, now)
        s[rs.TENSOR] -= 1
    return finished


@njit(cache=True)
def _take_partial(r, b, row, iteration, fragment, place, now):
    """A sum over the workers before this one. True if that ends the iteration."""
    words = r.worker.c[wk.BITMAP_WORDS]
    if r.stage[place] & rs.CAME:
        r.worker.counters[n.DUPLICATE_RESULTS] += 1
        return False
    r.stage[place] |= rs.CAME
    r.flags[place] = np.uint16(wire.flags(row) & wire.OVERFLOW)
    r.sums[place, :] = row[wire.HEADER_WORDS : wire.HEADER_WORDS + words + b.s[bk.VALUES]]
    if iteration == b.s[bk.ITERATION] and b.ready[b.tensor[fragment]] == 1:
        return _add_own(r, b, fragment, place, now)
    return False


@njit(cache=True)
def _take_whole(r, b, row, step, fragment, place, now):
    """The sum over all workers. True if that ends the iteration."""
    w = r.worker
    words, workers = w.c[wk.BITMAP_WORDS], w.c[wk.WORKERS]
    if r.stage[place] & rs.WHOLE:
        w.counters[n.DUPLICATE_RESULTS] += 1
        return False
    if r.sending[2 * place] == rs.UNDERWAY:
        link.settle(r, 2 * place)  # it has been all around: its acknowledgement was lost
    r.flags[place] = np.uint16(wire.flags(row) & wire.OVERFLOW)
    r.sums[place, :] = row[wire.HEADER_WORDS : wire.HEADER_WORDS + words + b.s[bk.VALUES]]
    if step < 2 * workers - 3:
        link.enqueue(r, b, 2 * place + 1, fragment)
    return _finish(r, b, fragment, place, now)


@njit(cache=True)
def receive(r, b, now, packets, lengths, count):
    """Take `count` packets; True when the iteration's last sum is among them. After a wrong value
    it stops, with the status FAILED set."""
    w, s = r.worker, r.s
    c, k = w.c, w.counters
    workers, words = c[wk.WORKERS], c[wk.BITMAP_WORDS]
    fragments = b.s[bk.FRAGMENTS]
    base = wire.HEADER_WORDS + words
    finished = False
    for i in range(count):
        row = packets[i]
        if lengths[i] < 4 * base or wire.version(row) != wire.VERSION or wire.job(row) != c[wk.JOB]:
            k[n.FOREIGN] += 1
            continue
        kind = wire.kind(row)
        if kind == wire.CONTROL:
            link.take_ack(r, b, row, now)
            continue
        whole = wire.fragment(row)
        iteration = whole // fragments
        fragment = whole - iteration * fragments
        position = rs.position_of(r, fragment)
        step = wire.word(row, 4)
        partial = kind == wire.GRADIENT and position > 0 and step == position - 1
        gathered = kind == wire.RESULT and position < workers - 1 and step == workers - 1 + position
        if (
            not (partial or gathered)
            or lengths[i] != 4 * (base + b.s[bk.VALUES])
            or wire.sender(row) != r.c[rs.PREVIOUS_NUMBER]
            or iteration > b.s[bk.ITERATION] + 1
            or iteration >= c[wk.ITERATIONS]
        ):
            k[n.FOREIGN] += 1
            continue
        flags = wire.flags(row)
        if iteration < b.s[bk.ITERATION]:
            k[n.STALE] += 1
            link.acknowledge(r, wire.index(row), flags, now)
            continue
        if iteration > s[rs.LATEST]:
            rs.open_rows(r, b, iteration)
        place = (iteration & 1) * fragments + fragment
        if gathered and r.stage[place] & rs.ADDED == 0:
            k[n.FOREIGN] += 1  # a sum of all without this worker's part cannot be
            continue
        link.acknowledge(r, wire.index(row), flags, now)
        if partial:
            finished |= _take_partial(r, b, row, iteration, fragment, place, now)
        else:
            finished |= _take_whole(r, b, row, step, fragment, place, now)
        if w.status[st.FAILED] == 1:
            break
    return finished
