"""A host that sends and receives flows in virtual time: it generates, answers, and measures.

A flow has *templates*, packets that are complete but for the *tag*, 16 bytes: what it is (16 bits),
its flow (16), its number in the flow (32), and the time at which it was sent (64, ns), all
little-endian. A receiver keeps one row for each flow that arrives: packets, bytes, numbers that
came late or twice, and a histogram of latencies. What a host receives and sends has one of two
forms. Of a network file, it is whole frames, which end with the tag: P4 programs add and remove
headers at the front, so it is still there at the receiver, whatever they have done. Of background
traffic, it is the payload of UDP, which has the tag near its beginning
(`HOST.tag_end`); the rest of it is padding that is never written.

A flow sends packets at a rate, or its ends are those of the model of TCP in tcp_model.py or of a
reliable connection in reliable.py, whose functions it calls. Rates are exact: the rest of a
division is carried over to the next packet. Exponential gaps and periods come from an integer
logarithm, so they are equal on every machine.

flow_machine.py makes the machine of a host out of the flows that a file describes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from p4fabric.simulate import reliable, tcp_model
from p4fabric.simulate.jit import njit
from p4fabric.simulate.machine import STEPS
from p4fabric.simulate.mixing import mix2
from p4fabric.simulate.native import copy, peek, poke
from p4fabric.simulate.records import new_table, record
from p4fabric.simulate.reliable import NONE, RcEnds
from p4fabric.simulate.tcp_model import NEVER, TcpEnds

PORT = 18767  # of UDP, of background traffic
TAG_BYTES = 16
ACKNOWLEDGEMENT_BYTES = 8  # in front of the tag: what has arrived, beside the tag's number
NO_FLOW = 0xFFFF  # in a tag: a packet that is answered, but belongs to no flow
# What a tagged frame is
DATA, ANSWER, ACKNOWLEDGEMENT, NOTIFICATION = 0x1A51, 0x1A52, 0x1A53, 0x1A54
WINDOW = 1 << 14  # numbers behind a flow's last one of which a receiver knows whether they came
FINE = 128  # steps of a histogram in each doubling; below 2 FINE ns every value has its own
LONGEST_NS = 1 << 40  # of a histogram
BUCKETS = FINE * (41 - 8) + 2 * FINE
PENDING = 4096  # answers that a host can have in hand
UNTIL_END = 1 << 62

# A flow at its sender that is not TCP
SENDER = record(
    "flow",
    "tagged",
    "first",  # its templates: the first,
    "templates",  # and how many
    "drawn",  # 1: a template is drawn by weight, 0: each in turn
    "place",  # of the next template
    "packet_part",  # a gap after b bytes is (packet_part + b x byte_part) / divisor, ps
    "byte_part",
    "divisor",
    "remainder",  # of the division that gave the last gap
    "exponential",  # 1: gaps are drawn
    "burst",  # packets that leave together
    "in_burst",
    "gathered_ps",  # gaps of this burst's packets
    "on_ps",  # 0: always
    "off_ps",
    "drawn_periods",  # 1: these are means
    "silent_ps",  # end of the period in which it sends; -1: so long after the first packet
    "strict",  # 1: packets leave in its times, jitter included; 0: their exact times are in them
    "due_ps",  # the next packet
    "jitter_ps",  # with constant gaps: packets leave up to so much later (take_phase)
    "end_ps",
    "left",  # packets that it may still send
    "number",  # packets sent
    "octets",
    "stream",
    "periods",  # drawn so far
)

TEMPLATE = record(
    "start",  # in Generator.content
    "written",  # bytes there, at whose end the tag is
    "length",  # of the packet
    "destination",  # see machine.Batch
    "share",  # of 2^32, with all before it
)

# What sends and acknowledges by itself
TURN = record("kind", "place")  # in Generator.senders, .tcp or .rc
AT_RATE, TCP, RC = 0, 1, 2

# What a host has received of a flow. `answers` are those to its own packets.
RECEPTION = record(
    "host",
    "flow",
    "answers",
    "packets",  # all, copies included
    "octets",
    "different",  # packets without copies
    "duplicates",
    "late",  # after one with a higher number
    "marked",  # with a congestion mark (CE) in an IPv4 header behind the Ethernet header
    "furthest",
    "first_ns",
    "last_ns",
    "latency_ns",  # the sum
    "least_ns",
    "most_ns",
)

# A host, and what belongs to no flow
HOST = record(
    "number",
    "tag_end",  # in a payload; 0: packets are frames, which end with the tag
    "answer_ns",  # so long after a packet it sends an answer; -1: it does not answer
    "head",  # answers sent,
    "tail",  # and taken in hand
    "answers_dropped",
    "untagged",  # frames received that belong to no flow
    "untagged_octets",
)

# Of all hosts
SHARED = record("rows", "missing")  # rows of receptions that are in use; frames without one


class Receptions(NamedTuple):
    """R rows, which all hosts share."""

    shared: np.ndarray  # SHARED[1]
    rows: np.ndarray  # RECEPTION[R]
    histogram: np.ndarray  # int64[R, BUCKETS], packets by latency
    seen: np.ndarray  # int8[R, WINDOW], 1: the number of this remainder has arrived


class Generator(NamedTuple):
    """S senders, E ends of TCP, C of reliable connections, F flows in the network, T templates."""

    host: np.ndarray  # HOST[1]
    senders: np.ndarray  # SENDER[S]
    tcp: TcpEnds  # E
    rc: RcEnds  # C
    turns: np.ndarray  # TURN[*], in the order of their turns
    end_of: np.ndarray  # int32[F, 2], this host's end of a flow of TCP, of a connection; -1: none
    templates: np.ndarray  # TEMPLATE[T]
    content: np.ndarray  # uint8[*]
    answers: np.ndarray  # int8[F], 1: it answers packets of this flow, if it answers at all
    row_of: np.ndarray  # int32[F, 2], row of a flow, and of answers to it; -1: none yet
    receptions: Receptions
    pending: np.ndarray  # uint8[PENDING, B], answers in hand; B is 0 where there are none
    pending_ns: np.ndarray  # int64[PENDING, 2], when each leaves, and its length
    status: np.ndarray


def new_receptions(rows: int) -> Receptions:
    """Room for so many; a row that is not used takes no memory."""
    return Receptions(
        new_table(SHARED),
        np.zeros(rows, RECEPTION),
        np.zeros((rows, BUCKETS), np.int64),
        np.zeros((rows, WINDOW), np.int8),
    )


# -- draws


@njit(cache=True)
def exponential(drawn):
    """-ln of (drawn + 1) / 2^32, in 2^-20; `drawn` is uniform from 0 to 2^32 - 1.

    Binary logarithm by squaring: a square above 2 is a bit of the result."""
    part, whole = np.int64(drawn) + 1, np.int64(0)
    while part >= 1 << 31:
        part >>= 1
        whole += 1
    while part < 1 << 30:
        part <<= 1
        whole -= 1
    log2 = np.int64(0)
    for _ in range(24):
        part = part * part >> 30
        log2 <<= 1
        if part >= 1 << 31:
            part >>= 1
            log2 += 1
    return (((2 - whole) << 24) - log2) * 744261118 >> 34  # ln 2 x 2^30


@njit(cache=True)
def times(mean, share):
    """mean x share / 2^20, without overflow for means below 2^60 and shares below 2^25 of a
    smaller product."""
    return (mean >> 20) * share + ((mean & 0xFFFFF) * share >> 20)


@njit(cache=True)
def later_ps(sender, number):
    """Delay of a packet after its exact time, ps."""
    return mix2(sender.stream, number) * sender.jitter_ps >> 32


@njit(cache=True)
def _gap_ps(sender, length):
    """From a packet of so many bytes to the next one."""
    total = sender.packet_part + sender.byte_part * length + sender.remainder
    gap = total // sender.divisor
    sender.remainder = total % sender.divisor
    if sender.exponential == 1:
        return times(gap, exponential(mix2(sender.stream, sender.number)))
    return gap


@njit(cache=True)
def _period_ps(sender, mean):
    """Length of the next period in which it sends, or does not."""
    sender.periods += 1
    if sender.drawn_periods == 0:
        return mean
    return times(mean, exponential(mix2(mix2(sender.stream, 0x0FF), sender.periods)))


@njit(cache=True)
def _template(machine, sender):
    """The template of the next packet."""
    if sender.drawn == 0:
        place = sender.place
        sender.place = (place + 1) % sender.templates
        return sender.first + place
    drawn = mix2(mix2(sender.stream, 0x517E), sender.number)
    low, high = sender.first, sender.first + sender.templates - 1
    while low < high:
        middle = (low + high) // 2
        if machine.templates[middle].share > drawn:
            high = middle
        else:
            low = middle + 1
    return low


# -- packets


@njit(cache=True)
def _row(batch, row):
    """Address of a row of a batch."""
    return batch.packets.ctypes.data + row * 4 * batch.packets.shape[1]


@njit(cache=True)
def _tag(end, kind, flow, number, sent_ns):
    """Write a tag in front of this address."""
    poke(end - 16, kind | flow << 16 | (number & 0xFFFFFFFF) << 32)
    poke(end - 8, sent_ns)


@njit(cache=True)
def _fill(machine, out, row, template):
    """Put a template into a row; returns the address behind its tag."""
    chosen = machine.templates[template]
    start = _row(out, row)
    copy(start, machine.content.ctypes.data + chosen.start, chosen.written)
    out.lengths[row] = chosen.length
    out.destinations[row] = chosen.destination
    return start + chosen.written


@njit(cache=True)
def _send(machine, place, now, out, filled):
    """Send what is due of a flow; returns (rows filled, next deadline)."""
    sender = machine.senders[place]
    while filled < out.lengths.size:
        late_ps = sender.due_ps + later_ps(sender, sender.number - sender.in_burst)
        counted_ps = -(-late_ps // 1000) * 1000 if sender.strict == 1 else sender.due_ps
        if sender.left == 0 or counted_ps >= sender.end_ps:
            return filled, NEVER
        if sender.on_ps > 0 and sender.silent_ps < 0:
            sender.silent_ps = sender.due_ps + _period_ps(sender, sender.on_ps)
        if sender.on_ps > 0 and counted_ps >= sender.silent_ps and sender.in_burst == 0:
            begins = sender.silent_ps + _period_ps(sender, sender.off_ps)
            sender.silent_ps = begins + _period_ps(sender, sender.on_ps)
            if counted_ps < begins:
                sender.due_ps = begins
            if sender.strict == 1 and sender.due_ps > 1000 * now:
                return filled, -(-sender.due_ps // 1000)
            continue
        due_ns = -(-min(late_ps, sender.end_ps - 1) // 1000)
        if due_ns > now:
            return filled, due_ns
        template = _template(machine, sender)
        end = _fill(machine, out, filled, template)
        if sender.tagged == 1:
            _tag(end, DATA, sender.flow, sender.number, now)
        length = out.lengths[filled]
        filled += 1
        sender.gathered_ps += _gap_ps(sender, length)
        sender.number += 1
        sender.octets += length
        sender.left -= 1
        sender.in_burst += 1
        if sender.in_burst == sender.burst:
            sender.due_ps += sender.gathered_ps
            sender.in_burst = sender.gathered_ps = 0
    return filled, now


@njit(cache=True)
def _send_tcp(machine, place, now, out, filled):
    """The same of a sender of TCP."""
    sender = machine.tcp.ends[place]
    number = sender.number
    sent, due = tcp_model.send_window(machine.tcp, place, now, out.lengths.size - filled)
    for row in range(sent):
        end = _fill(machine, out, filled + row, sender.template)
        _tag(end, DATA, sender.flow, number + row, now)
    return filled + sent, due


@njit(cache=True)
def _acknowledge(machine, place, now, out, filled):
    """The same of a receiver of TCP."""
    end = machine.tcp.ends[place]
    if end.answer_at_ns <= now and filled < out.lengths.size:
        behind = _fill(machine, out, filled, end.template)
        _tag(behind, ACKNOWLEDGEMENT, end.flow, end.furthest, now)
        poke(behind - TAG_BYTES - ACKNOWLEDGEMENT_BYTES, end.before)
        end.owed, end.answer_at_ns = 0, NEVER
        filled += 1
    return filled, end.answer_at_ns


@njit(cache=True)
def _send_rc(machine, place, now, out, filled):
    """The same of a sender of a reliable connection."""
    sender = machine.rc.ends[place]
    while filled < out.lengths.size:
        number, due = reliable.next_packet(machine.rc, place, now)
        if number == NONE:
            return filled, due
        end = _fill(machine, out, filled, sender.template)
        _tag(end, DATA, sender.flow, number, now)
        filled += 1
    return filled, now


@njit(cache=True)
def _answer_rc(machine, place, now, out, filled):
    """The same of a receiver of one: a notification, and an acknowledgement."""
    end = machine.rc.ends[place]
    if end.notifies == 1 and filled < out.lengths.size:
        behind = _fill(machine, out, filled, end.template)
        _tag(behind, NOTIFICATION, end.flow, end.notified, now)
        end.notifies = 0
        end.notified += 1
        filled += 1
    if end.answer_at_ns <= now and filled < out.lengths.size:
        behind = _fill(machine, out, filled, end.template)
        expected, word = reliable.answered(end)
        _tag(behind, ACKNOWLEDGEMENT, end.flow, expected, end.echo_ns)
        poke(behind - TAG_BYTES - ACKNOWLEDGEMENT_BYTES, word)
        filled += 1
    return filled, now if end.notifies == 1 else end.answer_at_ns


# -- what has arrived


@njit(cache=True)
def bucket(latency_ns):
    """The place of a latency in a histogram."""
    least = min(max(latency_ns, 0), LONGEST_NS - 1)
    doublings = 0
    while least >> doublings >= 2 * FINE:
        doublings += 1
    return FINE * doublings + (least >> doublings)


@njit(cache=True)
def _row_of(machine, flow, answers):
    """The reception of a flow at this host, -1: there is no room for one more."""
    row = np.int64(machine.row_of[flow, answers])
    shared = machine.receptions.shared[0]
    if row < 0 and shared.rows < machine.receptions.rows.size:
        row = shared.rows
        shared.rows += 1
        machine.row_of[flow, answers] = row
        made = machine.receptions.rows[row]
        made.host, made.flow, made.answers = machine.host[0].number, flow, answers
        made.furthest = -1
    return row


@njit(cache=True)
def _is_marked(start):
    """True if a frame has an IPv4 header with a congestion mark."""
    word = peek(start + 12)  # type, big-endian, version and length, ToS
    return word & 0xFFFF == 0x0008 and word >> 24 & 3 == 3


@njit(cache=True)
def _note(machine, flow, answers, number, sent_ns, length, marked, now):
    """Count a packet."""
    place = _row_of(machine, flow, answers)
    if place < 0:
        machine.receptions.shared[0].missing += 1
        return
    row, seen = machine.receptions.rows[place], machine.receptions.seen[place]
    latency = now - sent_ns
    if row.packets == 0:
        row.first_ns, row.least_ns = now, latency
    row.packets += 1
    row.octets += length
    row.marked += marked
    row.last_ns = now
    row.latency_ns += latency
    row.least_ns = min(row.least_ns, latency)
    row.most_ns = max(row.most_ns, latency)
    machine.receptions.histogram[place, bucket(latency)] += 1
    if number > row.furthest:
        if number - row.furthest >= WINDOW:
            seen[:] = 0
        else:
            for each in range(row.furthest + 1, number):
                seen[each % WINDOW] = 0
        row.furthest = number
    elif number > row.furthest - WINDOW and seen[number % WINDOW] == 1:
        row.duplicates += 1
        return
    else:
        row.late += 1
    if number > row.furthest - WINDOW:
        seen[number % WINDOW] = 1
    row.different += 1


@njit(cache=True)
def _swap(first, second, count):
    """Exchange so many bytes, at most 8, at two addresses."""
    mask = (np.int64(1) << 8 * count) - 1
    here, there = peek(first), peek(second)
    poke(first, (here & ~mask) | (there & mask))
    there = peek(second)
    poke(second, (there & ~mask) | (here & mask))


@njit(cache=True)
def _answer(machine, start, length, now):
    """Take an answer in hand: the same frame, with its addresses exchanged."""
    host = machine.host[0]
    if host.tail - host.head >= PENDING or length + 8 > machine.pending.shape[1]:
        host.answers_dropped += 1
        return
    place = host.tail % PENDING
    host.tail += 1
    frame = machine.pending.ctypes.data + place * machine.pending.shape[1]
    copy(frame, start, length)
    _swap(frame, frame + 6, 6)
    if peek(frame + 12) & 0xFFFF == 0x0008 and length >= 34:  # IPv4, big-endian
        _swap(frame + 26, frame + 30, 4)
        protocol, words = peek(frame + 23) & 0xFF, peek(frame + 14) & 15
        ports = frame + 14 + 4 * words
        if (protocol == 17 or protocol == 6) and 14 + 4 * words + 8 <= length:
            _swap(ports, ports + 2, 2)
    end = frame + length
    poke(end - 16, (peek(end - 16) & ~0xFFFF) | ANSWER)
    machine.pending_ns[place, 0] = now + host.answer_ns
    machine.pending_ns[place, 1] = length


@njit(cache=True)
def _receive(machine, start, length, marked, now, out, filled):
    """Handle a packet; returns how many rows are filled."""
    host = machine.host[0]
    flow, kind = -1, 0
    whole = host.tag_end == 0
    behind = start + (length if whole else host.tag_end)
    if length >= (14 + TAG_BYTES if whole else host.tag_end):
        first, sent_ns = peek(behind - 16), peek(behind - 8)
        kind, flow, number = first & 0xFFFF, first >> 16 & 0xFFFF, first >> 32 & 0xFFFFFFFF
    if kind == DATA and flow == NO_FLOW and host.answer_ns >= 0:
        _answer(machine, start, length, now)
    if not DATA <= kind <= NOTIFICATION or flow >= machine.end_of.shape[0]:
        host.untagged += 1
        host.untagged_octets += length
        return filled
    place, connection = np.int64(machine.end_of[flow, 0]), np.int64(machine.end_of[flow, 1])
    if kind == ACKNOWLEDGEMENT:
        word = peek(behind - TAG_BYTES - ACKNOWLEDGEMENT_BYTES)
        if place >= 0 and machine.tcp.ends[place].sending == 1:
            tcp_model.acknowledged(machine.tcp, place, number, word, now)
        if connection >= 0 and machine.rc.ends[connection].sending == 1:
            reliable.acknowledged(machine.rc, connection, number, word, sent_ns, now)
        return filled
    if kind == NOTIFICATION:
        if connection >= 0 and machine.rc.ends[connection].sending == 1:
            reliable.notified(machine.rc, connection, now)
        return filled
    if whole:
        marked = np.int64(_is_marked(start))
    _note(machine, flow, int(kind == ANSWER), number, sent_ns, length, marked, now)
    if kind == ANSWER:
        return filled
    if place >= 0:
        end = machine.tcp.ends[place]
        if end.sending == 0:
            tcp_model.receive(end, number, now)
            filled, _ = _acknowledge(machine, place, now, out, filled)
    elif connection >= 0:
        if machine.rc.ends[connection].sending == 0:
            reliable.receive(machine.rc, connection, number, sent_ns, marked, now)
            filled, _ = _answer_rc(machine, connection, now, out, filled)
    elif host.answer_ns >= 0 and machine.answers[flow] == 1:
        _answer(machine, start, length, now)
    return filled


@njit(cache=True)
def step(machine, now, arrived, count, out):
    """Take `count` packets at `now`, fill `out`; see machine.step."""
    host = machine.host[0]
    filled = 0
    for row in range(count):
        start, length, marked = _row(arrived, row), arrived.lengths[row], arrived.destinations[row]
        filled = _receive(machine, start, length, marked, now, out, filled)
    deadline = NEVER
    for number in range(machine.turns.size):
        turn = machine.turns[number]
        if turn.kind == AT_RATE:
            filled, due = _send(machine, turn.place, now, out, filled)
        elif turn.kind == RC:
            if machine.rc.ends[turn.place].sending == 1:
                filled, due = _send_rc(machine, turn.place, now, out, filled)
            else:
                filled, due = _answer_rc(machine, turn.place, now, out, filled)
        elif machine.tcp.ends[turn.place].sending == 1:
            filled, due = _send_tcp(machine, turn.place, now, out, filled)
        else:
            filled, due = _acknowledge(machine, turn.place, now, out, filled)
        deadline = min(deadline, due)
    while host.head < host.tail:
        place = host.head % PENDING
        if filled == out.lengths.size or machine.pending_ns[place, 0] > now:
            deadline = min(deadline, max(machine.pending_ns[place, 0], now))
            break
        length = machine.pending_ns[place, 1]
        frame = machine.pending.ctypes.data + place * machine.pending.shape[1]
        copy(_row(out, filled), frame, length)
        out.lengths[filled] = length
        out.destinations[filled] = 0
        filled += 1
        host.head += 1
    return filled, deadline


STEPS[Generator] = step
