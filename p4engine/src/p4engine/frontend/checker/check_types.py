"""Types as written, type parameters and parameters, and the declarations that name types.

A generic parser or control is kept unchecked, and each list of type arguments gets a checked copy.
"""

from __future__ import annotations

import copy

from p4engine.frontend import ast
from p4engine.frontend.checker.check_values import check_value, coerce, constant
from p4engine.frontend.checker.checker import Block, Checker, DeclarationRules, Scope
from p4engine.frontend.parser.parse_expressions import parse_list
from p4engine.frontend.types import (
    BOOL,
    DONT_CARE,
    ERROR,
    INT,
    MATCH_KIND,
    STRING,
    UNKNOWN,
    VOID,
    Bits,
    BlockType,
    Composite,
    EnumType,
    ExternType,
    ListOf,
    NewType,
    Stack,
    Tuple,
    Type,
    TypeVar,
    Varbit,
    can_be_field,
    has_header,
    specialize,
)

MAX_WIDTH = 1 << 16
MAX_STACK = 4096
PLAIN = {
    "bool": BOOL,
    "error": ERROR,
    "match_kind": MATCH_KIND,
    "string": STRING,
    "void": VOID,
    "_": DONT_CARE,
}
_GENERIC = ast.Composite | ast.ExternObject | ast.Parser | ast.Control | ast.Package
_TYPES = _GENERIC | ast.Enum | ast.Typedef | ast.TypeParameter


def resolve(c: Checker, node: ast.Node) -> Type:
    """The type that `node` stands for; UNKNOWN after reporting."""
    if isinstance(node, ast.TypeBase):
        return _base(c, node)
    if isinstance(node, ast.TypeName):
        decl = c.lookup(node.name, node.absolute, node.place)
        return UNKNOWN if decl is None else _named(c, node, node.name, decl)
    if isinstance(node, ast.TypeSpecialized):
        decl = c.lookup(node.base.name, node.base.absolute, node.place)
        arguments = tuple(resolve(c, a) for a in node.arguments)
        if decl is None or UNKNOWN in arguments:
            return UNKNOWN
        return _specialized(c, node, decl, arguments)
    if isinstance(node, ast.TypeStack):
        return _stack(c, node)
    if isinstance(node, ast.TypeTuple):
        return Tuple(tuple(_element(c, t, "tuple") for t in node.elements))
    if isinstance(node, ast.TypeList):
        return ListOf(_element(c, node.element, "list"))
    if isinstance(node, ast.Decl):  # typedef struct {..} name
        c.check_declaration(node)
        return UNKNOWN if node.type is ast.UNCHECKED else node.type
    return c.error(node.place, "a type was expected")


def _element(c: Checker, node: ast.Node, of: str) -> Type:
    """The type of the elements of a tuple, a list or an array."""
    got = resolve(c, node)
    known_only = got in (INT, STRING, MATCH_KIND) or isinstance(got, ListOf)
    never = got == VOID or isinstance(got, ExternType | BlockType)
    if never or (known_only and of != "list"):
        return c.error(node.place, f"{got} cannot be the element of a {of}")
    return got


def _base(c: Checker, node: ast.TypeBase) -> Type:
    if node.kind in PLAIN:
        return PLAIN[node.kind]
    if node.width is None:
        return INT
    width = constant(c, node.width, None, "the width of a type")
    if width is None:
        return UNKNOWN
    if not isinstance(width, int) or isinstance(width, bool):
        return c.error(node.width.place, "the width of a type must be a number")
    lowest = 1 if node.kind == "int" else 0
    if not lowest <= width <= MAX_WIDTH:
        return c.error(
            node.width.place, f"{node.kind}<{width}>: the width must be {lowest} to {MAX_WIDTH}"
        )
    if node.kind == "varbit":
        return Varbit(width)
    return Bits(width, node.kind == "int")


def _stack(c: Checker, node: ast.TypeStack) -> Type:
    element = _element(c, node.element, "stack or array")
    size = constant(c, node.size, None, "the size of a header stack")
    if element == UNKNOWN or size is None:
        return UNKNOWN
    if isinstance(element, Stack) and has_header(element):
        return c.error(node.place, "a header stack cannot be the element of another")
    if not isinstance(size, int) or not 0 < size <= MAX_STACK:
        return c.error(node.size.place, f"the size of a stack must be 1 to {MAX_STACK}")
    return Stack(element, size)


def _named(c: Checker, node: ast.Node, name: str, decl: ast.Declared) -> Type:
    """The type that a name without type arguments means."""
    if isinstance(decl, ast.ExternObject):
        return ExternType(decl)
    if isinstance(decl, ast.Parser | ast.Control | ast.Package):
        return BlockType(decl)
    if isinstance(decl, ast.Composite) and decl.type_parameters:
        return c.error(
            node.place, f"{decl.name} needs {len(decl.type_parameters)} type argument(s)"
        )
    if isinstance(decl, ast.Composite | ast.Enum | ast.Typedef | ast.TypeParameter):
        return UNKNOWN if decl.type is ast.UNCHECKED else decl.type
    return c.error(node.place, f"'{name}' is not a type")


