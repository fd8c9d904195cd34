"""Reliable flows between single ranks of a job: what all_to_all, scatter, gather, send and receive
move, on the links and through the queues of everything else.

A *transfer* goes from one rank to another, packet by packet, and ends at the source when all its
packets are acknowledged, at the target when all have arrived. Packets are of kind `control`, which
switches forward by their address. They wait for the pacer of the rank's link, which all machines of
a host share, and for the window of their target: it begins small, doubles each round trip up to a
half of what the last loss or congestion mark met, and grows by a packet per round trip from there.
The parts of a collective take turns, a few packets each: if ranks are not in step, each receiver
still gets as much as its link carries, from all of them.

Each transmission has a sequence number of its own, by target. The receiver collects what has come
and acknowledges up to 32 numbers with one packet, and with them the congestion marks. A
transmission is lost when one that is three numbers later has been acknowledged, or one that was
sent a quarter of a round trip later (as RFC 8985 has it). If nothing has been acknowledged for a
while, the oldest one is sent again, to see what is lost; if that is in vain, all are lost. What is
acknowledged after all is not sent again: the other host may only have stood still.

A source may be an iteration ahead of its target, which keeps what has come in two sets of bits. One
that is further ahead is told so, and tries with a single packet until the target has followed. The
packets' fields are in docs/wire.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from testbed.protocols import acks, lag, values, wire, worker_state
from testbed.protocols.host_spec import HostSpec
from testbed.protocols.jit import njit
from testbed.protocols.records import names_of, new_counters, new_record, new_status, record
from testbed.protocols.sizes import fragments_of
from testbed.protocols.worker_state import NEVER, UNIT

WINDOW = 1024  # most packets in flight to one rank
FIRST_WINDOW = 16
REMEMBERED = 4 * WINDOW  # transmissions to one rank
QUANTUM = 8  # packets of a transfer in its turn; more than one, since packets travel in trains
REORDERING = 3  # numbers by which a transmission may be late before it counts as lost
ACK_AFTER = 16  # packets that are acknowledged at once
LONGEST_BACKOFF = 6  # doublings of the timeout
NONE = -1
LOST = 1 << 61  # added to what a transmission has carried that counts as lost

# Flows.state
STATE = record(
    "iteration",  # of the rank
    "next_send_ps",
    "pacing",  # 1: a packet is ready and waits for the pacing alone
    "more",  # 1: the batch was full, call again at once
    "first",  # transfer with packets that have never been sent, in the order of their beginning
    "last",
    "current",  # the one of the first one's node whose turn it is, NONE: the first one
    "quantum",  # packets that are left of its turn
    "again",  # transmissions to be made again, to all targets
    "acks",  # acknowledgements that wait to be sent
    "ended",  # entries in Flows.ended
    "timer_ns",  # no timer is due before
)

# Flows.config beside the common fields
CONFIG = record(
    *names_of(worker_state.CONFIG),
    "ack_delay_ns",
    "ack_pace_ps",  # time of an acknowledgement on the link
    "packet_values",
    "incoming",  # packets that the rank receives in an iteration
)

# Flows.peers
PEER = record(
    # what this rank sends to it
    "sequence",  # of the next transmission
    "oldest",  # all transmissions before it are acknowledged or lost
    "furthest",  # the last one that is acknowledged
    "in_flight",
    "again",  # transmissions to be made again,
    "again_first",  # and the place of the first of them
    "window",  # in 1/256 packets
    "threshold",  # up to which it doubles
    "cut_ns",  # time at which it was last halved
    "round_trip_ns",
    "variation_ns",
    "longest_ns",
    "doublings",
    "timeout_ns",  # time at which all in flight are lost
    "iteration",  # of that rank, as far as it is known
    # what it sends to this rank
    "ack_first",  # the next acknowledgement: first number,
    "ack_bits",  # bits for it and the 31 after it,
    "ack_count",  # their number,
    "ack_flags",  # marks,
    "ack_due_ns",  # and the latest time for sending it
    "refused",  # 1: it is too far ahead, and is to be told when it is not any more
)


class Flows(NamedTuple):
    """P other ranks; T transfers to them, U from them; E ends that nobody has taken yet."""

    config: np.record  # CONFIG
    state: np.record  # STATE
    peers: np.ndarray  # PEER[P]
    rank: np.ndarray  # int64[P]
    peer_of: np.ndarray  # int64[ranks of the job]
    # transmissions, by sequence number modulo REMEMBERED
    # int64[P, REMEMBERED], transfer << 32 | packet, NONE: acknowledged, or made again
    carried: np.ndarray
    sent_ns: np.ndarray  # int64[P, REMEMBERED]
    again: np.ndarray  # int64[P, REMEMBERED], a ring of numbers of transmissions to be made again
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
    acks: np.ndarray  # int64[*, 4], place of the peer, first number, bits, flags
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
    common = worker_state.configuration(spec)
    config = new_record(
        CONFIG,
        **{name: int(common[name]) for name in names_of(worker_state.CONFIG)},
        ack_delay_ns=part.ack_delay_ns,
        ack_pace_ps=common.pace_ps * _ack_bytes(job.bitmap_width) // max(1, common.frame_bytes),
        packet_values=job.values,
        incoming=int(in_first[-1]),
    )
    peer_of = np.full(job.workers, NONE, np.int64)
    peer_of[list(ranks)] = np.arange(len(ranks))
    flows = Flows(
        config=config,
        state=new_record(STATE, first=NONE, last=NONE, current=NONE, timer_ns=NEVER),
        peers=np.zeros(len(ranks), PEER),
        rank=np.array(ranks, np.int64),
        peer_of=peer_of,
        carried=np.zeros((len(ranks), REMEMBERED), np.int64),
        sent_ns=np.zeros((len(ranks), REMEMBERED), np.int64),
        again=np.zeros((len(ranks), REMEMBERED), np.int64),
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
        acks=np.zeros((512, 4), np.int64),
        ended=np.zeros((own + 2 * others + 1, 3), np.int64),
        status=new_status(),
        counters=new_counters(),
        lag=lag.new_lag(),
    )
    flows.peers["window"] = FIRST_WINDOW * UNIT
    flows.peers["threshold"] = WINDOW * UNIT
    flows.peers["furthest"] = -1
    flows.peers["timeout_ns"] = flows.peers["ack_due_ns"] = NEVER
    return flows


def _ack_bytes(bitmap_width: int) -> int:
    return worker_state.FRAME_OVERHEAD + 4 * (wire.HEADER_WORDS + bitmap_width // 32)


@njit(cache=True)
def begin(flows, scoreboard, iteration):
    """The rank begins an iteration. What came of the one before the last is forgotten, to make room
    for the next one."""
    state = flows.state
    if state.iteration == iteration:
        return
    while state.iteration < iteration:
        state.iteration += 1
        row = (state.iteration + 1) & 1
        flows.arrived[row, :] = 0
        for u in range(flows.in_node.size):
            flows.in_left[row, u] = flows.in_first[u + 1] - flows.in_first[u]
    for p in range(flows.peers.size):
        peer = flows.peers[p]
        if peer.refused == 1:
            peer.refused = 0
            _answer(flows, p, peer.ack_first, 0, 0)


@njit(cache=True)
def carries_transfers(flows):
    """True: it is the protocol of a rank's port 0 (testbed/workload/rank_graph.py)."""
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


