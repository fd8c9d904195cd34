"""A job's program: for each rank a graph of compute steps, collectives and transfers.

A node starts when the nodes that it depends on are done, and:

- a rank has one processor. Of its compute nodes that may run, the first one in file order does.
- collectives of one group start in file order on each rank. They are done when all ranks of the
  group have started theirs and the bytes have travelled.
- the n-th send to a rank with a tag, in file order, belongs to the n-th receive of that rank.

Everything else overlaps. `check` proves that all ranks of a program come to their end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from testbed.collective_kinds import COLLECTIVES
from testbed.traffic.trace import MAX_NS, TraceError

COMPUTE, SEND, RECV = "compute", "send", "recv"
KINDS = (COMPUTE, SEND, RECV, *COLLECTIVES)

_NARROW = {"bfloat16": 2, "float16": 2, "int8": 1, "uint8": 1}  # bytes of types below 32 bits

MAX_BYTES = 2**40  # of one operation
MAX_RANKS = 65_536
NOBODY = -1

Place = tuple[int, int]  # of a node: its rank, and its place in the rank's graph


class GroupRoute(NamedTuple):
    """The calls of a group that one carrier takes and adds in one format. They have a communicator
    of their own."""

    group: str
    algorithm: str = ""  # of hosts; "": the experiment's system
    sum: str = ""  # format; "": the system's

    def __str__(self) -> str:
        carrier = f" by {self.algorithm}" if self.algorithm else ""
        return f"{self.group}{carrier}" + (f" in {self.sum}" if self.sum else "")


@dataclass(frozen=True, slots=True)
class Node:
    """One node. `after`: places of the nodes in the rank's graph that it depends on."""

    kind: str
    after: tuple[int, ...] = ()
    duration_ns: int = 0  # of a compute node
    group: str = ""  # of a collective or transfer; a transfer need not have one
    # What the rank gives: the whole input of a reduce_scatter or an all_to_all, its own part of an
    # all_gather or a gather, what all ranks get together of a scatter.
    bytes: int = 0
    parts: tuple[int, ...] = ()  # of an all_to_all: bytes for each rank of the group; (): equal
    peer: int = NOBODY  # the other rank of a transfer, the root of a broadcast, reduce, ...
    tag: int = 0
    dtype: str = ""  # PyTorch's name of it, where it is known
    id: int = 0  # in the file, for messages
    algorithm: str = ""  # of hosts that carries a collective; "": the experiment's system
    sum: str = ""  # format of a collective's sums; "": the system's
    # The group whose communicator carries a dispatch or combine of some of its ranks, which packets
    # name (expert_calls.in_packets); "": its own group's.
    through: str = ""

    @property
    def route(self) -> GroupRoute:
        return GroupRoute(self.through or self.group, self.algorithm, self.sum)


def width_of(node: Node) -> int:
    """Bytes of a value of a call or transfer."""
    return _NARROW.get(node.dtype, 4)


@dataclass(frozen=True)
class Program:
    """The graphs of all ranks, and the groups: their ranks in the order of the group. routes: of
    the calls of groups, in the order of their communicators; (): the system carries all. word:
    bytes of a value in which tokens of a dispatch travel."""

    groups: dict[str, tuple[int, ...]]
    ranks: Sequence[tuple[Node, ...]]
    files: tuple[str, ...] = ()  # of the ranks, for messages
    about: dict[str, str] = field(default_factory=dict)  # what a recording says of itself
    routes: tuple[GroupRoute, ...] = ()
    word: int = 4

    def routes_with(self, more: Iterable[GroupRoute] = ()) -> tuple[GroupRoute, ...]:
        """All routes, with more of them at the end."""
        return tuple(dict.fromkeys([*(self.routes or map(GroupRoute, self.groups)), *more]))

    def where(self, rank: int, place: int | None = None) -> str:
        """Name in messages of a rank or one of its nodes."""
        file = f"{self.files[rank]}: " if self.files else ""
        if place is None:
            return f"{file}rank {rank}"
        node = self.ranks[rank][place]
        return f"{file}rank {rank}, node {node.id} ({describe(node)})"


def describe(node: Node) -> str:
    """A node in a few words."""
    if node.kind == COMPUTE:
        return COMPUTE
    if node.kind in (SEND, RECV):
        return f"{node.kind} {'to' if node.kind == SEND else 'from'} rank {node.peer}"
    return f"{node.kind} in group {node.route}" if node.group else node.kind


def check(program: Program) -> None:
    """Raises TraceError if a group or a node is wrong, if the ranks of a group do not call the same
    collectives in the same order, if a transfer lacks its other half, or if ranks would wait for
    each other forever."""
    _check_groups(program)
    for rank, nodes in enumerate(program.ranks):
        for place, node in enumerate(nodes):
            if wrong := _wrong(program, rank, node):
                raise TraceError(f"{program.where(rank, place)}: {wrong}")
    calls = _group_calls(program)
    _check_calls(program, calls)
    _Rehearsal(Waits(program, calls), transfers(program)).run()


