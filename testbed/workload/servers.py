"""The machines of the plain parameter server: workers that spread their fragments over servers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from testbed.protocols import book as bk
from testbed.protocols import pool_worker, ps, ps_server
from testbed.workload import pool, training


class ShardedWorkerMachine(NamedTuple):
    protocol: pool_worker.Worker
    book: bk.Book
    training: training.Training
    status: np.ndarray
    counters: np.ndarray
    servers: np.ndarray  # int64[1], how many


class SendingServerMachine(NamedTuple):
    protocol: ps_server.Server
    status: np.ndarray
    counters: np.ndarray


def worker_machine(protocol: pool_worker.Worker, spec: dict) -> ShardedWorkerMachine:
    """A worker's protocol state with book and loop; its peers are the servers, in order."""
    servers = np.array([len(spec["peers"])], np.int64)
    return ShardedWorkerMachine(*pool.worker_machine(protocol, spec), servers)


def server_machine(protocol: ps_server.Server) -> SendingServerMachine:
    return SendingServerMachine(protocol, protocol.adder.status, protocol.adder.counters)


@njit(cache=True)
def step_worker(machine, now, arrived, count, out):
    """A worker's step; see machine.step."""
    w, b, t, status, counters, servers = machine
    one = pool.WorkerMachine(w, b, t, status, counters)
    filled, deadline = pool.step_worker(one, now, arrived, count, out)
    ps.shard(out.packets, out.destinations, filled, b.s[bk.FRAGMENTS], servers[0])
    return filled, deadline


@njit(cache=True)
def step_server(machine, now, arrived, count, out):
    """A server's step. `out` must have at least as many rows as `arrived`."""
    v = machine.protocol
    filled = ps_server.receive(
        v, now, arrived.packets, arrived.lengths, count, out.packets, out.lengths, out.destinations
    )
    filled = ps_server.send(v, now, filled, out.packets, out.lengths, out.destinations)
    return filled, ps_server.deadline(v)
