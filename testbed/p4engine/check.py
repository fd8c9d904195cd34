"""Declarations, parsers, controls and tables; the entry to the checker.

One walk in source order, because P4 wants declarations before use. Generic functions are checked
per instantiation (see check_calls), everything else once.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

from . import ast
from .check_expr import MAX_WIDTH, Scope
from .check_stmt import StatementChecker
from .diagnostics import Diagnostics
from .types import (
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
    Plain,
    SetOf,
    Special,
    Stack,
    Tuple,
    Type,
    TypeVar,
    Varbit,
    is_header,
    specialize,
    underlying,
    width_of,
)

PLAIN = {
    "bool": BOOL,
    "error": ERROR,
    "match_kind": MATCH_KIND,
    "string": STRING,
    "void": VOID,
    "_": DONT_CARE,
}


@dataclass
class KeyInfo:
    """One key of a table; `width` in bits."""

    value: Any
    kind: str
    width: int
    name: str


@dataclass
class TableInfo:
    """What the checker found out about a table."""

    keys: list = field(default_factory=list)
    actions: list = field(default_factory=list)  # ActionRef with decl and binding
    entries: list = field(default_factory=list)
    size: int = 0
    applied: bool = False
    by_decl: dict = field(default_factory=dict)


class Checker(StatementChecker):
    """Checks a program; the results are in the decorated tree and in the attributes set here."""

    def __init__(self, diagnostics: Diagnostics):
        self.diagnostics = diagnostics
        self.globals = self.scope = Scope(None, "global")
        self.errors: dict[str, int] = {}
        self.match_kinds: set[str] = set()
        self.function_instances: dict = {}
        self.generic_blocks: dict = {}
        self.main: ast.Instance | None = None
        self.composites: list[Composite] = []

    def program(self, program: ast.Program) -> None:
        for decl in program.declarations:
            getattr(self, "_d_" + type(decl).__name__)(decl)
        if self.main is None and not self.diagnostics.errors:
            last = program.declarations[-1] if program.declarations else program
            self.error(
                last.place, "there is no 'main' package instance, such as V1Switch(...) main;"
            )

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

    def _d_Function(self, d: ast.Function) -> None:
        known = self.scope.names.get(d.name)
        if known is not None and not isinstance(known, list):
            self.error(d.place, f"'{d.name}' is already declared")
        if isinstance(known, list) and (d.body is not None or known[0].body is not None):
            for other in known:
                if len(other.parameters) == len(d.parameters):
                    self.error(d.place, f"function '{d.name}' is already declared")
                    break
        d.source_body = copy.deepcopy(d.body) if d.type_parameters and d.body else None
        d.scope = self.scope
        if d.type_parameters:
            self._signature(d)
        else:
            self.check_function(d)
        if isinstance(known, list):
            known.append(d)
        else:
            self.scope.names[d.name] = [d]

    def _signature(self, d: ast.Function) -> None:
        outer = self.scope
        self.scope = Scope(outer)
        self._type_parameters(d)
        d.type = self.resolve_type(d.result)
        self._parameters(d.parameters)
        self.scope = outer

    def _parameters(self, parameters: list) -> None:
        for p in parameters:
            p.type = self.resolve_type(p.target)
            if p.default is not None:
                self.value(p.default, p.type)
            self.declare(p)

    def check_function(self, d: ast.Function) -> None:
        outer, saved = self.scope, self.in_function
        self.scope = Scope(outer)
        d.type = self.resolve_type(d.result)
        self._parameters(d.parameters)
        if d.body is not None:
            self.in_function = d.type
            self.block(d.body.statements)
            if d.type != VOID and not self._returns(d.body):
                self.error(d.place, f"function {d.name} can end without returning a value")
        self.scope, self.in_function = outer, saved

    def _returns(self, s: ast.Node) -> bool:
        if isinstance(s, ast.Return | ast.Exit):
            return True
        if isinstance(s, ast.Block):
            return any(self._returns(x) for x in s.statements)
        if isinstance(s, ast.If):
            return s.no is not None and self._returns(s.yes) and self._returns(s.no)
        if isinstance(s, ast.Switch):
            has_default = any(
                isinstance(label, ast.DontCare) for c in s.cases for label in c.labels
            )
            return has_default and all(c.body and self._returns(c.body) for c in s.cases)
        return False

    def _d_ExternObject(self, d: ast.ExternObject) -> None:
        d.type = ExternType(d)
        self.declare(d)
        outer = self.scope
        self.scope = Scope(outer)
        self._type_parameters(d)
        for method in d.methods:
            method.source_body = None
            method.scope = self.scope
            self._signature(method)
        self.scope = outer

    def _d_Package(self, d: ast.Package) -> None:
        self.declare(d)
        outer = self.scope
        self.scope = Scope(outer)
        self._type_parameters(d)
        self._parameters(d.parameters)
        self.scope = outer
        d.type = BlockType(d)

    def _d_Instance(self, d: ast.Instance) -> None:
        target = self.resolve_type(d.target)
        call = ast.Call(d.place, None, [], d.arguments)
        for argument in d.arguments:
            if argument.value is None:
                self.error(argument.place, "an instance needs a value here")
                target = UNKNOWN
        if target != UNKNOWN:
            target = self.construct(call, target, d.arguments)
        d.type, d.constructor = target, call.call
        if d.body is not None:
            self.error(d.place, "instances with abstract methods are not supported by v1model")
        if (
            self.scope is self.globals
            and isinstance(target, BlockType)
            and isinstance(target.decl, ast.Package)
        ):
            self._check_package(d)
            if d.name == "main":
                self.main = d
        self.declare(d)

    def _check_package(self, d: ast.Instance) -> None:
        """Each block's parameters against the type that the package asks for."""
        if d.constructor is None:
            return
        bindings = d.constructor.bindings
        for parameter, value in d.constructor.arguments:
            if value is None or not isinstance(value.type, BlockType):
                continue
            if not isinstance(parameter.type, BlockType):
                continue
            want, have = parameter.type.decl, value.type.decl
            if want is have or not getattr(want, "is_type", False):
                continue
            if type(want) is not type(have):
                self.error(value.place, f"{parameter.name} needs a {type(want).__name__.lower()}")
                continue
            if len(want.parameters) != len(have.parameters):
                self.error(
                    value.place,
                    f"{have.name} has {len(have.parameters)} parameters, but {want.name} in"
                    f" {d.constructor.name} has {len(want.parameters)}",
                )
                continue
            formal = [p.type for p in want.type_parameters]
            inner = dict(zip(formal, parameter.type.arguments, strict=False))
            from .types import substitute

            for p, q in zip(want.parameters, have.parameters, strict=True):
                expected = substitute(substitute(p.type, inner), bindings)
                if not self._has_variable(expected) and not self.same(expected, q.type):
                    self.error(
                        q.place,
                        f"parameter '{q.name}' of {have.name} must be {expected}, not {q.type}",
                    )
                elif p.direction != q.direction:
                    self.error(
                        q.place,
                        f"parameter '{q.name}' of {have.name} must be"
                        f" '{p.direction or 'without direction'}'",
                    )

    # ---- actions, controls, tables ----

    def _d_Action(self, d: ast.Action) -> None:
        outer = self.scope
        self.scope = Scope(outer)
        self._parameters(d.parameters)
        seen_data = False
        for p in d.parameters:
            if not p.direction:
                seen_data = True
            elif seen_data:
                self.error(p.place, "parameters with a direction must stand before those without")
        self.in_action = True
        self.block(d.body.statements)
        self.in_action = False
        self.scope = outer
        self.declare(d)

    def _d_Control(self, d: ast.Control) -> None:
        if d.type_parameters and not d.is_type:
            self._generic_block(d)
            return
        d.type = BlockType(d)
        outer = self.scope
        self.declare(d)
        self.scope = Scope(outer, "control")
        self._type_parameters(d)
        self._parameters(d.parameters)
        if not d.is_type:
            self._parameters(d.constructor_parameters)
            self.scope = Scope(self.scope, "control")
            for local in d.locals:
                self._local(local)
            self.block(d.body.statements)
            for local in d.locals:
                if isinstance(local, ast.Table) and local.info and not local.info.applied:
                    self.diagnostics.warning(local.place, f"table {local.name} is never applied")
        self.scope = outer

    def _local(self, local: ast.Decl) -> None:
        if isinstance(local, ast.Variable):
            self._s_Variable(local)
        else:
            getattr(self, "_d_" + type(local).__name__)(local)

    def _d_ValueSet(self, d: ast.ValueSet) -> None:
        d.type = SetOf(self.resolve_type(d.target))
        self.constant(d.size, None, "the size of a value_set")
        self.declare(d)

    def _d_Table(self, d: ast.Table) -> None:
        info = d.info = TableInfo()
        for key in d.keys:
            got = self.value(key.value)
            if key.match_kind not in self.match_kinds:
                self.error(
                    key.place,
                    f"'{key.match_kind}' is not a match kind"
                    f"{self.near(key.match_kind, self.match_kinds)}",
                )
            width = width_of(got)
            if got == UNKNOWN:
                continue
            if got == INT:
                self.error(key.value.place, "a key needs a width")
                continue
            under = underlying(got)
            if width is None or not (isinstance(under, Bits | EnumType) or under in (BOOL, ERROR)):
                self.error(key.value.place, f"a value of {got} cannot be a key")
                continue
            name = next((a.body for a in key.annotations if a.name == "name"), None)
            label = name[0].strip('"') if name else spell(key.value)
            info.keys.append(KeyInfo(key.value, key.match_kind, width, label))
        names = set()
        for ref in d.actions:
            self._action_ref(ref, None)
            if ref.name in names:
                self.error(ref.place, f"action {ref.name} is listed twice")
            names.add(ref.name)
            if ref.decl is not None:
                info.actions.append(ref)
                info.by_decl[id(ref.decl)] = ref
        if not d.actions and d.default is None:
            self.error(d.place, f"table {d.name} has no actions")
        if d.default is not None:
            self._table_action(d, d.default, "default_action")
        elif "NoAction" not in names:
            no_action = self.globals.find("NoAction")
            ref = ast.ActionRef(d.place, "NoAction", True, [], [])
            ref.decl, ref.binding = no_action, []
            d.default = ref
            if no_action is not None and id(no_action) not in info.by_decl:
                info.actions.append(ref)
                info.by_decl[id(no_action)] = ref
                ref.annotations = [ast.Annotation(d.place, "defaultonly", [])]
        else:
            ref = next(a for a in d.actions if a.name == "NoAction")
            d.default = ast.ActionRef(d.place, "NoAction", ref.absolute, [], [])
            d.default.decl, d.default.binding = ref.decl, []
        for prop in d.properties.values():
            self._property(d, prop)
        for entry in d.entries or []:
            self._entry(d, entry)
        self.declare(d)

    def _property(self, d: ast.Table, prop: ast.Property) -> None:
        value = prop.value
        if prop.name in ("size", "support_timeout", "largest_priority_wins", "priority_delta"):
            const = self.constant(value, None, f"the property {prop.name}")
            if prop.name == "size" and isinstance(const, int):
                d.info.size = max(0, const)
        elif prop.name in ("counters", "meters", "implementation"):
            got = self.expr(value)
            if got != UNKNOWN and not isinstance(got, ExternType):
                self.error(value.place, f"{prop.name} needs an extern object, not {got}")
        elif prop.name not in (
            "psa_idle_timeout",
            "add_on_miss",
            "default_idle_timeout_for_data_plane",
        ):
            self.diagnostics.warning(prop.place, f"the table property '{prop.name}' is unknown")
            self.expr(value)

    def _action_ref(self, ref: ast.ActionRef, table: ast.Table | None) -> None:
        """An element of a table's action list: find the action and bind what is given."""
        decl = self.lookup(ref.name, ref.absolute, ref.place)
        if decl is None:
            return
        if not isinstance(decl, ast.Action):
            self.error(ref.place, f"'{ref.name}' is not an action")
            return
        ref.decl = decl
        directed = [p for p in decl.parameters if p.direction]
        arguments = ref.arguments or []
        if len(arguments) > len(decl.parameters):
            self.error(ref.place, f"action {decl.name} has only {len(decl.parameters)} parameters")
            return
        if len(arguments) < len(directed):
            self.error(
                ref.place,
                f"parameter '{directed[len(arguments)].name}' of {decl.name} needs a value",
            )
            return
        bound = list(zip(decl.parameters, [a.value for a in arguments], strict=False))
        if not self.fit_arguments(bound, {}, []):
            return
        ref.binding = bound + [(p, None) for p in decl.parameters[len(arguments) :]]

    def _table_action(self, d: ast.Table, ref: ast.ActionRef, what: str) -> None:
        """The action of an entry or the default: its data must be known at compile time."""
        decl = self.lookup(ref.name, ref.absolute, ref.place)
        if decl is None:
            return
        listed = d.info.by_decl.get(id(decl))
        if listed is None:
            if not isinstance(decl, ast.Action):
                self.error(ref.place, f"'{ref.name}' is not an action")
                return
            self.error(
                ref.place,
                f"{what}: action '{ref.name}' is not in the actions of table {d.name}"
                f"{self.near(ref.name, [a.name for a in d.info.actions])}",
            )
            return
        ref.decl = decl
        if listed.binding is None:
            return
        data = [p for p, v in listed.binding if v is None]
        arguments = list(ref.arguments or [])
        if len(arguments) == len(decl.parameters) != len(data):
            bound_count = len(decl.parameters) - len(data)
            for a in arguments[:bound_count]:
                if a.value is not None:
                    self.expr(a.value)
            arguments = arguments[bound_count:]
        bound = self.bind(ref.place, data, arguments, f"action {decl.name}")
        if bound is None or not self.fit_arguments(bound, {}, []):
            return
        for p, v in bound:
            if v is None or (v.const is None and not self._is_constructor_parameter(v)):
                self.error((v or ref).place, f"{what}: '{p.name}' must be known at compile time")
                return
        ref.binding = bound

    def _entry(self, d: ast.Table, entry: ast.Entry) -> None:
        keys = d.info.keys
        if len(entry.keys) != len(keys):
            if len(entry.keys) == 1 and isinstance(entry.keys[0], ast.DontCare):
                entry.keys = [ast.DontCare(entry.place) for _ in keys]
            else:
                if len(keys) == len(d.keys):
                    self.error(
                        entry.place, f"{len(entry.keys)} keys given, the table has {len(keys)}"
                    )
                return
        for key, value in zip(keys, entry.keys, strict=True):
            self.keyset(value, key.value.type, key.kind)
        if entry.priority is not None:
            self.constant(entry.priority, None, "a priority")
        self._table_action(d, entry.action, "entry")
        d.info.entries.append(entry)

    def keyset(self, value: ast.Expr, want: Type, kind: str) -> None:
        """An element of an entry's keys or of a select label against the type it is compared
        with."""
        got = self.expr(value)
        if got == DONT_CARE:
            if kind in ("exact", "selector") and kind == "exact":
                self.error(value.place, "an exact key needs a value")
            return
        if got == UNKNOWN:
            return
        if isinstance(value, ast.Mask | ast.Range):
            parts = (
                (value.value, value.mask)
                if isinstance(value, ast.Mask)
                else (value.low, value.high)
            )
            for part in parts:
                self.coerce(part, want if part.type == INT else underlying_for(want, part.type))
                if part.const is None and part.type != UNKNOWN:
                    self.error(part.place, "this must be known at compile time")
            if kind == "exact":
                self.error(value.place, "an exact key needs a single value")
            elif isinstance(value, ast.Range) and kind not in ("range", ""):
                self.error(value.place, f"a range cannot be matched by a key of kind {kind}")
            elif isinstance(value, ast.Mask) and kind in ("range", "optional"):
                self.error(value.place, f"a mask cannot be matched by a key of kind {kind}")
            elif kind == "lpm" and isinstance(parts[1].const, int):
                width = width_of(want) or 0
                inverse = ~parts[1].const & ((1 << width) - 1)
                if inverse & (inverse + 1):
                    self.error(value.place, "the mask of an lpm key must be a prefix")
            elif (
                isinstance(value, ast.Range)
                and None not in (parts[0].const, parts[1].const)
                and parts[0].const > parts[1].const
            ):
                self.error(value.place, "the range is empty")
            return
        if isinstance(got, SetOf):
            if kind:
                self.error(value.place, "a value_set cannot be a key")
            elif not self.same(got.element, want) and got.element != want:
                under = got.element
                fields = tuple(under.fields.values()) if isinstance(under, Composite) else ()
                if fields != (want,):
                    self.error(value.place, f"this value_set holds {got.element}, not {want}")
            return
        if isinstance(got, Special):
            self.error(value.place, f"{got} cannot stand here")
            return
        if self.coerce(value, want, "the key needs") and value.const is None:
            self.error(value.place, "this must be known at compile time")

    # ---- parsers ----

    def _d_Parser(self, d: ast.Parser) -> None:
        if d.type_parameters and not d.is_type:
            self._generic_block(d)
            return
        d.type = BlockType(d)
        self.declare(d)
        outer = self.scope
        self.scope = Scope(outer, "parser")
        self._type_parameters(d)
        self._parameters(d.parameters)
        if not d.is_type:
            self._parameters(d.constructor_parameters)
            self.scope = Scope(self.scope, "parser")
            self.in_parser = True
            for local in d.locals:
                self._local(local)
            names = {"accept", "reject"}
            for state in d.states:
                if state.name in names:
                    self.error(state.place, f"state '{state.name}' is already declared")
                names.add(state.name)
            for state in d.states:
                self._state(d, state, names)
            if not any(s.name == "start" for s in d.states):
                self.error(d.place, f"parser {d.name} has no state 'start'")
            else:
                self._reachable(d)
            self.in_parser = False
        self.scope = outer

    def _state(self, d: ast.Parser, state: ast.State, names: set[str]) -> None:
        saved = self.scope
        self.scope = Scope(saved)
        for statement in state.statements:
            self.statement(statement)
        transition = state.transition
        if isinstance(transition, ast.Name):
            self._target(transition.place, transition.name, names)
        elif isinstance(transition, ast.Select):
            self._select(transition, names)
        self.scope = saved

    def _target(self, place, name: str, names: set[str]) -> None:
        if name not in names:
            self.error(place, f"there is no state '{name}'{self.near(name, names)}")

    def _select(self, select: ast.Select, names: set[str]) -> None:
        types = []
        for value in select.values:
            got = self.value(value)
            if got == INT:
                got = self.error(value.place, "a value to select by needs a width")
            under = underlying(got)
            if got != UNKNOWN and not (
                isinstance(under, Bits | EnumType) or under in (BOOL, ERROR)
            ):
                self.error(value.place, f"a value of {got} cannot be selected by")
                got = UNKNOWN
            types.append(got)
        if not select.cases:
            self.diagnostics.warning(select.place, "this select has no cases; it always rejects")
        complete = False
        for case in select.cases:
            self._target(case.place, case.state, names)
            if complete:
                self.diagnostics.warning(case.place, "an earlier label matches everything")
                complete = False
            keys = case.keys
            if len(keys) == 1 and isinstance(keys[0], ast.DontCare):
                self.expr(keys[0])
                complete = True
                continue
            if len(keys) == 1 and len(types) > 1:
                got = self.expr(keys[0])
                if isinstance(got, SetOf):
                    element = got.element
                    if len(
                        getattr(element, "fields", ()) or getattr(element, "elements", ())
                    ) != len(types):
                        self.error(keys[0].place, f"this value_set holds {element}")
                    continue
                if isinstance(keys[0], ast.ListExpr):
                    keys = case.keys = keys[0].items
            if len(keys) != len(types):
                self.error(
                    case.place,
                    f"{len(keys)} keys in this label, but {len(types)} values to select by",
                )
                continue
            for key, want in zip(keys, types, strict=True):
                if want != UNKNOWN:
                    self.keyset(key, want, "")

    def _reachable(self, d: ast.Parser) -> None:
        by_name = {s.name: s for s in d.states}
        seen, todo = set(), ["start"]
        while todo:
            name = todo.pop()
            if name in seen or name not in by_name:
                continue
            seen.add(name)
            transition = by_name[name].transition
            if isinstance(transition, ast.Name):
                todo.append(transition.name)
            elif isinstance(transition, ast.Select):
                todo += [c.state for c in transition.cases]
        for state in d.states:
            if state.name not in seen:
                self.diagnostics.warning(state.place, f"state {state.name} is never reached")


