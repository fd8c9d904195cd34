"""The plain parameter server's hosts: no aggregation in the network, one server per job or several.

Every worker sends every fragment to the server that it belongs to, with the pool systems' worker
(window, pacing, ECN, retransmission), and the server returns each sum to each worker. On a server's
link that is W times the gradient each way, which bounds the time from below (docs/baselines.md).

The server adds up what the workers send as the pool systems' server does (pool_server: by bitmap,
so that a duplicate is never added twice), but no switch copies its results: the server sends each
of them once to each worker. So one packet in can mean many packets out. Finished fragments wait in
the server's own queue, which is sent at the link's rate, so that the link's queue drops nothing.

If workers of a fragment are missing for long, the server requests their gradients, as the pool
systems' server does. Otherwise one worker's loss would look like a lost result to all others, and
they would back off for nothing.

A job may have several servers. Server m of k then adds the fragments with m = fragment modulo k.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from p4fabric.simulate.jit import njit
from p4fabric.simulate.records import new_record, record

from testbed.protocols import (
    pool_server,
    pool_worker,
    server_losses,
    server_store,
    sizes,
    wire,
)
from testbed.protocols.host_spec import HostSpec
from testbed.protocols.sizes import FRAME_OVERHEAD


class Servers(NamedTuple):
    servers: np.ndarray  # int64[1], how many


class WorkerRules(Servers, pool_worker.Rules):
    """Each fragment goes to its server. No switch aggregates, so no index is needed."""

    @staticmethod
    @njit(cache=True)
    def address(worker, scoreboard, packets, destinations, filled):
        shard(packets, destinations, filled, scoreboard.state.fragments, worker.rules.servers[0])


def new_worker(
    spec: HostSpec, gradients: pool_worker.Gradients | None = None
) -> pool_worker.Worker:
    """A worker machine; its destinations are the servers' numbers."""
    rules = WorkerRules(np.array([len(spec.peers)], np.int64))
    return pool_worker.new_worker(spec, rules, gradients)


@njit(cache=True)
def shard(packets, destinations, count, fragments, servers):
    """Send each of `count` packets to its fragment's server: fragment of the iteration modulo
    `servers`."""
    for i in range(count):
        destinations[i] = wire.fragment(packets[i]) % fragments % servers


# Server.config
CONFIG = record(
    "pace_ps",  # time of one full packet on the link; 0: unlimited
    "frame_bytes",  # of a full packet
    "burst_ps",  # lateness for which the pacing makes up
)

# Server.state
STATE = record(
    "head",  # of the queue: fragments taken out since the start
    "tail",  # fragments put in
    "next_worker",  # worker that gets the first one next
    "next_send_ps",
    "pacing",  # 1: a result waits for the pacing alone
    "previous",  # the last result's whole fragment number + 1, 0: none yet
)


class Server(NamedTuple):
    adder: server_store.Server
    config: np.record  # CONFIG
    state: np.record  # STATE
    finished: np.ndarray  # int64[S], ring buffer of whole fragment numbers


class PsServerRules(pool_worker.Stateless, server_store.Rules):
    """The same."""


def new_server(spec: HostSpec) -> Server:
    """A parameter server machine."""
    job = spec.job
    adder = server_store.new_server(spec, PsServerRules())
    return Server(
        adder,
        config=new_record(
            CONFIG,
            pace_ps=sizes.frame_ps(job.values, job.bitmap_width, spec.rate_bps),
            frame_bytes=sizes.frame_bytes(job.values, job.bitmap_width),
            burst_ps=job.burst_ns * 1000,
        ),
        state=new_record(STATE),
        finished=np.zeros(adder.row.size, np.int64),
    )


@njit(cache=True)
def _take_pace(server, now, length):
    config = server.config
    server.state.next_send_ps = (
        max(server.state.next_send_ps, now * 1000 - config.burst_ps)
        + config.pace_ps * (FRAME_OVERHEAD + length) // config.frame_bytes
    )


@njit(cache=True)
def receive(server, now, packets, lengths, count, out, out_lengths, destinations):
    """Take `count` packets; returns how many it has answered at once in `out` (results served
    again). `out` has at least as many rows as packets are taken."""
    state = server.state
    filled = pool_server.receive(
        server.adder, now, packets, lengths, count, out, out_lengths, destinations
    )
    kept = 0
    for i in range(filled):
        if destinations[i] == server_store.TO_WORKERS:
            if state.tail - state.head < server.finished.size:  # else workers ask for it
                server.finished[state.tail % server.finished.size] = wire.fragment(out[i])
                state.tail += 1
            continue
        if kept < i:
            out[kept, :] = out[i, :]
            out_lengths[kept] = out_lengths[i]
            destinations[kept] = destinations[i]
        _take_pace(server, now, out_lengths[kept])
        kept += 1
    return kept


@njit(cache=True)
def send(server, now, filled, out, out_lengths, destinations):
    """Add to a batch of `filled` packets the requests due and the results that the link has room
    for; returns the count."""
    state, adder = server.state, server.adder
    filled = server_losses.send(adder, now, filled, out, out_lengths, destinations)
    fragments, workers = adder.config.fragments, adder.config.workers
    state.pacing = 0
    while state.head < state.tail and filled < out.shape[0]:
        if state.next_send_ps > now * 1000:
            state.pacing = 1
            break
        whole = server.finished[state.head % server.finished.size]
        iteration = whole // fragments
        place = (iteration & 1) * fragments + whole - iteration * fragments
        slot = server_store.slot_of(adder, place)
        # Of a row that is used again already all workers have got the result by asking for it.
        if (
            slot >= 0
            and adder.iteration[slot] == iteration
            and adder.stage[slot] == server_store.COMPLETE
        ):
            out_lengths[filled] = server_store.write_result_for(
                adder, out[filled], wire.RESULT, slot, state.next_worker
            )
            wire.set_extra(out[filled], state.previous)
            destinations[filled] = server_store.FIRST_WORKER + state.next_worker
            _take_pace(server, now, out_lengths[filled])
            filled += 1
            state.next_worker += 1
            if state.next_worker == workers:
                state.previous = whole + 1
        else:
            state.next_worker = workers
        if state.next_worker == workers:
            state.next_worker = 0
            state.head += 1
    return filled


@njit(cache=True)
def deadline(server):
    """Time of the next call of `send` if nothing arrives before; ns, NEVER if there is none."""
    state = server.state
    due = server_losses.deadline(server.adder)
    if state.head < state.tail:
        due = min(due, (state.next_send_ps + 999) // 1000 if state.pacing == 1 else 0)
    return due
