"""Laws of packets: what one node counts is what another one counts of the same packets."""

from __future__ import annotations

from collections import Counter, defaultdict

from p4fabric.netfile.law import Held, law

from testbed.analysis.laws.tables import Tables
from testbed.results.counters import LOSS_COLUMNS
from testbed.systems import SYSTEMS

# The events of a switch's pool that are one packet each which leaves for a PS, by its cause there.
OF_EVENTS = {
    "completed": ("completions",),
    "sent_again": ("re_emissions",),
    "evicted": ("ended_evicted",),  # of the job that owned the sum
    "pulled": ("reminders",),
    "flushed": ("flushes", "flush_additions"),
    "collided": ("collisions", "downgrades"),
    "over_rate": ("over_rate",),
    "overlapping": ("overlaps",),
    "outside": ("outside",),
    "nothing_held": ("reminders_empty",),  # also those of other switches, which pass
}
PASSED, RESENT = "not_aggregated", "retransmitted"  # causes of departures
# Events of the other packets that a pool sees: reminders and results.
NOT_GRADIENTS = {"reminders", "reminders_empty", "releases", "results_passed"}
NO_EVENTS = {
    "ended",
    "filling",
    "held",
    "overwritten",
    "sums",
}  # how the names of all other counters begin


def is_event(counter: str) -> bool:
    """True for counters of packets."""
    return counter.partition("_")[0] not in NO_EVENTS


@law(
    "losses",
    "The packets that a link lost, by cause and job, add up to what it counted.",
    "sum of losses.packets = links.queue_drops, losses and down_drops",
    "the run has no table losses",
)
def losses(run: Tables, held: Held) -> None:
    if not run.has("losses"):
        return
    told: Counter[tuple] = Counter()
    for switch, port, direction, cause, packets in run.rows(
        "losses", "switch port direction cause packets"
    ):
        told[switch, port, direction, cause] += packets
    for node, port, direction, *counts in run.rows("links", "node port direction", *LOSS_COLUMNS):
        for (column, cause), count in zip(LOSS_COLUMNS.items(), counts, strict=True):
            place = f"{node} port {port} {direction}"
            key = node, port, direction, cause
            held.equal(place, f"losses {cause}", told.pop(key, 0), column, count or 0)
    for (node, port, direction, cause), count in told.items():
        held.equal(f"{node} port {port} {direction}", f"losses {cause}", count, "links", 0)


@law(
    "retransmissions",
    "A job's retransmissions are those of its workers, and have one cause each.",
    "jobs.retransmissions = sum of hosts.retransmissions = sum of resent.packets",
    "no job has finished",
    to_end=True,
)
def retransmissions(run: Tables, held: Held) -> None:
    of_hosts: Counter[int] = Counter()
    for job, role, count in run.rows("hosts", "job role retransmissions"):
        of_hosts[job] += count if role == "worker" else 0
    caused: Counter[int] = Counter()
    for job, count in run.rows("resent", "job packets"):
        caused[job] += count
    for job, name, outcome, count in run.rows("jobs", "job name outcome retransmissions"):
        held.equal(f"job {name}", "retransmissions", count, "its workers'", of_hosts[job])
        if run.has("resent") and outcome == "finished":
            held.equal(f"job {name}", "retransmissions", count, "by cause", caused[job])


@law(
    "links",
    "What comes out of a link was put into it, and was not lost in it.",
    "links.packets of ingress <= packets - losses + duplicates of egress at the other end",
    "no link joins two switches",
)
def links(run: Tables, held: Held) -> None:
    got: Counter[tuple] = Counter()
    given: Counter[tuple] = Counter()
    for node, other, direction, packets, lost, doubled in run.rows(
        "links", "node neighbour direction packets losses duplicates"
    ):
        if direction == "ingress":
            got[other, node] += packets
        else:
            given[node, other] += packets - (lost or 0) + (doubled or 0)
    for way in given.keys() & got.keys():
        held.at_most(" to ".join(way), "packets out", got[way], "packets in", given[way])


