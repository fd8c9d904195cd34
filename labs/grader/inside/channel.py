"""Messages between the grader and a confined process: JSON, with a length in front.

JSON and not pickle, because the other side runs a student's code and may send anything. Bytes and
numpy arrays travel as {"bytes": hex} and {"array": [dtype, shape, hex]}. A message has a largest
size, so that nobody can fill the grader's memory.
"""

from __future__ import annotations

import json
import os
import struct
import sys
from typing import Any

LONGEST = 8 << 20  # bytes of a message
LARGEST_BITS = 4096  # of a number; JSON gives up on longer ones
DTYPES = ("float64", "float32", "int64", "int32", "int16", "int8", "uint8", "uint32", "bool")
_HEAD = struct.Struct("<I")


class MalformedMessage(Exception):
    """The received bytes are not a message."""


def encode(value: Any) -> Any:
    """A value as JSON can carry it.

    Raises TypeError for what has no place in a message (an object of a class, say).
    """
    if isinstance(value, bytes | bytearray):
        return {"bytes": bytes(value).hex()}
    np = sys.modules.get("numpy")  # without its import there are no arrays
    if np is not None and isinstance(value, np.ndarray):
        if value.dtype.name not in DTYPES:
            raise TypeError(f"an array of dtype {value.dtype} (may be: {', '.join(DTYPES)})")
        return {"array": [value.dtype.name, list(value.shape), value.tobytes().hex()]}
    if np is not None and isinstance(value, np.generic):
        return value.item()
    if isinstance(value, dict):
        return {"dict": [[encode(k), encode(v)] for k, v in value.items()]}
    if isinstance(value, list | tuple | set | frozenset):
        return [encode(each) for each in value]
    if isinstance(value, int) and value.bit_length() > LARGEST_BITS:
        raise TypeError(f"a whole number of {value.bit_length()} bits")
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"a value of type {type(value).__name__}")


def decode(value: Any) -> Any:
    """The inverse of `encode`; tuples and sets come back as lists. Raises MalformedMessage."""
    if isinstance(value, list):
        return [decode(each) for each in value]
    if not isinstance(value, dict):
        return value
    try:
        ((kind, content),) = value.items()
        if kind == "bytes":
            return bytes.fromhex(content)
        if kind == "array":
            dtype, shape, data = content
            if dtype not in DTYPES:
                raise ValueError(dtype)
            import numpy as np

            flat = np.frombuffer(bytes.fromhex(data), np.dtype(dtype))
            return flat.reshape([int(n) for n in shape]).copy()
        if kind == "dict":
            return {decode(k): decode(v) for k, v in content}
    except (ValueError, TypeError, OverflowError):
        pass
    raise MalformedMessage("not a value")


def pack(message: Any) -> bytes:
    """A message as bytes."""
    data = json.dumps(message).encode()
    return _HEAD.pack(len(data)) + data


def unpack(data: bytes | bytearray) -> tuple[Any, int] | None:
    """(message, bytes used) if `data` begins with a whole message. Raises MalformedMessage."""
    if len(data) < _HEAD.size:
        return None
    (size,) = _HEAD.unpack_from(data)
    if size > LONGEST:
        raise MalformedMessage(f"more than {LONGEST >> 20} MB at once")
    end = _HEAD.size + size
    if len(data) < end:
        return None
    try:
        return json.loads(bytes(data[_HEAD.size : end])), end
    except (ValueError, RecursionError):
        raise MalformedMessage("not a message") from None


def write(descriptor: int, message: Any) -> None:
    """Send a message."""
    data = memoryview(pack(message))
    while data:
        data = data[os.write(descriptor, data) :]


def read(descriptor: int) -> Any:
    """Wait for a message; None at the end. For the confined side, which trusts the grader."""
    data = bytearray()
    while (found := unpack(data)) is None:
        more = os.read(descriptor, _HEAD.size - len(data) if len(data) < _HEAD.size else 1 << 16)
        if not more:
            return None
        data += more
    return found[0]
