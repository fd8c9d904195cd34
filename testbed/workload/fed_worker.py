"""Workers whose values a program gives: every system's protocol, with a feed in place of the
training loop.

`attach` hands such a machine the memory that it shares with the program. The host process then
tells it of calls (`submit`). The machine's status says when there is news for the program.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from testbed.collective import memory_map
from testbed.protocols import (
    given,
    pool_worker,
    ps,
    ring,
    ring_link,
    send_scoreboard,
    switchml,
)
from testbed.protocols.host_spec import HostSpec
from testbed.protocols.jit import njit
from testbed.workload import feed as feeds


class FedPoolMachine(NamedTuple):
    """As worker.PoolMachine."""

    protocol: pool_worker.Worker
    scoreboard: send_scoreboard.SendScoreboard
    feed: feeds.Feed
    status: np.ndarray
    counters: np.ndarray


class FedSlotMachine(NamedTuple):
    """As worker.SlotMachine."""

    protocol: switchml.Worker
    scoreboard: send_scoreboard.SendScoreboard
    feed: feeds.Feed
    status: np.ndarray
    counters: np.ndarray


class FedShardedMachine(NamedTuple):
    """As shards.ShardedMachine."""

    protocol: pool_worker.Worker
    scoreboard: send_scoreboard.SendScoreboard
    feed: feeds.Feed
    status: np.ndarray
    counters: np.ndarray
    servers: np.ndarray  # int64[1], how many


class FedRingMachine(NamedTuple):
    """As neighbours.RingMachine."""

    protocol: ring_link.Ring
    scoreboard: send_scoreboard.SendScoreboard
    feed: feeds.Feed
    status: np.ndarray
    counters: np.ndarray


def parts(worker: Any, spec: HostSpec) -> tuple:
    """(worker, scoreboard, feed, status, counters) of a specification whose job has a program.
    `worker`: the protocol's, which gets room for what the program gives."""
    job, options = spec.job, spec.options
    sizes = [tensor.values for tensor in job.tensors]
    order = send_scoreboard.FIFO if options.order == "fifo" else send_scoreboard.FRONT
    own = given.new_given(
        len(sizes), 2 * memory_map.CALLS, job.workers, job.fixed_scale, job.value_bits
    )
    return (
        worker._replace(given=own),
        send_scoreboard.new_scoreboard(sizes, job.values, 1, order, options.window),
        feeds.of_spec(spec, order),
        worker.status,
        worker.counters,
    )


def pool_machine(protocol: pool_worker.Worker, spec: HostSpec) -> FedPoolMachine:
    return FedPoolMachine(*parts(protocol, spec))


def slot_machine(protocol: switchml.Worker, spec: HostSpec) -> FedSlotMachine:
    return FedSlotMachine(*parts(protocol, spec))


def sharded_machine(protocol: pool_worker.Worker, spec: HostSpec) -> FedShardedMachine:
    servers = np.array([len(spec.peers)], np.int64)
    protocol, scoreboard, feed, status, counters = parts(protocol, spec)
    return FedShardedMachine(protocol, scoreboard, feed, status, counters, servers)


def ring_machine(protocol: ring_link.Ring, spec: HostSpec) -> FedRingMachine:
    worker, *others = parts(protocol.worker, spec)
    return FedRingMachine(protocol._replace(worker=worker), *others)


FED = (FedPoolMachine, FedSlotMachine, FedShardedMachine, FedRingMachine)


def attach(machine: Any, memory: memory_map.Shared) -> Any:
    """The machine with the calls and arrays of this memory. It must be placed anew."""
    member = machine.protocol
    worker = member.worker if isinstance(machine, FedRingMachine) else member
    own = worker.given._replace(words=memory.words, numbers=memory.numbers)
    worker = worker._replace(given=own)
    if isinstance(machine, FedRingMachine):
        worker = member._replace(worker=worker)
    return machine._replace(protocol=worker, feed=machine.feed._replace(calls=memory.calls))


def submit(machine: Any, memory: memory_map.Shared) -> None:
    """Tell the machine of the calls that the program has submitted so far, and of its end."""
    state = machine.feed.state
    state.submitted = memory.header["submitted"][0]
    state.closed = memory.header["closed"][0]


@njit  # compiled into its callers: numba's cache knows no functions as arguments
def _step(machine, now, arrived, count, out, receive, begin, open_tensor, send, deadline):
    protocol, scoreboard, feed, status, _ = machine
    if count > 0:
        receive(protocol, scoreboard, now, arrived.packets, arrived.lengths, count)
    while True:
        wanted = feeds.advance(feed, protocol.given, scoreboard, now)
        if wanted == feeds.NOTHING:
            break
        if wanted == feeds.BEGIN:
            begin(protocol, scoreboard, feed.state.latest)
            continue
        tensor = feed.state.block
        open_tensor(protocol, scoreboard, tensor, feed.layer[tensor])
        send_scoreboard.make_ready(scoreboard, tensor, now)
    _note(feed, status)
    filled = send(protocol, scoreboard, now, out.packets, out.lengths, out.destinations)
    return filled, deadline(protocol, scoreboard)


@njit(cache=True)
def _note(feed, status):
    state = feed.state
    status[0].iterations = max(state.latest, 0)
    status[0].news |= state.news
    status[0].open_calls = state.submitted - state.done
    if state.end_ns > 0:
        status[0].finished = 1


@njit(cache=True)
def step_pool(machine, now, arrived, count, out):
    """Step a worker with a parameter server; see machine.step."""
    return _step(
        machine,
        now,
        arrived,
        count,
        out,
        pool_worker.receive,
        pool_worker.begin,
        pool_worker.open_tensor,
        pool_worker.send,
        pool_worker.deadline,
    )


@njit(cache=True)
def step_slots(machine, now, arrived, count, out):
    """Step a worker that clocks slots of its own; see machine.step."""
    return _step(
        machine,
        now,
        arrived,
        count,
        out,
        switchml.receive,
        switchml.begin,
        switchml.open_tensor,
        switchml.send,
        switchml.deadline,
    )


@njit(cache=True)
def step_sharded(machine, now, arrived, count, out):
    """Step a worker with several parameter servers; see machine.step."""
    protocol, scoreboard, feed, status, counters, servers = machine
    one = FedPoolMachine(protocol, scoreboard, feed, status, counters)
    filled, deadline = step_pool(one, now, arrived, count, out)
    ps.shard(out.packets, out.destinations, filled, scoreboard.state.fragments, servers[0])
    return filled, deadline


@njit(cache=True)
def step_ring(machine, now, arrived, count, out):
    """Step a ring member; see machine.step."""
    member, scoreboard, feed, status, _ = machine
    if count > 0:
        ring.receive(member, scoreboard, now, arrived.packets, arrived.lengths, count)
    while True:
        wanted = feeds.advance(feed, member.worker.given, scoreboard, now)
        if wanted == feeds.BEGIN:
            ring.begin(member, scoreboard, feed.state.latest)
            continue
        if wanted == feeds.OPEN:
            send_scoreboard.make_ready(scoreboard, feed.state.block, now)
            continue
        tensor = member.state.tensor
        if scoreboard.state.iteration >= 0:
            ring.add_ready(member, scoreboard, now)
        if member.state.tensor == tensor:
            break
    _note(feed, status)
    filled = ring_link.send(member, scoreboard, now, out.packets, out.lengths, out.destinations)
    # Who has all results still has to pass on what others wait for.
    if status[0].finished == 1 and not ring_link.all_sent(member):
        status[0].finished = 0
    return filled, ring_link.deadline(member)
