"""Numbers as people write them, and as the words that cross the border to C.

Numbers may be int, bytes (big-endian), or text: decimal, 0x..., true, false, an IPv4, IPv6 or MAC
address. A value of w bits travels as (w + 63) / 64 words, the lowest first.
"""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import c_uint64
from functools import lru_cache
from typing import Any

from p4engine.frontend.diagnostics import Diagnostic, P4Error

ALL_ONES = 2**64 - 1


class ControlError(P4Error):
    """A control-plane call that cannot be carried out; nothing was changed by it.

    status: the p4_status of runtime/p4rt.h where the runtime has refused it.
    """

    def __init__(self, message: str, status: int | None = None):
        super().__init__([Diagnostic("error", message, "", 0, 0, "")])
        self.status = status

    def __str__(self) -> str:
        return self.diagnostics[0].message


class OutOfMemory(ControlError, MemoryError):
    """The runtime found no memory for what a call needs."""


def word_count(width: int) -> int:
    """64-bit words of a value of `width` bits."""
    return (width + 63) // 64 or 1


def number(value: Any, width: int, what: str, signed: bool = False) -> int:
    """A value in any accepted spelling as an unsigned number of `width` bits."""
    if isinstance(value, bool):
        result = int(value)
    elif isinstance(value, bytes | bytearray):
        result = int.from_bytes(value, "big")
    elif isinstance(value, str):
        result = _parse(value, what)
    elif hasattr(value, "__index__"):
        result = value.__index__()
    else:
        raise ControlError(f"{what}: {value!r} is not a number")
    low = -(1 << (width - 1)) if signed and width else 0
    if not low <= result < 1 << width:
        raise ControlError(f"{what}: {value!r} does not fit into {width} bits")
    return result & ((1 << width) - 1)


def _parse(text: str, what: str) -> int:
    try:
        return _parsed(text)
    except ValueError:
        raise ControlError(f"{what}: {text!r} is not a number or an address") from None


@lru_cache(maxsize=1 << 16)  # every switch has the same routes
def _parsed(text: str) -> int:
    import ipaddress

    clean = text.strip()
    if clean.lower() in ("true", "false"):
        return int(clean.lower() == "true")
    if clean.count(":") == 5 and "::" not in clean:
        return int(clean.replace(":", ""), 16)
    if clean.count(".") == 3 or ":" in clean:
        return int(ipaddress.ip_address(clean))
    return int(clean, 0)


def small(value: Any, limit: int) -> int | None:
    """A whole number or a text as a number, if it is one and below `limit`; None for all others."""
    if type(value) is str:
        try:
            value = _parsed(value)
        except ValueError:
            return None
    return value if type(value) is int and 0 <= value < limit else None


def mac_text(value: int) -> str:
    """48 bits as an Ethernet address."""
    return value.to_bytes(6, "big").hex(":")


def ip_text(value: int) -> str:
    """32 bits as an IPv4 address."""
    return ".".join(map(str, value.to_bytes(4, "big")))


def to_words(value: int, width: int) -> list[int]:
    return [value >> (64 * i) & ALL_ONES for i in range(word_count(width))]


def from_words(words: Sequence[int], width: int) -> int:
    return sum(w << (64 * i) for i, w in enumerate(words[: word_count(width)]))


class _Limits(dict[int, int]):
    """width -> what its values are below if they fit into one word, else 0."""

    def __missing__(self, width: int) -> int:
        made = self[width] = 1 << width if width <= 64 else 0
        return made


SMALL = _Limits()
_ARRAYS = [c_uint64 * max(1, n) for n in range(17)]


def word_array(words: Sequence[int]) -> Any:
    n = len(words)
    return (_ARRAYS[n] if n < 17 else c_uint64 * n)(*words)
