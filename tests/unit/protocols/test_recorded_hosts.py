"""One host of each system, with packets and at times that nobody would choose, against the record
of what it did (tests/support/recorded.py): all that it sends, when it wants to be called next, and
what it counts.

What comes answers what it has sent, mostly: results and acknowledgements, late, twice or never;
sums in pieces; questions. Some packets have another field than they should. No sum is wrong, but
for one that a second worker gets, which says where.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

from testbed.protocols import send_scoreboard, server_store, sizes, wire, worker_state
from testbed.workload import worker
from tests.support import recorded
from tests.support.one_host import BASE, FULL, VALUES, OneHost, OneServer, OneWorker, Packet
from tests.support.recorded import Draw

US, MS = 1000, 1_000_000
FILE = "hosts"
STEPS = 400
SENT_LAST = 60  # packets that may be answered
RIGHT = 15  # packets before one is wrong
LINK = "links: {bandwidth: 100 Mbit/s}"
NARROW = "links: {bandwidth: 100 kbit/s}"
FAST = "links: {bandwidth: 1 Gbit/s}"
SLOW = "links: {bandwidth: 50 kbit/s}"  # what is acknowledged takes a packet's turn
KEEPS = "faults: [{fault: restart, switch: s1, at: 1 s}]"
SHORT = "value_bits: 16"
UP, DOWN = 0, 1

POSITIONS = {"window_rule": "positions"}
RECORDED = {"trace": "smallcnn", "workers": 4}
WORKERS: dict[str, dict[str, Any]] = {
    "esa": {"window": 6},
    "esa on a link": {"window": 40, "keys": LINK, "compute": 1, "zeros": "header_only"},
    "esa with positions, 16 bits": {"window": 4, **POSITIONS, "keys": SHORT, "timeout": "2 ms"},
    "esa on a narrow link": {"window": 40, "order": "fifo", "keys": NARROW},
    "esa of many workers": {"window": 40, "workers": 40, "number": 33, "priority": "remaining"},
    "atp": {"window": 4, "timeout": "2 ms"},
    "atp on a link": {"window": 6, "keys": LINK, "window_rule": "in_flight", "compute": 1},
    "atp in turn": {"window": 6, "index": "consecutive", "gap": 2, "timeout": "2 ms", "room": 2},
    "atp of recorded gradients": {"window": 9, "timeout": "2 ms", **RECORDED},
    "a2tp": {"window": 6},
    "a2tp on a link": {"window": 4, "keys": LINK, "timeout": "2 ms", "aggregators": 4},
    "grid": {"window": 6, "collision": "drop", "keys": "switches: {capacity: 1 Gbit/s}\n" + LINK},
    "grid that grows": {"window": 40, "window_growth": "packet", "order": "fifo", "keys": FAST},
    "ps": {"window": 6, "order": "fifo", "timeout": "2 ms"},
    "ps with servers": {"window": 3, "servers": 2, "keys": LINK, "compute": 1},
    "switchml": {"timeout": "2 ms"},
    "switchml on a link": {"sets": 1, "keys": LINK, "compute": 1, "aggregators": 3},
    "switchml with 16 bits": {"keys": SHORT, "zeros": "header_only", "aggregators": 6},
    "switchml of recorded gradients": {"timeout": "2 ms", **RECORDED},
    "switchml of recorded gradients, 16 bits": {"keys": SHORT, "aggregators": 64, **RECORDED},
    "switchml of recorded gradients, 8 bits": {"sum": "int8", "timeout": "2 ms", **RECORDED},
    "tree": {"keys": KEEPS, "timeout": "2 ms", "workers": 4},
    "tree on a link": {"keys": f"{LINK}\n{KEEPS}", "workers": 5, "aggregators": 8},
    "ring": {"number": 1, "window": 40, "timeout": "2 ms"},
    "ring on a link": {"number": 1, "window": 3, "keys": LINK, "compute": 1},
    "ring on a slow link": {"number": 1, "window": 8, "keys": SLOW, "room": 2, "workers": 40},
    "ring with acks": {"number": 1, "window": 8, "keys": "timers: {ack_delay: 30 us}"},
    "ring of zeros": {"number": 1, "window": 2, "zeros": "header_only", "order": "fifo"},
    "ring of two": {"number": 1, "workers": 2, "window": 40, "timeout": "2 ms", "order": "fifo"},
    "ring of one": {"workers": 1, "window": 40},
}
SERVERS: dict[str, dict[str, Any]] = {
    "esa": {"window": 6, "reminder": "true"},
    "esa that delivers": {"window": 6, "reminder": "true", "results_from": "switch"},
    "esa with positions": {"window": 4, **POSITIONS, "reminder": "true"},
    "esa of many workers": {"window": 6, "workers": 40, "reminder": "true"},
    "esa without reminders": {"window": 6, "reminder": "false", "room": 7},
    "esa with little room": {"window": 6, "reminder": "true", "room": 5},
    "esa of few results": {"window": 1, "reminder": "true"},
    "atp": {"window": 6, "reminder": "true", "gap": 1},
    "atp on a link": {"window": 4, "reminder": "true", "keys": LINK, "aggregators": 4},
    "atp of recorded gradients": {"window": 9, "reminder": "true", **RECORDED},
    "atp of few results": {"window": 1, "reminder": "true"},
    "a2tp": {"window": 6, "reminder": "true"},
    "grid": {"window": 6, "reminder": "true", "keys": "switches: {capacity: 1 Gbit/s}\n" + LINK},
    "ps": {"window": 6, "zeros": "header_only"},
    "ps with 16 bits": {"window": 6, "keys": SHORT, "servers": 2},
    "ps on a narrow link": {"window": 6, "keys": NARROW},
    "ps with little room": {"window": 6, "room": 4},
}
FEW = "few results"  # in a server's name: of all that are complete, it keeps two


class Peers(NamedTuple):
    """Who sends packets to a host. `sent`: what it has sent lately; `given`: what has come."""

    host: Any
    draw: Draw
    sent: list[Packet]
    given: list[Packet]

    def packets(self) -> list[Packet]:
        return [self.packet() for _ in range(self.draw.one((0, 1, 1, 2, 3)))]

    def packet(self) -> Packet:
        draw, host = self.draw, self.host
        if self.given and draw.chance(12):
            return self._changed(draw.one(self.given))
        if not host.is_worker:
            return self._of_worker()
        if host.job.system == "ring":
            return self._of_neighbour()
        if host.job.system in ("switchml", "tree"):
            return self._of_slots()
        return self._of_server()

    def _changed(self, packet: Packet) -> Packet:
        """One that has come before, perhaps with another field; a sum stays the fragment's."""
        draw, fragments = self.draw, self.host.fragments
        row, length = packet.row.copy(), packet.length
        what = draw.one(
            ("twice", "twice", "version", "kind", "job", "length", "iteration", "sender")
        )
        head = wire.word(row, 0)
        if what == "version":
            wire.set_word(row, 0, head ^ 0x30000000)
        elif what == "kind":
            wire.set_word(row, 0, head & 0xF0FFFFFF | draw.one((0, 4, 5, 12, 15)) << 24)
        elif what == "job":
            wire.set_word(row, 1, wire.word(row, 1) + (draw.one((1, 2)) << 16))
        elif what == "length":
            length = draw.one((0, 4 * BASE - 4, FULL - 4, max(4 * BASE - 4, length - 2)))
        elif what == "iteration" and self.host.job.system not in ("ring", "switchml", "tree"):
            whole = wire.fragment(row) + fragments * draw.one((1, 2, -1, -2))
            now = whole // fragments == getattr(self.host, "iteration", -1)
            wire.set_word(row, 2, whole + 3 * fragments * now)  # its sum is another iteration's
        elif what == "sender":
            named = draw.one((0, 3, 4, 5, 31, 0xFFFF)) << 16
            wire.set_word(row, 5, wire.word(row, 5) & 0xFFFF | named)
        return Packet(row, length, words=packet.words)

    def _flags(self, *more: int) -> int:
        common = (0, 0, 0, 0, wire.ECN, wire.OVERFLOW, wire.RESEND, wire.RESEND | wire.REMINDED)
        return self.draw.one((*common, *more))

    def _fragment(self) -> tuple[int, int]:
        """(iteration, fragment) of one that was sent, or of any."""
        draw, host = self.draw, self.host
        if self.sent and draw.chance(90):
            return divmod(draw.one(self.sent).fragment, host.fragments)
        iteration = max(0, host.iteration + draw.one((0, 0, -1, 1))) if host.is_worker else 0
        return iteration, draw.randrange(host.fragments)

    def _of_server(self) -> Packet:
        draw, host = self.draw, self.host
        iteration, fragment = self._fragment()
        asks = draw.chance(15)
        if asks or iteration != host.iteration:
            kind = draw.one((wire.ASK, wire.ASK, wire.COLLIDED))
            flags = draw.one((0, 0, wire.AGAIN)) if kind == wire.ASK else wire.COLLISION
            if host.recorded and kind == wire.ASK and draw.chance(30):
                flags = wire.FLOAT
            return host.packet(kind, fragment, iteration, flags=flags)
        extra = draw.one((0, 1 + iteration * host.fragments + draw.randrange(host.fragments)))
        if host.job.system in ("atp", "a2tp") or hasattr(host.worker.rules, "positions"):
            extra = draw.randrange(4)
        kind = draw.one((wire.RESULT, wire.RESULT, wire.RESULT, wire.RESULT_ONE))
        flags = self._flags(*[wire.CONTENDED] * 3 * (host.job.system == "a2tp"))
        sender = draw.one((wire.SERVER, wire.SERVER, 1))
        fields = {"flags": flags, "extra": extra, "sender": sender}
        if host.recorded and draw.chance(30):
            fields["flags"] |= wire.FLOAT
            fields["numbers"] = self._recorded(host.worker.floats.sums, fragment, iteration)
        elif host.recorded:
            fields["numbers"] = self._recorded(host.worker.sums, fragment, iteration)
        return host.result(fragment, iteration, kind, **fields)

    def _recorded(self, sums: np.ndarray, fragment: int, iteration: int) -> list[int]:
        """The words of the sum of a fragment; zeros for that of a chunk without one."""
        if fragment < 0:
            return [0] * VALUES
        found = sums[iteration % len(sums), VALUES * fragment : VALUES * (fragment + 1)]
        floats = found.astype(np.float32).view(np.int32)
        return (found if sums.dtype == np.int32 else floats).tolist()

    def _of_slots(self) -> Packet:
        draw, host = self.draw, self.host
        window, stream = host.protocol.window, host.protocol.stream
        chunks = int(window.chunks)
        first = max(0, host.iteration) * chunks
        numbers = [packet.fragment for packet in self.sent if packet.fragment >= first]
        number = (
            draw.one(numbers) if numbers and draw.chance(95) else first + draw.randrange(chunks)
        )
        if host.protocol.kept.chunk.size and draw.chance(25):
            number += draw.one((0, 0, -host.config.window, host.config.window))
            ask = host.packet(wire.ASK, sender=draw.one((1, 2, 3, host.workers)))
            wire.set_word(ask.row, 2, max(0, number))
            return ask
        iteration, place = divmod(number, chunks)
        kind = draw.one((wire.RESULT, wire.RESULT, wire.RESULT_ONE))
        fragment = int(stream.fragment[place])
        fields = {}
        if host.recorded:
            fields["numbers"] = self._recorded(host.worker.sums, fragment, iteration)
            fields["exponents"] = (0, draw.randrange(1, 8))
        packet = host.result(fragment, iteration, kind, flags=self._flags(), **fields)
        wire.set_word(packet.row, 2, number)
        return packet

    def _of_neighbour(self) -> Packet:
        """Of the member before this one; acknowledgements of the one behind it."""
        draw, host, count = self.draw, self.host, self.host.workers
        data = [packet for packet in self.sent if packet.extra]
        if data and draw.chance(50):
            first = draw.one(data).index - draw.one((0, 0, 1, 31))
            bits = draw.one((1, 3, 7, 0x80000001, draw.randrange(1 << 32), 0))
            first += draw.one((0, 0, 0, 0, 0, 0, 512, -64, -65, 64, 32))
            iteration = draw.one((0, 0, 0, 1))
            return host.packet(
                wire.CONTROL,
                iteration and host.iteration + 1,
                index=first & 0xFFFFFFFF,
                bitmap=bits,
                flags=draw.one((0, 0, wire.ECN)),
                sender=2,
            )
        iteration = max(0, host.iteration + draw.one((0, 0, 0, 0, 1, 1, -1, 2)))
        fragment = draw.randrange(host.fragments)
        up = draw.chance(50)
        missing = np.flatnonzero(host.scoreboard.status & send_scoreboard.RECEIVED == 0)
        if missing.size and draw.chance(70):  # what ends the iteration
            fragment, iteration = int(draw.one(missing)), max(0, host.iteration)
            up = up if fragment % count > 1 else fragment % count == 1
        chunk = (fragment + (count > 3 and draw.chance(10))) % count
        fields = {"sender": 0, "index": draw.randrange(120) + 40 * iteration}
        fields["flags"] = self._flags(*[wire.FROM_ONE] * (count > 3))
        if up:
            members = [(1 - k) % count for k in range((0 - fragment) % count, 0, -1)]
            bits = sum(1 << member for member in members)
            numbers = host.sum_of(members, fragment, iteration) if members else [0] * 4
            extra = 1 + 2 * chunk + UP
            return host.packet(
                wire.CONTROL, fragment, iteration, numbers, bitmap=bits, extra=extra, **fields
            )
        extra = 1 + 2 * chunk + DOWN
        return host.result(fragment, iteration, wire.CONTROL, extra=extra, **fields)

    def _of_worker(self) -> Packet:
        """What comes to a server: most fragments of a round, then those of the next one."""
        draw, host = self.draw, self.host
        iteration, fragment = divmod(len(self.given) // 6, host.fragments)
        fragment += draw.one((0, 0, 0, 0, 1, 1, 2, -1, -2))
        iteration += fragment // host.fragments
        fragment %= host.fragments
        iteration = max(iteration, 0)
        if draw.chance(10):
            fields = {"flags": draw.one((0, wire.RESEND)), "index": fragment % 4}
            return host.packet(wire.REMINDER_EMPTY, fragment, iteration, sender=1, **fields)
        who = draw.one(((0,), (1,), (2,), (0, 1), (1, 2), (0, 2), (0, 1, 2)))
        if host.workers > 3:
            everyone = range(host.workers)
            half = host.workers // 2
            parts = everyone[:half], everyone[half:], everyone[::2], everyone[1::2], everyone[-1:]
            who = draw.one((*parts, everyone[:-1], everyone))
        flags = draw.one(
            (
                *(0, 0, 0, wire.ECN, wire.OVERFLOW, wire.PARTIAL, wire.PARTIAL | wire.REMINDED),
                *(wire.COLLISION, wire.RESEND, wire.RESEND | wire.REMINDED),
                *(wire.RESEND | wire.PARTIAL, wire.OVER_RATE | wire.COLLISION),
            )
        )
        fields = {"index": fragment % 4, "extra": draw.one((0, 1000, 40_000))}
        if host.recorded and draw.chance(40):
            flags |= wire.FLOAT
            fields["numbers"] = np.float32([draw.random(), -2, 1e9, who[0]]).view(np.int32).tolist()
        if host.job.system not in ("a2tp", "grid"):
            fields["extra"] = 0
        return host.gradient(fragment, *who, iteration=iteration, flags=flags, **fields)


def wrong_value(host: OneWorker, draw: Draw) -> str:
    """What a worker says of the first value that is not its sum's; the first packets are right."""
    peers, sent = Peers(host, draw, [], []), host.step(0)
    for step in range(1, STEPS):
        peers.sent.extend(packet for packet in sent if packet.kind != wire.ASK)
        packet = peers.packet()
        if step > RIGHT:
            packet.row[-1 - draw.randrange(VALUES)] ^= np.uint32(1 << 24)
        sent = host.step(5000 * step, packet)
        if host.status.failed:
            break
    return " ".join(map(str, host.status))


def played(host: OneHost, draw: Draw) -> recorded.Record:
    """What a host does."""
    made, now, peers = recorded.Record(), 0, Peers(host, draw, [], [])
    for number in range(STEPS):
        packets = peers.packets()
        sent = host.step(now, *packets)
        peers.given.extend(packets)
        for packet in sent:
            frame = bytes(sizes.FRAME_OVERHEAD) + packet.row.tobytes()[: packet.length]
            made.note(now, f"to {packet.destination}", frame)
        made.note(host.deadline, "next call", b"")
        peers.sent.extend(packet for packet in sent if packet.kind != wire.ASK)
        del peers.sent[:-SENT_LAST], peers.given[:-SENT_LAST]
        if draw.chance(3) and host.is_worker and host.job.system == "tree":
            part = host.spec.worker_part
            host.host.use(worker.on_new_way(host.host.machine, part))
        later = now + draw.one((0, 1, 700, 5000, 5000, 40_000, 300 * US, 3 * MS))
        due = draw.chance(40) and now < host.deadline < worker_state.NEVER
        now = min(host.deadline, now + 200 * MS) if due else later
        assert host.host.machine.status[0].failed == 0, number
    made.note_hosts([host.host])
    if isinstance(host, OneWorker):
        made.facts["lag"] = recorded.digest(host.worker.lag.tobytes())
    return made


@pytest.mark.parametrize("name", WORKERS)
def test_a_worker_does_what_it_did(name):
    first, second = (OneWorker(name.partition(" ")[0], **WORKERS[name]) for _ in range(2))
    made = played(first, Draw(name))
    made.facts["wrong"] = wrong_value(second, Draw(name))
    made.hold(FILE, f"worker: {name}")


@pytest.mark.parametrize("name", SERVERS)
def test_a_server_does_what_it_did(name, monkeypatch):
    if FEW in name:
        monkeypatch.setattr(server_store, "KEPT_WINDOWS", 0)
        monkeypatch.setattr(server_store, "KEPT_ROWS", 2)
    server = OneServer(name.partition(" ")[0], **SERVERS[name])
    played(server, Draw(name)).hold(FILE, f"server: {name}")


def test_each_record_has_its_case():
    found = {f"worker: {name}" for name in WORKERS} | {f"server: {name}" for name in SERVERS}
    assert recorded.names(FILE) == found
