"""Background traffic in a world: a machine at each host that has ends of flows.

It is beside the host's role in a job, behind the same port, and told apart by its UDP port.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from testbed.experiment.background_flows import Flow
from testbed.protocols.records import new_table
from testbed.protocols.sizes import FRAME_OVERHEAD
from testbed.protocols.values import mix2
from testbed.routing.tree import next_hops, switch_of
from testbed.runtimes.result_rows import flow_row
from testbed.setup.timing import NOMINAL_RATE_BPS, uplink_rate
from testbed.workload import background

if TYPE_CHECKING:
    from testbed.setup import Platform
    from testbed.topology import Topology

STREAM = 0xB6F3  # distinguishes the random numbers of flows from others of the same seed


def hosts_of(flows: Sequence[Flow], topology: Topology) -> list[str]:
    """The hosts that have ends of flows, in the topology's order."""
    named = {host for flow in flows for host in (flow.source, flow.target)}
    return [host for host in topology.hosts if host in named]


def machine_of(
    platform: Platform, flows: Sequence[Flow], host: str, seed: int
) -> tuple[background.Background, list[str]]:
    """The machine of a host's ends, and the hosts that it sends to, as its ends number them."""
    peers: list[str] = []
    ends = []
    for flow in _at(flows, host):
        other = flow.target if host == flow.source else flow.source
        if other not in peers:
            peers.append(other)
        end = _end(platform, flow, host == flow.source, seed)
        end["destination"] = peers.index(other)
        end["remote"] = _at(flows, other).index(flow)
        ends.append(end)
    return background.new_background(ends), peers


def rows(
    flows: Sequence[Flow], machines: dict[str, background.Background], end_ns: int
) -> list[dict[str, Any]]:
    """Rows of table flows, of a run that ended at `end_ns`."""
    found = []
    for flow in flows:
        sender, receiver = (
            machines[host].ends[_at(flows, host).index(flow)] for host in (flow.source, flow.target)
        )
        arrived = int(receiver.packets_received)
        if flow.kind == "tcp":  # acknowledged packets; those given up may have arrived, too
            arrived = int(sender.packets_sent - sender.lost - sender.in_flight)
        carried = arrived * _payload(flow)
        lost = int(sender.lost) if flow.kind == "tcp" else int(sender.packets_sent) - arrived
        bursts = int(sender.bursts) if flow.burst_bytes is not None else None
        found.append(
            flow_row(
                flow,
                end_ns,
                carried,
                packets_sent=int(sender.packets_sent),
                packets_received=int(receiver.packets_received),
                lost=lost,
                bursts=bursts,
                burst_mean_ns=int(sender.bursts_ns) // bursts if bursts else None,
                burst_max_ns=int(sender.longest_ns) if bursts else None,
            )
        )
    return found


def _at(flows: Sequence[Flow], host: str) -> list[Flow]:
    """The flows with an end at a host, whose places there are those in this list."""
    return [flow for flow in flows if host in (flow.source, flow.target)]


def _payload(flow: Flow) -> int:
    """Bytes of a packet that are the flow's data."""
    headers = background.TCP_HEADERS if flow.kind == "tcp" else FRAME_OVERHEAD
    return flow.packet_bytes - headers


def _end(platform: Platform, flow: Flow, sending: bool, seed: int) -> np.ndarray:
    patience_ns = _least_timeout_ns(platform, flow)
    rate_bps = flow.rate_bps or uplink_rate(platform, flow.source)
    interval_ps = -(-8 * flow.packet_bytes * 10**12 // rate_bps) if rate_bps else 0
    made = new_table(
        background.END,
        sending=int(sending),
        tcp=int(flow.kind == "tcp"),
        length=flow.packet_bytes - FRAME_OVERHEAD,
        interval_ps=interval_ps,
        stream=mix2(mix2(seed, STREAM), flow.number),
        start_ns=flow.start_ns,
        end_ns=background.NEVER if flow.end_ns is None else flow.end_ns,
        on_ns=flow.on_ns or 0,
        off_ns=flow.off_ns or 0,
        due_ps=1000 * flow.start_ns,
        window=background.FIRST_WINDOW * background.UNIT,
        threshold=background.RING * background.UNIT,
        furthest=-1,
        least_timeout_ns=patience_ns,
        timeout_at_ns=background.NEVER,
        answer_ns=min(background.LONGEST_ANSWER_NS, patience_ns // 4),
        answer_at_ns=background.NEVER,
        burst=0 if flow.burst_bytes is None else -(-flow.burst_bytes // _payload(flow)),
        every_ns=flow.every_ns or 0,
        next_ns=flow.start_ns,
    )
    if sending and not (platform.virtual and platform.virtual.is_exact):
        background.take_phase(made, interval_ps)
    return made


def _least_timeout_ns(platform: Platform, flow: Flow) -> int:
    """400 packets' times on the slowest link of the path and four round trips in the empty
    network, as for jobs (testbed/setup/timing.py)."""
    topology, virtual = platform.topology, platform.virtual
    assert virtual is not None
    hops = next_hops(topology, flow.target)
    path = [flow.source, switch_of(topology, flow.source)]
    while path[-1] != flow.target:
        path.append(hops[path[-1]][1])
    delay_ns = 2 * virtual.worker_delay_ns + 2 * (len(path) - 2) * virtual.switch_latency_ns
    rates = []
    for here, there in zip(path, path[1:], strict=False):
        _, link, end = next(port for port in topology.ports(here).values() if port[0] == there)
        delay_ns += sum(direction.delay_ns for direction in platform.link(link))
        rates.append(platform.link(link)[end].bandwidth_bps or NOMINAL_RATE_BPS)
    return 400 * 8 * flow.packet_bytes * 10**9 // min(rates) + 4 * delay_ns
