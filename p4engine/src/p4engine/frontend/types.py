"""The types of P4-16 after names are resolved.

Types are compared with `==`; plain types are frozen values, declared types (headers, enums,
externs) are equal only to themselves. A `TypeVar` stands for a type parameter and disappears by
`substitute`. `Unknown` is the type of what was already reported; everything is compatible with
it, so one mistake gives one message.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeGuard

from p4engine.frontend import ast
from p4engine.frontend.ast import Type as Type


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

    def __init__(
        self, kind: str, name: str, decl: ast.Composite, arguments: tuple[Type, ...] = ()
    ) -> None:
        self.kind, self.name, self.decl, self.arguments = kind, name, decl, arguments
        self.fields: dict[str, Type] = {}
        self.instances: dict[tuple[Type, ...], Composite] = {}  # of a generic declaration

    def __str__(self) -> str:
        if self.arguments:
            return f"{self.name}<{', '.join(map(str, self.arguments))}>"
        return self.name


class StructLiteral(Type):
    """The type of {a = 1, b = 2} before it is known what it is for."""

    def __init__(self, fields: dict[str, Type]) -> None:
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
    elements: tuple[Type, ...]

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

    def __init__(self, name: str, base: Bits | None) -> None:
        self.name, self.base = name, base
        self.members: dict[str, int] = {}

    def __str__(self) -> str:
        return self.name


class NewType(Type):
    """type T name; distinct from T."""

    def __init__(self, name: str, base: Type) -> None:
        self.name, self.base = name, base

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, eq=False)
class TypeVar(Type):
    name: str
    decl: ast.TypeParameter

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class ExternType(Type):
    decl: ast.ExternObject
    arguments: tuple[Type, ...] = ()

    def __str__(self) -> str:
        if self.arguments:
            return f"{self.decl.name}<{', '.join(map(str, self.arguments))}>"
        return self.decl.name

    def __hash__(self) -> int:
        return hash((id(self.decl), self.arguments))


@dataclass(frozen=True)
class BlockType(Type):
    """A parser, control or package declaration used as a type."""

    decl: ast.Parser | ast.Control | ast.Package
    arguments: tuple[Type, ...] = ()

    def __str__(self) -> str:
        return self.decl.name

    def __hash__(self) -> int:
        return hash(id(self.decl))


@dataclass(frozen=True, eq=False)
class Special(Type):
    """A thing that an expression names and that is no value; `what` is its kind, for messages."""

    what: str

    def __str__(self) -> str:
        return self.what


@dataclass(frozen=True, eq=False)
class TypeMeant(Special):
    """The name of a type."""

    type: Type


@dataclass(frozen=True, eq=False)
class FunctionsMeant(Special):
    """The name of functions, or of methods of an extern object."""

    candidates: list[ast.Function]


@dataclass(frozen=True, eq=False)
class ActionMeant(Special):
    """The name of an action."""

    decl: ast.Action


@dataclass(frozen=True, eq=False)
class TableMeant(Special):
    """A table, the result of its apply(), or that result's action_run."""

    decl: ast.Table


def substitute(type_: Type, bindings: Mapping[Type, Type]) -> Type:
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


def specialize(decl: ast.Composite, arguments: tuple[Type, ...]) -> Composite:
    """The struct or header that a generic declaration gives for these arguments."""
    generic = decl.type
    assert isinstance(generic, Composite)
    made = generic.instances.get(arguments)
    if made is None:
        made = Composite(generic.kind, generic.name, decl, arguments)
        generic.instances[arguments] = made
        bindings = dict(zip(generic.arguments, arguments, strict=True))
        made.fields = {n: substitute(t, bindings) for n, t in generic.fields.items()}
    return made


def has_variable(type_: Type) -> bool:
    """True if there is a type variable in the type."""
    if isinstance(type_, TypeVar):
        return True
    if isinstance(type_, Stack | ListOf):
        return has_variable(type_.element)
    if isinstance(type_, Tuple):
        return any(has_variable(t) for t in type_.elements)
    if isinstance(type_, Composite | ExternType | BlockType):
        return any(has_variable(t) for t in type_.arguments)
    return False


