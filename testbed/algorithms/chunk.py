"""A chunk, and what algorithms know of ranks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

NOBODY = -1

Ranks = tuple[int, ...]


@dataclass(frozen=True)
class Chunk:
    """Two trees over n ranks. up, down: of each rank, the one to which its partial sum goes, and
    the one from which the whole sum comes; NOBODY of the root."""

    up: Ranks
    down: Ranks

    @property
    def root(self) -> int:
        return self.up.index(NOBODY)

    @cached_property
    def below(self) -> tuple[tuple[int, ...], ...]:
        """Of each rank, those whose partial sums come to it."""
        return _children(self.up)

    @cached_property
    def after(self) -> tuple[tuple[int, ...], ...]:
        """Of each rank, those to which it gives the whole sum."""
        return _children(self.down)


def _children(parents: Ranks) -> tuple[tuple[int, ...], ...]:
    found: list[list[int]] = [[] for _ in parents]
    for rank, parent in enumerate(parents):
        if parent != NOBODY:
            found[parent].append(rank)
    return tuple(map(tuple, found))


@dataclass(frozen=True)
class Group:
    """The ranks 0 to n - 1 of a communicator. servers: of each rank, a number of the server that it
    is in; ranks of one server reach each other without the network. channels: in how many ways
    chunks go round at a time, where an algorithm has several. roots: how many ranks complete sums,
    where an algorithm can do with few; 0: all."""

    servers: tuple[int, ...]
    channels: int = 1
    roots: int = 0

    @property
    def size(self) -> int:
        return len(self.servers)

    @cached_property
    def by_server(self) -> tuple[tuple[int, ...], ...]:
        """The ranks of each server, in order."""
        found: dict[int, list[int]] = {}
        for rank, server in enumerate(self.servers):
            found.setdefault(server, []).append(rank)
        return tuple(map(tuple, found.values()))


Chunks = tuple[Chunk, ...]
Make = Callable[[Group], Sequence[Chunk]]


@dataclass(frozen=True)
class Algorithm:
    """An algorithm by what it carries. Each function gives as many chunks for each rank as root,
    root after root; fragments take turns among them, those of one root or all.

    sums: of sums for all ranks (all_reduce). parts: whose values belong to one rank each
    (reduce_scatter, all_gather); rooted: all of one call to one rank (reduce, broadcast). None: it
    does not carry these, another one does."""

    name: str
    title: str
    sums: Make
    parts: Make | None = None
    rooted: Make | None = None
