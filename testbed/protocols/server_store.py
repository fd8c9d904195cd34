"""What a parameter server keeps: the sum of every fragment of two iterations, and its timers.

A worker that sends something of iteration i + 1 has received all of iteration i. So two iterations'
results are all that is ever needed, and the store has one row for each fragment of an even and of
an odd iteration. This module has the places of configuration and state, and what is done to a row.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from testbed.protocols import counters as n
from testbed.protocols import floats as fl
from testbed.protocols import positions as pos
from testbed.protocols import progress as pg
from testbed.protocols import stripes as sp
from testbed.protocols import wire
from testbed.protocols.index import POSITION, index_of
from testbed.protocols.status import new_status
from testbed.protocols.values import mix2

# Destinations: the workers' multicast group, then each worker, then each switch of the job's tree.
TO_WORKERS = 0
FIRST_WORKER = 1

# Places in Server.c, the configuration
JOB = 0
WORKERS = 1
FRAGMENTS = 2  # per iteration
VALUES = 3  # per fragment
BITMAP_WORDS = 4
ITERATIONS = 5
REMIND = 6  # 0: no reminders
DELAY_NS = 7  # of the reminder; 0: adaptive
LEAST_DELAY_NS = 8
MOST_DELAY_NS = 9
INDEX_MODE = 10
POOL = 11
REHASH = 12  # 1: a window position that collided gets another index
FLOATS = 13  # 1: what leaves int32 is summed as floating-point numbers
PROMPT_PS = 14  # link time set aside for a reminder or an ask with its answer; 0: none
CONFIGURATION = 15

# Places in Server.s, the state
TIMERS = 0  # entries in the heap
SPREAD_NS = 1  # smoothed time from a fragment's first arrival here to its last, if unprompted
ROUND_TRIP_NS = 2  # smoothed time from a reminder to its answer
ITERATION = 3  # latest that has been heard of
COMPLETED = 4  # fragments with a result, all iterations
DRAWS = 5  # indices drawn for window positions
NEXT_PROMPT_PS = 6  # when the next reminder or ask may go out
PREVIOUS = 7  # the last result's whole fragment number + 1, 0: none yet
STATE = 8

# Values of Server.stage
EMPTY = 0
PART = 1
COMPLETE = 2

REHASH_DRAWS = 8  # to find an index that no other window position of the job has
RESULT_FLAGS = wire.ECN | wire.OVERFLOW | wire.FLOAT | wire.RESEND


class Server(NamedTuple):
    """Rows: fragment f of iteration i is row (i & 1) * F + f. B words of bitmap, V values."""

    c: np.ndarray  # int64[CONFIGURATION]
    s: np.ndarray  # int64[STATE]
    nodes: np.ndarray  # int64[N], numbers of the switches that aggregate for the job
    stripes: sp.Stripes
    everyone: np.ndarray  # uint32[B], bitmap of all workers in packet order
    iteration: np.ndarray  # int32[2F], -1: none yet
    stage: np.ndarray  # uint8[2F]
    flags: np.ndarray  # uint16[2F]
    bitmap: np.ndarray  # uint32[2F, B], in packet order, native bytes
    sums: np.ndarray  # int32[2F, V]
    attempts: np.ndarray  # uint8[2F], reminders sent
    first_ns: np.ndarray  # int64[2F], first arrival
    reminded_ns: np.ndarray  # int64[2F], last reminder
    due_ns: np.ndarray  # int64[2F], next reminder
    timers: np.ndarray  # int32[2F]
    progress: pg.Progress
    positions: pos.Positions
    taken: np.ndarray  # int32[pool], window positions with this index; empty where there are none
    floats: fl.ServerFloats
    counters: np.ndarray  # int64
    status: np.ndarray  # int64, see status.py


def bitmap_of(workers: int, words: int) -> np.ndarray:
    """The bitmap that names workers 0 .. workers - 1; uint32[words], most significant first."""
    whole = (1 << workers) - 1
    return np.array(
        [(whole >> (32 * (words - 1 - i))) & 0xFFFFFFFF for i in range(words)], np.uint32
    )


def new_server(configuration: np.ndarray, nodes: list[int], counters: np.ndarray) -> Server:
    rows = 2 * int(configuration[FRAGMENTS])
    words = int(configuration[BITMAP_WORDS])
    s = np.zeros(STATE, np.int64)
    s[ITERATION] = -1
    return Server(
        c=configuration,
        s=s,
        nodes=np.asarray(nodes, np.int64),
        stripes=sp.one_stripe(len(nodes)),
        everyone=bitmap_of(int(configuration[WORKERS]), words),
        iteration=np.full(rows, -1, np.int32),
        stage=np.zeros(rows, np.uint8),
        flags=np.zeros(rows, np.uint16),
        bitmap=np.zeros((rows, words), np.uint32),
        sums=np.zeros((rows, int(configuration[VALUES])), np.int32),
        attempts=np.zeros(rows, np.uint8),
        first_ns=np.zeros(rows, np.int64),
        reminded_ns=np.zeros(rows, np.int64),
        due_ns=np.zeros(rows, np.int64),
        timers=np.zeros(rows, np.int32),
        progress=pg.no_progress(),
        positions=pos.no_positions(),
        taken=np.zeros(0, np.int32),
        floats=fl.new_server_floats(0, 0),
        counters=counters,
        status=new_status(),
    )


@njit(cache=True)
def write_header(v, row, kind, flags, node, place):
    """Header of a packet about the fragment in row `place` of the store."""
    c = v.c
    fragment = place % c[FRAGMENTS]
    whole = v.iteration[place] * c[FRAGMENTS] + fragment
    if c[INDEX_MODE] == POSITION:
        p = v.positions
        index = p.index[pos.position_of(p, v.iteration[place], fragment)]
    else:
        index = index_of(c[INDEX_MODE], c[POOL], c[JOB], whole)
    wire.write_header(row, kind, 255, flags, c[JOB], node, whole, index, 0x4000)
    if c[INDEX_MODE] == POSITION:
        wire.set_extra(row, index)


@njit(cache=True)
def write_result(v, row, kind, place):
    c = v.c
    base = wire.HEADER_WORDS + c[BITMAP_WORDS]
    write_header(v, row, kind, np.int64(v.flags[place]) & RESULT_FLAGS, 0, place)
    for i in range(c[BITMAP_WORDS]):
        row[wire.HEADER_WORDS + i] = wire.swap(v.everyone[i])
    if v.flags[place] & wire.FLOAT:
        fl.write_sum(v.floats, place, row, base)
    else:
        for i in range(c[VALUES]):
            row[base + i] = wire.swap(np.uint32(v.sums[place, i]))
    return 4 * (base + c[VALUES])


@njit(cache=True)
def name_previous(v, row):
    """Let a result name the one before it, so that a worker knows that it has missed one."""
    wire.set_extra(row, v.s[PREVIOUS])
    v.s[PREVIOUS] = wire.fragment(row) + 1


@njit(cache=True)
def rehash(v, row, place):
    """The fragment is complete. If it collided, its window position gets another index, which all
    workers learn from the result in `row` and use for the position's next fragment."""
    c, s, p = v.c, v.s, v.positions
    if c[REHASH] == 0 or v.flags[place] & wire.COLLISION == 0:
        return
    position = pos.position_of(p, v.iteration[place], place % c[FRAGMENTS])
    v.taken[p.index[position]] -= 1
    for _ in range(REHASH_DRAWS):
        s[DRAWS] += 1
        p.index[position] = mix2(mix2(c[JOB], 0x2E4A5), s[DRAWS]) % c[POOL]
        if v.taken[p.index[position]] == 0:
            break
    v.taken[p.index[position]] += 1
    v.counters[n.REHASHES] += 1
    wire.set_extra(row, p.index[position])


@njit(cache=True)
def open_row(v, place, iteration):
    v.iteration[place] = iteration
    v.stage[place] = EMPTY
    v.flags[place] = 0
    v.attempts[place] = 0
    for i in range(v.c[BITMAP_WORDS]):
        v.bitmap[place, i] = np.uint32(0)


@njit(cache=True)
def become_floats(v, place):
    """Forget the row's whole numbers: from here on it is a sum of floating-point numbers."""
    v.flags[place] |= np.uint16(wire.FLOAT | wire.OVERFLOW)
    for i in range(v.c[BITMAP_WORDS]):
        v.bitmap[place, i] = np.uint32(0)
    for i in range(v.c[VALUES]):
        v.floats.sums[place, i] = 0.0
    v.counters[n.FLOAT_RESULTS] += 1
