"""A rank's program: which node computes, and which collectives begin, as a worker's source.

A rank has a machine for each of its communicators (machine_group.py). The sources of them all are
*ports* of one graph (testbed/traffic/rank_graph.py says what a graph means). A port begins the
calls of its communicator in their order, each when the nodes are done that it depends on, and notes
when they are done. A call is a tensor of the communicator's iteration, the first call the last
tensor: that is the order in which backward makes tensors ready. Port 0 has no calls. It begins the
transfers to single ranks, and its protocol carries them (testbed/protocols/flows.py).

Compute nodes follow each other by schedule, as the training loop's steps do: a late host does not
slow a program down. An iteration begins when all nodes of the one before are done.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from testbed.collective.tally import FLOW, SYSTEM, label
from testbed.protocols import flows, given, heap, lag, send_scoreboard
from testbed.protocols.host_spec import HostSpec, RankProgram
from testbed.protocols.jit import njit, of_module
from testbed.protocols.records import new_record, record, replaced
from testbed.protocols.values import mix2
from testbed.traffic.rank_calls import load_program, load_transfers
from testbed.traffic.rank_graph import COLLECTIVES, NOBODY, Node
from testbed.traffic.rank_graph import COMPUTE as COMPUTES
from testbed.traffic.transfers import Transfers, is_carried
from testbed.workload.training import COMPUTE_STREAM, NEVER, stretched, varied


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

COMPUTE = 0
CALL = 1
NOTHING = 2  # a collective of a single rank
TRANSFER = 3  # one or several, from or to single ranks

# Graph.state
STATE = record(
    "iteration",
    "iterations",
    "left",  # nodes of the iteration that are not done
    "ready",  # compute nodes in the heap
    "running",  # the compute node that runs, -1: none
    "free_ns",  # time at which the last compute node was due to end
    "end_ns",  # time at which the running one is due to end
    "last_ns",  # end of the node that was done last
    "posted",  # entries in Graph.posted,
    "begun",  # and those whose transfers have begun
)


class Graph(NamedTuple):
    """N nodes, E edges, K ports, C calls, I iterations; times in ns since the run's start, -1 for
    not yet."""

    state: np.record  # STATE
    kind: np.ndarray  # int64[N]
    duration_ns: np.ndarray  # int64[N]
    tensor: np.ndarray  # int64[N], of its communicator, where it is a call
    transfers: np.ndarray  # int64[N], how many begin or end with it
    unmoved: np.ndarray  # int64[N], those of the iteration that have not ended
    early: np.ndarray  # int64[N], those of the next iteration that have ended already
    posted: np.ndarray  # int64[N], nodes of the iteration whose transfers may begin
    first_after: np.ndarray  # int64[N + 1], where in `after` the nodes begin that depend on a node
    after: np.ndarray  # int64[E]
    depends: np.ndarray  # int64[N], on how many nodes
    waits: np.ndarray  # int64[N], for how many of these
    ready_ns: np.ndarray  # int64[N], end of the last one of them
    done_ns: np.ndarray  # int64[N]
    heap: np.ndarray  # int32[N], compute nodes that may run, the first one of the file on top
    number: np.ndarray  # int64[N], the order of the heap
    stack: np.ndarray  # int64[N]
    first_call: np.ndarray  # int64[K + 1], where in `calls` those of a port begin
    calls: np.ndarray  # int64[C], nodes, in their order
    next_call: np.ndarray  # int64[K], place in `calls` of what begins next
    oldest: np.ndarray  # int64[K], place of the first one that is not done
    told: np.ndarray  # int64[K], 1: the port's machine has said that the program is over
    start_ns: np.ndarray  # int64[I]
    compute_end_ns: np.ndarray  # int64[I]
    end_ns: np.ndarray  # int64[I]
    spent_ns: np.ndarray  # int64[N], sum over the iterations, from a node's beginning to its end
    slow: np.ndarray  # as of training.Training
    variation: np.ndarray  # the same


class Port(NamedTuple):
    """One communicator's end of a graph."""

    graph: Graph
    own: np.ndarray  # int64[1], its number
    lag: np.ndarray  # see protocols/lag.py
    forward_start_ns: np.ndarray  # int64[I, T], -1: there are no forward steps
    forward_end_ns: np.ndarray

    @property
    def start_ns(self) -> np.ndarray:
        return self.graph.start_ns

    @property
    def compute_end_ns(self) -> np.ndarray:
        return self.graph.compute_end_ns

    @property
    def end_ns(self) -> np.ndarray:
        return self.graph.end_ns


