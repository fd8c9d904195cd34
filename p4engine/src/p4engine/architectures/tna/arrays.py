"""Registers with their actions, counters and meters of TNA to C."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from p4engine.architectures.tna.accesses import Accesses
from p4engine.architectures.tna.declarations import pipes_of
from p4engine.backend.c_text import zero
from p4engine.backend.emit_architecture import Parts
from p4engine.backend.emit_expr import has_effect
from p4engine.frontend import ast
from p4engine.frontend.types import VOID, Bits, Composite, Type, underlying, width_of
from p4engine.middle.instantiate import ExternInstance

COLOURS = (0, 1, 3)  # green, yellow and red, where the program names no others
RED = 3  # MeterColor_t.RED
ORDERED = ("enqueue", "dequeue", "push", "pop")
GROUP_SIZE = 120  # of selectors that are not told how many members a group has


class ArrayEmitter:
    """Emitter of externs with numbered elements. `functions` has the externs' C by their P4
    names."""

    def __init__(self, parts: Parts, accesses: Accesses) -> None:
        self.context, self.left, self.expressions = parts.context, parts.left, parts.expressions
        self.composites, self.inline = parts.composites, parts.stages.inline
        self.accesses = accesses
        self.pipes = pipes_of(parts.context.checker)
        self.functions: dict[str, Callable[..., str | None]] = {
            "Register.read": self._read,
            "Register.write": self._write,
            "Register.clear": self._clear,
            "RegisterParam.read": self._parameter,
            "SelectorAction.execute": self._execute_selector,
            "DirectRegister.read": self._read_direct,
            "DirectRegister.write": self._write_direct,
            "Counter.count": self._count,
            "DirectCounter.count": self._count_direct,
            "Meter.execute": self._meter,
            "DirectMeter.execute": self._direct_meter,
        }
        for results in ("", "2", "3", "4"):
            self.functions |= {
                f"RegisterAction{results}.execute": self._execute,
                f"RegisterAction{results}.execute_log": self._execute_log,
                **{f"RegisterAction{results}.{name}": self._put_or_take for name in ORDERED},
                f"RegisterAction{results}.sweep": self._sweep,
                f"RegisterAction{results}.predicate": self._predicate,
                f"DirectRegisterAction{results}.execute": self._execute_direct,
                f"DirectRegisterAction{results}.predicate": self._predicate,
            }

    # ---- registers ----

    def index(self, index: ast.Expr) -> str:
        """C of an index that can be written several times."""
        text = self.expressions.small(index)
        if has_effect(index) or "(" in text:
            return self.context.temp_c("uint64_t", text)
        return text

    def cell(self, register: ExternInstance, at: str) -> tuple[str, str]:
        """(C lvalue of an element, C condition that there is such an element)."""
        group, member, _, _, _ = self.context.records.access[register.number]
        self.context.used_records.add(group)
        size, place = register.size, at
        if register.type.decl.name == "Register" and self.pipes > 1:
            size //= self.pipes
            port = "ingress_port" if self.context.gress.startswith("P->i") else "egress_port"
            pipe = f"(P->base.std.{port} >> 7) % {self.pipes}"
            place = self.context.temp_c("uint64_t", f"{at} + (uint64_t)({pipe}) * {size}")
        return f"R{group}[{place}].{member}", f"P4_IN({at}, {size})"

    def _load(self, register: ExternInstance, cell: str, inside: str) -> str:
        """A C variable with the value of an element, 0 where there is none."""
        type_ = register.type.arguments[0]
        under = underlying(type_)
        if not isinstance(under, Composite):
            return self.context.temp(type_, f"{inside} ? {cell} : 0")
        total = width_of(under) or 0
        raw = self.context.temp(Bits(total), f"{inside} ? {cell} : 0")
        name = self.context.temp(type_, zero(type_))
        low = total
        for text, leaf in self.composites.leaves(name, type_):
            width = width_of(leaf) or 0
            low -= width
            c_type = self.context.layout.c_type(leaf)
            mask = (1 << width) - 1
            self.context.out.append(f"{text} = ({c_type})({raw} >> {low} & {mask}ull);")
        return name

    def _packed(self, register: ExternInstance, name: str) -> str:
        """C expression of the element that holds the value of the C variable `name`."""
        type_ = register.type.arguments[0]
        if not isinstance(underlying(type_), Composite):
            return name
        c_type = self.context.layout.c_type(Bits(width_of(type_) or 0))
        low = width_of(type_) or 0
        texts = []
        for text, leaf in self.composites.leaves(name, type_):
            low -= width_of(leaf) or 0
            texts.append(f"({c_type})(({c_type}){text} << {low})")
        return " | ".join(texts)

    def _read(self, call: ast.MethodCall, index: ast.Expr) -> str:
        register = self.context.extern(call)
        at = self.index(index)
        self.accesses.check(register, call.place)
        return self._load(register, *self.cell(register, at))

    def _write(self, call: ast.MethodCall, index: ast.Expr, value: ast.Expr) -> str:
        register = self.context.extern(call)
        type_ = register.type.arguments[0]
        at = self.index(index)
        text = self.composites.stable(self.expressions.value(value), type_)
        self.accesses.check(register, call.place)
        cell, inside = self.cell(register, at)
        self.context.out.append(f"if ({inside}) {cell} = {self._packed(register, text)};")
        return text

    def _clear(self, call: ast.MethodCall, value: ast.Expr, busy: ast.Expr | None = None) -> None:
        """All elements at once; so nobody sees that the register is busy."""
        register = self.context.extern(call)
        type_ = register.type.arguments[0]
        text = self.composites.stable(self.expressions.value(value), type_)
        self.accesses.check(register, call.place)
        size, at = register.size // self.pipes, self.context.fresh("i")
        with self.context.capture() as made:
            cell, _ = self.cell(register, at)
            made.append(f"{cell} = {self._packed(register, text)};")
        loop = f"for (uint64_t {at} = 0; {at} < {size}; {at}++)"
        self.context.out.append(f"{loop} {{ {' '.join(made)} }}")

    def _execute(
        self, call: ast.MethodCall, index: ast.Expr | None = None, *more: ast.Expr | None
    ) -> str | None:
        """One read-modify-write. Beyond the register's end nothing is changed, and the action sees
        0."""
        action = self.context.extern(call)
        register = action.arguments["reg"]
        assert isinstance(register, ExternInstance)
        if index is None:
            raise self.context.fatal(call.place, "execute needs an index")
        at = self.index(index)
        self.accesses.check(register, call.place)
        return self._run(call, action, register, *self.cell(register, at), more)

    def _execute_log(self, call: ast.MethodCall, *more: ast.Expr | None) -> str | None:
        """The same at an index that is one more each time; behind the last element comes the
        first."""
        action = self.context.extern(call)
        register = action.arguments["reg"]
        assert isinstance(register, ExternInstance)
        self.accesses.check(register, call.place)
        own, size = self._position(register, "next"), register.size // self.pipes
        at = self.context.temp_c("uint64_t", f"{own} < {size} ? {own} : 0")
        self.context.out.append(f"{own} = (uint32_t)({at} + 1);")
        return self._run(call, action, register, *self.cell(register, at), more)

    def _position(self, register: ExternInstance, name: str) -> str:
        """C lvalue of a place that the register knows (POSITIONS)."""
        kept = register.arguments[name]
        assert isinstance(kept, ExternInstance)
        return self.cell(kept, "0")[0]

    def _put_or_take(self, call: ast.MethodCall, *more: ast.Expr | None) -> str | None:
        """The register as a queue (enqueue, dequeue) or a stack (push, pop). Where it is full or
        empty, the action's overflow or underflow is run instead, on no element."""
        context, name = self.context, call.decl.name
        action = context.extern(call)
        register = action.arguments["reg"]
        assert isinstance(register, ExternInstance)
        self.accesses.check(register, call.place)
        size, takes = register.size // self.pipes, name in ("dequeue", "pop")
        count = self._position(register, "count")
        inside = context.temp_c("uint8_t", f"{count} > 0" if takes else f"{count} < {size}")
        place = count if name == "push" else f"{count} - 1"
        if name in ("enqueue", "dequeue"):
            first = self._position(register, "first")
            place = first if takes else f"((uint64_t){first} + {count}) % {size}"
        at = context.temp_c("uint64_t", f"{inside} ? {place} : 0")
        change = f"{count}{'--' if takes else '++'};"
        if name == "dequeue":
            change += f" {first} = (uint32_t)(({at} + 1) % {size});"
        context.out.append(f"if ({inside}) {{ {change} }}")
        otherwise = action.bodies.get("underflow" if takes else "overflow")
        cell = f"({inside} && {at} < {size})"
        return self._run(call, action, register, self.cell(register, at)[0], cell, more, otherwise)

    def _sweep(self, call: ast.MethodCall, busy: ast.Expr | None = None) -> None:
        """On all elements (of the pipe) at once; so nobody sees that the register is busy."""
        action = self.context.extern(call)
        register = action.arguments["reg"]
        assert isinstance(register, ExternInstance)
        self.accesses.check(register, call.place)
        size, at = register.size // self.pipes, self.context.fresh("i")
        with self.context.capture() as made:
            self._run(call, action, register, self.cell(register, at)[0], "1")
        loop = f"for (uint64_t {at} = 0; {at} < {size}; {at}++)"
        self.context.out.append(f"{loop} {{ " + "\n".join(made) + " }")

    def _run(
        self,
        call: ast.MethodCall,
        action: ExternInstance,
        register: ExternInstance,
        cell: str,
        inside: str,
        given: Sequence[ast.Expr | None] = (),
        otherwise: ast.Function | None = None,
    ) -> str | None:
        """The action on the element that is the C lvalue `cell`, if `inside`; `given` are where its
        results go that stand behind the one returned. What is run instead, if not `inside`:
        `otherwise`, or (None) the same on the value 0."""
        context, more = self.context, [each for each in given if each is not None]
        value = self._load(register, cell, inside)
        result = None if call.type == VOID else context.temp(call.type, zero(call.type))
        others = [context.temp(each.type, zero(each.type)) for each in more]
        known = [
            (register.type.arguments[0], value),
            *([(call.type, result)] if result is not None else []),
            *zip((each.type for each in more), others, strict=True),
        ]
        bodies = [self._body(call, action.bodies["apply"], known)]
        if otherwise is not None:
            bodies.append(self._body(call, otherwise, known))
            context.out.append(f"if ({inside}) {bodies[0]} else {bodies[1]}")
        else:
            context.out.append(bodies[0])
        packed = self._packed(register, value)
        context.out.append(f"if ({inside}) {cell} = {packed};")
        for target, text in zip(more, others, strict=True):
            self.left.store(target, text)
        return result

    def _body(
        self, call: ast.MethodCall, method: ast.Function, known: list[tuple[Type, str]]
    ) -> str:
        """C of what the program gives an abstract method; `known` are type and C variable of its
        first arguments, others are results that nobody takes."""
        context = self.context
        with context.capture() as made:
            arguments: ast.Bound = []
            for i, parameter in enumerate(method.parameters):
                type_, text = known[i] if i < len(known) else (parameter.type, "")
                text = text or context.temp(type_, zero(type_))
                variable = context.variable(call.place, parameter.name, type_, text)
                arguments.append((parameter, variable))

            def write() -> None:
                context.out += self.inline.statements.statements(method.statements)

            self.inline.body(arguments, write)
        return "{ " + "\n".join(made) + " }"

    def _predicate(self, call: ast.MethodCall, *conditions: ast.Expr | None) -> str:
        """One bit of four (or of 16): the one whose number has a bit for each condition that
        holds."""
        if not isinstance(call.receiver, ast.Name) or call.receiver.name != "this":
            raise self.context.fatal(
                call.place, "predicate is for an action's own method: this.predicate(...)"
            )
        width, bits = width_of(call.type) or 0, 1 << len(call.decl.parameters)
        if not isinstance(underlying(call.type), Bits) or width < bits:
            raise self.context.fatal(call.place, f"predicate gives {bits} bits, not {call.type}")
        given = [(i, e) for i, e in enumerate(conditions) if e is not None]
        texts = self.expressions.in_order([e for _, e in given])
        number = " | ".join(
            f"(uint32_t)!!({t}) << {i}" for (i, _), t in zip(given, texts, strict=True)
        )
        return self.context.temp(call.type, f"1u << ({number or '0'})")

    def _execute_selector(self, call: ast.MethodCall, index: ast.Expr | None = None) -> str | None:
        """On the bit of a member of a selector's groups."""
        action = self.context.extern(call)
        register = action.arguments["reg"]
        if not isinstance(register, ExternInstance):
            raise self.context.fatal(
                action.place, f"the selector of {action.name} must be made with a Register"
            )
        if index is None:
            raise self.context.fatal(call.place, "SelectorAction.execute needs an index here")
        at = self.index(index)
        self.accesses.check(register, call.place)
        return self._run(call, action, register, *self.cell(register, at))

    def alive(self, selector: ExternInstance) -> str:
        """C of which members of a selector's groups are there (p4_alive); empty: all are."""
        register = selector.arguments.get("reg")
        if not isinstance(register, ExternInstance):
            return ""
        cell, _ = self.cell(register, "0")
        group = self.context.records.access[register.number][0]
        most, mode = selector.arguments.get("max_group_size"), selector.arguments["mode"]
        assert isinstance(mode, ast.Symbol)
        return (
            f"&(p4_alive){{ &{cell}, sizeof *R{group}, {register.size // self.pipes},"
            f" {most if isinstance(most, int) else GROUP_SIZE}, {int(mode.name == 'FAIR')} }}"
        )

    def _parameter(self, call: ast.MethodCall) -> str:
        register = self.context.extern(call)
        return self._load(register, *self.cell(register, "0"))

    def _direct_cell(self, call: ast.MethodCall) -> str:
        """The C lvalue of the number of the entry whose action is written."""
        applied = self.context.applied
        if applied is None:
            raise self.context.fatal(
                call.place, "a direct register can only be used in an action of its table"
            )
        return f"(*p4_direct_number(&I->tables[{applied.table}], {applied.entry}))"

    def _execute_direct(self, call: ast.MethodCall, *more: ast.Expr | None) -> str | None:
        action = self.context.extern(call)
        register = action.arguments["reg"]
        assert isinstance(register, ExternInstance)
        return self._run(call, action, register, self._direct_cell(call), "1", more)

    def _read_direct(self, call: ast.MethodCall) -> str:
        return self._load(self.context.extern(call), self._direct_cell(call), "1")

    def _write_direct(self, call: ast.MethodCall, value: ast.Expr) -> str:
        register, cell = self.context.extern(call), self._direct_cell(call)
        type_ = register.type.arguments[0]
        text = self.composites.stable(self.expressions.value(value), type_)
        self.context.out.append(f"{cell} = {self._packed(register, text)};")
        return text

    # ---- counters and meters ----

    def _bytes(self, adjust: ast.Expr | None) -> str:
        """C expression of the packet's length, less what a call takes off."""
        if adjust is None:
            return "P->base.length"
        return f"P->base.length - (uint32_t)({self.expressions.small(adjust)})"

    def _count(self, call: ast.MethodCall, index: ast.Expr, adjust: ast.Expr | None = None) -> None:
        counter, at = self.context.extern(call), self.expressions.small(index)
        self.context.out.append(
            f"p4_counter_add(&I->counters[{counter.number}], {at}, {self._bytes(adjust)});"
        )

    def _count_direct(self, call: ast.MethodCall, adjust: ast.Expr | None = None) -> None:
        applied = self.context.applied
        if applied is None:
            raise self.context.fatal(
                call.place, "a direct counter can only count in an action of its table"
            )
        table = f"&I->tables[{applied.table}]"
        self.context.out.append(
            f"p4_direct_count({table}, {applied.entry}, {self._bytes(adjust)});"
        )

    def _colour(self, meter: ExternInstance, run: str, colour: ast.Expr | None) -> str:
        """A C variable with what a meter says of this packet; one that came red stays red."""
        number = self.context.temp_c("uint32_t", run)
        if colour is not None:
            came = self.context.temp_c("uint32_t", self.expressions.small(colour))
            worst = f"{came} >= {RED} ? 2 : {came}"
            self.context.out.append(f"if ({number} < ({worst})) {number} = {worst};")
        names = [meter.arguments.get(name) for name in ("green", "yellow", "red")]
        given = [n if isinstance(n, int) else c for n, c in zip(names, COLOURS, strict=True)]
        text = f"(uint8_t)({number} == 0 ? {given[0]} : {number} == 1 ? {given[1]} : {given[2]})"
        return self.context.temp_c("uint8_t", text)

    def _meter(self, call: ast.MethodCall, index: ast.Expr, *more: ast.Expr | None) -> str:
        colour, adjust = _colour_and_bytes(call)
        meter, at = self.context.extern(call), self.expressions.small(index)
        run = (
            f"p4_meter_run(&I->meters[{meter.number}], {at}, {self._bytes(adjust)}, P->base.now_ns)"
        )
        return self._colour(meter, run, colour)

    def _direct_meter(self, call: ast.MethodCall, *more: ast.Expr | None) -> str:
        colour, adjust = _colour_and_bytes(call)
        applied = self.context.applied
        if applied is None:
            raise self.context.fatal(
                call.place, "a direct meter can only be executed in an action of its table"
            )
        table = f"&I->tables[{applied.table}]"
        run = (
            f"p4_direct_meter_run({table}, {applied.entry}, {self._bytes(adjust)}, P->base.now_ns)"
        )
        return self._colour(self.context.extern(call), f"{applied.hit} ? {run} : 0", colour)


def _colour_and_bytes(call: ast.MethodCall) -> tuple[ast.Expr | None, ast.Expr | None]:
    """Arguments of a meter's call about the colour that came, and about bytes to leave out."""
    given = {parameter.name: value for parameter, value in call.arguments}
    return given.get("color"), given.get("adjust_byte_count")
