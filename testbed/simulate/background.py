"""Background traffic in a world: a machine at each host that has ends of flows.

It is beside the host's role in a job, behind the same port, and told apart by its UDP port.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from p4fabric.base.config.link_settings import NOMINAL_RATE_BPS
from p4fabric.base.flow import Flow
from p4fabric.base.hops import links_between
from p4fabric.simulate import tcp_model
from p4fabric.simulate.congestion import CUTS
from p4fabric.simulate.flow_machine import HostFlows, Way, connection, measured, sent
from p4fabric.simulate.generator import (
    ACKNOWLEDGEMENT_BYTES,
    HOST,
    TAG_BYTES,
    Generator,
    new_receptions,
)
from p4fabric.simulate.records import new_table

from testbed.protocols.sizes import FRAME_OVERHEAD
from testbed.results.schema import FlowRow
from testbed.run_parts.result_rows import flow_row
from testbed.setup.timing import uplink_rate

if TYPE_CHECKING:
    from p4fabric.base.topology import Topology

    from testbed.experiment.schema_background import Background
    from testbed.setup import Platform

HEAD = bytes(ACKNOWLEDGEMENT_BYTES + TAG_BYTES)  # of a payload; the rest is padding


class Peer(NamedTuple):
    """A host that another one sends to. `is_marked`: with packets that queues may mark (ECT)."""

    host: str
    is_marked: bool


def hosts_of(flows: Sequence[Flow], topology: Topology) -> list[str]:
    """The hosts that have ends of flows, in the topology's order."""
    named = {host for flow in flows for host in (flow.source, flow.target)}
    return [host for host in topology.hosts if host in named]


def machines(
    platform: Platform, flows: Sequence[Flow[Background]], seed: int
) -> dict[str, tuple[Generator, list[Peer]]]:
    """By host: the machine of its ends, and what it sends to, as its packets number it."""
    receptions = new_receptions(len(flows))
    exact = platform.virtual is not None and platform.virtual.is_exact
    found = {}
    for host in hosts_of(flows, platform.topology):
        made = HostFlows(seed, is_exact=exact)
        peers: list[Peer] = []
        for flow in flows:
            if host not in (flow.source, flow.target):
                continue
            sends = host == flow.source
            peer = Peer(flow.target if sends else flow.source, flow.keys.is_rc and sends)
            if peer not in peers:
                peers.append(peer)
            _add(made, platform, flow, sends, peers.index(peer))
        number = platform.topology.number(host)
        own = new_table(HOST, number=number, tag_end=len(HEAD), answer_ns=-1)
        found[host] = made.machine(own, len(flows), receptions), peers
    return found


def rows(
    flows: Sequence[Flow[Background]], machines: dict[str, Generator], end_ns: int
) -> list[FlowRow]:
    """Rows of table flows, of a run that ended at `end_ns`."""
    found = []
    for flow in flows:
        sender, receiver = machines[flow.source], machines[flow.target]
        packets, _ = sent(sender, flow)
        there = measured(receiver.receptions, int(receiver.row_of[flow.number, 0]))
        arrived = there["received"] - there["duplicates"]
        lost = packets - arrived
        bursts = more = None
        if flow.keys.is_tcp:  # acknowledged packets; those given up may have arrived, too
            end = sender.tcp.ends[sender.end_of[flow.number, 0]]
            lost = int(end.lost)
            arrived = packets - lost - int(end.in_flight)
        if flow.keys.is_rc:
            end, there_end = connection(sender, flow), connection(receiver, flow)
            arrived = int(there_end.expected)
            lost = int(end.resent_gap) + int(end.resent_timeout)
            more = {
                "resent_gap": int(end.resent_gap),
                "resent_timeout": int(end.resent_timeout),
                "cuts": int(sender.rc.controls[sender.end_of[flow.number, 1], CUTS]),
                "cnps": int(there_end.notified),
                "marked": there["marked"],
            }
        if flow.keys.burst_bytes is not None:
            bursts = int(end.bursts), int(end.bursts_ns), int(end.longest_ns)
        counted = packets, there["received"], lost
        found.append(flow_row(flow, end_ns, arrived * _payload(flow), counted, bursts, there, more))
    return found


def _payload(flow: Flow[Background]) -> int:
    """Bytes of a packet that are the flow's data."""
    return flow.keys.packet_bytes - (tcp_model.HEADERS if flow.keys.is_tcp else FRAME_OVERHEAD)


def _add(
    made: HostFlows, platform: Platform, flow: Flow[Background], sends: bool, destination: int
) -> None:
    """Add an end of a flow."""
    keys, size = flow.keys, flow.keys.packet_bytes
    length = (size if sends else tcp_model.HEADERS) - FRAME_OVERHEAD
    if keys.has_ends:
        way = _way(platform, flow)
        more = {
            "burst": -(-keys.burst_bytes // _payload(flow)) if keys.burst_bytes else 0,
            "every_ns": keys.every_ns or 0,
        }
        if keys.is_tcp:
            more["answer_ns"] = min(tcp_model.LONGEST_ANSWER_NS, way.timeout_ns(size) // 4)
        made.add_end(flow, sends, HEAD, size, way, length, destination, **more)
    elif sends:
        assert keys.rate_bps is not None
        more = {
            "packet_part": -(-8 * size * 10**12 // keys.rate_bps),
            "divisor": 1,
            "strict": 1,
            "silent_ps": 1000 * (keys.start_ns + (keys.on_ns or 0)),
        }
        packets = [(HEAD, 1)]
        made.add_sender(flow, packets, size, length=length, destination=destination, **more)


def _way(platform: Platform, flow: Flow[Background]) -> Way:
    virtual = platform.virtual
    assert virtual is not None
    path = links_between(platform.topology, flow.source, flow.target)
    delay_ns = 2 * virtual.worker_delay_ns + 2 * (len(path) - 1) * virtual.switch_latency_ns
    delay_ns += sum(each.delay_ns for link, _ in path for each in platform.link(link))
    rates = [platform.link(link)[end].bandwidth_bps or NOMINAL_RATE_BPS for link, end in path]
    loses = not platform.delivers_all("background")
    return Way(uplink_rate(platform, flow.source), min(rates), delay_ns, len(path), loses)
