"""The tables of a run in virtual time: rows of plain values, with units in their names.

`TABLES` says what each is about and what its columns mean; p4fabric/docs/networks.md has the same.
"""

from __future__ import annotations

import numpy as np

from p4fabric.base.flow import Flow
from p4fabric.base.lossless_buffers import PRIORITY, buffer_use, pauses_by_cause
from p4fabric.base.units import natural
from p4fabric.netfile.virtual_network import Row, VirtualNetwork
from p4fabric.netfile.virtual_run import VirtualRun
from p4fabric.netfile.virtual_schema import FlowEntry
from p4fabric.simulate.flow_machine import LATENCIES, measured, sent
from p4fabric.simulate.frame_world import counts

Rows = list[Row]

DROPS = (
    ("dropped by the program (ingress)", "ingress_drops"),
    ("dropped by the program (egress)", "egress_drops"),
    ("port does not exist", "no_port"),
    ("multicast group does not exist", "no_group"),
    ("assert or assume does not hold", "failed"),
    ("too many passes", "loop_drops"),
)
"""Causes of drops in a switch's pipeline, and the counters of tm.h that have them."""

LINK_DROPS = (
    ("queue full", "queue_drops"),
    ("lost on the link", "losses"),
    ("link down", "down_drops"),
)
"""And on its links."""


def tables(run: VirtualRun) -> dict[str, Rows]:
    """All tables by name."""
    return {
        "flows": flow_rows(run),
        "ports": port_rows(run),
        "drops": drop_rows(run.network),
        "hosts": host_rows(run.network),
        "switches": switch_rows(run.network),
        "priorities": priority_rows(run.network),
        "queues": queue_rows(run),
        "throughput": throughput_rows(run),
        "pauses": pause_rows(run),
        "buffers": buffer_rows(run.network),
        "readings": run.readings,
        "changes": run.changes,
    }


# -- flows


def flow_rows(run: VirtualRun) -> Rows:
    """A row for each flow and host that has received packets of it; the flow's receiver always has
    one. `answers`: packets that came back to the sender, whose latency is the round trip."""
    network = run.network
    hosts = list(network.topology.hosts)
    receptions = network.receptions
    count = int(receptions.shared[0].rows)
    found: dict[tuple[int, str, int], int] = {}
    for place in range(count):
        row = receptions.rows[place]
        found[int(row.flow), hosts[row.host], int(row.answers)] = place
    rows: Rows = []
    for flow in network.flows:
        keys = [key for key in found if key[0] == flow.number]
        if flow.target and (flow.number, flow.target, 0) not in found:
            keys.append((flow.number, flow.target, 0))
        for key in sorted(
            keys, key=lambda each: (each[2], each[1] != flow.target, natural(each[1]))
        ):
            rows.append(_flow_row(run, flow, key[1], bool(key[2]), found.get(key)))
        if not keys:
            rows.append(_flow_row(run, flow, None, False, None))
    return rows


def _flow_row(
    run: VirtualRun, flow: Flow[FlowEntry], host: str | None, answers: bool, place: int | None
) -> Row:
    packets, octets = sent(run.network.machines[flow.source], flow)
    made: dict[str, object] = {
        "flow": flow.name,
        "kind": flow.keys.kind,
        "from": flow.source,
        "to": flow.target or None,
        "host": host,
        "what": "answers" if answers else "packets",
        "sent": packets,
        "sent_bytes": octets,
        **dict.fromkeys(("received", "received_bytes", "lost", "loss")),
        **dict.fromkeys(("duplicates", "late", "marked", "throughput_bps", *LATENCIES)),
    }
    if not flow.keys.tagged or host is None:
        return made
    receptions = run.network.receptions
    made |= measured(receptions, -1 if place is None else place)
    if place is None:
        return made | {"lost": packets, "loss": 1.0 if packets else None, "throughput_bps": 0}
    row = receptions.rows[place]
    # From the start to the end, or longer where packets came later than without queues.
    end_ns = flow.keys.ends_ns(run.network.plan.file.virtual.duration_ns)
    last_ns = max(end_ns, int(row.last_ns) - int(row.least_ns))
    lasted_ns = last_ns - flow.keys.start_ns
    made["throughput_bps"] = 8 * int(row.octets) * 10**9 // lasted_ns
    if flow.target and (answers or host == flow.target):
        lost = packets - int(row.different)
        made |= {"lost": lost, "loss": lost / packets}
    return made


def throughput_rows(run: VirtualRun) -> Rows:
    """Arrivals of each flow between two looks, and the rate at which a connection may send then."""
    rows: Rows = []
    before = np.zeros(len(run.network.flows), np.int64)
    last_ns = 0
    looks = run.looks
    for number, (time_ns, octets) in enumerate(zip(looks.times_ns, looks.octets, strict=True)):
        for flow in run.network.flows:
            if flow.keys.tagged:
                bits = 8 * int(octets[flow.number] - before[flow.number])
                rate_bps = bits * 10**9 // (time_ns - last_ns)
                rates = looks.rates_bps.get(flow.number)
                row = {"time_ns": time_ns, "flow": flow.name, "throughput_bps": rate_bps}
                rows.append(row | {"sending_bps": rates[number] if rates else None})
        before, last_ns = octets, time_ns
    return rows