def underlying_for(want: Type, have: Type) -> Type:
    """Masks of an enum may be written in its base type."""
    return underlying(want) if isinstance(have, Bits) else want


def spell(e: ast.Expr) -> str:
    """An expression in P4 spelling, for the names of keys."""
    if isinstance(e, ast.Name):
        return e.name
    if isinstance(e, ast.Member):
        return f"{spell(e.base)}.{e.name}"
    if isinstance(e, ast.Index):
        return f"{spell(e.base)}[{spell(e.index)}]"
    if isinstance(e, ast.Slice):
        return f"{spell(e.base)}[{spell(e.high)}:{spell(e.low)}]"
    if isinstance(e, ast.Call):
        return f"{spell(e.function)}()"
    if isinstance(e, ast.Number):
        return str(e.value)
    if isinstance(e, ast.Cast):
        return spell(e.operand)
    if isinstance(e, ast.Binary):
        return f"{spell(e.left)} {e.op} {spell(e.right)}"
    if isinstance(e, ast.Unary):
        return f"{e.op}{spell(e.operand)}"
    return "key"


def check(program: ast.Program, diagnostics: Diagnostics) -> Checker:
    checker = Checker(diagnostics)
    checker.program(program)
    return checker


__all__ = ["Checker", "KeyInfo", "TableInfo", "check", "spell", "Plain"]
