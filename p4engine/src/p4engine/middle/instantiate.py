"""From declarations to instances: what exists at run time, its number and its name.

A control that is instantiated twice has its tables and registers twice. Names are those p4c
gives for the control plane: the path of instances from the package's argument
(`MyIngress.acl.table`), where @name replaces the last part, or everything if it begins with a
dot.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from p4engine.frontend import ast, fold
from p4engine.frontend.checker.check_usage import children
from p4engine.frontend.checker.checker import Checker
from p4engine.frontend.diagnostics import Diagnostics, InternalError, Place
from p4engine.frontend.parser.parse_annotations import string_value
from p4engine.frontend.types import (
    Bits,
    BlockType,
    Composite,
    ExternType,
    SetOf,
    Type,
    underlying,
    width_of,
)
from p4engine.middle.architecture import Architecture, architecture_of

MATCH_KINDS = {"exact": 0, "lpm": 1, "ternary": 2, "range": 3, "optional": 4, "selector": 5}


@dataclass(eq=False)
class ExternInstance:
    """`number` counts within `kind` ("register", "counter", ...)."""

    kind: str
    name: str
    type: ExternType
    arguments: dict[str, Value]
    number: int
    place: Place
    decl: ast.Instance | None = None  # None if it is made as an argument or a property

    @property
    def size(self) -> int:
        """The number of elements; 0 if the constructor is not told."""
        size = self.arguments.get("size")
        return size if isinstance(size, int) else 0

    @property
    def bodies(self) -> dict[str, ast.Function]:
        """Bodies of the extern's abstract methods, by their names."""
        given = self.decl.body if self.decl is not None else None
        return {each.name: each for each in given or [] if isinstance(each, ast.Function)}

    @property
    def unit(self) -> ast.Symbol:
        """The unit of a counter or meter: the member of CounterType or MeterType."""
        unit = self.arguments.get("type")
        if not isinstance(unit, ast.Symbol):
            raise InternalError(f"{self.kind} {self.name} has no type")
        return unit


@dataclass(eq=False)
class ActionInstance:
    """An action of one table: its number there is its position in TableInstance.actions."""

    name: str
    decl: ast.Action
    annotations: list[ast.Annotation]  # in the table's list of actions
    binding: ast.Bound

    @property
    def data(self) -> list[ast.Parameter]:
        """The parameters whose values the entry holds."""
        return [parameter for parameter, value in self.binding if value is None]


@dataclass(eq=False)
class TableInstance:
    decl: ast.Table
    name: str
    number: int
    block: BlockInstance
    default: ast.ActionRef
    actions: list[ActionInstance] = field(default_factory=list)
    profile: ExternInstance | None = None
    counter: ExternInstance | None = None
    meter: ExternInstance | None = None
    register: ExternInstance | None = None
    size: int = 0

    @property
    def keys(self) -> list[ast.KeyInfo]:
        """The table's keys."""
        return self.decl.info.keys

    @property
    def ages(self) -> bool:
        """Entries have idle timeouts."""
        asked = [self.decl.properties.get(name) for name in ("support_timeout", "idle_timeout")]
        return any(each is not None and each.value.const is True for each in asked)


@dataclass(eq=False)
class ValueSetInstance:
    decl: ast.ValueSet
    name: str
    element: Type
    number: int
    size: int


@dataclass(eq=False)
class BlockInstance:
    """A parser or control with its constructor's values; `members` by id of the local
    declaration."""

    decl: Block
    name: str
    values: dict[int, Value]  # by id of the constructor's parameter
    members: dict[int, Member] = field(default_factory=dict)


Block: TypeAlias = ast.Parser | ast.Control
Member: TypeAlias = ExternInstance | TableInstance | ValueSetInstance | BlockInstance
# The value of a constructor's argument; None for an optional one that is not given.
Value: TypeAlias = "ast.Const | Member | None"


