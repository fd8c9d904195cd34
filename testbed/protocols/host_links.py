"""Reliable packets from a host to single other hosts of its job, on the links and through the
queues of everything else: what flows (flows.py) and sums of hosts (host_sums.py) travel on.

Packets are of kind `control`, which switches forward by their address. They wait for the pacer of
the host's link, which all machines of a host share, and for the window of their target. Usually
(`aimd`) it doubles each round trip up to a half of what the last congestion mark met, or the last
loss where a machine yields to others, and grows by a packet per round trip from there. Otherwise a
congestion control of p4fabric's list sets window and rate; an acknowledgement with marks is its
notification.

Each transmission has a sequence number of its own, by target, and carries a *token*, by which a
machine knows what is in it. The receiver collects what has come and acknowledges up to 32 numbers
with one packet, and with them the congestion marks. A transmission is lost when one that is three
numbers later has been acknowledged, or one that was sent a quarter of a round trip later (as RFC
8985 has it). If nothing has been acknowledged for a while, the oldest one is sent again, to see
what is lost; if that is in vain, all are lost. What is acknowledged after all is not sent again:
the other host may only have stood still.

A machine that cannot take a packet yet says so. Its peer tries with a single packet until the
machine has followed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from p4fabric.base.topology import FRAME_OVERHEAD
from p4fabric.base.transports import AIMD
from p4fabric.simulate import congestion, controls
from p4fabric.simulate.congestion import GAP, RATE, TIMEOUT, WORDS
from p4fabric.simulate.jit import njit
from p4fabric.simulate.records import names_of, new_record, record

from testbed.protocols import acks, wire, worker_state
from testbed.protocols.host_spec import HostSpec
from testbed.protocols.send_scoreboard import doubled_ns
from testbed.protocols.worker_state import NEVER, UNIT

REORDERING = 3  # numbers by which a transmission may be late before it counts as lost
ACK_AFTER = 16  # packets that are acknowledged at once, or a quarter of the window
LONGEST_BACKOFF = 6  # doublings of the timeout
NONE = -1
LOST = 1 << 61  # added to the token of a transmission that counts as lost

# Links.state
STATE = record(
    "iteration",  # of the machine
    "next_send_ps",
    "pacing",  # 1: a packet is ready and waits for the pacing alone
    "more",  # 1: the batch was full, call again at once
    "again",  # transmissions to be made again, to all targets
    "acks",  # acknowledgements that wait to be sent
    "timer_ns",  # no timer is due before
    "now_ns",  # of the latest call of `send_acks`
    "rate_due_ns",  # when a rate lets a packet go that waits for it
)

# Links.config beside the common fields
CONFIG = record(
    *names_of(worker_state.CONFIG),
    "ack_after",  # packets that are acknowledged at once
    "ack_delay_ns",  # time that one waits for more
    "ack_pace_ps",  # time of an acknowledgement on the link
    "widest",  # most packets in flight to one host
    "yields",  # 1: a loss counts as a sign of congestion
    "controlled",  # 1: by a control of `controls`, 0: aimd
    "cnp_ns",  # least time between notifications of it, -1: there are none
)

# Links.peers
PEER = record(
    # what this host sends to it
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
    "iteration",  # of that machine, as far as it is known
    "rate_due_ps",  # its control's rate lets no packet go before
    "cnp_at_ns",  # of the next notification, at the earliest
    # what it sends to this host
    "ack_first",  # the next acknowledgement: first number,
    "ack_bits",  # bits for it and the 31 after it,
    "ack_count",  # their number,
    "ack_flags",  # marks,
    "ack_due_ns",  # and the latest time for sending it
    "refused",  # 1: it is too far ahead, and is to be told when it is not any more
)


class Links(NamedTuple):
    """P other hosts, R remembered transmissions to each."""

    config: np.record  # CONFIG
    state: np.record  # STATE
    peers: np.ndarray  # PEER[P]
    rank: np.ndarray  # int64[P]
    peer_of: np.ndarray  # int64[ranks of the job]
    controls: np.ndarray  # int64[P, WORDS], see congestion.py; [0, WORDS] with aimd
    # transmissions, by sequence number modulo R
    carried: np.ndarray  # int64[P, R], tokens, NONE: acknowledged, or made again
    sent_ns: np.ndarray  # int64[P, R]
    again: np.ndarray  # int64[P, R], a ring of numbers of transmissions to be made again
    acks: np.ndarray  # int64[*, 4], place of the peer, first number, bits, flags
    delivered: np.ndarray  # int64[SPAN], tokens that an acknowledgement has named
    counters: np.ndarray


def new_links(
    spec: HostSpec,
    ranks: tuple[int, ...],
    ack_delay_ns: int,
    windows: tuple[int, int],
    counters: np.ndarray,
    *,
    yields: bool,
) -> Links:
    """The links to the other hosts with these ranks. windows: the first and the widest one, in
    packets. yields: a loss halves the window, and what is late is soon looked for."""
    job = spec.job
    first, widest = windows
    common = worker_state.configuration(spec)
    peer_of = np.full(job.workers, NONE, np.int64)
    peer_of[list(ranks)] = np.arange(len(ranks))
    remembered = 1
    while remembered < 4 * widest:
        remembered *= 2
    ack_bytes = worker_state.FRAME_OVERHEAD + 4 * (wire.HEADER_WORDS + job.bitmap_width // 32)
    transport = job.transport
    controlled = transport.control != AIMD
    words = np.zeros((0, WORDS), np.int64)
    if controlled:
        made = controls.new_words(
            transport.control,
            spec.rate_bps or transport.line_bps,
            int(common.frame_bytes),
            transport.trip_ns,
            transport.product,
            transport.window,
        )
        words, first = np.tile(made, (len(ranks), 1)), widest
    cnp_ns = controls.CONTROLS[transport.control].cnp_ns if controlled else None
    links = Links(
        config=new_record(
            CONFIG,
            **{name: int(common[name]) for name in names_of(worker_state.CONFIG)},
            ack_after=max(1, min(ACK_AFTER, widest // 4)),
            ack_delay_ns=ack_delay_ns,
            ack_pace_ps=common.pace_ps * ack_bytes // max(1, common.frame_bytes),
            widest=widest,
            yields=int(yields),
            controlled=int(controlled),
            cnp_ns=-1 if cnp_ns is None else cnp_ns,
        ),
        state=new_record(STATE, timer_ns=NEVER, rate_due_ns=NEVER),
        peers=np.zeros(len(ranks), PEER),
        rank=np.array(ranks, np.int64),
        peer_of=peer_of,
        controls=words,
        carried=np.zeros((len(ranks), remembered), np.int64),
        sent_ns=np.zeros((len(ranks), remembered), np.int64),
        again=np.zeros((len(ranks), remembered), np.int64),
        acks=np.zeros((512, 4), np.int64),
        delivered=np.zeros(acks.SPAN, np.int64),
        counters=counters,
    )
    links.peers["window"] = first * UNIT
    for p in range(len(words)):
        _take_window(links, p)
    links.peers["threshold"] = widest * UNIT
    links.peers["furthest"] = -1
    links.peers["timeout_ns"] = links.peers["ack_due_ns"] = NEVER
    return links


@njit(cache=True)
def begin(links, iteration):
    """The machine begins an iteration; peers that were too far ahead are told."""
    links.state.iteration = iteration
    for p in range(links.peers.size):
        peer = links.peers[p]
        if peer.refused == 1:
            peer.refused = 0
            _answer(links, p, peer.ack_first, 0, 0)


@njit(cache=True)
def _timeout_ns(links, peer):
    config = links.config
    if config.timeout_ns > 0:
        return config.timeout_ns << peer.doublings
    if peer.round_trip_ns == 0:
        return doubled_ns(4 * config.min_timeout_ns, peer.doublings)
    usual = peer.round_trip_ns + 4 * peer.variation_ns + 2 * config.ack_delay_ns
    if peer.doublings == 0:
        return usual if config.yields == 1 else max(usual, config.min_timeout_ns)
    return doubled_ns(max(usual, config.min_timeout_ns), peer.doublings - 1)


@njit(cache=True)
def _arm(links, peer, now):
    """Set the timeout of what is in flight to a peer."""
    peer.timeout_ns = NEVER
    if peer.in_flight > 0:
        peer.timeout_ns = now + _timeout_ns(links, peer)
        links.state.timer_ns = min(links.state.timer_ns, peer.timeout_ns)


# ---- what has arrived ----


@njit(cache=True)
def peer_with(links, row, length):
    """Place of the peer from which a packet has come; NONE if it is none of this job and kind."""
    config = links.config
    base = wire.HEADER_WORDS + config.bitmap_words
    if (
        wire.is_foreign(row, length, base, config.job)
        or wire.kind(row) != wire.CONTROL
        or wire.sender(row) >= config.workers
    ):
        return np.int64(NONE)
    return links.peer_of[wire.sender(row)]


@njit(cache=True)
def _answer(links, p, first, bits, flags):
    """Put an acknowledgement into the batch of those to be sent; a full batch drops it, and the
    peer sends again."""
    state = links.state
    if state.acks < links.acks.shape[0]:
        ack = links.acks[state.acks]
        ack[0], ack[1], ack[2], ack[3] = p, first, bits, flags
        state.acks += 1


@njit(cache=True)
def refuse(links, p, row):
    """Tell a peer that it is too far ahead."""
    links.peers[p].refused = 1
    links.counters[0].stale += 1
    _answer(links, p, wire.index(row), 0, 0)


@njit(cache=True)
def close_ack(links, p):
    """Let what has been collected for a peer be sent."""
    peer = links.peers[p]
    if peer.ack_count > 0:
        _answer(links, p, peer.ack_first, peer.ack_bits, peer.ack_flags)
        peer.ack_count = 0
        peer.ack_due_ns = NEVER


@njit(cache=True)
def acknowledge(links, p, row, now):
    """A packet of a peer is there."""
    peer = links.peers[p]
    number = wire.index(row)
    if acks.is_too_far(peer, number):
        close_ack(links, p)
    acks.collect(peer, number, wire.flags(row), now + links.config.ack_delay_ns)
    links.state.timer_ns = min(links.state.timer_ns, peer.ack_due_ns)
    if peer.ack_count >= links.config.ack_after:
        close_ack(links, p)


@njit(cache=True)
def take_ack(links, p, row, now):
    """Some transmissions have arrived; returns how many of `delivered` are their tokens."""
    peer, config, counters = links.peers[p], links.config, links.counters[0]
    remembered = links.carried.shape[1]
    first = wire.index(row)
    bits = acks.bits_of(row, config.bitmap_words)
    marked = wire.flags(row) & wire.ECN != 0
    peer.iteration = max(peer.iteration, wire.fragment(row))
    answered, trip_ns, noticed, lost = 0, 0, False, False
    for i in range(acks.SPAN):
        if (bits >> i) & 1 == 0:
            continue
        back = (peer.sequence - first - i) & 0xFFFFFFFF
        if not 1 <= back <= remembered:
            continue  # too long ago
        number = peer.sequence - back
        place = number % remembered
        carried = links.carried[p, place]
        if carried == NONE:
            continue
        links.carried[p, place] = NONE
        if carried >= LOST:
            carried -= LOST
        else:
            peer.in_flight -= 1
        links.delivered[answered] = carried
        answered += 1
        peer.furthest = max(peer.furthest, number)
        trip_ns = now - links.sent_ns[p, place]
        worker_state.measure_round_trip(peer, trip_ns)
        if marked:
            counters.marked_results += 1
            if config.controlled == 0:
                _cut(peer, links.sent_ns[p, place], now)
            marked, noticed = False, True
        elif config.controlled == 1:
            continue
        elif peer.window < peer.threshold:
            peer.window += UNIT
        elif peer.window < config.widest * UNIT:
            peer.window += UNIT * config.window_step // peer.window + 1
    if bits == 0:
        peer.doublings = 1  # it is there, but not ready
    if answered == 0:
        return 0
    peer.doublings = 0
    while peer.oldest < peer.sequence:
        if 0 <= links.carried[p, peer.oldest % remembered] < LOST:
            sent_ns = links.sent_ns[p, peer.oldest % remembered]
            later_ns = links.sent_ns[p, peer.furthest % remembered] - sent_ns
            late = later_ns > peer.round_trip_ns >> 2 and peer.furthest > peer.oldest
            if not late and peer.oldest + REORDERING > peer.furthest:
                break
            if config.yields == 1 and config.controlled == 0:
                _cut(peer, sent_ns, now)
            _lose(links, p, peer.oldest)
            lost = True
        peer.oldest += 1
    if config.controlled == 1:
        _follow(links, p, answered, trip_ns, noticed, lost, now)
    _arm(links, peer, now)
    return answered


@njit(cache=True)
def _follow(links, p, packets, trip_ns, noticed, lost, now):
    """Tell a peer's congestion control of an acknowledgement."""
    peer, control, cnp_ns = links.peers[p], links.controls[p], links.config.cnp_ns
    controls.catch_up(control, now)
    if noticed and cnp_ns >= 0 and now >= peer.cnp_at_ns:
        peer.cnp_at_ns = now + cnp_ns
        controls.on_mark(control, now)
    controls.on_ack(control, now, packets, trip_ns)
    if lost:
        controls.on_timer(control, now, GAP)
    _take_window(links, p)


