"""The types of P4-16 after names are resolved.

Types are compared with `==`; plain types are frozen values, declared types (headers, enums,
externs) are equal only to themselves. A `TypeVar` stands for a type parameter and disappears by
`substitute`. `Unknown` is the type of what was already reported; everything is compatible with
it, so one mistake gives one message.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


class Type:
    """Base of all types."""


@dataclass(frozen=True)
class Bits(Type):
    """bit<width> and int<width>."""

    width: int
    signed: bool = False

    def __str__(self) -> str:
        return f"{'int' if self.signed else 'bit'}<{self.width}>"

    def wrap(self, value: int) -> int:
        """`value` as it is after being stored in this type."""
        value &= (1 << self.width) - 1
        if self.signed and self.width and value >> (self.width - 1):
            value -= 1 << self.width
        return value

    @property
    def low(self) -> int:
        return -(1 << (self.width - 1)) if self.signed and self.width else 0

    @property
    def high(self) -> int:
        return (1 << max(0, self.width - self.signed)) - 1


@dataclass(frozen=True)
class Plain(Type):
    """int (no width), bool, string, error, void, match_kind, and the unknown type."""

    name: str

    def __str__(self) -> str:
        return self.name


INT = Plain("int")
BOOL = Plain("bool")
STRING = Plain("string")
ERROR = Plain("error")
VOID = Plain("void")
MATCH_KIND = Plain("match_kind")
UNKNOWN = Plain("unknown type")
DONT_CARE = Plain("_")
INVALID = Plain("{#}")


@dataclass(frozen=True)
class Varbit(Type):
    width: int

    def __str__(self) -> str:
        return f"varbit<{self.width}>"


class Composite(Type):
    """A header, header_union or struct; `fields` maps names to types in order."""

    def __init__(self, kind: str, name: str, decl: Any = None, arguments: tuple = ()):
        self.kind, self.name, self.decl, self.arguments = kind, name, decl, arguments
        self.fields: dict[str, Type] = {}

    def __str__(self) -> str:
        if self.arguments:
            return f"{self.name}<{', '.join(map(str, self.arguments))}>"
        return self.name


class StructLiteral(Type):
    """The type of {a = 1, b = 2} before it is known what it is for."""

    def __init__(self, fields: dict[str, Type]):
        self.fields = fields

    def __str__(self) -> str:
        return "{" + ", ".join(f"{n} = {t}" for n, t in self.fields.items()) + "}"


@dataclass(frozen=True)
class Stack(Type):
    element: Type
    size: int

    def __str__(self) -> str:
        return f"{self.element}[{self.size}]"


@dataclass(frozen=True)
class Tuple(Type):
    elements: tuple

    def __str__(self) -> str:
        return f"tuple<{', '.join(map(str, self.elements))}>"


@dataclass(frozen=True)
class ListOf(Type):
    element: Type

    def __str__(self) -> str:
        return f"list<{self.element}>"


@dataclass(frozen=True)
class SetOf(Type):
    element: Type

    def __str__(self) -> str:
        return f"set<{self.element}>"


class EnumType(Type):
    """`base` is a Bits for a serializable enum, else None; `members` maps names to numbers."""

    def __init__(self, name: str, base: Bits | None):
        self.name, self.base = name, base
        self.members: dict[str, int] = {}

    def __str__(self) -> str:
        return self.name


class NewType(Type):
    """type T name; distinct from T."""

    def __init__(self, name: str, base: Type):
        self.name, self.base = name, base

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, eq=False)
class TypeVar(Type):
    name: str
    decl: Any

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class ExternType(Type):
    decl: Any
    arguments: tuple = ()

    def __str__(self) -> str:
        if self.arguments:
            return f"{self.decl.name}<{', '.join(map(str, self.arguments))}>"
        return self.decl.name

    def __hash__(self) -> int:
        return hash((id(self.decl), self.arguments))


@dataclass(frozen=True)
class BlockType(Type):
    """A parser, control or package declaration used as a type."""

    decl: Any
    arguments: tuple = ()

    def __str__(self) -> str:
        return self.decl.name

    def __hash__(self) -> int:
        return hash(id(self.decl))


@dataclass(frozen=True, eq=False)
class Special(Type):
    """Things that are no values: what is "table", "action", "function", "state", "apply result",
    ..."""

    what: str
    decl: Any = None

    def __str__(self) -> str:
        return self.what


def substitute(type_: Type, bindings: dict) -> Type:
    """`type_` with its type variables replaced where `bindings` (by TypeVar) knows them."""
    if isinstance(type_, TypeVar):
        return bindings.get(type_, type_)
    if isinstance(type_, Stack):
        return Stack(substitute(type_.element, bindings), type_.size)
    if isinstance(type_, Tuple):
        return Tuple(tuple(substitute(t, bindings) for t in type_.elements))
    if isinstance(type_, ListOf):
        return ListOf(substitute(type_.element, bindings))
    if isinstance(type_, SetOf):
        return SetOf(substitute(type_.element, bindings))
    if isinstance(type_, ExternType) and type_.arguments:
        return ExternType(type_.decl, tuple(substitute(t, bindings) for t in type_.arguments))
    if isinstance(type_, Composite) and type_.arguments:
        arguments = tuple(substitute(t, bindings) for t in type_.arguments)
        if arguments != type_.arguments:
            return specialize(type_.decl, arguments)
    return type_


def specialize(decl: Any, arguments: tuple) -> Composite:
    """The struct or header that a generic declaration gives for these arguments."""
    generic: Composite = decl.type
    key = (id(decl), arguments)
    cache = generic.__dict__.setdefault("instances", {})
    if key not in cache:
        made = cache[key] = Composite(generic.kind, generic.name, decl, arguments)
        bindings = dict(zip(generic.arguments, arguments, strict=True))
        made.fields = {n: substitute(t, bindings) for n, t in generic.fields.items()}
    return cache[key]


def underlying(type_: Type) -> Type:
    """What a value of the type is made of: `type` names and serializable enums resolved."""
    while True:
        if isinstance(type_, NewType) or isinstance(type_, EnumType) and type_.base is not None:
            type_ = type_.base
        else:
            return type_


def is_header(type_: Type) -> bool:
    return isinstance(type_, Composite) and type_.kind == "header"


def is_union(type_: Type) -> bool:
    return isinstance(type_, Composite) and type_.kind == "header_union"


def has_header(type_: Type) -> bool:
    """Is the type a header, or is one in it?"""
    under = underlying(type_)
    if isinstance(under, Stack):
        return has_header(under.element)
    if isinstance(under, Tuple):
        return any(has_header(t) for t in under.elements)
    if isinstance(under, Composite):
        return under.kind != "struct" or any(has_header(t) for t in under.fields.values())
    return False


def width_of(type_: Type) -> int | None:
    """Bits that a value takes in a packet or key (maximum for varbit); None where that means
    nothing."""
    type_ = underlying(type_)
    if isinstance(type_, Bits | Varbit):
        return type_.width
    if type_ == BOOL:
        return 1
    if type_ == ERROR or isinstance(type_, EnumType):
        return 32
    if isinstance(type_, Composite):
        widths = [width_of(t) for t in type_.fields.values()]
        if None in widths:
            return None
        return max(widths, default=0) if type_.kind == "header_union" else sum(widths)
    if isinstance(type_, Tuple):
        widths = [width_of(t) for t in type_.elements]
        return None if None in widths else sum(widths)
    if isinstance(type_, Stack):
        width = width_of(type_.element)
        return None if width is None else width * type_.size
    return None
