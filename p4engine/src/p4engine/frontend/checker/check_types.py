"""Types as written, and the declarations that make types."""

from __future__ import annotations

import copy
from typing import Any

from p4engine.frontend import ast
from p4engine.frontend.checker.check_fit import MAX_WIDTH, Scope
from p4engine.frontend.checker.check_stmt import StatementChecker
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
    is_header,
    specialize,
    underlying,
)

PLAIN = {
    "bool": BOOL,
    "error": ERROR,
    "match_kind": MATCH_KIND,
    "string": STRING,
    "void": VOID,
    "_": DONT_CARE,
}


class TypeChecker(StatementChecker):
    """Resolves types; declares headers, structs, enums, errors, typedefs."""

    # ---- types ----

    def resolve_type(self, node: ast.Node) -> Type:
        if isinstance(node, ast.TypeBase):
            return self._base_type(node)
        if isinstance(node, ast.TypeName):
            decl = self.lookup(node.name, node.absolute, node.place)
            if decl is None:
                return UNKNOWN
            return self._decl_type(node, decl, None)
        if isinstance(node, ast.TypeSpecialized):
            decl = self.lookup(node.base.name, node.base.absolute, node.place)
            arguments = tuple(self.resolve_type(a) for a in node.arguments)
            if decl is None or UNKNOWN in arguments:
                return UNKNOWN
            return self._decl_type(node, decl, arguments)
        if isinstance(node, ast.TypeStack):
            element = self.resolve_type(node.element)
            size = self.constant(node.size, None, "the size of a header stack")
            if element == UNKNOWN or size is None:
                return UNKNOWN
            if isinstance(element, ExternType | BlockType) or element in (VOID, INT, STRING):
                return self.error(node.place, f"{element} cannot be the element of an array")
            if not isinstance(size, int) or not 0 < size <= 4096:
                return self.error(node.size.place, "the size of a stack must be 1 to 4096")
            return Stack(element, size)
        if isinstance(node, ast.TypeTuple):
            return Tuple(tuple(self.resolve_type(t) for t in node.elements))
        if isinstance(node, ast.TypeList):
            return ListOf(self.resolve_type(node.element))
        if isinstance(node, ast.Decl):
            getattr(self, "_d_" + type(node).__name__)(node)
            return node.type or UNKNOWN
        return self.error(node.place, "a type was expected")

    def _base_type(self, node: ast.TypeBase) -> Type:
        if node.kind in PLAIN:
            return PLAIN[node.kind]
        if node.width is None:
            return INT
        width = self.constant(node.width, None, "the width of a type")
        if width is None:
            return UNKNOWN
        if not isinstance(width, int) or isinstance(width, bool):
            return self.error(node.width.place, "the width of a type must be a number")
        lowest = 1 if node.kind == "int" else 0
        if not lowest <= width <= MAX_WIDTH:
            return self.error(
                node.width.place, f"{node.kind}<{width}>: the width must be {lowest} to {MAX_WIDTH}"
            )
        if node.kind == "varbit":
            return Varbit(width)
        return Bits(width, node.kind == "int")

    def _decl_type(self, node: ast.Node, decl: Any, arguments: tuple | None) -> Type:
        if isinstance(decl, list) or not isinstance(
            decl,
            ast.Composite
            | ast.Enum
            | ast.Typedef
            | ast.TypeParameter
            | ast.ExternObject
            | ast.Parser
            | ast.Control
            | ast.Package,
        ):
            name = node.name if isinstance(node, ast.TypeName) else node.base.name
            return self.error(node.place, f"'{name}' is not a type")
        parameters = getattr(decl, "type_parameters", [])
        if arguments is None:
            if parameters and isinstance(decl, ast.Composite):
                return self.error(
                    node.place, f"{decl.name} needs {len(parameters)} type argument(s)"
                )
            if isinstance(decl, ast.ExternObject):
                return ExternType(decl)
            if isinstance(decl, ast.Parser | ast.Control | ast.Package):
                return BlockType(decl)
            return decl.type or UNKNOWN
        if len(arguments) != len(parameters):
            return self.error(
                node.place,
                f"{decl.name} takes {len(parameters)} type arguments, {len(arguments)} given",
            )
        if isinstance(decl, ast.Composite):
            return specialize(decl, arguments)
        if isinstance(decl, ast.ExternObject):
            return ExternType(decl, arguments)
        if isinstance(decl, ast.Parser | ast.Control) and not decl.is_type:
            return BlockType(self._specialized_block(decl, arguments))
        return BlockType(decl, arguments)

    def _specialized_block(self, decl: Any, arguments: tuple) -> Any:
        """The checked copy of a generic parser or control for these type arguments."""
        key = (id(decl), arguments)
        made = self.function_instances.get(key)
        if made is None:
            source, scope = self.generic_blocks[id(decl)]
            made = self.function_instances[key] = copy.deepcopy(source)
            made.type_parameters = []
            saved, parser, action = self.scope, self.in_parser, self.in_action
            self.scope = Scope(scope)
            self.in_parser = self.in_action = False
            for p, argument in zip(decl.type_parameters, arguments, strict=True):
                holder = ast.Typedef(p.place, p.name, None, False)
                holder.type = argument
                self.scope.names[p.name] = holder
            self.scope = Scope(self.scope)
            getattr(self, "_d_" + type(made).__name__)(made)
            self.scope, self.in_parser, self.in_action = saved, parser, action
        return made

    def _generic_block(self, d: Any) -> None:
        """Only the signature of a generic parser or control can be checked before it is used."""
        self.generic_blocks[id(d)] = (copy.deepcopy(d), self.scope)
        d.type = BlockType(d)
        outer = self.scope
        self.declare(d)
        self.scope = Scope(outer)
        self._type_parameters(d)
        self._parameters(d.parameters)
        self.scope = outer

    # ---- simple declarations ----

    def _type_parameters(self, decl: Any) -> None:
        for parameter in decl.type_parameters:
            parameter.type = TypeVar(parameter.name, parameter)
            self.declare(parameter)

    def _d_Constant(self, d: ast.Constant) -> None:
        self._s_Constant(d)

    def _d_Composite(self, d: ast.Composite) -> None:
        type_ = d.type = Composite(d.kind, d.name, d)
        self.declare(d)
        outer = self.scope
        self.scope = Scope(outer)
        self._type_parameters(d)
        type_.arguments = tuple(p.type for p in d.type_parameters)
        self.composites.append(type_)
        for f in d.fields:
            f.type = self.resolve_type(f.target)
            if f.name in type_.fields:
                self.error(f.place, f"field '{f.name}' is already declared")
            if f.type is type_:
                self.error(f.place, f"{d.name} contains itself")
                f.type = UNKNOWN
            elif f.type != UNKNOWN and not self._field_fits(d.kind, f.type):
                self.error(f.place, f"a {d.kind} cannot have a field of type {f.type}")
                f.type = UNKNOWN
            type_.fields[f.name] = f.type
        self.scope = outer

    @staticmethod
    def _field_fits(kind: str, type_: Type) -> bool:
        if isinstance(type_, TypeVar):
            return True
        under = underlying(type_)
        if kind == "header":
            return (
                isinstance(under, Bits | Varbit)
                or under == BOOL
                or (isinstance(under, Composite) and under.kind == "struct")
            )
        if kind == "header_union":
            return is_header(type_)
        return not isinstance(type_, ExternType | BlockType) and type_ not in (VOID, INT, STRING)

    def _d_Enum(self, d: ast.Enum) -> None:
        base = None
        if d.base is not None:
            base = underlying(self.resolve_type(d.base))
            if not isinstance(base, Bits):
                if base != UNKNOWN:
                    self.error(d.place, f"the type of an enum must be bit<> or int<>, not {base}")
                base = Bits(32)
        d.type = EnumType(d.name, base)
        self.declare(d)
        for number, (name, place, value) in enumerate(d.members):
            if name in d.type.members:
                self.error(place, f"'{name}' is already a member of this enum")
            if base is None:
                if value is not None:
                    self.error(place, "members have values only in an enum with a type")
                d.type.members[name] = number
            elif value is None:
                self.error(place, f"member '{name}' needs a value")
                d.type.members[name] = 0
            else:
                const = self.constant(value, base, "the value of an enum's member")
                d.type.members[name] = const if isinstance(const, int) else 0

    def _d_ErrorDecl(self, d: ast.ErrorDecl) -> None:
        for name, place in d.members:
            if name in self.errors:
                self.error(place, f"error.{name} is already declared")
            self.errors.setdefault(name, len(self.errors))

    def _d_MatchKindDecl(self, d: ast.MatchKindDecl) -> None:
        self.match_kinds |= {name for name, _ in d.members}

    def _d_Typedef(self, d: ast.Typedef) -> None:
        base = self.resolve_type(d.target)
        d.type = NewType(d.name, base) if d.is_new and base != UNKNOWN else base
        self.declare(d)
