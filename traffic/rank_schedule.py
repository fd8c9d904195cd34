"""Begin and end of a program's nodes, if each call takes a given time.

The rules are those of rank_graph, and a call of a group begins after the call before it is done.
Calls of different groups do not slow each other down, so this is what a network would need in which
each group has links of its own.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from testbed.traffic.rank_graph import (
    COMPUTE,
    RECV,
    SEND,
    Node,
    Place,
    Program,
    Waits,
    transfers,
)

UNKNOWN = -1


@dataclass(frozen=True)
class Schedule:
    """Times in ns of all nodes, by rank and place. A call begins when the rank is ready for it."""

    begin_ns: list[list[int]]
    end_ns: list[list[int]]

    @property
    def total_ns(self) -> int:
        """End of the last node."""
        return max((end for ends in self.end_ns for end in ends), default=0)


def schedule(program: Program, takes_ns: Callable[[int, Node], int]) -> Schedule:
    """The schedule of a program that has been checked. takes_ns: how long a collective takes once
    all ranks are there, or a send, by the rank that asks and the node."""
    run = _Run(program, takes_ns)
    run.all()
    return Schedule(run.begin, run.end)


class _Run:
    def __init__(self, program: Program, takes_ns: Callable[[int, Node], int]) -> None:
        self.program, self.takes = program, takes_ns
        ranks = program.ranks
        self.begin = [[UNKNOWN] * len(nodes) for nodes in ranks]
        self.end = [[UNKNOWN] * len(nodes) for nodes in ranks]
        self.waits = Waits(program)
        self.free_ns = dict.fromkeys(program.groups, 0)  # end of a group's last call
        self.send_of: dict[Place, Place] = transfers(program)
        self.receive_of = {send: receive for receive, send in self.send_of.items()}
        self.waiting: list[list[int]] = [[] for _ in ranks]  # compute nodes that may run, a heap
        self.busy = [False] * len(ranks)
        self.events: list[tuple[int, int, int]] = []  # end, rank and place

    def all(self) -> None:
        for rank, left in enumerate(self.waits.left):
            for place, count in enumerate(left):
                if count == 0:
                    self.ready(rank, place, 0)
        self.run_next(0, range(len(self.busy)))
        while self.events:
            now = self.events[0][0]
            touched = set()
            while self.events and self.events[0][0] == now:
                _, rank, place = heapq.heappop(self.events)
                touched.add(rank)
                if self.program.ranks[rank][place].kind == COMPUTE:
                    self.busy[rank] = False
                left = self.waits.left[rank]
                for other in self.waits.then[rank][place]:
                    left[other] -= 1
                    if left[other] == 0:
                        self.ready(rank, other, now)
            self.run_next(now, touched)

    def run_next(self, now: int, ranks: Iterable[int]) -> None:
        """Start the first compute node of the file of those that may run."""
        for rank in ranks:
            if self.waiting[rank] and not self.busy[rank]:
                place = heapq.heappop(self.waiting[rank])
                self.busy[rank] = True
                self.begin[rank][place] = now
                self.ends(rank, place, now + self.program.ranks[rank][place].duration_ns)

    def ends(self, rank: int, place: int, when: int) -> None:
        self.end[rank][place] = when
        heapq.heappush(self.events, (when, rank, place))

    def ready(self, rank: int, place: int, now: int) -> None:
        """All is done that a node depends on."""
        node = self.program.ranks[rank][place]
        if node.kind == COMPUTE:
            heapq.heappush(self.waiting[rank], place)
            return
        self.begin[rank][place] = now
        if node.kind == SEND:
            self.ends(rank, place, now + self.takes(rank, node))
            receive = self.receive_of[rank, place]
            if self.begin[receive[0]][receive[1]] != UNKNOWN:
                self.ends(*receive, max(now, self.end[rank][place]))
        elif node.kind == RECV:
            send = self.send_of[rank, place]
            if self.begin[send[0]][send[1]] != UNKNOWN:
                self.ends(rank, place, max(now, self.end[send[0]][send[1]]))
        else:
            self.called(node.group, rank, now)

    def called(self, group: str, rank: int, now: int) -> None:
        """A rank is ready for calls of a group; those begin for which all ranks are."""
        calls, ranks = self.waits.calls, self.program.groups[group]
        for number in self.waits.called(group, rank):
            node = self.program.ranks[rank][calls[group, rank][number]]
            start = max(now, self.free_ns[group])
            took = self.takes(rank, node) if len(ranks) > 1 else 0
            self.free_ns[group] = start + took
            for each in ranks:
                self.ends(each, calls[group, each][number], start + took)
