"""Times of a job, from the links between its hosts: the bounds of its adaptive timers, its default
window, and the least time that its communication takes.

**Timers.** On a real clock they depend on the machine: sometimes a host is not scheduled for
milliseconds, and shorter timers would fire although nothing is lost. In virtual time nothing is
late, and times may be as short as in a data centre. There the bounds follow the network. At
10 Mbit/s, the rate of the quickstart, both come to about the same.

**Window**: how many fragments a worker may have in flight. A window below the bandwidth-delay
product leaves links idle. A window far above it only lengthens queues and, in a shared pool, takes
aggregators from others. So the default is twice the product of the job's slowest link and its round
trip in an empty network; twice, since a fragment also waits for the slowest worker and in queues.
It is not smaller than a minimum that suits slow networks. AIMD on congestion marks makes the window
smaller where it is too large. Without switch memory the fragments of all workers share the servers'
links, and so they share the product.

Where a job is a program, its ranks compute on the processors on which hosts and switches have to be
woken. A round trip then takes milliseconds: `WAKING_NS` more than in the empty network. The window
of a program is not larger than the queues of its links, a quarter of its share of the switch
memory, and `MOST_OF_PROGRAM`, since all that is in flight while a host stands still may be sent
again. `WAKING_NS` does not count where a hash places fragments in the switch memory, since the
fragments of a long window would collide with each other, nor where a plan sets the workers' rates.

**Bound.** M is the gradient in bytes on the wire (fragments x frame length), R a link's rate:

    aggregation in the switch   M / R                 each worker's link, and the server's
    parameter server            W M / R               the server's link; a k-th of it with k servers
    ring and other algorithms   2 (W - 1) M / (W R)   each worker's link; 2 M / R with two trees

The bound is the largest over all links and both directions. Acknowledgements, requests and
reminders are not in it, nor is what the switches between share. Where servers have several ranks,
whose own links are faster than those of their servers, all three count the links between the
switches of a communicator's tree, too.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from p4fabric.base.config.link_settings import MAX_RATE, NOMINAL_RATE_BPS
from p4fabric.base.hops import links_between

from testbed.algorithms.bounds import cost
from testbed.experiment.scaled_network import scaled_count
from testbed.experiment.schema import VirtualTime
from testbed.routing.group_server import has_shared_servers
from testbed.setup.communicator import Communicator
from testbed.setup.job_setups import Bounds, Platform
from testbed.setup.scaled_platform import scaled_bounds
from testbed.systems.options import WorkerOptions

MS = 1_000_000

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

PRODUCTS = 2
WAKING_NS = 4_000_000  # of a program's hosts and switches in a round trip, on a busy machine
MOST_OF_PROGRAM = 1024
PARTS_OF_MEMORY = 4
MAX_WINDOW = 65_536  # the largest value that the key allows


def uplink_rate(platform: Platform, host: str) -> int:
    """Rate in bit/s of a host's link towards its switch; 0 if unlimited."""
    _, link, end = platform.topology.ports(host)[1]
    return platform.link(link)[end].bandwidth_bps or 0


def slowest_uplink(platform: Platform, hosts: tuple[str, ...]) -> int:
    """The lowest of these hosts' rates towards their switches, in bit/s."""
    return min(uplink_rate(platform, host) or NOMINAL_RATE_BPS for host in hosts)


def _slower_inside(platform: Platform, group: Communicator) -> int | None:
    """The lowest rate in bit/s of the links between switches in a communicator's tree, where
    servers have several ranks: there the hosts' links are the fast ones. None if there is none."""
    topology = platform.topology
    if not has_shared_servers(topology):
        return None
    shares: dict[int, Fraction] = {}  # by link, of all fragments
    for tree, share in group.shares:
        for switch, (port, _) in tree.parent.items():
            link = topology.ports(switch)[port][1]
            shares[link] = shares.get(link, Fraction(0)) + share
    rates = [
        int(way.bandwidth_bps / share)
        for link, share in shares.items()
        for way in platform.link(link)
        if way.bandwidth_bps
    ]
    return min(rates, default=None)