def of_spec(spec: HostSpec, lags: np.ndarray) -> Port:
    """The port of a worker's specification. Its graph is to be that of the rank's first machine
    (`sharing`)."""
    part, job, compute = spec.program, spec.job, spec.compute
    assert part is not None and compute is not None
    iterations, never = job.iterations, np.full((job.iterations, len(job.tensors)), -1, np.int64)
    stream = mix2(mix2(mix2(job.seed, COMPUTE_STREAM), part.job), part.rank)
    graph = _new_graph(part, iterations, job.start_ns) if part.port == 0 else _nothing()
    speed = [varied(int(each), stream, 0, compute.speed_spread) for each in graph.duration_ns]
    graph.duration_ns[:] = speed
    return Port(
        graph._replace(
            slow=np.asarray(compute.slow, np.int64).reshape(-1, 3),
            variation=np.array([stream, compute.jitter], np.int64),
        ),
        own=np.array([part.port], np.int64),
        lag=lags,
        forward_start_ns=never,
        forward_end_ns=never.copy(),
    )


def sharing(machine: Any, first: Any) -> Any:
    """A machine of a rank with the graph of its first one, and its lags."""
    source = machine.source._replace(graph=first.source.graph)
    return replaced(machine._replace(source=source), {id(source.lag): first.source.lag})


def flows_of(spec: HostSpec) -> flows.Flows:
    """The transfers of a rank whose specification has port 0."""
    part = spec.program
    assert part is not None and part.partners is not None
    moved = load_transfers(part.path)
    number, first, total = moved.numbered(spec.job.values)
    own = (moved.source == part.rank) & (moved.target != part.rank)
    given_by, received = moved.of(own), moved.received_by(part.rank)
    place = {rank: place for place, rank in enumerate(part.partners)}
    return flows.new_flows(
        spec,
        part.partners,
        len(load_program(part.path).ranks[part.rank]),
        flows.Outgoing(
            target=np.array([place[rank] for rank in given_by.target.tolist()], np.int64),
            node=given_by.sends,
            size=given_by.values,
            their_number=number[own],
            their_first=first[own],
            their_packets=total[own],
        ),
        flows.Incoming(
            source=np.array([place[rank] for rank in received.source.tolist()], np.int64),
            in_node=received.receives,
            in_size=received.values,
        ),
    )


def shares(spec: HostSpec) -> given.Given:
    """What belongs to which rank, of each call of a communicator."""
    job = spec.job
    found = np.array(job.shares, np.int64).reshape(-1, 3)
    return given.no_values()._replace(
        share=found[:, 0].copy(),
        share_at=found[:, 1].copy(),
        from_one=found[:, 2].copy(),
        places=np.arange(job.workers, dtype=np.int32),
    )


def totals(spec: HostSpec, graph: Graph) -> dict[str, Any]:
    """What a rank counts beside its counters: the values that it has to check (`values_due`), its
    share of all sums (host_process.py), and its rows of table collectives."""
    part = spec.program
    assert part is not None
    program = load_program(part.path)
    rows: dict[tuple[str, str, str, str], list[int]] = {}
    for place, node in enumerate(program.ranks[part.rank]):
        if graph.kind[place] not in (CALL, TRANSFER):
            continue
        ranks = program.groups.get(node.group, range(len(program.ranks)))
        who = label(None if len(ranks) == len(program.ranks) else list(ranks))
        route = FLOW if graph.kind[place] == TRANSFER else SYSTEM
        row = rows.setdefault((who, node.kind, node.dtype, route), [0, 0, 0])
        row[0] += spec.job.iterations
        row[1] += spec.job.iterations * node.bytes
        row[2] += int(graph.spent_ns[place])
    keys = ("communicator", "collective", "dtype", "route", "calls", "bytes", "time_ns")
    received = load_transfers(part.path).received_by(part.rank)
    return {
        "values_due": sum(map(_values_due, spec.members))
        + spec.job.iterations * int(received.values.sum()),
        "sums": sum(
            each.job.iterations * each.job.fragments / each.job.workers for each in spec.members
        ),
        "collectives": [
            {"job": part.job, "worker": part.rank} | dict(zip(keys, (*key, *counted), strict=True))
            for key, counted in rows.items()
        ],
    }


