"""Looking at a switch's packets before and after each pass through its pipelines.

A watch puts a copy of the program's description (p4_program of runtime/p4rt.h) into the traffic
manager, with functions of its own for the ingress and egress pipelines, which call the program's
and tell what they see. So it needs no other build of the program and does not change what the
program does; a switch that nobody watches has no cost. For line-by-line traces of few packets see
p4engine.trace.

    watch = PassWatch(switch, before, after, leaving)
    ...
    watch.stop()

The functions must not raise, and must not send packets through the switch; those about passes may
read registers.

Packets have a *mark*, so that what is seen of one at different places belongs together: what comes
in has the time at which it was sent on its link, and each pass of a chosen packet gives a new one,
which all its copies have. While a function is called, `came` is the mark that the packet had before
the pass, and `mark` that which it has now. `told` hears of fates with the mark that the packet has.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import (
    CFUNCTYPE,
    POINTER,
    Structure,
    c_char_p,
    c_int32,
    c_uint8,
    c_uint16,
    c_uint32,
    c_uint64,
    c_void_p,
)
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

from p4engine.switch.traffic_manager import DIRECTIONS

if TYPE_CHECKING:
    from p4engine.switch.library import Switch

DROP_PORT = 511
ALIGNED = 64  # as the traffic manager allocates packets


class _Std(Structure):
    _fields_ = [
        *(
            (name, c_uint32)
            for name in (
                *("ingress_port", "egress_spec", "egress_port", "instance_type", "packet_length"),
                *("enq_timestamp", "enq_qdepth", "deq_timedelta", "deq_qdepth", "mcast_grp"),
                *("egress_rid", "checksum_error", "parser_error"),
            )
        ),
        ("priority", c_uint16),
        ("qid", c_uint16),
        ("ingress_global_timestamp", c_uint64),
        ("egress_global_timestamp", c_uint64),
        ("further", c_uint64 * 4),
    ]


class _Requests(Structure):
    _fields_ = [
        *((name, c_uint8) for name in ("clone", "resubmit", "recirculate", "failed")),
        ("clone_session", c_uint32),
        *((f"{name}_fields", c_int32) for name in ("clone", "resubmit", "recirculate")),
        ("truncate", c_uint32),
        ("growth", c_int32),
    ]


class _Packet(Structure):
    _fields_ = [
        ("std", _Std),
        ("req", _Requests),
        ("now_ns", c_uint64),
        ("data", c_void_p),
        ("payload", c_void_p),
        ("length", c_uint32),
        ("payload_length", c_uint32),
        ("mark", c_uint64),
    ]


_PASS = CFUNCTYPE(None, c_void_p, POINTER(_Packet))
TOLD = CFUNCTYPE(None, c_uint32, c_uint32, c_uint32, c_uint64, c_uint64)
_DEPARSE = CFUNCTYPE(c_uint32, c_void_p, c_void_p, c_char_p, c_uint32)


class _Program(Structure):
    _fields_ = [
        ("abi", c_uint32),
        ("packet_size", c_uint32),
        *(
            (name, c_void_p)
            for name in (
                *("name", "tables", "profiles", "records", "registers", "counters", "meters"),
                "value_sets",
            )
        ),
        *(
            (f"{name}_count", c_uint32)
            for name in (
                *("table", "profile", "record", "register", "counter", "meter", "value_set"),
            )
        ),
        ("field_list_limit", c_uint32),
        *(
            (name, c_void_p)
            for name in (
                *("init", "start", "parse", "ingress", "egress", "deparse", "deparse_headers"),
                *("reset_metadata", "copy_fields"),
            )
        ),
    ]


class Left(NamedTuple):
    """A packet after a pass. `frame`: as it would leave now; b"" if it leaves nothing. After
    ingress: `port` that it goes to (None: none), `group` of a multicast (0: none). After egress:
    `port` and `copy`, the replication id of a multicast's copy."""

    frame: bytes
    port: int | None
    group: int = 0
    copy: int = 0


