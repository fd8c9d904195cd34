"""The syntax tree, as the parser builds it and the checker decorates it.

Plain mutable nodes. `place` is where a message about the node should point. Expressions get
`type` (a types.Type) and, when the value is known at compile time, `const`; names get `decl`,
the declaration they mean. No pass rewrites the tree: the code generator reads the decorated one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from p4engine.frontend.diagnostics import Place


@dataclass(slots=True, eq=False)
class Node:
    place: Place


# ---- types as written ----


@dataclass(slots=True, eq=False)
class TypeBase(Node):
    """bit, int, varbit (with `width`), bool, error, match_kind, string, void, _ (don't care)."""

    kind: str
    width: Any = None


@dataclass(slots=True, eq=False)
class TypeName(Node):
    name: str
    absolute: bool = False


@dataclass(slots=True, eq=False)
class TypeSpecialized(Node):
    base: TypeName
    arguments: list


@dataclass(slots=True, eq=False)
class TypeStack(Node):
    element: Node
    size: Any


@dataclass(slots=True, eq=False)
class TypeTuple(Node):
    elements: list


@dataclass(slots=True, eq=False)
class TypeList(Node):
    element: Node


# ---- expressions ----


@dataclass(slots=True, eq=False)
class Expr(Node):
    type: Any = field(default=None, init=False)
    const: Any = field(default=None, init=False)


@dataclass(slots=True, eq=False)
class Number(Expr):
    value: int
    width: int | None
    signed: bool


@dataclass(slots=True, eq=False)
class Bool(Expr):
    value: bool


@dataclass(slots=True, eq=False)
class String(Expr):
    value: str


@dataclass(slots=True, eq=False)
class Name(Expr):
    name: str
    absolute: bool = False
    decl: Any = field(default=None, init=False)


@dataclass(slots=True, eq=False)
class Member(Expr):
    base: Any
    name: str
    decl: Any = field(default=None, init=False)


@dataclass(slots=True, eq=False)
class Index(Expr):
    base: Any
    index: Any


@dataclass(slots=True, eq=False)
class Slice(Expr):
    base: Any
    high: Any
    low: Any


@dataclass(slots=True, eq=False)
class Unary(Expr):
    op: str
    operand: Any


@dataclass(slots=True, eq=False)
class Binary(Expr):
    op: str
    left: Any
    right: Any


@dataclass(slots=True, eq=False)
class Cast(Expr):
    target: Node
    operand: Any


@dataclass(slots=True, eq=False)
class Ternary(Expr):
    condition: Any
    yes: Any
    no: Any


@dataclass(slots=True, eq=False)
class Argument(Node):
    """`name` for a named argument; `value` is None for don't care (`_`)."""

    name: str | None
    value: Any


@dataclass(slots=True, eq=False)
class Call(Expr):
    """Function, method, action, table or constructor call; the checker fills `call`."""

    function: Any
    type_arguments: list
    arguments: list
    call: Any = field(default=None, init=False)


@dataclass(slots=True, eq=False)
class ListExpr(Expr):
    """{a, b}; `dots` if it ends in "..." """

    items: list
    dots: bool = False


@dataclass(slots=True, eq=False)
class StructExpr(Expr):
    """{x = a, y = b}, optionally with its type in front: T {...}"""

    fields: list  # of (name, expr)
    target: Any = None
    dots: bool = False


@dataclass(slots=True, eq=False)
class InvalidHeader(Expr):
    """{#}"""


@dataclass(slots=True, eq=False)
class DontCare(Expr):
    """_ or default in a select, dots in an initializer"""


@dataclass(slots=True, eq=False)
class Mask(Expr):
    value: Any
    mask: Any


@dataclass(slots=True, eq=False)
class Range(Expr):
    low: Any
    high: Any


@dataclass(slots=True, eq=False)
class TypeExpr(Expr):
    """A type where an expression stands: the base of E.member, the callee of a constructor."""

    target: Node


# ---- statements ----


@dataclass(slots=True, eq=False)
class Assign(Node):
    """`op` is "" or the operator of a compound assignment."""

    left: Any
    op: str
    right: Any


@dataclass(slots=True, eq=False)
class CallStatement(Node):
    call: Call


@dataclass(slots=True, eq=False)
class If(Node):
    condition: Any
    yes: Any
    no: Any


@dataclass(slots=True, eq=False)
class Block(Node):
    statements: list
    annotations: list = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Return(Node):
    value: Any


@dataclass(slots=True, eq=False)
class Exit(Node):
    pass


@dataclass(slots=True, eq=False)
class Break(Node):
    pass


@dataclass(slots=True, eq=False)
class Continue(Node):
    pass


@dataclass(slots=True, eq=False)
class Empty(Node):
    pass


@dataclass(slots=True, eq=False)
class SwitchCase(Node):
    """`labels` of consecutive cases that share `body`; body is None for a trailing fall-through."""

    labels: list
    body: Any


@dataclass(slots=True, eq=False)
class Switch(Node):
    value: Any
    cases: list
    table: Any = None


@dataclass(slots=True, eq=False)
class For(Node):
    init: list
    condition: Any
    update: list
    body: Any


@dataclass(slots=True, eq=False)
class ForIn(Node):
    variable: Any  # a Variable declaration, or an expression
    collection: Any
    body: Any


# ---- declarations ----


@dataclass(slots=True, eq=False)
class Annotation(Node):
    name: str
    body: list  # tokens' texts, or expressions for the few that are parsed


@dataclass(slots=True, eq=False)
class Decl(Node):
    name: str
    annotations: list = field(default_factory=list, kw_only=True)
    type: Any = field(default=None, init=False)


@dataclass(slots=True, eq=False)
class Constant(Decl):
    target: Node
    value: Any
    const: Any = None


@dataclass(slots=True, eq=False)
class Variable(Decl):
    target: Node
    value: Any


@dataclass(slots=True, eq=False)
class Parameter(Decl):
    direction: str  # "", "in", "out", "inout"
    target: Node
    default: Any = None


@dataclass(slots=True, eq=False)
class TypeParameter(Decl):
    pass


@dataclass(slots=True, eq=False)
class Instance(Decl):
    target: Node
    arguments: list
    body: Any = None
    constructor: Any = None


@dataclass(slots=True, eq=False)
class Field(Decl):
    target: Node


@dataclass(slots=True, eq=False)
class Composite(Decl):
    """header, header_union, struct"""

    kind: str
    type_parameters: list
    fields: list


@dataclass(slots=True, eq=False)
class Enum(Decl):
    """`base` is the type of a serializable enum; members are (name, place, expr or None)."""

    base: Any
    members: list


@dataclass(slots=True, eq=False)
class ErrorDecl(Decl):
    members: list


@dataclass(slots=True, eq=False)
class MatchKindDecl(Decl):
    members: list


@dataclass(slots=True, eq=False)
class Typedef(Decl):
    """typedef, and `type` (is_new)"""

    target: Any
    is_new: bool


@dataclass(slots=True, eq=False)
class Function(Decl):
    """A function with a body, an extern function or method (body None)."""

    type_parameters: list
    result: Node
    parameters: list
    body: Any
    abstract: bool = False
    source_body: Any = field(
        default=None, init=False
    )  # unchecked copy of a generic function's body
    scope: Any = field(default=None, init=False)


@dataclass(slots=True, eq=False)
class ExternObject(Decl):
    type_parameters: list
    methods: list  # of Function; constructors have the object's name


@dataclass(slots=True, eq=False)
class Action(Decl):
    parameters: list
    body: Any


@dataclass(slots=True, eq=False)
class Key(Node):
    value: Any
    match_kind: str
    annotations: list


@dataclass(slots=True, eq=False)
class ActionRef(Node):
    """An action in a table's list, with the arguments bound there."""

    name: str
    absolute: bool
    arguments: list | None
    annotations: list
    decl: Any = field(default=None, init=False)
    binding: Any = field(default=None, init=False)


@dataclass(slots=True, eq=False)
class Entry(Node):
    keys: list
    action: Any  # ActionRef
    priority: Any
    const: bool
    annotations: list


@dataclass(slots=True, eq=False)
class Property(Node):
    name: str
    value: Any
    const: bool


@dataclass(slots=True, eq=False)
class Table(Decl):
    keys: list
    actions: list
    default: Any  # ActionRef or None
    const_default: bool
    entries: list | None
    const_entries: bool
    properties: dict
    info: Any = None


@dataclass(slots=True, eq=False)
class State(Decl):
    statements: list
    transition: Any  # None, Name, or Select


@dataclass(slots=True, eq=False)
class SelectCase(Node):
    keys: list
    state: str


@dataclass(slots=True, eq=False)
class Select(Node):
    values: list
    cases: list


@dataclass(slots=True, eq=False)
class ValueSet(Decl):
    target: Node
    size: Any


@dataclass(slots=True, eq=False)
class Parser(Decl):
    type_parameters: list
    parameters: list
    constructor_parameters: list
    locals: list
    states: list
    is_type: bool = False


@dataclass(slots=True, eq=False)
class Control(Decl):
    type_parameters: list
    parameters: list
    constructor_parameters: list
    locals: list
    body: Any
    is_type: bool = False


@dataclass(slots=True, eq=False)
class Package(Decl):
    type_parameters: list
    parameters: list


@dataclass(slots=True, eq=False)
class Program(Node):
    declarations: list