@njit(cache=True)
def _take_window(links, p):
    """Let the window of a peer be that of its congestion control."""
    window = links.controls[p, congestion.WINDOW] // (congestion.UNIT // UNIT)
    links.peers[p].window = min(max(window, UNIT), links.config.widest * UNIT)


@njit(cache=True)
def _cut(peer, sent_ns, now):
    """Halve the window, unless what gave cause to it was sent before it was last halved."""
    if sent_ns >= peer.cut_ns:
        peer.window = max(peer.window >> 1, UNIT)
        peer.threshold = peer.window
        peer.cut_ns = now


@njit(cache=True)
def _lose(links, p, number):
    """A transmission counts as lost: what it carried is to be sent again."""
    peer = links.peers[p]
    remembered = links.carried.shape[1]
    links.again[p, (peer.again_first + peer.again) % remembered] = number
    links.carried[p, number % remembered] += LOST
    peer.again += 1
    peer.in_flight -= 1
    links.state.again += 1


@njit(cache=True)
def give_up(links, p, now):
    """Nothing has been acknowledged for a timeout: the oldest transmission is lost, or the second
    time all that are in flight."""
    peer = links.peers[p]
    first = peer.doublings == 0 and peer.round_trip_ns > 0
    while peer.oldest < peer.sequence:
        if 0 <= links.carried[p, peer.oldest % links.carried.shape[1]] < LOST:
            _lose(links, p, peer.oldest)
            if first:
                peer.doublings = 1
                _arm(links, peer, now)
                return
        peer.oldest += 1
    if links.config.controlled == 1:
        controls.on_timer(links.controls[p], now, TIMEOUT)
        _take_window(links, p)
    elif links.config.yields == 1:
        peer.threshold = max(peer.window >> 1, 2 * UNIT)
        peer.window = UNIT
        peer.cut_ns = now
    peer.doublings = min(peer.doublings + 1, LONGEST_BACKOFF)
    peer.timeout_ns = NEVER


