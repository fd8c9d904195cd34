"""A rank's graph: which node computes, and which collectives and transfers begin, as a worker's
source.

A node is a compute step, a collective (*call*) of a communicator, or transfers to single ranks. It
begins when the nodes are done that it depends on, those of its iteration and, by *carried* edges,
those of the iteration before. A rank computes one node after the other. Compute nodes follow each
other by schedule: a node starts when the one before was *due* to end, or when what it waits for was
there, not when the host noticed. A late host does not slow a program down.

An iteration repeats the graph. Each node has a *turn*, the iteration in which it is next. It may be
up to `ahead` iterations ahead of the oldest one that is not over; with 0, an iteration begins when
all nodes of the one before are done.

A rank has a machine for each of its communicators (machine_group.py). The sources of them all are
*ports* of one graph. A port begins the calls of its communicator in their order, and notes when
they are done. A call is a tensor of the communicator's iteration, the first call the last tensor:
that is the order in which backward makes tensors ready. Port 0 of a program of ranks has no calls:
its protocol carries the transfers (testbed/protocols/flows.py).

Workers may differ in speed, constantly (`speed_spread`) and from iteration to iteration
(`compute_jitter`). Both are drawn by integer arithmetic, one number for each worker, and one for
each worker and iteration. So they are the same on every machine and in every runtime.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from p4fabric.simulate.jit import njit, of_module
from p4fabric.simulate.mixing import mix2
from p4fabric.simulate.records import new_record, record, replaced

from testbed.protocols import heap, lag, send_scoreboard
from testbed.protocols.host_spec import HostSpec

NEVER = (1 << 62) - 1
COMPUTE_STREAM = 0xC0A9  # distinguishes these random numbers from others of the same seed
NOBODY = -1
SLOTS = 4  # iterations about which something may be known at a time; a power of two


@njit(cache=True)
def _no_transfers(protocol):
    return False


@njit(cache=True)
def _starts_nothing(protocol, node, iteration):
    pass


@njit(cache=True)
def _nothing_ended(protocol, number):
    return NOBODY, 0, 0


# Of a protocol
_begin = of_module("begin")
_carries_transfers = of_module("carries_transfers", _no_transfers)
_start_transfers = of_module("start_transfers", _starts_nothing)
_ended_transfer = of_module("ended_transfer", _nothing_ended)

# Kinds of nodes
COMPUTE = 0
CALL = 1
NOTHING = 2  # takes no time
TRANSFER = 3  # one or several, from or to single ranks
OPEN = 4  # a call without a tensor: the communicator's iteration begins

# Graph.state
STATE = record(
    "iteration",  # the oldest one that is not over
    "iterations",
    "ahead",
    "ready",  # compute nodes in the heap
    "running",  # the compute node that runs, -1: none
    "free_ns",  # time at which the last compute node was due to end
    "end_ns",  # time at which the running one is due to end
    "posted",  # entries in Graph.posted,
    "begun",  # and those whose transfers have begun
    "next_ns",  # nothing is to be done before, unless results arrive
)


class Graph(NamedTuple):
    """N nodes, E edges, K ports, C calls, I iterations, S sets of compute times, which iterations
    take in turn; times in ns since the run's start, -1 for not yet. What is kept for some
    iterations is at the iteration modulo SLOTS."""

    state: np.record  # STATE
    kind: np.ndarray  # int64[N]
    duration_ns: np.ndarray  # int64[S, N]; of calls and transfers, until their first packet
    later_ns: np.ndarray  # int64[S, N], added from the second iteration on
    layer: np.ndarray  # int64[N], of a forward step, -1: it is none
    tensor: np.ndarray  # int64[N], of its communicator, where it is a call
    transfers: np.ndarray  # int64[N], how many begin or end with it
    unmoved: np.ndarray  # int64[N], those of its turn that have not ended
    early: np.ndarray  # int64[N], those of its next turn that have ended already
    posted: np.ndarray  # int64[N], a ring of nodes whose transfers may begin
    first_after: np.ndarray  # int64[N + 1], where in `after` the nodes begin that depend on a node
    after: np.ndarray  # int64[E]
    carried: np.ndarray  # int64[E], 1: they depend on it in the iteration after
    depends: np.ndarray  # int64[N], on how many nodes
    turn: np.ndarray  # int64[N]
    opened: np.ndarray  # int64[N], the last turn in which all was done that it depends on
    waits: np.ndarray  # int64[SLOTS, N], for how many nodes
    ready_ns: np.ndarray  # int64[SLOTS, N], end of the last one of them
    left: np.ndarray  # int64[SLOTS], nodes that are not done
    last_ns: np.ndarray  # int64[SLOTS], end of the one that was done last
    heap: np.ndarray  # int32[N], compute nodes that may run, the first one of the file on top
    number: np.ndarray  # int64[N], the order of the heap
    stack: np.ndarray  # int64[N]
    first_call: np.ndarray  # int64[K + 1], where in `calls` those of a port begin
    calls: np.ndarray  # int64[C], nodes, in their order
    next_call: np.ndarray  # int64[K], place in `calls` of what begins next
    oldest: np.ndarray  # int64[K], place of the first one that is not done
    port_turn: np.ndarray  # int64[K], the iteration of these calls
    latest_ns: np.ndarray  # int64[K], time at which the last call began
    seen: np.ndarray  # int64[K], tensors without all results, when results were last taken
    told: np.ndarray  # int64[K], 1: the port's machine has said that the program is over
    start_ns: np.ndarray  # int64[I]
    compute_end_ns: np.ndarray  # int64[I]
    end_ns: np.ndarray  # int64[I]
    forward_start_ns: np.ndarray  # int64[I, T], a forward step begins, its update first
    forward_end_ns: np.ndarray  # int64[I, T]
    node_start_ns: np.ndarray  # int64[I, N], a node begins; I is 0 where nobody asks
    node_end_ns: np.ndarray  # int64[I, N]
    slow: np.ndarray  # int64[*, 3], from, to (ns): steps that begin then take so many thousandths
    variation: np.ndarray  # int64[2], stream of the iterations' speeds, jitter in millionths


NEVER_WRITTEN = (
    *("kind", "layer", "tensor", "transfers", "first_after", "after", "carried", "depends"),
    *("first_call", "calls"),
)  # of a graph that has been made


class Port(NamedTuple):
    """One communicator's end of a graph."""

    graph: Graph
    own: np.ndarray  # int64[1], its number
    lag: np.ndarray  # see protocols/lag.py

    @property
    def start_ns(self) -> np.ndarray:
        return self.graph.start_ns

    @property
    def compute_end_ns(self) -> np.ndarray:
        return self.graph.compute_end_ns

    @property
    def end_ns(self) -> np.ndarray:
        return self.graph.end_ns

    @property
    def forward_start_ns(self) -> np.ndarray:
        return self.graph.forward_start_ns

    @property
    def forward_end_ns(self) -> np.ndarray:
        return self.graph.forward_end_ns


