"""The machine of a worker that spreads its fragments over several parameter servers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from testbed.protocols import pool_worker, ps, send_scoreboard
from testbed.protocols.host_spec import HostSpec
from testbed.protocols.jit import njit
from testbed.workload import training, worker


class ShardedMachine(NamedTuple):
    protocol: pool_worker.Worker
    scoreboard: send_scoreboard.SendScoreboard
    training: training.Training
    status: np.ndarray
    counters: np.ndarray
    servers: np.ndarray  # int64[1], how many


def sharded_machine(protocol: pool_worker.Worker, spec: HostSpec) -> ShardedMachine:
    """A worker's protocol state with scoreboard and loop; its peers are the servers, in order."""
    servers = np.array([len(spec.peers)], np.int64)
    protocol, scoreboard, loop, status, counters = worker.parts(protocol, spec)
    return ShardedMachine(protocol, scoreboard, loop, status, counters, servers)


@njit(cache=True)
def step(machine, now, arrived, count, out):
    """A worker's step; see machine.step."""
    protocol, scoreboard, loop, status, counters, servers = machine
    one = worker.PoolMachine(protocol, scoreboard, loop, status, counters)
    filled, deadline = worker.step_pool(one, now, arrived, count, out)
    ps.shard(out.packets, out.destinations, filled, scoreboard.state.fragments, servers[0])
    return filled, deadline
