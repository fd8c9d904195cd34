"""Bits: of arrays and tables in SRAM and TCAM, and of headers and metadata in the PHV."""

from __future__ import annotations

from dataclasses import dataclass

from p4engine.fit.flow import Flow
from p4engine.fit.limits import BLOCK_BITS, TCAM_ENTRIES, TCAM_KEY_BITS
from p4engine.fit.parts import leaves, members
from p4engine.frontend.diagnostics import Place
from p4engine.frontend.types import Type, is_header, is_union, underlying, width_of
from p4engine.middle.instantiate import ExternInstance, Instances, TableInstance

IN_TCAM = ("lpm", "ternary", "range", "optional")
COUNTER_BITS = 64  # of packets or bytes; a meter has as many


@dataclass(frozen=True)
class Memory:
    """What an array or a table takes; `sram_bits` in whole blocks."""

    sram_bits: int
    tcam_bits: int = 0


@dataclass(frozen=True)
class Phv:
    """Bits in the packet header vector, and the place of the structs whose fields they are."""

    headers: int
    metadata: int
    standard: int
    place: Place

    @property
    def bits(self) -> int:
        return self.headers + self.metadata + self.standard


def element_bits(array: ExternInstance) -> int:
    """Bits of an array's element, as the program declares it."""
    if array.kind == "register":
        return width_of(array.type.arguments[0]) or 0
    return COUNTER_BITS


def stored_bits(width: int) -> int:
    """Bits that an element takes: 1, 8, 16, 32, 64, or multiples of 64."""
    if width <= 1:
        return 1
    for size in (8, 16, 32, 64):
        if width <= size:
            return size
    return (width + 63) // 64 * 64


def of_array(array: ExternInstance) -> Memory:
    """The memory of a register, counter or meter."""
    return Memory(_blocks(array.size * stored_bits(element_bits(array))))


def of_table(table: TableInstance, default_size: int = 1024) -> Memory:
    """The memory of a table's entries. A table without keys has none."""
    keys = [key for key in table.keys if key.kind != "selector"]
    size = table.size or default_size
    if not keys:
        return Memory(0)
    key_bits = sum(key.width for key in keys)
    data = max((sum(width_of(p.type) or 0 for p in a.data) for a in table.actions), default=0)
    number = max(1, (len(table.actions) - 1).bit_length())  # of the action
    if table.profile is not None:
        rows = table.profile.size or default_size
        data, shared = rows.bit_length(), _blocks(rows * (data + number))
    else:
        shared = 0
    if any(key.kind in IN_TCAM for key in keys):
        wide, high = -(-key_bits // TCAM_KEY_BITS), -(-size // TCAM_ENTRIES)
        tcam = wide * high * TCAM_KEY_BITS * TCAM_ENTRIES
        return Memory(_blocks(size * (data + number)) + shared, tcam)
    return Memory(_blocks(size * (key_bits + data + number)) + shared)


def _blocks(bits: int) -> int:
    return -(-bits // BLOCK_BITS) * BLOCK_BITS


def phv_of(instances: Instances, flow: Flow) -> Phv:
    """All headers with their validity, all fields of the metadata, and of the standard metadata
    what ingress and egress use."""
    parser = instances.blocks["p"].decl
    headers, metadata = (parser.parameters[i].type for i in (1, 2))
    standard: dict[str, int] = {}
    for block in ("ig", "eg"):
        parameter = instances.blocks[block].decl.parameters[2]
        for path, type_ in leaves(parameter.type):
            if (id(parameter), path) in flow.touched:
                standard[".".join(path)] = width_of(type_) or 0
    place = _declared(headers, parser.place)
    return Phv(_bits(headers), _bits(metadata), sum(standard.values()), place)


def _bits(type_: Type) -> int:
    """Of a union those of its largest header."""
    parts = [_bits(part) for _, part in members(type_)]
    if is_union(type_):
        return max(parts, default=0)
    if is_header(underlying(type_)):
        return sum(parts) + 1
    return sum(parts) if parts else width_of(type_) or 0


def _declared(type_: Type, otherwise: Place) -> Place:
    decl = getattr(type_, "decl", None)
    return decl.place if decl is not None else otherwise
