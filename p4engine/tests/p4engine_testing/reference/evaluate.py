"""Programs of `tree` on Python's integers, by the words of the specification.

bit<W> is kept in 0..2^W-1, int<W> in two's complement range, bool as 0 or 1, an enum's member as
its number. A struct is a dict, a tuple or array a list. A header is a dict of its fields with
"valid", a varbit (bits, bytes). `Machine` keeps what outlives a packet: registers and counters.
"""

from __future__ import annotations

from collections.abc import Callable

from .tree import BOOL, Instance, Program, Routine, Table, bits_of

VARIABLE = [("n", ("bit", 8)), ("d", ("varbit", 64))]


class Undefined(Exception):
    """The specification does not say what happens."""


class _Exit(Exception):
    pass


class _Return(Exception):
    def __init__(self, value: int | None):
        self.value = value


class _Break(Exception):
    pass


class _Continue(Exception):
    pass


class _ParserError(Exception):
    pass


def wrap(t: tuple, value: int) -> int:
    """`value` in the type, the upper bits cut off."""
    if t == BOOL:
        return int(bool(value))
    if t[0] == "enum":
        return value
    value %= 1 << t[1]
    if t[0] == "int" and value >= 1 << (t[1] - 1):
        value -= 1 << t[1]
    return value


def raw(t: tuple, value: int) -> int:
    """The bits of a value as an unsigned number."""
    return value % (1 << bits_of(t))


def default(t: tuple) -> object:
    """The default value of a type."""
    if t[0] == "struct":
        return {f: default(inner) for f, inner in t[2]}
    if t[0] == "tuple":
        return [default(inner) for inner in t[1]]
    if t[0] == "array":
        return [default(t[1]) for _ in range(t[2])]
    return 0


def copied(value: object) -> object:
    if isinstance(value, dict):
        return {k: copied(v) for k, v in value.items()}
    return [copied(v) for v in value] if isinstance(value, list) else value


def saturate(t: tuple, value: int) -> int:
    low, high = (0, (1 << t[1]) - 1) if t[0] == "bit" else (-(1 << (t[1] - 1)), (1 << (t[1] - 1)) - 1)  # fmt: skip  # noqa: E501
    return min(max(value, low), high)


