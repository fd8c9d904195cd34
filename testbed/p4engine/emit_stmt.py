"""Statements and calls to C.

Calls are written in place: an action, function or control body stands where it is called, its
parameters bound to the caller's variables where no alias can be seen, else copied in and out. P4
has no recursion, so this ends; and the C compiler sees one straight function per pipeline stage
with plain local variables. Names carry the depth of blocks and calls, so that no variable hides
one that a callee written inside its scope may mean.
"""

from __future__ import annotations

from . import ast
from .emit_expr import ExpressionEmitter
from .instantiate import BlockInstance
from .layout import words
from .reroll import reroll
from .types import (
    BOOL,
    INT,
    VOID,
    Bits,
    Composite,
    ExternType,
    SetOf,
    Special,
    Stack,
    Varbit,
    is_header,
    is_union,
    underlying,
    width_of,
)


class StatementEmitter(ExpressionEmitter):
    """Needs apply_parser, extern_call and method_call from other parts."""

    return_label: str | None = None
    return_variable: str | None = None
    exit_label: str | None = None
    used_labels: set[str]

    # ---- lists of statements ----

    def statements(self, nodes: list) -> list[str]:
        """C statements of a P4 block; one string each, runs turned into loops."""
        saved = self.out
        self.out = []
        self.depth += 1
        self._declare_runs(nodes)
        for node in nodes:
            self.statement(node)
        result = reroll(self.out, self.depth)
        self.depth -= 1
        self.out = saved
        return result

    def _declare_runs(self, nodes: list) -> None:
        """Four or more variables of one integer type in a block share an array, as fields do."""
        by_type: dict[str, list] = {}
        for node in nodes:
            if isinstance(node, ast.Variable) and isinstance(underlying(node.type), Bits):
                by_type.setdefault(f"{underlying(node.type)}", []).append(node)
        for variables in by_type.values():
            if len(variables) < 4:
                continue
            name = self.fresh("locals")
            c = self.layout.c_type(variables[0].type)
            self.out.append(f"{c} {name}[{len(variables)}];")
            for i, node in enumerate(variables):
                self.env[id(node)] = f"{name}[{i}]"

    def statement(self, s: ast.Node) -> None:
        """Append the C of one P4 statement to self.out, as a single string."""
        if isinstance(s, ast.Empty | ast.Constant):
            return
        outer, temps = self.out, self.temps
        self.out, self.temps = [], 0
        if isinstance(s, ast.Variable):
            self._variable(s, outer)
        else:
            getattr(self, "_s_" + type(s).__name__)(s)
        made, self.out = self.out, outer
        self.temps = temps
        if not made:
            return
        if len(made) == 1:
            outer.append(made[0])
        else:
            outer.append("{ " + "\n".join(made) + " }")

    def body(self, s: ast.Node) -> str:
        """A branch or loop body as one C block."""
        nodes = s.statements if isinstance(s, ast.Block) else [s]
        return "{ " + "\n".join(self.statements(nodes)) + " }"

    def _variable(self, s: ast.Variable, outer: list[str]) -> None:
        name = self.env.get(id(s)) if "locals_" in self.env.get(id(s), "") else None
        if name is None:
            name = f"{s.name}_{self.depth}v"
            c = self.layout.c_type(s.type)
            if s.value is None:
                outer.append(f"{c} {name} = {self.zero(s.type)};")
                self.env[id(s)] = name
                return
            outer.append(f"{c} {name};")
        zero = self.zero(s.type)
        if s.value is None and zero.startswith("{"):
            zero = self.temp(s.type, zero)
        text = self.value(s.value) if s.value is not None else zero
        self.env[id(s)] = name
        self.out.append(f"{name} = {text};")

    def _s_Block(self, s: ast.Block) -> None:
        self.out.append(self.body(s))

    def _s_Assign(self, s: ast.Assign) -> None:
        if self.has_effect(s.left) and not self.is_path(s.left):
            self._index_first(s.left)
        text = self.value(s.right)
        under = underlying(s.left.type)
        if isinstance(under, Composite | Stack) and not isinstance(s.right, ast.Name | ast.Member):
            text = self.stable(text, under)
        self.store(s.left, text)

    def _index_first(self, e) -> None:
        """P4 evaluates the left side's indices before the right side."""
        while isinstance(e, ast.Member | ast.Slice | ast.Index):
            if isinstance(e, ast.Index) and self.has_effect(e.index):
                name = self.temp(e.index.type, self.value(e.index))
                variable = ast.Name(e.place, name)
                variable.type = e.index.type
                variable.decl = variable
                self.env[id(variable)] = name
                self.keep.append(variable)
                e.index = variable
            e = e.base

    def _s_CallStatement(self, s: ast.CallStatement) -> None:
        self.call(s.call)

    def _s_If(self, s: ast.If) -> None:
        if s.condition.const is not None:
            chosen = s.yes if s.condition.const else s.no
            if chosen is not None:
                self.out.append(self.body(chosen))
            return
        condition = self.value(s.condition)
        text = f"if ({condition}) {self.body(s.yes)}"
        if s.no is not None:
            text += f" else {self.body(s.no)}"
        self.out.append(text)

    def goto(self, label: str) -> str:
        self.used_labels.add(label)
        return f"goto {label};"

    def _s_Return(self, s: ast.Return) -> None:
        if s.value is not None and self.return_variable is not None:
            self.out.append(f"{self.return_variable} = {self.value(s.value)};")
        self.out.append(self.goto(self.return_label))

    def _s_Exit(self, s: ast.Exit) -> None:
        self.out.append(self.goto(self.exit_label))

    def _s_Break(self, s: ast.Break) -> None:
        self.out.append(self.goto(self.loop_labels[-1][0]))

    def _s_Continue(self, s: ast.Continue) -> None:
        self.out.append(self.goto(self.loop_labels[-1][1]))

    def _loop(self, head: str, body: ast.Node, tail: str, prepare: str = "") -> None:
        labels = (self.fresh("break"), self.fresh("next"))
        self.loop_labels.append(labels)
        inner = self.body(body)
        self.loop_labels.pop()
        if labels[1] in self.used_labels:
            inner += f" {labels[1]}:;"
        self.out.append(f"{head} {{ {prepare} {inner} {tail} }}")
        if labels[0] in self.used_labels:
            self.out.append(f"{labels[0]}:;")

    def _s_For(self, s: ast.For) -> None:
        for node in s.init:
            self.statement(node)
        outer, self.out = self.out, []
        condition = self.value(s.condition)
        test = "\n".join([*self.out, f"if (!({condition})) break;"])
        self.out = []
        for node in s.update:
            self.statement(node)
        update = "\n".join(self.out)
        self.out = outer
        self._loop("for (;;)", s.body, update, test)

    def _s_ForIn(self, s: ast.ForIn) -> None:
        if isinstance(s.variable, ast.Variable):
            name = f"{s.variable.name}_{self.depth}v"
            self.out.append(
                f"{self.layout.c_type(s.variable.type)} {name} = {self.zero(s.variable.type)};"
            )
            self.env[id(s.variable)] = name
        else:
            name = self.left(s.variable)
        kind = s.collection.type
        if isinstance(kind, SetOf):
            self._for_range(s, name)
            return
        if isinstance(kind, Stack):
            source = self.temp(kind, self.value(s.collection))
            counter = self.temp_c("uint32_t", "0")
            self._loop(
                f"for (; {counter} < {kind.size}; {counter}++)",
                s.body,
                "",
                f"{name} = {source}.e[{counter}];",
            )
            return
        items = s.collection.items if isinstance(s.collection, ast.ListExpr) else None
        if items is None and isinstance(s.collection.const, list):
            texts = [self.literal(v, s.variable.type) for v in s.collection.const]
        elif items is not None:
            texts = [self.temp(i.type, self.value(i)) for i in items]
        else:
            raise self.fatal(s.collection.place, "loops over this are not supported")
        counter = self.temp_c("uint32_t", "0")
        cases = " ".join(f"case {i}: {name} = {t}; break;" for i, t in enumerate(texts))
        self._loop(
            f"for (; {counter} < {len(texts)}; {counter}++)",
            s.body,
            "",
            f"switch ({counter}) {{ {cases} }}",
        )

    def _for_range(self, s: ast.ForIn, name: str) -> None:
        under = underlying(s.collection.low.type)
        if not isinstance(under, Bits) or under.width > 64:
            raise self.fatal(
                s.collection.place, "loops over numbers above 64 bits are not supported"
            )
        low, high = self.in_order([s.collection.low, s.collection.high])
        if under.signed:
            low, high = f"P4_SX64({low}, {under.width})", f"P4_SX64({high}, {under.width})"
        last = self.temp_c("int64_t" if under.signed else "uint64_t", high)
        counter = self.temp_c("int64_t" if under.signed else "uint64_t", low)
        more = self.temp_c("uint8_t", f"{counter} <= {last}")
        self._loop(
            f"for (; {more}; {more} = {counter} < {last}, {counter}++)",
            s.body,
            "",
            f"{name} = {self.norm(counter, under.width)};",
        )

    def _s_Switch(self, s: ast.Switch) -> None:
        if s.table is not None:
            _, action = self.apply_table(s.value.base)
            names = {ref.name: i for i, ref in enumerate(s.table.info.actions)}
        else:
            under = underlying(s.value.type)
            action = self.temp(s.value.type, self.value(s.value))
        chain, default = [], ""
        for case in s.cases:
            if case.body is None:
                continue
            tests = []
            for label in case.labels:
                if isinstance(label, ast.DontCare):
                    default = "1"
                elif s.table is not None:
                    tests.append(f"{action} == {names[label.name]}")
                else:
                    tests.append(self.equal(action, self.value(label), under))
            if default == "1":
                tests = ["1"]
            chain.append(f"if ({' || '.join(tests)}) {self.body(case.body)}")
        if chain:
            self.out.append("\nelse ".join(chain))

    # ---- calls ----

    def call(self, e: ast.Call) -> str | None:
        """Write a call; returns the C expression of its value, if it has one."""
        info = e.call
        if info is None:
            raise self.fatal(e.place, "this call is not supported here")
        if info.kind == "builtin":
            return self._builtin(e)
        if info.kind == "table":
            self.apply_table(e)
            return None
        if info.kind == "action":
            self.inline_action(info.decl, info.arguments)
            return None
        if info.kind == "function":
            return self._inline_function(e)
        if info.kind == "apply":
            self._apply(e)
            return None
        if info.kind == "extern":
            return self.extern_call(e)
        if info.kind == "method":
            return self.method_call(e)
        raise self.fatal(e.place, "an instance cannot be made here")

    def _builtin(self, e: ast.Call) -> str | None:
        info = e.call
        receiver = info.receiver
        type_ = receiver.type
        if info.name == "isValid":
            base = self.value(receiver) if not self.is_path(receiver) else self.left(receiver)
            if is_union(type_):
                parts = [f"{self.part(base, type_, n)}.valid" for n in underlying(type_).fields]
                return f"({' | '.join(parts) or '0'})"
            return f"({base}.valid != 0)"
        if info.name == "setValid":
            base = self.left(receiver)
            self._set_valid(base, type_)
            if isinstance(receiver, ast.Member) and is_union(receiver.base.type):
                self._only_valid(receiver, base)
            return None
        if info.name == "setInvalid":
            base = self.left(receiver)
            if is_union(type_):
                self.invalidate(base, type_)
            else:
                size = self._header_bytes(base, type_)
                self.out.append(
                    f"if ({base}.valid) {{ {base}.valid = 0; P->base.req.growth -= {size}; }}"
                )
            return None
        base = self.left(receiver)
        size, count = type_.size, info.arguments[0][1].const
        self._shift_stack(base, type_, size, min(count, size), info.name == "push_front")
        return None

    def _set_valid(self, base: str, type_) -> None:
        """As on BMv2: an invalid header becomes valid with all fields 0, and counts in the
        length that egress sees."""
        size = self._header_bytes(base, type_)
        self.out.append(
            f"if (!{base}.valid) {{ {base} = ({self.layout.c_type(type_)}){{0}};"
            f" {base}.valid = 1; P->base.req.growth += {size}; }}"
        )

    def _header_bytes(self, base: str, type_) -> str:
        """C expression of the bytes that a header takes in the packet now."""
        under = underlying(type_)
        bits = sum(width_of(t) or 0 for t in under.fields.values() if not isinstance(t, Varbit))
        parts = [str(bits // 8)]
        for name, t in under.fields.items():
            if isinstance(underlying(t), Varbit):
                parts.append(f"(int32_t)({self.part(base, under, name)}.bits / 8)")
        return " + ".join(parts) if len(parts) == 1 else f"({' + '.join(parts)})"

    def _shift_stack(self, base: str, type_: Stack, size: int, count: int, push: bool) -> None:
        if count == 0:
            return
        element = type_.element
        if push:
            for i in range(size - 1, count - 1, -1):
                self.out.append(f"{base}.e[{i}] = {base}.e[{i - count}];")
            for i in range(count):
                self.invalidate(f"{base}.e[{i}]", element)
            self.out.append(
                f"{base}.next = {base}.next + {count} > {size} ? {size} : {base}.next + {count};"
            )
        else:
            for i in range(size - count):
                self.out.append(f"{base}.e[{i}] = {base}.e[{i + count}];")
            for i in range(size - count, size):
                self.invalidate(f"{base}.e[{i}]", element)
            self.out.append(f"{base}.next = {base}.next > {count} ? {base}.next - {count} : 0;")

    def bind(self, arguments: list, may_alias: bool) -> tuple[list[str], dict]:
        """Give each parameter its C variable; returns the statements that copy results out, and
        the variables by id(parameter).

        `may_alias`: the callee can name the caller's variables itself (actions), so nothing is
        passed by reference except externs and packets."""
        copy_out: list[str] = []
        bound: dict = {}  # kept apart from env: an argument may call the same function
        roots = []
        for parameter, value in arguments:
            roots.append(self.root(value) if value is not None and parameter.direction else None)
        for i, (parameter, value) in enumerate(arguments):
            type_ = parameter.type
            if isinstance(type_, ExternType):
                self.env[id(parameter)] = self.env.get(id(getattr(value, "decl", None)), "")
                self.extern_arguments[id(parameter)] = value
                continue
            if value is not None and value.type == INT and isinstance(type_, Bits):
                value.type = type_
            actual = type_ if value is None else value.type
            name = f"{parameter.name}_{self.depth + 1}p"
            if value is None:
                self.out.append(f"{self.layout.c_type(actual)} {name} = {self.zero(actual)};")
                bound[id(parameter)] = name
                continue
            direct = parameter.direction and not may_alias and self.is_path(value)
            if direct and not self._overlaps(i, roots, arguments):
                text = self.left(value)
                if parameter.direction == "out":
                    self.invalidate(text, actual)
                bound[id(parameter)] = text
                continue
            c = self.layout.c_type(actual)
            if parameter.direction == "out":
                self.out.append(f"{c} {name} = {self.zero(actual)};")
            else:
                self.out.append(f"{c} {name} = {self.value(value)};")
            bound[id(parameter)] = name
            if parameter.direction in ("out", "inout"):
                self._index_first(value)
                outer, self.out = self.out, []
                self.store(value, name)
                copy_out += self.out
                self.out = outer
        return copy_out, bound

    @staticmethod
    def _overlaps(i: int, roots: list, arguments: list) -> bool:
        decl, path = roots[i]
        writes = arguments[i][0].direction in ("out", "inout")
        for j, other in enumerate(roots):
            if j == i or other is None or other[0] is not decl:
                continue
            if not writes and arguments[j][0].direction == "in":
                continue
            n = min(len(path), len(other[1]))
            if all(a == b or "*" in (a, b) for a, b in zip(path[:n], other[1][:n], strict=True)):
                return True
        return False

    def inline(self, arguments: list, may_alias: bool, write, returns: str | None = None) -> None:
        """Bind the arguments, write the callee by `write()`, copy results out; exits copy out
        too."""
        saved = (
            self.return_label,
            self.return_variable,
            self.exit_label,
            self.loop_labels,
            self.temps,
        )
        outer, self.out = self.out, []
        copy_out, bound = self.bind(arguments, may_alias)
        self.env.update(bound)
        self.depth += 1
        self.loop_labels = []
        self.return_label = self.fresh("done")
        self.return_variable = returns
        if copy_out and self.exit_label is not None:
            self.exit_label = self.fresh("leave")
        self.temps = 0
        write()
        done, leave = self.return_label, self.exit_label
        self.depth -= 1
        (
            self.return_label,
            self.return_variable,
            self.exit_label,
            self.loop_labels,
            self.temps,
        ) = saved
        if done in self.used_labels:
            self.out.append(f"{done}:;")
        self.out += copy_out
        if leave != self.exit_label and leave in self.used_labels:
            after = self.fresh("after")
            self.out.append(f"goto {after};")
            self.out.append(f"{leave}:;")
            self.out += copy_out
            self.out.append(self.goto(self.exit_label))
            self.out.append(f"{after}:;")
        made, self.out = self.out, outer
        self.out.append("{ " + "\n".join(made) + " }")

    def inline_action(self, decl: ast.Action, arguments: list) -> None:
        self.inline(arguments, True, lambda: self.out.extend(self.statements(decl.body.statements)))

    def _inline_function(self, e: ast.Call) -> str | None:
        info = e.call
        result = None
        if info.decl.type != VOID:
            result = self.temp(info.type, self.zero(info.type))
        body = info.decl.body.statements
        self.inline(info.arguments, False, lambda: self.out.extend(self.statements(body)), result)
        return result

    def _apply(self, e: ast.Call) -> None:
        info = e.call
        block = self._receiver_block(e)
        if isinstance(info.decl, ast.Parser):
            self.inline(info.arguments, False, lambda: self.parser_body(block))
        else:
            self.inline(info.arguments, False, lambda: self.control_body(block))

    def _receiver_block(self, e: ast.Call) -> BlockInstance:
        receiver = e.call.receiver
        if receiver is None or isinstance(receiver.type, Special):
            return self.instances.apply_direct(e.call.decl, self.block)
        block = self.find_extern(receiver)
        if not isinstance(block, BlockInstance):
            raise self.fatal(e.place, "this instance cannot be found")
        return block

    def find_extern(self, e):
        """The instance that a name or parameter stands for."""
        if isinstance(e, ast.Name):
            decl = e.decl
            if id(decl) in self.extern_arguments:
                return self.find_extern(self.extern_arguments[id(decl)])
            block = self.block
            while block is not None:
                if id(decl) in block.members:
                    return block.members[id(decl)]
                if id(decl) in block.values:
                    return block.values[id(decl)]
                block = self.block_parents.get(id(block))
            return self.instances.global_externs.get(id(decl))
        return None

    def control_body(self, block: BlockInstance) -> None:
        """The locals and the apply block of a control instance."""
        saved, self.block = self.block, block
        if block is not saved:
            self.block_parents[id(block)] = saved
        nodes = [d for d in block.decl.locals if isinstance(d, ast.Variable)]
        self.out += self.statements([*nodes, *block.decl.body.statements])
        self.block = saved

    # ---- tables ----

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
        self.current_entry = (entry, hit, number)
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


__all__ = ["StatementEmitter", "is_header"]