def has_dots(type_: Type) -> bool:
    """True for the type of `...`, or of a list with it. They fit any type and are none."""
    if isinstance(type_, Tuple):
        return any(has_dots(t) for t in type_.elements)
    return type_ == DONT_CARE


def underlying(type_: Type) -> Type:
    """The underlying type of a value: `type` names and serializable enums resolved."""
    base: Type | None = type_
    while base is not None:
        type_ = base
        base = type_.base if isinstance(type_, NewType | EnumType) else None
    return type_


def number_type(type_: Type) -> Type:
    """The type of the numbers that the values of a serializable enum become; else `type_`."""
    return type_.base if isinstance(type_, EnumType) and type_.base is not None else type_


def is_header(type_: Type) -> TypeGuard[Composite]:
    """True if the type is a header."""
    return isinstance(type_, Composite) and type_.kind == "header"


def is_flexible(type_: Type) -> bool:
    """True for a header that is @flexible, or has such fields: its layout is the compiler's, so it
    is filled up to whole bytes."""
    under = underlying(type_)
    if not isinstance(under, Composite):
        return False
    marked = (under.decl, *under.decl.fields)
    return any(a.name == "flexible" for decl in marked for a in decl.annotations)


def is_union(type_: Type) -> TypeGuard[Composite]:
    """True if the type is a header union."""
    return isinstance(type_, Composite) and type_.kind == "header_union"


def has_header(type_: Type) -> bool:
    """True if the type is a header, or has one in it."""
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
    under = underlying(type_)
    if isinstance(under, Bits | Varbit):
        return under.width
    if under == BOOL:
        return 1
    if under == ERROR or isinstance(under, EnumType):
        return 32
    if isinstance(under, Stack):
        width = width_of(under.element)
        return None if width is None else width * under.size
    if isinstance(under, Composite):
        members = list(under.fields.values())
    elif isinstance(under, Tuple):
        members = list(under.elements)
    else:
        return None
    widths = []
    for member in members:
        width = width_of(member)
        if width is None:
            return None
        widths.append(width)
    return max(widths, default=0) if is_union(under) else sum(widths)


def fixed_size(type_: Type) -> bool:
    """Do all values of the type take the same number of bits in a packet?"""
    under = underlying(type_)
    if isinstance(under, Stack):
        return fixed_size(under.element)
    if isinstance(under, Composite):
        return not is_union(under) and all(map(fixed_size, under.fields.values()))
    if isinstance(under, Tuple):
        return all(map(fixed_size, under.elements))
    return isinstance(under, Bits) or under == BOOL


def minimum_width(type_: Type) -> int:
    """Width as by width_of, but a varbit counts as empty."""
    under = underlying(type_)
    if isinstance(under, Varbit):
        return 0
    if isinstance(under, Composite):
        widths = [minimum_width(t) for t in under.fields.values()]
        return max(widths, default=0) if under.kind == "header_union" else sum(widths)
    if isinstance(under, Stack):
        return minimum_width(under.element) * under.size
    return width_of(under) or 0


def can_be_field(kind: str, type_: Type) -> bool:
    """Can a header, header_union or struct (`kind`) have a field of this type?"""
    if isinstance(type_, TypeVar):
        return True
    if kind == "header":
        return isinstance(type_, Varbit) or _fixed_in_headers(type_)
    if kind == "header_union":
        return is_header(type_)
    return not isinstance(type_, ExternType | BlockType | ListOf) and type_ not in (
        VOID,
        INT,
        STRING,
        MATCH_KIND,
    )


def _fixed_in_headers(type_: Type) -> bool:
    """Can a header have a field of this type, which has a fixed size?"""
    under = underlying(type_)
    if isinstance(under, Stack):
        return _fixed_in_headers(under.element)
    if isinstance(under, Composite):
        return under.kind == "struct" and all(map(_fixed_in_headers, under.fields.values()))
    return isinstance(under, Bits | TypeVar) or under == BOOL
