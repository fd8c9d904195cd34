"""Flows between single ranks of a job: what all_to_all, scatter, gather, send and receive move.

A *transfer* goes from one rank to another, packet by packet (host_links.py), and ends at the source
when all its packets are acknowledged, at the target when all have arrived. The window of a target
begins small. The parts of a collective take turns, a few packets each: if ranks are not in step,
each receiver still gets as much as its link carries, from all of them.

A source may be an iteration ahead of its target, which keeps what has come in two sets of bits. One
that is further ahead is told so. The packets' fields are in docs/wire.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from p4fabric.simulate.jit import njit
from p4fabric.simulate.mixing import mix2
from p4fabric.simulate.records import new_record, record

from testbed.protocols import host_links, lag, values, wire, worker_state
from testbed.protocols.host_links import NONE
from testbed.protocols.host_spec import HostSpec
from testbed.protocols.sizes import fragments_of
from testbed.protocols.status import new_counters, new_status

WINDOW = 1024  # most packets in flight to one rank
FIRST_WINDOW = 16
QUANTUM = 8  # packets of a transfer in its turn; more than one, since packets travel in trains

# Flows.state
STATE = record(
    "first",  # transfer with packets that have never been sent, in the order of their beginning
    "last",
    "current",  # the one of the first one's node whose turn it is, NONE: the first one
    "quantum",  # packets that are left of its turn
    "ended",  # entries in Flows.ended
)

# Flows.config
CONFIG = record(
    "packet_values",
    "incoming",  # packets that the rank receives in an iteration
)


class Flows(NamedTuple):
    """T transfers to other ranks, U from them; E ends that nobody has taken yet.

    A transmission's token is transfer << 32 | packet."""

    config: np.record  # CONFIG
    state: np.record  # STATE
    links: host_links.Links
    # transfers to others
    target: np.ndarray  # int64[T], place of the peer
    node: np.ndarray  # int64[T], of the rank's graph
    size: np.ndarray  # int64[T], values
    their_number: np.ndarray  # int64[T], among those that the target receives
    their_first: np.ndarray  # int64[T], its first packet among those,
    their_packets: np.ndarray  # int64[T], and how many the target receives in an iteration
    iteration: np.ndarray  # int64[T]
    unsent: np.ndarray  # int64[T], the next packet
    left: np.ndarray  # int64[T], packets without acknowledgement
    following: np.ndarray  # int64[T], the next transfer with unsent packets
    preceding: np.ndarray  # int64[T], the one before it
    first_of: np.ndarray  # int64[N + 1], the first transfer of each node of the graph
    # transfers from others
    source: np.ndarray  # int64[U], place of the peer
    in_node: np.ndarray  # int64[U]
    in_size: np.ndarray  # int64[U]
    in_first: np.ndarray  # int64[U + 1], first packet
    in_left: np.ndarray  # int64[2, U], packets to come, of even and odd iterations
    arrived: np.ndarray  # uint32[2, words], a bit per packet
    ended: np.ndarray  # int64[E, 3], node, iteration, time
    status: np.ndarray
    counters: np.ndarray
    lag: np.ndarray  # see lag.py


@dataclass(frozen=True)
class Outgoing:
    """The columns of Flows of the same names, in the order in which a rank begins its transfers."""

    target: np.ndarray
    node: np.ndarray
    size: np.ndarray
    their_number: np.ndarray
    their_first: np.ndarray
    their_packets: np.ndarray


@dataclass(frozen=True)
class Incoming:
    """The columns of Flows of these names."""

    source: np.ndarray
    in_node: np.ndarray
    in_size: np.ndarray


