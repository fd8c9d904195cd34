"""The aggregation manager of system `tree`: which static reduction trees a job gets, and which
slots of each switch's memory are theirs.

The manager knows the whole network and works before a run, and again when links have failed, and
when a job starts after others may have ended (testbed/setup/late_trees.py). It takes one job after
the other, in the order in which they start. A tree is the shortest paths from a communicator's
workers to its root, one of the switches that are nearest to all of them; on the way every switch
adds up. Of several roots it takes those whose trees share the fewest links with the trees that
there are, so that the load is spread over spines.

Memory is given out in one of two ways, as SHARP does it:

- *exclusive*: a switch is divided into `holders` equal parts, and a part belongs to one job for the
  job's life. All trees of the job that pass the switch share it. A job gets its trees if every
  switch of them has a part left.
- by *quota*: a communicator has as many slots as it wants at each switch of its trees, as long as
  there are enough; or, without a number, all trees that pass a switch share it equally, as far as
  those that there were before leave room.

A tree has equally many slots at all of its switches, since a slot is a place in the workers'
window. Who gets no tree is refused, with the reason; a host algorithm then carries it.

When a link fails that a tree uses, the tree gets another shape (`planned_again`). It keeps its
number of slots. Where a switch of the new shape has no room, the switch only forwards. Since the
tree's slots at its workers' own switches are there, there is always a shape, as long as the workers
can reach each other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from p4fabric.base.errors import UserError
from p4fabric.base.topology import Topology

from testbed.protocols.sizes import Part
from testbed.routing.job_tree import JobTree, job_tree, roots

T = TypeVar("T")
MOST_BY_ITSELF = 4  # trees of a communicator, if the experiment gives no number


@dataclass(frozen=True)
class Terms:
    """Terms of giving out memory. Counts are of slots, at each switch."""

    slots: int  # that there are
    exclusive: bool
    holders: int = 1  # jobs that may have a part of a switch at a time, if it is exclusive
    trees: int = 0  # of a communicator; 0: as many as are useful
    quota: int = 0  # of a communicator, if it is not exclusive; 0: equal shares
    window: int = 0  # most that a communicator can use; 0: any number

    @property
    def equal_shares(self) -> bool:
        """True if all trees that pass a switch share it equally."""
        return not self.exclusive and not self.quota

    @property
    def part(self) -> int:
        """Slots of a part that one job has."""
        return self.slots // self.holders


@dataclass(frozen=True)
class Applicant:
    """A job that wants trees for its communicators, by their numbers: the workers of each. `later`:
    numbers of communicators of some of its workers that it may make while it runs."""

    job: int
    name: str
    members: Mapping[int, tuple[str, ...]]
    later: tuple[int, ...] = ()

    @property
    def all_members(self) -> list[tuple[int, tuple[str, ...]]]:
        """All communicators, the later ones as if all workers of the first one were theirs."""
        first = next(iter(self.members.values()))
        return [*self.members.items(), *((number, first) for number in self.later)]


@dataclass(frozen=True, eq=False)
class Tree:
    """A tree of a communicator: its number in packets, its shape, and its slots: equally many at
    each switch that adds up, from `bases` on."""

    number: int
    shape: JobTree
    slots: int
    bases: Mapping[str, int]

    def part(self, switch: str) -> Part | None:
        """Its slots at a switch."""
        return Part(self.bases[switch], self.slots) if switch in self.bases else None


@dataclass(frozen=True, eq=False)
class Forest:
    """Trees of communicators, by their numbers, and why a job has none."""

    trees: Mapping[int, tuple[Tree, ...]] = field(default_factory=dict)
    refused: Mapping[int, str] = field(default_factory=dict)
    owners: Mapping[int, int] = field(default_factory=dict)  # the job of each communicator
    workers: Mapping[int, tuple[str, ...]] = field(default_factory=dict)  # of each communicator
    names: Mapping[int, str] = field(default_factory=dict)  # of jobs


def plan(
    topology: Topology,
    applicants: Sequence[Applicant],
    terms: Terms,
    before: Forest | None = None,
) -> Forest:
    """Trees for jobs, which are served in this order, beside those that there are before them."""
    before = before or Forest()
    refused = dict(before.refused)
    while True:
        manager = _Manager(topology, terms, before)
        for each in applicants:
            if each.job not in refused and (why := manager.grow(each)):
                refused[each.job] = why
        found, lacking = manager.trees()
        if lacking is not None:
            job, why = lacking
            refused[job] = why
            continue
        served = [each for each in applicants if each.job not in refused]
        members = [(each, *member) for each in served for member in each.all_members]
        return Forest(
            {**before.trees, **found},
            refused,
            {**before.owners} | {number: each.job for each, number, _ in members},
            {**before.workers} | {number: workers for _, number, workers in members},
            {**before.names} | {each.job: each.name for each in served},
        )


def without(forest: Forest, job: int) -> Forest:
    """The forest when a job has ended."""

    def left(of: Mapping[int, T]) -> dict[int, T]:
        return {number: each for number, each in of.items() if forest.owners.get(number) != job}

    refused = {number: why for number, why in forest.refused.items() if number != job}
    owners, workers = left(forest.owners), left(forest.workers)
    return replace(
        forest, trees=left(forest.trees), refused=refused, owners=owners, workers=workers
    )


class _Manager:
    """Gives out trees, job by job; slots are counted when all have theirs."""

    def __init__(self, topology: Topology, terms: Terms, before: Forest) -> None:
        self._topology = topology
        self._terms = terms
        self._load: Counter[tuple[str, int]] = Counter()  # trees by switch and port
        self._names = dict(before.names)
        self._holders: dict[str, list[int]] = {}  # jobs by switch
        self._wanted: Counter[str] = Counter()  # slots that quotas have taken
        self._others: Counter[tuple[str, int]] = Counter()  # trees that share with all
        self._shapes: dict[int, list[JobTree]] = {}
        self._owners: dict[int, int] = {}
        self._memory = _Memory(terms)
        for number, trees in before.trees.items():
            for tree in trees:
                self._memory.take(before.owners[number], tree)
                self._plant(before.owners[number], tree.shape)
                self._wanted.update(dict.fromkeys(tree.bases, tree.slots))
                self._others.update((switch, 0) for switch in tree.bases)

    def grow(self, applicant: Applicant) -> str:
        """Choose the shapes of a job's trees. Why it gets none; ""."""
        terms, job = self._terms, applicant.job
        blocked = {
            switch: holders
            for switch, holders in self._holders.items()
            if terms.exclusive and len(holders) >= terms.holders
        }
        shapes: dict[int, list[JobTree]] = {}
        for number, workers in applicant.members.items():
            found = self._choose(workers, blocked)
            if isinstance(found, str):
                return found
            shapes[number] = found
        for number in applicant.later:  # wherever its workers are, it adds up at the job's switches
            shapes[number] = next(iter(shapes.values()))[:1]
        if terms.quota and not terms.exclusive:
            wanted = Counter(
                switch
                for found in shapes.values()
                for shape in found
                for switch in shape.switches
                for _ in range(-(-terms.quota // len(found)))
            )
            for switch, count in wanted.items():
                left = terms.slots - self._wanted[switch]
                if count > left:
                    return f"{switch} has {left} slots left, and its quota is {count}"
            self._wanted += wanted
        self._names[job] = applicant.name
        for number, found in shapes.items():
            self._shapes[number], self._owners[number] = found, job
            for shape in found:
                self._plant(job, shape)
        return ""

    def _plant(self, job: int, shape: JobTree) -> None:
        """Count a tree of a job."""
        self._load.update(_ports(shape))
        for switch in shape.switches:
            holders = self._holders.setdefault(switch, [])
            if job not in holders:
                holders.append(job)

    def _choose(
        self, workers: tuple[str, ...], blocked: Mapping[str, Sequence[int]]
    ) -> list[JobTree] | str:
        why = ""
        for level in roots(self._topology, workers):
            shapes = []
            for root in level:
                shape = job_tree(self._topology, workers, root)
                taken = next((each for each in shape.switches if each in blocked), None)
                if taken is None:
                    shapes.append(shape)
                elif not why:
                    names = [self._names[job] for job in blocked[taken]]
                    why = f"{taken} is held by {' and '.join(names)}"
            if shapes:
                return self._least_loaded(shapes)
        return why

    def _least_loaded(self, shapes: list[JobTree]) -> list[JobTree]:
        count = self._terms.trees or (1 if self._terms.exclusive else MOST_BY_ITSELF)
        load, left = self._load.copy(), list(enumerate(shapes))
        found: list[JobTree] = []
        while left and len(found) < count:

            def busy(which: tuple[int, JobTree]) -> tuple[int, int, int]:
                place, shape = which
                loads = [load[port] for port in _ports(shape)]
                return max(loads, default=0), sum(loads), place

            best = min(left, key=busy)
            left.remove(best)
            found.append(best[1])
            load.update(_ports(best[1]))
        return found

    def trees(self) -> tuple[dict[int, tuple[Tree, ...]], tuple[int, str] | None]:
        """All new trees with their slots; else a job for which there are not enough, and why."""
        terms = self._terms
        own: Counter[tuple[str, int]] = Counter()  # trees by switch and the job that shares it
        for number, shapes in self._shapes.items():
            sharer = self._owners[number] if terms.exclusive else 0
            own.update((switch, sharer) for each in shapes for switch in each.switches)
        passing, room = own, {}
        if terms.equal_shares:  # and those from before keep what they have
            passing = own + self._others
            room = {switch: self._memory.gap(switch) // n for (switch, _), n in own.items()}
        found: dict[int, tuple[Tree, ...]] = {}
        for number, shapes in self._shapes.items():
            job = self._owners[number]
            sharer = job if terms.exclusive else 0
            made = []
            for place, shape in enumerate(shapes):
                shares = {
                    switch: min(terms.part // passing[switch, sharer], room.get(switch, terms.part))
                    for switch in shape.switches
                }
                if terms.quota and not terms.exclusive:
                    shares = dict.fromkeys(shares, -(-terms.quota // len(shapes)))
                if terms.window:
                    shares[""] = -(-terms.window // len(shapes))
                slots = min(shares.values())
                if slots < 1:
                    tight = min(shares, key=lambda switch: shares[switch])
                    return {}, (
                        max({*self._holders[tight]} & {*self._owners.values()}),
                        f"{tight} has fewer slots ({terms.part}) than trees",
                    )
                bases = {}
                for switch in shape.switches:
                    base = self._memory.room(job, switch, slots)
                    assert base is not None, "they have been counted"
                    bases[switch] = base
                made.append(Tree(place, shape, slots, bases))
                self._memory.take(job, made[-1])
            found[number] = tuple(made)
        return found, None


def _ports(shape: JobTree) -> list[tuple[str, int]]:
    """(switch, port) of a tree's links between switches, in both directions."""
    ports = [(switch, port) for switch, (port, _) in shape.parent.items()]
    for switch, children in shape.children.items():
        ports += [(switch, port) for port, child in children if child in shape.below]
    return ports


def narrowed(topology: Topology, tree: Tree, workers: tuple[str, ...]) -> Tree:
    """The tree of a communicator with some workers of another one, in that one's memory."""
    others = set(topology.switches) - set(tree.bases)
    inside = topology.only_forwarding(others)
    root = roots(inside, workers)[0][0]
    shape = job_tree(inside, workers, root)
    return replace(tree, shape=shape, bases={each: tree.bases[each] for each in shape.switches})


# ---- after failures ----


def planned_again(
    topology: Topology, forest: Forest, going_on: Collection[int], terms: Terms
) -> Forest:
    """The forest after a change of links, with trees of other shapes where one uses a link that is
    down. A tree that has changed has another number. going_on: the jobs that do."""
    found = dict(forest.trees)
    memory = _Memory(terms)
    live = [number for number, job in forest.owners.items() if job in going_on]
    for number in live:
        for tree in found[number]:
            memory.take(forest.owners[number], tree)
    for number in live:
        trees = list(found[number])
        for place, tree in enumerate(trees):
            if not _stands(topology, tree.shape):
                job = forest.owners[number]
                memory.give_back(job, tree)
                workers = forest.workers[number]
                trees[place] = _other(topology, tree, workers, memory, job, len(trees))
                memory.take(job, trees[place])
        found[number] = tuple(trees)
    return replace(forest, trees=found)


def _stands(topology: Topology, shape: JobTree) -> bool:
    """True if all of a tree's links between switches are up."""
    return all(port in topology.ports(switch) for switch, port in _ports(shape))


class _Memory:
    """The slots of all switches, and who has which."""

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self._taken: dict[str, list[tuple[int, int, int]]] = {}  # (base, slots, job) by switch

    def take(self, job: int, tree: Tree) -> None:
        for switch, base in tree.bases.items():
            self._taken.setdefault(switch, []).append((base, tree.slots, job))

    def give_back(self, job: int, tree: Tree) -> None:
        for switch, base in tree.bases.items():
            self._taken[switch].remove((base, tree.slots, job))

    def room(self, job: int, switch: str, slots: int) -> int | None:
        """The first of so many free slots that a job may have at a switch; None: there are none."""
        taken = sorted(self._taken.get(switch, ()))
        for first, last in self._areas(job, taken):
            for base, count, _ in taken:
                if first <= base < last:
                    if base - first >= slots:
                        break
                    first = base + count
            if last - first >= slots:
                return first
        return None

    def gap(self, switch: str) -> int:
        """The most free slots of a switch that lie side by side, whoever may have them."""
        first = most = 0
        for base, count, _ in [*sorted(self._taken.get(switch, ())), (self._terms.slots, 0, 0)]:
            most, first = max(most, base - first), max(first, base + count)
        return most

    def _areas(self, job: int, taken: Sequence[tuple[int, int, int]]) -> list[tuple[int, int]]:
        terms = self._terms
        if not terms.exclusive:
            return [(0, terms.slots)]
        part = terms.part
        holders = {base // part: holder for base, _, holder in taken}
        own = [place for place, holder in holders.items() if holder == job]
        free = [place for place in range(terms.holders) if place not in holders]
        return [(place * part, (place + 1) * part) for place in own or free[:1]]


def _other(
    topology: Topology,
    tree: Tree,
    workers: tuple[str, ...],
    memory: _Memory,
    job: int,
    trees: int,
) -> Tree:
    """Another shape for a tree, with as many slots: one whose switches all have room, or one with
    the fewest that only forward. The same tree if its workers cannot reach each other."""
    try:
        levels = roots(topology, workers)
    except UserError:
        return tree
    room = {
        switch: base
        for switch in topology.switches
        if switch not in topology.forwarding
        if (base := memory.room(job, switch, tree.slots)) is not None
    }
    found: list[tuple[int, JobTree]] = []
    for root in (switch for level in levels for switch in level if switch in room):
        shape = job_tree(topology, workers, root)
        without = {switch for switch in shape.switches if switch not in room}
        if without:
            inside = topology.only_forwarding(topology.forwarding | without)
            shape = job_tree(inside, workers, root)
        found.append((len(without), shape))
        if not without:
            break
    if not found:
        return tree
    _, shape = min(found, key=lambda each: each[0])
    bases = {switch: room[switch] for switch in shape.switches}
    return Tree(tree.number + trees, shape, tree.slots, bases)
