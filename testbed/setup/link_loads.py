"""Least bytes of an iteration on each link, and the time that they take.

Bytes are those of whole frames. In a call of F packets among n ranks, of which each owns a part:

    sums in switches       each rank gives F and gets what it needs: F, or its part of a
                           reduce_scatter. A switch passes on one sum; a server gets F, gives F
    gathers in switches    each rank gives its part and gets the others
    parameter servers      the same, from and to each rank
    ring and the others    as the algorithm says (testbed/algorithms/bounds.py)

Sends and the parts of an all_to_all, scatter and gather take the shortest path. With a plan (GRID)
only the links of hosts count, because the plan decides about the others. Retransmissions,
acknowledgements, requests and fragments that no switch adds up come on top. Where packets of zeros
are only headers (`zeros: header_only`), they count with their values all the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

from testbed.algorithms.bounds import cost
from testbed.routing.tree import JobTree, links_between, switch_of
from testbed.setup.communicator import Communicator
from testbed.setup.records import JobSetup, Platform, Setup
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
        _add_call(loads, job.group, Sizes(job.fragments * setup.platform.values), "dp")
        return loads
    for group in setup.groups.values():
        if group.ranks is not None and group.ranks.job == number:
            kind = kind_of_group(group.ranks.calls.route)
            for sizes, times in Counter(map(sizes_of, group.ranks.calls.calls)).items():
                _add_call(loads, group.group, sizes, kind, times)
    _add_transfers(loads, job)
    return loads


def call_ns(platform: Platform, group: Communicator, sizes: Sizes) -> int:
    """The least time of one call whose links are its own."""
    loads = Loads(platform)
    _add_call(loads, group, sizes, "")
    times = (loads.least_ns(way, size) for (way, _), size in loads.bytes.items())
    return max((each for each in times if each is not None), default=0)


def transfer_ns(platform: Platform, source: str, target: str, size: int) -> int:
    """The least time of a transfer of so many bytes without frames, whose links are its own."""
    loads = Loads(platform)
    wire = -(-size // (4 * platform.values)) * platform.longest_frame_bytes
    times = (loads.least_ns(way, wire) for way in links_between(platform.topology, source, target))
    return max((each for each in times if each is not None), default=0)


class Sizes(NamedTuple):
    """Fields of a call that decide its bytes (rank_calls.Call)."""

    values: int
    share: int = 0
    share_at: int = 0
    from_one: bool = False
    collective: str = "all_reduce"


def sizes_of(call: Call) -> Sizes:
    return Sizes(call.values, call.share, call.share_at, call.from_one, call.node.kind)


@dataclass(frozen=True)
class _Packets:
    """Packets of a call: all of them, and those that each rank owns. from_one: the owner gives them
    to all; otherwise all give, and the owner gets them, or all do (`own` is empty)."""

    all: int
    own: tuple[int, ...]
    from_one: bool

    def up(self, ranks: Sequence[int]) -> int:
        """Those that leave these ranks, added up."""
        return sum(self.own[rank] for rank in ranks) if self.from_one else self.all

    def down(self, ranks: Sequence[int]) -> int:
        """Those that any of these ranks needs."""
        if self.from_one:
            return self.all - (self.own[ranks[0]] if len(ranks) == 1 else 0)
        return sum(self.own[rank] for rank in ranks) if self.own else self.all


def _packets(platform: Platform, sizes: Sizes, ranks: int) -> _Packets:
    count = -(-sizes.values // platform.values)
    if not sizes.share:
        return _Packets(count, (), sizes.from_one)
    first, last = sizes.share_at, sizes.share_at + sizes.values
    held = (
        min((rank + 1) * sizes.share, last) - max(rank * sizes.share, first)
        for rank in range(ranks)
    )
    own = tuple(-(-max(0, each) // platform.values) for each in held)
    return _Packets(count, own, sizes.from_one)


def _own(platform: Platform, host: str) -> Way:
    """The direction from a host to its switch."""
    _, link, end = platform.topology.ports(host)[1]
    return link, end


def _back(way: Way) -> Way:
    return way[0], 1 - way[1]


def _add_call(loads: Loads, group: Communicator, sizes: Sizes, kind: str, times: int = 1) -> None:
    platform = loads.platform
    size = times * platform.frame_bits // 8
    packets = _packets(platform, sizes, len(group.workers))
    if group.plan is not None:
        counted = _with_plan(platform, group, packets)
    elif group.shapes:
        counted = (
            (way, count * share)
            for tree, share in group.shares
            for way, count in _on_tree(platform, group, tree, packets)
        )
    elif group.servers:
        counted = _with_servers(platform, group, packets)
    else:
        counted = _by_algorithm(platform, group, packets, sizes.collective)
    for way, count in counted:
        loads.bytes[way, kind] += int(count * size)


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


def _with_plan(platform: Platform, group: Communicator, packets: _Packets) -> Counted:
    for rank, worker in enumerate(group.workers):
        own = _own(platform, worker)
        yield own, packets.up((rank,))
        yield _back(own), packets.down((rank,))
    for server in group.servers:
        own = _own(platform, server)
        yield own, packets.all
        yield _back(own), packets.all


def _with_servers(platform: Platform, group: Communicator, packets: _Packets) -> Counted:
    servers = group.servers
    for rank, worker in enumerate(group.workers):
        for server in servers:
            up = Fraction(packets.up((rank,)), len(servers))
            down = Fraction(packets.down((rank,)), len(servers))
            yield from ((way, up) for way in links_between(platform.topology, worker, server))
            yield from ((way, down) for way in links_between(platform.topology, server, worker))


def _by_algorithm(
    platform: Platform, group: Communicator, packets: _Packets, collective: str
) -> Counted:
    root = packets.own.index(packets.all) if packets.all in packets.own else 0
    shares = cost(group.algorithm, collective, group.ranks, root).shares
    for (source, target), share in shares.items():
        for way in links_between(platform.topology, group.workers[source], group.workers[target]):
            yield way, packets.all * share


def _add_transfers(loads: Loads, job: JobSetup) -> None:
    """Sends, and the parts of collectives that travel as transfers."""
    platform, hosts = loads.platform, job.job.fixed_placement.workers
    moved, program = load_transfers(job.trace.ranks), load_program(job.trace.ranks)
    packets: Counter[tuple[int, int, str]] = Counter()
    for source, target, place, values in zip(
        *(each.tolist() for each in (moved.source, moved.target, moved.sends, moved.values)),
        strict=True,
    ):
        if source != target:
            node = program.ranks[source][place]
            kind = kind_of_group(node.route) if node.group else PAIRS
            packets[source, target, kind] += -(-values // platform.values)
    for (source, target, kind), count in packets.items():
        for way in links_between(platform.topology, hosts[source], hosts[target]):
            loads.bytes[way, kind] += count * platform.longest_frame_bytes