@njit(cache=True)
def _timeout_ns(flows, peer):
    config = flows.config
    if peer.round_trip_ns == 0:
        return 4 * config.min_timeout_ns << peer.doublings
    usual = peer.round_trip_ns + 4 * peer.variation_ns + 2 * config.ack_delay_ns
    if peer.doublings == 0:
        return usual
    return max(usual, config.min_timeout_ns) << peer.doublings - 1


@njit(cache=True)
def _arm(flows, peer, now):
    """Set the timeout of what is in flight to a peer."""
    peer.timeout_ns = NEVER
    if peer.in_flight > 0:
        peer.timeout_ns = now + _timeout_ns(flows, peer)
        flows.state.timer_ns = min(flows.state.timer_ns, peer.timeout_ns)


# ---- what has arrived ----


@njit(cache=True)
def _answer(flows, p, first, bits, flags):
    """Put an acknowledgement into the batch of those to be sent; a full batch drops it, and the
    peer sends again."""
    state = flows.state
    if state.acks < flows.acks.shape[0]:
        ack = flows.acks[state.acks]
        ack[0], ack[1], ack[2], ack[3] = p, first, bits, flags
        state.acks += 1


@njit(cache=True)
def _close_ack(flows, p):
    """Let what has been collected for a peer be sent."""
    peer = flows.peers[p]
    _answer(flows, p, peer.ack_first, peer.ack_bits, peer.ack_flags)
    peer.ack_count = 0
    peer.ack_due_ns = NEVER


