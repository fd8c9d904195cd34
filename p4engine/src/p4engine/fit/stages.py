"""The longest chain of tables, arrays and operations, and what no order of stages can satisfy.

An array and a table are in one stage each. What an array's access needs (index, conditions, other
arrays' old values) must be there before that stage, so arrays that need each other's old values
are circular: each would have to come before the other. Where a chain goes through such a circle,
its arrays are read in one stage and written in a later one, which takes two accesses.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from p4engine.fit.accesses import Together, outside_of
from p4engine.fit.flow import Flow
from p4engine.fit.report import Limits
from p4engine.fit.values import COMPARISONS, LOGIC, RAN, Value
from p4engine.fit.ways import ACTION, Access, Application
from p4engine.frontend.diagnostics import Place
from p4engine.frontend.types import width_of
from p4engine.middle.instantiate import ExternInstance, TableInstance

Unit = ExternInstance | TableInstance | Access  # parts of a stage; an access by itself in a circle
ASSOCIATIVE = ("|", "&", "^", "+")
HALF_BITS = 32  # of an element, of which an ALU has two halves at hand
FREE = ("slice", "cast", "++", "index", "valid")  # parts of values, which the crossbar picks


@dataclass(frozen=True)
class Step:
    """A step of a chain; `stage` counts from 1."""

    stage: int
    text: str
    place: Place


@dataclass
class Circle:
    """Arrays and tables that need each other, in an order in which each needs the next."""

    units: list[ExternInstance | TableInstance]
    places: list[Place] = field(default_factory=list)


class Stages:
    """The stage of everything in the graph of a program."""

    def __init__(self, flow: Flow, together: Together, limits: Limits) -> None:
        self.flow, self.together, self.limits = flow, together, limits
        self._by_number: dict[int, Access | Application] = {}
        self._by_number |= {access.number: access for access in flow.accesses}
        self._by_number |= {use.number: use for use in flow.applications}
        self._split: set[Unit] = set()
        self._memo: dict[Value | Unit, int] = {}
        self._busy: set[Value | Unit] = set()
        self._before: dict[Value | Unit, Value | Unit | None] = {}
        self._outputs: dict[Value, Unit] = {}
        self._applications: dict[TableInstance, list[Application]] = {}
        for application in flow.applications:
            self._applications.setdefault(application.table, []).append(application)
        self._needs: dict[Unit, dict[Unit, Place]] = {}
        self.circles: list[Circle] = []
        self.partners: dict[ExternInstance, ExternInstance] = {}  # two halves of one element
        for circle in self._circles():
            if not self._pair(circle):
                self.circles.append(circle)
                self._split |= set(circle.units)
        for access in flow.accesses:
            if access.kind == "write" and access.value is not None and self.old_values(access):
                self._outputs.setdefault(access.value, self._unit(access))

    # ---- circles ----

    def _circles(self) -> list[Circle]:
        units: list[ExternInstance | TableInstance] = [*self.flow.groups, *self._applications]
        for unit in units:
            self._needs[unit] = self._direct(unit)
        return [self._circle(group) for group in _components(units, self._needs) if len(group) > 1]

    def _direct(self, unit: Unit) -> dict[Unit, Place]:
        """The arrays and tables whose stages must be before, with the place that needs them."""
        found: dict[Unit, Place] = {}
        roots: list[tuple[list[Value], Place]] = []
        if isinstance(unit, ExternInstance):
            for access in self.flow.groups[unit]:
                values = [access.index, *access.conditions]
                if access.value is not None:
                    values.append(access.value)
                roots.append((values, access.place))
        elif isinstance(unit, TableInstance):
            for use in self._applications[unit]:
                values = [*use.keys, *use.used, *use.conditions]
                roots.append((values, use.place))
        for values, place in roots:
            for value in self._up_to_units(values):
                owner = self._owner(value)
                if owner is not unit:
                    found.setdefault(owner, place)
        return found

    def _up_to_units(self, values: list[Value]) -> list[Value]:
        """The values from arrays and tables that these values are computed from."""
        seen: set[Value] = set()
        found, todo = [], list(values)
        while todo:
            value = todo.pop()
            if value in seen:
                continue
            seen.add(value)
            if value.kind in ("read", "hit", "action", "data"):
                found.append(value)
            else:
                todo += value.args
        return sorted(found, key=lambda v: v.number)

    def _owner(self, value: Value) -> Unit:
        number = value.data if isinstance(value.data, int) else value.data[0]  # type: ignore[index]
        found = self._by_number[number]
        return found.array if isinstance(found, Access) else found.table

    def _circle(self, group: list[Unit]) -> Circle:
        """A shortest circle through the first of a group whose members all need each other."""
        inside = set(group)
        best: list[Unit] = []
        for start in group:
            paths: list[list[Unit]] = [[start]]
            seen = {start}
            while paths:
                path = paths.pop(0)
                following = [u for u in self._needs[path[-1]] if u in inside]
                if start in following:
                    if not best or len(path) < len(best):
                        best = path
                    break
                for unit in following:
                    if unit not in seen:
                        seen.add(unit)
                        paths.append([*path, unit])
        made = Circle([u for u in group if not isinstance(u, Access)])
        first = [u for u in best if not isinstance(u, Access)]
        made.units = [*first, *(u for u in made.units if u not in first)]
        for i, unit in enumerate(first):
            made.places.append(self._needs[unit][first[(i + 1) % len(first)]])
        return made

    def _pair(self, circle: Circle) -> bool:
        """Two arrays that are always used at one index can be the halves of one array, whose ALU
        has both old values."""
        arrays = [u for u in circle.units if isinstance(u, ExternInstance)]
        if len(arrays) != 2 or len(circle.units) != 2 or {a.kind for a in arrays} != {"register"}:
            return False
        if any((width_of(a.type.arguments[0]) or 0) > HALF_BITS for a in arrays):
            return False
        accesses = [a for array in arrays for a in self.flow.groups[array]]
        if arrays[0].size != arrays[1].size or not self.one_index(accesses):
            return False
        one, other = arrays
        self.partners |= {one: other, other: one}
        return True

    def one_index(self, accesses: list[Access]) -> bool:
        """Do all that one packet can make go to one element?"""
        return all(
            self.together.join(one.guard, other.guard) is None
            or self.together.same_index(one, other)
            for i, one in enumerate(accesses)
            for other in accesses[:i]
        )

    # ---- stages ----

    def _unit(self, access: Access) -> Unit:
        return access if access.array in self._split else access.array

    def old_values(self, access: Access) -> set[Value | None]:
        """The old values that the ALU has at hand when it writes."""
        if access.array in self._split:
            return set()
        return {
            other.result
            for array in self._halves(access.array)
            for other in self.flow.groups[array]
            if other.kind in ("read", ACTION) and self.together.same_index(other, access)
        }

    def _halves(self, array: ExternInstance) -> list[ExternInstance]:
        partner = self.partners.get(array)
        return [array] if partner is None else [array, partner]

    def stage_of(self, unit: Unit) -> int:
        """The stage of an array, a table, or an access of an array that is in a circle."""
        if unit in self._memo:
            return self._memo[unit]
        if unit in self._busy:
            return 0
        self._busy.add(unit)
        best, before = 0, None
        for value, delay, at_once in self._inputs(unit):
            stage = (self._in_level(value) if at_once else self.level(value)) + delay
            if stage > best:
                best, before = stage, value
        self._busy.discard(unit)
        self._memo[unit], self._before[unit] = max(best, 1), before
        return self._memo[unit]

    def _inputs(self, unit: Unit) -> list[tuple[Value, int, bool]]:
        """The inputs that a unit's stage needs: the value, how many stages before, and
        whether a table's data can come from the same stage."""
        match, action = self.limits.match_delay, self.limits.action_delay
        found: list[tuple[Value, int, bool]] = []
        if isinstance(unit, TableInstance):
            for use in self._applications[unit]:
                found += [(key, match, False) for key in use.keys]
                found += [(c, match, False) for c in use.conditions]
                found += [(v, action, False) for v in use.used]
            return found
        if isinstance(unit, Access):
            accesses = [unit]
        else:
            accesses = [a for array in self._halves(unit) for a in self.flow.groups[array]]
        for access in accesses:
            found.append((access.index, match, True))
            if access.value is None:
                found += [(c, match, False) for c in access.conditions]
            else:
                outside = outside_of(access, self.old_values(access))
                found += [(v, action, True) for v in outside]
        return found

    def _in_level(self, value: Value) -> int:
        """Level of a value for a step that can use a table's data in the table's own stage; else as
        `level`."""
        if value.kind == "data":
            return self.level(value) - 1
        return self.level(value)

    def level(self, value: Value) -> int:
        """The stage after which a value is there; 0: it comes with the packet."""
        if value in self._memo:
            return self._memo[value]
        if value in self._busy:
            return 0
        self._busy.add(value)
        level, before = self._level(value)
        self._busy.discard(value)
        self._memo[value], self._before[value] = level, before
        return level

    def _level(self, value: Value) -> tuple[int, Value | Unit | None]:
        if value.kind in ("const", "input"):
            return 0, None
        if value in self._outputs:
            return self.stage_of(self._outputs[value]), self._outputs[value]
        if value.kind in ("read", "hit", "action", "data"):
            number = value.data if isinstance(value.data, int) else value.data[0]  # type: ignore[index]
            found = self._by_number[number]
            if isinstance(found, Access):
                unit = self._unit(found)
                return self.stage_of(unit), unit
            stage = self.stage_of(found.table)
            if value.kind == "data":
                return stage, found.table
            delay = self.limits.control_delay if value.kind == "hit" else 0
            return stage - 1 + delay, found.table
        action = self.limits.action_delay
        if value.kind == "choose":
            condition, yes, no = value.args
            found_levels = [(self.level(condition) + self.limits.match_delay, condition)]
            found_levels += [(self.level(v), v) for v in (yes, no)]
            return max(found_levels, key=lambda pair: pair[0])
        if value.kind == "extern":
            return self._latest(value.args, action)
        assert isinstance(value.data, str)
        if value.data in LOGIC or value.data in COMPARISONS or value.data.endswith("of parts"):
            # Gateways compare, which takes no stage; which of two numbers is larger, an ALU.
            ordered = value.data in ("<", ">", "<=", ">=")
            run_time = all(a.kind != "const" for a in value.args)
            args = [_masked(a) for a in value.args] if not ordered else value.args
            return self._latest(args, action if ordered and run_time else 0)
        if value.data == RAN:
            return self._latest(value.args, self.limits.control_delay)
        if value.data.startswith(FREE):
            return self._latest(value.args, 0)
        if value.data in ASSOCIATIVE:
            return self._balanced(value)
        return self._latest(value.args, action)

    def _latest(self, args: tuple[Value, ...] | list[Value], more: int) -> tuple[int, Value | None]:
        best: tuple[int, Value | None] = (more, None)
        for arg in args:
            level = (self._in_level(arg) if more else self.level(arg)) + more
            if level > best[0] or best[1] is None:
                best = (level, arg)
        return best

    def _balanced(self, value: Value) -> tuple[int, Value | None]:
        """a | b | c | ... in the order that takes the fewest stages."""
        parts = self._parts(value)
        if len(parts) == 1:
            return self._latest(parts, self.limits.action_delay)
        levels = sorted(self._in_level(p) for p in parts)
        while len(levels) > 1:
            joined = levels[1] + self.limits.action_delay
            levels = sorted([*levels[2:], joined])
        return levels[0], max(parts, key=self._in_level)

    def _parts(self, value: Value) -> list[Value]:
        """a, b, c, ... of a | b | c | ..., without constants."""
        parts: list[Value] = []
        todo = list(value.args)
        while todo:
            part = todo.pop()
            again = part.kind == "op" and part.data == value.data and part not in self._outputs
            if again and part.type == value.type:
                todo += part.args
            elif part.kind != "const":
                parts.append(part)
        return parts

    # ---- the longest chain ----

    def chain(
        self, accesses: list[Access], applications: list[Application], values: list[Value]
    ) -> list[Step]:
        """The longest chain to any of these, a step for each stage that computes something."""
        ends: list[Value | Unit] = [self._unit(a) for a in accesses]
        ends += [*(a.table for a in applications), *values]
        if not ends:
            return []
        last: Value | Unit | None = max(ends, key=self._of)
        steps: dict[int, Step] = {}  # of a stage, what is first in the chain
        while last is not None:
            stage = self._of(last)
            if stage > 0 and not _silent(last):
                steps[stage] = Step(stage, self._told(last), _place(last))
            last = self._before[last]
        return [steps[stage] for stage in sorted(steps)]

    def _of(self, what: Value | Unit) -> int:
        return self.level(what) if isinstance(what, Value) else self.stage_of(what)

    def _told(self, what: Value | Unit) -> str:
        if isinstance(what, TableInstance):
            return f"table {what.decl.name}"
        if isinstance(what, ExternInstance):
            return f"{what.kind} {short(what)}"
        if isinstance(what, Access):
            return f"{what.kind} of {what.array.kind} {short(what.array)}"
        if what.kind == "choose":
            return "decision"
        if what.kind == "extern":
            assert isinstance(what.data, tuple)
            return f"{what.data[0]}()"
        many = len(self._parts(what)) if what.data in ASSOCIATIVE else 0
        return f"operation {what.data}" + (f" of {many} values, as a tree" if many > 3 else "")


