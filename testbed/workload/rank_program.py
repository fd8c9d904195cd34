"""A rank of a program (testbed/traffic/rank_graph.py says what it means): its graph, what its
transfers and shares are, and what it counts.

A communicator's calls are the tensors of its machine; the transfers to single ranks are those of
the rank's first machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from testbed.algorithms.by_name import USE_OF, carrier
from testbed.collective.tally import FLOW, SYSTEM, label
from testbed.collective_kinds import COLLECTIVES
from testbed.protocols import flows, given
from testbed.protocols.host_spec import HostSpec, RankProgram
from testbed.systems.registry import SYSTEMS
from testbed.traffic.rank_calls import (
    calls_by_route,
    load_numbers,
    load_program,
    load_token_calls,
    load_transfers,
)
from testbed.traffic.rank_graph import COMPUTE as COMPUTES
from testbed.traffic.rank_graph import GroupRoute, Node, Program
from testbed.traffic.transfers import Transfers, is_carried
from testbed.workload.graph_source import (
    CALL,
    COMPUTE,
    NOTHING,
    TRANSFER,
    Graph,
    Nodes,
    Port,
    stream_of,
)


def of_spec(spec: HostSpec, lags: np.ndarray) -> Port:
    """The port of a worker's specification. Its graph is to be that of the rank's first machine
    (`rank_graph.sharing`)."""
    part = spec.program
    assert part is not None
    stream = stream_of(spec, part.job, part.rank)
    graph = _graph_of(spec, part, stream) if part.port == 0 else Nodes().graph(spec, stream)
    return Port(graph, own=np.array([part.port], np.int64), lag=lags)


def flows_of(spec: HostSpec) -> flows.Flows:
    """The transfers of a rank whose specification has port 0."""
    part = spec.program
    assert part is not None and part.partners is not None
    moved = load_transfers(part.path)
    number, first, total = load_numbers(part.path, spec.job.values)
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
    """Shares of the ranks of each call of a communicator."""
    job = spec.job
    found = np.array(job.shares, np.int64).reshape(-1, 3)
    return given.no_values()._replace(
        share=found[:, 0].copy(),
        share_at=found[:, 1].copy(),
        from_one=found[:, 2].copy(),
        places=np.arange(job.workers, dtype=np.int32),
    )


def totals(spec: HostSpec, graph: Graph) -> dict[str, Any]:
    """Totals of a rank beside its counters: the values that it has to check (`values_due`), its
    share of all sums (host_process.py), and its rows of table collectives."""
    part = spec.program
    assert part is not None
    program = load_program(part.path)
    rows: dict[tuple[str, str, str, str], list[int]] = {}
    spent_ns = np.sum(graph.node_end_ns - graph.node_start_ns, axis=0)
    for place, node in enumerate(program.ranks[part.rank]):
        if graph.kind[place] not in (CALL, TRANSFER):
            continue
        who = _communicator(program, node)
        route = FLOW if graph.kind[place] == TRANSFER else _route(spec, node)
        row = rows.setdefault((who, node.kind, node.dtype, route), [0, 0, 0])
        row[0] += spec.job.iterations
        row[1] += spec.job.iterations * node.bytes
        row[2] += int(spent_ns[place])
    keys = ("communicator", "collective", "dtype", "route", "calls", "bytes", "time_ns")
    received = load_transfers(part.path).received_by(part.rank)
    return {
        "values_due": sum(map(_values_due, spec.members))
        + spec.job.iterations * int(received.values.sum()),
        "sums": sum(
            each.job.iterations * each.job.fragments / each.job.workers
            for each in spec.members
            # Columns about switches do not count what hosts add up instead.
            if each.job.system == spec.job.system or not SYSTEMS[each.job.system].algorithm
        ),
        "collectives": [
            {"job": part.job, "worker": part.rank} | dict(zip(keys, (*key, *counted), strict=True))
            for key, counted in rows.items()
        ],
    }


def node_times(spec: HostSpec, graph: Graph) -> dict[str, np.ndarray]:
    """The times of a rank's nodes, in the order of the program (result_rows.time_tables):
    node_start_ns, node_end_ns, int64[I, N]; node_kind and node_group, str[N], of those that take
    time, "" for others, and the communicator, "" for a compute step; node_bytes, int64[N], -1 for a
    compute step."""
    part = spec.program
    assert part is not None
    program = load_program(part.path)
    nodes = program.ranks[part.rank]
    moves = graph.kind != NOTHING
    who = [_communicator(program, node) if node.kind != COMPUTES else "" for node in nodes]
    return {
        "node_start_ns": graph.node_start_ns,
        "node_end_ns": graph.node_end_ns,
        "node_kind": np.where(moves, np.array([node.kind for node in nodes], str), ""),
        "node_group": np.array(who, str),
        "node_bytes": np.array(
            [node.bytes if of else -1 for node, of in zip(nodes, who, strict=True)]
        ),
    }


def _communicator(program: Program, node: Node) -> str:
    """The ranks of a node's group, as tables name them."""
    ranks = program.groups.get(node.group, range(len(program.ranks)))
    return label(None if len(ranks) == len(program.ranks) else list(ranks))