@njit(cache=True)
def _acknowledge(flows, p, number, flags, now):
    peer = flows.peers[p]
    if acks.is_too_far(peer, number):
        _close_ack(flows, p)
    acks.collect(peer, number, flags, now + flows.config.ack_delay_ns)
    flows.state.timer_ns = min(flows.state.timer_ns, peer.ack_due_ns)
    if peer.ack_count >= ACK_AFTER:
        _close_ack(flows, p)


@njit(cache=True)
def _take_ack(flows, p, row, now):
    """Some transmissions have arrived."""
    peer, config, counters = flows.peers[p], flows.config, flows.counters[0]
    first = wire.index(row)
    bits = acks.bits_of(row, config.bitmap_words)
    marked = wire.flags(row) & wire.ECN != 0
    peer.iteration = max(peer.iteration, wire.fragment(row))
    answered = 0
    for i in range(acks.SPAN):
        if (bits >> i) & 1 == 0:
            continue
        back = (peer.sequence - first - i) & 0xFFFFFFFF
        if not 1 <= back <= REMEMBERED:
            continue  # too long ago
        number = peer.sequence - back
        place = number % REMEMBERED
        carried = flows.carried[p, place]
        if carried == NONE:
            continue
        flows.carried[p, place] = NONE
        answered += 1
        if carried >= LOST:
            carried -= LOST
        else:
            peer.in_flight -= 1
        peer.furthest = max(peer.furthest, number)
        worker_state.measure_round_trip(peer, now - flows.sent_ns[p, place])
        if marked:
            counters.marked_results += 1
            _cut(peer, flows.sent_ns[p, place], now)
            marked = False
        elif peer.window < peer.threshold:
            peer.window += UNIT
        elif peer.window < WINDOW * UNIT:
            peer.window += UNIT * UNIT // peer.window + 1
        transfer = carried >> 32
        flows.left[transfer] -= 1
        if flows.left[transfer] == 0:
            _end(flows, flows.node[transfer], flows.iteration[transfer], now)
    if bits == 0:
        peer.doublings = 1  # it is there, but not ready
    if answered == 0:
        return
    peer.doublings = 0
    while peer.oldest < peer.sequence:
        if 0 <= flows.carried[p, peer.oldest % REMEMBERED] < LOST:
            sent_ns = flows.sent_ns[p, peer.oldest % REMEMBERED]
            later_ns = flows.sent_ns[p, peer.furthest % REMEMBERED] - sent_ns
            late = later_ns > peer.round_trip_ns >> 2 and peer.furthest > peer.oldest
            if not late and peer.oldest + REORDERING > peer.furthest:
                break
            _cut(peer, sent_ns, now)
            _lose(flows, p, peer.oldest)
        peer.oldest += 1
    _arm(flows, peer, now)


@njit(cache=True)
def _cut(peer, sent_ns, now):
    """Halve the window, unless what gave cause to it was sent before it was last halved."""
    if sent_ns >= peer.cut_ns:
        peer.window = max(peer.window >> 1, UNIT)
        peer.threshold = peer.window
        peer.cut_ns = now


@njit(cache=True)
def _lose(flows, p, number):
    """A transmission counts as lost: what it carried is to be sent again."""
    peer = flows.peers[p]
    flows.again[p, (peer.again_first + peer.again) % REMEMBERED] = number
    flows.carried[p, number % REMEMBERED] += LOST
    peer.again += 1
    peer.in_flight -= 1
    flows.state.again += 1