def _group_calls(program: Program) -> dict[tuple[str, int], list[int]]:
    """Places of the calls of each group on each of its ranks, in order."""
    calls: dict[tuple[str, int], list[int]] = {
        (group, rank): [] for group, ranks in program.groups.items() for rank in ranks
    }
    for rank, nodes in enumerate(program.ranks):
        for place, node in enumerate(nodes):
            if node.kind in COLLECTIVES:
                calls[node.group, rank].append(place)
    return calls


class Waits:
    """Progress of a program: what its nodes wait for, and how far its ranks are with the calls
    of their groups."""

    def __init__(
        self, program: Program, calls: dict[tuple[str, int], list[int]] | None = None
    ) -> None:
        """calls: of each group and rank, if somebody knows them already."""
        self.program = program
        self.calls = _group_calls(program) if calls is None else calls
        self.left = [[len(set(node.after)) for node in nodes] for nodes in program.ranks]
        self.then: list[list[list[int]]] = [[[] for _ in nodes] for nodes in program.ranks]
        for rank, nodes in enumerate(program.ranks):
            for place, node in enumerate(nodes):
                for before in set(node.after):
                    self.then[rank][before].append(place)
        self.next_call = dict.fromkeys(self.calls, 0)
        self._there: dict[tuple[str, int], int] = {}  # ranks that are ready for a group's call

    def called(self, group: str, rank: int) -> Iterator[int]:
        """A rank is ready for calls of a group: the numbers of those for which all ranks are
        now."""
        calls, ranks = self.calls[group, rank], self.program.groups[group]
        while (number := self.next_call[group, rank]) < len(calls):
            if self.left[rank][calls[number]]:
                return
            self.next_call[group, rank] += 1
            self._there[group, number] = self._there.get((group, number), 0) + 1
            if self._there[group, number] == len(ranks):
                yield number


def _check_groups(program: Program) -> None:
    size = len(program.ranks)
    if not 1 <= size <= MAX_RANKS:
        raise TraceError(f"a program of {size} ranks; allowed: 1 to {MAX_RANKS}")
    for name, ranks in program.groups.items():
        for rank, times in Counter(ranks).items():
            if not 0 <= rank < size:
                raise TraceError(
                    f"group {name}: there is no rank {rank}; the program has ranks 0 to {size - 1}."
                    " Correct the group, or add the rank's file"
                )
            if times > 1:
                raise TraceError(f"group {name}: has rank {rank} {times} times; name it once")
        if not ranks:
            raise TraceError(f"group {name}: has no ranks; take it out")


def _wrong(program: Program, rank: int, node: Node) -> str:
    """Problem of a node by itself; "" if there is none."""
    size = len(program.ranks[rank])
    for other in node.after:
        if not 0 <= other < size:
            return f"depends on place {other} of {size}; name nodes of the same rank"
    if node.kind not in KINDS:
        return f"unknown kind; known: {', '.join(KINDS)}"
    if not 0 <= node.duration_ns <= MAX_NS:
        return f"takes {node.duration_ns} ns; allowed: 0 to {MAX_NS}"
    if not 0 <= node.bytes <= MAX_BYTES:
        return f"has {node.bytes} bytes; allowed: 0 to {MAX_BYTES}"
    if node.kind in (SEND, RECV):
        if 0 <= node.peer < len(program.ranks):
            return ""
        return f"there is no rank {node.peer}; ranks: 0 to {len(program.ranks) - 1}"
    if node.kind == COMPUTE:
        return ""
    ranks = program.groups.get(node.group)
    if ranks is None:
        known = ", ".join(program.groups) or "none"
        return f"there is no group {node.group}; groups: {known}. Name one, or add it to the groups"
    if rank not in ranks:
        return f"the group has no rank {rank}, only {_ranks(ranks)}; correct the group"
    if COLLECTIVES[node.kind].rooted and node.peer not in ranks:
        return f"its root, rank {node.peer}, is not in the group, which has {_ranks(ranks)}"
    if node.parts and (len(node.parts) != len(ranks) or sum(node.parts) != node.bytes):
        return (
            f"has {len(node.parts)} parts of together {sum(node.parts)} bytes; the group has"
            f" {len(ranks)} ranks, and the node {node.bytes} bytes"
        )
    return ""


def _ranks(ranks: tuple[int, ...]) -> str:
    shown = ", ".join(map(str, ranks[:8]))
    return f"rank{'s' if len(ranks) > 1 else ''} {shown}{', ...' if len(ranks) > 8 else ''}"


def _check_calls(program: Program, calls: dict[tuple[str, int], list[int]]) -> None:
    remedy = "All ranks of a group make the same calls in the same order: correct or record again"
    for group, (first, *others) in program.groups.items():
        own = calls[group, first]
        for other in others:
            theirs = calls[group, other]
            for number, (one, two) in enumerate(zip(own, theirs, strict=False), start=1):
                a, b = program.ranks[first][one], program.ranks[other][two]
                for had, has in zip(_call(a), _call(b), strict=True):
                    if had != has:
                        raise TraceError(
                            f"{program.where(other, two)}: is call {number} of the group, with"
                            f" {has}; {program.where(first, one)} is the same call, with {had}."
                            f" {remedy}"
                        )
            if len(own) != len(theirs):
                fewer, more = sorted([(len(own), first), (len(theirs), other)])
                place = calls[group, more[1]][fewer[0]]
                raise TraceError(
                    f"{program.where(more[1], place)}: {program.where(fewer[1])} lacks this call,"
                    f" it has {fewer[0]} of the group's {more[0]}. {remedy}"
                )


