"""Actions of the control plane during a run in virtual time.

The loop has returned and everything up to now has happened. So links change, and tables and hosts
follow, at an instant: between two events.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from p4fabric.simulate import event_queue

from testbed.dataplane.failover import Failover
from testbed.setup.late_trees import with_job

if TYPE_CHECKING:
    from testbed.protocols.host_spec import HostSpec
    from testbed.setup.job_setups import NewPart, Setup
    from testbed.simulate.world import Nodes


class ControlPlane(Failover):
    """The control plane of one repetition."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._now_ns = 0
        super().__init__(
            nodes.setup,
            lambda name: contextlib.nullcontext(nodes.switches[name]),
            self._tell_hosts,
            self._begin_job,
        )

    def tick(self, now_ns: int, ended: Collection[int] = ()) -> None:
        """Do what is due at `now_ns`. ended: jobs that have."""
        self._now_ns = now_ns
        switches = self._nodes.switches.values()
        for switch in switches:
            left = switch.advance(now_ns)
            assert not left, "all events up to now have been handled"
        super().tick(now_ns, ended)
        world = self._nodes.world
        first = world.trunks.shape[0]
        for number, switch in enumerate(switches):
            due_ns = switch.next_event_ns()
            due_ns = event_queue.NEVER if due_ns is None else due_ns
            event_queue.put(world.fabric, first + number, due_ns)

    def _tell_hosts(self, parts: Sequence[NewPart]) -> None:
        for part in parts:
            self._nodes.on_new_way(part, self._now_ns)

    def _begin_job(self, number: int, made: Setup, specs: list[HostSpec]) -> None:
        """Let a job's hosts be others, before they have sent anything."""
        nodes = self._nodes
        nodes.setup = with_job(nodes.setup, number, made)
        hosts = [host for host, node in nodes.present if node.spec.job.number == number]
        if specs:
            for host in hosts:
                nodes.leave(host)
            nodes.enter(specs, hosts, self._now_ns)
