"""Parts of random programs beside scalars and straight statements: composite variables, loops,
header unions, nested controls, priorities of entries.
"""

from __future__ import annotations

from .generate_expressions import Expressions
from .tree import BOOL, Control, Instance, Routine, Table, bit, bits_of, parts

UPDATES = ("+", "-", "*", "&", "|", "^", "|+|", "|-|")


class More(Expressions):
    """Mixed into the generator."""

    def __init__(self, seed: int):
        super().__init__(seed)
        self.loops = 0  # around the statement that is being made
        self._loop_names = 0

    # ---- types and variables ----

    def declare_types(self) -> None:
        """Enums, and structs of which one is generic."""
        p, r = self.program, self.random
        p.enums = [("enum", r.randint(3, 5), "plain_t")]
        width = r.choice((2, 8, 9, 33))
        p.enums.append(("ser", width, "ser_t", tuple(r.sample(range(min(1 << width, 99)), 3))))
        fields = tuple((f"f{i}", self.any_type()) for i in range(r.randint(1, 5)))
        inner = self.any_type()
        self.structs: list[tuple] = [("struct", "s_t", fields)]
        generic = (("x", inner), ("s", self.structs[0]), ("y", bit(8)))
        text = {"enum": "plain_t", "ser": "ser_t"}.get(inner[0], "bool" if inner == BOOL else "")
        text = text or f"{inner[0]}<{inner[1]}>"
        self.structs.append(("struct", f"g_t<{text}>", generic))
        names = " ".join(f"{_text(t)} {f};" for f, t in fields)
        p.structs = [f"struct s_t {{ {names} }}", "struct g_t<T> { T x; s_t s; bit<8> y; }"]

    def _composite_type(self) -> tuple:
        r = self.random
        which = r.randrange(4)
        if which == 0:
            return ("tuple", tuple(self.any_type() for _ in range(r.randint(1, 3))))
        if which == 1:
            inner = self.type() if self.chance(70) else self.structs[0]
            return ("array", inner, r.choice((2, 4)))
        return r.choice(self.structs)

    def declare_composites(self) -> None:
        """Some variables, mostly two of a type, and their parts as left values."""
        p, r = self.program, self.random
        for i in range(r.randint(0, 2)):
            t = self._composite_type()
            for name in [f"z{i}", f"zz{i}"][: r.randint(1, 2)]:
                p.composites.append((t, name))
                made = parts(t, name)
                self.names += r.sample(made, min(len(made), 3))
                if t[0] == "array" and t[1][0] != "struct":
                    self.names.append(("part", t[1], name, (("at", self._index(t[2])),)))
        self.composites = list(p.composites)
        if self.chance(30):
            index = ("at", self._index(2))
            self.names += [("field", t, index, f) for f, t in p.types["e_t"]]

    def _index(self, size: int) -> tuple:
        """An index below `size`, a power of two, from a variable that nothing is called with."""
        name = ("var", bit(8), "ix")
        if not any(n == "ix" for _, n, _ in self.program.variables):
            self.program.variables.append((bit(8), "ix", self.const(bit(8))))
        return ("bin", bit(8), "&", name, ("const", bit(8), size - 1))

    def on_composite(self) -> tuple:
        """An assignment of a whole composite variable."""
        r = self.random
        t, name = r.choice(self.composites)
        others = [n for other, n in self.composites if other == t and n != name]
        if others and self.chance(50):
            return ("whole", name, r.choice(others))
        values = self._values(t)
        assert isinstance(values, list)
        if self.chance(20) and t[0] != "array":
            del values[r.randint(1, len(values)) :]
        return ("make", name, t, values, r.choice(["list", "named"]))

    def _values(self, t: tuple) -> list | tuple:
        if t[0] == "struct":
            return [self._values(inner) for _, inner in t[2]]
        if t[0] == "tuple":
            return [self._values(inner) for inner in t[1]]
        if t[0] == "array":
            return [self._values(t[1]) for _ in range(t[2])]
        return self.expression(t, 1)

    # ---- statements ----

    def update(self, target: tuple) -> tuple:
        """target op= value"""
        t = target[1]
        if self.chance(20):
            return ("update", target, self.random.choice(["<<", ">>"]), self.const(bit(3)))
        return ("update", target, self.random.choice(UPDATES), self.expression(t))

    def copy_of_header(self) -> tuple:
        r = self.random
        if self.chance(20):
            return ("union", *r.sample([f"hdr.{u}" for u in self.program.unions], 2))
        if self.chance(20) and "v0" in self.program.instances:
            return ("copy", "hdr.v1", "hdr.v0")
        if self.chance(20):
            a, b = r.choice([("hdr.u.x", "hdr.h1"), ("hdr.w.x", "hdr.h2"), ("hdr.w.y", "hdr.s[1]")])
            return ("if", ("valid", BOOL, b), [("copy", a, b)], [])
        a, b = r.choice([("hdr.h1", "hdr.h2"), ("hdr.h2", "hdr.h1"), ("hdr.s[0]", "hdr.s[2]")])
        return ("copy", a, b)

    def loop(self, depth: int) -> tuple:
        """A loop of a few rounds."""
        r = self.random
        self._loop_names += 1
        name = f"i{self._loop_names}"
        which = r.randrange(4)
        arrays = [(t, n) for t, n in self.composites if t[0] == "array" and t[1][0] != "struct"]
        if which == 0:
            t = bit(8)
            head: tuple = ("count up", t, name, r.randint(0, 6), r.randint(1, 3))
        elif which == 1:
            t = bit(r.choice((3, 8, 64)))
            three = ("const", t, 3)
            low = ("bin", t, "&", self.expression(t, 1), three)
            high = ("bin", t, "&", self.expression(t, 1), three)
            head = ("over range", t, name, low, high)
        elif which == 2 and arrays:
            whole, array = r.choice(arrays)
            t = whole[1]
            head = ("over array", t, name, array)
        else:
            t = self.any_type()
            head = ("over list", t, name, [self.expression(t, 1) for _ in range(r.randint(1, 3))])
        self.loops += 1
        self.read_only = [*self.read_only, ("var", t, name)]
        body = self.block(depth - 1, 2)
        self.read_only = self.read_only[:-1]
        self.loops -= 1
        return (*head, body)

    def on_control(self) -> tuple | None:
        """A call of a nested control."""
        p = self.program
        if not p.control_instances:
            return None
        made = self.random.choice(p.control_instances)
        arguments = [
            self.expression(t, 1) if d == "in" else self.left(t)
            for d, t, _ in made.control.parameters
        ]
        return None if None in arguments else ("control", made.name, arguments)

    def lookahead(self) -> tuple | None:
        """meta.m0 = packet.lookahead<s_t>().f0"""
        t = self.structs[0]
        if any(inner[0] == "enum" for _, inner in t[2]):
            return None
        field, inner = self.random.choice(t[2])
        places = [("var", m, f"meta.{n}") for m, n in self.program.metadata if m == inner]
        if not places:
            self.program.metadata.append((inner, "look"))
            places = [("var", inner, "meta.look")]
        return ("set", places[0], ("look", inner, t, field))

    # ---- controls ----

    def controls(self) -> None:
        """A control, and one that is given a control of that type, with instances of both."""
        p, r = self.program, self.random
        if self.chance(50):
            return
        parameters = [
            (d, self.any_type(), f"a{k}")
            for k, d in enumerate(r.sample(["inout", "in", "out", "inout"], r.randint(1, 3)))
        ]
        first = self._control("One", parameters, "")
        p.controls = [first]
        values = [self.const(t)[2] for t, _ in first.constructor]
        p.control_instances = [Instance("one", first, values)]
        if self.chance(60):
            second = self._control("Two", parameters, "control_t")
            p.controls.append(second)
            for name in ("two", "three")[: r.randint(1, 2)]:
                inner: object = "one"
                if self.chance(50):
                    inner = Instance("", first, [self.const(t)[2] for t, _ in first.constructor])
                values = [self.const(t)[2] for t, _ in second.constructor]
                p.control_instances.append(Instance(name, second, values, inner))

    def _control(self, name: str, parameters: list, inner: str) -> Control:
        r = self.random
        letter = name[0].lower()
        constructor = [(self.any_type(), f"{letter}c{k}") for k in range(r.randint(0, 2))]
        variables = [(t, f"{letter}v{k}", self.const(t)) for k, t in enumerate([self.any_type()])]
        self.inside_function = True  # no headers, tables and registers of ingress
        self.names = [("var", t, n) for t, n, _ in variables]
        self.names += [("var", t, n) for d, t, n in parameters if d != "in"]
        self.read_only = [("var", t, n) for d, t, n in parameters if d == "in"]
        self.read_only += [("var", t, n) for t, n in constructor]
        # What an out parameter is in the beginning is open, so it is assigned first.
        body: list = [("set", ("var", t, n), self.const(t)) for d, t, n in parameters if d == "out"]
        body += self.block(2, 3)
        actions, tables = [], []
        if self.chance(60):
            data = [("", self.type(), f"{letter}d")]
            target = r.choice(self.names)
            self.read_only.append(("var", data[0][1], data[0][2]))
            action = Routine(f"{letter}act", data, [("set", target, self.expression(target[1], 2))])
            self.read_only.pop()
            actions = [action]
            keys = [e for e in self.names + self.read_only if e[1][0] == "bit"]
            if keys:
                key = r.choice(keys)
                width = key[1][1]
                sets = {((self.number(width), (1 << width) - 1),) for _ in range(3)}
                entries = [(s, action.name, [(data[0][1], self.const(data[0][1])[2])]) for s in sorted(sets)]  # fmt: skip  # noqa: E501
                table = Table(f"{letter}t", [("exact", key)], [action.name, "NoAction"], entries, ("NoAction", []))  # fmt: skip  # noqa: E501
                tables = [table]
                body.insert(r.randint(0, len(body)), ("apply", table.name))
        if inner:
            arguments = []
            for d, t, n in parameters:
                arguments.append(self.expression(t, 1) if d == "in" else ("var", t, n))
            body.insert(r.randint(0, len(body)), ("inner", arguments))
        if self.chance(15):
            body.append(
                ("if", self.expression(BOOL, 1), [(r.choice(["exit", "return"]), None)], [])
            )
        self.inside_function = False
        self.read_only = []
        # An out parameter must be assigned before the table reads it.
        first = [s for s in body if s[0] == "set" and s[1][2] in {n for d, _, n in parameters if d == "out"} and s[2][0] == "const"]  # fmt: skip  # noqa: E501
        body = first + [s for s in body if not any(s is f for f in first)]
        return Control(name, parameters, constructor, inner, variables, actions, tables, body)

    # ---- what can be seen of a packet ----

    def show_variables(self) -> None:
        """At the end of ingress, a header gets the values of all variables."""
        p = self.program
        values = [("var", t, n) for t, n, _ in p.variables]
        values += [("var", t, f"meta.{n}") for t, n in p.metadata]
        values += [part for t, n in p.composites for part in parts(t, n)]
        fields, shown, bits = [], [], 0
        for i, e in enumerate(values):
            if e[1][0] == "enum":
                second = ("bin", BOOL, "==", e, ("const", e[1], 1))
                e = ("tern", bit(2), second, ("const", bit(2), 1), ("const", bit(2), 2))
            fields.append((f"o{i}", e[1]))
            shown.append(("set", ("field", e[1], "hdr.all", f"o{i}"), e))
            bits += bits_of(e[1])
        if bits % 8:
            fields.append(("pad", bit(8 - bits % 8)))
        p.types["all_t"] = fields
        p.instances["all"] = "all_t"
        p.apply = [*p.apply, ("setValid", "hdr.all"), *shown]

    # ---- tables ----

    def priorities(self, table: Table) -> None:
        """Numbers for some entries, the first one included."""
        r = self.random
        if self.chance(50):
            return
        table.largest_wins = self.chance(60)
        table.step = r.randint(1, 4)
        table.priorities = [r.randint(40, 60) if i == 0 or self.chance(40) else None for i in range(len(table.entries))]  # fmt: skip  # noqa: E501

    def implementation(self, table: Table) -> None:
        """Give the table an action profile or selector: without entries until there are members."""
        selector = self.chance(50)
        table.implementation = "action_profile(8)"
        if selector:
            table.implementation = "action_selector(HashAlgorithm.crc16, 8, 14)"
        table.entries, table.default, table.priorities = [], ("NoAction", []), None
        table.open = True
        if selector and table.keys[0][0] != "lpm":
            table.keys.append(("selector", table.keys[0][1]))

    def block(self, depth: int, size: int) -> list:
        raise NotImplementedError


def _text(t: tuple) -> str:
    if t[0] in ("ser", "enum"):
        return t[2]
    return "bool" if t == BOOL else f"{t[0]}<{t[1]}>"