@law(
    "hosts",
    "A host's packets are those of its link: what it sent goes in or is dropped, and it gets no"
    " more than comes out.",
    "hosts.packets_sent = links.packets + queue_drops (+ up to down_drops); bytes alike;"
    " hosts.packets_received <= links.packets - losses + duplicates; >= where links are lossless",
    "counters of hosts and links were read at different moments, or their hosts are not told",
    to_end=True,
)
def hosts(run: Tables, held: Held) -> None:
    if not run.virtual:
        return
    others = {host for flow in run.rows("flows", "source target") for host in flow}
    cards = {host for (host,) in run.rows("buffers", "neighbour")}  # they may still hold packets
    counts: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for host, *each in run.rows(
        "hosts", "host packets_sent bytes_sent packets_received bytes_received"
    ):
        counts[host] = [a + b for a, b in zip(counts[host], each, strict=True)]
    for host, direction, packets, size, *dropped, doubled in run.rows(
        "links", "neighbour direction packets bytes", *LOSS_COLUMNS, "duplicates"
    ):
        if host not in counts or host in others:
            continue
        sent, sent_bytes, received, received_bytes = counts[host]
        full, lost, down = (each or 0 for each in dropped)
        if direction == "egress":
            out = packets - lost + (doubled or 0)
            held.at_most(f"{host}'s link", "packets received", received, "packets carried", out)
            if out == received and not lost and not doubled:
                held.equal(f"{host}'s link", "bytes received", received_bytes, "carried", size)
            continue
        held.at_most(f"{host}'s link", "packets in", packets + full, "packets sent", sent)
        if host in cards:
            continue
        most = packets + full + down
        held.at_most(f"{host}'s link", "packets sent", sent, "packets in and dropped", most)
        if not full and not down:
            held.equal(f"{host}'s link", "bytes sent", sent_bytes, "bytes carried", size)


@law(
    "departures",
    "Packets that left for a PS, by cause, add up to those that the PSs' links carried.",
    "sum of departures.packets at the PS = sum of links.packets towards PSs of a switch; <= on a"
    " real clock",
    "no PS has its link to itself, or the run has no table departures",
)
def departures(run: Tables, held: Held) -> None:
    roles: defaultdict[str, list[str]] = defaultdict(list)
    for host, role in run.rows("hosts", "host role"):
        roles[host].append(role)
    others = {host for flow in run.rows("flows", "source target") for host in flow}
    carried: Counter[str] = Counter()
    shared = set()
    for node, host, direction, packets in run.rows("links", "node neighbour direction packets"):
        if direction == "egress" and "ps" in roles[host]:
            carried[node] += packets
            if len(roles[host]) > 1 or host in others:
                shared.add(node)
    left: Counter[str] = Counter()
    for switch, at_ps, packets in run.rows("departures", "switch at_ps packets"):
        left[switch] += packets if at_ps else 0
        if at_ps is None:  # of a run that is older than this column
            return
    if not run.has("departures"):
        return
    for switch in (carried.keys() | left.keys()) - shared:
        sides = "departures", left[switch], "packets carried", carried[switch]
        if run.virtual:
            held.equal(switch, *sides)
        else:  # on a real clock a PS may get other packets as well, as of a ping
            held.at_most(switch, *sides)


