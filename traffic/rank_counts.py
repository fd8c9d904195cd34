"""Counts of a program's ranks: calls and bytes by kind of group, computation."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from testbed.collective_kinds import COLLECTIVES
from testbed.traffic.rank_graph import COMPUTE, RECV, SEND, GroupRoute, Node, Program
from testbed.traffic.server_steps import STEPS

Key = tuple[GroupRoute, int, str, str]  # with rank, kind, dtype
_NUMBERED = re.compile(r"(.+?)[._]?\d+")
_STEP = re.compile(rf"(.+?)({'|'.join(STEPS)})\d+")


@dataclass(frozen=True)
class Count:
    """The calls of one kind in all groups of one kind, or all sends; per iteration. bytes: given by
    a rank in its calls, the least and the most."""

    groups: str
    number: int  # of these groups; of sends, of ranks that send
    ranks: int  # of such a group
    kind: str
    dtype: str
    calls: tuple[int, int]  # of a group, or of a rank that sends: the fewest and the most
    bytes: tuple[int, int]


@dataclass(frozen=True)
class Work:
    """Work of ranks that do the same, in an iteration."""

    ranks: tuple[int, ...]
    compute_ns: int
    collectives: int
    sends: int
    bytes: int


def kind_of_group(route: GroupRoute) -> str:
    """The name of a group without its number, and that of its step (server_steps.py), and the
    algorithm of its calls; "all" for that of all ranks."""
    found = _STEP.fullmatch(route.group)
    base, step = (found[1], found[2].rstrip()) if found else (route.group, "")
    found = _NUMBERED.fullmatch(base)
    return str(route._replace(group=f"{found[1] if found else base or 'all'}{step}"))


def given(program: Program) -> tuple[Counter[Key], Counter[Key]]:
    """The calls of each rank, and the bytes that it gives to them. A transfer counts once, as a
    send."""
    calls: Counter[Key] = Counter()
    sizes: Counter[Key] = Counter()
    for rank, nodes in enumerate(program.ranks):
        for node in nodes:
            if node.kind in (COMPUTE, RECV):
                continue
            key = (node.route, rank, node.kind, node.dtype)
            calls[key] += 1
            sizes[key] += node.bytes
    return calls, sizes


def counts(program: Program) -> list[Count]:
    """All kinds of calls, those of the largest groups first."""
    calls, sizes = given(program)
    kinds: dict[tuple[str, int, str, str], list[Key]] = defaultdict(list)
    for key in calls:
        route, _, kind, dtype = key
        if kind == SEND:
            kinds["pairs", 2, kind, dtype].append(key)
        else:
            members = program.groups[route.group]
            kinds[kind_of_group(route), len(members), kind, dtype].append(key)
    found = []
    for (groups, ranks, kind, dtype), keys in kinds.items():
        who = {key[1] if kind == SEND else key[0] for key in keys}
        numbers = [calls[key] for key in keys]
        amounts = [sizes[key] for key in keys]
        found.append(
            Count(
                *(groups, len(who), ranks, kind, dtype),
                (min(numbers), max(numbers)),
                (min(amounts), max(amounts)),
            )
        )
    return sorted(found, key=lambda each: (-each.ranks, each.groups, each.kind, each.dtype))


def works(program: Program) -> list[Work]:
    """All ranks, those together that do the same."""
    alike: dict[tuple[int, int, int, int], list[int]] = defaultdict(list)
    for rank, nodes in enumerate(program.ranks):
        alike[work_of(nodes)].append(rank)
    return [Work(tuple(ranks), *key) for key, ranks in alike.items()]


def work_of(nodes: Sequence[Node]) -> tuple[int, int, int, int]:
    """Work of a rank: computation in ns, collectives, sends, and the bytes that it gives."""
    giving = [node for node in nodes if node.kind not in (COMPUTE, RECV)]
    return (
        sum(node.duration_ns for node in nodes),
        sum(node.kind in COLLECTIVES for node in giving),
        sum(node.kind == SEND for node in giving),
        sum(node.bytes for node in giving),
    )
