"""The traffic manager (runtime/tm.h) from Python: packets and times in, packets and times out.

This is the ctypes border and nothing more, so that every rule of queues, links and copies is in
C once and the switch process, the library and virtual time share it. `library.Switch` adds what
a program names.
"""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Sequence
from ctypes import POINTER, byref, c_uint64, c_void_p
from typing import Any

from p4engine.switch.traffic_manager_abi import (
    NO_MEMORY,
    STATUS,
    Counters,
    LinkShape,
    Member,
    Output,
    Queue,
    Stats,
    Subject,
    as_dict,
    declare,
)
from p4engine.values.numbers import ControlError, OutOfMemory

DIRECTIONS = ("ingress", "egress")
NEVER = 2**64 - 1
UNLIMITED = 2**64 - 1
CERTAIN = 1 << 63
MAX_PORT = 510
LONGEST_CLONE = 2**31 - 1  # of those that are shortened
ALL_QUEUES = 2**32 - 1
MAX_QUEUES = 256


class SwitchError(ControlError):
    """A call to a switch that cannot be carried out; the message says why."""


def _whole(value: int | None, name: str) -> int:
    if value is None:
        return UNLIMITED
    if not isinstance(value, int) or not 0 <= value < 2**63:  # ctypes would wrap it silently
        raise SwitchError(f"{name} is a whole number that is not negative, not {value!r}")
    return value


def _probability(value: float, name: str) -> int:
    if not 0 <= value <= 1:
        raise SwitchError(f"{name} is a probability from 0 to 1, not {value}")
    return int(value * CERTAIN)  # exact: a float times a power of two


def _direction(direction: str) -> int:
    if direction not in DIRECTIONS:
        raise SwitchError(f"direction is 'ingress' or 'egress', not {direction!r}")
    return DIRECTIONS.index(direction)