def _route(spec: HostSpec, node: Node) -> str:
    """Carrier of a call: an algorithm of hosts by its name, or the system."""
    algorithm = node.algorithm or SYSTEMS[spec.job.system].algorithm
    return carrier(algorithm, USE_OF[node.kind]).name if algorithm else SYSTEM


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
        f" {int(moved.links.rank[moved.source[number]])}, position {position}:"
        f" got {int(status.found)}, expected {int(status.expected)}"
        f" (worker {spec.number} on {spec.host})"
    )


def _values_due(spec: HostSpec) -> int:
    """Values that a rank has to check in one of its communicators."""
    due = 0
    wanted = spec.job.wanted or ((),) * len(spec.job.tensors)
    for tensor, (share, first, gives), some in zip(
        spec.job.tensors, spec.job.shares, wanted, strict=True
    ):
        if some and spec.number not in (0, *some):
            continue
        own = tensor.values
        if share:  # what belongs to the rank, of `values` from `first` on
            start, stop = spec.number * share, (spec.number + 1) * share
            own = max(0, min(stop, first + tensor.values) - max(start, first))
            own = tensor.values - own if gives == given.ONE else own
        due += own
    return spec.job.iterations * due


def _graph_of(spec: HostSpec, part: RankProgram, stream: int) -> Graph:
    nodes, moved = load_program(part.path).ranks[part.rank], load_transfers(part.path)
    ports = {GroupRoute(*route): port for port, route in enumerate(part.groups, start=1)}
    called, of_tokens = calls_by_route(nodes), load_token_calls(part.path)
    left: list[list[int]] = [[]]  # tensors of each port's calls, the last one first
    for route in ports:
        own = called.get(route, [])
        if (numbers := of_tokens.get(route)) is None:
            left.append([*range(len(own))])
        else:
            left.append([len(numbers) - 1 - numbers[call] for call in reversed(own)])
    made, calls_ns = Nodes(1 + len(ports)), np.zeros(len(nodes), np.int64)
    for node, before in zip(nodes, _dependencies(nodes, moved, part.rank), strict=True):
        if node.kind == COMPUTES:
            made.add(COMPUTE, before)
        elif is_carried(node):
            made.add(TRANSFER, before)
        elif node.route in ports:
            port = ports[node.route]
            tensor = left[port].pop()
            costs = spec.members[port - 1].costs if spec.members else None
            if costs is not None:
                calls_ns[len(made.kinds)] = costs.call_ns[tensor]
            made.add(CALL, before, port=port, tensor=tensor)
        else:  # a collective of a single rank
            made.add(NOTHING, before)
    transfers = np.zeros(len(nodes), np.int64)
    np.add.at(transfers, moved.given_by(part.rank).sends, 1)
    np.add.at(transfers, moved.received_by(part.rank).receives, 1)
    if spec.costs is not None and part.partners is not None:
        send_ns = dict(zip(part.partners, spec.costs.send_ns, strict=True))
        given_by = moved.given_by(part.rank)
        for target, sends in zip(given_by.target.tolist(), given_by.sends.tolist(), strict=True):
            calls_ns[sends] = max(calls_ns[sends], send_ns.get(target, 0))
    durations = [node.duration_ns * part.scale_millionths // 1_000_000 for node in nodes]
    return made.graph(spec, stream, [durations], transfers=transfers, timed=True, calls_ns=calls_ns)


def _dependencies(nodes: Sequence[Node], moved: Transfers, rank: int) -> list[set[int]]:
    """Dependencies of each node. A receive from the own rank waits for its sending.

    A collective that goes another way than the one before it in its group begins after that, as do
    those whose parts are transfers."""
    before = [set(each.after) for each in nodes]
    for sends, receives in moved.within(rank):
        before[receives].add(sends)
    last: dict[str, int] = {}
    for place, node in enumerate(nodes):
        if node.kind not in COLLECTIVES:
            continue
        other = last.get(node.group)
        if other is not None and (
            is_carried(node) or is_carried(nodes[other]) or node.route != nodes[other].route
        ):
            before[place].add(other)
        last[node.group] = place
    return before
