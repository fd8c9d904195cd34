"""The least time of a call, from its links: what `ina perf` compares with.

A call takes at least as long as its busiest link needs for the bytes (link_loads.py), and at least
as long as a packet needs from host to host in the steps that must follow each other
(testbed/algorithms/bounds.py), with what launch and steps cost by the cost profile (costs.py). The
alpha-beta model adds both, which is what a call takes whose steps wait for each other; what is
pipelined takes less.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from p4fabric.base.hops import links_between

from testbed.algorithms.bounds import cost
from testbed.experiment.schema import VirtualTime
from testbed.setup.communicator import Communicator
from testbed.setup.costs import costs_of, send_ns
from testbed.setup.job_setups import Platform, Setup
from testbed.setup.link_loads import loads_of, sizes_of

# Of a real clock nothing is certain but the links' delays.
_NO_HOSTS = VirtualTime.model_validate(
    {"worker_delay": 0, "worker_jitter": 0, "server_delay": 0, "server_jitter": 0}
    | {"switch_latency": 0}
)


@dataclass(frozen=True)
class CallTime:
    """Times of a call in ns. latency: of its steps without bytes; bytes: of the busiest link."""

    latency_ns: int
    bytes_ns: int

    @property
    def least_ns(self) -> int:
        return max(self.latency_ns, self.bytes_ns)

    @property
    def model_ns(self) -> int:
        """In the alpha-beta model."""
        return self.latency_ns + self.bytes_ns


def call_time(setup: Setup, number: int, calls: int = 1) -> CallTime:
    """The least time of a call of a job's program, whose `calls` calls are all alike."""
    groups = [each for each in setup.groups.values() if each.ranks and each.ranks.job == number]
    latency, rate = 0, Fraction(1)
    for each in groups:
        assert each.ranks is not None
        call = sizes_of(each.ranks.calls.calls[0])
        latency = latency_ns(setup.platform, each.group, call.collective)
        if (costs := costs_of(each)) is not None:
            size = call.values * each.platform.value_bits // 8
            times = costs.times(call.collective, size)
            latency, rate = latency + times.latency_ns, times.costs.share
    if not groups:  # all its bytes go from rank to rank
        job = setup.jobs[number]
        latency = _hop_ns(setup.platform, *job.group.workers[:2])
        latency += min(send_ns(job, 0, (1,))) if job.platform.costs is not None else 0
    topology = setup.platform.topology
    own = {topology.tiers[topology.ports(host)[1][1]] for host in setup.jobs[number].group.workers}
    spent = [
        int((each.least_ns or 0) / (rate if each.tier in own else 1))
        for each in loads_of(setup, number).tiers()
    ]
    return CallTime(latency, max(spent, default=0) // calls)


def latency_ns(platform: Platform, group: Communicator, collective: str) -> int:
    """The least time of a call without bytes: what a packet needs, from host to host, in all steps
    that must follow each other."""
    workers = group.workers
    if group.servers and not platform.delivers:
        server = group.servers[0]
        ways = (
            _hop_ns(platform, each, server) + _hop_ns(platform, server, each) for each in workers
        )
        return max(ways)
    if not group.algorithm:
        return max(_hop_ns(platform, each, workers[0]) for each in workers[1:])
    found = cost(group.algorithm, collective, group.ranks)
    hops = [_hop_ns(platform, workers[a], workers[b]) for a, b in found.shares]
    return found.steps * min(hops, default=0)


def _hop_ns(platform: Platform, source: str, target: str) -> int:
    """The least time from one host's sending to another one's handling, of a packet that meets no
    other."""
    topology, virtual = platform.topology, platform.virtual or _NO_HOSTS
    ways = list(links_between(platform.topology, source, target))
    total = (len(ways) - 1) * virtual.switch_latency_ns
    for link, end in ways:
        direction = platform.link(link)[end]
        total += direction.delay_ns
        if direction.bandwidth_bps:
            total += platform.frame_bits * 10**9 // direction.bandwidth_bps
    assert topology.is_host(target)
    return total + virtual.worker_delay_ns - virtual.worker_jitter_ns
