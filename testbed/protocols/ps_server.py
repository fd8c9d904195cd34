"""The parameter server of a system without aggregation in the network.

It adds up what the workers send as the pool systems' server does (pool_server: by bitmap, so that a
duplicate is never added twice), but no switch multiplies its results: each goes out once for each
worker. So one packet in can mean many out. Finished fragments wait in a queue, which is sent at the
link's rate, so that the queue in front of the link is the server's own and drops nothing.

A fragment that lacks workers for long is asked for, as there: else one worker's loss would look to
all others like a lost result, and they would back off for nothing.

A job may have several servers. Server m of k then adds the fragments with m = fragment modulo k.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from testbed.protocols import loss_recovery as prompts
from testbed.protocols import pool_server, wire
from testbed.protocols import server_store as ss

# Places in Server.c
PACE_PS = 0  # time of one packet on the link; 0: unlimited
BURST_PS = 1  # how much lateness the pacing makes up for
CONFIGURATION = 2

# Places in Server.s
HEAD = 0  # of the queue: fragments taken out since the start
TAIL = 1  # fragments put in
NEXT_WORKER = 2  # who gets the first one next
NEXT_SEND_PS = 3
PACING = 4  # 1: a result waits for the pacing alone
PREVIOUS = 5  # the last result's whole fragment number + 1, 0: none yet
STATE = 6


class Server(NamedTuple):
    adder: ss.Server
    c: np.ndarray  # int64[CONFIGURATION]
    s: np.ndarray  # int64[STATE]
    finished: np.ndarray  # int64[2F], ring buffer of whole fragment numbers, each in it once


def new_server(adder: ss.Server, pace_ps: int, burst_ps: int) -> Server:
    c = np.zeros(CONFIGURATION, np.int64)
    c[PACE_PS] = pace_ps
    c[BURST_PS] = burst_ps
    return Server(adder, c, np.zeros(STATE, np.int64), np.zeros(adder.stage.size, np.int64))


@njit(cache=True)
def _take_pace(v, now):
    v.s[NEXT_SEND_PS] = max(v.s[NEXT_SEND_PS], now * 1000 - v.c[BURST_PS]) + v.c[PACE_PS]


@njit(cache=True)
def receive(v, now, packets, lengths, count, out, out_lengths, destinations):
    """Take `count` packets; returns how many it has answered at once in `out` (results served
    again). `out` has at least as many rows as packets are taken."""
    s = v.s
    filled = pool_server.receive(
        v.adder, now, packets, lengths, count, out, out_lengths, destinations
    )
    kept = 0
    for i in range(filled):
        if destinations[i] == ss.TO_WORKERS:
            v.finished[s[TAIL] % v.finished.size] = wire.fragment(out[i])
            s[TAIL] += 1
            continue
        if kept < i:
            out[kept, :] = out[i, :]
            out_lengths[kept] = out_lengths[i]
            destinations[kept] = destinations[i]
        _take_pace(v, now)
        kept += 1
    return kept


@njit(cache=True)
def send(v, now, m, out, out_lengths, destinations):
    """Add to a batch of `m` packets the asks that are due and the results that the link has room
    for; returns the count."""
    s, adder = v.s, v.adder
    m = prompts.send(adder, now, m, out, out_lengths, destinations)
    fragments, workers = adder.c[ss.FRAGMENTS], adder.c[ss.WORKERS]
    s[PACING] = 0
    while s[HEAD] < s[TAIL] and m < out.shape[0]:
        if s[NEXT_SEND_PS] > now * 1000:
            s[PACING] = 1
            break
        whole = v.finished[s[HEAD] % v.finished.size]
        iteration = whole // fragments
        place = (iteration & 1) * fragments + whole - iteration * fragments
        # A row that is used again already: all workers have got its result by asking for it.
        if adder.iteration[place] == iteration:
            out_lengths[m] = ss.write_result(adder, out[m], wire.RESULT, place)
            wire.set_extra(out[m], s[PREVIOUS])
            destinations[m] = ss.FIRST_WORKER + s[NEXT_WORKER]
            _take_pace(v, now)
            m += 1
            s[NEXT_WORKER] += 1
            if s[NEXT_WORKER] == workers:
                s[PREVIOUS] = whole + 1
        else:
            s[NEXT_WORKER] = workers
        if s[NEXT_WORKER] == workers:
            s[NEXT_WORKER] = 0
            s[HEAD] += 1
    return m


@njit(cache=True)
def deadline(v):
    """When to call `send` although nothing has arrived; ns, NEVER if not at all."""
    s = v.s
    due = prompts.deadline(v.adder)
    if s[HEAD] < s[TAIL]:
        due = min(due, (s[NEXT_SEND_PS] + 999) // 1000 if s[PACING] == 1 else 0)
    return due
