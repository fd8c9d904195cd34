"""The functions and structures of runtime/tm.h for ctypes."""

from __future__ import annotations

import ctypes
from ctypes import (
    POINTER,
    c_char_p,
    c_int,
    c_int32,
    c_int64,
    c_uint16,
    c_uint32,
    c_uint64,
    c_void_p,
)

NO_MEMORY = -3
STATUS = {
    -1: "no such port",
    -2: "value out of range",
    NO_MEMORY: "out of memory",
    -4: "exists already",
    -5: "no such group",
    -6: "no such queue",
}


class LinkShape(ctypes.Structure):
    _fields_ = [
        (name, c_uint64)
        for name in (
            "rate_bps",
            "rate_pps",
            "queue_packets",
            "queue_bytes",
            "delay_ns",
            "jitter_ns",
            "loss",
            "duplicate",
            "reorder",
            "reorder_ns",
        )
    ]


class Counters(ctypes.Structure):
    _fields_ = [
        (name, c_uint64)
        for name in (
            "packets",
            "bytes",
            "queue_drops",
            "losses",
            "duplicates",
            "reordered",
            "max_queue",
            "busy_ns",
            "down_drops",
            "tie_drops",
        )
    ]


class Queue(ctypes.Structure):
    _fields_ = [
        (name, c_uint64)
        for name in (
            "packets",
            "bytes",
            "queue_drops",
            "max_queue",
            "queue",
            "queue_packets",
            "rate_pps",
        )
    ]


class Buffer(ctypes.Structure):
    _fields_ = [
        (name, c_uint64)
        for name in (
            "kind",
            "bytes",
            "reserve",
            "xoff",
            "shift",
            "resume",
            "classes",
            "by_output",
            "longest",
            "held_at",
            "held_mask",
            "repeat_ns",
        )
    ]


class Flow(ctypes.Structure):
    _fields_ = [
        (name, c_uint64)
        for name in (
            *("paused_ns", "longest_ns", "paused", "frames_received"),
            *("pausing_ns", "pausing", "frames_sent"),
            *("bytes", "peak", "peak_headroom", "headroom", "drops", "waiting"),
            *("host_paused_ns", "host_paused", "host_waiting"),
            *("unknown", "unknown_classes", "buffer_peak", "held", "full"),
        )
    ]


class Pause(ctypes.Structure):
    _fields_ = [
        ("from_ns", c_uint64),
        ("until_ns", c_uint64),
        ("port", c_uint32),
        ("priority", c_uint16),
        ("cause", c_uint16),
    ]


class Subject(ctypes.Structure):
    _fields_ = [
        (name, c_uint32)
        for name in (
            *("mark_at", "mark", "kind_at", "flow_at", "unit_at", "more_at"),
            *("again_at", "again_mask", "again"),
        )
    ]


class Stats(ctypes.Structure):
    _fields_ = [
        (name, c_uint64)
        for name in (
            "received",
            "sent",
            "ingress_drops",
            "egress_drops",
            "no_port",
            "no_group",
            "copies",
            "clones",
            "resubmits",
            "recirculations",
            "failed",
            "loop_drops",
            "no_memory",
        )
    ]


class Output(ctypes.Structure):
    _fields_ = [
        ("time_ns", c_uint64),
        ("offset", c_uint64),
        ("length", c_uint32),
        ("port", c_uint32),
    ]


class Member(ctypes.Structure):
    _fields_ = [("port", c_uint16), ("rid", c_uint16)]


def as_dict(structure: ctypes.Structure) -> dict[str, int]:
    """The fields of a C structure, by name."""
    return {name: getattr(structure, name) for name, *_ in structure._fields_}


