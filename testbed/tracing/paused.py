"""Waits behind pauses in a fragment's late path: who was paused by whom, and for whose port.

A packet that waits in a queue, or in a host's network card, may be paused by the switch at the far
end. That switch knows when it paused whom, and for which of its outputs the packets were that
filled its buffer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from p4engine.switch.lossless_links import pauses
from p4fabric.base import units

from testbed.tracing.path import GONE, HANDLED, SENT, Path, Wait

if TYPE_CHECKING:
    from p4engine.switch.library import Switch
    from p4fabric.base.topology import Topology


class PauseLog:
    """The pauses of all switches of a run whose links are lossless, by who was paused by whom."""

    def __init__(self, topology: Topology, switches: Mapping[str, Switch]) -> None:
        self._topology = topology
        self._times: dict[tuple[str, str], list[tuple[int, int, str]]] = {}
        for name, switch in switches.items():
            ports = topology.ports(name)
            for each in pauses(switch)[0]:
                cause = ports[each.cause][0] if each.cause in ports else "?"
                times = self._times.setdefault((ports[each.port][0], name), [])
                until_ns = switch.stats()["now_ns"] if each.until_ns is None else each.until_ns
                times.append((each.from_ns, until_ns or each.from_ns, cause))

    def explain(self, path: Path) -> None:
        """Say of each wait of a path how much of it was behind a pause."""
        ways = {}
        for step in path.steps:
            if step.kind == GONE:
                ways[f"in the queue of {step.node} to {step.peer}"] = step.node, step.peer
            elif step.kind == HANDLED and step.cause and step.cause.kind == SENT:
                what = f"on the link {step.cause.node} to {step.node}"
                ways[what] = step.cause.node, step.node
        path.waits = [self._explained(wait, ways.get(wait.what)) for wait in path.waits]

    def _explained(self, wait: Wait, way: tuple[str, str] | None) -> Wait:
        if way is None:
            return wait
        paused, by = way
        waited: dict[str, int] = {}
        for from_ns, until_ns, cause in self._times.get(way, ()):
            both_ns = min(until_ns, wait.end_ns) - max(from_ns, wait.begin_ns)
            if both_ns > 0:
                waited[cause] = waited.get(cause, 0) + both_ns
        if not waited:
            return wait
        where = paused
        if not self._topology.is_host(paused):
            where = f"{paused}-p{self._topology.port_to(paused, by)}"
        causes = " and ".join(f"{cause}'s port" for cause in waited)
        time = units.time(sum(waited.values()))
        said = f"{wait.what}; waited {time}: {where} was paused by {by} for {causes}"
        return wait._replace(what=said)