class Manager:
    """A traffic manager around one instance of a compiled program.

    Args:
        lib: the program's shared object; `handle`: its `p4_instance *`, which must outlive this.
        ports: numbers 0..510. None: all of them exist.
        seed: of losses, jitter and the like; every (port, direction) has streams of its own.
        timestamp_unit_ns: what one unit of a P4 timestamp is.
        epoch_ns: the time at which P4 timestamps are 0.
        priority_queues: egress queues of every port, 1..256. With several, `priority` of the
            standard metadata selects one, 0 being the lowest; a packet whose priority names none
            is dropped. The highest that may send is served first.
    """

    def __init__(
        self,
        lib: ctypes.CDLL,
        handle: int,
        *,
        ports: Sequence[int] | None = None,
        seed: int = 0,
        timestamp_unit_ns: int = 1000,
        epoch_ns: int = 0,
        priority_queues: int = 1,
    ) -> None:
        self._tm = None
        self.lib = lib
        declare(lib)
        if timestamp_unit_ns < 1:
            raise SwitchError(f"timestamp_unit_ns is at least 1, not {timestamp_unit_ns}")
        self._tm = lib.tm_create(
            lib.p4_program_get(), handle, seed % 2**64, epoch_ns, timestamp_unit_ns
        )
        if not self._tm:
            # The program and the traffic manager are one library, so the ABI version is the same.
            raise OutOfMemory("no memory for the ports and groups of a switch")
        self.timestamp_unit_ns = timestamp_unit_ns
        if not 1 <= priority_queues <= MAX_QUEUES:
            raise SwitchError(f"priority_queues is 1 to {MAX_QUEUES}, not {priority_queues}")
        lib.tm_queues_set(self._tm, priority_queues)
        self.priority_queues = priority_queues
        self.ports: list[int] = []
        for port in range(MAX_PORT + 1) if ports is None else ports:
            self.port_add(port)

    def close(self) -> None:
        """Free everything; packets in queues and on links are gone."""
        if self._tm:
            self.lib.tm_destroy(self._tm)
            self._tm = None

    def __del__(self) -> None:
        self.close()

    def program_set(self, lib: ctypes.CDLL, handle: int) -> None:
        """Have another instance process all packets, as `tm_program_set` says; `lib` and `handle`
        as at the beginning. The functions of the first `lib` go on being the traffic manager."""
        declare(lib)
        self._check(
            self.lib.tm_program_set(self._tm, lib.p4_program_get(), handle), "another program"
        )

    @property
    def address(self) -> int:
        """The `tm_switch *`, for callers that go to the C functions themselves."""
        address: int | None = self._tm
        assert address is not None
        return address

    def entry_points(self) -> dict[str, int]:
        """Addresses of the C functions of tm.h, for a caller that spends no Python on a packet.

        "receive", "receive_ahead", "receive_seeded", "advance", "next_event", "outputs",
        "outputs_clear"; their first argument is `address`.
        """
        names = (
            "receive", "receive_ahead", "receive_seeded", "advance", "next_event", "outputs",
            "outputs_clear",
        )  # fmt: skip
        functions = {name: getattr(self.lib, f"tm_{name}") for name in names}
        return {name: ctypes.cast(f, c_void_p).value or 0 for name, f in functions.items()}

    def _check(self, status: int, what: str) -> int:
        if status < 0:
            kind = OutOfMemory if status == NO_MEMORY else SwitchError
            raise kind(f"{what}: {STATUS.get(status, f'error {status}')}")
        return status

    # ---- packets ----

    def receive(self, port: int, data: bytes, now_ns: int) -> None:
        """A packet has been sent to `port` at `now_ns`; earlier events are handled first."""
        self._check(self.lib.tm_receive(self._tm, port, data, len(data), now_ns), f"port {port}")

    def receive_ahead(self, port: int, data: bytes, sent_ns: int) -> None:
        """A packet has been sent to `port` at `sent_ns`, and has not arrived by the last time: the
        link's delay reaches beyond it. Nothing else happens yet."""
        status = self.lib.tm_receive_ahead(self._tm, port, data, len(data), sent_ns)
        self._check(status, f"port {port}, sent at {sent_ns} ns")

    def advance(self, now_ns: int) -> list[tuple[int, int, bytes]]:
        """Handle all events up to `now_ns`; take what has left, as (time_ns, port, packet)."""
        self.lib.tm_advance(self._tm, now_ns)
        return self.outputs()

    def outputs(self) -> list[tuple[int, int, bytes]]:
        """Take what has left so far, as (time_ns, port, packet) in order of leaving."""
        outputs, data = POINTER(Output)(), c_void_p()
        count = self.lib.tm_outputs(self._tm, byref(outputs), byref(data))
        base = data.value or 0
        packets = [
            (o.time_ns, o.port, ctypes.string_at(base + o.offset, o.length))
            for o in outputs[:count]
        ]
        self.lib.tm_outputs_clear(self._tm)
        return packets

    def next_event_ns(self) -> int | None:
        """Time of the next event, None if there is none."""
        time_ns = self.lib.tm_next_event(self._tm)
        return None if time_ns == NEVER else time_ns

    def run(self, until_ns: int = NEVER - 1) -> list[tuple[int, int, bytes]]:
        """Handle all events there are (up to `until_ns`) and take what has left."""
        while (time_ns := self.lib.tm_next_event(self._tm)) <= until_ns:
            self.lib.tm_advance(self._tm, time_ns)
        return self.outputs()

    def timestamp(self, now_ns: int) -> int:
        """The P4 timestamp of a time."""
        made: int = self.lib.tm_timestamp(self._tm, now_ns)
        return made

    def output_early(self, on: bool) -> None:
        """Give out packets as soon as their time of leaving is known, with that time."""
        self.lib.tm_set_early(self._tm, on)

    # ---- ports ----

    def port_add(self, port: int) -> None:
        """Make a port, not shaped."""
        if not 0 <= port <= MAX_PORT:
            raise SwitchError(f"ports are numbered from 0 to {MAX_PORT}, not {port}")
        self._check(self.lib.tm_port_add(self._tm, port), f"port {port}")
        self.ports.append(port)

    def port_shape(
        self,
        port: int,
        direction: str,
        rate_bps: int = 0,
        queue_packets: int | None = 1000,
        queue_bytes: int | None = None,
        delay_ns: int = 0,
        jitter_ns: int = 0,
        loss: float = 0.0,
        duplicate: float = 0.0,
        reorder: float = 0.0,
        reorder_ns: int = 0,
        rate_pps: int = 0,
    ) -> None:
        """Shape one direction of the port's link.

        Args:
            direction: "ingress" (link to the switch) or "egress" (link from the switch).
            rate_bps: bits from the Ethernet header to the end of the payload; 0 is unlimited.
            rate_pps: packets per second as BMv2's queue rate; 0 is unlimited.
            queue_packets, queue_bytes: waiting packets, without the one on the wire; None is
                unlimited. With several egress queues these and rate_pps are of each.
            delay_ns, jitter_ns: arrival after delay -jitter..+jitter (uniform, order kept);
                jitter at most delay.
            loss, duplicate, reorder: probabilities; a reordered packet takes reorder_ns longer.
        """
        shape = LinkShape(
            _whole(rate_bps or 0, "rate_bps"),
            _whole(rate_pps or 0, "rate_pps"),
            _whole(queue_packets, "queue_packets"),
            _whole(queue_bytes, "queue_bytes"),
            _whole(delay_ns or 0, "delay_ns"),
            _whole(jitter_ns or 0, "jitter_ns"),
            _probability(loss, "loss"),
            _probability(duplicate, "duplicate"),
            _probability(reorder, "reorder"),
            _whole(reorder_ns or 0, "reorder_ns"),
        )
        self._set_shape(port, direction, shape)

    def _set_shape(self, port: int, direction: str, shape: LinkShape) -> None:
        number = _direction(direction)
        if shape.jitter_ns > shape.delay_ns:
            raise SwitchError(
                f"jitter_ns ({shape.jitter_ns}) is at most delay_ns ({shape.delay_ns}): "
                "a packet cannot arrive before it is sent"
            )
        status = self.lib.tm_port_shape(self._tm, port, number, byref(shape))
        self._check(status, f"port {port} {direction}")

    def _get_shape(self, port: int, direction: str) -> LinkShape:
        shape = LinkShape()
        status = self.lib.tm_port_shape_get(self._tm, port, _direction(direction), byref(shape))
        self._check(status, f"port {port}")
        return shape

    def port_shape_get(self, port: int, direction: str) -> dict[str, int | float | None]:
        """The arguments of the `port_shape` that holds."""
        values: dict[str, Any] = dict(as_dict(self._get_shape(port, direction)))
        for name in ("queue_packets", "queue_bytes"):
            values[name] = None if values[name] == UNLIMITED else values[name]
        for name in ("loss", "duplicate", "reorder"):
            values[name] = values[name] / CERTAIN
        return values

    def port_up(self, port: int, up: bool) -> None:
        """Take both directions of a port's link down, or bring them up again.

        When the link goes down, what waits for it or is on its way is lost, and so is everything
        that is sent before it is up again. All of that counts as `down_drops`. Its shape stays.
        """
        self._check(self.lib.tm_port_up_set(self._tm, port, int(bool(up))), f"port {port}")

    def port_loopback(self, port: int, on: bool = True) -> None:
        """Put a port into loopback mode, or out of it: what leaves it comes back into ingress.

        It needs no link. Raises ControlError where the architecture has no such ports.
        """
        what = f"loopback mode of port {port}, which only programs for tna and t2na have"
        self._check(self.lib.tm_port_loop_set(self._tm, port, int(bool(on))), what)

    def deflection_port(self, port: int | None) -> None:
        """The port for packets that ask for deflect_on_drop and find their queue full; None: they
        are dropped, as at first. Raises ControlError where the architecture has no such packets."""
        what = f"deflection to port {port}, which only programs for tna and t2na have"
        number = -1 if port is None else port
        self._check(self.lib.tm_deflection_set(self._tm, number), what)

    def cpu_copies(self, port: int) -> None:
        """The port for copies to the CPU, which programs for tna (at first 192) and t2na (0) can
        ask for. Raises ControlError for a port beyond 510."""
        self._check(self.lib.tm_cpu_port_set(self._tm, port), f"port {port} for the CPU")

    def queue_rate(
        self, packets_per_second: int, port: int | None = None, priority: int | None = None
    ) -> None:
        """BMv2's egress queue rate: of one port, or of all. 0 is unlimited.

        With several queues it is the rate of each, or of the one with `priority` (0 is the lowest).
        """
        rate = _whole(packets_per_second or 0, "queue rate")
        self._set_queues(self.lib.tm_queue_rate, rate, port, priority)

    def queue_depth(
        self, packets: int | None, port: int | None = None, priority: int | None = None
    ) -> None:
        """BMv2's egress queue depth: of one port, or of all. None is unlimited.

        With several queues it is the depth of each, or of the one with `priority`.
        """
        depth = _whole(packets, "queue depth")
        self._set_queues(self.lib.tm_queue_depth, depth, port, priority)

    def _set_queues(
        self, function: Any, value: int, port: int | None, priority: int | None
    ) -> None:
        if priority is not None and not 0 <= priority < self.priority_queues:
            raise SwitchError(
                f"there is no queue {priority}: the priorities are 0"
                + (f" to {self.priority_queues - 1}" if self.priority_queues > 1 else "")
                + " (priority_queues sets how many queues a port has)"
            )
        number = ALL_QUEUES if priority is None else priority
        for each in self.ports if port is None else [port]:
            self._check(function(self._tm, each, number, value), f"port {each} egress")

    def queue_stats(self) -> list[dict[str, int | None]]:
        """One row per port and egress queue: port, priority, `tm_queue` of tm.h.

        packets and bytes are what the link has carried of the queue's packets, `queue` how many
        wait now; queue_packets (None: unlimited) and rate_pps are the settings. A packet whose
        priority names no queue counts among the port's `queue_drops` only.
        """
        rows: list[dict[str, int | None]] = []
        queue = Queue()
        for port in self.ports:
            for priority in range(self.priority_queues):
                self.lib.tm_queue_get(self._tm, port, priority, byref(queue))
                row: dict[str, int | None] = {"port": port, "priority": priority, **as_dict(queue)}
                if row["queue_packets"] == UNLIMITED:
                    row["queue_packets"] = None
                rows.append(row)
        return rows

    def port_stats(self) -> list[dict[str, Any]]:
        """One row per port and direction: port, direction, the counters of tm.h, and `queue` (now).

        `unmodelled_drops` is None: without a network there is nothing that could drop outside the
        model.
        """
        rows: list[dict[str, Any]] = []
        counters = Counters()
        for port in self.ports:
            for number, direction in enumerate(DIRECTIONS):
                self.lib.tm_port_counters(self._tm, port, number, byref(counters))
                queue = self.lib.tm_port_queue(self._tm, port, number)
                row: dict[str, Any] = {"port": port, "direction": direction, **as_dict(counters)}
                rows.append(row | {"queue": queue, "unmodelled_drops": None})
        return rows

    def notes_set(
        self,
        mark: tuple[int, int],
        fields: tuple[int, int, int, int],
        again: tuple[int, int, int],
        ports: Sequence[int],
        most: int = 1 << 20,
    ) -> None:
        """Note from now on each packet of interest that a link loses, up to `most` of them.

        A packet is of interest if its 16 bits at offset mark[0] are mark[1]. `fields`: the offsets
        of its kind (4 bits), flow (16), unit (32) and 64 bits more, which are noted. Offsets count
        bytes from the Ethernet header on. Packets that come in through `ports` are noted, too, if
        their 32 bits at offset again[0], masked with again[1], are again[2].
        """
        subject = Subject(*mark, *fields, *again)
        self._check(self.lib.tm_notes_set(self._tm, byref(subject), most), "notes")
        for port in self.ports:
            status = self.lib.tm_note_again(self._tm, port, int(port in ports))
            self._check(status, f"port {port}")

    def notes(self) -> array[int]:
        """The notes, in the order of their making: three numbers for each, see `tm_note` of tm.h.
        The last number is how many are missing, for which there was no room."""
        rows, missed = POINTER(c_uint64)(), c_uint64()
        words = 3 * self.lib.tm_notes(self._tm, byref(rows), byref(missed))
        found = array("Q", ctypes.string_at(rows, 8 * words) if words else b"")
        found.append(missed.value)
        return found

    def port_queues(self) -> list[tuple[int, int]]:
        """(port, packets) of the ports whose egress queues hold packets now."""
        queue, egress = self.lib.tm_port_queue, DIRECTIONS.index("egress")
        waiting = ((port, queue(self._tm, port, egress)) for port in self.ports)
        return [(port, packets) for port, packets in waiting if packets]

    def port_queue(self, port: int, direction: str = "egress") -> int:
        """Packets that wait now in front of a port's link, in one direction."""
        waiting: int = self.lib.tm_port_queue(self._tm, port, _direction(direction))
        return self._check(waiting, f"port {port}")

    def port_bytes(self, port: int) -> dict[str, int]:
        """The bytes that have passed a port's links so far, by direction."""
        counters, found = Counters(), {}
        for number, direction in enumerate(DIRECTIONS):
            self.lib.tm_port_counters(self._tm, port, number, byref(counters))
            found[direction] = int(counters.bytes)
        return found

    def stats(self) -> dict[str, int | None]:
        """Packets by outcome: the counters of tm_stats."""
        stats = Stats()
        self.lib.tm_stats_get(self._tm, byref(stats))
        now_ns = self.lib.tm_now(self._tm)
        return {**as_dict(stats), "now_ns": now_ns, "timestamp": self.timestamp(now_ns)}

    def stats_reset(self) -> None:
        """Set the counters of `stats` and `port_stats` to 0."""
        self.lib.tm_stats_reset(self._tm)

    # ---- copies ----

    def multicast_group(self, group: int, members: Sequence[tuple[int, int]]) -> None:
        """Set group 1..65535 to copies (port, rid), in this order; replaces what it was."""
        for port, rid in members:
            if not 0 <= port <= MAX_PORT or not 0 <= rid < 65536:
                raise SwitchError(
                    f"group {group}: ({port}, {rid}) is not (port 0..{MAX_PORT}, rid 0..65535)"
                )
        array = (Member * len(members))(*(Member(port, rid) for port, rid in members))
        status = self.lib.tm_group_set(self._tm, group, array, len(members))
        self._check(status, f"multicast group {group} with {len(members)} members")

    def multicast_delete(self, group: int) -> None:
        """Forget a group."""
        self._check(self.lib.tm_group_delete(self._tm, group), f"multicast group {group}")

    def multicast_get(self, group: int) -> list[tuple[int, int]]:
        """The members (port, rid) of a group."""
        array = (Member * 2048)()
        count = self._check(
            self.lib.tm_group_get(self._tm, group, array, len(array)), f"multicast group {group}"
        )
        return [(m.port, m.rid) for m in array[:count]]

    def mirror_session(
        self,
        session: int,
        port: int | None = None,
        group: int | None = None,
        length: int | None = None,
    ) -> None:
        """Clones for `session` (0..32767) go to a port, a multicast group, or both (or nowhere).

        length: they carry at most so many bytes of the packet; None: all.
        """
        status = self.lib.tm_mirror_set(
            self._tm,
            session,
            -1 if port is None else port,
            -1 if group is None else group,
            min(_whole(length or 0, "length"), LONGEST_CLONE),
        )
        self._check(status, f"mirror session {session}")