@dataclass
class Nodes:
    """A graph under construction. Nodes have the order in which they are added."""

    ports: int = 1
    kinds: list[int] = field(default_factory=list)
    before: list[set[int]] = field(default_factory=list)
    carried: list[set[int]] = field(default_factory=list)
    layers: list[int] = field(default_factory=list)
    tensors: list[int] = field(default_factory=list)
    calls: list[list[int]] = field(default_factory=list)
    _made: tuple[int, dict[str, np.ndarray], np.ndarray] = (0, {}, np.zeros(0))  # see `_shape`

    def __post_init__(self) -> None:
        self.calls = [[] for _ in range(self.ports)]

    def add(
        self,
        kind: int,
        before: Sequence[int] | set[int] = (),
        *,
        carried: Sequence[int] = (),
        port: int = NOBODY,
        layer: int = NOBODY,
        tensor: int = 0,
    ) -> int:
        """Add a node that depends on the nodes `before`, and in the iteration after on those of
        `carried`, which may be added later. port: of a call. Returns its number."""
        number = len(self.kinds)
        self.kinds.append(kind)
        self.before.append(set(before))
        self.carried.append(set(carried))
        self.layers.append(layer)
        self.tensors.append(tensor)
        if port != NOBODY:
            self.calls[port].append(number)
        return number

    def graph(
        self,
        spec: HostSpec,
        stream: int,
        durations: np.ndarray | Sequence[Sequence[int]] = ((),),
        later: np.ndarray | None = None,
        transfers: np.ndarray | None = None,
        ahead: int = 0,
        timed: bool = False,
        calls_ns: np.ndarray | None = None,
    ) -> Graph:
        """The graph of a worker's specification. stream: of the random numbers of its speed.
        durations, later: of the nodes, ns, in each set of compute times. transfers: of each
        node. timed: whether the times of nodes are kept. calls_ns: of each call and transfer, from
        its turn to its first packet; None: no time."""
        compute, job, count = spec.compute, spec.job, len(self.kinds)
        if compute is None:
            raise ValueError(f"{spec.title} computes nothing")
        iterations = job.iterations if count else 0
        shape, waits = self._shape()
        first_call = shape["first_call"]
        moved = np.zeros(count, np.int64) if transfers is None else transfers
        times = np.array(durations, np.int64).reshape(len(durations), count)
        more = np.zeros_like(times) if later is None else np.array(later, np.int64)
        if compute.speed_spread:
            for table in (times, more):
                _vary(table.reshape(-1), stream, compute.speed_spread)
        if calls_ns is not None:  # hosts that compute slowly do not launch slowly
            times += calls_ns
        never = np.full((job.iterations, len(job.tensors)), -1, np.int64)
        graph = Graph(
            state=new_record(
                STATE, iterations=iterations, ahead=ahead, running=-1, free_ns=job.start_ns
            ),
            duration_ns=times,
            later_ns=more,
            transfers=moved,
            unmoved=moved.copy(),
            early=np.zeros(count, np.int64),
            posted=np.zeros(count, np.int64),
            turn=np.zeros(count, np.int64),
            opened=np.full(count, -1, np.int64),
            waits=waits.copy(),
            ready_ns=np.zeros((SLOTS, count), np.int64),
            left=np.full(SLOTS, count, np.int64),
            last_ns=np.zeros(SLOTS, np.int64),
            heap=np.zeros(count, np.int32),
            number=np.arange(count),
            stack=np.zeros(count, np.int64),
            next_call=first_call[:-1].copy(),
            oldest=first_call[:-1].copy(),
            port_turn=np.zeros(len(self.calls), np.int64),
            latest_ns=np.zeros(len(self.calls), np.int64),
            seen=np.zeros(len(self.calls), np.int64),
            told=np.zeros(len(self.calls), np.int64),
            start_ns=np.full(job.iterations, -1, np.int64),
            compute_end_ns=np.full(job.iterations, -1, np.int64),
            end_ns=np.full(job.iterations, -1, np.int64),
            forward_start_ns=never,
            forward_end_ns=never.copy(),
            node_start_ns=np.full((iterations * timed, count), -1, np.int64),
            node_end_ns=np.full((iterations * timed, count), -1, np.int64),
            slow=np.asarray(compute.slow, np.int64).reshape(-1, 3),
            variation=np.array([stream, compute.jitter], np.int64),
            **shape,
        )
        if count:
            for iteration in range(1 + ahead):
                _open_turn(graph, iteration, job.start_ns)
        return graph

    def _shape(self) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Shape of a graph, which no run changes, and `Graph.waits` at its start, once for all of
        them."""
        count = len(self.kinds)
        if self._made[0] != count or not count:
            after: list[list[tuple[int, int]]] = [[] for _ in range(count)]
            for number in range(count):
                for other in self.before[number]:
                    after[other].append((number, 0))
                for other in self.carried[number]:
                    after[other].append((number, 1))
            edges = np.array([edge for own in after for edge in own], np.int64).reshape(-1, 2)
            carried = np.array([*map(len, self.carried)], np.int64)
            depends = carried + np.array([*map(len, self.before)], np.int64)
            waits = np.tile(depends, (SLOTS, 1))
            waits[0] -= carried
            self._made = (
                count,
                {
                    "kind": np.array(self.kinds, np.int64),
                    "layer": np.array(self.layers, np.int64),
                    "tensor": np.array(self.tensors, np.int64),
                    "first_after": np.cumsum([0, *map(len, after)]),
                    "after": edges[:, 0].copy(),
                    "carried": edges[:, 1].copy(),
                    "depends": depends,
                    "first_call": np.cumsum([0, *map(len, self.calls)]),
                    "calls": np.array([each for own in self.calls for each in own], np.int64),
                },
                waits,
            )
        return self._made[1:]


def stream_of(spec: HostSpec, job: int, rank: int) -> int:
    """The stream of a worker's random numbers."""
    return int(mix2(mix2(mix2(spec.job.seed, COMPUTE_STREAM), job), rank))


