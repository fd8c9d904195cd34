"""The functions and structures of runtime/p4rt.h for ctypes."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_double, c_int, c_int32, c_int64, c_uint32, c_uint64, c_void_p

NO_MEMORY = -9
STATUS = {
    -1: "there is no such object",
    -2: "there is no such entry",
    -3: "an entry with this match exists already",
    -4: "it is full",
    -5: "there is no such action",
    -6: "the index is out of range",
    -7: "a value does not fit its width, or a range is empty",
    -8: "it is constant in the program",
    NO_MEMORY: "no memory",
    -10: "this kind of entry does not belong here",
    -11: "it is still in use",
}


class Rates(ctypes.Structure):
    _fields_ = [("rate", c_double * 2), ("burst", c_double * 2), ("set", c_uint32)]


NO_RATES, TWO_RATES, SINGLE_RATE = 0, 1, 2


class Count(ctypes.Structure):
    _fields_ = [("packets", c_uint64), ("bytes", c_uint64)]


class Config(ctypes.Structure):
    _fields_ = [
        ("seed", c_uint64),
        ("user", c_void_p),
        ("log", c_void_p),
        ("digest", c_void_p),
        ("trace", c_void_p),
    ]


HOOK = ctypes.CFUNCTYPE(None, c_void_p, c_void_p, ctypes.c_char_p)
WORDS = POINTER(c_uint64)
DIGEST_HOOK = ctypes.CFUNCTYPE(None, c_void_p, c_void_p, c_uint32, c_uint32, WORDS, c_uint32)
SIGNATURES = {
    "p4_create": (c_void_p, [POINTER(Config)]),
    "p4_destroy": (None, [c_void_p]),
    "p4_set_hooks": (None, [c_void_p, POINTER(Config)]),
    "p4_table_add": (c_int64, [c_void_p, c_uint32, WORDS, c_int32, c_uint32, WORDS]),
    "p4_table_add_indirect": (c_int64, [c_void_p, c_uint32, WORDS, c_int32, c_int, c_uint32]),
    "p4_table_modify": (c_int, [c_void_p, c_uint32, c_int64, c_uint32, WORDS]),
    "p4_table_modify_indirect": (c_int, [c_void_p, c_uint32, c_int64, c_int, c_uint32]),
    "p4_table_delete": (c_int, [c_void_p, c_uint32, c_int64]),
    "p4_table_clear": (c_int, [c_void_p, c_uint32]),
    "p4_table_set_default": (c_int, [c_void_p, c_uint32, c_uint32, WORDS]),
    "p4_table_set_default_indirect": (c_int, [c_void_p, c_uint32, c_int, c_uint32]),
    "p4_table_reset_default": (c_int, [c_void_p, c_uint32]),
    "p4_table_count": (c_int64, [c_void_p, c_uint32]),
    "p4_table_next": (c_int64, [c_void_p, c_uint32, c_int64]),
    "p4_table_get": (
        c_int,
        [
            c_void_p,
            c_uint32,
            c_int64,
            WORDS,
            POINTER(c_int32),
            POINTER(c_uint32),
            POINTER(c_uint32),
            WORDS,
        ],
    ),
    "p4_table_find": (c_int64, [c_void_p, c_uint32, WORDS, c_int32]),
    "p4_age_start": (c_int, [c_void_p, c_uint32, c_int64, c_uint64]),
    "p4_age_set": (c_int, [c_void_p, c_uint32, c_int64, c_uint64]),
    "p4_age_get": (c_int, [c_void_p, c_uint32, c_int64, WORDS, WORDS]),
    "p4_table_idle": (
        c_int64,
        [c_void_p, c_uint32, c_uint64, c_int64, POINTER(c_int64), c_uint64, WORDS],
    ),
    "p4_profile_add_member": (c_int64, [c_void_p, c_uint32, c_uint32, WORDS]),
    "p4_profile_modify_member": (c_int, [c_void_p, c_uint32, c_uint32, c_uint32, WORDS]),
    "p4_profile_delete_member": (c_int, [c_void_p, c_uint32, c_uint32]),
    "p4_profile_add_group": (c_int64, [c_void_p, c_uint32]),
    "p4_profile_delete_group": (c_int, [c_void_p, c_uint32, c_uint32]),
    "p4_profile_group_add": (c_int, [c_void_p, c_uint32, c_uint32, c_uint32]),
    "p4_profile_group_remove": (c_int, [c_void_p, c_uint32, c_uint32, c_uint32]),
    "p4_profile_next_member": (c_int64, [c_void_p, c_uint32, c_int64]),
    "p4_profile_next_group": (c_int64, [c_void_p, c_uint32, c_int64]),
    "p4_profile_get_member": (
        c_int,
        [c_void_p, c_uint32, c_uint32, POINTER(c_uint32), WORDS],
    ),
    "p4_profile_get_group": (
        c_int64,
        [c_void_p, c_uint32, c_uint32, POINTER(c_uint32), c_uint32],
    ),
    "p4_register_read": (c_int, [c_void_p, c_uint32, c_uint64, c_uint64, c_void_p]),
    "p4_register_write": (c_int, [c_void_p, c_uint32, c_uint64, c_uint64, WORDS]),
    "p4_register_fill": (c_int, [c_void_p, c_uint32, c_uint64, c_uint64, WORDS]),
    "p4_counter_read": (c_int, [c_void_p, c_uint32, c_uint64, c_uint64, POINTER(Count)]),
    "p4_counter_write": (c_int, [c_void_p, c_uint32, c_uint64, POINTER(Count)]),
    "p4_counter_reset": (c_int, [c_void_p, c_uint32]),
    "p4_direct_counter_read": (c_int, [c_void_p, c_uint32, c_int64, POINTER(Count)]),
    "p4_direct_counter_write": (c_int, [c_void_p, c_uint32, c_int64, POINTER(Count)]),
    "p4_direct_counter_reset": (c_int, [c_void_p, c_uint32]),
    "p4_meter_set": (c_int, [c_void_p, c_uint32, c_uint64, POINTER(Rates)]),
    "p4_meter_set_all": (c_int, [c_void_p, c_uint32, POINTER(Rates)]),
    "p4_meter_get": (c_int, [c_void_p, c_uint32, c_uint64, POINTER(Rates)]),
    "p4_direct_meter_set": (c_int, [c_void_p, c_uint32, c_int64, POINTER(Rates)]),
    "p4_direct_meter_get": (c_int, [c_void_p, c_uint32, c_int64, POINTER(Rates)]),
    "p4_meter_counts_get": (c_int, [c_void_p, c_uint32, c_uint64, POINTER(Count)]),
    "p4_meter_counts_set": (c_int, [c_void_p, c_uint32, c_uint64, POINTER(Count)]),
    "p4_direct_meter_counts_get": (c_int, [c_void_p, c_uint32, c_int64, POINTER(Count)]),
    "p4_direct_meter_counts_set": (c_int, [c_void_p, c_uint32, c_int64, POINTER(Count)]),
    "p4_value_set_add": (c_int, [c_void_p, c_uint32, WORDS]),
    "p4_value_set_clear": (c_int, [c_void_p, c_uint32]),
    "p4_value_set_get": (c_int, [c_void_p, c_uint32, c_uint32, WORDS]),
}


def declare(lib: ctypes.CDLL) -> None:
    """Tell ctypes the signatures."""
    for name, (result, arguments) in SIGNATURES.items():
        function = getattr(lib, name)
        function.restype, function.argtypes = result, arguments
