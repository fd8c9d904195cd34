"""Text about a world that has come to a halt: the nodes that wait, and the things they wait for.

A halt is a defect of a protocol or of a user's own P4 program, or the experiment cannot work (a
lost packet and no timer that would notice). The list starts where one would look first: at the
workers, with the tensors whose results are missing, then at the servers' incomplete fragments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from testbed.protocols import send_scoreboard, server_store
from testbed.traffic.rank_graph import GroupRoute
from testbed.workload.graph_source import SLOTS

if TYPE_CHECKING:
    from testbed.simulate.world import Node, Nodes

NAMED = 3  # tensors, or fragments, that a line names; of the others it says how many they are
LINES = 24


def waiting(nodes: Nodes) -> list[str]:
    """One line per host that is not done."""
    done = nodes.world.hosts["done"]
    lines = []
    for number, node in nodes.present:
        if node.is_worker:
            if not done[number]:
                lines.append(f"  {node.title}: {_worker(node)}")
        elif (what := _server(node.machine.protocol)) is not None:
            lines.append(f"  {node.title}: {what}")
    frames = int((nodes.world.first >= 0).sum())
    if frames:
        lines.append(f"  frames are on their way to {frames} nodes")
    if len(lines) > LINES:
        lines[LINES:] = [f"  and {len(lines) - LINES} more hosts"]
    return lines


def _worker(node: Node) -> str:
    if node.spec.program is not None:
        return _rank(node)
    scoreboard, loop = node.machine.scoreboard, node.machine.source.graph.state
    computing = loop.running >= 0
    iteration = int(scoreboard.state.iteration)
    if iteration < 0:
        return "has no gradients yet; it computes" if computing else "has no gradients yet"
    lacking = [t for t in range(int(scoreboard.state.tensors)) if scoreboard.missing[t] > 0]
    if not lacking:
        return f"has all results of iteration {iteration}"
    names = [node.spec.job.tensors[t].name for t in lacking]
    sent = (scoreboard.status & send_scoreboard.SENT) != 0
    unanswered = int(np.sum(sent & ((scoreboard.status & send_scoreboard.RECEIVED) == 0)))
    unsent = sum(
        int(scoreboard.first[t + 1] - scoreboard.unsent[t]) for t in lacking if scoreboard.ready[t]
    )
    missing = int(scoreboard.missing.sum())
    words = [f"iteration {iteration} waits for {missing} results of {_named(names)}"]
    words.append(f"{unanswered} fragments are sent and unanswered")
    if unsent:
        words.append(f"{unsent} are ready and not sent")
    unready = sum(1 for t in lacking if not scoreboard.ready[t])
    if unready:
        words.append(f"{unready} tensors are not computed yet")
    return "; ".join(words)


def _rank(node: Node) -> str:
    """Of a program of ranks: the calls that have begun and are not done."""
    graph = node.machine.source.graph
    begun = []
    assert node.spec.program is not None
    for port, route in enumerate(node.spec.program.groups, start=1):
        for place in range(int(graph.oldest[port]), int(graph.next_call[port])):
            if graph.turn[graph.calls[place]] == graph.port_turn[port]:
                begun.append(
                    f"call {place - int(graph.first_call[port]) + 1} of group {GroupRoute(*route)}"
                )
    what = f"waits for {_named(begun)}" if begun else "has begun no call that is not done"
    iteration = int(graph.state.iteration)
    return f"iteration {iteration}, {int(graph.left[iteration % SLOTS])} nodes left; {what}"


def _server(protocol: Any) -> str | None:
    server = getattr(protocol, "adder", protocol)  # the plain server has a pool server inside
    slots = np.flatnonzero(server.stage == server_store.PART)
    if not slots.size:
        return None
    lacks = []
    for slot in slots[np.argsort(server.row[slots])][:NAMED]:
        missing = [
            worker
            for worker in range(int(server.config.workers))
            if not int(server.bitmap[slot, -1 - worker // 32]) >> worker % 32 & 1
        ]
        fragment = int(server.row[slot]) % int(server.config.fragments)
        iteration = int(server.iteration[slot])
        numbers = ", ".join(map(str, missing))
        lacks.append(f"fragment {fragment} of iteration {iteration}: {numbers}")
    more = f", and {slots.size - NAMED} more" if slots.size > NAMED else ""
    return f"{slots.size} fragments incomplete: workers missing: {'; '.join(lacks)}{more}"


def _named(names: list[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more