def sharing(machine: Any, first: Any) -> Any:
    """A machine of a rank with the graph of its first one, and its lags."""
    source = machine.source._replace(graph=first.source.graph)
    return replaced(machine._replace(source=source), {id(source.lag): first.source.lag})


@njit(cache=True)
def varied(duration_ns, stream, number, share):
    """A duration that is longer or shorter by up to `share` millionths, by draw `number` of a
    stream. For durations below 2^41 ns (half an hour)."""
    draw = mix2(stream, number) >> 12  # 20 bits
    most = duration_ns * share // 1_000_000
    return duration_ns - most + (2 * most * draw >> 20)


@njit(cache=True)
def _vary(durations, stream, share):
    for i in range(durations.size):
        durations[i] = varied(durations[i], stream, 0, share)


@njit(cache=True)
def _stretched(graph, start, duration, iteration):
    """Duration of a compute step of an iteration that begins at `start`."""
    if graph.variation[1] > 0:
        duration = varied(duration, graph.variation[0], iteration + 1, graph.variation[1])
    for i in range(graph.slow.shape[0]):
        if graph.slow[i, 0] <= start < graph.slow[i, 1]:
            return duration * graph.slow[i, 2] // 1000
    return duration


@njit(cache=True)
def _open_turn(graph, iteration, now):
    """Nodes may come to their turn in an iteration, at `now` at the earliest if it does not overlap
    with the one before."""
    slot = iteration & (SLOTS - 1)
    if iteration == 0 or graph.state.ahead == 0:
        for node in range(graph.kind.size):
            graph.ready_ns[slot, node] = max(graph.ready_ns[slot, node], now)
    for node in range(graph.kind.size):
        is_waiting = graph.turn[node] == iteration and graph.opened[node] < iteration
        if is_waiting and graph.waits[slot, node] == 0 and _open(graph, node, 0) > 0:
            _end(graph, node, graph.ready_ns[slot, node])


