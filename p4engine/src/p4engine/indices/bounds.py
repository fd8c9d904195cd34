"""Indices that a packet can take out of their array: `p4engine compile --warn-index`.

In this switch such an access does nothing, but BMv2 may end at it, so any host could end the switch
with one packet. The pass asks how large a packet can make each index of a register, counter, meter
or header stack under the conditions of its place. The graph of values makes that easy: a copy is
the same value, and a variable that was set in a branch is a choice, which these conditions may
decide. Only what packets make of a value is compared. What the control plane chooses (data of
entries, a key that an exact entry has matched, a register that no packet writes) counts as right,
and so does a mask or limit that it chooses. docs/language.md has the rules.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import reduce

from p4engine.frontend.diagnostics import Diagnostic
from p4engine.frontend.types import BOOL, Bits, Type, underlying, width_of
from p4engine.indices.flow import Flow
from p4engine.indices.values import Facts, Guard, Value
from p4engine.indices.ways import ACTION
from p4engine.middle.instantiate import ExternInstance
from p4engine.middle.load import deep, load

DEPTH = 6  # choices within choices of which each branch is looked at under its own condition
ROUNDS = 3  # after which a register that packets make larger and larger can have any value
COLORS = 3  # the largest result of a meter


@dataclass(frozen=True)
class Range:
    """Range of a value under all packets: low .. high, as an unsigned number. `chosen`: or
    something that the control plane has chosen."""

    low: int
    high: int
    chosen: bool = False

    def __or__(self, other: Range) -> Range:
        high, chosen = max(self.high, other.high), self.chosen or other.chosen
        return Range(min(self.low, other.low), high, chosen)


CHOSEN = Range(0, 0, True)


def full(type_: Type) -> Range:
    """Any value of a type."""
    return Range(0, (1 << (width_of(type_) or 1)) - 1)


def is_signed(type_: Type) -> bool:
    """True if the type has negative numbers."""
    under = underlying(type_)
    return isinstance(under, Bits) and under.signed


class Bounds:
    """The ranges of values in the program that `flow` has followed."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.arrays = {access.number: access.array for access in flow.accesses}
        self.applications = {a.number: a for a in flow.applications}
        self._places: dict[Guard, _Place] = {}
        self._contents: dict[ExternInstance, Range] = {}
        self._open: list[ExternInstance] = []  # registers whose contents are being worked out
        self._fixed: dict[Value, bool] = {}

    def at(self, guard: Guard) -> _Place:
        """The place of these conditions."""
        if guard not in self._places:
            facts = Facts(self.flow.graph, depth=DEPTH).with_guard(guard)
            self._places[guard] = _Place(self, facts, 0)
        return self._places[guard]

    def content(self, array: ExternInstance, type_: Type) -> Range:
        """Range of the values that packets can have written into an array."""
        if array.kind == "meter":
            return Range(0, COLORS)
        uses = self.flow.groups[array]
        # An array's own unit can give anything. Of two registers that feed each other, each is
        # worked out by itself.
        if array in self._open[:-1] or any(use.kind == ACTION for use in uses):
            return full(type_)
        if array in self._open or array in self._contents:
            return self._contents[array]
        self._open.append(array)
        found = CHOSEN
        for _ in range(ROUNDS):
            self._contents[array] = found
            self._places.clear()
            for use in uses:
                if use.value is not None:
                    found |= self.at(use.guard).range(use.value)
            if found == self._contents[array]:
                break
        else:
            self._contents[array] = full(type_)
        self._open.pop()
        self._places.clear()
        return self._contents[array]

    def fixed(self, value: Value) -> bool:
        """True if the control plane has chosen a value, alone or with constants."""
        if value not in self._fixed:
            free = [each for each in value.args if each.kind != "const"]
            made = value.kind == "op" and bool(free) and all(map(self.fixed, free))
            self._fixed[value] = made or value.kind == "data"
        return self._fixed[value]