def wrong_transfer(spec: HostSpec, moved: flows.Flows) -> str:
    """The error of a wrong value that a transfer has brought."""
    part, status = spec.program, moved.status[0]
    assert part is not None
    packet = int(status.fragment)
    number = int(np.searchsorted(moved.in_first, packet, side="right")) - 1
    position = (packet - int(moved.in_first[number])) * spec.job.values + int(status.position)
    where = load_program(part.path).where(part.rank, int(moved.in_node[number]))
    return (
        f"wrong value: job {spec.job.name}, iteration {int(status.iteration)}, {where}, from rank"
        f" {int(moved.rank[moved.source[number]])}, position {position}: got {int(status.found)},"
        f" expected {int(status.expected)} (worker {spec.number} on {spec.host})"
    )


def _values_due(spec: HostSpec) -> int:
    """Values that a rank has to check in one of its communicators."""
    due = 0
    for tensor, (share, first, from_one) in zip(spec.job.tensors, spec.job.shares, strict=True):
        own = tensor.values
        if share:  # what belongs to the rank, of `values` from `first` on
            start, stop = spec.number * share, (spec.number + 1) * share
            own = max(0, min(stop, first + tensor.values) - max(start, first))
            own = tensor.values - own if from_one else own
        due += own
    return spec.job.iterations * due


def _nothing() -> Graph:
    return _graph([], [], [], [[]], np.zeros(0, np.int64), 0, 0)