@njit(cache=True)
def _open(graph, node, size):
    """All is done that a node depends on. It may compute, or begin its transfers, or, if it takes
    no time, comes onto the stack, which has `size` entries; returns how many it has then."""
    state, kind = graph.state, graph.kind[node]
    graph.opened[node] = graph.turn[node]
    if kind == COMPUTE:
        graph.number[node] = graph.turn[node] * graph.kind.size + node
        state.ready = heap.push(graph.heap, state.ready, graph.number, node)
        return size
    if kind == TRANSFER:
        graph.posted[state.posted % graph.posted.size] = node
        state.posted += 1
    if kind == NOTHING or kind == TRANSFER and graph.unmoved[node] == 0:
        graph.stack[size] = node
        return size + 1
    return size


@njit(cache=True)
def _end(graph, node, when):
    """A node is done at `when`, and with it those that take no time and wait for it alone."""
    state = graph.state
    limit = min(state.iteration + state.ahead, state.iterations - 1)
    graph.stack[0] = node
    size = 1
    while size > 0:
        size -= 1
        ended = graph.stack[size]
        iteration = graph.turn[ended]
        slot = iteration & (SLOTS - 1)
        graph.turn[ended] += 1
        graph.left[slot] -= 1
        graph.last_ns[slot] = max(graph.last_ns[slot], when)
        if graph.node_start_ns.shape[0] > 0:
            graph.node_start_ns[iteration, ended] = graph.ready_ns[slot, ended]
            graph.node_end_ns[iteration, ended] = when
        graph.waits[slot, ended] = graph.depends[ended]
        graph.ready_ns[slot, ended] = 0
        graph.unmoved[ended] = graph.transfers[ended] - graph.early[ended]
        graph.early[ended] = 0
        for i in range(graph.first_after[ended], graph.first_after[ended + 1]):
            other, turn = graph.after[i], iteration + graph.carried[i]
            there = turn & (SLOTS - 1)
            graph.ready_ns[there, other] = max(graph.ready_ns[there, other], when)
            graph.waits[there, other] -= 1
            if graph.waits[there, other] == 0 and graph.turn[other] == turn <= limit:
                size = _open(graph, other, size)
        following = (iteration + 1) & (SLOTS - 1)
        is_waiting = iteration < limit and graph.opened[ended] == iteration
        if is_waiting and graph.waits[following, ended] == 0:
            size = _open(graph, ended, size)