# ---- what is sent ----


@njit(cache=True)
def send_acks(links, now, packets, lengths, destinations):
    """Do what is due, and write acknowledgements, the oldest first: in another order they would say
    that packets are lost. Returns how many."""
    state, config = links.state, links.config
    state.now_ns, state.rate_due_ns = now, NEVER
    if state.timer_ns <= now:
        _see_timers(links, now)
    filled = 0
    while filled < state.acks and filled < packets.shape[0]:
        ack, row = links.acks[filled], packets[filled]
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
        links.acks[i - filled] = links.acks[i]
    state.acks -= filled
    return filled


@njit(cache=True)
def _see_timers(links, now):
    """Do what is due, and find out when the next timer is."""
    state = links.state
    state.timer_ns = NEVER
    for p in range(links.peers.size):
        peer = links.peers[p]
        if peer.ack_due_ns <= now:
            close_ack(links, p)
        if peer.timeout_ns <= now:
            give_up(links, p, now)
        state.timer_ns = min(state.timer_ns, min(peer.timeout_ns, peer.ack_due_ns))


@njit(cache=True)
def has_room(links, p, iteration):
    """True if a peer's window lets another packet go, of an iteration of the machine."""
    peer = links.peers[p]
    if iteration > peer.iteration + 1:
        return peer.in_flight == 0
    in_memory = peer.sequence - peer.oldest < links.carried.shape[1]
    has_room = in_memory and (peer.in_flight + 1) * UNIT <= peer.window
    if has_room and peer.rate_due_ps > links.state.now_ns * 1000:
        due_ns = -(-peer.rate_due_ps // 1000)
        links.state.rate_due_ns = min(links.state.rate_due_ns, due_ns)
        return False
    return has_room


@njit(cache=True)
def may_send(links, now):
    """True if the pacer lets a packet go; else `pacing` is set."""
    if links.state.next_send_ps > now * 1000:
        links.state.pacing = 1
        return False
    return True


@njit(cache=True)
def first_lost(links, p):
    """The token of the first transmission to a peer that is to be made again; NONE if none is."""
    peer = links.peers[p]
    remembered = links.carried.shape[1]
    while peer.again > 0:
        carried = links.carried[p, links.again[p, peer.again_first % remembered] % remembered]
        if carried != NONE:
            return carried - LOST
        drop_lost(links, p)  # it had arrived
    return np.int64(NONE)


@njit(cache=True)
def drop_lost(links, p):
    """That transmission is not to be made again, or is being made."""
    peer = links.peers[p]
    remembered = links.carried.shape[1]
    links.carried[p, links.again[p, peer.again_first % remembered] % remembered] = NONE
    peer.again_first += 1
    peer.again -= 1
    links.state.again -= 1


@njit(cache=True)
def write_header(links, p, row, flags, fragment, extra):
    """Write the header of a packet to a peer, under a new sequence number; extra: above 0."""
    config = links.config
    sequence = links.peers[p].sequence & 0xFFFFFFFF
    wire.write_header(
        row, wire.CONTROL, 255, flags, config.job, 0, fragment, sequence, config.number
    )
    wire.set_extra(row, extra)


@njit(cache=True)
def note_sent(links, p, token, length, now):
    """A packet with a token has been written, with `length` bytes of payload."""
    peer = links.peers[p]
    place = peer.sequence % links.carried.shape[1]
    links.carried[p, place] = token
    links.sent_ns[p, place] = now
    peer.sequence += 1
    peer.in_flight += 1
    if peer.timeout_ns == NEVER:
        _arm(links, peer, now)
    links.counters[0].gradient_packets += 1
    if links.config.controlled == 1:
        control, octets = links.controls[p], FRAME_OVERHEAD + length
        controls.catch_up(control, now)
        controls.on_send(control, now, octets)
        gap_ps = 8 * 10**12 * octets // control[RATE]
        peer.rate_due_ps = max(peer.rate_due_ps, now * 1000 - gap_ps) + gap_ps
    worker_state.take_pace(links.state, links.config, now, length)


@njit(cache=True)
def deadline(links):
    """Time at which something is to be sent if nothing arrives before; ns, NEVER if there is
    nothing."""
    state = links.state
    if state.more == 1 or state.acks > 0:
        return 0
    due = min(state.timer_ns, state.rate_due_ns)
    if state.pacing == 1:
        due = min(due, worker_state.paced_ns(state, links.config))
    return due
