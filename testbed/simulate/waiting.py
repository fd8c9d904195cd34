"""Who waits for what in a world that has come to a halt, in lines for a person.

A halt is a defect of a protocol, of a P4 program of the user's own, or an experiment that cannot
work (a lost packet and no timer that would notice). The list starts where one would look first: at
the workers, with the tensors whose results are missing, then at the servers' incomplete fragments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from testbed.protocols import send_scoreboard as bk
from testbed.protocols import server_store
from testbed.simulate import state as w
from testbed.workload import training

if TYPE_CHECKING:
    from testbed.simulate.world import Node, Nodes

NAMED = 3  # tensors, or fragments, that a line names; of the others it says how many they are
LINES = 24


def waiting(nodes: Nodes) -> list[str]:
    """One line per host that is not done."""
    done = nodes.world.hosts[:, w.DONE]
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
    b, s = node.machine.book, node.machine.training.s
    computing = s[training.PHASE] < training.DRAIN and s[training.COMPUTING] == 1
    iteration = int(b.s[bk.ITERATION])
    if iteration < 0:
        return "has no gradients yet; it computes" if computing else "has no gradients yet"
    lacking = [t for t in range(int(b.s[bk.TENSORS])) if b.missing[t] > 0]
    if not lacking:
        return f"has all results of iteration {iteration}"
    names = [node.spec.job.tensors[t].name for t in lacking]
    sent = (b.status & bk.SENT) != 0
    unanswered = int(np.sum(sent & ((b.status & bk.RECEIVED) == 0)))
    unsent = sum(int(b.first[t + 1] - b.unsent[t]) for t in lacking if b.ready[t])
    words = [f"iteration {iteration} lacks {int(b.missing.sum())} results of {_named(names)}"]
    words.append(f"{unanswered} fragments are sent and unanswered")
    if unsent:
        words.append(f"{unsent} are ready and not sent")
    unready = sum(1 for t in lacking if not b.ready[t])
    if unready:
        words.append(f"{unready} tensors are not computed yet")
    return "; ".join(words)


def _server(protocol: Any) -> str | None:
    v = getattr(protocol, "adder", protocol)  # the plain server has a pool server inside
    rows = np.flatnonzero(v.stage == server_store.PART)
    if not rows.size:
        return None
    lacks = []
    for row in rows[:NAMED]:
        missing = [
            worker
            for worker in range(int(v.c[server_store.WORKERS]))
            if not int(v.bitmap[row, -1 - worker // 32]) >> worker % 32 & 1
        ]
        fragment = int(row) % int(v.c[server_store.FRAGMENTS])
        numbers = ", ".join(map(str, missing))
        lacks.append(f"fragment {fragment} of iteration {int(v.iteration[row])} lacks {numbers}")
    more = f", and {rows.size - NAMED} more" if rows.size > NAMED else ""
    return f"{rows.size} fragments incomplete: workers missing: {'; '.join(lacks)}{more}"


def _named(names: list[str]) -> str:
    more = f" and {len(names) - NAMED} more tensors" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more
