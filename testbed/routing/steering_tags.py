"""Tags by which switches steer a job's packets.

A switch cannot steer by destination: raw fragments and an aggregate may leave one switch for the
same parameter server on different links. It steers by (job, tag). There are as few tags as
possible: a path joins an existing tag unless some switch would have to treat its packets
differently.
"""

from __future__ import annotations

from testbed.routing.loop_free_paths import Path

_Rules = dict[str, tuple[str, int]]


class Tags:
    """The tags of one job, numbered from 1 in the order in which they are asked for."""

    def __init__(self) -> None:
        # For each tag what switches do: (next node, 0), or ("", group) where its packets are added.
        self._rules: list[_Rules] = []
        self._groups: list[int] = []

    def of_inputs(self, path: Path, group: int) -> int:
        """The tag of packets from a worker over `path` to where they join `group` (0: none)."""
        rules = _forward(path[1:])
        if group:
            rules[path[-1]] = ("", group)
        for tag, known in enumerate(self._rules, 1):
            if self._groups[tag - 1] == group and _agree(known, rules):
                known.update(rules)
                return tag
        return self._new(rules, group)

    def of_subtotal(self, path: Path, onward: Path, group: int) -> int:
        """The tag of an aggregate over `path` to where it joins `group`, whose own way is `onward`.
        What may not join there (a part of a sum) goes on over it with this tag."""
        rules = _forward(path[1:]) | _forward(onward[1:]) | {path[-1]: ("", group)}
        marker = -1 - group  # workers' packets have other tags: collisions are signalled to them
        for tag, known in enumerate(self._rules, 1):
            if self._groups[tag - 1] == marker and _agree(known, rules):
                known.update(rules)
                return tag
        return self._new(rules, marker)

    def of_aggregate(self, onward: Path, inputs: int) -> int:
        """The tag of an aggregate on its way to the PS; `inputs` is that of its inputs, which it
        keeps if it can."""
        rules = _forward(onward[1:])
        known = self._rules[inputs - 1]
        if _agree(known, rules):
            known.update(rules)
            return inputs
        return self._new(rules, -1)

    def _new(self, rules: _Rules, group: int) -> int:
        self._rules.append(rules)
        self._groups.append(group)
        return len(self._rules)


def _forward(nodes: Path) -> _Rules:
    return {node: (after, 0) for node, after in zip(nodes, nodes[1:], strict=False)}


def _agree(known: _Rules, rules: _Rules) -> bool:
    return all(known.get(node, rule) == rule for node, rule in rules.items())
