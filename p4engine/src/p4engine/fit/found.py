"""What following a packet finds in a program: accesses, applications of tables, oddities."""

from __future__ import annotations

from dataclasses import dataclass, field

from p4engine.fit.values import Guard, Value
from p4engine.frontend.diagnostics import Place
from p4engine.middle.instantiate import ExternInstance, TableInstance


@dataclass(eq=False)
class Access:
    """What a packet does to an array (register, counter or meter) at one place of the program.

    kind: "read", "write" or "count". `conditions` are those of the guard that the others do not
    imply. `value` is what is written, `result` what was read.
    """

    array: ExternInstance
    kind: str
    index: Value
    guard: Guard
    conditions: list[Value]
    place: Place
    number: int
    value: Value | None = None
    result: Value | None = None


@dataclass(eq=False)
class Application:
    """A table at one place where it is applied; `used` is what its actions compute with."""

    table: TableInstance
    keys: list[Value]
    guard: Guard
    conditions: list[Value]
    place: Place
    number: int
    used: list[Value] = field(default_factory=list)


@dataclass(frozen=True)
class Strange:
    """Something that the pipeline cannot do at all."""

    place: Place
    text: str