def _specialized(
    c: Checker, node: ast.TypeSpecialized, decl: ast.Declared, arguments: tuple[Type, ...]
) -> Type:
    """The type that a name with type arguments means."""
    if not isinstance(decl, ast.Decl) or not isinstance(decl, _TYPES):
        return c.error(node.place, f"'{node.base.name}' is not a type")
    parameters = decl.type_parameters if isinstance(decl, _GENERIC) else []
    if len(arguments) != len(parameters):
        return c.error(
            node.place,
            f"{decl.name} takes {len(parameters)} type arguments, {len(arguments)} given",
        )
    if not arguments or not isinstance(decl, _GENERIC):
        return _named(c, node, decl.name, decl)
    if isinstance(decl, ast.Composite):
        made = specialize(decl, arguments)
        for name, type_ in made.fields.items():
            if not can_be_field(made.kind, type_):
                return c.error(
                    node.place, f"field '{name}' of a {made.kind} cannot have the type {type_}"
                )
        return made
    if isinstance(decl, ast.ExternObject):
        return ExternType(decl, arguments)
    if isinstance(decl, ast.Parser | ast.Control) and not decl.is_type:
        return BlockType(specialize_block(c, decl, arguments))
    return BlockType(decl, arguments)


# ---- generic parsers and controls ----


def remember_block(c: Checker, decl: Block) -> None:
    """Keep a copy of the unchecked declaration, and the scope it is in."""
    c.block_sources[id(decl)] = (copy.deepcopy(decl), c.scope)


def specialize_block(c: Checker, decl: Block, arguments: tuple[Type, ...]) -> Block:
    """The checked copy of a generic parser or control for these type arguments."""
    key = (id(decl), arguments)
    made = c.block_copies.get(key)
    if made is None:
        source, scope = c.block_sources[id(decl)]
        made = c.block_copies[key] = copy.deepcopy(source)
        made.type_parameters = []
        with c.elsewhere(None), c.inner_scope(scope) as types:
            bind_types(types, dict(zip(decl.type_parameters, arguments, strict=True)))
            with c.inner_scope():
                c.check_declaration(made)
    return made


def bind_types(scope: Scope, bindings: dict[ast.TypeParameter, Type]) -> None:
    """Let type parameters mean types in `scope`."""
    for parameter, type_ in bindings.items():
        holder = ast.Typedef(
            parameter.place, parameter.name, ast.TypeName(parameter.place, parameter.name), False
        )
        holder.type = type_
        scope.names[parameter.name] = holder


# ---- parameters ----


def declare_type_parameters(c: Checker, parameters: list[ast.TypeParameter]) -> None:
    """Declare type parameters."""
    for parameter in parameters:
        parameter.type = TypeVar(parameter.name, parameter)
        c.declare(parameter)


def declare_parameters(c: Checker, parameters: list[ast.Parameter], of: str = "") -> None:
    """Declare parameters; `of` is "constructor", "action" or "function" where these have
    further rules."""
    for p in parameters:
        p.type = resolve(c, p.target)
        p.known = of == "constructor" or p.type == INT
        if p.type in (INT, STRING) and p.direction:
            p.type = c.error(
                p.place, f"'{p.name}' has the type {p.type}, so it cannot have a direction"
            )
        elif p.type == INT and of == "action":
            p.type = c.error(p.place, f"'{p.name}' needs a width, such as bit<32>")
        elif p.direction and of == "constructor":
            c.error(p.place, "a constructor's parameter cannot have a direction")
        elif isinstance(p.type, ExternType) and (p.direction or of == "action"):
            what = "a parameter with a direction" if p.direction else "a parameter of an action"
            p.type = c.error(p.place, f"{what} cannot be of the type {p.type}")
        elif p.type == VOID:
            p.type = c.error(p.place, "a parameter cannot have the type void")
        elif isinstance(p.type, BlockType) and of != "constructor":
            p.type = c.error(
                p.place, f"'{p.name}': only constructors have parameters of the type {p.type}"
            )
        if p.default is not None:
            _default(c, p, p.default)
        c.declare(p)


def declare_constructor(c: Checker, d: ast.Parser | ast.Control) -> None:
    """Declare the parameters of a block's constructor. A parser is made of parsers, a control
    of controls."""
    declare_parameters(c, d.constructor_parameters, "constructor")
    kind = type(d).__name__.lower()
    for p in d.constructor_parameters:
        if isinstance(p.type, BlockType) and type(p.type.decl) is not type(d):
            other = type(p.type.decl).__name__.lower()
            c.error(p.place, f"the constructor of a {kind} cannot have a {other} as parameter")


def _default(c: Checker, p: ast.Parameter, value: ast.Expr) -> None:
    """The value that a parameter has if the call gives none."""
    if isinstance(p.type, BlockType):
        c.check(value)
        return
    check_value(c, value, p.type)
    if p.direction in ("out", "inout"):
        c.error(value.place, f"a parameter that is '{p.direction}' has no default")
    elif value.type != UNKNOWN and value.const is None:
        c.error(value.place, "a default must be known at compile time")