@njit(cache=True)
def _give_up(flows, p, now):
    """Nothing has been acknowledged for a timeout: the oldest transmission is lost, or the second
    time all that are in flight."""
    peer = flows.peers[p]
    first = peer.doublings == 0 and peer.round_trip_ns > 0
    while peer.oldest < peer.sequence:
        if 0 <= flows.carried[p, peer.oldest % REMEMBERED] < LOST:
            _lose(flows, p, peer.oldest)
            if first:
                peer.doublings = 1
                _arm(flows, peer, now)
                return
        peer.oldest += 1
    peer.threshold = max(peer.window >> 1, 2 * UNIT)
    peer.window = UNIT
    peer.cut_ns = now
    peer.doublings = min(peer.doublings + 1, LONGEST_BACKOFF)
    peer.timeout_ns = NEVER


@njit(cache=True)
def _take_data(flows, p, row, length, now):
    """A packet of a transfer. After a wrong value the status is FAILED."""
    config, state, counters = flows.config, flows.state, flows.counters[0]
    peer = flows.peers[p]
    base = wire.HEADER_WORDS + config.bitmap_words
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
        or iteration >= config.iterations
    ):
        counters.foreign += 1
        return
    if iteration > state.iteration + 1:
        peer.refused = 1
        counters.stale += 1
        _answer(flows, p, wire.index(row), 0, 0)
        return
    _acknowledge(flows, p, wire.index(row), wire.flags(row), now)
    if iteration < state.iteration:
        counters.stale += 1
        return
    bit = np.uint32(1 << (packet & 31))
    if flows.arrived[iteration & 1, packet >> 5] & bit != 0:
        counters.duplicate_results += 1
        return
    key, factor = _generator(flows, iteration, packet, config.number, flows.rank[p])
    wrong = values.wrong_generated(row, base, count, key, factor, config.shift)
    if wrong >= 0:
        status = flows.status[0]
        status.failed = 1
        status.iteration = iteration
        status.fragment = packet
        status.position = wrong
        status.found = np.int64(np.int32(wire.swap(row[base + wrong])))
        status.expected = np.int64(
            np.int32(values.position_hash(key, wrong, config.shift) * np.int32(factor))
        )
        return
    flows.arrived[iteration & 1, packet >> 5] |= bit
    counters.results += 1
    counters.values_checked += count
    flows.in_left[iteration & 1, u] -= 1
    if flows.in_left[iteration & 1, u] == 0:
        _end(flows, flows.in_node[u], iteration, now)
        if peer.ack_count > 0:
            _close_ack(flows, p)


@njit(cache=True)
def _generator(flows, iteration, packet, target, source):
    """(key, factor) of the values of a packet (values.py): those of a fragment of the target, times
    a factor of the source."""
    config = flows.config
    seed = values.mix2(values.mix2(config.seed, target + 0x20000), iteration)
    key = values.fragment_key(seed, config.job, packet)
    return key, values.factor(config.seed, config.job, iteration, source)


@njit(cache=True)
def receive(flows, scoreboard, now, packets, lengths, count):
    """Take `count` packets; never ends an iteration. After a wrong value it stops, with the status
    FAILED set."""
    config, counters = flows.config, flows.counters[0]
    base = wire.HEADER_WORDS + config.bitmap_words
    for i in range(count):
        row = packets[i]
        if (
            wire.is_foreign(row, lengths[i], base, config.job)
            or wire.kind(row) != wire.CONTROL
            or wire.sender(row) >= config.workers
            or flows.peer_of[wire.sender(row)] == NONE
        ):
            counters.foreign += 1
            continue
        p = flows.peer_of[wire.sender(row)]
        if wire.extra(row) == 0:
            _take_ack(flows, p, row, now)
            continue
        _take_data(flows, p, row, lengths[i], now)
        if flows.status[0].failed == 1:
            break
    return False


# ---- what is sent ----


@njit(cache=True)
def _send_acks(flows, now, packets, lengths, destinations):
    """Returns the number of acknowledgements written, the oldest first: in another order they would
    say that packets are lost."""
    state, config = flows.state, flows.config
    filled = 0
    while filled < state.acks and filled < packets.shape[0]:
        ack, row = flows.acks[filled], packets[filled]
        lengths[filled] = acks.write(
            row,
            config.job,
            config.number,
            config.bitmap_words,
            state.iteration,
            ack[1],
            ack[2],
            ack[3],
        )
        destinations[filled] = ack[0]
        state.next_send_ps += config.ack_pace_ps
        filled += 1
    for i in range(filled, state.acks):
        flows.acks[i - filled] = flows.acks[i]
    state.acks -= filled
    return filled