def declare(lib: ctypes.CDLL) -> None:
    """Tell ctypes the signatures of tm.h."""
    signatures = {
        "tm_create": (c_void_p, [c_void_p, c_void_p, c_uint64, c_uint64, c_uint64]),
        "tm_destroy": (None, [c_void_p]),
        "tm_program_set": (c_int, [c_void_p, c_void_p, c_void_p]),
        "tm_queues_set": (c_int, [c_void_p, c_uint32]),
        "tm_port_add": (c_int, [c_void_p, c_uint32]),
        "tm_port_exists": (c_int, [c_void_p, c_uint32]),
        "tm_port_shape": (c_int, [c_void_p, c_uint32, c_uint32, POINTER(LinkShape)]),
        "tm_port_shape_get": (c_int, [c_void_p, c_uint32, c_uint32, POINTER(LinkShape)]),
        "tm_port_counters": (c_int, [c_void_p, c_uint32, c_uint32, POINTER(Counters)]),
        "tm_port_up_set": (c_int, [c_void_p, c_uint32, c_int]),
        "tm_port_loop_set": (c_int, [c_void_p, c_uint32, c_int]),
        "tm_deflection_set": (c_int, [c_void_p, c_int]),
        "tm_cpu_port_set": (c_int, [c_void_p, c_uint32]),
        "tm_port_queue": (c_int64, [c_void_p, c_uint32, c_uint32]),
        "tm_queue_depth": (c_int, [c_void_p, c_uint32, c_uint32, c_uint64]),
        "tm_queue_rate": (c_int, [c_void_p, c_uint32, c_uint32, c_uint64]),
        "tm_queue_get": (c_int, [c_void_p, c_uint32, c_uint32, POINTER(Queue)]),
        "tm_buffer_set": (c_int, [c_void_p, POINTER(Buffer)]),
        "tm_headroom_set": (c_int, [c_void_p, c_uint32, c_uint64, c_int]),
        "tm_flow_get": (c_int, [c_void_p, c_uint32, c_uint32, POINTER(Flow)]),
        "tm_pauses": (c_uint64, [c_void_p, POINTER(POINTER(Pause)), POINTER(c_uint64)]),
        "tm_waiting_get": (
            c_uint32,
            [c_void_p, c_uint32, c_uint32, c_int, POINTER(c_void_p)],
        ),
        "tm_holds": (c_int, [c_void_p, c_uint32, c_uint32, c_uint32]),
        "tm_held_lacks": (
            c_int,
            [c_void_p, c_uint32, c_uint32, c_void_p, c_uint32, c_int],
        ),
        "tm_notes_set": (c_int, [c_void_p, POINTER(Subject), c_uint64]),
        "tm_note_again": (c_int, [c_void_p, c_uint32, c_int]),
        "tm_notes": (c_uint64, [c_void_p, POINTER(POINTER(c_uint64)), POINTER(c_uint64)]),
        "tm_group_set": (c_int, [c_void_p, c_uint32, POINTER(Member), c_uint32]),
        "tm_group_delete": (c_int, [c_void_p, c_uint32]),
        "tm_group_get": (c_int64, [c_void_p, c_uint32, POINTER(Member), c_uint32]),
        "tm_mirror_set": (c_int, [c_void_p, c_uint32, c_int32, c_int32, c_uint32]),
        "tm_receive": (c_int, [c_void_p, c_uint32, c_char_p, c_uint32, c_uint64]),
        "tm_receive_ahead": (c_int, [c_void_p, c_uint32, c_char_p, c_uint32, c_uint64]),
        "tm_receive_seeded": (
            c_int,
            [c_void_p, c_uint32, c_char_p, c_uint32, c_uint32, c_uint64, c_void_p],
        ),
        "tm_advance": (None, [c_void_p, c_uint64]),
        "tm_next_event": (c_uint64, [c_void_p]),
        "tm_now": (c_uint64, [c_void_p]),
        "tm_timestamp": (c_uint64, [c_void_p, c_uint64]),
        "tm_set_early": (None, [c_void_p, c_int]),
        "tm_set_sink": (None, [c_void_p, c_void_p]),
        "tm_outputs": (
            c_uint64,
            [c_void_p, POINTER(POINTER(Output)), POINTER(c_void_p)],
        ),
        "tm_outputs_clear": (None, [c_void_p]),
        "tm_watch_set": (None, [c_void_p, c_void_p]),
        "tm_stats_get": (None, [c_void_p, POINTER(Stats)]),
        "tm_stats_reset": (None, [c_void_p]),
        "p4_program_get": (c_void_p, []),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(lib, name)
        function.restype = result
        function.argtypes = arguments
