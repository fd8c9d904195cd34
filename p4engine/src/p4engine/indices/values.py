"""Values that a packet's way through a control computes, as a graph, and what is known of them.

A value is equal to another one if it is the same object: `Graph.make` gives one object for one
computation. So an index that is computed twice is one value, a copy of a field costs nothing, and
what a condition decides can be looked up by the condition.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field

from p4engine.frontend import ast, fold
from p4engine.frontend.diagnostics import NOWHERE, Place
from p4engine.frontend.types import BOOL, Type, underlying

MANY = 64  # a set of possible constants larger than this is not followed
NUMBERS = {"+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>", "|+|", "|-|"}
COMPARISONS = {"==", "!=", "<", ">", "<=", ">="}
NEGATED = {"<": ">=", ">=": "<", ">": "<=", "<=": ">"}
SWAPPED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
LOGIC = {"&&", "||", "!"}
RAN = "ran"  # the action that a table has run, as the control that applies it sees it


@dataclass(eq=False)
class Value:
    """One node of the graph.

    kind: "const" (`data` is the constant), "input" (of the packet; `data` is its name), "op"
    (`data` is the operator), "choose" (of a condition and two values), "read" (`data` is the number
    of the access), "hit", "action" and "data" (what a table gives; `data` is the number of its
    application), "extern" (`data` is the function and the number of its call).
    """

    kind: str
    data: Hashable
    args: tuple[Value, ...]
    type: Type
    place: Place
    number: int

    def constant(self, what: object) -> bool:
        """True if the value is this constant."""
        return self.kind == "const" and self.data == what


Guard = tuple[tuple[Value, bool], ...]  # conditions with what they must be, from the outside in
Choices = frozenset[Hashable] | None  # the constants that a value can be; None: not known


class Graph:
    """Makes values; computes constants and drops choices between equal values."""

    def __init__(self) -> None:
        self._known: dict[Hashable, Value] = {}

    def make(
        self,
        kind: str,
        data: Hashable,
        args: Iterable[Value] = (),
        type_: Type = BOOL,
        place: Place = NOWHERE,
    ) -> Value:
        """The value of that computation."""
        args = tuple(args)
        key = (kind, type(data), data, tuple(a.number for a in args), str(underlying(type_)))
        made = self._known.get(key)
        if made is None:
            made = Value(kind, data, args, type_, place, len(self._known))
            self._known[key] = made
        return made

    def const(self, what: Hashable, type_: Type = BOOL) -> Value:
        """A constant: int, bool, or Symbol."""
        return self.make("const", what, (), type_)

    def op(self, name: str, args: Iterable[Value], type_: Type, place: Place) -> Value:
        """An operator on values, computed where they are constants."""
        args = tuple(args)
        if all(a.kind == "const" for a in args):
            found = folded(name, [a.data for a in args], underlying(args[0].type))
            if found is not None:
                return self.const(found, type_)
        if name in ("&&", "||"):
            for one, other in (args, args[::-1]):
                if one.constant(name == "||"):
                    return one
                if one.constant(name == "&&"):
                    return other
        if name in ("|", "^", "+") and len(args) == 2:
            for one, other in (args, args[::-1]):
                if one.constant(0):
                    return other
        return self.make("op", name, args, type_, place)

    def choose(self, condition: Value, yes: Value, no: Value, place: Place) -> Value:
        """`yes` where the condition holds, else `no`."""
        if yes is no:
            return yes
        if condition.kind == "const":
            return yes if condition.data else no
        return self.make("choose", None, (condition, yes, no), yes.type, place)


def folded(name: str, known: list[Hashable], type_: Type) -> Hashable | None:
    """The constant that an operator gives on constants, the first of which has that type; None if
    that is not known."""
    try:
        if name == "!":
            return not known[0]
        if len(known) == 2 and (name in NUMBERS or name in COMPARISONS or name in LOGIC):
            if name in COMPARISONS and not all(isinstance(k, int) for k in known):
                return known[0] == known[1] if name == "==" else known[0] != known[1]
            return fold.binary(name, known[0], known[1], type_)  # type: ignore[arg-type,return-value]
        if len(known) == 1 and name in ("-", "~", "+"):
            return fold.unary(name, known[0], type_)  # type: ignore[arg-type,return-value]
    except fold.FoldError:
        return None
    return None


@dataclass
class Facts:
    """Facts where a guard holds: values that are some constant there.

    `possible` says whether anything can be there at all. `depth` is how many choices within choices
    are followed both ways, to learn what is so in either.
    """

    graph: Graph
    known: dict[Value, Hashable] = field(default_factory=dict)
    excluded: dict[Value, set[Hashable]] = field(default_factory=dict)
    possible: bool = True
    depth: int = 0
    _memo: dict[Value, Choices] = field(default_factory=dict)
    _resolved: dict[Value, Value] = field(default_factory=dict)

    def with_guard(self, guard: Guard) -> Facts:
        """These facts and those that follow from the conditions of a guard."""
        known, excluded = dict(self.known), {v: set(s) for v, s in self.excluded.items()}
        made = Facts(self.graph, known, excluded, self.possible, self.depth)
        for condition, holds in guard:
            made.learn(condition, holds)
        return made

    def learn(self, condition: Value, holds: bool) -> None:
        """A condition is found to hold, or not to."""
        truth = self.truth(condition)
        if truth is not None:
            self.possible &= truth == holds
            return
        self.known[condition] = holds
        self._memo.clear()
        if condition.kind == "choose":
            self._learn_equal(condition, holds)
        if condition.kind != "op":
            return
        if condition.data == "!":
            self.learn(condition.args[0], not holds)
        elif condition.data in ("&&", "||") and holds == (condition.data == "&&"):
            for each in condition.args:
                self.learn(each, holds)
        elif condition.data in SWAPPED:
            op, args, back = str(condition.data), condition.args, condition.args[::-1]
            opposite = NEGATED[op]
            others = (opposite, args, not holds), (SWAPPED[op], back, holds)
            for name, pair, what in (*others, (SWAPPED[opposite], back, not holds)):
                self.known[self.graph.op(name, pair, BOOL, condition.place)] = what
        elif condition.data in ("==", "!="):
            value, other = condition.args
            if value.kind == "const":
                value, other = other, value
            if other.kind == "const":
                if holds == (condition.data == "=="):
                    self._learn_equal(value, other.data)
                else:
                    self._learn_unequal(value, other.data)

    def _learn_equal(self, value: Value, constant: Hashable) -> None:
        if value.kind == "choose":
            condition, yes, no = value.args
            for chosen, other, holds in ((no, yes, False), (yes, no, True)):
                can_be = self.choices(other)
                if can_be is not None and constant not in can_be:
                    self.learn(condition, holds)
                    self._learn_equal(chosen, constant)
                    break
            else:
                self._learn_either(value, constant)
        if value.kind == "op" and value.data == RAN:
            self._learn_equal(value.args[0], constant)
        if value.kind != "const":
            self.known.setdefault(value, constant)
            self._memo.clear()

    def _learn_either(self, value: Value, constant: Hashable) -> None:
        """A choice is a constant, by either of its branches."""
        if self.depth:
            condition, yes, no = value.args
            ways = [self.with_guard(((condition, holds),)) for holds in (True, False)]
            for way, chosen in zip(ways, (yes, no), strict=True):
                way.depth -= 1
                way._learn_equal(chosen, constant)
            same = ways[0].known.items() & ways[1].known.items()
            self.known.update(same)

    def _learn_unequal(self, value: Value, constant: Hashable) -> None:
        self.excluded.setdefault(value, set()).add(constant)
        self._memo.clear()
        if value.kind == "op" and value.data == RAN:
            self._learn_unequal(value.args[0], constant)
        if value.kind == "choose":
            condition, yes, no = value.args
            for chosen, other, holds in ((yes, no, True), (no, yes, False)):
                if self.choices(other) == frozenset([constant]):
                    self.learn(condition, holds)
                    self._learn_unequal(chosen, constant)
                    break

    def truth(self, condition: Value) -> bool | None:
        """True if a condition holds, False if not; None if it can go either way."""
        can_be = self.choices(condition)
        if can_be is None or len(can_be) != 1:
            return None
        return bool(next(iter(can_be)))

    def choices(self, value: Value) -> Choices:
        """The constants that a value can be."""
        if value.kind == "const":
            return frozenset([value.data])
        if value in self.known:
            return frozenset([self.known[value]])
        if value not in self._memo:
            self._memo[value] = None  # a value without an end is not known
            found = self._choices(value)
            if found is not None and value in self.excluded:
                found = found - self.excluded[value]
            self._memo[value] = found
        return self._memo[value]

    def _choices(self, value: Value) -> Choices:
        if value.kind == "choose":
            condition, yes, no = value.args
            truth = self.truth(condition)
            if truth is not None:
                return self.choices(yes if truth else no)
            both = self.choices(yes), self.choices(no)
            if both[0] is None or both[1] is None:
                return None
            return both[0] | both[1]
        if value.kind != "op":
            return None
        if value.data == RAN:
            return self.choices(value.args[0])
        if value.data in LOGIC:
            return self._logic(value)
        if value.data in ("==", "!=") and any(a in self.excluded for a in value.args):
            for one, other in (value.args, value.args[::-1]):
                if other.kind == "const" and other.data in self.excluded.get(one, ()):
                    return frozenset([value.data == "!="])
        if value.data not in COMPARISONS | NUMBERS | {"-", "~"}:
            return None
        sets = [self.choices(a) for a in value.args]
        found: set[Hashable] = set()
        if any(s is None or len(s) > MANY for s in sets):
            return None
        first, *rest = sets
        assert first is not None
        type_ = underlying(value.args[0].type)
        for a in first:
            for b in rest[0] or () if rest else [None]:
                result = folded(str(value.data), [a, b] if rest else [a], type_)
                if result is None:
                    return None
                found.add(result)
        return frozenset(found) if len(found) <= MANY else None

    def _logic(self, value: Value) -> Choices:
        truths = [self.truth(a) for a in value.args]
        if value.data == "!":
            return None if truths[0] is None else frozenset([not truths[0]])
        short = value.data == "||"
        if short in truths:
            return frozenset([short])
        return frozenset([not short]) if None not in truths else None

    def resolved(self, value: Value) -> Value:
        """The value with every choice decided that these facts decide."""
        if not value.args or value.kind not in ("choose", "op"):
            return value
        if value not in self._resolved:
            self._resolved[value] = self._resolve(value)
        return self._resolved[value]

    def _resolve(self, value: Value) -> Value:
        if value.kind == "choose":
            truth = self.truth(value.args[0])
            if truth is not None:
                return self.resolved(value.args[1] if truth else value.args[2])
        args = [self.resolved(a) for a in value.args]
        if all(a is b for a, b in zip(args, value.args, strict=True)):
            return value
        if value.kind == "choose":
            return self.graph.choose(args[0], args[1], args[2], value.place)
        return self.graph.op(str(value.data), args, value.type, value.place)


def constant_of(what: ast.Const) -> Hashable:
    """A scalar constant of the tree as a constant of the graph."""
    assert isinstance(what, int | str | ast.Symbol)
    return what