@njit(cache=True)
def _compute(graph, lags, now):
    """Run compute nodes up to `now`."""
    state = graph.state
    while True:
        if state.running >= 0:
            if now < state.end_ns:
                return
            lag.record(lags, now - state.end_ns)
            node = state.running
            state.running = -1
            state.free_ns = state.end_ns
            graph.compute_end_ns[graph.turn[node]] = state.end_ns
            if graph.layer[node] >= 0:
                graph.forward_end_ns[graph.turn[node], graph.layer[node]] = state.end_ns
            _end(graph, node, state.end_ns)
        elif state.ready > 0:
            node = np.int64(graph.heap[0])
            state.ready = heap.pop(graph.heap, state.ready, graph.number)
            iteration = graph.turn[node]
            times = iteration % graph.duration_ns.shape[0]
            duration = graph.duration_ns[times, node]
            if iteration > 0:
                duration += graph.later_ns[times, node]
            start = max(state.free_ns, graph.ready_ns[iteration & (SLOTS - 1), node])
            graph.ready_ns[iteration & (SLOTS - 1), node] = start
            state.running = node
            state.end_ns = start + _stretched(graph, start, duration, iteration)
            if graph.layer[node] >= 0:
                graph.forward_start_ns[iteration, graph.layer[node]] = start
            if graph.start_ns[iteration] < 0:
                graph.start_ns[iteration] = start
        else:
            return


@njit(cache=True)
def _take_results(port, scoreboard):
    """Note the calls that are done."""
    graph, own = port.graph, port.own[0]
    if graph.seen[own] == scoreboard.state.unfinished:
        return
    graph.seen[own] = scoreboard.state.unfinished
    turn = graph.port_turn[own]
    for place in range(graph.oldest[own], graph.next_call[own]):
        node = graph.calls[place]
        if graph.turn[node] > turn:
            continue
        when = scoreboard.done_ns[turn, graph.tensor[node]]
        if when >= 0:
            _end(graph, node, when)
    while (
        graph.oldest[own] < graph.next_call[own]
        and graph.turn[graph.calls[graph.oldest[own]]] > turn
    ):
        graph.oldest[own] += 1
    if graph.oldest[own] == graph.first_call[own + 1]:
        graph.port_turn[own] += 1
        graph.next_call[own] = graph.oldest[own] = graph.first_call[own]


@njit(cache=True)
def _take_ends(graph, protocol):
    """Note the transfers that have ended, some of them of the next iteration."""
    number = 0
    while True:
        node, iteration, when = _ended_transfer(protocol, number)
        if node == NOBODY:
            return
        number += 1
        if iteration > graph.turn[node]:
            graph.early[node] += 1
            continue
        graph.unmoved[node] -= 1
        if graph.unmoved[node] == 0 and graph.opened[node] == iteration:
            ready_ns = graph.ready_ns[iteration & (SLOTS - 1), node]
            if graph.start_ns[iteration] < 0:
                graph.start_ns[iteration] = ready_ns
            _end(graph, node, when)


@njit(cache=True)
def _posted_ns(graph):
    """Time from which the transfers of the next posted node may begin."""
    node = graph.posted[graph.state.begun % graph.posted.size]
    ready_ns = graph.ready_ns[graph.opened[node] & (SLOTS - 1), node]
    return ready_ns + graph.duration_ns[0, node]


