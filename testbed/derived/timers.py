"""The default bounds of a job's adaptive timers.

On a real clock they depend on the machine: sometimes a host is not scheduled for milliseconds, and
shorter timers would fire although nothing is lost. In virtual time nothing is late, and times may
be as short as in a data centre. There the bounds follow the network. At 10 Mbit/s, the rate of the
quickstart, both come to about the same.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from testbed.derived.job_trees import root_of_job
from testbed.derived.plan_entries import plan_of
from testbed.derived.system_options import options_of
from testbed.experiment.schema import VirtualTime
from testbed.protocols.sizes import frame_bytes
from testbed.routing.tree import next_hops, switch_of
from testbed.systems.options import WorkerOptions

if TYPE_CHECKING:
    from testbed.experiment import Experiment

MS = 1_000_000

# The link rate that is assumed for a job whose links are unlimited.
NOMINAL_RATE_BPS = 10**9


@dataclass(frozen=True)
class Bounds:
    """All in ns; docs/experiment.md, section timers, says what each is for."""

    min_timeout_ns: int
    max_timeout_ns: int
    min_reminder_delay_ns: int
    max_reminder_delay_ns: int
    ack_delay_ns: int
    burst_ns: int


REAL_CLOCK = Bounds(100 * MS, 1000 * MS, 2 * MS, 200 * MS, 5 * MS, 2 * MS)
# A link that is idle while its sender sleeps loses that time. A sender that makes up for its
# lateness afterwards keeps as many packets in the link's queue. On a busy machine the burst must
# cover some ms. On fast links it must stay far below the threshold of congestion marks.
LONGEST_BURST_NS = 10 * MS
BURST_PACKETS = 50
# Of a program, whose ranks compute on the same processors, as long as it fits into a part of the
# queues of its links.
PROGRAM_BURST_NS = 5 * MS
PARTS_OF_QUEUE = 4
# The part of a round trip on a real clock beside the links' delays: a process wakes up at each end.
# Switches take time, too, but on slow links it does not matter.
REAL_HOSTS = VirtualTime.model_validate(
    {"worker_delay": "50 us", "server_delay": "50 us", "switch_latency": 0}
)


def timers_of(experiment: Experiment, number: int) -> Bounds:
    """The bounds for a job: those of the experiment file, and defaults for its runtime."""
    bounds = (_of_machine if experiment.virtual is None else _of_network)(experiment, number)
    if experiment.system_entry.planned:
        bounds = _of_plan(experiment, number, bounds)
    named = {
        name: value
        for name in Bounds.__dataclass_fields__
        if (value := getattr(experiment.timers, name)) is not None
    }
    return Bounds(**{**vars(bounds), **named})


def _of_machine(experiment: Experiment, number: int) -> Bounds:
    frame_ns = _frame_ns(experiment, number)
    burst_ns = min(BURST_PACKETS * frame_ns, LONGEST_BURST_NS)
    if experiment.jobs[number].is_program:
        queue_ns = shortest_queue(experiment, number) * frame_ns
        burst_ns = max(burst_ns, min(PROGRAM_BURST_NS, queue_ns // PARTS_OF_QUEUE))
    return replace(REAL_CLOCK, burst_ns=max(burst_ns, REAL_CLOCK.burst_ns))


def _of_plan(experiment: Experiment, number: int, bounds: Bounds) -> Bounds:
    """With a plan, sums of different switches meet only at the server, and one may be a window
    ahead of another. Before that time, nothing is late."""
    rate_bps = plan_of(experiment).jobs[number].rate_bps
    bits = 8 * frame_bytes(experiment.values_per_packet, experiment.bitmap_bits)
    options = options_of(experiment, WorkerOptions)
    window = options.window or options.usual_window
    window_ns = int(window * bits * 10**9 / rate_bps)
    return replace(
        bounds,
        min_reminder_delay_ns=max(bounds.min_reminder_delay_ns, window_ns),
        max_reminder_delay_ns=max(bounds.max_reminder_delay_ns, 2 * window_ns),
    )


def _frame_ns(experiment: Experiment, number: int) -> int:
    """Time of a job's frame on the slowest of its hosts' links, at least 1."""
    bits = 8 * frame_bytes(experiment.values_per_packet, experiment.bitmap_bits)
    return max(1, bits * 10**9 // job_rate_bps(experiment, number))


def job_rate_bps(experiment: Experiment, number: int) -> int:
    """The rate in bit/s of the slowest link between a job's hosts and their switches."""
    placement = experiment.jobs[number].fixed_placement
    hosts = (*placement.workers, *placement.servers)
    return min(uplink_rate(experiment, host) or NOMINAL_RATE_BPS for host in hosts)


def shortest_queue(experiment: Experiment, number: int) -> int:
    """Packets of the shortest queue on the limited links between a job's hosts and their switches;
    0 if no link has a limit."""
    topology, placement = experiment.topology_object(), experiment.jobs[number].fixed_placement
    directions = [
        direction
        for host in (*placement.workers, *placement.servers)
        for direction in experiment.link(topology.ports(host)[1][1])
    ]
    return min((each.queue_packets for each in directions if each.bandwidth_bps), default=0)


def _of_network(experiment: Experiment, number: int) -> Bounds:
    frame_ns = _frame_ns(experiment, number)
    round_trip_ns = round_trip_of(experiment, number)
    min_timeout_ns = 400 * frame_ns + 4 * round_trip_ns
    min_reminder_delay_ns = 8 * frame_ns + round_trip_ns
    return Bounds(
        min_timeout_ns=min_timeout_ns,
        max_timeout_ns=10 * min_timeout_ns,
        min_reminder_delay_ns=min_reminder_delay_ns,
        max_reminder_delay_ns=100 * min_reminder_delay_ns,
        ack_delay_ns=20 * frame_ns,
        burst_ns=8 * frame_ns,
    )


def round_trip_of(experiment: Experiment, number: int) -> int:
    """Round-trip time in ns of a packet of no length through an empty network, from a job's first
    worker to its server (or its root switch, or its neighbour) and back."""
    topology, virtual = experiment.topology_object(), experiment.virtual or REAL_HOSTS
    placement = experiment.jobs[number].fixed_placement
    start = placement.workers[0]
    if placement.servers:
        target = placement.servers[0]
    elif experiment.system_entry.memory:
        target = root_of_job(experiment, number)
    else:
        target = placement.workers[1 % len(placement.workers)]
    hops = next_hops(topology, target)
    path = [start]
    node = switch_of(topology, start)
    while node != target:
        path.append(node)
        node = hops[node][1]
    path.append(target)
    total = 0
    for here, there in zip(path, path[1:], strict=False):
        _, link, _ = next(port for port in topology.ports(here).values() if port[0] == there)
        total += sum(direction.delay_ns for direction in experiment.link(link))
    switches = len(path) - 2 if topology.is_host(target) else len(path) - 1
    total += (2 * switches - (target in topology.switches)) * virtual.switch_latency_ns
    total += virtual.worker_delay_ns
    if topology.is_host(target):
        total += virtual.server_delay_ns if placement.servers else virtual.worker_delay_ns
    return total


def uplink_rate(experiment: Experiment, host: str) -> int:
    """Rate in bit/s of a host's link towards its switch; 0 if unlimited."""
    topology = experiment.topology_object()
    _, link, end = topology.ports(host)[1]
    return experiment.link(link)[end].bandwidth_bps or 0