def declare_signature(c: Checker, d: ast.Function, of: str = "") -> None:
    """Check what a generic function, an extern function or a method says before its body."""
    with c.inner_scope():
        declare_type_parameters(c, d.type_parameters)
        d.type = resolve(c, d.result)
        declare_parameters(c, d.parameters, of)


def declare_generic_block(c: Checker, d: ast.Parser | ast.Control) -> None:
    """Declare a generic parser or control.

    Only its parameters can be checked before it is used; its body is kept until then.
    """
    remember_block(c, d)
    d.type = BlockType(d)
    c.declare(d)
    with c.inner_scope():
        declare_type_parameters(c, d.type_parameters)
        declare_parameters(c, d.parameters)


# ---- declarations of types ----


def _composite(c: Checker, d: ast.Composite) -> None:
    type_ = d.type = Composite(d.kind, d.name, d)
    c.declare(d)
    with c.inner_scope():
        declare_type_parameters(c, d.type_parameters)
        type_.arguments = tuple(p.type for p in d.type_parameters)
        c.composites.append(type_)
        for f in d.fields:
            f.type = resolve(c, f.target)
            if f.name in type_.fields:
                c.error(f.place, f"field '{f.name}' is already declared")
            if f.type is type_:
                f.type = c.error(f.place, f"{d.name} contains itself")
            elif f.type != UNKNOWN and not can_be_field(d.kind, f.type):
                f.type = c.error(f.place, f"a {d.kind} cannot have a field of type {f.type}")
            type_.fields[f.name] = f.type
            for mark in f.annotations:
                if mark.name == "field_list":
                    _field_list(c, f, mark)


def _field_list(c: Checker, f: ast.Field, mark: ast.Annotation) -> None:
    """@field_list(1, NAME, E.member): the lists of v1model that a field of metadata is in."""
    for e in parse_list(mark.body, mark.place, c.diagnostics):
        number = constant(c, e, None, "the number of a field list")
        if isinstance(number, int) and not isinstance(number, bool):
            f.lists.append(number)
        elif number is not None:
            c.error(mark.place, "@field_list needs numbers")


def _enum(c: Checker, d: ast.Enum) -> None:
    base = None
    if d.base is not None:
        given = resolve(c, d.base)
        if isinstance(given, Bits):
            base = given
        else:
            base = Bits(32)
            if given != UNKNOWN:
                c.error(d.place, f"the type of an enum must be bit<> or int<>, not {given}")
    type_ = d.type = EnumType(d.name, base)
    c.declare(d)
    for number, (name, place, value) in enumerate(d.members):
        if name in type_.members:
            c.error(place, f"'{name}' is already a member of this enum")
        if base is None:
            if value is not None:
                c.error(place, "members have values only in an enum with a type")
            type_.members[name] = number
        elif value is None:
            c.error(place, f"member '{name}' needs a value")
            type_.members[name] = 0
        else:
            const = constant(c, value, None, "the value of an enum's member")
            _enum_value(c, value, const, base)
            type_.members[name] = value.const if isinstance(value.const, int) else 0


def _enum_value(c: Checker, value: ast.Expr, const: ast.Const | None, base: Bits) -> None:
    if value.type == INT and isinstance(const, int):
        if not base.low <= const <= base.high:
            c.error(value.place, f"{const} does not fit into {base}")
        value.type = base
    elif const is not None:
        coerce(c, value, base)


def _error(c: Checker, d: ast.ErrorDecl) -> None:
    for name, place in d.members:
        if name in c.errors:
            c.error(place, f"error.{name} is already declared")
        c.errors.setdefault(name, len(c.errors))


def _match_kind(c: Checker, d: ast.MatchKindDecl) -> None:
    for name, place in d.members:
        if name in c.match_kinds:
            c.error(place, f"match kind '{name}' is already declared")
        number = len(c.match_kinds)
        made = ast.Constant(place, name, ast.TypeBase(place, "match_kind"), ast.String(place, name))
        made.type, made.const = MATCH_KIND, ast.Symbol(name, number)
        c.match_kinds[name] = made


def _typedef(c: Checker, d: ast.Typedef) -> None:
    base = resolve(c, d.target)
    if base in (VOID, STRING, MATCH_KIND):
        base = c.error(d.place, f"there can be no other name for {base}")
    elif d.is_new and base != UNKNOWN and not isinstance(base, Bits | NewType) and base != BOOL:
        base = c.error(d.place, f"'type' makes new types of bit<>, int<> and bool, not of {base}")
    d.type = NewType(d.name, base) if d.is_new and base != UNKNOWN else base
    c.declare(d)


DECLARATIONS: DeclarationRules = {
    ast.Composite: _composite,
    ast.Enum: _enum,
    ast.ErrorDecl: _error,
    ast.MatchKindDecl: _match_kind,
    ast.Typedef: _typedef,
}
