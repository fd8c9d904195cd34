"""The syntax tree, as the parser builds it and the checker decorates it.

Plain mutable nodes. `place` is where a message about the node should point. Expressions get
`type` (one of types.py) and, when the value is known at compile time, `const`; names get `decl`,
the declaration they mean; calls get a `CallInfo`, tables a `TableInfo`. No pass rewrites the
tree: the code generator reads the decorated one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from p4engine.frontend.diagnostics import InternalError, Place


class Type:
    """Base of all resolved types (types.py)."""


class Unchecked(Type):
    """The type of a node that the checker did not reach yet; there is one object, UNCHECKED."""

    def __str__(self) -> str:
        return "unchecked"

    def __deepcopy__(self, memo: dict[int, object]) -> Unchecked:
        return self


UNCHECKED: Type = Unchecked()


@dataclass(frozen=True)
class Symbol:
    """A member of `error` or of an enum without a base; `number` is its value in generated code."""

    name: str
    number: int


INVALID_HEADER = Symbol("{#}", 0)

# A value known at compile time: int for bit<>, int<>, int and serializable enums; bool; str;
# Symbol for errors and plain enums; list for lists, tuples and structs without names; dict for
# structs; INVALID_HEADER for {#}.
Const: TypeAlias = "int | str | Symbol | list[Const] | dict[str, Const]"


@dataclass(slots=True, eq=False)
class Node:
    place: Place


# ---- types as written ----


@dataclass(slots=True, eq=False)
class TypeBase(Node):
    """bit, int, varbit (with `width`), bool, error, match_kind, string, void, _ (don't care)."""

    kind: str
    width: Expr | None = None


@dataclass(slots=True, eq=False)
class TypeName(Node):
    name: str
    absolute: bool = False


@dataclass(slots=True, eq=False)
class TypeSpecialized(Node):
    base: TypeName
    arguments: list[Node]


@dataclass(slots=True, eq=False)
class TypeStack(Node):
    element: Node
    size: Expr


@dataclass(slots=True, eq=False)
class TypeTuple(Node):
    elements: list[Node]


@dataclass(slots=True, eq=False)
class TypeList(Node):
    element: Node


# ---- expressions ----


@dataclass(slots=True, eq=False)
class Expr(Node):
    type: Type = field(default=UNCHECKED, init=False)
    const: Const | None = field(default=None, init=False)

    @property
    def known(self) -> Const:
        """The value that the checker has made sure is known at compile time."""
        if self.const is None:
            raise InternalError(f"a {type(self).__name__} has no value at compile time")
        return self.const

    @property
    def known_number(self) -> int:
        """The number that the checker has made sure is known at compile time."""
        if not isinstance(self.const, int):
            raise InternalError(f"a {type(self).__name__} has no number at compile time")
        return self.const


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
    decl: Declared | None = field(default=None, init=False)


@dataclass(slots=True, eq=False)
class Member(Expr):
    """base.name; `called` if it is the function of a call."""

    base: Expr
    name: str
    called: bool = field(default=False, init=False)


@dataclass(slots=True, eq=False)
class Index(Expr):
    base: Expr
    index: Expr


@dataclass(slots=True, eq=False)
class Slice(Expr):
    base: Expr
    high: Expr
    low: Expr


@dataclass(slots=True, eq=False)
class Unary(Expr):
    op: str
    operand: Expr


@dataclass(slots=True, eq=False)
class Binary(Expr):
    op: str
    left: Expr
    right: Expr


@dataclass(slots=True, eq=False)
class Cast(Expr):
    target: Node
    operand: Expr


@dataclass(slots=True, eq=False)
class Ternary(Expr):
    condition: Expr
    yes: Expr
    no: Expr


@dataclass(slots=True, eq=False)
class Argument(Node):
    """`name` for a named argument; `value` is None for don't care (`_`)."""

    name: str | None
    value: Expr | None


@dataclass(slots=True, eq=False)
class Call(Expr):
    """Function, method, action, table or constructor call; the checker fills `call`."""

    function: Expr
    type_arguments: list[Node]
    arguments: list[Argument]
    call: CallInfo | None = field(default=None, init=False)


@dataclass(slots=True, eq=False)
class ListExpr(Expr):
    """{a, b}; `dots` if it ends in "..." """

    items: list[Expr]
    dots: bool = False


@dataclass(slots=True, eq=False)
class StructExpr(Expr):
    """{x = a, y = b}, optionally with its type in front: T {...}"""

    fields: list[tuple[str, Expr]]
    target: Node | None = None
    dots: bool = False


@dataclass(slots=True, eq=False)
class InvalidHeader(Expr):
    """{#}"""


@dataclass(slots=True, eq=False)
class DontCare(Expr):
    """_ or default in a select, dots in an initializer"""


@dataclass(slots=True, eq=False)
class Mask(Expr):
    value: Expr
    mask: Expr


@dataclass(slots=True, eq=False)
class Range(Expr):
    low: Expr
    high: Expr


@dataclass(slots=True, eq=False)
class TypeExpr(Expr):
    """A type where an expression stands: the base of E.member, the callee of a constructor."""

    target: Node


# ---- statements ----


@dataclass(slots=True, eq=False)
class Assign(Node):
    """`op` is "" or the operator of a compound assignment."""

    left: Expr
    op: str
    right: Expr


@dataclass(slots=True, eq=False)
class CallStatement(Node):
    call: Call


@dataclass(slots=True, eq=False)
class If(Node):
    condition: Expr
    yes: Node
    no: Node | None


@dataclass(slots=True, eq=False)
class Block(Node):
    statements: list[Node]
    annotations: list[Annotation] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Return(Node):
    value: Expr | None


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

    labels: list[Expr]
    body: Block | None


@dataclass(slots=True, eq=False)
class Switch(Node):
    value: Expr
    cases: list[SwitchCase]
    table: Table | None = None


@dataclass(slots=True, eq=False)
class For(Node):
    init: list[Node]
    condition: Expr
    update: list[Node]
    body: Node


@dataclass(slots=True, eq=False)
class ForIn(Node):
    variable: Variable
    collection: Expr
    body: Node


# ---- declarations ----


@dataclass(slots=True, eq=False)
class Annotation(Node):
    name: str
    body: list[str]  # the texts of the tokens
    structured: bool = False  # @name[..] rather than @name(..)


@dataclass(slots=True, eq=False)
class Decl(Node):
    name: str
    annotations: list[Annotation] = field(default_factory=list, kw_only=True)
    type: Type = field(default=UNCHECKED, init=False)


@dataclass(slots=True, eq=False)
class Constant(Decl):
    target: Node
    value: Expr
    const: Const | None = None


@dataclass(slots=True, eq=False)
class Variable(Decl):
    target: Node
    value: Expr | None


@dataclass(slots=True, eq=False)
class Parameter(Decl):
    """`known`: its value is known when the instance is made (a constructor's), or is an int."""

    direction: str  # "", "in", "out", "inout"
    target: Node
    default: Expr | None = None
    known: bool = field(default=False, init=False)


@dataclass(slots=True, eq=False)
class TypeParameter(Decl):
    pass


@dataclass(slots=True, eq=False)
class Instance(Decl):
    target: Node
    arguments: list[Argument]
    body: list[Decl] | None = None
    constructor: Construction | None = None


@dataclass(slots=True, eq=False)
class Field(Decl):
    """`lists` are the numbers of @field_list."""

    target: Node
    lists: list[int] = field(default_factory=list, init=False)


@dataclass(slots=True, eq=False)
class Composite(Decl):
    """header, header_union, struct"""

    kind: str
    type_parameters: list[TypeParameter]
    fields: list[Field]


@dataclass(slots=True, eq=False)
class Enum(Decl):
    """`base` is the type of a serializable enum; members are (name, place, expr or None)."""

    base: Node | None
    members: list[tuple[str, Place, Expr | None]]


@dataclass(slots=True, eq=False)
class ErrorDecl(Decl):
    members: list[tuple[str, Place]]


@dataclass(slots=True, eq=False)
class MatchKindDecl(Decl):
    members: list[tuple[str, Place]]


@dataclass(slots=True, eq=False)
class Typedef(Decl):
    """typedef, and `type` (is_new)"""

    target: Node
    is_new: bool


@dataclass(slots=True, eq=False)
class Function(Decl):
    """A function with a body, an extern function or method (body None)."""

    type_parameters: list[TypeParameter]
    result: Node
    parameters: list[Parameter]
    body: Block | None
    abstract: bool = False

    @property
    def statements(self) -> list[Node]:
        """Statements of the body of a function that is not extern."""
        return _body(self).statements


@dataclass(slots=True, eq=False)
class ExternObject(Decl):
    type_parameters: list[TypeParameter]
    methods: list[Function]  # constructors have the object's name


@dataclass(slots=True, eq=False)
class Action(Decl):
    parameters: list[Parameter]
    body: Block


@dataclass(slots=True, eq=False)
class Key(Node):
    value: Expr
    match_kind: str
    annotations: list[Annotation]


@dataclass(slots=True, eq=False)
class ActionRef(Node):
    """An action in a table's list, with the arguments bound there (`binding`, None in case of an
    error); a parameter without a value is data of the entry."""

    name: str
    absolute: bool
    arguments: list[Argument] | None
    annotations: list[Annotation]
    decl: Action | None = field(default=None, init=False)
    binding: Bound | None = field(default=None, init=False)


@dataclass(slots=True, eq=False)
class Entry(Node):
    keys: list[Expr]
    action: ActionRef
    priority: Expr | None
    const: bool
    annotations: list[Annotation]


@dataclass(slots=True, eq=False)
class Property(Node):
    name: str
    value: Expr
    const: bool
    annotations: list[Annotation] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Table(Decl):
    keys: list[Key]
    actions: list[ActionRef]
    default: ActionRef | None
    const_default: bool
    entries: list[Entry] | None
    const_entries: bool
    entries_annotations: list[Annotation]
    properties: dict[str, Property]
    info: TableInfo = field(default_factory=lambda: TableInfo(), init=False)


@dataclass(slots=True, eq=False)
class State(Decl):
    statements: list[Node]
    transition: Name | Select | None


@dataclass(slots=True, eq=False)
class SelectCase(Node):
    keys: list[Expr]
    state: str


@dataclass(slots=True, eq=False)
class Select(Node):
    values: list[Expr]
    cases: list[SelectCase]


@dataclass(slots=True, eq=False)
class ValueSet(Decl):
    target: Node
    size: Expr


@dataclass(slots=True, eq=False)
class Parser(Decl):
    type_parameters: list[TypeParameter]
    parameters: list[Parameter]
    constructor_parameters: list[Parameter]
    locals: list[Decl]
    states: list[State]
    is_type: bool = False


@dataclass(slots=True, eq=False)
class Control(Decl):
    type_parameters: list[TypeParameter]
    parameters: list[Parameter]
    constructor_parameters: list[Parameter]
    locals: list[Decl]
    body: Block | None  # None if `is_type`
    is_type: bool = False

    @property
    def statements(self) -> list[Node]:
        """Statements of the apply block of a control that is no type."""
        return _body(self).statements


@dataclass(slots=True, eq=False)
class Package(Decl):
    type_parameters: list[TypeParameter]
    parameters: list[Parameter]


@dataclass(slots=True, eq=False)
class Program(Node):
    declarations: list[Decl]


def _body(decl: Function | Control) -> Block:
    if decl.body is None:
        raise InternalError(f"{decl.name} has no body")
    return decl.body


# ---- what the checker finds out ----

# What a name means: a declaration, or functions that share a name.
Declared: TypeAlias = "Decl | list[Function]"
# Parameters with their values; None where an optional value or the data of an entry is absent.
Bound: TypeAlias = "list[tuple[Parameter, Expr | None]]"


@dataclass(slots=True)
class CallInfo:
    """The meaning of a call; there is a class for each kind. `arguments` are in the order of the
    parameters."""

    place: Place
    arguments: Bound = field(default_factory=list, kw_only=True)


@dataclass(slots=True)
class FunctionCall(CallInfo):
    """Call of a function with a body, which is not generic (any more)."""

    decl: Function
    type: Type


@dataclass(slots=True)
class ExternCall(CallInfo):
    """Call of an extern function; `bindings` maps type variables to types."""

    decl: Function
    type: Type
    bindings: dict[Type, Type]


@dataclass(slots=True)
class MethodCall(ExternCall):
    """Call of a method of an extern object."""

    receiver: Expr
    extern: ExternObject


@dataclass(slots=True)
class BuiltinCall(CallInfo):
    """Call of a method of a header, union or stack; `count` is the argument of push_front and
    pop_front."""

    name: str
    receiver: Expr
    count: Expr | None = None


@dataclass(slots=True)
class ActionCall(CallInfo):
    decl: Action


@dataclass(slots=True)
class TableCall(CallInfo):
    """The application of a table."""

    decl: Table


@dataclass(slots=True)
class BlockCall(CallInfo):
    """The application of a parser or control: of the instance `receiver`, or (None) of a type."""

    decl: Parser | Control
    receiver: Expr | None


@dataclass(slots=True)
class Construction(CallInfo):
    """A call that makes an instance of `type`; `bindings` maps type variables to types."""

    name: str
    type: Type
    bindings: dict[Type, Type] = field(default_factory=dict)


@dataclass(slots=True)
class KeyInfo:
    """One key of a table; `width` in bits."""

    value: Expr
    kind: str
    width: int
    name: str


@dataclass(slots=True)
class TableInfo:
    """The checker's facts about a table.

    `default` runs at a miss until the control plane sets another action; `without_default` does
    where tables with action profiles have no default in the program; `by_decl` finds an element
    of `actions` by the id of its declaration. `priorities` are those of `entries` (none if they are
    const: the first that matches wins).
    """

    keys: list[KeyInfo] = field(default_factory=list)
    actions: list[ActionRef] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    priorities: list[int] = field(default_factory=list)
    size: int = 0
    applied: bool = False
    default: ActionRef | None = None
    without_default: ActionRef | None = None
    by_decl: dict[int, ActionRef] = field(default_factory=dict)
