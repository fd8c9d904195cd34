"""Expressions and left values of a program as values of the graph."""

from __future__ import annotations

from p4engine.frontend import ast
from p4engine.frontend.diagnostics import Place
from p4engine.frontend.types import BOOL, Bits, Stack, Tuple, Type, is_header, underlying
from p4engine.indices.values import Value, constant_of
from p4engine.indices.ways import VALID, Key, Tree, Ways, constant_tree, leaves, members
from p4engine.middle.instantiate import TableInstance


class Expressions(Ways):
    """Computes expressions; calls are computed by `Calls`."""

    def call(self, e: ast.Call) -> Tree:
        """Follow a call; returns its result, which is empty if it has none."""
        raise NotImplementedError

    def _apply_table(self, e: ast.Call) -> tuple[int, TableInstance]:
        raise NotImplementedError

    # ---- left values ----

    def _place_of(self, e: ast.Expr) -> Key | None:
        """The variable's part that a left value is; None if an index decides at run time."""
        if isinstance(e, ast.Name):
            return id(e.decl), ()
        if isinstance(e, ast.Member):
            base = self._place_of(e.base)
            return None if base is None else (base[0], (*base[1], e.name))
        if isinstance(e, ast.Index):
            base, index = self._place_of(e.base), self.value(e.index)
            if base is None or index.kind != "const":
                return None
            if isinstance(underlying(e.base.type), Tuple):
                return base[0], (*base[1], str(index.data))
            return base[0], (*base[1], f"[{index.data}]")
        return None

    def _assign(self, left: ast.Expr, right: ast.Expr) -> None:
        self._store(left, self.tree(right, left.type), right.place)

    def _store(self, left: ast.Expr, tree: Tree, place: Place) -> None:
        if isinstance(left, ast.Slice):
            old = self.value(left.base)
            new = self.graph.op("splice", [old, tree[()]], left.base.type, place)
            self._store(left.base, {(): new}, place)
            return
        key = self._place_of(left)
        if key is not None:
            self._store_tree(key, tree)
            return
        chosen = left
        while not isinstance(chosen, ast.Index) or chosen.index.const is not None:
            if not isinstance(chosen, ast.Member | ast.Index):
                return
            chosen = chosen.base
        index, stack = self.value(chosen.index), underlying(chosen.base.type)
        whole = self._place_of(chosen.base)
        if whole is None or not isinstance(stack, Stack):
            return
        self._indexed("the header stack", stack.size, index, chosen.index.place)
        for i in range(stack.size):  # each may be the one
            here = self._compare("==", index, self.graph.const(i, index.type), place)
            for path, value in tree.items():
                part = (whole[0], (*whole[1], f"[{i}]", *path))
                if self._state is not None and part in self._state:
                    self._set(part, self.graph.choose(here, value, self._state[part], place))

    # ---- expressions ----

    def tree(self, e: ast.Expr, type_: Type) -> Tree:
        """The values of all parts of an expression of a type."""
        parts = leaves(type_)
        if len(parts) == 1 and parts[0][0] == ():
            return {(): self.value(e)}
        if isinstance(e, ast.InvalidHeader) or e.const == ast.INVALID_HEADER:
            return {(VALID,): self.graph.const(False)}
        if isinstance(e, ast.Cast):
            return self.tree(e.operand, type_)
        if isinstance(e, ast.ListExpr | ast.StructExpr):
            return self._literal(e, type_)
        if isinstance(e, ast.Ternary):
            condition = self.value(e.condition)
            yes, no = self.tree(e.yes, type_), self.tree(e.no, type_)
            return {p: self.graph.choose(condition, yes[p], no[p], e.place) for p in yes if p in no}
        if isinstance(e.const, list | dict):
            return constant_tree(self.graph, e.const, type_)
        key = self._place_of(e)
        if key is not None:
            return {path: self._get((key[0], (*key[1], *path)), t) for path, t in parts}
        found = self.call(e) if isinstance(e, ast.Call) else self._part(e)
        return {path: found.get(path) or self._undefined(t) for path, t in parts}

    def _part(self, e: ast.Expr) -> Tree:
        """A part of something that is no variable, or an element that is chosen at run time."""
        if isinstance(e, ast.Member):
            base = self.tree(e.base, e.base.type)
            return {path[1:]: v for path, v in base.items() if path[:1] == (e.name,)}
        if not isinstance(e, ast.Index):
            return {}
        whole = self.tree(e.base, e.base.type)
        index = self.value(e.index)
        if index.kind == "const":
            names = (f"[{index.data}]", str(index.data))
            return {path[1:]: v for path, v in whole.items() if path[0] in names}
        stack = underlying(e.base.type)
        if isinstance(stack, Stack):
            self._indexed("the header stack", stack.size, index, e.index.place)
        elements: dict[tuple[str, ...], list[Value]] = {}
        for path, value in whole.items():
            elements.setdefault(path[1:], [index]).append(value)
        return {
            path: self.graph.op("index", values, values[1].type, e.place)
            for path, values in elements.items()
        }

    def _literal(self, e: ast.ListExpr | ast.StructExpr, type_: Type) -> Tree:
        made: Tree = {(VALID,): self.graph.const(True)} if is_header(underlying(type_)) else {}
        names = members(type_)
        if isinstance(e, ast.StructExpr):
            given = dict(e.fields)
            items = [given.get(name) for name, _ in names]
        else:
            items = [*e.items, *[None] * len(names)]
        for (name, part), item in zip(names, items, strict=False):
            if item is None:
                made |= {(name, *p): self._undefined(t) for p, t in leaves(part)}
            else:
                made |= {(name, *p): v for p, v in self.tree(item, part).items()}
        return made

    def value(self, e: ast.Expr) -> Value:
        """The value of an expression of a scalar type."""
        if e.const is not None and not isinstance(e.const, list | dict):
            return self.graph.const(constant_of(e.const), e.type)
        if isinstance(e, ast.Name):
            known = None
            for block in self._blocks:
                found = block.values.get(id(e.decl))
                if isinstance(found, int | ast.Symbol):
                    known = found
            if known is not None:
                return self.graph.const(constant_of(known), e.type)
        if isinstance(e, ast.Member):
            return self._member(e)
        if isinstance(e, ast.Name | ast.Index):
            key = self._place_of(e)
            if key is not None:
                return self._get(key, e.type)
            return self._part(e).get(()) or self._undefined(e.type)
        if isinstance(e, ast.Slice):
            return self._slice(e)
        if isinstance(e, ast.Cast):
            return self._cast(self.value(e.operand), e.type, e.place)
        if isinstance(e, ast.Unary):
            if e.op == "+":
                return self.value(e.operand)
            return self.graph.op(e.op, [self.value(e.operand)], e.type, e.place)
        if isinstance(e, ast.Binary):
            return self._binary(e)
        if isinstance(e, ast.Ternary):
            condition = self.value(e.condition)
            return self.graph.choose(condition, self.value(e.yes), self.value(e.no), e.place)
        if isinstance(e, ast.Call):
            return self.call(e).get(()) or self._undefined(e.type)
        return self._undefined(e.type)

    def _slice(self, e: ast.Slice) -> Value:
        whole, high, low = self.value(e.base), e.high.known_number, e.low.known_number
        if whole.kind == "const" and isinstance(whole.data, int):
            return self.graph.const(whole.data >> low & ((1 << (high - low + 1)) - 1), e.type)
        return self.graph.op(f"slice {high}:{low}", [whole], e.type, e.place)

    def _cast(self, value: Value, type_: Type, place: Place) -> Value:
        under = underlying(type_)
        if value.kind == "const" and isinstance(value.data, int) and isinstance(under, Bits):
            return self.graph.const(under.wrap(int(value.data)), type_)
        if underlying(value.type) == under:
            return value
        return self.graph.op("cast", [value], type_, place)

    def _member(self, e: ast.Member) -> Value:
        if isinstance(e.base, ast.Call) and isinstance(e.base.call, ast.TableCall):
            number, _ = self._apply_table(e.base)
            hit = self.graph.make("hit", number, (), BOOL, e.place)
            return hit if e.name == "hit" else self.graph.op("!", [hit], BOOL, e.place)
        key = self._place_of(e)
        if key is None or e.name in ("lastIndex", "next", "last"):
            return self._part(e).get(()) or self._undefined(e.type)
        return self._get(key, e.type)

    def _binary(self, e: ast.Binary) -> Value:
        if e.op in ("==", "!="):
            parts = leaves(e.left.type)
            if len(parts) > 1 or parts[0][0] != ():
                one, other = (self.tree(x, e.left.type) for x in (e.left, e.right))
                values = [v for t in (one, other) for v in t.values()]
                return self.graph.op(e.op + " of parts", values, BOOL, e.place)
            return self._compare(e.op, self.value(e.left), self.value(e.right), e.place)
        left, right = self.value(e.left), self.value(e.right)
        if e.op in ("<", ">", "<=", ">="):
            return self._compare(e.op, left, right, e.place)
        return self.graph.op(e.op, [left, right], e.type, e.place)

    def _compare(self, op: str, left: Value, right: Value, place: Place) -> Value:
        if left is right and op in ("==", "!="):
            return self.graph.const(op == "==")
        return self.graph.op(op, [left, right], BOOL, place)
