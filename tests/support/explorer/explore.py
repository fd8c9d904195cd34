"""Walks through all states of a small network, breadth first.

A state is the numbers of the nodes' states, the packets in flight as a sorted list, the time, and
how many faults may still happen. From a state, each packet in flight may arrive next; any order of
arrivals is such a path, so links need not keep the order. If nothing is in flight, the clock goes
to the next deadline, and the hosts whose deadline it is run. A fault is one of

- a loss: a packet is not among those in flight that a reaction has sent. Losing it later would be
  the same, since what is lost meets nobody; but later it could not make time pass,
- a copy: a packet arrives and stays in flight. Which of two equal packets is the copy makes no
  difference,
- an early timer: the clock goes to a host's deadline while packets are in flight.

Equal states are explored once, whichever way led there. Nothing else is left out.

A state is final when all workers have finished. Every worker must then have compared every value,
and no value may be wrong anywhere. Every state must have a way to a final one without further
faults; since every path without faults ends (`LATEST_NS`), every order of what is in flight leads
there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from tests.support.experiments import setup_of
from tests.support.explorer.cases import Case
from tests.support.explorer.nodes import HostNode, Packets, SwitchNode
from tests.support.fabric import MS, NEVER, US, World
from tests.support.histories.history import frame_words
from tests.support.switches import start_switches

LATEST_NS = 200 * MS  # whoever has not finished by then, with timers of 2 ms, never will

# The losses and copies that are left, the early timers that are left, the time, the nodes' states,
# the packets in flight.
State = tuple[int, int, int, tuple[int, ...], tuple[int, ...]]


@dataclass
class Outcome:
    """Result of a walk. `failure`: the error, and the path to it; "" if there is none. `complete`:
    every state was visited."""

    states: int = 0
    transitions: int = 0
    depth: int = 0
    final: int = 0
    reactions: int = 0
    complete: bool = False
    failure: str = ""
    path: list[str] = field(default_factory=list)

    def told(self) -> str:
        return "\n".join([self.failure, *self.path])


class Network:
    """The nodes of a case, and how its states follow each other."""

    def __init__(self, case: Case) -> None:
        setup = setup_of(case.text())
        world = World(setup, start_switches(setup))
        self.packets = Packets()
        names = (*world.switches, *world.hosts)
        self.nodes: list[Any] = [
            (HostNode if name in world.hosts else SwitchNode)(world, name, self.packets)
            for name in names
        ]
        self.hosts = range(len(world.switches), len(names))
        self.workers = [n for n in self.hosts if self.nodes[n].host.is_worker]
        self.place = {node.name: number for number, node in enumerate(self.nodes)}
        self.to: list[int] = []  # the node that a packet goes to, by its number

    def begin(self, faults: int, early: int) -> Iterator[tuple[State, tuple[str, int]]]:
        first = [node.begin() for node in self.nodes]
        states = tuple(reaction.state for reaction in first)
        sent = tuple(packet for reaction in first for packet in reaction.sent)
        yield from self._sent(faults, early, 0, states, (), sent, ("begin", -1))

    def is_final(self, state: State) -> bool:
        return all(self.nodes[n].finished[state[3][n]] for n in self.workers)

    def wrong(self, state: State) -> str:
        """Error in a state; "" if there is none."""
        for number in self.hosts:
            text = self.nodes[number].wrong[state[3][number]]
            if text:
                return text
        return f"not finished at {state[2] / MS:g} ms" if state[2] > LATEST_NS else ""

    def following(self, state: State) -> Iterator[tuple[State, tuple[str, int]]]:
        """All that can happen next: (state, (what, packet or host))."""
        faults, early, now, nodes, flight = state
        before = -1
        for at, packet in enumerate(flight):
            if packet == before:
                continue
            before = packet
            place = self._to(packet)
            reaction = self.nodes[place].react(nodes[place], packet, now)
            after = (*nodes[:place], reaction.state, *nodes[place + 1 :])
            rest = flight[:at] + flight[at + 1 :]
            way = "arrives", packet
            yield from self._sent(faults, early, now, after, rest, reaction.sent, way)
            if faults:
                way = "arrives, and a copy will", packet
                yield from self._sent(faults - 1, early, now, after, flight, reaction.sent, way)
        deadlines = [(self.nodes[n].deadlines[nodes[n]], n) for n in self.hosts]
        if not flight:
            due = min(deadlines)[0]
            if due < NEVER:
                ready = [n for deadline, n in deadlines if deadline <= due]
                at_ns = max(due, now)
                yield from self._timers(faults, early, at_ns, nodes, flight, ready, "timer")
        elif early:
            for deadline, number in deadlines:
                if deadline < NEVER:
                    at_ns = max(deadline, now)
                    left, one = early - 1, [number]
                    yield from self._timers(faults, left, at_ns, nodes, flight, one, "early timer")

    def _timers(
        self,
        faults: int,
        early: int,
        now: int,
        nodes: tuple,
        flight: tuple,
        ready: list[int],
        way: str,
    ) -> Iterator[tuple[State, tuple[str, int]]]:
        after, sent = list(nodes), ()
        for number in ready:
            reaction = self.nodes[number].react(nodes[number], -1, now)
            after[number] = reaction.state
            sent += reaction.sent
        yield from self._sent(faults, early, now, tuple(after), flight, sent, (way, ready[0]))

    def _sent(
        self,
        faults: int,
        early: int,
        now: int,
        nodes: tuple,
        flight: tuple,
        sent: tuple,
        way: tuple[str, int],
    ) -> Iterator[tuple[State, tuple[str, int]]]:
        """With what a reaction has sent in flight, and with every loss that may be."""
        if not sent:
            yield (faults, early, now, nodes, flight), way
            return
        for lost in range(min(faults, len(sent)) + 1):
            kept = combinations(sorted(sent), len(sent) - lost)
            for some in sorted(set(kept)):
                name = way[0] + (f", {lost} lost of what is sent" if lost else "")
                after = faults - lost, early, now, nodes, tuple(sorted(flight + some))
                yield after, (name, way[1])

    def _to(self, packet: int) -> int:
        while len(self.to) <= packet:
            self.to.append(self.place[self.packets.all[len(self.to)].to])
        return self.to[packet]

    def words(self, state: State, way: tuple[str, int]) -> str:
        what, number = way
        if "timer" in what:
            return f"{state[2] / US:9.1f} us  {what} of {self.nodes[number].name}"
        if number < 0:
            return f"{state[2] / US:9.1f} us  {what}"
        packet = self.packets.all[number]
        text = f"{packet.sender} -> {packet.to} {frame_words(packet.frame)}"
        return f"{state[2] / US:9.1f} us  {text}: {what}"


def explore(case: Case, faults: int, early: int = 0, most: int = 1 << 62) -> Outcome:
    """All states of a case with up to `faults` losses and copies, and `early` early timers; at most
    `most` states."""
    network = Network(case)
    outcome = Outcome()
    numbers: dict[State, int] = {}
    states: list[State] = []
    parents: list[tuple[int, tuple[str, int]]] = []
    depths: list[int] = []
    calm: list[list[int]] = []  # by state: those that lead to it without a fault
    final: list[int] = []

    def visit(state: State, parent: int, way: tuple[str, int]) -> int:
        if state in numbers:
            return numbers[state]
        number = numbers[state] = len(states)
        states.append(state)
        parents.append((parent, way))
        depths.append(depths[parent] + 1 if parent >= 0 else 0)
        calm.append([])
        return number

    def fail(number: int, text: str) -> Outcome:
        outcome.failure = text
        at = number
        while at >= 0:
            parent, way = parents[at]
            outcome.path.insert(0, network.words(states[at], way))
            at = parent
        return finish()

    def finish() -> Outcome:
        outcome.states, outcome.final = len(states), len(final)
        outcome.depth = max(depths)
        outcome.reactions = sum(node.reactions for node in network.nodes)
        return outcome

    for state, way in network.begin(faults, early):
        visit(state, -1, way)
    at = 0
    while at < len(states) and at < most:
        state = states[at]
        wrong = network.wrong(state)
        if wrong:
            return fail(at, wrong)
        if network.is_final(state):
            final.append(at)
            at += 1
            continue
        stuck = True
        for after, way in network.following(state):
            outcome.transitions += 1
            number = visit(after, at, way)
            if after[:2] == state[:2]:
                calm[number].append(at)
                stuck = False
        if stuck:
            return fail(at, "nothing can happen any more, and not all workers have finished")
        at += 1
    outcome.complete = at >= len(states)
    if outcome.complete:
        lost = _without_way(calm, final)
        if lost is not None:
            return fail(lost, "no way to an end from here")
    return finish()


def _without_way(calm: list[list[int]], final: list[int]) -> int | None:
    """A state from which no final one can be reached without a fault; None if there is none."""
    reached = bytearray(len(calm))
    for number in final:
        reached[number] = 1
    open_ = list(final)
    while open_:
        for before in calm[open_.pop()]:
            if not reached[before]:
                reached[before] = 1
                open_.append(before)
    missing = reached.find(0)
    return None if missing < 0 else missing