class _Place:
    """Knowledge at one place. `below` has, for a value, those that it is less than (with 1) or
    not more than (with 0), `above` those that it is more or not less than."""

    def __init__(self, bounds: Bounds, facts: Facts, depth: int) -> None:
        self.bounds, self.facts, self.depth = bounds, facts, depth
        self.below: dict[Value, list[tuple[Value, int]]] = {}
        self.above: dict[Value, list[tuple[Value, int]]] = {}
        self.keys: set[Value] = set()  # that an exact entry has matched
        self._memo: dict[Value, Range] = {}
        for value, what in list(facts.known.items()):
            if value.kind in ("action", "hit"):
                self._applied(value, what)
        for value, what in facts.known.items():
            if value.kind == "op" and value.data in ("<", "<=", "==") and what is True:
                small, large = map(facts.resolved, value.args)
                self._compared(value.data == "<", small, large)
                if value.data == "==":
                    self._compared(False, large, small)

    def _compared(self, strict: bool, small: Value, large: Value) -> None:
        if isinstance(underlying(small.type), Bits) and not is_signed(small.type):
            self.above.setdefault(large, []).append((small, strict))
            self.below.setdefault(small, []).append((large, strict))
            if small.kind == "op" and small.data == "cast":  # what is wider is as large
                self._compared(strict, small.args[0], large)

    def _applied(self, value: Value, what: object) -> None:
        """A table has run an action, or has hit: was it an entry's? An entry with the action of a
        miss counts as one that is not there."""
        application = self.bounds.applications[value.data]  # type: ignore[index]
        table = application.table
        others = [i for i, a in enumerate(table.actions) if a.decl is not table.default.decl]
        if what not in others if value.kind == "action" else what is not True:
            return
        if value.kind == "hit" and len(others) == 1:
            graph, type_ = self.facts.graph, Bits(32)
            ran = [graph.make("action", value.data, (), type_), graph.const(others[0], type_)]
            self.facts.learn(graph.op("==", ran, BOOL, value.place), True)
        pairs = zip(table.keys, application.keys, strict=False)
        if len(table.keys) == len(application.keys):
            self.keys |= {found for key, found in pairs if key.kind == "exact"}

    def range(self, value: Value) -> Range:
        """Range of a value here under all packets."""
        value = self.facts.resolved(value)
        if value not in self._memo:
            self._memo[value] = full(value.type)  # a comparison with itself tells nothing
            self._memo[value] = self._limited(value)
        return self._memo[value]

    def _limited(self, value: Value) -> Range:
        any_ = full(value.type)
        choices = self.facts.choices(value)
        numbers = [c & any_.high for c in choices or () if isinstance(c, int)]
        if choices and len(numbers) == len(choices):
            return Range(min(numbers), max(numbers))
        if value in self.keys or self.bounds.fixed(value):
            return CHOSEN
        found = self._computed(value) or any_
        if found.high > any_.high:  # it may wrap
            found = any_
        for other, strict in self.below.get(value, []):
            limit = self.range(other)
            high = min(found.high, max(limit.high - strict, 0))
            found = Range(min(found.low, high), high, found.chosen or limit.chosen)
        for other, strict in self.above.get(value, []):
            limit = self.range(other)
            if not limit.chosen and found.low < limit.low + strict <= found.high:
                found = replace(found, low=limit.low + strict)
        return found

    def _computed(self, value: Value) -> Range | None:
        """The range of what a value is computed from, which may be wider than its type; None: not
        known."""
        if value.kind == "choose":
            condition, *both = value.args
            places = [self, self]
            if self.depth < DEPTH:
                known = (self.facts.with_guard(((condition, holds),)) for holds in (True, False))
                places = [_Place(self.bounds, facts, self.depth + 1) for facts in known]
            ways = [p.range(v) for p, v in zip(places, both, strict=True) if p.facts.possible]
            return reduce(Range.__or__, ways) if ways else None
        if value.kind == "read":
            array = self.bounds.arrays.get(value.data)  # type: ignore[call-overload]
            return None if array is None else self.bounds.content(array, value.type)
        if is_signed(value.type) or not value.args:
            return None
        ranges = [self.range(each) for each in value.args]
        if value.kind == "extern":
            assert isinstance(value.data, tuple)
            return _of_extern(value.data[0], ranges)
        if len(ranges) == 2 and value.data == "-":
            return self._difference(value.args[0], value.args[1], ranges[0], ranges[1])
        return _of_operator(str(value.data), value.args, ranges)

    def _difference(self, left: Value, right: Value, a: Range, b: Range) -> Range | None:
        """left - right, where it is known that it does not become negative."""
        if left.kind == "op" and left.data == "+" and right in left.args:
            return self.range(left.args[1 - left.args.index(right)])
        if any(large is left for large, _ in self.below.get(right, [])):
            return Range(0, max(a.high - (0 if b.chosen else b.low), 0), a.chosen)
        if b.chosen or a.low < b.high:
            return None
        return Range(a.low - b.high, a.high - b.low, a.chosen)


