"""Transfers of a program's ranks (rank_graph) to single other ranks: sends, and the parts of
all_to_all, scatter and gather.

A transfer moves bytes as words of 32 bits from a node of its source to a node of its target. The
parts of a collective are in the order of pairwise exchange: a rank begins with the rank after it in
the group, so that ranks in step never send to the same one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from testbed.collective_kinds import COLLECTIVES, OWN, ROOT
from testbed.traffic.rank_graph import RECV, SEND, Node, Program, transfers

PacketNumbers = tuple[np.ndarray, np.ndarray, np.ndarray]
PARTS = tuple(name for name, kind in COLLECTIVES.items() if kind.pairs)  # they are transfers


@dataclass(frozen=True)
class Transfers:
    """T transfers of a program, all int64[T], by source and the order in which it begins them."""

    source: np.ndarray
    target: np.ndarray
    sends: np.ndarray  # the node's place in the graph of the source
    receives: np.ndarray  # and in that of the target
    values: np.ndarray

    def of(self, chosen: np.ndarray) -> Transfers:
        """Those with these numbers, or of a mask."""
        return Transfers(*(getattr(self, name)[chosen] for name in self.__dataclass_fields__))

    def given_by(self, rank: int) -> Transfers:
        """Transfers of a rank to others, in order."""
        return self.of((self.source == rank) & (self.target != rank))

    def received_by(self, rank: int) -> Transfers:
        """Transfers that a rank receives from others, by the receiving node and the source."""
        found = self.of((self.target == rank) & (self.source != rank))
        return found.of(np.lexsort((found.source, found.receives)))

    def partners_of(self, rank: int) -> tuple[int, ...]:
        """The other ranks to which a rank sends, or from which it receives."""
        found = {*self.target[self.source == rank], *self.source[self.target == rank]} - {rank}
        return tuple(sorted(map(int, found)))

    def numbered(self, values: int) -> PacketNumbers:
        """For each transfer to another rank, in packets of `values` values: its number among
        those that the target receives, its first packet among theirs, and how many packets the
        target receives in all; int64[T] each, 0 within a rank."""
        number, first, total = (np.zeros(len(self), np.int64) for _ in range(3))
        packets = -(-self.values // values)
        others = np.flatnonzero(self.source != self.target)
        order = others[
            np.lexsort((self.source[others], self.receives[others], self.target[others]))
        ]
        for theirs in np.split(order, np.flatnonzero(np.diff(self.target[order])) + 1):
            ends = np.cumsum(packets[theirs])
            number[theirs] = np.arange(theirs.size)
            first[theirs] = ends - packets[theirs]
            total[theirs] = ends[-1] if ends.size else 0
        return number, first, total

    def within(self, rank: int) -> list[tuple[int, int]]:
        """Transfers of a rank to itself: (sending node, receiving node)."""
        own = self.of((self.source == rank) & (self.target == rank))
        return list(zip(own.sends.tolist(), own.receives.tolist(), strict=True))

    def __len__(self) -> int:
        return self.source.size


def transfers_of(program: Program) -> Transfers:
    """The transfers of a program that has been checked."""
    rows = [*_sends(program), *_parts(program)]
    table = np.array(rows, np.int64).reshape(-1, 6)
    # A node's transfers by their distance in its group.
    table = table[np.lexsort((table[:, 5], table[:, 2], table[:, 0]))]
    return Transfers(*(table[:, column].copy() for column in range(5)))


def _sends(program: Program) -> Iterator[tuple[int, ...]]:
    for (target, receive), (source, send) in transfers(program).items():
        size = program.ranks[source][send].bytes
        yield source, target, send, receive, _words(size), 0


def _parts(program: Program) -> Iterator[tuple[int, ...]]:
    for name, ranks in program.groups.items():
        calls = [
            [place for place, node in enumerate(program.ranks[rank]) if _has_parts(node, name)]
            for rank in ranks
        ]
        for places in zip(*calls, strict=True):
            for own, (source, sends) in enumerate(zip(ranks, places, strict=True)):
                node = program.ranks[source][sends]
                for distance in range(1, len(ranks)):
                    other = (own + distance) % len(ranks)
                    target, receives = ranks[other], places[other]
                    size = _part(node, source, target, other, len(ranks))
                    if size:
                        yield source, target, sends, receives, _words(size), distance


def _has_parts(node: Node, group: str) -> bool:
    return node.kind in PARTS and node.group == group


def _part(node: Node, source: int, target: int, number: int, ranks: int) -> int:
    """Bytes that a rank gives to rank `target`, which is member `number` of `ranks`, in a call."""
    kind = COLLECTIVES[node.kind]
    if (kind.gives == ROOT and source != node.peer) or (kind.gets == ROOT and target != node.peer):
        return 0
    if kind.gives == OWN:
        return node.bytes
    return node.parts[number] if node.parts else -(-node.bytes // ranks)


def _words(size: int) -> int:
    return max(1, -(-size // 4))


def is_carried(node: Node) -> bool:
    """True if a node's bytes go to single ranks, or come from them."""
    return node.kind in (SEND, RECV, *PARTS)