def _masked(value: Value) -> Value:
    """The value that a comparison reads: a match can leave bits out."""
    while value.kind == "op" and value.data == "&":
        rest = [a for a in value.args if a.kind != "const"]
        if len(rest) != 1:
            break
        value = rest[0]
    return value


def _silent(what: Value | Unit) -> bool:
    """True if this is only a name for the result of another step."""
    if not isinstance(what, Value):
        return False
    return what.kind not in ("op", "choose", "extern") or (
        what.kind == "op" and str(what.data).startswith((*FREE, RAN))
    )


def _place(what: Value | Unit) -> Place:
    return what.decl.place if isinstance(what, TableInstance) else what.place


def short(array: ExternInstance) -> str:
    """The array's name in its control."""
    return array.decl.name if array.decl is not None else array.name


def _components(
    units: list[ExternInstance | TableInstance], needs: dict[Unit, dict[Unit, Place]]
) -> list[list[Unit]]:
    """The groups of units that need each other, directly or not (Tarjan's algorithm)."""
    index: dict[Unit, int] = {}
    low: dict[Unit, int] = {}
    stack: list[Unit] = []
    found: list[list[Unit]] = []

    def visit(unit: Unit) -> None:
        index[unit] = low[unit] = len(index)
        stack.append(unit)
        for other in needs[unit]:
            if other not in index:
                visit(other)
                low[unit] = min(low[unit], low[other])
            elif other in stack:
                low[unit] = min(low[unit], index[other])
        if low[unit] == index[unit]:
            group = []
            while True:
                member = stack.pop()
                group.append(member)
                if member is unit:
                    break
            order = {u: i for i, u in enumerate(units)}
            found.append(sorted(group, key=lambda u: order[u]))  # type: ignore[index]

    for unit in units:
        if unit not in index:
            visit(unit)
    return found
