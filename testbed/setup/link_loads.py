"""Least bytes of an iteration on each link, and the time that they take.

A call's frames are whole; of a transfer the last one is as short as its values. In a call of F
packets among n ranks, of which each owns a part:

    sums in switches       each rank gives F and gets what it needs: F, or its part of a
                           reduce_scatter. A switch passes on one sum; a server gets F, gives F
    gathers in switches    each rank gives its part and gets the others
    parameter servers      the same, from and to each rank
    ring and the others    as the algorithm says (testbed/algorithms/bounds.py)

Fragments take turns among servers, or among an algorithm's chunks, by their numbers; which of
several trees has one depends on the order of slots, so each tree has its share. Sends and the parts
of an all_to_all, scatter and gather take the shortest path. With a plan (GRID), or sums that are
not pinned to a tree, only the links of hosts count, because the plan, or a hash, decides about the
others; where packets choose among equal paths, only links that all of these have. Retransmissions,
acknowledgements, requests and fragments that no switch adds up come on top. Where packets of zeros
are only headers (`zeros: header_only`), they count with their values all the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from math import lcm
from typing import NamedTuple

import numpy as np
from p4fabric.base.hops import links_between, links_of_all_paths, switch_of

from testbed.algorithms.by_name import USE_OF, USES, chunks_of
from testbed.algorithms.chunk import NOBODY, Group
from testbed.collective_kinds import COLLECTIVES
from testbed.routing.job_tree import JobTree
from testbed.setup.communicator import Communicator
from testbed.setup.job_setups import JobSetup, Platform, Setup
from testbed.traffic.rank_calls import Call, load_program, load_transfers
from testbed.traffic.rank_counts import kind_of_group

Way = tuple[int, int]  # a direction of a link: its index, and the end from which packets come
PAIRS = "pairs"  # of single ranks that send to each other


@dataclass
class Loads:
    """Bytes of an iteration by direction of a link and kind of group."""

    platform: Platform
    bytes: Counter[tuple[Way, str]] = field(default_factory=Counter)

    def least_ns(self, way: Way, size: int) -> int | None:
        """The least time for so many bytes; None without a limit."""
        link, end = way
        rate = self.platform.link(link)[end].bandwidth_bps
        return None if not rate else -(-8 * 10**9 * size // rate)

    def tiers(self) -> list[TierLoad]:
        """The busiest direction of each tier, for each kind of group and for all together."""
        sums: dict[tuple[str, str], Counter[Way]] = {}
        for (way, kind), size in self.bytes.items():
            tier = self.platform.topology.tiers[way[0]]
            for each in (kind, ""):
                sums.setdefault((tier, each), Counter())[way] += size
        order = [*dict.fromkeys(self.platform.topology.tiers)]
        ordered = sorted(sums, key=lambda key: (order.index(key[0]), not key[1], key[1]))
        return [self._busiest(*key, sums[key]) for key in ordered if any(sums[key].values())]

    def _busiest(self, tier: str, kind: str, sizes: Counter[Way]) -> TierLoad:
        def busy(way: Way) -> tuple[int, int, int]:
            return self.least_ns(way, sizes[way]) or 0, sizes[way], -way[0]

        way = max(sizes, key=busy)
        here, there = self.platform.topology.links[way[0]]
        if way[1]:
            here, there = there, here
        links = len({link for (link, _), size in sizes.items() if size})
        least = self.least_ns(way, sizes[way])
        return TierLoad(tier, kind, links, f"{here} to {there}", sizes[way], least)


@dataclass(frozen=True)
class TierLoad:
    """The busiest direction of a link in a tier. kind: of the groups whose bytes these are; "":
    all. links: how many links have any."""

    tier: str
    kind: str
    links: int
    way: str
    bytes: int
    least_ns: int | None


def loads_of(setup: Setup, number: int) -> Loads:
    """The bytes of an iteration of a job, which has hosts."""
    loads, job = Loads(setup.platform), setup.jobs[number]
    if not job.job.has_ranks:
        whole = Sizes(job.fragments * job.platform.values)
        _add_calls(loads, job.platform, job.group, Counter([whole]), "dp")
        return loads
    for group in setup.groups.values():
        if group.ranks is not None and group.ranks.job == number:
            kind = kind_of_group(group.ranks.calls.route)
            _add_calls(loads, group.platform, group.group, Counter(_calls_of(group)), kind)
    _add_transfers(loads, job)
    return loads


def call_ns(platform: Platform, group: Communicator, sizes: Sizes) -> int:
    """The least time of one call whose links are its own. platform: with the system that adds up
    for the group."""
    loads = Loads(platform)
    _add_calls(loads, platform, group, Counter([sizes]), "")
    times = (loads.least_ns(way, size) for (way, _), size in loads.bytes.items())
    return max((each for each in times if each is not None), default=0)


def transfer_ns(platform: Platform, source: str, target: str, size: int) -> int:
    """The least time of a transfer of so many bytes without frames, whose links are its own."""
    loads = Loads(platform)
    wire = _transfer_bytes(platform, max(1, -(-size // 4)))
    times = (loads.least_ns(way, wire) for way in _sure(platform, source, target))
    return max((each for each in times if each is not None), default=0)


class Sizes(NamedTuple):
    """Fields of a call that decide its bytes (rank_calls.Call). first: the number of its first
    fragment in an iteration, as far as it decides whose turn that is."""

    values: int
    share: int = 0
    share_at: int = 0
    from_one: bool = False
    from_others: bool = False
    collective: str = "all_reduce"
    first: int = 0
    wanted: tuple[int, ...] = ()  # with the owner, worker 0, all that take part; (): all do


def sizes_of(call: Call) -> Sizes:
    to_whom = call.from_one, call.from_others
    sizes = Sizes(call.values, call.share, call.share_at, *to_whom, call.node.kind)
    return sizes._replace(wanted=call.wanted)


def _calls_of(group: JobSetup) -> Iterator[Sizes]:
    """The calls of an iteration of a group of ranks. The first call is the last tensor of the
    group's workers, so the last one has fragment 0."""
    assert group.ranks is not None
    communicator, turns, first = group.group, len(group.group.servers) or 1, 0
    if communicator.algorithm:
        turns = lcm(*(_chunks(communicator.algorithm, use, communicator.ranks) for use in USES))
    for call in reversed(group.ranks.calls.calls):
        yield sizes_of(call)._replace(first=first % turns)
        first += -(-call.values // group.platform.values)


@lru_cache(maxsize=256)
def _chunks(algorithm: str, use: str, group: Group) -> int:
    """The number of chunks that carry calls of a use."""
    return len(chunks_of(algorithm, use, group))


def _turns(first: int, count: int, among: int) -> list[int]:
    """Of fragments from `first` on, those that each of so many has whose turns come."""
    return [len(range((turn - first) % among, count, among)) for turn in range(among)]


@dataclass(frozen=True)
class _Packets:
    """Packets of a call: all of them, and those that each rank owns, one rank's after the other's.
    from_one: the owner gives them to all; otherwise all give, or with from_others all but the
    owner, and the owner gets them, or all do (`own` is empty). first: number of the first
    fragment."""

    all: int
    own: tuple[int, ...]
    from_one: bool
    from_others: bool
    first: int

    def turns(self, rank: int, among: int) -> tuple[list[int], list[int]]:
        """(up, down) of one rank, by whose turn the packets are."""
        everything = _turns(self.first, self.all, among)
        if not self.own:
            return everything, everything
        begin = self.first + sum(self.own[:rank])
        own = _turns(begin, self.own[rank], among)
        others = [a - b for a, b in zip(everything, own, strict=True)]
        if not self.from_one:
            return others if self.from_others else everything, own
        return own, others

    def up(self, ranks: Sequence[int]) -> int:
        """Those that leave these ranks, added up."""
        if self.from_others:
            return self._of_others(ranks)
        return sum(self.own[rank] for rank in ranks) if self.from_one else self.all

    def down(self, ranks: Sequence[int]) -> int:
        """Those that any of these ranks needs."""
        if self.from_one:
            return self._of_others(ranks)
        return sum(self.own[rank] for rank in ranks) if self.own else self.all

    def _of_others(self, ranks: Sequence[int]) -> int:
        """Those that any of these ranks does not own."""
        return self.all - (self.own[ranks[0]] if len(ranks) == 1 else 0)


def _packets(platform: Platform, sizes: Sizes, ranks: int) -> _Packets:
    count = -(-sizes.values // platform.values)
    to_whom = sizes.from_one, sizes.from_others
    if not sizes.share:
        return _Packets(count, (), *to_whom, sizes.first)
    first, last = sizes.share_at, sizes.share_at + sizes.values
    held = (
        min((rank + 1) * sizes.share, last) - max(rank * sizes.share, first)
        for rank in range(ranks)
    )
    own = tuple(-(-max(0, each) // platform.values) for each in held)
    return _Packets(count, own, *to_whom, sizes.first)


def _own(platform: Platform, host: str) -> Way:
    """The direction from a host to its switch."""
    _, link, end = platform.topology.ports(host)[1]
    return link, end


def _sure(platform: Platform, source: str, target: str) -> list[Way]:
    """The links that carry every packet from a host to another one."""
    if platform.paths is not None and platform.paths.of_packets:
        return links_of_all_paths(platform.topology, source, target)
    return links_between(platform.topology, source, target)


def _back(way: Way) -> Way:
    return way[0], 1 - way[1]


def _add_calls(
    loads: Loads, platform: Platform, group: Communicator, calls: Counter[Sizes], kind: str
) -> None:
    """Add so many calls of each kind. platform: with the system that adds up for the group."""
    frame_bytes = platform.frame_bits // 8
    if group.algorithm and group.plan is None:
        for way, frames in _by_algorithm(platform, group, calls):
            loads.bytes[way, kind] += frames * frame_bytes
        return
    for sizes, times in calls.items():
        packets = _packets(platform, sizes, len(group.workers))
        counted: Counted
        if sizes.wanted:
            counted = (
                (way, count * share)
                for tree, share in group.shares
                for way, count in _of_tokens(platform, group, tree, sizes)
            )
        elif group.plan is not None or group.over is not None:
            counted = _on_own_links(platform, group, packets)
        elif group.shapes:
            counted = (
                (way, count * share)
                for tree, share in group.shares
                for way, count in _on_tree(platform, group, tree, packets)
            )
        else:
            counted = _with_servers(platform, group, packets)
        for way, count in counted:
            loads.bytes[way, kind] += int(count * times * frame_bytes)


Counted = Iterator[tuple[Way, int | Fraction]]  # packets of a call


def _on_tree(platform: Platform, group: Communicator, tree: JobTree, packets: _Packets) -> Counted:
    topology = platform.topology

    def leaves(node: str) -> Sequence[int]:
        return tree.below[node] if node in tree.below else (group.workers.index(node),)

    def given(node: str) -> int:
        """Packets that a node sends towards the root: one sum, unless it may only forward."""
        if node not in tree.forwarding:
            return packets.up(leaves(node))
        return sum(given(child) for _, child in tree.children[node])

    def needed(node: str) -> int:
        """Packets that a node gets: one of each, unless it may only forward. What a server gives is
        copied by all switches."""
        if node not in tree.forwarding or topology.is_host(tree.target):
            return packets.down(leaves(node))
        return sum(needed(child) for _, child in tree.children[node])

    for switch, children in tree.children.items():
        for port, child in children:
            _, link, end = topology.ports(switch)[port]
            yield (link, end), needed(child)
            yield (link, 1 - end), given(child)
    if topology.is_host(tree.target):
        own = _own(platform, tree.target)
        if not platform.delivers:  # else no worker waits for it
            yield _back(own), given(switch_of(topology, tree.target))
            yield own, packets.all


def _of_tokens(platform: Platform, group: Communicator, tree: JobTree, sizes: Sizes) -> Counted:
    """Packets between the owner and the members of a call, those with values."""
    topology = platform.topology
    count, owner = -(-sizes.values // platform.values), _own(platform, group.workers[0])
    down = count if sizes.from_one or not platform.omits_zeros else 0
    up = count if sizes.from_others or not platform.omits_zeros else 0
    yield owner, down
    yield _back(owner), up
    for switch, children in tree.children.items():
        for port, child in children:
            numbers = tree.below.get(child) or (group.workers.index(child),)
            if members := {*numbers} & {*sizes.wanted}:
                _, link, end = topology.ports(switch)[port]
                yield (link, end), down
                yield (link, 1 - end), up if child not in tree.forwarding else up * len(members)


def _on_own_links(platform: Platform, group: Communicator, packets: _Packets) -> Counted:
    for rank, worker in enumerate(group.workers):
        own = _own(platform, worker)
        yield own, packets.up((rank,))
        yield _back(own), packets.down((rank,))
    for server in group.servers:
        own = _own(platform, server)
        yield own, packets.all
        yield _back(own), packets.all


def _with_servers(platform: Platform, group: Communicator, packets: _Packets) -> Counted:
    for rank, worker in enumerate(group.workers):
        shares = packets.turns(rank, len(group.servers))
        for server, up, down in zip(group.servers, *shares, strict=True):
            yield from ((way, up) for way in _sure(platform, worker, server))
            yield from ((way, down) for way in _sure(platform, server, worker))


def _by_algorithm(
    platform: Platform, group: Communicator, calls: Counter[Sizes]
) -> Iterator[tuple[Way, int]]:
    """Packets of all calls together: of each chunk, and so from rank to rank."""
    found: dict[str, np.ndarray] = {}
    for sizes, times in calls.items():
        packets = _packets(platform, sizes, len(group.workers))
        chunks = _chunks(group.algorithm, USE_OF[sizes.collective], group.ranks)
        of_chunk = found.setdefault(sizes.collective, np.zeros(chunks, np.int64))
        owned = packets.own or (packets.all,)
        among = chunks // len(owned)
        firsts = accumulate(owned, initial=packets.first)
        for owner, (first, count) in enumerate(zip(firsts, owned, strict=False)):
            if count:
                turns = np.array(_turns(first, count, among), np.int64)
                of_chunk[owner * among : (owner + 1) * among] += times * turns
    size = len(group.workers)
    for collective, of_chunk in found.items():
        chunk, source, target = _edges(group.algorithm, collective, group.ranks)
        sums = np.bincount(source * size + target, of_chunk[chunk], size * size)
        for pair in np.flatnonzero(sums).tolist():
            hosts = group.workers[pair // size], group.workers[pair % size]
            yield from ((way, int(sums[pair])) for way in _sure(platform, *hosts))


@lru_cache(maxsize=32)
def _edges(
    algorithm: str, collective: str, group: Group
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(chunk, source, target) of each packet of a fragment, int64, of all chunks."""
    kind, chunks = COLLECTIVES[collective], chunks_of(algorithm, USE_OF[collective], group)
    found = []
    for goes, down in ((kind.sums, False), (kind.to_all, True)):
        if goes:
            others = np.array([each.down if down else each.up for each in chunks], np.int64)
            number, rank = np.nonzero(others != NOBODY)
            ends = rank, others[number, rank]
            found.append((number, *(ends[::-1] if down else ends)))
    number, source, target = (np.concatenate(each) for each in zip(*found, strict=True))
    return number, source, target


def _transfer_bytes(platform: Platform, words: int) -> int:
    """Bytes of the frames of a transfer, of which the last one has the values that are left."""
    headers = platform.longest_frame_bytes - 4 * platform.values
    return -(-words // platform.values) * headers + 4 * words


def _add_transfers(loads: Loads, job: JobSetup) -> None:
    """Sends, and the parts of collectives that travel as transfers."""
    platform, hosts = loads.platform, job.job.fixed_placement.workers
    moved, program = load_transfers(job.trace.ranks), load_program(job.trace.ranks)
    sizes: Counter[tuple[int, int, str]] = Counter()
    for source, target, place, values in zip(
        *(each.tolist() for each in (moved.source, moved.target, moved.sends, moved.values)),
        strict=True,
    ):
        if source != target:
            node = program.ranks[source][place]
            kind = kind_of_group(node.route) if node.group else PAIRS
            sizes[source, target, kind] += _transfer_bytes(platform, values)
    for (source, target, kind), size in sizes.items():
        for way in _sure(platform, hosts[source], hosts[target]):
            loads.bytes[way, kind] += size
