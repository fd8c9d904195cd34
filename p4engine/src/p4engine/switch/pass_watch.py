"""Looking at a switch's packets before and after each pass through its pipelines.

A watch puts a copy of the program's description (p4_program of runtime/p4rt.h) into the traffic
manager, with functions of its own for the ingress and egress pipelines, which call the program's
and tell what they see. So it needs no other build of the program and does not change what the
program does; a switch that nobody watches has no cost. For line-by-line traces of few packets see
p4engine.trace.

    watch = PassWatch(switch, before, after, leaving)
    ...
    watch.stop()

The three functions must not raise, and must not send packets through the switch; they may read
registers.
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
from typing import TYPE_CHECKING, Any, NamedTuple

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
        ("owner", c_void_p),
    ]


_PASS = CFUNCTYPE(None, c_void_p, POINTER(_Packet))
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
# (what left the egress pipeline, time in ns)
Leaving = Callable[[Left, int], None]


class PassWatch:
    """A watch over one switch, from its making to `stop`. Packets that are waiting in its queues at
    either moment are lost, so a watch begins before the first packet."""

    def __init__(self, switch: Switch, before: Before, after: After, leaving: Leaving) -> None:
        self._switch = switch
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
            ingress(instance, pointer)
            if found is None:
                return
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
                return
            frame = self._frame(instance, pointer)
            leaving(Left(frame, std.egress_port, 0, std.egress_rid), pointer.contents.now_ns)

        self._functions = _PASS(on_ingress), _PASS(on_egress)
        self._program = _Program.from_buffer_copy(original)
        self._program.ingress, self._program.egress = (
            ctypes.cast(each, c_void_p).value for each in self._functions
        )
        self._original = address
        self._set(ctypes.addressof(self._program))

    def stop(self) -> None:
        """Watch no longer."""
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
