"""Data of control calls, in JSON.

JSON has no byte strings and is slow for long vectors: {"hex": "0a00"} stands for bytes and
{"words": "..."} for a list of unsigned 64-bit numbers (base64, little-endian).
"""

from __future__ import annotations

import base64
import gc
import sys
from array import array
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from p4engine.values.matches import MATCHES

LONG_MESSAGE = 1 << 16  # bytes
LONGEST_PLAIN_LIST = 256  # longer lists of numbers travel as words
PLAIN = {int, str, float, bool, type(None)}  # as they are in JSON: asked of every number in a batch


@contextmanager
def gc_paused(many: bool) -> Iterator[None]:
    """Without Python's garbage collector, if `many` objects will be made.

    A batch of 100 thousand calls is a million objects of which none is garbage; looking through all
    of them again and again would take half of the time.
    """
    on = many and gc.isenabled()
    if on:
        gc.disable()
    try:
        yield
    finally:
        if on:
            gc.enable()


def encode(value: Any) -> Any:
    """A value as JSON can carry it."""
    if isinstance(value, bytes | bytearray):
        return {"hex": bytes(value).hex()}
    if isinstance(value, list | tuple | array):
        if len(value) > LONGEST_PLAIN_LIST:
            try:
                words = (
                    value
                    if isinstance(value, array) and value.typecode == "Q"
                    else array("Q", value)
                )
            except (TypeError, OverflowError):
                pass
            else:
                if sys.byteorder == "big":
                    words.byteswap()
                return {"words": base64.b64encode(words.tobytes()).decode()}
        return [each if type(each) in PLAIN else encode(each) for each in value]
    if isinstance(value, MATCHES):
        return encode(value.plain())
    if isinstance(value, Mapping):
        return {str(key): encode(each) for key, each in value.items()}
    return value


def decode(value: Any) -> Any:
    """The inverse of `encode`; tuples come back as lists."""
    if isinstance(value, list):
        return [each if type(each) in PLAIN else decode(each) for each in value]
    if isinstance(value, dict):
        if set(value) == {"hex"} and isinstance(value["hex"], str):
            return bytes.fromhex(value["hex"])
        if set(value) == {"words"} and isinstance(value["words"], str):
            words = array("Q", base64.b64decode(value["words"], validate=True))
            if sys.byteorder == "big":
                words.byteswap()
            return words.tolist()
        return {key: decode(each) for key, each in value.items()}
    return value


def encode_all(values: Iterable[Any]) -> list[Any]:
    """Like `encode` for each, and always a list."""
    return [each if type(each) in PLAIN else encode(each) for each in values]
