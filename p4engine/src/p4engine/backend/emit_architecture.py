"""Emitter of an architecture's C: its externs, and the functions of its pipeline.

The compiler asks an architecture for such an emitter and hands it the parts that it writes with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from p4engine.backend.context import Context
from p4engine.backend.emit_composite import CompositeEmitter
from p4engine.backend.emit_expr import ExpressionEmitter
from p4engine.backend.emit_fields import FieldEmitter, Fields
from p4engine.backend.emit_left import LeftEmitter
from p4engine.backend.emit_numbers import NumberEmitter
from p4engine.backend.emit_packet import PacketEmitter
from p4engine.backend.emit_stages import StageEmitter
from p4engine.frontend.types import Type
from p4engine.middle.instantiate import TableInstance

# Writes the call of an extern function ("name") or method ("type.name") from the call and its
# arguments; returns the C expression of its value, if it has one.
Functions: TypeAlias = Mapping[str, Callable[..., str | None]]


@dataclass(frozen=True)
class Parts:
    """Parts of the emitter that an architecture uses."""

    context: Context
    numbers: NumberEmitter
    composites: CompositeEmitter
    left: LeftEmitter
    expressions: ExpressionEmitter
    fields: FieldEmitter
    packets: PacketEmitter
    stages: StageEmitter


class ArchitectureEmitter(Protocol):
    """The C of one program's architecture. `functions` are its externs; `headers` and `metadata`
    the types that info tells of; `counts_hits`: a direct counter counts at every hit of its table,
    not when an action says so; `c_headers` are included beyond p4gen.h."""

    functions: Functions
    headers: Sequence[Type]
    metadata: Sequence[Type]
    counts_hits: bool
    c_headers: Sequence[str]

    def selector_hash(self, table: TableInstance, keys: Fields) -> str:
        """C expression of the hash that chooses a member of the table's action selector."""

    def alive(self, table: TableInstance) -> str:
        """C of which members of the table's selector are there (p4_alive); empty: all are."""

    def pipeline(self) -> list[str]:
        """The C functions of the stages."""

    def state(self) -> str:
        """C members of a packet's state behind `base`."""

    def around(self) -> list[str]:
        """The C functions that begin a packet's pass."""

    def entry_points(self) -> str:
        """The C names of p4_program's functions from `start` on."""

    def field_lists(self) -> list[int]:
        """The numbers of the program's field lists."""