@law(
    "causes",
    "A packet leaves for a PS once for each event of its cause.",
    "departures.packets of a cause <= switch_counters.value of its events; = where no packet of the"
    " switch was dropped, and collisions are not told to workers instead",
    "no switch aggregates for a PS",
)
def causes(run: Tables, held: Held) -> None:
    events: Counter[tuple] = Counter()
    for switch, job, name, value in run.rows("switch_counters", "switch job counter value"):
        events[switch, job, name] += value
    dropped: Counter[str] = Counter()  # with links that fail, packets may have no way as well
    for node, full, down in run.rows("links", "node queue_drops down_drops"):
        dropped[node] += (full or 0) + (down is not None)
    told = {
        (job, "collided") for job, cause in run.rows("resent", "job cause") if cause == "collision"
    }
    left: Counter[tuple] = Counter()
    for switch, job, cause, packets in run.rows("departures", "switch job cause packets"):
        left[switch, job, cause] += packets
    for switch, job in {(switch, job) for switch, job, _ in left}:
        for cause, names in OF_EVENTS.items():
            if cause == "nothing_held" and len(dropped) > 1:
                continue
            count = sum(events[switch, job, name] for name in names)
            place = f"{switch}, job {job}, {cause}"
            held.at_most(place, "departures", left[switch, job, cause], "events", count)
            exact = run.virtual and run.finished and dropped[switch] == 0
            if exact and (job, cause) not in told:
                held.equal(place, "departures", left[switch, job, cause], "events", count)


@law(
    "gradients",
    "Every gradient that reaches the only switch is one event there.",
    "sum of switch_counters.value of a job's gradients = links.packets - losses + duplicates of its"
    " workers' links",
    "there are several switches, no switch memory, or hosts that send other packets as well",
    to_end=True,
)
def gradients(run: Tables, held: Held) -> None:
    counters = list(run.rows("switch_counters", "job counter value"))
    rows = [
        row[:-1]
        for row in run.rows(
            "links", "node neighbour direction packets losses duplicates down_drops"
        )
        if not row[-1]
    ]
    if not run.virtual or not counters or len({row[0] for row in rows}) > 1:
        return
    events: Counter[int] = Counter()
    for job, name, value in counters:
        if is_event(name) and name not in NOT_GRADIENTS:
            events[job] += value
    come = {row[1]: row[3] - row[4] + row[5] for row in rows if row[2] == "ingress"}
    arrived: Counter[int] = Counter()
    sent: Counter[int] = Counter()
    roles: Counter[str] = Counter()
    workers: defaultdict[int, list[str]] = defaultdict(list)
    for host, role, job, packets in run.rows("hosts", "host role job packets_sent"):
        roles[host] += 1
        if role == "worker":
            workers[job].append(host)
            arrived[job] += come.get(host, 0)
            sent[job] += packets
    for flow in run.rows("flows", "source target"):
        roles.update(flow)
    # By plan some gradients pass a switch of GRID without an event, also when they are sent again.
    left = {*run.rows("departures", "job cause")}
    for job, name, system, packets in run.rows("jobs", "job name system gradient_packets"):
        if packets == sent[job] and all(roles[at] == 1 and at in come for at in workers[job]):
            known = SYSTEMS.get(system)
            planned = known is not None and known.planned and (job, RESENT) in left
            compare = held.at_most if planned or (job, PASSED) in left else held.equal
            compare(f"job {name}", "events of gradients", events[job], "arrived", arrived[job])


@law(
    "mean rates",
    "A mean rate is the payload or the bytes over the time that they took.",
    "links.mean_bps = 8 links.bytes / (last jobs.end_ns - first start_ns); flows.mean_bps alike",
    "no job has ended",
)
def mean_rates(run: Tables, held: Held) -> None:
    times = [each for each in run.rows("jobs", "start_ns end_ns") if each[1] is not None]
    if times:
        span = max(max(end for _, end in times) - min(start for start, _ in times), 1)
        for node, port, direction, size, rate in run.rows(
            "links", "node port direction bytes mean_bps"
        ):
            place = f"{node} port {port} {direction}"
            held.equal(place, "mean_bps", rate, "bytes over time", 8 * 10**9 * size // span)
    for name, begun, ended, size, rate in run.rows(
        "flows", "name begun_ns ended_ns bytes mean_bps"
    ):
        if begun is not None and rate is not None and ended > begun:
            expected = 8 * 10**9 * size // (ended - begun)
            held.equal(f"flow {name}", "mean_bps", rate, "bytes over time", expected)
