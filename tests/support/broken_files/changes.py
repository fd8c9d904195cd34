"""Random changes of a file's bytes, and of the data in it.

Changes of bytes make files that are no longer YAML, JSON, a zip archive or text. Changes of data
make files that are, but say something else: another type, a missing or doubled key, a huge number,
a deep list, a value from another place.
"""

from __future__ import annotations

import copy
import json
import random
from typing import Any

import yaml

TOKENS = (
    *(
        b"\x00",
        b"\xff\xfe",
        b"\xc3\x28",
        b"\xe2\x80\xa8",
        b"\xf0\x9f\x98\x80",
        b"\t",
        b"\r",
        b"\r\n",
    ),
    *(b"{", b"}", b"[", b"]", b"[" * 200, b"{a: " * 200, b"&a ", b"*a", b"<<: *a", b": ", b"- "),
    *(
        b"!!python/object:os.system x",
        b"!!binary x",
        b"---\n",
        b"...\n",
        b"%YAML 9\n",
        b"? ",
        b"|\n",
    ),
    *(b"'", b'"', b"#", b",", b";", b"\\", b"../", b"/etc/passwd", b"%s%n", b"null", b"~", b"yes"),
    *(b"NaN", b"-1", b"1e999", b"9" * 400, b"0x10", b"1_0", b"2001-01-01"),
)
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**63, 10**400, 1.5, -0.0, float("inf"), float("nan")),
    *(
        "",
        " ",
        "a",
        "x" * 5000,
        "\x00",
        "\ud7ff",
        "1",
        "1 Mbit/s",
        "-1 s",
        "1e400 s",
        "50 %",
        "../..",
    ),
    *("/", "h1", "s1", [], {}, [[]], [None], {"": None}, {"a": {"a": {}}}, [1, [2, [3]]]),
    list(range(300)),
)


# One of each kind of value; the number of them is prime, so that they meet places of all kinds.
KINDS: tuple[Any, ...] = (
    *(None, True, 0, 7, 10**400, 1.5, "", "a", "\x00", [], [7], {}, {"a": 7}),
)


def changed_bytes(content: bytes, other: bytes, rng: random.Random) -> bytes:
    """`content` with one to four changes; `other`: a file of the same kind, to take parts of."""
    data = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        start = rng.randrange(len(data) + 1)
        end = min(len(data), start + rng.choice((1, 1, 3, 10, 100, 3000)))
        kind = rng.randrange(7)
        if kind == 0:
            del data[start:end]
        elif kind == 1:
            data[start:start] = rng.choice(TOKENS)
        elif kind == 2:
            data[start:end] = rng.choice(TOKENS)
        elif kind == 3 and start < len(data):
            data[start] ^= 1 << rng.randrange(8)
        elif kind == 4:
            data[start:start] = data[start:end]
        elif kind == 5:
            place = rng.randrange(len(other) + 1)
            data[start:end] = other[place : place + (end - start)]
        else:
            del data[start:]
    return bytes(data)


def changed_data(data: Any, rng: random.Random) -> Any:
    """Plain data with one to three changes."""
    made = copy.deepcopy(data)
    for _ in range(rng.choice((1, 1, 2, 3))):
        found = list(places(made))
        if not found:
            return rng.choice(VALUES)
        holder, key = rng.choice(found)
        kind = rng.randrange(6)
        if kind == 0:
            del holder[key]
        elif kind <= 2:
            holder[key] = copy.deepcopy(rng.choice(VALUES))
        elif kind == 3:
            there, at = rng.choice(found)
            holder[key] = copy.deepcopy(there[at])
        elif kind == 4 and isinstance(holder, list):
            holder.insert(key, copy.deepcopy(rng.choice(VALUES)))
        elif isinstance(holder, dict):
            holder[rng.choice(("", "name", "x" * 300, 5, None, "links", "key"))] = holder.pop(key)
        else:
            holder.extend(copy.deepcopy(holder) * rng.choice((1, 30)))
    return made


def as_text(data: Any, suffix: str) -> bytes:
    """Data as JSON or YAML; what only Python can hold as its text."""
    if suffix == ".json":
        return json.dumps(data, default=str, skipkeys=True).encode("utf-8", "surrogatepass")
    return yaml.safe_dump(data, sort_keys=False, allow_unicode=True).encode("utf-8", "replace")


def places(data: Any) -> Any:
    """(holder, key) of every value within."""
    if isinstance(data, dict):
        for key, value in data.items():
            yield data, key
            yield from places(value)
    elif isinstance(data, list):
        for number, value in enumerate(data):
            yield data, number
            yield from places(value)