@njit(cache=True)
def _transmit(flows, transfer, packet, row, flags, now):
    """Write a packet of a transfer, under a new sequence number; returns the bytes of its
    payload."""
    config, p = flows.config, flows.target[transfer]
    peer, iteration = flows.peers[p], flows.iteration[transfer]
    base = wire.HEADER_WORDS + config.bitmap_words
    count = min(flows.size[transfer] - packet * config.packet_values, config.packet_values)
    theirs = flows.their_first[transfer] + packet
    whole = iteration * flows.their_packets[transfer] + theirs
    sequence = peer.sequence & 0xFFFFFFFF
    wire.write_header(row, wire.CONTROL, 255, flags, config.job, 0, whole, sequence, config.number)
    wire.set_extra(row, flows.their_number[transfer] + 1)
    for i in range(config.bitmap_words):
        row[wire.HEADER_WORDS + i] = np.uint32(0)
    key, factor = _generator(flows, iteration, theirs, flows.rank[p], config.number)
    values.write_generated(row, base, count, key, factor, config.shift)
    place = peer.sequence % REMEMBERED
    flows.carried[p, place] = transfer << 32 | packet
    flows.sent_ns[p, place] = now
    peer.sequence += 1
    peer.in_flight += 1
    if peer.timeout_ns == NEVER:
        _arm(flows, peer, now)
    flows.counters[0].gradient_packets += 1
    length = 4 * (base + count)
    worker_state.take_pace(flows.state, config, now, length)
    return length


@njit(cache=True)
def _has_room(flows, transfer):
    """True if the window of a transfer's target lets another packet go."""
    peer = flows.peers[flows.target[transfer]]
    if flows.iteration[transfer] > peer.iteration + 1:
        return peer.in_flight == 0
    in_memory = peer.sequence - peer.oldest < REMEMBERED
    return in_memory and (peer.in_flight + 1) * UNIT <= peer.window


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
def _see_timers(flows, now):
    """Do what is due, and find out when the next timer is."""
    state = flows.state
    state.timer_ns = NEVER
    for p in range(flows.peers.size):
        peer = flows.peers[p]
        if peer.ack_count > 0 and peer.ack_due_ns <= now:
            _close_ack(flows, p)
        if peer.timeout_ns <= now:
            _give_up(flows, p, now)
        state.timer_ns = min(state.timer_ns, min(peer.timeout_ns, peer.ack_due_ns))


@njit(cache=True)
def send(flows, scoreboard, now, packets, lengths, destinations):
    """Fill rows of `packets` with what is due at `now`; returns their number."""
    state = flows.state
    if state.timer_ns <= now:
        _see_timers(flows, now)
    filled = _send_acks(flows, now, packets, lengths, destinations)
    waited = state.pacing == 1
    state.pacing = 0
    # What is lost goes first.
    for p in range(flows.peers.size if state.again > 0 else 0):
        peer = flows.peers[p]
        while peer.again > 0 and filled < packets.shape[0]:
            place = flows.again[p, peer.again_first % REMEMBERED] % REMEMBERED
            carried = flows.carried[p, place]
            if carried != NONE:
                transfer, packet = carried - LOST >> 32, carried & 0xFFFFFFFF
                if not _has_room(flows, transfer):
                    break
                if state.next_send_ps > now * 1000:
                    state.pacing = 1
                    break
            flows.carried[p, place] = NONE
            peer.again_first += 1
            peer.again -= 1
            state.again -= 1
            if carried == NONE:  # it had arrived
                continue
            row = packets[filled]
            lengths[filled] = _transmit(flows, transfer, packet, row, wire.RESEND, now)
            destinations[filled] = p
            flows.counters[0].retransmissions += 1
            filled += 1
    while filled < packets.shape[0] and state.pacing == 0:
        transfer = _next(flows)
        if transfer == NONE:
            break
        if state.next_send_ps > now * 1000:
            state.pacing = 1
            break
        if waited:
            lag.record(flows.lag, now - state.next_send_ps // 1000)
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
    state = flows.state
    if state.more == 1 or state.acks > 0:
        return 0
    due = state.timer_ns
    if state.pacing == 1:
        due = min(due, (state.next_send_ps + 999) // 1000)
    return due