def new_flows(
    spec: HostSpec, ranks: tuple[int, ...], nodes: int, outgoing: Outgoing, incoming: Incoming
) -> Flows:
    """A rank's flows. ranks: the other ranks by place; nodes: of its graph."""
    job, part = spec.job, spec.program
    assert part is not None
    own, others = len(outgoing.node), len(incoming.in_node)
    in_first = fragments_of(incoming.in_size.tolist(), job.values)
    counters = new_counters()
    return Flows(
        config=new_record(CONFIG, packet_values=job.values, incoming=int(in_first[-1])),
        state=new_record(STATE, first=NONE, last=NONE, current=NONE),
        links=host_links.new_links(
            spec,
            ranks,
            part.ack_delay_ns,
            (FIRST_WINDOW, WINDOW),
            counters,
            yields=True,
        ),
        **vars(outgoing),
        iteration=np.zeros(own, np.int64),
        unsent=np.zeros(own, np.int64),
        left=np.zeros(own, np.int64),
        following=np.full(own, NONE, np.int64),
        preceding=np.full(own, NONE, np.int64),
        first_of=np.searchsorted(outgoing.node, np.arange(nodes + 1)),
        **vars(incoming),
        in_first=in_first,
        in_left=np.tile(np.diff(in_first), (2, 1)),
        arrived=np.zeros((2, int(in_first[-1]) // 32 + 1), np.uint32),
        ended=np.zeros((own + 2 * others + 1, 3), np.int64),
        status=new_status(),
        counters=counters,
        lag=lag.new_lag(),
    )


@njit(cache=True)
def begin(flows, scoreboard, iteration):
    """The rank begins an iteration. What came of the one before the last is forgotten, to make room
    for the next one."""
    latest = flows.links.state.iteration
    if latest == iteration:
        return
    for each in range(latest + 1, iteration + 1):
        row = (each + 1) & 1
        flows.arrived[row, :] = 0
        for u in range(flows.in_node.size):
            flows.in_left[row, u] = flows.in_first[u + 1] - flows.in_first[u]
    host_links.begin(flows.links, iteration)


@njit(cache=True)
def carries_transfers(flows):
    """True: it is the protocol of a rank's port 0 (testbed/workload/graph_source.py)."""
    return True


@njit(cache=True)
def start_transfers(flows, node, iteration):
    """Begin what a node of the graph sends. That of the iteration before must have ended."""
    for transfer in range(flows.first_of[node], flows.first_of[node + 1]):
        _start(flows, transfer, iteration)


@njit(cache=True)
def ended_transfer(flows, number):
    """(node, iteration, time) of transfer `number` of those that have ended since this was asked
    last, each once; node NONE after the last one."""
    if number == flows.state.ended:
        flows.state.ended = 0
        return NONE, 0, 0
    ended = flows.ended[number]
    return ended[0], ended[1], ended[2]


@njit(cache=True)
def _start(flows, transfer, iteration):
    state = flows.state
    flows.iteration[transfer] = iteration
    flows.unsent[transfer] = 0
    flows.left[transfer] = _packets(flows, transfer)
    flows.following[transfer] = NONE
    flows.preceding[transfer] = state.last
    if state.first == NONE:
        state.first = transfer
    else:
        flows.following[state.last] = transfer
    state.last = transfer


@njit(cache=True)
def _packets(flows, transfer):
    per_packet = flows.config.packet_values
    return (flows.size[transfer] + per_packet - 1) // per_packet


@njit(cache=True)
def _end(flows, node, iteration, now):
    ended = flows.ended[flows.state.ended]
    ended[0], ended[1], ended[2] = node, iteration, now
    flows.state.ended += 1


# ---- what has arrived ----


@njit(cache=True)
def _take_ack(flows, p, row, now):
    """Some transmissions have arrived."""
    for i in range(host_links.take_ack(flows.links, p, row, now)):
        transfer = flows.links.delivered[i] >> 32
        flows.left[transfer] -= 1
        if flows.left[transfer] == 0:
            _end(flows, flows.node[transfer], flows.iteration[transfer], now)


@njit(cache=True)
def _take_data(flows, p, row, length, now):
    """A packet of a transfer. After a wrong value the status is FAILED."""
    config, links, counters = flows.config, flows.links, flows.counters[0]
    base = wire.HEADER_WORDS + links.config.bitmap_words
    u = wire.extra(row) - 1
    if u >= flows.in_node.size or flows.source[u] != p or config.incoming == 0:
        counters.foreign += 1
        return
    whole = wire.fragment(row)
    iteration = whole // config.incoming
    packet = whole - iteration * config.incoming
    start_at = (packet - flows.in_first[u]) * config.packet_values
    count = min(flows.in_size[u] - start_at, config.packet_values)
    if (
        not flows.in_first[u] <= packet < flows.in_first[u + 1]
        or length != 4 * (base + count)
        or iteration >= links.config.iterations
    ):
        counters.foreign += 1
        return
    if iteration > links.state.iteration + 1:
        host_links.refuse(links, p, row)
        return
    host_links.acknowledge(links, p, row, now)
    if iteration < links.state.iteration:
        counters.duplicate_results += 1
        return
    bit = np.uint32(1 << (packet & 31))
    if flows.arrived[iteration & 1, packet >> 5] & bit != 0:
        counters.duplicate_results += 1
        return
    key, factor = _generator(flows, iteration, packet, links.config.number, links.rank[p])
    wrong = values.wrong_generated(row, base, count, key, factor, links.config.shift)
    if wrong >= 0:
        status = flows.status[0]
        status.failed = 1
        status.iteration = iteration
        status.fragment = packet
        status.position = wrong
        status.found = np.int64(np.int32(wire.swap(row[base + wrong])))
        status.expected = np.int64(
            np.int32(values.position_hash(key, wrong, links.config.shift) * np.int32(factor))
        )
        return
    flows.arrived[iteration & 1, packet >> 5] |= bit
    counters.results += 1
    counters.values_checked += count
    flows.in_left[iteration & 1, u] -= 1
    if flows.in_left[iteration & 1, u] == 0:
        _end(flows, flows.in_node[u], iteration, now)
        host_links.close_ack(links, p)


@njit(cache=True)
def _generator(flows, iteration, packet, target, source):
    """(key, factor) of the values of a packet (values.py): those of a fragment of the target, times
    a factor of the source."""
    config = flows.links.config
    seed = mix2(mix2(config.seed, target + 0x20000), iteration)
    key = values.fragment_key(seed, config.job, packet)
    return key, values.factor(config.seed, config.job, iteration, source)


@njit(cache=True)
def receive(flows, scoreboard, now, packets, lengths, count):
    """Take `count` packets; never ends an iteration. After a wrong value it stops, with the status
    FAILED set."""
    for i in range(count):
        row = packets[i]
        p = host_links.peer_with(flows.links, row, lengths[i])
        if p == NONE:
            flows.counters[0].foreign += 1
            continue
        if wire.extra(row) == 0:
            _take_ack(flows, p, row, now)
            continue
        _take_data(flows, p, row, lengths[i], now)
        if flows.status[0].failed == 1:
            break
    return False


# ---- what is sent ----


@njit(cache=True)
def _transmit(flows, transfer, packet, row, flags, now):
    """Write a packet of a transfer, under a new sequence number; returns the bytes of its
    payload."""
    links, p = flows.links, flows.target[transfer]
    config, iteration = links.config, flows.iteration[transfer]
    per_packet = flows.config.packet_values
    base = wire.HEADER_WORDS + config.bitmap_words
    count = min(flows.size[transfer] - packet * per_packet, per_packet)
    theirs = flows.their_first[transfer] + packet
    whole = iteration * flows.their_packets[transfer] + theirs
    host_links.write_header(links, p, row, flags, whole, flows.their_number[transfer] + 1)
    for i in range(config.bitmap_words):
        row[wire.HEADER_WORDS + i] = np.uint32(0)
    key, factor = _generator(flows, iteration, theirs, links.rank[p], config.number)
    values.write_generated(row, base, count, key, factor, config.shift)
    length = 4 * (base + count)
    host_links.note_sent(links, p, transfer << 32 | packet, length, now)
    return length


@njit(cache=True)
def _has_room(flows, transfer):
    """True if the window of a transfer's target lets another packet go."""
    return host_links.has_room(flows.links, flows.target[transfer], flows.iteration[transfer])


@njit(cache=True)
def _next(flows):
    """The transfer whose next packet may go: of the node that is first, the one whose turn it is,
    or another one, or one of a node behind; NONE if windows let none go."""
    state = flows.state
    current = state.first if state.current == NONE else state.current
    transfer = current
    while transfer != NONE:
        if _has_room(flows, transfer):
            return transfer
        transfer = _after(flows, transfer)
        if transfer == current:
            break
    transfer = current
    while transfer != NONE:
        if _has_room(flows, transfer):
            return transfer
        transfer = flows.following[transfer]
    return np.int64(NONE)


@njit(cache=True)
def _after(flows, transfer):
    """The transfer whose turn is after that of one of the first node."""
    after = flows.following[transfer]
    if after == NONE or flows.node[after] != flows.node[transfer]:
        return flows.state.first
    return after


@njit(cache=True)
def _count_sent(flows, transfer):
    """A packet of a transfer has been sent for the first time."""
    state = flows.state
    is_of_first = flows.node[transfer] == flows.node[state.first]
    after = _after(flows, transfer) if is_of_first else state.current
    flows.unsent[transfer] += 1
    ended = flows.unsent[transfer] == _packets(flows, transfer)
    if ended:
        before, behind = flows.preceding[transfer], flows.following[transfer]
        if before == NONE:
            state.first = behind
        else:
            flows.following[before] = behind
        if behind == NONE:
            state.last = before
        else:
            flows.preceding[behind] = before
    if not is_of_first:
        return
    if transfer != state.current:
        state.current = transfer
        state.quantum = QUANTUM
    state.quantum -= 1
    if state.quantum == 0 or ended:
        state.current = NONE if after == transfer else after
        state.quantum = QUANTUM
    if ended and (state.first == NONE or flows.node[state.first] != flows.node[transfer]):
        state.current = NONE


@njit(cache=True)
def send(flows, scoreboard, now, packets, lengths, destinations):
    """Fill rows of `packets` with what is due at `now`; returns their number."""
    links = flows.links
    state = links.state
    filled = host_links.send_acks(links, now, packets, lengths, destinations)
    waited = state.pacing == 1
    state.pacing = 0
    # What is lost goes first.
    for p in range(links.peers.size if state.again > 0 else 0):
        while filled < packets.shape[0]:
            token = host_links.first_lost(links, p)
            if token == NONE:
                break
            transfer, packet = token >> 32, token & 0xFFFFFFFF
            if not _has_room(flows, transfer) or not host_links.may_send(links, now):
                break
            host_links.drop_lost(links, p)
            row = packets[filled]
            lengths[filled] = _transmit(flows, transfer, packet, row, wire.RESEND, now)
            destinations[filled] = p
            flows.counters[0].retransmissions += 1
            filled += 1
    while filled < packets.shape[0] and state.pacing == 0:
        transfer = _next(flows)
        if transfer == NONE or not host_links.may_send(links, now):
            break
        if waited:
            lag.record(flows.lag, now - worker_state.paced_ns(state, links.config))
            waited = False
        row = packets[filled]
        lengths[filled] = _transmit(flows, transfer, flows.unsent[transfer], row, 0, now)
        destinations[filled] = flows.target[transfer]
        filled += 1
        _count_sent(flows, transfer)
    state.more = 1 if filled == packets.shape[0] else 0
    return filled


@njit(cache=True)
def deadline(flows, scoreboard):
    """Time of the next call of `send` if nothing arrives before; ns, NEVER if there is none."""
    return host_links.deadline(flows.links)
