"""The application of a table: the key, the look-up, and a C switch over its actions."""

from __future__ import annotations

from p4engine.backend.emit_call import CallEmitter
from p4engine.frontend import ast
from p4engine.frontend.checker.check_usage import children
from p4engine.frontend.types import BOOL, is_header, underlying, width_of
from p4engine.middle.layout import words


class TableEmitter(CallEmitter):
    """apply_table."""

    def apply_table(self, e: ast.Call) -> tuple[str, str]:
        """Write the application of a table; returns C expressions of hit and of the action's
        number."""
        table = self.block.members[id(e.call.decl)]
        number = table.number
        keys = [k for k in table.keys if k.kind != "selector"]
        total = sum(words(k.width) or 1 for k in keys)
        hit = self.temp_c("uint8_t", "0")
        run = self.temp_c("uint32_t", "0")
        body: list[str] = []
        outer, self.out = self.out, body
        self.depth += 1
        texts = self.in_order([k.value for k in table.keys])
        texts = [self._key_value(k.value, t) for k, t in zip(table.keys, texts, strict=True)]
        by_key = dict(zip([id(k) for k in table.keys], texts, strict=True))
        entry = f"e{self.depth}"
        if keys:
            key = f"key{self.depth}"
            body.append(f"uint64_t {key}[{total}];")
            at = 0
            for k in keys:
                at = self._put_words(key, at, by_key[id(k)], k.value)
            body.append(f"const p4_entry *{entry} = {self.lookup(table, key)};")
        else:
            body.append(f"const p4_entry *{entry} = 0;")
        body.append(f"{hit} = {entry} != 0;")
        if table.counter is not None:
            body.append(
                f"if ({hit}) p4_direct_count(&I->tables[{number}], {entry}, P->base.length);"
            )
        target = self._meter_target(table)
        if target is not None:
            self.out = []
            self.store_number(target, self.direct_meter(number, entry))
            body.append(f"if ({hit}) {{ " + "\n".join(self.out) + " }")
            self.out = body
        body.append(f"if (!{hit}) {entry} = I->tables[{number}].default_entry;")
        if table.profile is not None:
            selector = [k for k in table.keys if k.kind == "selector"]
            hashed = "0"
            if selector and table.profile.kind == "action_selector":
                hashed = self.selector_hash(
                    table, [(by_key[id(k)], k.value.type) for k in selector]
                )
            body.append(
                f"{entry} = p4_resolve(I, &I->tables[{number}], {entry}, &{hit}, {hashed});"
            )
        body.append(f"{run} = {entry}->action;")
        self.trace_table(e, table, texts, hit, run, entry)
        cases = []
        saved_entry = self.current_entry
        self.current_entry = (entry, hit, number, target is not None)
        for i, action in enumerate(table.actions):
            self.out = []
            self._run_entry(action, entry)
            cases.append(f"case {i}: {{ " + "\n".join(self.out) + " } break;")
        self.current_entry = saved_entry
        self.out = body
        body.append(f"switch ({run}) {{ " + "\n".join(cases) + " }")
        self.depth -= 1
        self.out = outer
        self.out.append("{ " + "\n".join(body) + " }")
        return hit, run

    def _meter_target(self, table) -> ast.Expr | None:
        """Where the actions of a table read its direct meter to. BMv2 writes the colour there at
        every hit, whatever the action; a variable of an action itself is left to its `read`."""
        own = {id(d) for d in (*self.block.decl.parameters, *self.block.decl.locals)}
        todo: list = [a.ref.decl.body for a in table.actions] if table.meter is not None else []
        while todo:
            node = todo.pop()
            todo += children(node)
            call = node.call if isinstance(node, ast.Call) else None
            if call is None or (call.kind, call.name) != ("method", "read"):
                continue
            target = call.arguments[0][1]
            if self.find_extern(call.receiver) is table.meter and self.is_path(target):
                return target if id(self.root(target)[0]) in own else None
        return None

    @staticmethod
    def direct_meter(number: int, entry: str) -> str:
        """C expression of the colour that a table's meter gives to this packet."""
        return f"p4_direct_meter_run(&I->tables[{number}], {entry}, P->base.length, P->base.now_ns)"

    def _key_value(self, e: ast.Expr, text: str) -> str:
        """A field of an invalid header is matched as 0, as on BMv2; what is computed is not."""
        base = e
        while isinstance(base, ast.Member) and not is_header(base.type):
            base = base.base
        if base is e or not is_header(base.type) or not self.is_path(base):
            return text
        width = width_of(e.type) or 0
        valid = f"{self.left(base)}.valid"
        if width <= 128:
            return f"({valid} ? {text} : 0)"
        return f"({valid} ? {text} : ({self.layout.c_type(e.type)}){{{{0}}}})"

    def _put_words(self, key: str, at: int, text: str, e: ast.Expr) -> int:
        """Store a key's value in words of `key` from `at`; returns the index behind it."""
        under = underlying(e.type)
        width = width_of(under) or 0
        if width <= 64:
            self.out.append(f"{key}[{at}] = {text};")
            return at + 1
        name = self.temp(e.type, text)
        for i in range(words(width)):
            part = f"(uint64_t)({name} >> {64 * i})" if width <= 128 else f"{name}.w[{i}]"
            self.out.append(f"{key}[{at + i}] = {part};")
        return at + words(width)

    @staticmethod
    def lookup(table, key: str) -> str:
        target = f"&I->tables[{table.number}]"
        kinds = {k.kind for k in table.keys if k.kind != "selector"}
        if kinds == {"exact"}:
            total = sum(words(k.width) or 1 for k in table.keys if k.kind == "exact")
            return f"p4_find_exact({target}, {key}, {total})"
        if kinds <= {"exact", "lpm"}:
            return f"p4_find_prefix({target}, {key})"
        return f"p4_find_priority({target}, {key})"

    def _run_entry(self, action, entry: str) -> None:
        """One action of a table: parameters from the entry's words or bound in the table."""
        at = 0
        arguments = []
        for parameter, value in action.ref.binding:
            if value is None:
                width = width_of(parameter.type) or 1
                data = ast.Name(parameter.place, parameter.name)
                data.type = parameter.type
                data.decl = data
                self.env[id(data)] = self.words_value(f"{entry}->params", at, parameter.type)
                self.keep.append(data)
                arguments.append((parameter, data))
                at += words(width) or 1
            else:
                arguments.append((parameter, value))
        self.inline_action(action.ref.decl, arguments)

    def words_value(self, base: str, at: int, type_) -> str:
        """A value of `type_` from 64-bit words."""
        under = underlying(type_)
        width = width_of(under) or 1
        if under == BOOL:
            return f"(uint8_t)({base}[{at}] != 0)"
        if width <= 64:
            return f"({self.layout.c_type(type_)}){base}[{at}]"
        if width <= 128:
            return f"P4_U128({base}[{at + 1}], {base}[{at}])"
        return f"{self.big(width)}_of({base} + {at}, {words(width)})"
