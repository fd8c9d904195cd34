"""Equal paths in a switch's tables (p4/paths.p4).

A group is a list of paths, of which a packet takes one; its entries in table `path` have a port
each. Destinations with the same paths share a group, and a job whose sums are not pinned to a tree
has a group of its own. A path of weight w is w times in its group, so that hashes need no weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import gcd
from typing import TYPE_CHECKING

from p4fabric.base.hops import equal_hops, switch_of

from testbed.dataplane.table_calls import (
    TO_SERVER,
    TO_WORKERS,
    addresses,
    copy_to,
    send_up,
)
from testbed.experiment.schema_network import ECMP, FLOWLET, PINNED, SPRAY
from testbed.routing.sum_paths import SumPaths
from testbed.traffic.draws import Stream

if TYPE_CHECKING:
    from p4fabric.base.topology import Topology

    from testbed.setup.job_setups import JobSetup, Platform

Hop = tuple[int, str]  # port and next node
CHOICES = {ECMP: 1, FLOWLET: 2, SPRAY: 3}  # p4/paths.p4
BY_PACKET, BY_FRAGMENT = 1, 2
SEEDS = 0x9A7B  # distinguishes the streams of switches' seeds from others of the same seed
JOBS = 1 << 16  # groups of jobs have numbers from here on
MOST_PLACES = 32  # of a group with weights


def definitions(platform: Platform) -> dict[str, int]:
    """Preprocessor symbols of the P4 program: none where packets and sums have one path."""
    paths = platform.paths
    if paths is None or not paths.of_packets and paths.sums == PINNED:
        return {}
    return {"PATHS": CHOICES.get(paths.choice, CHOICES[ECMP])}


def install_choice(platform: Platform, switch: str, calls: list[tuple]) -> None:
    """The seed of a switch, and the gap of its flowlets."""
    paths = platform.paths
    if paths is None or not definitions(platform):
        return
    seed = Stream(paths.seed or 0, SEEDS, platform.topology.number(switch)).below(1 << 32)
    gap = -(-paths.gap_ns // platform.timestamp_unit_ns)
    calls.append(("table_set_default", "path_choice", "set_choice", [seed, gap]))


class Groups:
    """The groups of a switch's routes, whose entries go to `calls`."""

    def __init__(self, platform: Platform, switch: str, calls: list[tuple]) -> None:
        self._platform, self._switch, self._calls = platform, switch, calls
        self._numbers: dict[tuple[Hop, ...], int] = {}

    def route(self, target: str) -> tuple[str, list] | None:
        """Action and parameters of a route with several paths; None: there is one."""
        hops = weighted(self._platform, self._switch, target)
        if len(set(hops)) < 2:
            return None
        if hops not in self._numbers:
            number = self._numbers[hops] = len(self._numbers) + 1
            add_paths(self._platform.topology, number, hops, self._calls)
        return "spread", [self._numbers[hops], len(hops)]


def add_paths(topology: Topology, group: int, hops: Sequence[Hop], calls: list[tuple]) -> None:
    """The paths of a group."""
    for way, (port, following) in enumerate(hops):
        mac, _ = addresses(topology, following)
        calls.append(("table_add", "path", "forward", [group, way], [port, mac]))


def weighted(platform: Platform, switch: str, target: str) -> tuple[Hop, ...]:
    """The equal hops from a switch to a node, each as often as its weight says."""
    topology = platform.topology
    hops = equal_hops(topology, switch, target)
    if platform.paths is None or platform.paths.weights == "equal" or len(hops) < 2:
        return hops
    last = switch_of(topology, target) if topology.is_host(target) else target
    rates = [_carried(platform, switch, last, hop) for hop in hops]
    if None in rates:
        return hops
    known = [rate for rate in rates if rate is not None]
    divisor = max(reduce(gcd, known), -(-sum(known) // MOST_PLACES))
    return tuple(
        hop
        for hop, rate in zip(hops, known, strict=True)
        for _ in range(max(1, round(rate / divisor)))
    )


def _carried(platform: Platform, switch: str, target: str, hop: Hop) -> int | None:
    """The rate in bit/s that the paths over a hop to a switch carry together; None: unlimited."""
    port, following = hop
    _, link, end = platform.topology.ports(switch)[port]
    rate = platform.link(link)[end].bandwidth_bps
    if following == target:
        return rate
    beyond = equal_hops(platform.topology, following, target)
    further = [_carried(platform, following, target, each) for each in beyond]
    if None in further:
        return rate
    total = sum(each for each in further if each is not None)
    return total if rate is None else min(rate, total)


def job_over(
    platform: Platform, switch: str, job: JobSetup, over: SumPaths, calls: list[tuple]
) -> None:
    """The entries of a job whose sums are not pinned to a tree: where they go on from a switch, and
    which way results go back."""
    topology, number, server = platform.topology, job.group.number, job.group.ps
    if switch in over.aggregating:
        hops = over.up[switch]
        if not over.by_fragment:
            hops = weighted(platform, switch, server)
        if len(set(hops)) == 1:
            send_up(topology, number, hops[0], server, calls)
        else:
            add_paths(topology, JOBS + number, hops, calls)
            by = BY_FRAGMENT if over.by_fragment else BY_PACKET
            _, ip = addresses(topology, server)
            parameters = [JOBS + number, len(hops), by, ip]
            keys = [number, TO_SERVER]
            calls.append(("table_add", "job_route", "to_server_over", keys, parameters))
    found = [tree for tree in over.trees if switch in tree.children]
    if len({tree.children[switch] for tree in found}) == 1:
        copy_to(platform, switch, job, found[0].children[switch], over.below, calls)
    elif found:
        first = 0  # multicast group of the first tree, from which the others' follow
        for way, tree in enumerate(over.trees):
            if tree in found:
                back = tree.children[switch]
                group = copy_to(
                    platform, switch, job, back, over.below, calls, tree=way, entry=False
                )
                first = group - way * platform.numbers
        parameters = [first, len(over.trees), platform.numbers]
        keys = [number, TO_WORKERS]
        calls.append(("table_add", "job_route", "to_workers_over", keys, parameters))