class Machine:
    """Runs one program; `packet` gives what leaves."""

    def __init__(self, program: Program):
        self.program = program
        self.registers = {n: [0] * size for n, (_, size) in program.registers.items()}
        self.counters = {n: [[0, 0] for _ in range(size)] for n, size in program.counters.items()}
        controls = program.controls
        actions = [*program.actions, *(a for c in controls for a in c.actions)]
        self.routines = {r.name: r for r in [*program.functions, *actions]}
        self.functions = {r.name for r in program.functions}
        self.tables = {
            t.name: t for t in [*program.tables, *(t for c in controls for t in c.tables)]
        }
        self.instances = {i.name: i for i in program.control_instances}

    def packet(self, data: bytes) -> list[tuple[int, bytes]]:
        """[(port, bytes)] for a packet; raises Undefined."""
        p = self.program
        self.headers = {f"hdr.{h}": self._empty(t) for h, t in p.instances.items()}
        for u in p.unions:
            self.headers |= {f"hdr.{u}.x": self._empty("b_t"), f"hdr.{u}.y": self._empty("e_t")}
        name, size, kind = p.stack
        self.stack = [self._empty(kind) for _ in range(size)]
        self.next = 0
        self.frames: list[dict] = [{"standard.egress_spec": 0, "^": None}]
        self.frames[0] |= {f"meta.{n}": 0 for _, n in p.metadata}
        self.error = "NoError"
        self.data, self.at = data, 0
        try:
            self._parse()
        except _ParserError as error:
            self.error = str(error)
        payload = data[self.at :]
        try:
            for t, n, e in p.variables:
                self.frames[0][n] = wrap(t, self.value(e))
            for t, n in p.composites:
                self.frames[0][n] = default(t)
            self.frames[0]["standard.egress_spec"] = 1
            self.block(p.apply)
        except (_Exit, _Return):
            pass
        port = self.frames[0]["standard.egress_spec"]
        if port == 511:
            return []
        self.frames[0]["standard.egress_spec"] = 0
        try:
            self.block(p.egress)
        except (_Exit, _Return):
            pass
        if self.frames[0]["standard.egress_spec"] == 511:
            return []
        out = b""
        names = [*p.instances, *(f"{u}.{m}" for u in p.unions for m in "xy")]
        for h in [self.headers[f"hdr.{n}"] for n in names] + self.stack:
            if h["valid"]:
                out += self._bytes(h)
        return [(port, out + payload)]

    # ---- headers ----

    def _empty(self, kind: str) -> dict:
        if kind == "v_t":
            return {"valid": False, "type": kind, "n": 0, "d": (0, b"")}
        return {"valid": False, "type": kind} | {f: 0 for f, _ in self.program.types[kind]}

    def _bytes(self, h: dict) -> bytes:
        if h["type"] == "v_t":
            return bytes([h["n"]]) + h["d"][1]
        value = width = 0
        for f, t in self.program.types[h["type"]]:
            bits = bits_of(t)
            value, width = value << bits | raw(t, h[f]), width + bits
        return value.to_bytes(width // 8, "big")

    def header(self, name: str | tuple) -> dict:
        if isinstance(name, tuple):
            return self.stack[self.value(name[1])]
        if name.startswith("hdr.s["):
            return self.stack[int(name[6:-1])]
        return self.headers[name]

    def _alone(self, name: str | tuple) -> None:
        """If a member of a union is valid now, the other one is not."""
        if isinstance(name, str) and name.count(".") == 2 and self.header(name)["valid"]:
            other = name[:-1] + ("y" if name[-1] == "x" else "x")
            self.header(other)["valid"] = False

    def _equal(self, a: dict, b: dict) -> bool:
        if not (a["valid"] and b["valid"]):
            return a["valid"] == b["valid"]
        return a == b

    def _bits(self, h: dict) -> int:
        return sum(bits_of(t) for _, t in self.program.types[h["type"]])

    # ---- parser ----

    def _parse(self) -> None:
        states = {s.name: s for s in self.program.states}
        name = "start"
        while name not in ("accept", "reject"):
            state = states[name]
            for step in state.steps:
                if step[0] == "extract":
                    self._extract(step[1])
                elif step[0] == "variable":
                    self._extract_variable(self.header(step[1]))
                elif step[0] == "parser":
                    try:
                        self._extract(step[1])
                    except _ParserError:  # is what a rejecting sub-parser did copied out?
                        raise Undefined from None
                elif step[0] == "verify":
                    if not self.value(step[1]):
                        raise _ParserError(step[2])
                elif step[0] == "advance":
                    self._need(step[1])
                    self.at += step[1] // 8
                else:
                    self.statement(step)
            if not state.keys:
                name = state.cases[0][1]
                continue
            values = [self.value(k) for k in state.keys]
            for labels, target in state.cases:
                if labels is None or all(map(self._fits, labels, values)):
                    name = target
                    break
            else:
                return  # no error for this on BMv2

    @staticmethod
    def _fits(label: tuple, value: int) -> bool:
        if label[0] == "any":
            return True
        if label[0] == "set":
            return False  # nothing is in it until somebody puts it there
        if label[0] == "is":
            return value == label[1]
        if label[0] == "mask":
            return value & label[2] == label[1] & label[2]
        return label[1] <= value <= label[2]

    def _need(self, bits: int) -> None:
        if len(self.data) * 8 - self.at * 8 < bits:
            raise _ParserError("PacketTooShort")

    def _extract(self, name: str) -> None:
        if name == "next":
            if self.next >= len(self.stack):
                raise _ParserError("StackOutOfBounds")
            h = self.stack[self.next]
        else:
            h = self.header(name)
        bits = self._bits(h)
        self._need(bits)
        value = int.from_bytes(self.data[self.at : self.at + bits // 8], "big")
        self.at += bits // 8
        for f, t in self.program.types[h["type"]]:
            width = bits_of(t)
            bits -= width
            h[f] = wrap(t, value >> bits & (1 << width) - 1)
        h["valid"] = True
        self._alone(name)
        if name == "next":
            self.next += 1

    def _extract_variable(self, h: dict) -> None:
        self._need(8)
        bits = (self.data[self.at] & 15) * 8
        self._need(8 + bits)
        if bits > VARIABLE[1][1][1]:
            raise _ParserError("HeaderTooShort")
        end = self.at + 1 + bits // 8
        h |= {"valid": True, "n": self.data[self.at], "d": (bits, self.data[self.at + 1 : end])}
        self.at = end

    def _look(self, t: tuple, name: str) -> int:
        bits = sum(bits_of(inner) for _, inner in t[2])
        self._need(bits)
        size = (bits + 7) // 8
        value = int.from_bytes(self.data[self.at : self.at + size], "big") >> (8 * size - bits)
        for f, inner in t[2]:
            bits -= bits_of(inner)
            if f == name:
                return wrap(inner, value >> bits & (1 << bits_of(inner)) - 1)
        raise AssertionError(name)

    # ---- expressions ----

    def value(self, e: tuple) -> int:
        kind, t = e[0], e[1]
        if kind == "const":
            return e[2]
        if kind == "var":
            return self._frame(e[2])[e[2]]
        if kind == "part":
            container, key = self._part(e)
            return container[key]
        if kind == "field":
            if e[2] == "hdr.s.last":
                return self.stack[self.next - 1][e[3]]
            h = self.header(e[2])
            if not h["valid"]:
                raise Undefined
            return h[e[3]]
        if kind == "un":
            a = self.value(e[3])
            return int(not a) if e[2] == "!" else wrap(t, -a if e[2] == "-" else ~a)
        if kind == "bin":
            return self._binary(e)
        if kind == "cast":
            return wrap(t, self.value(e[2]))
        if kind == "slice":
            return raw(e[2][1], self.value(e[2])) >> e[4] & (1 << (e[3] - e[4] + 1)) - 1
        if kind == "tern":
            return self.value(e[3] if self.value(e[2]) else e[4])
        if kind == "call":
            return self.call(self.routines[e[2]], e[3])
        if kind == "pick":
            condition, yes, no = map(self.value, e[2:5])
            return yes if condition else no
        if kind == "valid":
            if isinstance(e[2], str) and e[2] in [f"hdr.{u}" for u in self.program.unions]:
                return int(any(self.header(f"{e[2]}.{m}")["valid"] for m in "xy"))
            return int(self.header(e[2])["valid"])
        if kind == "same":
            return int(self._frame(e[2])[e[2]] == self._frame(e[3])[e[3]])
        if kind == "equal":
            return int(self._equal(self.header(e[2]), self.header(e[3])))
        if kind == "look":
            return self._look(e[2], e[3])
        if kind == "error":
            return int(self.error == e[2])
        raise AssertionError(kind)

    def _part(self, e: tuple) -> tuple:
        """(container, key) of a scalar in a composite variable."""
        container = self._frame(e[2])[e[2]]
        *way, last = [self.value(k[1]) if isinstance(k, tuple) else k for k in e[3]]
        for key in way:
            container = container[key]
        return container, last

    def _binary(self, e: tuple) -> int:
        _, t, op, left, right = e
        a = self.value(left)
        if op == "&&":
            return int(a and self.value(right))
        if op == "||":
            return int(a or self.value(right))
        return self._operate(t, op, left[1], right[1], a, self.value(right))

    def _operate(self, t: tuple, op: str, left: tuple, right: tuple, a: int, b: int) -> int:
        if op in ("==", "!=", "<", ">", "<=", ">="):
            return int(
                {"==": a == b, "!=": a != b, "<": a < b, ">": a > b, "<=": a <= b, ">=": a >= b}[op]
            )
        if op == "|+|":
            return saturate(t, a + b)
        if op == "|-|":
            return saturate(t, a - b)
        if op == "++":
            return wrap(t, raw(left, a) << right[1] | raw(right, b))
        if op == "<<":
            return wrap(t, a << b)
        if op == ">>":
            return wrap(t, a >> b)
        result = {
            "+": lambda: a + b,
            "-": lambda: a - b,
            "*": lambda: a * b,
            "/": lambda: a // b,
            "%": lambda: a % b,
            "&": lambda: a & b,
            "|": lambda: a | b,
            "^": lambda: a ^ b,
        }[op]()
        return wrap(t, result)

    def _frame(self, name: str) -> dict:
        frame: dict | None = self.frames[-1]
        while frame is not None and name not in frame:
            frame = frame["^"]
        assert frame is not None, name
        return frame

    # ---- statements ----

    def assign(self, left: tuple, value: int) -> None:
        if left[0] == "slice":
            inner = left[2]
            try:
                old = raw(inner[1], self.value(inner))
            except Undefined:
                raise
            ones = (1 << (left[3] - left[4] + 1)) - 1
            new = old & ~(ones << left[4]) | (value & ones) << left[4]
            self.assign(inner, wrap(inner[1], new))
        elif left[0] == "field":
            h = self.header(left[2])
            if not h["valid"]:
                return  # a write to an invalid header has no effect that could be seen
            h[left[3]] = value
        elif left[0] == "part":
            container, key = self._part(left)
            container[key] = value
        else:
            self._frame(left[2])[left[2]] = value

    def block(self, statements: list) -> None:
        for s in statements:
            self.statement(s)

    def statement(self, s: tuple) -> None:
        kind = s[0]
        if kind == "set":
            self.assign(s[1], self.value(s[2]))
        elif kind == "update":
            old = self.value(s[1])
            new = self._operate(s[1][1], s[2], s[1][1], s[3][1], old, self.value(s[3]))
            self.assign(s[1], new)
        elif kind == "make":
            self._frame(s[1])[s[1]] = self._composite(s[2], s[3], s[4])
        elif kind == "whole":
            self._frame(s[1])[s[1]] = copied(self._frame(s[2])[s[2]])
        elif kind == "if":
            self.block(s[2] if self.value(s[1]) else s[3])
        elif kind == "switch":
            value = self.value(s[1])
            self.block(next((b for values, b in s[2] if value in values), s[3]))
        elif kind == "apply":
            self.apply(self.tables[s[1]])
        elif kind == "hit":
            hit, _ = self.apply(self.tables[s[1]])
            self.block(s[2] if hit else s[3])
        elif kind == "run":
            _, action = self.apply(self.tables[s[1]])
            self.block(next((b for names, b in s[2] if action in names), s[3]))
        elif kind == "action":
            self.call(self.routines[s[1]], s[2])
        elif kind == "setValid":
            h = self.header(s[1])
            if not h["valid"]:
                h.update(self._empty(h["type"]), valid=True)
            self._alone(s[1])
        elif kind == "setInvalid":
            self.header(s[1])["valid"] = False
        elif kind == "copy":
            self.header(s[1]).update(self.header(s[2]))
            self._alone(s[1])
        elif kind == "union":
            for member in "xy":
                self.header(f"{s[1]}.{member}").update(self.header(f"{s[2]}.{member}"))
        elif kind == "exit":
            raise _Exit
        elif kind == "break":
            raise _Break
        elif kind == "continue":
            raise _Continue
        elif kind == "count":
            index = self.value(s[2])
            if index < len(self.counters[s[1]]):
                counter = self.counters[s[1]][index]
                counter[0] += 1
                counter[1] += len(self.data)
        elif kind == "control":
            self._control(self.instances[s[1]], s[2])
        elif kind == "inner":
            inner = self._frame("$")["$"].inner
            self._control(self.instances[inner] if isinstance(inner, str) else inner, s[1])
        elif kind == "return":
            raise _Return(self.value(s[1]) if s[1] is not None else None)
        elif kind == "read":
            values, index = self.registers[s[1]], self.value(s[3])
            if index < len(values):
                self.assign(s[2], values[index])
        elif kind == "write":
            index, value = self.value(s[2]), self.value(s[3])
            if index < len(self.registers[s[1]]):
                self.registers[s[1]][index] = value
        elif kind == "push":
            empty = [self._empty(self.program.stack[2]) for _ in range(s[1])]
            self.stack = (empty + self.stack)[: len(self.stack)]
        elif kind == "pop":
            empty = [self._empty(self.program.stack[2]) for _ in range(s[1])]
            self.stack = self.stack[s[1] :] + empty
        elif kind == "drop":
            self.frames[0]["standard.egress_spec"] = 511
        else:
            self._loop(s)

    def _composite(self, t: tuple, values: object, style: str) -> object:
        """The value of a list or structure expression; its parts in the order of the text."""
        if not isinstance(values, list):
            return self.value(values)
        if t[0] == "struct":
            pairs = list(zip(t[2], values, strict=False))
            if style == "named":
                pairs.reverse()
            made = default(t)
            made |= {f: self._composite(inner, v, style) for (f, inner), v in pairs}
            return made
        types = list(t[1]) if t[0] == "tuple" else [t[1]] * t[2]
        made = default(t)
        for i, (inner, v) in enumerate(zip(types, values, strict=False)):
            made[i] = self._composite(inner, v, style)
        return made

    # ---- loops and controls ----

    def _loop(self, s: tuple) -> None:
        kind, t, name, body = s[0], s[1], s[2], s[-1]
        frame = self.frames[-1]
        if kind == "count up":
            values: object = range(0, s[3], s[4])
        elif kind == "over range":
            low, high = self.value(s[3]), self.value(s[4])
            values = range(low, high + 1)
        elif kind == "over list":
            values = [self.value(e) for e in s[3]]
        else:
            assert kind == "over array", kind
            values = list(self._frame(s[3])[s[3]])
        for value in values:
            frame[name] = wrap(t, value)
            try:
                self.block(body)
            except _Break:
                break
            except _Continue:
                continue

    def _control(self, i: Instance, arguments: list) -> None:
        c = i.control
        own = {n: v for (_, n), v in zip(c.constructor, i.values, strict=True)} | {"$": i}

        def body() -> None:
            for t, n, e in c.variables:
                self.frames[-1][n] = wrap(t, self.value(e))
            self.block(c.body)

        self._enter(c.parameters, arguments, [], own | {"^": None}, body)

    def call(self, r: Routine, arguments: list, data: list = ()) -> int | None:
        around = None if r.name in self.functions else self.frames[-1]
        return self._enter(r.parameters, arguments, data, {"^": around}, lambda: self.block(r.body))

    def _enter(
        self, parameters: list, arguments: list, data: list, frame: dict, body: Callable[[], None]
    ) -> int | None:
        """Copy in, run, copy out from left to right, also when the callee exits."""
        places = [self._fixed(a) for a in arguments]
        values = [
            0 if direction == "out" else self.value(a)
            for (direction, _, _), a in zip(parameters, places, strict=False)
        ] + list(data)
        frame |= {n: v for (_, _, n), v in zip(parameters, values, strict=True)}
        self.frames.append(frame)
        result, left = None, None
        try:
            body()
        except _Return as stop:
            result = stop.value
        except _Exit as stop:
            left = stop
        self.frames.pop()
        for (direction, _, n), a in zip(parameters, places, strict=False):
            if direction in ("out", "inout"):
                self.assign(a, frame[n])
        if left is not None:
            raise left
        return result

    def _fixed(self, a: tuple) -> tuple:
        """An argument whose indices are evaluated now."""
        if a[0] != "part":
            return a
        path = tuple(self.value(k[1]) if isinstance(k, tuple) else k for k in a[3])
        return (*a[:3], path)

    def apply(self, t: Table) -> tuple[bool, str]:
        values = [raw(e[1], self._key(e)) for _, e in t.keys]
        best: int | None = None
        chosen = None
        priorities = _priorities(t)
        for (sets, action, data), rank in zip(t.entries, priorities, strict=True):
            length = rank
            for (kind, e), (low, second), value in zip(t.keys, sets, values, strict=True):
                del e
                if kind == "exact" and value != low:
                    break
                if kind in ("ternary", "lpm") and (value ^ low) & second:
                    break
                if kind == "optional" and second and value != low:
                    break
                if kind == "range" and not low <= value <= second:
                    break
                length += second.bit_count() if kind == "lpm" else 0
            else:
                if best is None or length > best:
                    best, chosen = length, (action, data)
        action, data = chosen or t.default
        # An action of a table may exit; whether the table hit is then no longer asked.
        if action != "NoAction":
            self.call(self.routines[action], t.bound.get(action, []), [v for _, v in data])
        return chosen is not None, action

    def _key(self, e: tuple) -> int:
        if e[0] == "field" and not self.header(e[2])["valid"]:
            if isinstance(e[2], tuple):
                raise Undefined
            return 0
        return self.value(e)


def _priorities(t: Table) -> list[int]:
    """For each entry a number; the entry with the largest wins, and the first of those."""
    if t.priorities is None:
        return [0] * len(t.entries)
    made: list[int] = []
    for given in t.priorities:
        if given is not None:
            made.append(given)
        else:
            made.append(made[-1] - t.step if t.largest_wins else made[-1] + t.step)
    return made if t.largest_wins else [-p for p in made]
