"""Costs of a communicator's calls beside their packets, by the experiment's cost profile.

The profile has NCCL's numbers by algorithm and protocol; here they become what hosts are told. A
call begins later by its launch. Where hosts add up, each packet of each step waits at the host that
it comes to, so that the time of a call follows from the ways of its packets. Sums in switches and
servers have no steps of hosts in between; theirs are part of the launch. Shares of a link's rate
are the sender's pace. docs/costs.md has the whole list.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache

from p4fabric.base.config.units import RATE, show
from p4fabric.base.errors import UserError
from p4fabric.base.topology import Topology

from testbed.algorithms.bounds import cost, longest_way
from testbed.costs.profile import AUTO, Costs, NicCosts, ProtocolCosts
from testbed.experiment import Experiment, LinkDirection
from testbed.protocols.host_spec import CallCosts
from testbed.protocols.sizes import frame_bits
from testbed.setup.communicator import Communicator
from testbed.setup.job_setups import JobSetup, Platform
from testbed.setup.timing import slowest_rate, uplink_rate

CHAINS = ("ring", "hierarchical")  # algorithms with the costs of rings; others have those of trees
SCALE_UP = "scale_up"  # the tier of links inside a machine
WHOLE_PACE = 65_536
SECOND = 10**9


@dataclass(frozen=True)
class Times:
    """Costs of a call in ns. call: until its first packet; latency: all of it, with its steps.
    protocol: NCCL's, "" if the profile has none."""

    protocol: str
    costs: ProtocolCosts
    call_ns: int
    latency_ns: int


@dataclass(frozen=True, eq=False)
class GroupCosts:
    """Costs of one communicator."""

    platform: Platform
    group: Communicator
    costs: Costs

    @cached_property
    def algorithm(self) -> str:
        """The costs that its calls have: a key of `algorithms`."""
        group, topology = self.group, self.group.topology
        if group.algorithm:
            return "ring" if group.algorithm in CHAINS else "tree"
        if not self.platform.system.memory:
            return "server"
        uplinks = {_tier(topology, host) for host in group.workers}
        return "nvls" if self._machines == 1 or uplinks == {SCALE_UP} else "collnet"

    @property
    def _machines(self) -> int:
        return len(self.group.ranks.by_server)

    def times(self, collective: str, size: int) -> Times:
        """Costs of a call of `size` bytes of all ranks' parts together: with the profile's
        protocol, or the one with the least time in the alpha-beta model. Raises UserError if its
        algorithm does not have that."""
        known = getattr(self.costs.algorithms, self.algorithm).by_protocol()
        wanted = self.costs.protocol
        if not known:
            return self._times("", ProtocolCosts(), collective)
        if wanted == AUTO:
            found = [self._times(name, each, collective) for name, each in known.items()]
            return min(found, key=lambda each: self._model_ns(each, collective, size))
        if wanted not in known:
            names = ", ".join((*known, AUTO))
            raise UserError(
                f"costs.protocol: found {wanted}; allowed with profile {self.costs.name}, in which"
                f" calls of system {self.platform.system.name} are {self.algorithm}: {names}"
            )
        return self._times(wanted, known[wanted], collective)

    def _times(self, protocol: str, costs: ProtocolCosts, collective: str) -> Times:
        copies_ns = 2 * self.costs.gpu_copy.latency_ns
        first_ns = costs.call_ns + copies_ns
        group = self.group
        if group.algorithm:
            inside, between = costs.inside_ns, costs.between_ns
            steps_ns = longest_way(group.algorithm, collective, group.ranks, inside, between)
            return Times(protocol, costs, first_ns, first_ns + steps_ns)
        ranks = max(map(len, group.ranks.by_server))
        outside_ns = costs.between_ns if self._machines > 1 else 0
        if self.algorithm == "nvls":
            steps_ns = costs.inside_ns + outside_ns
        elif self.algorithm == "collnet":
            each_way_ns = costs.inside_ns * (ranks > 1) + (ranks - 1) * costs.per_rank_ns
            steps_ns = 2 * each_way_ns + outside_ns
        else:
            server_of = group.topology.server_of
            homes = {server_of(each) for each in group.hosts}
            steps_ns = 2 * costs.step_ns(len(homes) < 2)
        return Times(protocol, costs, first_ns + steps_ns, first_ns + steps_ns)

    def _model_ns(self, times: Times, collective: str, size: int) -> Fraction:
        rate = slowest_rate(self.platform, self.group) * times.costs.share
        return times.latency_ns + 8 * size * SECOND * self._share(collective) / rate

    def _share(self, collective: str) -> Fraction:
        """Share of a call's bytes on the busiest link of a host."""
        group = self.group
        if group.algorithm:
            found = cost(group.algorithm, collective, group.ranks)
            return max(max(found.sent(r), found.received(r)) for r in range(group.ranks.size))
        if self.algorithm == "server":
            return Fraction(len(group.workers), len(group.servers))
        return Fraction(1)

    def rate_bps(self, host: str) -> int:
        """Rate at which a worker sends, in bit/s; 0: unlimited. Where hosts add up, shares of it
        are of calls (`CallCosts.paces`). Raises UserError for a system that has rates of its
        own."""
        link_bps = uplink_rate(self.platform, host)
        limits = [link_bps, self.costs.gpu_copy.bandwidth_bps or 0]
        if not self.group.algorithm:
            share = self.times("all_reduce", 0).costs.share
            limits = [int(link_bps * share), limits[1], self._recirculated_bps()]
        rate_bps = min((each for each in limits if each), default=0)
        if self.platform.system.planned and rate_bps != link_bps:
            raise UserError(
                f"costs: profile {self.costs.name} lets workers send at {show(rate_bps, RATE)};"
                f" those of system {self.platform.system.name} send at the rates of its plan. Take"
                " another system, or a profile without a rate of calls, copies and recirculation"
            )
        return rate_bps

    def _recirculated_bps(self) -> int:
        """A worker's part of the port by which packets come back for further passes, at the switch
        of the tree with most neighbours; 0: they need no second one."""
        switch = self.costs.switch
        again = switch.passes(self.platform.values) - 1
        if not self.platform.system.memory or not again or switch.recirculation_bps is None:
            return 0
        most = max(len(each) for shape in self.group.shapes for each in shape.children.values())
        return switch.recirculation_bps // (again * most)