def slowest_rate(platform: Platform, group: Communicator) -> int:
    """The lowest rate in bit/s of the links that carry each fragment of a communicator."""
    inside = _slower_inside(platform, group)
    return min(slowest_uplink(platform, group.hosts), inside or MAX_RATE)


def shortest_queue(platform: Platform, hosts: tuple[str, ...]) -> int:
    """Packets of the shortest queue on the limited links between hosts and their switches; 0 if no
    link has a limit."""
    directions = [
        direction
        for host in hosts
        for direction in platform.link(platform.topology.ports(host)[1][1])
    ]
    return min((each.queue_packets for each in directions if each.bandwidth_bps), default=0)


def round_trip_ns(platform: Platform, group: Communicator) -> int:
    """Round-trip time in ns of a packet of no length through an empty network, from a job's first
    worker to its server (or its root switch, or its neighbour) and back."""
    topology, virtual = platform.topology, platform.virtual or REAL_HOSTS
    start = group.workers[0]
    if group.servers:
        target = group.servers[0]
    elif platform.system.memory:
        target = group.shapes[0].target
    else:
        target = group.workers[1 % len(group.workers)]
    path = links_between(topology, start, target)
    total = sum(direction.delay_ns for link, _ in path for direction in platform.link(link))
    switches = len(path) - topology.is_host(target)
    total += (2 * switches - (target in topology.switches)) * virtual.switch_latency_ns
    total += virtual.worker_delay_ns
    if topology.is_host(target):
        total += virtual.server_delay_ns if group.servers else virtual.worker_delay_ns
    return total


# ---- timers ----