# (ingress port, frame, time in ns): something that `after` gets if it is not None.
Before = Callable[[int, bytes, int], Any]
After = Callable[[Any, Left], None]
# (what left the egress pipeline, time in ns): True for a packet that gets a mark of this pass.
Leaving = Callable[[Left, int], Any]
# (one of FATES, port, "ingress" or "egress", mark, time in ns). What they mean is in runtime/tm.h;
# an egress drop is the program's.
Told = Callable[[str, int, str, int, int], None]
FATES = ("queue drop", "lost", "down", "again", "emitted", "duplicated", "egress drop")
FIRST_MARK = 1 << 62  # of a pass; no time is so late


class PassWatch:
    """A watch over one switch, from its making to `stop`. Packets that are waiting in its queues at
    either moment are lost, so a watch begins before the first packet."""

    def __init__(
        self,
        switch: Switch,
        before: Before,
        after: After,
        leaving: Leaving,
        told: Told | None = None,
    ) -> None:
        self._switch = switch
        self.came = self.mark = 0
        marks = count(FIRST_MARK)
        pipeline = switch.pipeline
        assert pipeline.handle is not None
        address = pipeline.lib.p4_program_get()
        original = _Program.from_address(address)
        self._room = ctypes.create_string_buffer(original.packet_size + ALIGNED)
        self._copy = -(-ctypes.addressof(self._room) // ALIGNED) * ALIGNED
        self._size = original.packet_size
        self._deparse = _DEPARSE(original.deparse)
        ingress, egress = _PASS(original.ingress), _PASS(original.egress)

        def on_ingress(instance: int, pointer: Any) -> None:
            packet = pointer.contents
            frame = ctypes.string_at(packet.data, packet.length)
            found = before(packet.std.ingress_port, frame, packet.now_ns)
            came = packet.mark
            ingress(instance, pointer)
            if found is None:
                return
            self.came, self.mark = came, next(marks)
            packet.mark = self.mark
            std, req = packet.std, packet.req
            if req.failed or req.resubmit:
                after(found, Left(b"", None))
            elif std.mcast_grp:
                after(found, Left(self._frame(instance, pointer), None, std.mcast_grp))
            elif std.egress_spec == DROP_PORT:
                after(found, Left(b"", None))
            else:
                after(found, Left(self._frame(instance, pointer), std.egress_spec))

        def on_egress(instance: int, pointer: Any) -> None:
            egress(instance, pointer)
            std, req = pointer.contents.std, pointer.contents.req
            if req.failed or req.recirculate or std.egress_spec == DROP_PORT:
                if told is not None and not req.recirculate:
                    each = pointer.contents
                    told(FATES[-1], std.egress_port, "egress", each.mark, each.now_ns)
                return
            frame = self._frame(instance, pointer)
            self.came, self.mark = pointer.contents.mark, next(marks)
            left = Left(frame, std.egress_port, 0, std.egress_rid)
            if leaving(left, pointer.contents.now_ns):
                pointer.contents.mark = self.mark

        def on_fate(fate: int, port: int, direction: int, mark: int, time_ns: int) -> None:
            if told is not None:
                told(FATES[fate], port, DIRECTIONS[direction], mark, time_ns)

        self._functions = _PASS(on_ingress), _PASS(on_egress)
        self._program = _Program.from_buffer_copy(original)
        self._program.ingress, self._program.egress = (
            ctypes.cast(each, c_void_p).value for each in self._functions
        )
        self._original = address
        self._told = TOLD(on_fate)
        if told is not None:
            switch.lib.tm_watch_set(switch.address, self._told)
        self._set(ctypes.addressof(self._program))

    def stop(self) -> None:
        """Watch no longer."""
        self._switch.lib.tm_watch_set(self._switch.address, None)
        self._set(self._original)

    def _set(self, program: int) -> None:
        switch = self._switch
        switch.lib.tm_program_set(switch.address, program, switch.pipeline.handle)

    def _frame(self, instance: int, pointer: Any) -> bytes:
        """The packet as the deparser would write it now. It works on a copy, since it may change
        headers."""
        ctypes.memmove(self._copy, pointer, self._size)
        capacity = pointer.contents.length + 512
        room = ctypes.create_string_buffer(capacity)
        length = self._deparse(instance, self._copy, room, capacity)
        return room.raw[:length] if length <= capacity else b""