def _of_extern(name: str, ranges: list[Range]) -> Range | None:
    """Range of a v1model function's result, from its arguments."""
    if name == "hash" and len(ranges) > 3:  # algorithm, base, data, number of values
        base, number = ranges[1], ranges[-1]
        high = base.high + max(number.high - 1, 0)
        return Range(base.low, high, base.chosen or number.chosen)
    if name == "random" and len(ranges) == 2:
        return ranges[0] | ranges[1]
    return None


def _of_operator(op: str, args: tuple[Value, ...], ranges: list[Range]) -> Range | None:
    """Range of an operator's result, without its wrapping around."""
    a, b = ranges[0], ranges[-1]
    chosen = any(each.chosen for each in ranges)
    number = args[-1].data if args[-1].kind == "const" else None
    if op == "cast":
        return None if is_signed(args[0].type) else a
    if op.startswith("slice "):
        high, low = map(int, op[len("slice ") :].split(":"))
        whole = a.high < 1 << high + 1
        return Range(a.low >> low if whole else 0, min(a.high, (2 << high) - 1) >> low, chosen)
    if op == "index":
        return reduce(Range.__or__, ranges[1:])
    if op in ("+", "|+|", "++"):  # ++: as if the left operand stood before so many zeros
        by = (width_of(args[1].type) or 0) if op == "++" else 0
        return Range((a.low << by) + b.low, (a.high << by) + b.high, chosen)
    if op == "*" and (not chosen or isinstance(number, int)):
        return Range(a.low * b.low, a.high * b.high, chosen)
    if op == "&":
        return Range(0, min(a.high, b.high), chosen)
    if op in ("|", "^"):
        bits = max(a.high, b.high).bit_length()
        return Range(0, min(a.high + b.high, (1 << bits) - 1), chosen)
    if op == "%":
        return Range(0, min(a.high, max(b.high - 1, 0)), chosen)
    if op == "<<" and isinstance(number, int):
        return Range(a.low << number, a.high << number, chosen)
    if op in (">>", "/", "|-|"):
        by = number if op == ">>" and isinstance(number, int) else 0
        return Range(0, a.high >> by, chosen)
    return None


def index_warnings(
    path: str | os.PathLike[str],
    defines: Mapping[str, str | int] | None = None,
    include_dirs: Iterable[str | os.PathLike[str]] = (),
) -> list[Diagnostic]:
    """A warning for each index that a packet can take out of its array; arguments as of
    `compile_program`. Raises P4Error."""
    instances, diagnostics = load(path, defines, include_dirs)
    before, flow = len(diagnostics.warnings), Flow(instances)
    with deep():
        for name, block in instances.blocks.items():
            if name.partition("_")[0] in instances.architecture.controls.values():
                flow.block(block)
        bounds = Bounds(flow)
        for use in flow.indices:
            here = bounds.at(use.guard)
            high = here.range(use.index).high
            if use.size and high >= use.size and here.facts.possible:
                diagnostics.warning(
                    use.place,
                    f"a packet can make this index {high}, but the last element of {use.name} is"
                    f" {use.size - 1}: mask the index, or compare it with the size first",
                )
    for place, text in flow.loops.items():
        diagnostics.warning(place, f"the indices in {text} are not looked at")
    return sorted(diagnostics.warnings[before:], key=lambda d: (d.file, d.line, d.column))
