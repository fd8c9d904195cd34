"""Programs of `tree` on Python's integers, by the words of the specification.

bit<W> is kept in 0..2^W-1, int<W> in two's complement range, bool as 0 or 1. A header is a dict of
its fields with "valid". `Machine` keeps what outlives a packet: the registers.
"""

from __future__ import annotations

from .tree import BOOL, Program, Routine, Table


class Undefined(Exception):
    """The specification does not say what happens."""


class _Exit(Exception):
    pass


class _Return(Exception):
    def __init__(self, value: int | None):
        self.value = value


class _ParserError(Exception):
    pass


def wrap(t: tuple, value: int) -> int:
    """`value` in the type, the upper bits cut off."""
    if t == BOOL:
        return int(bool(value))
    value %= 1 << t[1]
    if t[0] == "int" and value >= 1 << (t[1] - 1):
        value -= 1 << t[1]
    return value


def raw(t: tuple, value: int) -> int:
    """The bits of a value as an unsigned number."""
    return value % (1 << (1 if t == BOOL else t[1]))


def saturate(t: tuple, value: int) -> int:
    low, high = (0, (1 << t[1]) - 1) if t[0] == "bit" else (-(1 << (t[1] - 1)), (1 << (t[1] - 1)) - 1)  # fmt: skip  # noqa: E501
    return min(max(value, low), high)


class Machine:
    """Runs one program; `packet` gives what leaves."""

    def __init__(self, program: Program):
        self.program = program
        self.registers = {n: [0] * size for n, (_, size) in program.registers.items()}
        self.routines = {r.name: r for r in [*program.functions, *program.actions]}
        self.tables = {t.name: t for t in program.tables}

    def packet(self, data: bytes) -> list[tuple[int, bytes]]:
        """[(port, bytes)] for a packet; raises Undefined."""
        p = self.program
        self.headers = {f"hdr.{h}": self._empty(t) for h, t in p.instances.items()}
        name, size, kind = p.stack
        self.stack = [self._empty(kind) for _ in range(size)]
        self.next = 0
        self.frames: list[dict] = [{"standard.egress_spec": 0, "meta.port": 0}]
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
        for h in [self.headers[f"hdr.{n}"] for n in p.instances] + self.stack:
            if h["valid"]:
                out += self._bytes(h)
        return [(port, out + payload)]

    # ---- headers ----

    def _empty(self, kind: str) -> dict:
        return {"valid": False, "type": kind} | {f: 0 for f, _ in self.program.types[kind]}

    def _bytes(self, h: dict) -> bytes:
        value = width = 0
        for f, t in self.program.types[h["type"]]:
            bits = 1 if t == BOOL else t[1]
            value, width = value << bits | raw(t, h[f]), width + bits
        return value.to_bytes(width // 8, "big")

    def header(self, name: str) -> dict:
        if name.startswith("hdr.s["):
            return self.stack[int(name[6:-1])]
        return self.headers[name]

    def _bits(self, h: dict) -> int:
        return sum(1 if t == BOOL else t[1] for _, t in self.program.types[h["type"]])

    # ---- parser ----

    def _parse(self) -> None:
        states = {s.name: s for s in self.program.states}
        name = "start"
        while name not in ("accept", "reject"):
            state = states[name]
            for step in state.steps:
                if step[0] == "extract":
                    self._extract(step[1])
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
            width = 1 if t == BOOL else t[1]
            bits -= width
            h[f] = wrap(t, value >> bits & (1 << width) - 1)
        h["valid"] = True
        if name == "next":
            self.next += 1

    # ---- expressions ----

    def value(self, e: tuple) -> int:
        kind, t = e[0], e[1]
        if kind == "const":
            return e[2]
        if kind == "var":
            return self._frame(e[2])[e[2]]
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
        if kind == "valid":
            return int(self.header(e[2])["valid"])
        if kind == "error":
            return int(self.error == e[2])
        raise AssertionError(kind)

    def _binary(self, e: tuple) -> int:
        _, t, op, left, right = e
        a = self.value(left)
        if op == "&&":
            return int(a and self.value(right))
        if op == "||":
            return int(a or self.value(right))
        b = self.value(right)
        if op in ("==", "!=", "<", ">", "<=", ">="):
            return int(
                {"==": a == b, "!=": a != b, "<": a < b, ">": a > b, "<=": a <= b, ">=": a >= b}[op]
            )
        if op == "|+|":
            return saturate(t, a + b)
        if op == "|-|":
            return saturate(t, a - b)
        if op == "++":
            return wrap(t, raw(left[1], a) << right[1][1] | raw(right[1], b))
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
        return self.frames[-1] if name in self.frames[-1] else self.frames[0]

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
        else:
            self._frame(left[2])[left[2]] = value

    def block(self, statements: list) -> None:
        for s in statements:
            self.statement(s)

    def statement(self, s: tuple) -> None:
        kind = s[0]
        if kind == "set":
            self.assign(s[1], self.value(s[2]))
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
        elif kind == "setInvalid":
            self.header(s[1])["valid"] = False
        elif kind == "copy":
            self.header(s[1]).update(self.header(s[2]))
        elif kind == "exit":
            raise _Exit
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
            raise AssertionError(kind)

    def call(self, r: Routine, arguments: list, data: list = ()) -> int | None:
        """Copy in, run, copy out from left to right, also when the callee exits."""
        values = [
            0 if direction == "out" else self.value(a)
            for (direction, _, _), a in zip(r.parameters, arguments, strict=False)
        ] + list(data)
        self.frames.append({n: v for (_, _, n), v in zip(r.parameters, values, strict=True)})
        result, left = None, None
        try:
            self.block(r.body)
        except _Return as stop:
            result = stop.value
        except _Exit as stop:
            left = stop
        frame = self.frames.pop()
        for (direction, _, n), a in zip(r.parameters, arguments, strict=False):
            if direction in ("out", "inout"):
                self.assign(a, frame[n])
        if left is not None:
            raise left
        return result

    def apply(self, t: Table) -> tuple[bool, str]:
        values = [raw(e[1], self._key(e)) for _, e in t.keys]
        best, chosen = -1, None
        for sets, action, data in t.entries:
            length = 0
            for (kind, e), (low, second), value in zip(t.keys, sets, values, strict=True):
                del e
                if kind == "exact" and value != low:
                    break
                if kind in ("ternary", "lpm") and (value ^ low) & second:
                    break
                if kind == "range" and not low <= value <= second:
                    break
                length += second.bit_count() if kind == "lpm" else 0
            else:
                if length > best:
                    best, chosen = length, (action, data)
        action, data = chosen or t.default
        # An action of a table may exit; whether the table hit is then no longer asked.
        if action != "NoAction":
            self.call(self.routines[action], [], [v for _, v in data])
        return chosen is not None, action

    def _key(self, e: tuple) -> int:
        if e[0] == "field" and not self.header(e[2])["valid"]:
            return 0
        return self.value(e)