def directions_of(experiment: Experiment) -> tuple[tuple[LinkDirection, LinkDirection], ...]:
    """Both directions of each link, those that leave a machine by a network card at the rate that
    the profile's card reaches."""
    costs, topology = experiment.costs, experiment.topology_object()
    if not isinstance(costs, Costs) or not costs.nic.start_ns:
        return experiment.directions
    is_rank = {name for name in topology.hosts if name not in topology.ps_hosts}
    inside = {topology.switch_of(name) for name in is_rank if _tier(topology, name) == SCALE_UP}
    leaves = is_rank | inside
    found = []
    for (a, b), tier, ways in zip(
        topology.links, topology.tiers, experiment.directions, strict=True
    ):
        ends = (a in leaves, b in leaves)
        if tier != SCALE_UP:
            there, back = (
                _by_nic(way, costs.nic) if is_from else way
                for way, is_from in zip(ways, ends, strict=True)
            )
            ways = there, back
        found.append(ways)
    return tuple(found)


def _tier(topology: Topology, host: str) -> str:
    return topology.tiers[topology.ports(host)[1][1]]


def _by_nic(way: LinkDirection, nic: NicCosts) -> LinkDirection:
    bits = 8 * nic.message_bytes
    spent_ns = Fraction(nic.start_ns, nic.outstanding)
    if way.bandwidth_bps:
        spent_ns += Fraction(bits * SECOND, way.bandwidth_bps)
    return replace(way, bandwidth_bps=int(bits * SECOND / spent_ns))


@lru_cache(maxsize=4)
def costs_of(job: JobSetup) -> GroupCosts | None:
    """Costs of a job's communicator; None without a cost profile."""
    costs = job.platform.costs
    return None if costs is None else GroupCosts(job.platform, job.group, costs)


def worker_costs(job: JobSetup, worker: int, partners: Sequence[int]) -> CallCosts | None:
    """Costs for a worker whose partners have these ranks; None without a cost profile."""
    if job.platform.costs is None:
        return None
    shared, kinds = _of_calls(job)
    servers = job.group.ranks.servers
    steps = tuple(
        tuple(each.step_ns(servers[rank] == servers[worker]) for rank in partners) for each in kinds
    )
    return replace(shared, step_ns=steps)


def send_ns(job: JobSetup, rank: int, partners: Sequence[int]) -> tuple[int, ...]:
    """Of each partner with which a rank exchanges transfers: the time before one's first packet."""
    costs, servers = job.platform.costs, job.group.ranks.servers
    assert costs is not None
    own = costs.algorithms.send.Simple or ProtocolCosts()
    first_ns = own.call_ns + 2 * costs.gpu_copy.latency_ns
    return tuple(first_ns + own.step_ns(servers[other] == servers[rank]) for other in partners)


def _calls(job: JobSetup) -> list[tuple[str, int]]:
    """(collective, bytes) of each tensor."""
    kinds = ["all_reduce"] * len(job.trace.layers)
    if job.ranks is not None:
        kinds = [each.node.kind for each in reversed(job.ranks.calls.calls)]
    size = job.platform.value_bits // 8
    return [(k, size * each.values) for k, each in zip(kinds, job.trace.layers, strict=True)]


@lru_cache(maxsize=4)
def _of_calls(job: JobSetup) -> tuple[CallCosts, tuple[ProtocolCosts, ...]]:
    """The costs that all workers have in common, and those of each kind, where hosts add up."""
    found, calls = costs_of(job), _calls(job)
    assert found is not None
    known: dict[tuple[str, int], Times] = {}
    for call in calls:
        if call not in known:
            known[call] = found.times(*call)
    kinds = tuple(dict.fromkeys(known[call].costs for call in calls))
    platform, latency_ns = found.platform, max(each.latency_ns for each in known.values())
    call_ns = tuple(known[call].call_ns for call in calls)
    kind_of = tuple(kinds.index(known[call].costs) for call in calls)
    if not found.group.algorithm:
        return CallCosts(call_ns, kind_of, (), (), waiting=0, ahead=0), ()
    paces = tuple(int(WHOLE_PACE / each.share) for each in kinds)
    rate_bps = max(uplink_rate(platform, host) for host in found.group.workers)
    most, ahead = 4 * job.fragments + 64, 0  # what can be under way in two iterations
    if rate_bps:
        step_ns = max(max(each.inside_ns, each.between_ns) for each in kinds)
        bits = frame_bits(0, platform.bitmap_bits) if platform.omits_zeros else platform.frame_bits
        most = min(most, 2 * step_ns * rate_bps // (bits * SECOND) + 64)
        ahead = -(-latency_ns * rate_bps // (platform.frame_bits * SECOND))
    return CallCosts(call_ns, kind_of, (), paces, waiting=most, ahead=ahead), kinds