def timers_of(platform: Platform, group: Communicator, program: bool) -> Bounds:
    """The bounds of a job's timers: those that the experiment sets, and defaults for its
    runtime."""
    if platform.full_size is not None:
        return scaled_bounds(timers_of(platform.full_size, group, program), platform.scale)
    frame_ns = max(1, platform.longest_frame_bits * 10**9 // slowest_rate(platform, group))
    if platform.virtual is None:
        bounds = _of_machine(platform, group, program, frame_ns)
    else:
        bounds = _of_network(frame_ns, round_trip_ns(platform, group))
    if group.plan is not None:
        bounds = _of_plan(platform, group, bounds)
    least_ns = max(bounds.min_timeout_ns, platform.least_timeout_ns)
    most_ns = max(bounds.max_timeout_ns, least_ns)
    bounds = replace(bounds, min_timeout_ns=least_ns, max_timeout_ns=most_ns)
    named = {
        name: value
        for name in Bounds.__dataclass_fields__
        if (value := getattr(platform.timers, name)) is not None
    }
    return replace(bounds, **named)


def _of_machine(platform: Platform, group: Communicator, program: bool, frame_ns: int) -> Bounds:
    burst_ns = min(BURST_PACKETS * frame_ns, LONGEST_BURST_NS)
    if program:
        queue_ns = shortest_queue(platform, group.hosts) * frame_ns
        burst_ns = max(burst_ns, min(PROGRAM_BURST_NS, queue_ns // PARTS_OF_QUEUE))
    return replace(REAL_CLOCK, burst_ns=max(burst_ns, REAL_CLOCK.burst_ns))


def _of_network(frame_ns: int, round_trip_ns: int) -> Bounds:
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


def _of_plan(platform: Platform, group: Communicator, bounds: Bounds) -> Bounds:
    """Bounds with a plan. Sums of different switches meet only at the server, and one may be a
    window ahead of another. Before that time, nothing is late."""
    options = platform.options_of(WorkerOptions)
    window = options.window or options.usual_window
    rate_bps = group.routed_plan.rate_bps
    window_ns = int(window * platform.longest_frame_bits * 10**9 / rate_bps)
    return replace(
        bounds,
        min_reminder_delay_ns=max(bounds.min_reminder_delay_ns, window_ns),
        max_reminder_delay_ns=max(bounds.max_reminder_delay_ns, 2 * window_ns),
    )


# ---- window ----


def window_of(platform: Platform, group: Communicator, program: bool) -> int:
    """The window of a job's workers in fragments: the experiment's, or what suits its network."""
    options = platform.options_of(WorkerOptions)
    if group.slots is not None:
        return group.slots.window(options.window)
    if options.window is not None:
        return options.window
    if platform.full_size is not None:
        return scaled_count(window_of(platform.full_size, group, program), platform.scale)
    rate_bps = slowest_rate(platform, group)
    if platform.virtual is None:
        rate_bps = min(rate_bps, NOMINAL_RATE_BPS)  # more than a machine can send
    round_trip = round_trip_ns(platform, group)
    needed = _product(platform, group, rate_bps * round_trip)
    if program:
        woken = _product(platform, group, rate_bps * (round_trip + WAKING_NS))
        needed = max(needed, min(woken, _most_of_program(platform, group)))
    return min(max(options.usual_window, needed), MAX_WINDOW)


def product_of(platform: Platform, group: Communicator) -> int:
    """A worker's share of the bandwidth-delay product of its job's own empty path, in fragments:
    what has to be in flight so that no link is idle."""
    rate_bps = slowest_rate(platform, group)
    if platform.virtual is None:
        rate_bps = min(rate_bps, NOMINAL_RATE_BPS)
    return -(-_product(platform, group, rate_bps * round_trip_ns(platform, group)) // PRODUCTS)


def _product(platform: Platform, group: Communicator, bit_ns: int) -> int:
    """Fragments of a window, from a rate in bit/s times a round trip in ns."""
    return -(-_share(platform, group, PRODUCTS * bit_ns) // (platform.frame_bits * 10**9))


def _share(platform: Platform, group: Communicator, amount: int) -> int:
    """A worker's share of the packets that a job may have in flight: all, where switches add up."""
    if platform.system.memory or not group.servers:
        return amount
    return amount * len(group.servers) // len(group.workers)


def _most_of_program(platform: Platform, group: Communicator) -> int:
    """The most fragments in flight of a program."""
    if platform.system.planned or getattr(platform.options, "index", "") == "hash":
        return 0
    limits = [MOST_OF_PROGRAM]
    if queue := shortest_queue(platform, group.hosts):
        limits.append(_share(platform, group, queue))
    if platform.system.memory:
        limits.append(platform.aggregators // platform.job_count // PARTS_OF_MEMORY)
    return min(limits)


# ---- bound ----


def communication_bound_ns(platform: Platform, group: Communicator, fragments: int) -> int | None:
    """Least time of one iteration's communication of a job in ns; None where no link that counts
    is limited."""
    workers = len(group.workers)
    packets = dict.fromkeys(group.workers, fragments)
    if platform.system.memory:
        servers = () if platform.delivers else group.servers  # no worker waits for their links
        packets |= dict.fromkeys(servers, fragments)
    elif group.servers:
        largest = -(-fragments // len(group.servers))
        packets |= dict.fromkeys(group.servers, largest * workers)
    else:
        shares = cost(group.algorithm, "all_reduce", group.ranks)
        for rank, worker in enumerate(group.workers):
            packets[worker] = int(fragments * max(shares.sent(rank), shares.received(rank)))
    bounds = [
        count * platform.frame_bits * 10**9 // rate
        for host, count in packets.items()
        if (rate := _slower_rate(platform, host)) is not None
    ]
    if inside := _slower_inside(platform, group):
        bounds.append(fragments * platform.frame_bits * 10**9 // inside)
    return max(bounds, default=None)


def _slower_rate(platform: Platform, host: str) -> int | None:
    """Rate in bit/s of the slower direction of a host's link; None if both are unlimited."""
    _, link, _ = platform.topology.ports(host)[1]
    rates = [way.bandwidth_bps for way in platform.link(link) if way.bandwidth_bps]
    return min(rates, default=None)
