"""The place of values in C: containers of integers, structs of headers.

A bit<W> is kept in the smallest unsigned C integer that holds it, upper bits zero (int<W> too:
signed operations extend the sign when they need it). Beyond 128 bits it is a struct of 64-bit
limbs. Runs of four or more neighbouring fields of one width become a C array, so that what is
written for each field can be compiled as a loop.
"""

from __future__ import annotations

from collections.abc import Hashable

from p4engine.frontend.types import (
    BOOL,
    ERROR,
    Bits,
    Composite,
    EnumType,
    ListOf,
    Stack,
    Tuple,
    Type,
    Varbit,
    is_header,
    underlying,
)
from p4engine.middle.architecture import Architecture

RUN = 4


def container_bytes(width: int) -> int:
    """Bytes of the C type that holds bit<width>."""
    for size in (1, 2, 4, 8, 16):
        if width <= 8 * size:
            return size
    return (width + 63) // 64 * 8


def c_int(width: int) -> str:
    """The C type that holds bit<width>."""
    size = container_bytes(width)
    if size <= 8:
        return f"uint{8 * size}_t"
    if size == 16:
        return "p4_u128"
    return f"p4_big{size // 8}"


def words(width: int) -> int:
    """The number of 64-bit words for `width` bits."""
    return (width + 63) // 64


class Layout:
    """C types made so far; `definitions` is their text in an order that C accepts."""

    def __init__(self, architecture: Architecture) -> None:
        self.architecture = architecture
        self.definitions: list[str] = []
        self.bigs: set[int] = set()
        self._names: dict[Hashable, str] = {}
        self._paths: dict[int, dict[str, str]] = {}
        self._keep: list[Composite] = []  # so that their ids stay theirs

    def c_type(self, type_: Type) -> str:
        """The C type of a P4 type; defines it when it is asked for first."""
        under = underlying(type_)
        if isinstance(under, Bits):
            name = c_int(under.width)
            if name.startswith("p4_big"):
                self.bigs.add(int(name[6:]))
            return name
        if under == BOOL:
            return "uint8_t"
        if under == ERROR or isinstance(under, EnumType):
            return "uint32_t"
        if isinstance(under, Varbit):
            return self._varbit(under)
        if isinstance(under, Stack):
            return self._stack(under)
        if isinstance(under, Tuple):
            return self._tuple(under)
        if isinstance(under, Composite):
            fixed = self.architecture.structs.get(under.name)
            return self._composite(under) if fixed is None else fixed
        if isinstance(under, ListOf):
            return self.c_type(under.element)
        raise NotImplementedError(f"type {type_}")

    def _define(self, key: Hashable, name: str, body: str) -> str:
        self._names[key] = name
        self.definitions.append(f"typedef struct {name} {{ {body} }} {name};")
        return name

    def _varbit(self, type_: Varbit) -> str:
        key = ("varbit", type_.width)
        if key in self._names:
            return self._names[key]
        size = max(1, (type_.width + 7) // 8)
        return self._define(key, f"varbit_{type_.width}", f"uint32_t bits; uint8_t data[{size}];")

    def _stack(self, type_: Stack) -> str:
        element = self.c_type(type_.element)
        key = ("stack", element, type_.size)
        if key in self._names:
            return self._names[key]
        # One element more than declared: where an index outside ends up.
        body = f"uint32_t next; {element} e[{type_.size + 1}];"
        return self._define(key, f"stack_{len(self._names)}", body)

    def _tuple(self, type_: Tuple) -> str:
        elements = tuple(self.c_type(t) for t in type_.elements)
        key = ("tuple", elements)
        if key in self._names:
            return self._names[key]
        fields = " ".join(f"{t} f{i};" for i, t in enumerate(elements)) or "uint8_t none;"
        return self._define(key, f"tuple_{len(self._names)}", fields)

    def _composite(self, type_: Composite) -> str:
        key = ("composite", id(type_))
        if key in self._names:
            return self._names[key]
        self._keep.append(type_)
        name = f"{type_.kind[0]}_{type_.name}_{len(self._names)}"
        lines = ["uint8_t valid;"] if is_header(type_) else []
        paths: dict[str, str] = {}
        items = [(n, t, self.c_type(t)) for n, t in type_.fields.items()]
        i = 0
        while i < len(items):
            field, t, c = items[i]
            j = i
            while j < len(items) and items[j][2] == c and self._same_bits(items[j][1], t):
                j += 1
            if j - i >= RUN:
                for k in range(i, j):
                    paths[items[k][0]] = f"a{i}[{k - i}]"
                lines.append(f"{c} a{i}[{j - i}];")
                i = j
            else:
                paths[field] = f"f_{field}"
                lines.append(f"{c} f_{field};")
                i += 1
        self._paths[id(type_)] = paths
        return self._define(key, name, " ".join(lines) or "uint8_t none;")

    @staticmethod
    def _same_bits(a: Type, b: Type) -> bool:
        a, b = underlying(a), underlying(b)
        return isinstance(a, Bits) and isinstance(b, Bits) and a.width == b.width

    def member(self, type_: Type, field: str) -> str:
        """The C member that holds a field of a header, union or struct."""
        under = underlying(type_)
        assert isinstance(under, Composite)
        if under.name in self.architecture.structs:
            return self.architecture.member(under, field)
        self.c_type(under)
        return self._paths[id(under)][field]