def _new_graph(part: RankProgram, iterations: int, start_ns: int) -> Graph:
    nodes, moved = load_program(part.path).ranks[part.rank], load_transfers(part.path)
    ports = {name: port for port, name in enumerate(part.groups, start=1)}
    kinds, durations = [], []
    calls: list[list[int]] = [[] for _ in range(len(part.groups) + 1)]
    for place, node in enumerate(nodes):
        if node.kind == COMPUTES:
            kinds.append(COMPUTE)
        elif is_carried(node):
            kinds.append(TRANSFER)
        elif node.group in ports:
            kinds.append(CALL)
            calls[ports[node.group]].append(place)
        else:
            kinds.append(NOTHING)
        durations.append(node.duration_ns * part.scale_millionths // 1_000_000)
    transfers = np.zeros(len(nodes), np.int64)
    np.add.at(transfers, moved.given_by(part.rank).sends, 1)
    np.add.at(transfers, moved.received_by(part.rank).receives, 1)
    before = _dependencies(nodes, moved, part.rank)
    return _graph(kinds, durations, before, calls, transfers, iterations, start_ns)


def _dependencies(nodes: Sequence[Node], moved: Transfers, rank: int) -> list[set[int]]:
    """What each node waits for. What a rank receives from itself waits for its sending.

    A collective whose parts are transfers begins after the one before it in its group, and the next
    one after it."""
    before = [set(each.after) for each in nodes]
    for sends, receives in moved.within(rank):
        before[receives].add(sends)
    last: dict[str, int] = {}
    for place, node in enumerate(nodes):
        if node.kind not in COLLECTIVES:
            continue
        other = last.get(node.group)
        if other is not None and (is_carried(node) or is_carried(nodes[other])):
            before[place].add(other)
        last[node.group] = place
    return before


def _graph(
    kinds: list[int],
    durations: list[int],
    before: list[set[int]],
    calls: list[list[int]],
    transfers: np.ndarray,
    iterations: int,
    start_ns: int,
) -> Graph:
    count = len(kinds)
    after: list[list[int]] = [[] for _ in kinds]
    for place, others in enumerate(before):
        for other in others:
            after[other].append(place)
    tensor = np.zeros(count, np.int64)
    for own in calls:
        tensor[own] = np.arange(len(own))[::-1]
    first_call = np.cumsum([0, *map(len, calls)])
    graph = Graph(
        state=new_record(STATE, iterations=iterations, running=-1, free_ns=start_ns),
        kind=np.array(kinds, np.int64),
        duration_ns=np.array(durations, np.int64),
        tensor=tensor,
        transfers=transfers,
        unmoved=transfers.copy(),
        early=np.zeros(count, np.int64),
        posted=np.zeros(count, np.int64),
        first_after=np.cumsum([0, *map(len, after)]),
        after=np.array([each for one in after for each in one], np.int64),
        depends=np.array([len(each) for each in before], np.int64),
        waits=np.zeros(count, np.int64),
        ready_ns=np.zeros(count, np.int64),
        done_ns=np.zeros(count, np.int64),
        heap=np.zeros(count, np.int32),
        number=np.arange(count),
        stack=np.zeros(count, np.int64),
        first_call=first_call,
        calls=np.array([each for own in calls for each in own], np.int64),
        next_call=first_call[:-1].copy(),
        oldest=first_call[:-1].copy(),
        told=np.zeros(len(calls), np.int64),
        start_ns=np.full(iterations, -1, np.int64),
        compute_end_ns=np.full(iterations, -1, np.int64),
        end_ns=np.full(iterations, -1, np.int64),
        spent_ns=np.zeros(count, np.int64),
        slow=np.zeros((0, 3), np.int64),
        variation=np.zeros(2, np.int64),
    )
    if count:
        _begin_iteration(graph, start_ns)
    return graph


@njit(cache=True)
def _begin_iteration(graph, now):
    state = graph.state
    state.left = graph.kind.size
    state.last_ns = now
    graph.waits[:] = graph.depends
    graph.ready_ns[:] = now
    graph.done_ns[:] = -1
    graph.unmoved[:] = graph.transfers
    graph.unmoved[:] -= graph.early
    graph.early[:] = 0
    state.posted = 0
    state.begun = 0
    graph.next_call[:] = graph.first_call[:-1]
    graph.oldest[:] = graph.first_call[:-1]
    for node in range(graph.kind.size):
        # One that depends on others may be done already, as they are of single ranks.
        if graph.depends[node] == 0 and _open(graph, node, 0) > 0:
            _end(graph, node, now)


@njit(cache=True)
def _open(graph, node, size):
    """All is done that a node depends on. It may compute, or begin its transfers, or, if it takes
    no time, comes onto the stack, which has `size` entries; returns how many it has then."""
    state = graph.state
    if graph.kind[node] == TRANSFER:
        graph.posted[state.posted] = node
        state.posted += 1
    if graph.kind[node] == COMPUTE:
        state.ready = heap.push(graph.heap, state.ready, graph.number, node)
    elif graph.kind[node] == NOTHING or graph.kind[node] == TRANSFER and graph.unmoved[node] == 0:
        graph.stack[size] = node
        return size + 1
    return size


@njit(cache=True)
def _end(graph, node, when):
    """A node is done at `when`, and with it those of single ranks that wait for it alone."""
    graph.stack[0] = node
    size = 1
    while size > 0:
        size -= 1
        ended = graph.stack[size]
        graph.done_ns[ended] = when
        graph.state.left -= 1
        graph.state.last_ns = max(graph.state.last_ns, when)
        for i in range(graph.first_after[ended], graph.first_after[ended + 1]):
            other = graph.after[i]
            graph.ready_ns[other] = max(graph.ready_ns[other], when)
            graph.waits[other] -= 1
            if graph.waits[other] == 0:
                size = _open(graph, other, size)


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
            graph.compute_end_ns[state.iteration] = state.end_ns
            _end(graph, node, state.end_ns)
        elif state.ready > 0:
            node = np.int64(graph.heap[0])
            state.ready = heap.pop(graph.heap, state.ready, graph.number)
            start = max(state.free_ns, graph.ready_ns[node])
            state.running = node
            state.end_ns = start + stretched(graph, start, graph.duration_ns[node], state.iteration)
            if graph.start_ns[state.iteration] < 0:
                graph.start_ns[state.iteration] = start
        else:
            return


@njit(cache=True)
def _take_results(port, scoreboard):
    """Note the calls that are done."""
    graph, own = port.graph, port.own[0]
    for place in range(graph.oldest[own], graph.next_call[own]):
        node = graph.calls[place]
        when = scoreboard.done_ns[scoreboard.state.iteration, graph.tensor[node]]
        if graph.done_ns[node] < 0 and when >= 0:
            graph.spent_ns[node] += when - graph.ready_ns[node]
            _end(graph, node, when)
    while (
        graph.oldest[own] < graph.next_call[own]
        and graph.done_ns[graph.calls[graph.oldest[own]]] >= 0
    ):
        graph.oldest[own] += 1


@njit(cache=True)
def _take_ends(graph, protocol):
    """Note the transfers that have ended, some of them of the next iteration."""
    number = 0
    while True:
        node, iteration, when = _ended_transfer(protocol, number)
        if node == NOBODY:
            return
        number += 1
        if iteration > graph.state.iteration:
            graph.early[node] += 1
            continue
        graph.unmoved[node] -= 1
        if graph.unmoved[node] == 0 and graph.waits[node] == 0:
            graph.spent_ns[node] += when - graph.ready_ns[node]
            if graph.start_ns[iteration] < 0:
                graph.start_ns[iteration] = graph.ready_ns[node]
            _end(graph, node, when)


@njit(cache=True)
def _start_posted(graph, protocol, scoreboard):
    """Begin the transfers of the nodes that have come to their turn."""
    state = graph.state
    _begin(protocol, scoreboard, state.iteration)
    while state.begun < state.posted:
        _start_transfers(protocol, graph.posted[state.begun], state.iteration)
        state.begun += 1


@njit(cache=True)
def drive(port, protocol, scoreboard, now):
    """Run the graph up to `now`, or until a call of this port begins. True if one does."""
    graph, own, state = port.graph, port.own[0], port.graph.state
    if state.iteration == state.iterations:
        return False
    _take_results(port, scoreboard)
    if _carries_transfers(protocol):
        _take_ends(graph, protocol)
    _compute(graph, port.lag, now)
    if state.left == 0:
        graph.end_ns[state.iteration] = state.last_ns
        state.iteration += 1
        if state.iteration == state.iterations:
            return False
        _begin_iteration(graph, state.last_ns)
        _compute(graph, port.lag, now)
    if _carries_transfers(protocol):
        _start_posted(graph, protocol, scoreboard)
    if not _is_due(graph, own, now):
        return False
    if scoreboard.state.iteration < state.iteration:
        _begin(protocol, scoreboard, state.iteration)
        return True
    node = graph.calls[graph.next_call[own]]
    if graph.start_ns[state.iteration] < 0:
        graph.start_ns[state.iteration] = graph.ready_ns[node]
    if graph.next_call[own] > graph.first_call[own]:  # it begins after the call before it
        before = graph.calls[graph.next_call[own] - 1]
        graph.ready_ns[node] = max(graph.ready_ns[node], graph.ready_ns[before])
    graph.next_call[own] += 1
    send_scoreboard.make_ready(scoreboard, graph.tensor[node], graph.ready_ns[node])
    return True


@njit(cache=True)
def _is_due(graph, own, now):
    """True if the next call of a port begins by `now`."""
    place = graph.next_call[own]
    if place == graph.first_call[own + 1]:
        return False
    node = graph.calls[place]
    return graph.waits[node] == 0 and graph.ready_ns[node] <= now


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
    ended = state.iteration == state.iterations
    due = NEVER
    for other in range(graph.told.size):
        if ended:
            if graph.told[other] == 0:
                return 0
        elif graph.next_call[other] < graph.first_call[other + 1]:
            node = graph.calls[graph.next_call[other]]
            if graph.waits[node] == 0:
                due = min(due, graph.ready_ns[node])
    if not ended and state.running >= 0:
        due = min(due, state.end_ns)
    if not ended and state.begun < state.posted:
        return 0
    return due
