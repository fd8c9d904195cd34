"""The machines of a parameter server, with aggregation in the network and without."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from p4fabric.simulate.jit import njit
from p4fabric.simulate.machine import STEPS

from testbed.protocols import pool_server, ps, server_losses, server_store


class PoolServerMachine(NamedTuple):
    """A server whose results a switch multiplies."""

    protocol: server_store.Server
    status: np.ndarray
    counters: np.ndarray


class SendingServerMachine(NamedTuple):
    """A server that sends its results to each worker itself."""

    protocol: ps.Server
    status: np.ndarray
    counters: np.ndarray


def pool_machine(protocol: server_store.Server) -> PoolServerMachine:
    return PoolServerMachine(protocol, protocol.status, protocol.counters)


def sending_machine(protocol: ps.Server) -> SendingServerMachine:
    return SendingServerMachine(protocol, protocol.adder.status, protocol.adder.counters)


@njit(cache=True)
def step_pool(machine, now, arrived, count, out):
    """A server's step; see machine.step. `out` must have at least as many rows as `arrived`."""
    server = machine.protocol
    filled = pool_server.receive(
        server,
        now,
        arrived.packets,
        arrived.lengths,
        count,
        out.packets,
        out.lengths,
        out.destinations,
    )
    filled = server_losses.send(server, now, filled, out.packets, out.lengths, out.destinations)
    return filled, server_losses.deadline(server)


@njit(cache=True)
def step_sending(machine, now, arrived, count, out):
    """A server's step; see machine.step. `out` must have at least as many rows as `arrived`."""
    server = machine.protocol
    filled = ps.receive(
        server,
        now,
        arrived.packets,
        arrived.lengths,
        count,
        out.packets,
        out.lengths,
        out.destinations,
    )
    filled = ps.send(server, now, filled, out.packets, out.lengths, out.destinations)
    return filled, ps.deadline(server)


STEPS[PoolServerMachine] = step_pool
STEPS[SendingServerMachine] = step_sending
