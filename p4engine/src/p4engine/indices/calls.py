"""Calls: bodies are followed where they are called, a table may run any of its actions."""

from __future__ import annotations

from collections.abc import Sequence

from p4engine.frontend import ast
from p4engine.frontend.diagnostics import InternalError, Place
from p4engine.frontend.types import (
    BOOL,
    VOID,
    Bits,
    Composite,
    EnumType,
    Stack,
    Tuple,
    Type,
    is_union,
    underlying,
    width_of,
)
from p4engine.indices.expressions import Expressions
from p4engine.indices.values import Value
from p4engine.indices.ways import (
    ACTION,
    VALID,
    Access,
    Application,
    Back,
    Key,
    State,
    Tree,
    leaves,
    leaves_are_values,
)
from p4engine.middle.instantiate import BlockInstance, ExternInstance, TableInstance


class Calls(Expressions):
    """Follows calls; the statements of bodies are followed by `Flow`."""

    def _statements(self, nodes: Sequence[ast.Node]) -> None:
        raise NotImplementedError

    def _control(self, block: BlockInstance) -> None:
        decl = block.decl
        assert isinstance(decl, ast.Control)
        self._blocks.append(block)
        nodes = [d for d in decl.locals if isinstance(d, ast.Variable)]
        self._statements([*nodes, *decl.statements])
        self._blocks.pop()

    # ---- calls ----

    def call(self, e: ast.Call) -> Tree:
        """Follow a call; returns its result, which is empty if it has none."""
        info = e.call
        if isinstance(info, ast.BuiltinCall):
            return self._builtin(info)
        if isinstance(info, ast.FunctionCall):
            statements = info.decl.statements
            bound = self._bind(info.arguments)
            return self._body(lambda: self._statements(statements), bound)
        if isinstance(info, ast.ActionCall):
            bound = self._bind(info.arguments)
            action = info.decl
            self._body(lambda: self._statements(action.body.statements), bound)
        elif isinstance(info, ast.TableCall):
            self._apply_table(e)
        elif isinstance(info, ast.BlockCall):
            self._apply_block(info)
        elif isinstance(info, ast.MethodCall):
            return self._method(info, e.place)
        elif isinstance(info, ast.ExternCall):
            return self._extern(info, e.place)
        return {}

    def _bind(self, arguments: ast.Bound) -> list[tuple[ast.Parameter, ast.Expr]]:
        """Give parameters their values; returns those whose values go back."""
        back = []
        trees: list[tuple[ast.Parameter, Tree]] = []
        externs: dict[int, ast.Expr | None] = {}
        for parameter, value in arguments:
            if value is None or parameter.direction == "out":
                nothing = {p: self._undefined(t) for p, t in leaves(parameter.type)}
                trees.append((parameter, nothing))
            elif not leaves(parameter.type):
                continue
            elif width_of(parameter.type) is None and not leaves_are_values(parameter.type):
                externs[id(parameter)] = value
                continue
            else:
                trees.append((parameter, self.tree(value, parameter.type)))
            if value is not None and parameter.direction in ("out", "inout"):
                back.append((parameter, value))
        for parameter, tree in trees:  # now, as an argument may call the same function
            self._store_tree((id(parameter), ()), tree)
        self._extern_arguments |= externs
        return back

    def _copy_out(self, back: Back) -> None:
        if self._state is None:
            return
        for parameter, value in back:
            tree = {path: self._get((id(parameter), path), t) for path, t in leaves(parameter.type)}
            self._store(value, tree, value.place)

    def _apply_block(self, info: ast.BlockCall) -> None:
        if info.receiver is None:
            block = self.instances.apply_direct(info, self._blocks[-1])
        else:
            found = self._instance(info.receiver)
            assert isinstance(found, BlockInstance)
            block = found
        values = [value for _, value in info.arguments]
        back = self._bind(list(zip(block.decl.parameters, values, strict=False)))
        self._body(lambda: self._control(block), back)

    def _builtin(self, info: ast.BuiltinCall) -> Tree:
        receiver = info.receiver
        key = self._place_of(receiver)
        if info.name == "isValid":
            if is_union(receiver.type) or key is None:
                tree = self.tree(receiver, receiver.type)
                flags = [v for p, v in tree.items() if p[-1] == VALID]
                return {(): self.graph.op("valid", flags, BOOL, info.place)}
            return {(): self._get((key[0], (*key[1], VALID)), BOOL)}
        if info.name in ("setValid", "setInvalid") and key is not None:
            valid = self.graph.const(info.name == "setValid")
            self._set((key[0], (*key[1], VALID)), valid)
        elif info.name in ("push_front", "pop_front") and key is not None:
            self._shift(key, receiver.type, info)
        return {}

    def _shift(self, key: Key, type_: Type, info: ast.BuiltinCall) -> None:
        stack = underlying(type_)
        count = self.value(info.count) if info.count is not None else None
        if not isinstance(stack, Stack) or count is None or not isinstance(count.data, int):
            return
        by = count.data if info.name == "push_front" else -count.data
        old = {
            (i, path): self._get((key[0], (*key[1], f"[{i}]", *path)), t)
            for i in range(stack.size)
            for path, t in leaves(stack.element)
        }
        for i in range(stack.size):
            for path, t in leaves(stack.element):
                new = old.get((i - by, path))
                if new is None:
                    new = self.graph.const(False) if path[-1:] == (VALID,) else self._undefined(t)
                self._set((key[0], (*key[1], f"[{i}]", *path)), new)

    def _instance(self, e: ast.Expr | None) -> object:
        while isinstance(e, ast.Name) and id(e.decl) in self._extern_arguments:
            e = self._extern_arguments[id(e.decl)]
        if not isinstance(e, ast.Name):
            return None
        for block in reversed(self._blocks):
            for known in (block.members, block.values):
                if id(e.decl) in known:
                    return known[id(e.decl)]
        return self.instances.global_externs.get(id(e.decl))

    # ---- tables ----

    def _taken(self, number: int) -> Value:
        """Action that an application ran, as a value."""
        return self.graph.make("action", number, (), Bits(32))

    def _apply_table(self, e: ast.Call) -> tuple[int, TableInstance]:
        info = e.call
        assert isinstance(info, ast.TableCall)
        table = self._blocks[-1].members.get(id(info.decl))
        if not isinstance(table, TableInstance):
            raise InternalError(f"table {info.decl.name} has no instance")
        keys = []
        for key in table.keys:
            keys += list(self.tree(key.value, key.value.type).values())
        number = self._count()
        self.applications.append(Application(table, keys, number))
        before = self._state
        assert before is not None
        taken = self._taken(number)
        ends: list[tuple[Value, State | None]] = []
        for i, action in enumerate(table.actions):
            here = self.graph.op("==", [taken, self.graph.const(i, Bits(32))], BOOL, e.place)
            self._state = dict(before)
            if len(table.actions) == 1:
                self._run_action(number, action.decl, action.binding)
            else:
                with self._where(here, True):
                    self._run_action(number, action.decl, action.binding)
            ends.append((here, self._state))
        if ends:
            self._state = ends[-1][1]
            for here, state in reversed(ends[:-1]):
                self._state = self._merge(here, state, self._state)
        return number, table

    def _run_action(self, number: int, decl: ast.Action, binding: ast.Bound) -> None:
        bound = self._bind([(p, v) for p, v in binding if v is not None])
        for parameter, value in binding:
            if value is None:
                for path, type_ in leaves(parameter.type):
                    name = ".".join((decl.name, parameter.name, *path))
                    data = self.graph.make("data", (number, name), (), type_, parameter.place)
                    self._set((id(parameter), path), data)
        self._body(lambda: self._statements(decl.body.statements), bound)

    # ---- externs ----

    def _method(self, info: ast.MethodCall, place: Place) -> Tree:
        array = self._instance(info.receiver)
        arguments = [v for _, v in info.arguments]
        name = info.decl.name
        if isinstance(array, ExternInstance) and "apply" in array.bodies and name == "execute":
            return self._register_action(array, info, place)
        if not isinstance(array, ExternInstance) or array.kind.startswith("direct"):
            for value in arguments:  # a direct meter's result comes with the table's entry
                if value is not None and name == "read":
                    self._store(value, {(): self._undefined(value.type)}, place)
            return {}
        if array.kind == "register" and name == "read" and info.type != VOID:
            if not arguments or arguments[0] is None:  # a parameter of the control plane
                return self._computed(info, place)
            access = self._access(array, "read", arguments[0], place)
            return {(): self.graph.make("read", access.number, (), info.type, place)}
        if array.kind == "register" and name == "read":
            target, index = arguments
            assert index is not None
            access = self._access(array, "read", index, place)
            if target is not None:  # `_`: nobody uses what is read
                found = self.graph.make("read", access.number, (), target.type, place)
                self._store(target, {(): found}, place)
        elif array.kind == "register" and name == "write":
            at, new = arguments
            assert at is not None and new is not None
            access = self._access(array, "write", at, place)
            access.value = self.value(new)
        elif array.kind in ("counter", "meter"):
            at = arguments[0]
            assert at is not None
            access = self._access(array, "count", at, place)
            if info.type != VOID:
                return {(): self.graph.make("read", access.number, (), info.type, place)}
            if array.kind == "meter" and arguments[1] is not None:
                target = arguments[1]
                found = self.graph.make("read", access.number, (), target.type, place)
                self._store(target, {(): found}, place)

        else:
            return self._computed(info, place)
        return {}

    def _register_action(self, action: ExternInstance, info: ast.MethodCall, place: Place) -> Tree:
        """One access that reads an element, runs the body that the program gives it, and writes:
        its results can be anything."""
        register = action.arguments.get("reg")
        index = info.arguments[0][1] if info.arguments else None
        if not isinstance(register, ExternInstance) or index is None:  # that of a table's entry
            return self._computed(info, place)
        apply = action.bodies["apply"]
        results = apply.parameters[1:]
        access = self._access(register, ACTION, index, place)
        for parameter in apply.parameters:
            nothing = {p: self._undefined(t) for p, t in leaves(parameter.type)}
            self._store_tree((id(parameter), ()), nothing)
        self._body(lambda: self._statements(apply.statements))
        return {
            path: self.graph.make("read", access.number, (), type_, place)
            for result in results
            for path, type_ in leaves(result.type)
        }

    def _access(self, array: ExternInstance, kind: str, index: ast.Expr, place: Place) -> Access:
        at, number = self.value(index), self._count()
        made = Access(array, kind, self._guard, number)
        self.accesses.append(made)
        self._indexed(f"{array.kind} {array.name.rpartition('.')[2]}", array.size, at, index.place)
        return made

    def _inputs(self, info: ast.ExternCall) -> list[Value]:
        """The values that a call hands over."""
        inputs: list[Value] = []
        for parameter, value in info.arguments:
            if value is None or parameter.direction == "out":
                continue
            under = underlying(value.type)
            if isinstance(under, Bits | Composite | Tuple | EnumType) or under == BOOL:
                inputs += self.tree(value, value.type).values()
        return inputs

    def _computed(self, info: ast.ExternCall, place: Place) -> Tree:
        """The result of a call that only computes something."""
        inputs, number = self._inputs(info), self._count()
        data = (info.decl.name, number)
        return {
            path: self.graph.make("extern", data, inputs, type_, place)
            for path, type_ in (leaves(info.type) if info.type != VOID else [])
        }

    def _extern(self, info: ast.ExternCall, place: Place) -> Tree:
        if info.type not in (VOID, BOOL):
            return self._computed(info, place)
        name = info.decl.name
        inputs = self._inputs(info)
        number = self._count()
        for parameter, value in info.arguments:
            if value is None or parameter.direction not in ("out", "inout"):
                continue
            if name == "mark_to_drop":
                self._drop(self._place_of(value))
                continue
            made = self.graph.make("extern", (name, number), inputs, value.type, place)
            if leaves(value.type) == [((), value.type)]:
                self._store(value, {(): made}, place)
        return {}

    def _drop(self, key: Key | None) -> None:
        for part, constant in (("egress_spec", 511), ("mcast_grp", 0)):
            at = (key[0], (*key[1], part)) if key is not None else None
            if at is not None and self._state is not None and at in self._state:
                self._set(at, self.graph.const(constant, self._state[at].type))
