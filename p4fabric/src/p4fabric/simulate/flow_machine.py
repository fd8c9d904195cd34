"""The machine of a host out of its flows, and its counts, for experiments and for network files
alike.

A sender has a phase and a jitter of its own, unless runs are exact: it sends a packet every so many
picoseconds, from a time of its own on and each later by up to as much. Real sources are in step
with no other ones; where sources are in step, their phases alone decide whose packets find the last
place in a queue.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from p4fabric.base.flow import Flow
from p4fabric.base.transports import LOSSLESS_TIMEOUT_NS, RECOVERIES
from p4fabric.simulate import controls, reliable, tcp_model
from p4fabric.simulate.congestion import PACKET, RATE, TRIP, UNIT, WINDOW
from p4fabric.simulate.generator import (
    AT_RATE,
    FINE,
    PENDING,
    RC,
    SENDER,
    TCP,
    TEMPLATE,
    TURN,
    UNTIL_END,
    Generator,
    Receptions,
)
from p4fabric.simulate.mixing import mix2
from p4fabric.simulate.records import new_status, new_table
from p4fabric.simulate.tcp_model import NEVER

STREAM = 0xB6F3  # distinguishes the random numbers of flows from others of the same seed
MOST_OFF_PS = 1 << 30  # the latest that a packet leaves behind its exact time, about 1 ms
PHASE = 0x9A5E  # the number of the random number that is a sender's phase
TIMEOUT_PACKETS = 400
COUNTED = ("received", "received_bytes", "duplicates", "late", "marked")
LATENCIES = ("min_ns", "mean_ns", "p50_ns", "p99_ns", "max_ns")


class Way(NamedTuple):
    """A shortest path of a flow's packets. `first_bps`: of the sender's link, 0: unlimited;
    `round_trip_ns`: in the empty network; `loses`: False where what is late can only be paused."""

    first_bps: int
    slowest_bps: int
    round_trip_ns: int
    links: int = 2
    loses: bool = True

    def trip_ns(self, packet_bytes: int) -> int:
        """Round trip of a packet in the empty network, with its times on the links; the answer's
        bytes do not count."""
        return self.round_trip_ns + self.links * self._packet_ns(packet_bytes)

    def product_packets(self, packet_bytes: int) -> int:
        """The product of bandwidth and delay, in packets."""
        return -(-self.trip_ns(packet_bytes) // self._packet_ns(packet_bytes)) + 1

    def _packet_ns(self, packet_bytes: int) -> int:
        return max(8 * packet_bytes * 10**9 // self.slowest_bps, 1)

    def timeout_ns(self, packet_bytes: int) -> int:
        """The least timeout of TCP: 400 packets' times on the slowest link, and four round
        trips."""
        return (
            TIMEOUT_PACKETS * 8 * packet_bytes * 10**9 // self.slowest_bps + 4 * self.round_trip_ns
        )


def _packet_ps(packet_bytes: int, rate_bps: int) -> int:
    """Time of a packet on a link; 0 where its rate is unlimited."""
    return -(-8 * packet_bytes * 10**12 // rate_bps) if rate_bps else 0


class HostFlows:
    """The flows of one host, while its machine is made of them."""

    def __init__(self, seed: int, end_ns: int = NEVER, is_exact: bool = False) -> None:
        """`end_ns`: when flows end at the latest; `is_exact`: they may be in step."""
        self._seed, self._end_ns, self._is_exact = seed, end_ns, is_exact
        self._senders = [np.zeros(0, SENDER)]
        self._ends: list[np.ndarray] = []
        self._connections: list[np.ndarray] = []
        self._controls: list[np.ndarray] = []
        self._turns: list[tuple[int, int]] = []
        self._templates: list[tuple[int, ...]] = []
        self._content = b""

    def _add_template(self, content: bytes, share: int, length: int, destination: int) -> int:
        written, length = len(content), length or len(content)
        self._templates.append((len(self._content), written, length, destination, share))
        self._content += content
        return len(self._templates) - 1

    def _stream(self, flow: Flow, purpose: int) -> int:
        return int(mix2(mix2(self._seed, purpose), flow.number))

    def add_sender(
        self,
        flow: Flow,
        packets: Sequence[tuple[bytes, int]],
        packet_bytes: int,
        purpose: int = STREAM,
        length: int = 0,
        destination: int = 0,
        **more: int,
    ) -> None:
        """Add the sender of a flow at a rate. `packets`: content and weight of each template;
        `packet_bytes`: of the first one's packet; `purpose`: of its random numbers; `length`, 0: of
        its content, and `destination`: see TEMPLATE; `more`: further fields of SENDER, among them
        those that give the gaps."""
        keys, end_ns = flow.keys, flow.keys.ends_ns(self._end_ns)
        first, total, so_far = len(self._templates), sum(weight for _, weight in packets), 0
        for content, weight in packets:
            so_far += weight
            self._add_template(content, (so_far << 32) // total, length, destination)
        usual = {"tagged": 1, "burst": 1, "left": UNTIL_END, "silent_ps": -1}
        made = new_table(
            SENDER,
            flow=flow.number,
            first=first,
            templates=len(packets),
            on_ps=1000 * (keys.on_ns or 0),
            off_ps=1000 * (keys.off_ns or 0),
            due_ps=1000 * keys.start_ns,
            end_ps=UNTIL_END if end_ns == NEVER else 1000 * end_ns,
            stream=self._stream(flow, purpose),
            **(usual | more),
        )
        row = made[0]
        gap_ps = int((row.packet_part + packet_bytes * row.byte_part) // row.divisor)
        gap_ps *= int(row.burst)
        if row.strict and row.on_ps:  # a packet that leaves later than that, in whole ns, is in no
            gap_ps = min(gap_ps, int(row.on_ps) - 1000)  # period, and would never be sent
        jitter_ps = self._take_phase(made, gap_ps)
        row.jitter_ps = 0 if row.exponential else jitter_ps
        self._turns.append((AT_RATE, len(self._senders) - 1))
        self._senders.append(made)

    def add_end(
        self,
        flow: Flow,
        sends: bool,
        content: bytes,
        packet_bytes: int,
        way: Way,
        length: int = 0,
        destination: int = 0,
        **more: int,
    ) -> None:
        """Add an end of a flow of TCP or of a reliable connection, whose packets have so many
        bytes. `content`: of its data or acknowledgements; `more`: further fields of END."""
        keys = flow.keys
        more |= {
            "flow": flow.number,
            "template": self._add_template(content, 0, length, destination),
            "sending": int(sends),
            "length": packet_bytes,
            "stream": self._stream(flow, STREAM),
            "start_ns": keys.start_ns,
            "end_ns": keys.ends_ns(self._end_ns),
            "on_ns": keys.on_ns or 0,
            "off_ns": keys.off_ns or 0,
            "due_ps": 1000 * keys.start_ns,
            "next_ns": keys.start_ns,
            "furthest": -1,
            "least_timeout_ns": self._least_timeout_ns(keys.is_rc, packet_bytes, way),
            "timeout_at_ns": NEVER,
            "answer_at_ns": NEVER,
        }
        if keys.is_rc:
            kind, ends, rate_bps = RC, self._connections, way.first_bps or way.slowest_bps
            made = self._connection(flow, packet_bytes, rate_bps, way, more)
        else:
            kind, ends, rate_bps = TCP, self._ends, way.first_bps
            made = new_table(
                tcp_model.END,
                interval_ps=_packet_ps(packet_bytes, rate_bps),
                window=tcp_model.FIRST_WINDOW * tcp_model.UNIT,
                threshold=tcp_model.RING * tcp_model.UNIT,
                **more,
            )
        if sends:
            self._take_phase(made, _packet_ps(packet_bytes, rate_bps))
        self._turns.append((kind, len(ends)))
        ends.append(made)

    @staticmethod
    def _least_timeout_ns(is_rc: bool, packet_bytes: int, way: Way) -> int:
        usual = way.timeout_ns(packet_bytes)
        return usual if way.loses or not is_rc else max(usual, LOSSLESS_TIMEOUT_NS)

    def _connection(
        self, flow: Flow, packet_bytes: int, line_bps: int, way: Way, fields: dict[str, int]
    ) -> np.ndarray:
        """An end of a reliable connection, whose control's words are kept."""
        keys, trip_ns = flow.keys, way.trip_ns(packet_bytes)
        words = controls.new_words(
            keys.control,
            line_bps,
            packet_bytes,
            trip_ns,
            way.product_packets(packet_bytes),
            keys.window_packets,
            keys.start_ns,
        )
        self._controls.append(words)
        cnp_ns = controls.CONTROLS[keys.control].cnp_ns
        return new_table(
            reliable.END,
            recovery=RECOVERIES.index(keys.recovery or RECOVERIES[0]),
            ack_every=keys.ack_every or 1,
            answer_ns=trip_ns,
            limit=0 if fields.get("burst") else NEVER,
            cnp_ns=-1 if cnp_ns is None else cnp_ns,
            **fields,
        )

    def _take_phase(self, sender: np.ndarray, gap_ps: int) -> int:
        """Give a SENDER or END with a gap of `gap_ps` between its packets a phase of its own;
        returns the jitter that goes with it."""
        gap_ps = 0 if self._is_exact else min(gap_ps, MOST_OFF_PS)
        sender["due_ps"] += int(mix2(int(sender["stream"][0]), PHASE)) * gap_ps >> 32
        return gap_ps

    def machine(
        self,
        host: np.ndarray,
        flows: int,
        receptions: Receptions,
        answers: np.ndarray | None = None,
        frame_bytes: int = 0,
    ) -> Generator:
        """The machine of `host`, a table of one HOST, beside so many flows. `answers`: see
        Generator, None: of all flows; `frame_bytes`: of the longest frame it may answer."""
        end_of = np.full((flows, 2), -1, np.int32)
        for column, ends in enumerate((self._ends, self._connections)):
            for place, end in enumerate(ends):
                end_of[end["flow"], column] = place
        answers_at_all = host["answer_ns"][0] >= 0
        return Generator(
            host=host,
            senders=np.concatenate(self._senders),
            tcp=tcp_model.new_ends(self._ends),
            rc=reliable.new_ends(self._connections, self._controls),
            turns=np.array(self._turns, TURN),
            end_of=end_of,
            templates=np.array(self._templates, TEMPLATE),
            content=np.frombuffer(self._content or b"\0", np.uint8),
            answers=np.ones(flows, np.int8) if answers is None else answers,
            row_of=np.full((flows, 2), -1, np.int32),
            receptions=receptions,
            pending=np.zeros((PENDING, frame_bytes + 8 if answers_at_all else 0), np.uint8),
            pending_ns=np.zeros((PENDING, 2), np.int64),
            status=new_status(),
        )