@njit(cache=True)
def _start_posted(graph, protocol, scoreboard, now):
    """Begin the transfers of the nodes that have come to their turn."""
    state = graph.state
    _begin(protocol, scoreboard, state.iteration)
    while state.begun < state.posted and _posted_ns(graph) <= now:
        node = graph.posted[state.begun % graph.posted.size]
        _start_transfers(protocol, node, graph.opened[node])
        state.begun += 1


@njit(cache=True)
def _end_iterations(graph, lags, now):
    """Go on with the next iteration as long as one is over."""
    state = graph.state
    while state.iteration < state.iterations:
        slot = state.iteration & (SLOTS - 1)
        if graph.left[slot] > 0:
            return
        when = graph.last_ns[slot]
        graph.end_ns[state.iteration] = when
        graph.left[slot] = graph.kind.size
        graph.last_ns[slot] = 0
        state.iteration += 1
        following = state.iteration + state.ahead
        if following < state.iterations:
            _open_turn(graph, following, when)
            _compute(graph, lags, now)


@njit(cache=True)
def drive(port, protocol, scoreboard, now):
    """Run the graph up to `now`, or until a call of this port begins. True if one does."""
    graph, own, state = port.graph, port.own[0], port.graph.state
    is_quiet = now < state.next_ns and graph.seen[own] == scoreboard.state.unfinished
    if is_quiet and not _carries_transfers(protocol):
        return False
    if state.iteration == state.iterations:
        return False
    _take_results(port, scoreboard)
    if _carries_transfers(protocol):
        _take_ends(graph, protocol)
    _compute(graph, port.lag, now)
    _end_iterations(graph, port.lag, now)
    if _carries_transfers(protocol):
        _start_posted(graph, protocol, scoreboard, now)
    if _due_ns(graph, own) > now:
        state.next_ns = _next_ns(graph)
        return False
    state.next_ns = 0
    turn = graph.port_turn[own]
    node = graph.calls[graph.next_call[own]]
    ready_ns = max(graph.ready_ns[turn & (SLOTS - 1), node], graph.latest_ns[own])
    if scoreboard.state.iteration < turn:
        _begin(protocol, scoreboard, turn)
        if graph.kind[node] != OPEN:
            return True
    graph.next_call[own] += 1
    if graph.kind[node] == OPEN:
        _end(graph, node, ready_ns)
        return True
    if graph.start_ns[turn] < 0:
        graph.start_ns[turn] = ready_ns
    # It begins after the call before it.
    graph.ready_ns[turn & (SLOTS - 1), node] = ready_ns
    ready_ns += graph.duration_ns[0, node]
    graph.latest_ns[own] = ready_ns
    send_scoreboard.make_ready(scoreboard, graph.tensor[node], ready_ns)
    return True


@njit(cache=True)
def _due_ns(graph, own):
    """Time from which the next call of a port may begin; NEVER while it waits for a node."""
    place = graph.next_call[own]
    if place == graph.first_call[own + 1]:
        return NEVER
    node, turn = graph.calls[place], graph.port_turn[own]
    if graph.opened[node] != turn:
        return NEVER
    ready_ns = max(graph.ready_ns[turn & (SLOTS - 1), node], graph.latest_ns[own])
    return ready_ns + graph.duration_ns[0, node]


@njit(cache=True)
def _next_ns(graph):
    """Time at which a compute node ends or the next call of a port begins."""
    state = graph.state
    due = state.end_ns if state.running >= 0 else NEVER
    if state.begun < state.posted:
        due = min(due, _posted_ns(graph))
    for port in range(graph.told.size):
        due = min(due, _due_ns(graph, port))
    return due


@njit(cache=True)
def gradient_finished(port, iteration, now, status):
    """The last result of an iteration has arrived; `drive` sees that for itself."""


@njit(cache=True)
def note(port, status):
    """Tell the runtime how far the program is."""
    state = port.graph.state
    status[0].iterations = state.iteration
    if state.iteration == state.iterations:
        status[0].finished = 1
        port.graph.told[port.own[0]] = 1


@njit(cache=True)
def deadline(port):
    """Time at which a compute node ends, or at once if another port has something to do."""
    graph, state = port.graph, port.graph.state
    if state.iteration < state.iterations:
        return state.next_ns
    for other in range(graph.told.size):
        if graph.told[other] == 0:
            return 0
    return NEVER
