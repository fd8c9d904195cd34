"""Links that fail in virtual time.

The loop has returned and everything up to now has happened. So links change, and tables and hosts
follow, at an instant: between two events.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from testbed.dataplane.failover import Failover
from testbed.simulate import event_queue

if TYPE_CHECKING:
    from testbed.derived.rerouting import NewPart
    from testbed.simulate.world import Nodes


class LinksThatFail:
    """Those of one repetition; see Failover."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._now_ns = 0
        self._failover = Failover(
            nodes.experiment,
            lambda name: contextlib.nullcontext(nodes.switches[name]),
            self._tell,
        )

    def next_ns(self) -> int:
        """When the next link changes, or routes do; event_queue.NEVER: no more."""
        return min(self._failover.next_ns(), event_queue.NEVER)

    def tick(self, now_ns: int, ended: Collection[int]) -> None:
        """Do what is due at `now_ns`. ended: jobs that have."""
        self._now_ns = now_ns
        switches = self._nodes.switches.values()
        for switch in switches:
            left = switch.advance(now_ns)
            assert not left, "all events up to now have been handled"
        self._failover.tick(now_ns, ended)
        world = self._nodes.world
        first = world.hosts.shape[0] + world.trunks.shape[0]
        for number, switch in enumerate(switches):
            due_ns = switch.next_event_ns()
            due_ns = event_queue.NEVER if due_ns is None else due_ns
            event_queue.put(world.queue, first + number, due_ns)

    def cut_off(self, job: int) -> str:
        """The links without which a job's hosts have no path to each other, in words; ""."""
        return self._failover.cut_off(job)

    def returns(self) -> bool:
        """Whether a link comes up again later."""
        return self._failover.returns()

    @property
    def last_ns(self) -> int:
        """When the network changed last; -1: not yet."""
        return self._failover.last_ns

    def rows(self, end_ns: int) -> list[dict[str, Any]]:
        """Rows of table faults."""
        return self._failover.rows(end_ns)

    def _tell(self, parts: Sequence[NewPart]) -> None:
        for part in parts:
            self._nodes.on_new_way(part, self._now_ns)
