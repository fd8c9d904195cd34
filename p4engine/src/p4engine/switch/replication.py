"""Multicast groups made of nodes, and mirror sessions that can be asked for.

The traffic manager knows a multicast group as a list of (port, rid). BMv2's commands build it from
nodes: a node is a rid with ports and link aggregation groups, and a group is a list of nodes. The
nodes are kept here, with the switch, so that every client of a switch sees the same ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from p4engine.switch.traffic_manager import MAX_PORT, Manager, SwitchError

MAX_LAG = 255
LONGEST_GROUP = 2048  # TM_PASSES / 2
LAG_HASH = 255  # BMv2's packets have no hash for this: the member is always the same


@dataclass(frozen=True)
class _Node:
    """rid and where its copies go to: ports and link aggregation groups, ascending."""

    rid: int
    ports: list[int]
    lags: list[int]


@dataclass(frozen=True)
class _Group:
    """Members given as such, then those of nodes."""

    members: list[tuple[int, int]]
    nodes: list[int]


class Replication(Manager):
    """A traffic manager with nodes and link aggregation groups.

    A link aggregation group stands for one of its ports: as BMv2 has no hash for the choice, always
    for the same (member 255 modulo their number, in ascending order).
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._groups: dict[int, _Group] = {}
        self._nodes: dict[int, _Node] = {}
        self._lags: dict[int, list[int]] = {}
        self._mirrors: dict[int, dict[str, int | None]] = {}

    def replication_clear(self) -> None:
        """Forget all groups, nodes and link aggregation groups."""
        for group in list(self._groups):
            self.multicast_delete(group)
        self._nodes.clear()
        self._lags.clear()

    # ---- groups ----

    def multicast_group(self, group: int, members: Sequence[tuple[int, int]]) -> None:
        super().multicast_group(group, members)
        self._groups[group] = _Group([(port, rid) for port, rid in members], [])

    def multicast_delete(self, group: int) -> None:
        super().multicast_delete(group)
        self._groups.pop(group, None)

    def node_join(self, group: int, node: int) -> None:
        """Add a node's copies to the end of a group."""
        found = self._group(group)
        self._node(node)
        if node in found.nodes:
            raise SwitchError(f"node {node} is in multicast group {group} already")
        joined = _Group(found.members, [*found.nodes, node])
        self._apply(groups=self._groups | {group: joined})

    def node_leave(self, group: int, node: int) -> None:
        """Take a node's copies out of a group."""
        found = self._group(group)
        if node not in found.nodes:
            raise SwitchError(f"node {node} is not in multicast group {group}")
        self._apply(groups=self._groups | {group: _without(found, node)})

    def _group(self, group: int) -> _Group:
        if group not in self._groups:
            raise SwitchError(f"there is no multicast group {group}")
        return self._groups[group]

    # ---- nodes ----

    def node_add(self, rid: int, ports: Sequence[int], lags: Sequence[int] = ()) -> int:
        """Make a node; returns its number."""
        number = max(self._nodes, default=-1) + 1
        self._nodes[number] = _checked(rid, ports, lags)
        return number

    def node_modify(self, node: int, ports: Sequence[int], lags: Sequence[int] = ()) -> None:
        """Give a node other ports; its groups follow."""
        changed = _checked(self._node(node).rid, ports, lags)
        self._apply(nodes=self._nodes | {node: changed})

    def node_delete(self, node: int) -> None:
        """Remove a node, from its groups, too."""
        self._node(node)
        self._apply(groups={n: _without(group, node) for n, group in self._groups.items()})
        del self._nodes[node]

    def lag_set(self, lag: int, ports: Sequence[int]) -> None:
        """Set the ports of a link aggregation group, 0..255; none: it is not set."""
        changed = {n: each for n, each in self._lags.items() if n != lag}
        [lag] = _checked(0, (), [lag]).lags
        if ports:
            changed[lag] = _checked(0, ports, ()).ports
        self._apply(lags=changed)

    def _node(self, node: int) -> _Node:
        if node not in self._nodes:
            raise SwitchError(f"there is no multicast node {node}")
        return self._nodes[node]

    def _apply(
        self,
        groups: dict[int, _Group] | None = None,
        nodes: dict[int, _Node] | None = None,
        lags: dict[int, list[int]] | None = None,
    ) -> None:
        """Take over what is given and set the groups that it changes, or raise before."""
        groups = self._groups if groups is None else groups
        nodes = self._nodes if nodes is None else nodes
        lags = self._lags if lags is None else lags
        changed = {}
        for number, group in groups.items():
            copies = _copies(group, nodes, lags)
            if copies != _copies(self._groups[number], self._nodes, self._lags):
                changed[number] = copies
            if len(copies) > LONGEST_GROUP:
                raise SwitchError(
                    f"multicast group {number}: {len(copies)} copies; {LONGEST_GROUP} are the most"
                )
        for number, copies in changed.items():
            super().multicast_group(number, copies)
        self._groups, self._nodes, self._lags = groups, nodes, lags

    def multicast_dump(self) -> dict[str, list[dict[str, Any]]]:
        """{"groups": [{"group", "members", "nodes"}], "nodes": [{"node", "rid", "ports", "lags"}],
        "lags": [{"lag", "ports"}]}; members are those that no node stands for."""
        return {
            "groups": [
                {"group": group, "members": found.members, "nodes": found.nodes}
                for group, found in sorted(self._groups.items())
            ],
            "nodes": [
                {"node": node, "rid": each.rid, "ports": each.ports, "lags": each.lags}
                for node, each in sorted(self._nodes.items())
            ],
            "lags": [{"lag": lag, "ports": ports} for lag, ports in sorted(self._lags.items())],
        }

    # ---- mirror sessions ----

    def mirror_session(
        self,
        session: int,
        port: int | None = None,
        group: int | None = None,
        length: int | None = None,
    ) -> None:
        super().mirror_session(session, port, group, length)
        self._mirrors.pop(session, None)
        if port is not None or group is not None:
            self._mirrors[session] = {"port": port, "group": group, "length": length or None}

    def mirror_get(self, session: int) -> dict[str, int | None] | None:
        """{"port", "group", "length"} as `mirror_session` takes them; None: clones go nowhere."""
        return self._mirrors.get(session)


def _without(group: _Group, node: int) -> _Group:
    return _Group(group.members, [each for each in group.nodes if each != node])


def _copies(
    group: _Group, nodes: dict[int, _Node], lags: dict[int, list[int]]
) -> list[tuple[int, int]]:
    """All members (port, rid) of a group, in their order."""
    made = list(group.members)
    for node in (nodes[number] for number in group.nodes):
        chosen = [lags[lag] for lag in node.lags if lag in lags]
        ports = [*node.ports, *(each[LAG_HASH % len(each)] for each in chosen)]
        made += [(port, node.rid) for port in ports]
    return made


def _checked(rid: int, ports: Sequence[int], lags: Sequence[int]) -> _Node:
    """A node, or SwitchError for a number out of range. JSON may have brought any values."""
    _number(rid, 65535, "rids are")
    for port in ports:
        _number(port, MAX_PORT, "ports are")
    for lag in lags:
        _number(lag, MAX_LAG, "link aggregation groups are")
    return _Node(rid, sorted(set(ports)), sorted(set(lags)))


def _number(value: int, most: int, what: str) -> None:
    if not isinstance(value, int) or not 0 <= value <= most:
        raise SwitchError(f"{what} numbered from 0 to {most}, not {value!r}")
