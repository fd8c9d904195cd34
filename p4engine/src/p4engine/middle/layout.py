"""Where values live in C: containers of integers, structs of headers, records of registers.

A bit<W> is kept in the smallest unsigned C integer that holds it, upper bits zero (int<W> too:
signed operations extend the sign when they need it). Beyond 128 bits it is a struct of 64-bit
limbs. Runs of four or more neighbouring fields of one width become a C array, so that what is
written for each field can be compiled as a loop; the same holds for registers of one size, which
share an array of records, one record per index: 64 registers read at one index are one
contiguous piece of memory.
"""

from __future__ import annotations

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

RUN = 4
CACHE_LINE = 64


def container_bytes(width: int) -> int:
    """Bytes of the C type that holds bit<width>."""
    for size in (1, 2, 4, 8, 16):
        if width <= 8 * size:
            return size
    return (width + 63) // 64 * 8


def c_int(width: int) -> str:
    size = container_bytes(width)
    if size <= 8:
        return f"uint{8 * size}_t"
    if size == 16:
        return "p4_u128"
    return f"p4_big{size // 8}"


def words(width: int) -> int:
    return (width + 63) // 64


class Layout:
    """C types made so far; `definitions` is their text in an order that C accepts."""

    def __init__(self) -> None:
        self.definitions: list[str] = []
        self.bigs: set[int] = set()
        self._names: dict = {}
        self._paths: dict[int, dict[str, str]] = {}
        self._keep: list = []

    def c_type(self, type_: Type) -> str:
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
            key = ("varbit", under.width)
            if key not in self._names:
                name = self._names[key] = f"varbit_{under.width}"
                size = max(1, (under.width + 7) // 8)
                self.definitions.append(
                    f"typedef struct {name} {{ uint32_t bits; uint8_t data[{size}]; }} {name};"
                )
            return self._names[key]
        if isinstance(under, Stack):
            key = ("stack", self.c_type(under.element), under.size)
            if key not in self._names:
                name = self._names[key] = f"stack_{len(self._names)}"
                # One element more than declared: where an index outside ends up.
                self.definitions.append(
                    f"typedef struct {name} {{ uint32_t next; {key[1]} e[{under.size + 1}]; }}"
                    f" {name};"
                )
            return self._names[key]
        if isinstance(under, Tuple):
            key = ("tuple", tuple(self.c_type(t) for t in under.elements))
            if key not in self._names:
                name = self._names[key] = f"tuple_{len(self._names)}"
                fields = " ".join(f"{t} f{i};" for i, t in enumerate(key[1])) or "uint8_t none;"
                self.definitions.append(f"typedef struct {name} {{ {fields} }} {name};")
            return self._names[key]
        if isinstance(under, Composite):
            if under.name == "standard_metadata_t":
                return "p4_std"
            key = ("composite", id(under))
            if key not in self._names:
                self._keep.append(under)
                self._composite(under, key)
            return self._names[key]
        if isinstance(under, ListOf):
            return self.c_type(under.element)
        raise NotImplementedError(f"type {type_}")

    def _composite(self, type_: Composite, key: tuple) -> None:
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
        self._names[key] = name
        self._paths[id(type_)] = paths
        body = " ".join(lines) or "uint8_t none;"
        self.definitions.append(f"typedef struct {name} {{ {body} }} {name};")

    @staticmethod
    def _same_bits(a: Type, b: Type) -> bool:
        a, b = underlying(a), underlying(b)
        return isinstance(a, Bits) and isinstance(b, Bits) and a.width == b.width

    def member(self, type_: Type, field: str) -> str:
        """The C member that holds a field of a header, union or struct."""
        under = underlying(type_)
        if under.name == "standard_metadata_t":
            return field
        self.c_type(under)
        return self._paths[id(under)][field]


class Records:
    """Registers grouped by their number of elements."""

    def __init__(self, registers: list, layout: Layout):
        self.access: list[
            tuple[int, str, int, int, int]
        ] = []  # record, member, offset, bytes, width
        self.groups: list[tuple[int, int, str]] = []  # stride, count, struct body
        by_count: dict[int, list] = {}
        for register in registers:
            by_count.setdefault(register.arguments.get("size") or 0, []).append(register)
        self.access = [None] * len(registers)  # type: ignore[list-item]
        for number, (count, members) in enumerate(by_count.items()):
            widths = {r.number: _width(r.type.arguments[0]) for r in members}
            order = sorted(members, key=lambda r: -container_bytes(widths[r.number]))
            lines, offset, i = [], 0, 0
            while i < len(order):
                width = widths[order[i].number]
                j = i
                while j < len(order) and widths[order[j].number] == width:
                    j += 1
                size = container_bytes(width)
                layout.c_type(Bits(width))
                for k in range(i, j):
                    self.access[order[k].number] = (
                        number,
                        f"a{i}[{k - i}]",
                        offset + size * (k - i),
                        size,
                        width,
                    )
                lines.append(f"{c_int(width)} a{i}[{j - i}];")
                offset += size * (j - i)
                i = j
            stride = offset
            if stride > CACHE_LINE // 2:
                stride = (stride + CACHE_LINE - 1) // CACHE_LINE * CACHE_LINE
            else:
                align = max((container_bytes(w) for w in widths.values()), default=1)
                align = min(align, 16)
                stride = (stride + align - 1) // align * align
            if stride > offset:
                lines.append(f"uint8_t pad[{stride - offset}];")
            self.groups.append((stride, count, " ".join(lines)))


def _width(type_: Type) -> int:
    under = underlying(type_)
    return under.width if isinstance(under, Bits) else 1
