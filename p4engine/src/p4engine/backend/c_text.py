"""C text that needs no context: numbers cut to a width, strings, constant arrays.

Every value of a P4 integer is kept reduced to its width; `norm` is where a C result is cut back
to it.
"""

from __future__ import annotations

from collections.abc import Sequence

from p4engine.frontend.diagnostics import InternalError
from p4engine.frontend.types import (
    BOOL,
    ERROR,
    Bits,
    Composite,
    EnumType,
    Stack,
    Tuple,
    Type,
    underlying,
    width_of,
)
from p4engine.middle.instantiate import Value, known_number
from p4engine.middle.layout import c_int, words

WORD = 2**64 - 1  # a 64-bit word of ones

# ---- types ----


def integer(type_: Type) -> Bits:
    """The integer type that `type_` is made of; the checker has made sure that there is one."""
    under = underlying(type_)
    assert isinstance(under, Bits), f"{type_} is no integer"
    return under


def zero(type_: Type) -> str:
    """The C initializer of a value of zeros."""
    under = underlying(type_)
    if isinstance(under, Bits):
        return "0" if under.width <= 128 else "{{0}}"
    if under in (BOOL, ERROR) or isinstance(under, EnumType):
        return "0"
    return "{0}"


# ---- widths ----


def compute(width: int) -> str:
    """The unsigned C type to compute in."""
    return "uint32_t" if width <= 32 else "uint64_t" if width <= 64 else "p4_u128"


def mask(width: int) -> str:
    """A C number of `width` ones."""
    if width <= 64:
        value = (1 << width) - 1
        return f"{value}u" if width <= 32 else f"{value}ull"
    high = (1 << (width - 64)) - 1
    return f"P4_U128({high}ull, {WORD}ull)"


def norm(text: str, width: int) -> str:
    """Reduce a C integer to `width` bits in its container."""
    c = c_int(width)
    if width in (8, 16, 32, 64, 128):
        return f"(({c})({text}))"
    return f"(({c})(({text}) & {mask(width)}))"


def signed(text: str, width: int) -> str:
    """`text` of int<width>, width <= 128, as a signed C integer."""
    bits = 32 if width <= 32 else 64 if width <= 64 else 128
    return f"P4_SX{bits}({text}, {width})"


# ---- constants ----


def c_string(text: str) -> str:
    """A C string literal."""
    made = "".join(
        c
        if c.isascii() and c.isprintable() and c not in '"\\?'
        else "".join(f"\\{b:03o}" for b in c.encode())
        for c in text
    )
    return f'"{made}"'


def c_array(c_type: str, name: str, rows: Sequence[str]) -> str:
    """The definition of a constant C array; C has no empty ones."""
    empty = "{ 0 }"
    return f"static const {c_type} {name}[] = {{ {', '.join(rows) or empty} }};"


def c_words(values: Sequence[int]) -> str:
    """64-bit words as the inside of a C initializer."""
    return ", ".join(f"{v}ull" for v in values) or "0"


def to_words(value: Value, width: int) -> list[int]:
    """A compile-time number as little-endian 64-bit words."""
    number = known_number(value) & ((1 << width) - 1)
    return [number >> (64 * i) & WORD for i in range(words(width) or 1)]


def packed(value: Value, type_: Type) -> int:
    """The bits of a value known at compile time, the first field of a struct uppermost."""
    under = underlying(type_)
    if isinstance(under, Composite | Tuple | Stack):
        types: list[Type]
        if isinstance(under, Stack):
            types = [under.element] * under.size
        else:
            types = list(under.fields.values() if isinstance(under, Composite) else under.elements)
        if isinstance(value, dict) and isinstance(under, Composite):
            parts = [value[name] for name in under.fields]
        elif isinstance(value, list):
            parts = value
        else:
            raise InternalError(f"{value!r} is no {type_}")
        number = 0
        for part, t in zip(parts, types, strict=True):
            number = number << (width_of(t) or 0) | packed(part, t)
        return number
    return known_number(value) & ((1 << (width_of(under) or 0)) - 1)