def _call(node: Node) -> tuple[str, ...]:
    """Fields of a call in which all ranks must agree."""
    size = "" if COLLECTIVES[node.kind].uneven else f"{node.bytes} bytes"
    return f"kind {node.kind}", size, f"root {node.peer}"


def transfers(program: Program) -> dict[Place, Place]:
    """The send of each receive. Raises TraceError if one lacks the other."""
    halves: dict[str, dict[tuple, list[Place]]] = {SEND: {}, RECV: {}}
    for rank, nodes in enumerate(program.ranks):
        for place, node in enumerate(nodes):
            if node.kind in halves:
                ends = (rank, node.peer) if node.kind == SEND else (node.peer, rank)
                key = (*ends, node.group, node.tag)
                halves[node.kind].setdefault(key, []).append((rank, place))
    found = {}
    for key in halves[SEND].keys() | halves[RECV].keys():
        sends, receives = (halves[kind].get(key, []) for kind in (SEND, RECV))
        for send, receive in zip(sends, receives, strict=False):
            sent, got = (program.ranks[rank][place].bytes for rank, place in (send, receive))
            if sent != got:
                raise TraceError(
                    f"{program.where(*receive)}: expects {got} bytes, and {program.where(*send)}"
                    f" gives {sent}; make them equal"
                )
            found[receive] = send
        if len(sends) != len(receives):
            more = max(sends, receives, key=len)
            missing = "receive" if more is sends else "send"
            raise TraceError(
                f"{program.where(*more[min(len(sends), len(receives))])}, tag {key[3]}: there is no"
                f" {missing} for it on rank {key[1] if more is sends else key[0]}; add it, or take"
                " this one out"
            )
    return found


class _Rehearsal:
    """A run of a program in which nothing takes time. A send is done at once."""

    def __init__(self, waits: Waits, transfers: dict[Place, Place]) -> None:
        self._program, self._waits, self._transfers = waits.program, waits, transfers
        self._left = waits.left
        self._receives = {send: receive for receive, send in transfers.items()}
        self._done = [[False] * len(nodes) for nodes in self._program.ranks]

    def run(self) -> None:
        free = [
            (rank, place)
            for rank, left in enumerate(self._left)
            for place, count in enumerate(left)
            if count == 0
        ]
        while free:
            for rank, place in self._ended(*free.pop()):
                if self._done[rank][place]:  # a receive that its send has ended
                    continue
                self._done[rank][place] = True
                for following in self._waits.then[rank][place]:
                    self._left[rank][following] -= 1
                    if self._left[rank][following] == 0:
                        free.append((rank, following))
        for rank, done in enumerate(self._done):
            if not all(done):
                self._tell_cycle((rank, done.index(False)))

    def _ended(self, rank: int, place: int) -> Iterator[Place]:
        """The nodes that end because all that this one depends on is done."""
        node = self._program.ranks[rank][place]
        if node.kind in COLLECTIVES:
            for number in self._waits.called(node.group, rank):
                for each in self._program.groups[node.group]:
                    yield each, self._waits.calls[node.group, each][number]
        elif node.kind == RECV:
            send = self._transfers[rank, place]
            if self._done[send[0]][send[1]]:
                yield rank, place
        else:
            yield rank, place
            receive = self._receives.get((rank, place))
            if receive is not None and self._left[receive[0]][receive[1]] == 0:
                yield receive

    def _tell_cycle(self, at: Place) -> None:
        """Follow what a node waits for, which is a cycle in the end."""
        path = [at]
        while (at := self._waits_for(*at)) not in path:
            path.append(at)
        cycle = path[path.index(at) :]
        shown = ", which waits for ".join(
            f"{'' if number else self._program.where(*each)}"
            f"{f'rank {each[0]}, node {self._node(each).id}' if number else ''}"
            for number, each in enumerate([*cycle[:6], cycle[0]])
        )
        raise TraceError(
            f"{shown}{' (shortened)' if len(cycle) > 6 else ''}: so none of them ever starts; take"
            " out a dependency, or let the ranks call their groups in one order"
        )

    def _node(self, at: Place) -> Node:
        return self._program.ranks[at[0]][at[1]]

    def _waits_for(self, rank: int, place: int) -> Place:
        node = self._program.ranks[rank][place]
        for before in node.after:
            if not self._done[rank][before]:
                return rank, before
        if node.kind == RECV:
            return self._transfers[rank, place]
        calls, next_call = self._waits.calls, self._waits.next_call
        number = calls[node.group, rank].index(place)
        for each in self._program.groups[node.group]:
            if next_call[node.group, each] <= number:
                return each, calls[node.group, each][next_call[node.group, each]]
        raise AssertionError("a call that all ranks have started is done")