# -- ports


def port_rows(run: VirtualRun) -> Rows:
    """A row for each port and direction of its link that the switch models."""
    rows: Rows = []
    for name, switch in run.network.nodes.switches.items():
        ports = run.network.topology.ports(name)
        for row in switch.port_stats():
            neighbour = ports[row["port"]][0]
            if row["direction"] == "ingress" and not run.network.topology.is_host(neighbour):
                continue
            depths = run.looks.queues.get((name, row["port"], row["direction"]), [])
            rows.append(
                {
                    "switch": name,
                    "port": row["port"],
                    "neighbour": neighbour,
                    "direction": row["direction"],
                    "packets": row["packets"],
                    "bytes": row["bytes"],
                    # A packet that is on the wire at the end has been counted as a whole.
                    "busy": min(row["busy_ns"] / run.end_ns, 1.0),
                    "queue_max": row["max_queue"],
                    "queue_mean": sum(depths) / len(depths) if depths else None,
                    "queue_drops": row["queue_drops"],
                    "tie_drops": row["tie_drops"],
                    "losses": row["losses"],
                    "duplicates": row["duplicates"],
                    "reordered": row["reordered"],
                    "down_drops": row["down_drops"],
                }
            )
    return rows


def queue_rows(run: VirtualRun) -> Rows:
    """Packets that wait at each look, of ports where any ever did."""
    rows: Rows = []
    for (switch, port, direction), depths in run.looks.queues.items():
        if any(depths):
            rows += [
                {
                    "time_ns": time_ns,
                    "switch": switch,
                    "port": port,
                    "direction": direction,
                    "packets": depth,
                }
                for time_ns, depth in zip(run.looks.times_ns, depths, strict=True)
            ]
    return rows


def priority_rows(network: VirtualNetwork) -> Rows:
    """Egress queues of switches that have several in each port."""
    rows: Rows = []
    for name, switch in network.nodes.switches.items():
        if switch.priority_queues > 1:
            for row in switch.queue_stats():
                kept = ("port", "priority", "packets", "bytes", "queue_drops", "max_queue")
                rows.append({"switch": name, **{key: row[key] for key in kept}})
    return rows


# -- lossless links


def pause_rows(run: VirtualRun) -> Rows:
    """Pauses of the far ends of ports, by the output for whose packets the buffer was full."""
    network = run.network
    return [
        {"switch": name, **row}
        for name, switch in network.nodes.switches.items()
        if network.buffers
        for row in pauses_by_cause(switch, network.topology.ports(name), run.end_ns)
    ]


def buffer_rows(network: VirtualNetwork) -> Rows:
    """Use of the buffer by what came in at each port of a switch with lossless links."""
    return [
        {"switch": name, **row}
        for name, switch in network.nodes.switches.items()
        if network.buffers
        for row in buffer_use(switch, network.topology, name, PRIORITY)
    ]


# -- nodes


def switch_rows(network: VirtualNetwork) -> Rows:
    """Counts of each switch's traffic manager."""
    return [{"switch": name, **each.stats()} for name, each in network.nodes.switches.items()]


def drop_rows(network: VirtualNetwork) -> Rows:
    """Packets that were dropped, by switch and cause, where there are any. port: of a link's."""
    rows: Rows = []
    for name, switch in network.nodes.switches.items():
        stats = switch.stats()
        for cause, counter in DROPS:
            if stats[counter]:
                rows.append(
                    {"switch": name, "port": None, "cause": cause, "packets": stats[counter]}
                )
        for row in switch.port_stats():
            for cause, counter in LINK_DROPS:
                if row[counter]:
                    where = f"{cause} ({row['direction']})"
                    rows.append(
                        {
                            "switch": name,
                            "port": row["port"],
                            "cause": where,
                            "packets": row[counter],
                        }
                    )
    return rows


def host_rows(network: VirtualNetwork) -> Rows:
    """Packets that each host has sent and received, of any kind."""
    rows: Rows = []
    for name, row in counts(network.nodes).items():
        made: dict[str, object] = {
            "host": name,
            "sent": int(row.packets_sent),
            "sent_bytes": int(row.bytes_sent),
            "received": int(row.packets_received),
            "received_bytes": int(row.bytes_received),
            "untagged": None,
            "answers_dropped": None,
        }
        host = network.machines[name].host[0]
        made["untagged"] = int(host.untagged)
        made["answers_dropped"] = int(host.answers_dropped)
        rows.append(made)
    return rows