# -- what it has counted


def sent(machine: Generator, flow: Flow) -> tuple[int, int]:
    """Packets and bytes that a flow's sender, at this host, has sent."""
    if flow.keys.is_tcp:
        end = machine.tcp.ends[machine.end_of[flow.number, 0]]
        return int(end.packets_sent), int(end.packets_sent) * int(end.length)
    if flow.keys.is_rc:
        end = connection(machine, flow)
        return int(end.packets_sent), int(end.packets_sent) * int(end.length)
    row = machine.senders[machine.senders["flow"] == flow.number][0]
    return int(row["number"]), int(row["octets"])


def connection(machine: Generator, flow: Flow) -> np.record:
    """The end at this host of a flow that is a reliable connection."""
    return machine.rc.ends[machine.end_of[flow.number, 1]]


def sending_bps(machine: Generator, flow: Flow) -> int:
    """The rate at which the congestion control of a reliable connection lets its sender, at this
    host, send now: its rate, or that of a window per round trip, if that is less."""
    end, words = connection(machine, flow), machine.rc.controls[machine.end_of[flow.number, 1]]
    trip_ns = max(int(end.smoothed_ns) or int(words[TRIP]), 1)
    window_bits = 8 * int(words[PACKET]) * int(words[WINDOW]) // UNIT
    return min(int(words[RATE]), window_bits * 10**9 // trip_ns)


def measured(receptions: Receptions, place: int) -> dict[str, Any]:
    """COUNTED packets and bytes, copies included, and LATENCIES of a row of receptions; -1: nothing
    has arrived, and latencies are None."""
    if place < 0:
        return {**dict.fromkeys(COUNTED, 0), **dict.fromkeys(LATENCIES)}
    row, histogram = receptions.rows[place], receptions.histogram[place]
    return {
        "received": int(row.packets),
        "received_bytes": int(row.octets),
        "duplicates": int(row.duplicates),
        "late": int(row.late),
        "marked": int(row.marked),
        "min_ns": int(row.least_ns),
        "mean_ns": int(row.latency_ns) / int(row.packets),
        "p50_ns": percentile(histogram, 50, row),
        "p99_ns": percentile(histogram, 99, row),
        "max_ns": int(row.most_ns),
    }


def percentile(histogram: np.ndarray, per_cent: int, row: np.record) -> int:
    """The smallest latency that so many of all packets do not exceed: exact below 256 ns, else the
    middle of a step of the histogram, whose width is at most 1/128 of it."""
    rank = -(-int(histogram.sum()) * per_cent // 100)
    place = int(np.searchsorted(np.cumsum(histogram), rank))
    if place < 2 * FINE:
        return place
    doublings = place // FINE - 1
    low = place - FINE * doublings << doublings
    middle = low + (1 << doublings) // 2
    return int(min(max(middle, row.least_ns), row.most_ns))