class Instances:
    """All instances that the package instance `main` needs, directly and indirectly."""

    def __init__(
        self, checker: Checker, diagnostics: Diagnostics, architecture: Architecture
    ) -> None:
        self.checker, self.diagnostics = checker, diagnostics
        self.architecture = architecture
        self.externs: dict[str, list[ExternInstance]] = {}
        self.tables: list[TableInstance] = []
        self.value_sets: list[ValueSetInstance] = []
        self.global_externs: dict[int, ExternInstance] = {}
        self.global_value_sets: dict[int, ValueSetInstance] = {}
        self.blocks: dict[str, BlockInstance] = {}
        self.direct: dict[tuple[int, int], BlockInstance] = {}
        self.all_blocks: list[BlockInstance] = []
        for decl in checker.globals.names.values():
            if isinstance(decl, ast.Instance) and isinstance(decl.type, ExternType):
                made = self._extern(decl.type, decl.constructor, local_name(decl), {}, decl.place)
                made.decl = decl
                self.global_externs[id(decl)] = made
            elif isinstance(decl, ast.ValueSet):
                self.global_value_sets[id(decl)] = self._value_set(decl, local_name(decl), {})
        for wanted in architecture.blocks(checker, diagnostics):
            block = self._block_argument(wanted.value, wanted.prefix)
            if block is None:
                place = wanted.value.place if wanted.value is not None else checker.main.place
                package = architecture.package
                raise diagnostics.fatal(place, f"{package} needs an instance of a block here")
            self.blocks[wanted.name] = block
        for block in self.blocks.values():
            self._apply_types(block)
        architecture.add(self)
        self._check_names()

    def _block_argument(self, value: ast.Expr | None, prefix: str) -> BlockInstance | None:
        if isinstance(value, ast.Call) and isinstance(value.call, ast.Construction):
            decl = _block_of(value.call.type)
            return self.block(decl, prefix + decl.name, value.call, {}, value.place)
        return None

    def _check_names(self) -> None:
        """No two tables, actions, or other objects may have one name for the control plane."""
        seen: dict[tuple[str, str], object] = {}

        def check(kind: str, name: str, what: object, decl: ast.Decl | None, place: Place) -> None:
            if decl is not None and annotation(decl, "hidden") is not None:
                return
            if seen.setdefault((kind, name), what) != what:
                self.diagnostics.error(
                    place, f"the control plane has two {kind} of the name '{name}'"
                )

        for table in self.tables:
            check("tables", table.name, table, table.decl, table.decl.place)
            for action in table.actions:
                decl = action.decl
                is_global = self.checker.globals.names.get(decl.name) is decl
                owner = None if is_global else id(table.block)
                check("actions", action.name, (id(decl), owner), decl, decl.place)
        for extern in (x for known in self.externs.values() for x in known):
            check("objects", extern.name, extern, extern.decl, extern.place)
        for value_set in self.value_sets:
            check("objects", value_set.name, value_set, value_set.decl, value_set.decl.place)

    # ---- values of constructor arguments ----

    def value(self, e: ast.Expr | None, values: Mapping[int, Value], name: str = "") -> Value:
        """The value of a constructor argument; `values` are those of the enclosing block, `name` is
        that of an instance that the argument makes."""
        if e is None:
            return None
        if e.const is not None:
            return e.const
        if isinstance(e, ast.Name):
            if id(e.decl) in values:
                return values[id(e.decl)]
            if isinstance(e.decl, ast.Instance):
                return self.global_externs.get(id(e.decl))
        if isinstance(e, ast.Binary):
            a, b = self.known(e.left, values), self.known(e.right, values)
            if e.op == "++":
                return _joined(a, b, e)
            try:
                return fold.binary(e.op, a, b, underlying(e.left.type))
            except fold.FoldError as error:
                self.diagnostics.error(e.place, str(error))
                return 0
        if isinstance(e, ast.Ternary):
            return self.value(e.yes if self.value(e.condition, values) else e.no, values)
        if isinstance(e, ast.Slice):
            number, low = self.value(e.base, values), e.low.const
            width = width_of(e.type) or 0
            assert isinstance(number, int) and isinstance(low, int)
            return number >> low & ((1 << width) - 1)
        if isinstance(e, ast.ListExpr):
            return [self.known(i, values) for i in e.items]
        if isinstance(e, ast.StructExpr):
            return {n: self.known(v, values) for n, v in e.fields}
        if isinstance(e, ast.Member):
            whole = self.value(e.base, values)
            under = underlying(e.base.type)
            if isinstance(whole, dict):
                return whole[e.name]
            assert isinstance(whole, list) and isinstance(under, Composite)
            return whole[list(under.fields).index(e.name)]
        if isinstance(e, ast.Index):
            whole, number = self.value(e.base, values), self.value(e.index, values)
            assert isinstance(whole, list) and isinstance(number, int)
            return whole[number]
        if isinstance(e, ast.Unary):
            return fold.unary(e.op, self.known(e.operand, values), underlying(e.type))
        if isinstance(e, ast.Cast):
            value = self.known(e.operand, values)
            under = underlying(e.type)
            return (
                under.wrap(value) if isinstance(under, Bits) and isinstance(value, int) else value
            )
        if isinstance(e, ast.Call) and isinstance(e.call, ast.Construction):
            if isinstance(e.call.type, BlockType):
                decl = _block_of(e.call.type)
                return self.block(decl, name or decl.name, e.call, values, e.place)
            assert isinstance(e.call.type, ExternType)
            return self._extern(e.call.type, e.call, name or e.call.name, values, e.place)
        self.diagnostics.error(e.place, "this must be known when the instance is made")
        return 0

    def _number(self, e: ast.Expr, values: Mapping[int, Value]) -> int:
        value = self.value(e, values)
        return value if isinstance(value, int) else 0

    def known(self, e: ast.Expr, values: Mapping[int, Value]) -> ast.Const:
        """The value of an operand, which is no instance."""
        value = self.value(e, values)
        assert value is not None and not isinstance(value, Member)
        return value

    # ---- making instances ----

    def block(
        self,
        decl: Block,
        name: str,
        call: ast.Construction | None,
        values: Mapping[int, Value],
        place: Place,
    ) -> BlockInstance:
        """Make an instance of a parser or control; `values` are those of the enclosing block."""
        inner = {}
        if call is not None:
            for parameter, value in call.arguments:
                inner[id(parameter)] = self.value(value, values, join(name, parameter))
        made = BlockInstance(decl, name, inner)
        self.all_blocks.append(made)
        for local in decl.locals:
            self._local(made, local)
        for local in decl.locals:
            if isinstance(local, ast.Table):
                made.members[id(local)] = self._table(made, local)
        return made

    def name_of(self, e: ast.Expr) -> str | None:
        """The control-plane name of the extern instance that `e` names anywhere in the program."""
        number = id(e.decl) if isinstance(e, ast.Name) else 0
        for block in self.all_blocks:
            if number in block.members:
                return block.members[number].name
        return self.global_externs[number].name if number in self.global_externs else None

    def called_actions(self) -> list[ActionInstance]:
        """The actions that controls call themselves; what they are called with is no data of a
        table's entry."""
        made = []
        for block in self.all_blocks:
            called: set[int] = set()
            todo: list[ast.Node] = [block.decl]
            while todo:
                node = todo.pop()
                todo += children(node)
                if isinstance(node, ast.Call) and isinstance(node.call, ast.ActionCall):
                    called.add(id(node.call.decl))
            for local in block.decl.locals:
                if isinstance(local, ast.Action) and id(local) in called:
                    made.append(ActionInstance(join(block.name, local), local, [], []))
        return made

    def _local(self, block: BlockInstance, local: ast.Decl) -> None:
        name = join(block.name, local)
        visible = block.values | block.members  # names for a constructor's arguments
        if isinstance(local, ast.Instance):
            if isinstance(local.type, ExternType):
                extern = self._extern(local.type, local.constructor, name, visible, local.place)
                extern.decl = local
                block.members[id(local)] = extern
            elif isinstance(local.type, BlockType):
                block.members[id(local)] = self.block(
                    _block_of(local.type), name, local.constructor, visible, local.place
                )
        elif isinstance(local, ast.ValueSet):
            block.members[id(local)] = self._value_set(local, name, visible)

    def _value_set(
        self, decl: ast.ValueSet, name: str, values: Mapping[int, Value]
    ) -> ValueSetInstance:
        assert isinstance(decl.type, SetOf)
        size = self._number(decl.size, values)
        made = ValueSetInstance(decl, name, decl.type.element, len(self.value_sets), size)
        self.value_sets.append(made)
        return made

    def _apply_types(self, block: BlockInstance) -> None:
        """Make the instances that applications of types stand for, in the order of the calls."""
        statements = (
            [node for state in block.decl.states for node in state.statements]
            if isinstance(block.decl, ast.Parser)
            else block.decl.statements
        )
        todo: list[ast.Node] = list(reversed(statements))
        while todo:
            node = todo.pop()
            if isinstance(node, ast.If) and node.condition.const is not None:
                chosen = node.yes if node.condition.const else node.no
                todo += [chosen] if chosen is not None else []
                continue
            todo += reversed(children(node))
            call = node.call if isinstance(node, ast.Call) else None
            if isinstance(call, ast.BlockCall):
                inner = (
                    self.apply_direct(call, block)
                    if call.receiver is None
                    else block.members.get(id(getattr(call.receiver, "decl", None)))
                )
                if isinstance(inner, BlockInstance):
                    self._apply_types(inner)

    def apply_direct(self, call: ast.BlockCall, block: BlockInstance) -> BlockInstance:
        """The instance that `C.apply(..)` of a type stands for, in the `block` that does so."""
        key = (id(call), id(block))
        if key not in self.direct:
            self.direct[key] = self.block(
                call.decl, f"{block.name}.{call.decl.name}", None, {}, call.place
            )
            self._check_names()
        return self.direct[key]

    def _extern(
        self,
        type_: ExternType,
        call: ast.Construction | None,
        name: str,
        values: Mapping[int, Value],
        place: Place,
    ) -> ExternInstance:
        extern = type_.decl.name
        given = call.arguments if call is not None else []
        arguments = {p.name: self.value(v, values) for p, v in given}
        shape = self.architecture.externs.get(extern)
        if shape is None:
            raise self.diagnostics.fatal(
                place,
                f"extern {extern} is not one that {self.architecture.name}.p4 lets a program"
                f" instantiate. This switch has {', '.join(self.architecture.externs)}",
            )
        missing = [p for p in shape.needs if p not in arguments]
        if missing:
            raise self.diagnostics.fatal(
                place, f"the constructor of {extern} must have the parameter '{missing[0]}'"
            )
        kind = shape.kind
        known = self.externs.setdefault(kind, [])
        made = ExternInstance(kind, name, type_, arguments, len(known), place)
        size = arguments.get("size")
        sized = kind in ("register", "counter", "meter")
        if sized and isinstance(size, int) and size > 1 << 28:
            self.diagnostics.error(place, f"{kind} {name} has too many elements ({size})")
            made.arguments["size"] = 1
        if kind == "register":
            problem = self.architecture.register_problem(type_.arguments[0])
            if problem is not None:
                self.diagnostics.error(place, problem)
        known.append(made)
        self.architecture.complete(made, self)
        return made

    def _table(self, block: BlockInstance, decl: ast.Table) -> TableInstance:
        default = decl.info.default
        if default is None:
            raise InternalError(f"table {decl.name} has no default action")
        if decl.info.without_default is not None and not self.architecture.profile_defaults:
            self.diagnostics.warning(
                default.place,
                "a table with an action profile has no default action in the program, as on BMv2;"
                " set it at run time",
            )
            default = decl.info.without_default
        made = TableInstance(decl, join(block.name, decl), len(self.tables), block, default)
        self.tables.append(made)
        for ref in decl.info.actions:
            if ref.binding is None or ref.decl is None:
                continue
            is_global = self.checker.globals.names.get(ref.decl.name) is ref.decl
            name = local_name(ref.decl) if is_global else join(block.name, ref.decl)
            made.actions.append(ActionInstance(name, ref.decl, ref.annotations, ref.binding))
        made.size = decl.info.size
        if "size" in decl.properties and not made.size:
            made.size = self._number(decl.properties["size"].value, block.values)
        for prop in ("implementation", "counters", "meters", "registers"):
            if prop not in decl.properties:
                continue
            value = decl.properties[prop].value
            extern = self.property_extern(block, decl.properties[prop])
            kind = extern.kind if extern is not None else "something else"
            if kind in self.architecture.table_hints:
                continue
            allowed = {
                "implementation": ("action_profile", "action_selector"),
                "counters": ("direct_counter",),
                "meters": ("direct_meter",),
                "registers": ("direct_register",),
            }[prop]
            if kind not in allowed:
                self.diagnostics.error(
                    value.place, f"{prop} needs a {' or '.join(allowed)}, not {kind}"
                )
            elif prop == "implementation":
                made.profile = extern
            elif prop == "counters":
                made.counter = extern
            elif prop == "registers":
                made.register = extern
            else:
                made.meter = extern
        for key in made.keys:
            key.kind = self.architecture.match_kinds.get(key.kind, key.kind)
            if key.kind not in MATCH_KINDS:
                self.diagnostics.error(key.value.place, f"match kind '{key.kind}' is not supported")
        if sum(k.kind == "lpm" for k in made.keys) > 1:
            self.diagnostics.error(decl.place, f"table {decl.name} has more than one lpm key")
        return made

    def property_extern(self, block: BlockInstance, prop: ast.Property) -> ExternInstance | None:
        """The extern object that a property of a table names or makes."""
        value = prop.value
        if isinstance(value, ast.Name):
            key = id(value.decl)
            found = block.members.get(key) or self.global_externs.get(key) or block.values.get(key)
            return found if isinstance(found, ExternInstance) else None
        if isinstance(value, ast.Call) and isinstance(value.call, ast.Construction):
            assert isinstance(value.call.type, ExternType)
            given = next((a for a in prop.annotations if a.name == "name"), None)
            name = f"{block.name}.{value.call.name}_{len(self.tables) - 1}"
            if given is not None:
                text = string_value(given)
                name = text[1:] if text.startswith(".") else f"{block.name}.{text}"
            return self._extern(value.call.type, value.call, name, block.values, value.place)
        return None


