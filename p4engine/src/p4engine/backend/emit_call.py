"""Calls to C, in place.

An action, function or control body stands where it is called, its parameters bound to the
caller's variables where no alias can be seen, else copied in and out. P4 has no recursion, so
this ends; and the C compiler sees one straight function per pipeline stage with plain local
variables.
"""

from __future__ import annotations

from p4engine.backend.emit_stmt import StatementEmitter
from p4engine.frontend import ast
from p4engine.frontend.types import (
    BOOL,
    INT,
    VOID,
    Bits,
    EnumType,
    ExternType,
    Special,
    Stack,
    Varbit,
    has_header,
    is_header,
    is_union,
    underlying,
    width_of,
)
from p4engine.middle.instantiate import BlockInstance


class CallEmitter(StatementEmitter):
    """Functions, actions, blocks, and the methods of headers and stacks."""

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
            self.set_valid(base, type_)
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

    def set_valid(self, base: str, type_) -> None:
        """As on BMv2: an invalid header becomes valid with all fields 0 (a varbit keeps its
        length), and counts in the length that egress sees."""
        under = underlying(type_)
        keep = [
            (self.fresh("bits"), f"{self.part(base, under, name)}.bits")
            for name, t in under.fields.items()
            if isinstance(underlying(t), Varbit)
        ]
        before = "".join(f"uint32_t {k} = {bits}; " for k, bits in keep)
        after = "".join(f" {bits} = {k};" for k, bits in keep)
        self.out.append(
            f"if (!{base}.valid) {{ {before}{base} = ({self.layout.c_type(type_)}){{0}};{after}"
            f" {base}.valid = 1; P->base.req.growth += {self._header_bytes(base, type_)}; }}"
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
            # A copy of an invalid header does not have its fields, so a header is always copied.
            by_copy = may_alias or (parameter.direction == "in" and is_header(actual))
            direct = parameter.direction and not by_copy and self.is_path(value)
            if direct and not self._overlaps(i, roots, arguments):
                text = self.left(value)
                if parameter.direction == "out":
                    self._clear(text, actual)
                bound[id(parameter)] = text
                continue
            if parameter.direction in ("out", "inout"):
                value = self.fixed(value)
            c = self.layout.c_type(actual)
            if parameter.direction == "out":
                self.out.append(f"{c} {name} = {self.zero(actual)};")
            elif has_header(actual):
                text = self.value(value)
                self.out.append(f"{c} {name} = {self.zero(actual)};")
                self.copy(name, text, actual)
            else:
                self.out.append(f"{c} {name} = {self.value(value)};")
            bound[id(parameter)] = name
            if parameter.direction in ("out", "inout"):
                outer, self.out = self.out, []
                self.store(value, name)
                copy_out += self.out
                self.out = outer
        return copy_out, bound

    def _clear(self, text: str, type_) -> None:
        """What a callee finds in an out parameter that is the caller's variable itself: numbers
        are 0, headers are invalid."""
        under = underlying(type_)
        if has_header(under):
            self.invalidate(text, type_)
        elif under == BOOL or isinstance(under, Bits | EnumType) and width_of(under) <= 128:
            self.out.append(f"{text} = 0;")

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
