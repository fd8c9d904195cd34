"""Random expressions for the programs of `generate`."""

from __future__ import annotations

from random import Random

from .tree import BOOL, Program, Routine, bit

WIDTHS = (1, 3, 7, 8, 9, 16, 31, 32, 33, 48, 63, 64, 65, 100, 128, 129, 200)


class Expressions:
    """Random choices, and expressions over what the program has so far."""

    def __init__(self, seed: int):
        self.random = Random(seed)
        self.program = Program()
        self.names: list[tuple] = []  # expressions that can be read and written
        self.read_only: list[tuple] = []  # variables of loops, parameters
        self.composites: list[tuple] = []  # (type, name) in scope
        self.inside_function = False
        self.guarded = not self.chance(5)

    # ---- small choices ----

    def chance(self, percent: int) -> bool:
        return self.random.randrange(100) < percent

    def number(self, width: int) -> int:
        """Edges more often than not."""
        top = (1 << width) - 1
        edges = [0, 1, top, top >> 1, (top >> 1) + 1]
        if self.chance(50):
            return min(top, self.random.choice(edges))
        return self.random.getrandbits(self.random.randint(1, width))

    def type(self) -> tuple:
        if self.chance(12):
            return BOOL
        width = self.random.choice(WIDTHS)
        return ("int", max(width, 2)) if self.chance(25) else bit(width)

    def any_type(self) -> tuple:
        """A scalar type, also of enums."""
        if self.program.enums and self.chance(15):
            return self.random.choice(self.program.enums)
        return self.type()

    def const(self, t: tuple) -> tuple:
        if t == BOOL:
            return ("const", t, self.random.randrange(2))
        if t[0] == "enum":
            return ("const", t, self.random.randrange(t[1]))
        if t[0] == "ser" and self.chance(70):
            return ("const", t, self.random.choice(t[3]))
        value = self.number(t[1])
        if t[0] == "int" and value >> (t[1] - 1):
            value -= 1 << t[1]
        return ("const", t, value)

    # ---- expressions ----

    def expression(self, t: tuple, depth: int = 3) -> tuple:
        """A random expression of type `t`."""
        r = self.random
        if depth == 0 or self.chance(15):
            return self.leaf(t)
        if t == BOOL:
            return self._bool(depth - 1)
        deeper = depth - 1
        if self.chance(4):
            condition = self.expression(BOOL, deeper)
            yes, no = self.expression(t, deeper), self.expression(t, deeper)
            return ("pick", t, condition, yes, no, self.chance(50))
        if t[0] in ("ser", "enum"):
            return self._enum_value(t, deeper)
        kind, width = t
        which = r.randrange(10)
        if which < 4:
            ops = ["+", "-", "*", "&", "|", "^", "|+|", "|-|"]
            return ("bin", t, r.choice(ops), self.expression(t, deeper), self.expression(t, deeper))
        if which == 4:
            amount = self.expression(bit(r.randint(1, 8)), min(1, deeper))
            return ("bin", t, r.choice(["<<", ">>"]), self.expression(t, deeper), amount)
        if which == 5:
            return ("un", t, r.choice(["-", "~"]), self.expression(t, deeper))
        if which == 6:
            return ("tern", t, self.expression(BOOL, deeper), self.expression(t, deeper), self.expression(t, deeper))  # fmt: skip  # noqa: E501
        if which == 7:
            return self._cast(t, deeper)
        if which == 8 and kind == "bit":
            if width > 1 and self.chance(50):
                high = r.randint(1, width - 1)
                return ("bin", t, "++", self.expression(bit(width - high), deeper), self.expression(bit(high), deeper))  # fmt: skip  # noqa: E501
            low = r.randint(0, 9)
            return ("slice", t, self.leaf(bit(width + low + r.randint(0, 9)), const=False), low + width - 1, low)  # fmt: skip  # noqa: E501
        if which == 9 and kind == "bit" and self.chance(40):
            divisor = ("const", t, max(1, self.number(width)))
            return ("bin", t, r.choice(["/", "%"]), self.expression(t, deeper), divisor)
        functions = [f for f in self.program.functions if f.result == t]
        if functions and not self.inside_function:
            return self._call(r.choice(functions), deeper)
        return self.leaf(t)

    def condition(self) -> tuple:
        """A BOOL that is seldom known at compile time."""
        made = self.expression(BOOL)
        return self.expression(BOOL) if made[0] == "const" else made

    def _enum_value(self, t: tuple, depth: int) -> tuple:
        which = self.random.randrange(4)
        if which == 0:
            yes, no = self.expression(t, depth), self.expression(t, depth)
            return ("tern", t, self.expression(BOOL, depth), yes, no)
        if which == 1 and t[0] == "ser":
            return ("cast", t, self.expression(bit(t[1]), depth))
        return self.leaf(t)

    def _bool(self, depth: int) -> tuple:
        r = self.random
        which = r.randrange(6)
        if which < 3:
            t = self.any_type()
            numeric = t[0] in ("bit", "int")
            ops = ["==", "!=", "<", ">", "<=", ">="] if numeric else ["==", "!="]
            return ("bin", BOOL, r.choice(ops), self.expression(t, depth), self.expression(t, depth))  # fmt: skip  # noqa: E501
        if which == 3:
            return ("un", BOOL, "!", self.expression(BOOL, depth))
        if which == 4 and self.composites and self.chance(40):
            t = r.choice(self.composites)[0]
            names = [n for other, n in self.composites if other == t]
            return ("same", BOOL, r.choice(names), r.choice(names))
        if which == 4 and not self.inside_function:
            if self.chance(15):
                return ("equal", BOOL, *r.sample(["hdr.h1", "hdr.h2"], 2))
            if self.chance(15) and "v0" in self.program.instances:
                return ("equal", BOOL, "hdr.v0", "hdr.v1")
            if self.chance(15):
                return ("valid", BOOL, f"hdr.{r.choice(self.program.unions)}")
            return ("valid", BOOL, r.choice(self.headers()))
        return ("bin", BOOL, r.choice(["&&", "||"]), self.expression(BOOL, depth), self.expression(BOOL, depth))  # fmt: skip  # noqa: E501

    def _cast(self, t: tuple, depth: int) -> tuple:
        kind, width = t
        enums = [e for e in self.program.enums if e[:2] == ("ser", width)]
        if kind == "bit" and enums and self.chance(50):
            return ("cast", t, self.expression(self.random.choice(enums), depth))
        if kind == "int":
            inner = ("int", self.random.choice(WIDTHS[1:])) if self.chance(50) else bit(width)
        elif self.chance(30):
            inner = ("int", width) if width > 1 else BOOL
        else:
            inner = bit(self.random.choice(WIDTHS))
        return ("cast", t, self.expression(inner, depth))

    def _call(self, f: Routine, depth: int) -> tuple:
        arguments = []
        for direction, t, _ in f.parameters:
            if direction == "in":
                arguments.append(self.expression(t, min(depth, 1)))
            else:
                arguments.append(self.left(t))
        if any(a is None for a in arguments):
            return self.leaf(f.result)
        return ("call", f.result, f.name, arguments)

    def leaf(self, t: tuple, const: bool = True) -> tuple:
        """A variable or field, cast if it must be, or a number."""
        if const and self.chance(15):
            return self.const(t)
        names = self.names + self.read_only
        same = [e for e in names if e[1] == t]
        if same and self.chance(70):
            return self.read(self.random.choice(same))
        bits = [e for e in names if e[1][0] == "bit"]
        if t[0] in ("ser", "enum"):
            return self.const(t)
        if not bits or t == BOOL:
            if const or not same:
                return self.const(t) if const or t == BOOL else ("cast", t, self.const(bit(8)))
            return self.read(self.random.choice(same))
        e = self.read(self.random.choice(bits))
        if t[0] == "int":
            e = ("cast", bit(t[1]), e) if e[1][1] != t[1] else e
        return e if e[1] == t else ("cast", t, e)

    def read(self, e: tuple) -> tuple:
        """A field of a header that may be invalid is read behind a test, but for some programs."""
        if e[0] == "field" and e[2] != "hdr.h0" and self.guarded:
            return ("tern", e[1], ("valid", BOOL, e[2]), e, self.const(e[1]))
        return e

    def left(self, t: tuple) -> tuple | None:
        same = [e for e in self.names if e[1] == t and e[0] in ("var", "part")]
        return self.random.choice(same) if same else None

    def headers(self) -> list[str]:
        p = self.program
        plain = [f"hdr.{h}" for h, kind in p.instances.items() if kind != "v_t"]
        members = [f"hdr.{u}.{m}" for u in p.unions for m in "xy"]
        return plain + [f"hdr.s[{i}]" for i in range(3)] + members