def instantiate(checker: Checker, diagnostics: Diagnostics) -> Instances:
    """The instances of a checked program, with a block for each of its architecture's. Raises
    Fatal, or P4Error, after reporting what is wrong."""
    architecture = architecture_of(checker, diagnostics)
    architecture.check(checker, diagnostics)
    diagnostics.stop_on_errors()
    instances = Instances(checker, diagnostics, architecture)
    diagnostics.stop_on_errors()
    return instances


def known_number(value: Value) -> int:
    """The number that a value known at compile time has in generated code."""
    if isinstance(value, ast.Symbol):
        return value.number
    if not isinstance(value, int):
        raise InternalError(f"{value!r} is no number")
    return int(value)


def _joined(a: ast.Const, b: ast.Const, e: ast.Binary) -> ast.Const:
    """a ++ b, of strings or numbers."""
    if isinstance(a, str) and isinstance(b, str):
        return a + b
    assert isinstance(a, int) and isinstance(b, int)
    right, whole = width_of(e.right.type) or 0, underlying(e.type)
    assert isinstance(whole, Bits)
    return whole.wrap(a << right | b & ((1 << right) - 1))


def _block_of(type_: Type) -> Block:
    """The parser or control that a type means."""
    assert isinstance(type_, BlockType) and not isinstance(type_.decl, ast.Package)
    return type_.decl


def annotation(node: ast.Decl | ast.Key | ActionInstance, name: str) -> ast.Annotation | None:
    """The annotation of that name, if there is one."""
    for a in node.annotations:
        if a.name == name:
            return a
    return None


def local_name(decl: ast.Decl) -> str:
    """The control-plane name of a declaration at the top level."""
    a = annotation(decl, "name")
    return decl.name if a is None else string_value(a).lstrip(".")


def join(prefix: str, decl: ast.Decl) -> str:
    """The control-plane name of a local declaration."""
    a = annotation(decl, "name")
    if a is not None:
        text = string_value(a)
        return text[1:] if text.startswith(".") else f"{prefix}.{text}"
    return f"{prefix}.{decl.name}"
