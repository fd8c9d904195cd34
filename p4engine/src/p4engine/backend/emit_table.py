"""The application of a table: the key, the look-up, and a C switch over its actions."""

from __future__ import annotations

from p4engine.backend.context import AppliedEntry, Context
from p4engine.backend.emit_architecture import ArchitectureEmitter
from p4engine.backend.emit_expr import ExpressionEmitter
from p4engine.backend.emit_inline import InlineEmitter
from p4engine.backend.emit_left import LeftEmitter, root
from p4engine.backend.emit_numbers import NumberEmitter
from p4engine.frontend import ast
from p4engine.frontend.checker.check_usage import children
from p4engine.frontend.types import Composite, Stack, Tuple, Type, is_header, underlying, width_of
from p4engine.middle.instantiate import ActionInstance, TableInstance
from p4engine.middle.layout import words


def direct_meter(table: int, entry: str) -> str:
    """C expression of the colour that a table's meter gives to this packet."""
    return f"p4_direct_meter_run(&I->tables[{table}], {entry}, P->base.length, P->base.now_ns)"


class TableEmitter:
    """Tables in the C of the control that applies them."""

    def __init__(
        self,
        context: Context,
        numbers: NumberEmitter,
        left: LeftEmitter,
        expressions: ExpressionEmitter,
        architecture: ArchitectureEmitter,
        inline: InlineEmitter,
    ) -> None:
        self.context, self.numbers, self.left = context, numbers, left
        self.expressions, self.inline = expressions, inline
        self.architecture = architecture

    def apply(self, call: ast.TableCall) -> tuple[str, str]:
        """Write the application of a table; returns C expressions of hit and of the action's
        number."""
        context = self.context
        table = context.block.members[id(call.decl)]
        assert isinstance(table, TableInstance)
        hit = context.temp_c("uint8_t", "0")
        run = context.temp_c("uint32_t", "0")
        with context.capture() as body:
            context.depth += 1
            texts = self.expressions.in_order([k.value for k in table.keys])
            texts = [self._key_value(k.value, t) for k, t in zip(table.keys, texts, strict=True)]
            entry = self._look_up(table, texts, hit)
            target = self._direct_objects(table, entry, hit)
            body.append(f"if (!{hit}) {entry} = I->tables[{table.number}].default_entry;")
            if table.profile is not None:
                hashed = self._selector_hash(table, texts)
                alive = self.architecture.alive(table)
                how = f"_alive(I, {alive}" if alive else "(I"
                body.append(
                    f"{entry} = p4_resolve{how}, &I->tables[{table.number}], {entry}, &{hit}, "
                    f"{hashed});"
                )
            body.append(f"{run} = {entry}->action;")
            context.trace.table_applied(call, table, texts, hit, run, entry)
            outer = context.applied
            context.applied = AppliedEntry(entry, hit, table.number, target is not None)
            cases = []
            for i, action in enumerate(table.actions):
                with context.capture() as case:
                    self._run_entry(action, entry)
                cases.append(f"case {i}: {{ " + "\n".join(case) + " } break;")
            context.applied = outer
            body.append(f"switch ({run}) {{ " + "\n".join(cases) + " }")
            context.depth -= 1
        context.out.append("{ " + "\n".join(body) + " }")
        return hit, run

    # ---- the look-up ----

    def _look_up(self, table: TableInstance, texts: list[str], hit: str) -> str:
        """Write the look-up of the keys, in C `texts`; returns the C name of the entry found."""
        out, depth = self.context.out, self.context.depth
        entry = f"e{depth}"
        keys = [(k, t) for k, t in zip(table.keys, texts, strict=True) if k.kind != "selector"]
        if keys:
            name = f"key{depth}"
            total = sum(words(k.width) or 1 for k, _ in keys)
            out.append(f"uint64_t {name}[{total}];")
            at = 0
            for key, text in keys:
                at = self._put_words(name, at, text, key.value)
            out.append(f"const p4_entry *{entry} = {_lookup(table, name)};")
        else:
            out.append(f"const p4_entry *{entry} = 0;")
        out.append(f"{hit} = {entry} != 0;")
        return entry

    def _direct_objects(self, table: TableInstance, entry: str, hit: str) -> ast.Expr | None:
        """Write what the table's direct counter and meter and its entries' ages do at a hit;
        returns where the meter's colour is stored."""
        out, number = self.context.out, table.number
        if table.ages:
            out.append(f"if ({hit}) {entry}->age->hit_ns = P->base.now_ns;")
        if table.counter is not None and self.architecture.counts_hits:
            out.append(
                f"if ({hit}) p4_direct_count(&I->tables[{number}], {entry}, P->base.length);"
            )
        target = self._meter_target(table)
        if target is not None:
            with self.context.capture() as made:
                self.left.store_number(target, direct_meter(number, entry))
            out.append(f"if ({hit}) {{ " + "\n".join(made) + " }")
        return target

    def _meter_target(self, table: TableInstance) -> ast.Expr | None:
        """The place that the actions of a table read its direct meter to. BMv2 writes the colour
        there at every hit, whatever the action; a variable of an action itself is left to its
        `read`."""
        decl = self.context.block.decl
        own = {id(d) for d in (*decl.parameters, *decl.locals)}
        todo: list[ast.Node] = []
        if table.meter is not None:
            todo = [a.decl.body for a in table.actions]
        while todo:
            node = todo.pop()
            todo += children(node)
            call = node.call if isinstance(node, ast.Call) else None
            if not isinstance(call, ast.MethodCall) or call.decl.name != "read":
                continue
            if self.context.find_instance(call.receiver) is not table.meter:
                continue
            target = call.arguments[0][1]
            if target is not None and self.context.is_path(target):
                return target if id(root(target)[0]) in own else None
        return None

    def _selector_hash(self, table: TableInstance, texts: list[str]) -> str:
        keys = zip(table.keys, texts, strict=True)
        selector = [(t, k.value.type) for k, t in keys if k.kind == "selector"]
        assert table.profile is not None
        if selector and table.profile.kind == "action_selector":
            return self.architecture.selector_hash(table, selector)
        return "0"

    def _key_value(self, e: ast.Expr, text: str) -> str:
        """A field of an invalid header is matched as 0, as on BMv2; what is computed is not."""
        base = e
        while isinstance(base, ast.Member | ast.Index) and not is_header(base.type):
            base = base.base
        if base is e or not is_header(base.type) or not self.context.is_path(base):
            return text
        width = width_of(e.type) or 0
        valid = f"{self.left.left(base)}.valid"
        if width <= 128:
            return f"({valid} ? {text} : 0)"
        return f"({valid} ? {text} : ({self.context.layout.c_type(e.type)}){{{{0}}}})"

    def _put_words(self, key: str, at: int, text: str, e: ast.Expr) -> int:
        """Store a key's value in words of `key` from `at`; returns the index behind it."""
        out, width = self.context.out, width_of(e.type) or 0
        if width <= 64:
            out.append(f"{key}[{at}] = {text};")
            return at + 1
        name = self.context.temp(e.type, text)
        for i in range(words(width)):
            part = f"(uint64_t)({name} >> {64 * i})" if width <= 128 else f"{name}.w[{i}]"
            out.append(f"{key}[{at + i}] = {part};")
        return at + words(width)

    # ---- the action ----

    def _run_entry(self, action: ActionInstance, entry: str) -> None:
        """One action of a table: parameters from the entry's words or bound in the table."""
        self.context.trace.action_chosen(action, entry)
        at = 0
        arguments: ast.Bound = []
        for parameter, value in action.binding:
            if value is None:
                text = self._data(f"{entry}->params", at, parameter.type)
                value = self.context.variable(parameter.place, parameter.name, parameter.type, text)
                at += words(width_of(parameter.type) or 1) or 1
            arguments.append((parameter, value))
        self.inline.action(action.decl, arguments)

    def _data(self, base: str, at: int, type_: Type) -> str:
        """C expression of the action data that begins at word `at`; a struct's are packed."""
        if not isinstance(underlying(type_), Composite | Tuple | Stack):
            return self.numbers.from_words(base, at, type_)
        name = self.context.temp(type_, "{0}")
        low = width_of(type_) or 0
        for text, leaf in self.left.composites.leaves(name, type_):
            low -= width_of(leaf) or 0
            if width_of(leaf):
                self.context.out.append(f"{text} = {self.numbers.cut(base, at, low, leaf)};")
        return name


def _lookup(table: TableInstance, key: str) -> str:
    """C expression of the entry that matches the key best."""
    target = f"&I->tables[{table.number}]"
    kinds = {k.kind for k in table.keys if k.kind != "selector"}
    if kinds == {"exact"}:
        total = sum(words(k.width) or 1 for k in table.keys if k.kind == "exact")
        return f"p4_find_exact({target}, {key}, {total})"
    if kinds <= {"exact", "lpm"}:
        return f"p4_find_prefix({target}, {key})"
    return f"p4_find_priority({target}, {key})"
