"""Random programs for the reference.

Small on purpose: what a program does not use it cannot get wrong, and many small ones find more
than few large ones. A seed gives one program.
"""

from __future__ import annotations

from random import Random

from .generate_more import More
from .tree import BOOL, Program, Routine, State, Table, bit, bits_of


class Generator(More):
    """Makes one program: statements, parser, actions and tables around the expressions."""

    def block(self, depth: int, size: int) -> list:
        return [self.statement(depth) for _ in range(self.random.randint(1, size))]

    def statement(self, depth: int) -> tuple:
        r, p = self.random, self.program
        which = r.randrange(20)
        if depth and which < 4:
            return ("if", self.condition(), self.block(depth - 1, 3), self.block(depth - 1, 2) if self.chance(70) else [])  # fmt: skip  # noqa: E501
        if depth and which == 4:
            t = bit(r.choice((2, 4, 8)))
            if p.enums and self.chance(30):
                t = r.choice(p.enums)
            values = r.sample(range(t[1] if t[0] == "enum" else 1 << t[1]), 3)
            cases = [(values[:1], self.block(depth - 1, 2)), (values[1:], self.block(depth - 1, 2))]
            return ("switch", self.expression(t), cases, self.block(depth - 1, 2))
        if depth and self.chance(7):
            return self.loop(depth)
        if self.loops and self.chance(10):
            return ("if", self.expression(BOOL, 1), [(r.choice(["break", "continue"]),)], [])
        if self.composites and self.chance(12):
            return self.on_composite()
        if self.inside_function:
            return self._assign()
        if self.chance(10) and (made := self.on_control()) is not None:
            return made
        if which == 5:
            how = r.choice(["setValid", "setInvalid"])
            name = r.choice(self.headers()[1:])
            if how == "setInvalid" and name.count(".") == 2:
                return ("if", ("valid", BOOL, name), [(how, name)], [])
            return (how, name)
        if which == 6:
            return self.copy_of_header()
        if which == 7:
            return (r.choice(["push", "pop"]), r.randint(1, 2))
        if which == 8 and p.registers:
            name, (t, size) = r.choice(list(p.registers.items()))
            index = ("cast", bit(32), self.expression(bit(r.choice((2, 3))), 1))
            target = self.left(t)
            if target is None or self.chance(40):
                return ("write", name, index, self.expression(t))
            return ("read", name, target, index)
        if which == 8 and p.counters:
            name = r.choice(list(p.counters))
            return ("count", name, ("cast", bit(32), self.expression(bit(3), 1)))
        if which == 9 and p.actions:
            action = r.choice(p.actions)
            arguments = [
                self.expression(t, 1) if d in ("in", "") else self.left(t)
                for d, t, _ in action.parameters
            ]
            if None not in arguments:
                return ("action", action.name, arguments)
        if which == 10 and self.chance(15):
            return ("exit",)
        return self._assign()

    def _assign(self) -> tuple:
        # What is assigned to a variable is seen in every packet, unlike a header's field.
        variables = [e for e in self.names if e[0] != "field"]
        target = self.random.choice(variables if variables and self.chance(65) else self.names)
        t = target[1]
        if t[0] == "bit" and t[1] > 2 and self.chance(20):
            low = self.random.randint(0, t[1] - 1)
            high = self.random.randint(low, t[1] - 1)
            part = ("slice", bit(high - low + 1), target, high, low)
            made = ("set", part, self.expression(part[1]))
        elif t[0] == "bit" and self.chance(12):
            made = self.update(target)
        else:
            made = ("set", target, self.expression(t))
        if target[0] == "field" and target[2] != "hdr.h0":
            return ("if", ("valid", BOOL, target[2]), [made], [])
        return made

    # ---- declarations ----

    def make(self) -> Program:
        p, r = self.program, self.random
        self.declare_types()
        for name in ("a_t", "b_t", "e_t"):
            fields, bits = [], 0
            for i in range(r.randint(1, 5)):
                t = self.any_type()
                if t[0] == "enum":
                    t = BOOL
                made = [(f"f{i}", t)]
                if name == "b_t" and t[0] == "bit" and self.chance(15):
                    made = [(f"f{i}[{k}]", t) for k in range(r.randint(1, 3))]
                elif name == "b_t" and self.chance(10):
                    made = [(f"f{i}.x", t), (f"f{i}.y", bit(r.choice((3, 8))))]
                fields += made
                bits += sum(bits_of(inner) for _, inner in made)
            if name == "a_t":
                fields.insert(0, ("tag", bit(8)))
            if name == "e_t":
                fields = [("more", bit(1)), ("v", bit(r.choice((7, 15)))), ("w", bit(8))]
                bits = 0 if fields[1][1][1] in (7, 15) else 1
            if bits % 8:
                fields.append(("pad", bit(8 - bits % 8)))
            p.types[name] = fields
        p.instances = {"h0": "a_t", "h1": "b_t", "h2": "b_t"}
        p.unions = ["u", "w"]
        p.metadata = [(bit(9), "port"), *((self.any_type(), f"m{i}") for i in range(2))]
        self._functions()
        self.controls()
        self.names = [("field", t, f"hdr.{h}", f) for h, k in p.instances.items() for f, t in p.types[k]]  # fmt: skip  # noqa: E501
        self.names += [("field", t, f"hdr.s[{i}]", f) for i in (0, 2) for f, t in p.types["e_t"]]
        if self.chance(50):
            p.instances |= {"v0": "v_t", "v1": "v_t"}
            self.names.append(("field", bit(8), "hdr.v0", "n"))
        self._parser()
        for u, m, kind in (("u", "x", "b_t"), ("u", "y", "e_t"), ("w", "x", "b_t")):
            self.names.append(("field", p.types[kind][-1][1], f"hdr.{u}.{m}", p.types[kind][-1][0]))
        self.names += [("var", t, f"meta.{n}") for t, n in p.metadata[1:]]
        for i in range(r.randint(2, 5)):
            t = self.any_type()
            p.variables.append((t, f"v{i}", self.const(t)))
            self.names.append(("var", t, f"v{i}"))
        self.declare_composites()
        for i in range(r.randint(0, 2)):
            t = self.type()
            p.registers[f"r{i}"] = (t if t != BOOL else bit(5), r.choice((4, 6)))
        if self.chance(30):
            p.counters["c0"] = r.choice((4, 6))
        self._actions()
        self._tables()
        p.apply = self._with_tables([self.statement(3) for _ in range(r.randint(5, 9))])
        p.egress = [] if self.chance(70) else [self._assign_field()]
        self.show_variables()
        return p

    def _assign_field(self) -> tuple:
        saved, self.names = (
            self.names,
            [e for e in self.names if e[0] == "field" and isinstance(e[2], str)],
        )
        composites, self.composites = self.composites, []
        made = self._assign()
        self.names, self.composites = saved, composites
        return made

    def _functions(self) -> None:
        for i in range(self.random.randint(0, 2)):
            parameters = [
                (self.random.choice(["in", "inout"]), self.any_type(), f"p{k}")
                for k in range(self.random.randint(1, 3))
            ]
            result = self.any_type()
            self.names = [("var", t, n) for d, t, n in parameters]
            readable = self.names
            self.inside_function = True
            writable = [("var", t, n) for d, t, n in parameters if d != "in"]
            body: list = []
            if writable:
                early = ("if", self.expression(BOOL), [("return", self.expression(result))], [])
                value = self.expression(writable[0][1])
                body = [("set", writable[0], value), early]
                if self.chance(50):
                    self.names, self.read_only = writable, readable
                    body.append(self.loop(2))
                    self.names, self.read_only = readable, []
            body.append(("return", self.expression(result)))
            self.inside_function = False
            self.program.functions.append(Routine(f"fn{i}", parameters, body, result))

    def _parser(self) -> None:
        p, r = self.program, self.random
        tag = ("field", bit(8), "hdr.h0", "tag")
        second = self.random.choice([e for e in self.names if e[2] == "hdr.h0"])
        keys = [tag, second] if second[1][0] == "bit" else [tag]

        def label(key: tuple, allow_any: bool = True) -> tuple:
            width = key[1][1]
            which = r.randrange(4)
            if keys == [tag] and self.chance(15):
                p.value_set = True
                return ("set",)
            if which == 0 and allow_any:
                return ("any",)
            if which == 1:
                return ("mask", self.number(width), self.number(width))
            if which == 2:
                low, high = sorted((self.number(width), self.number(width)))
                return ("range", low, high)
            return ("is", r.randrange(4) if width >= 2 else r.randrange(2))

        targets = ["one", "two", "many", "union", "accept"]
        if "v0" in p.instances:
            targets.append("variable")
        cases = [
            ([label(k, i > 0) for i, k in enumerate(keys)], r.choice(targets)) for _ in range(3)
        ]
        if self.chance(80):
            cases.append((None, r.choice(targets)))
        p.states = [State("start", [("extract", "hdr.h0")], keys, cases)]
        steps: list = [(r.choice(["extract", "extract", "parser"]), "hdr.h1")]
        if self.chance(40) and (look := self.lookahead()) is not None:
            steps.insert(0, look)
        if self.chance(30):
            saved, self.names = self.names, [e for e in self.names if e[2] in ("hdr.h0", "hdr.h1")]
            self.inside_function = True
            steps.append(("verify", self.expression(BOOL, 2), "Wrong"))
            self.inside_function = False
            self.names = saved
        p.states.append(State("one", steps, [], [(None, r.choice(targets[1:]))]))
        member = r.choice("xy")
        last = [(None, r.choice(["many", "accept"]))]
        p.states.append(State("union", [("extract", f"hdr.u.{member}")], [], last))
        if "v0" in p.instances:
            p.states.append(State("variable", [("variable", "hdr.v0")], [], last))
        steps = [("advance", 8)] if self.chance(30) else []
        p.states.append(
            State(
                "two", [*steps, ("extract", "hdr.h2")], [], [(None, r.choice(["many", "accept"]))]
            )
        )
        more = ("field", bit(1), "hdr.s.last", "more")
        p.states.append(
            State("many", [("extract", "next")], [more], [([("is", 1)], "many"), (None, "accept")])
        )

    def _actions(self) -> None:
        for i in range(self.random.randint(1, 3)):
            data = [("", self.any_type(), f"d{k}") for k in range(self.random.randint(0, 2))]
            data = [(d, BOOL if t[0] == "enum" else t, n) for d, t, n in data]
            saved = self.names
            extra = [("var", t, n) for _, t, n in data]
            body = []
            for _ in range(self.random.randint(1, 3)):
                self.names = saved
                made = self._assign()
                if extra and made[0] == "set":
                    e = self.random.choice(extra)
                    target = made[1]
                    if target[1] == e[1]:
                        made = ("set", target, e)
                    elif target[1][0] == "bit" and e[1][0] == "bit":
                        made = ("set", target, ("cast", target[1], e))
                body.append(made)
            self.names = saved
            if self.chance(10):
                body.append(("exit",))
            self.program.actions.append(Routine(f"act{i}", data, body))
        t = self.type()
        name = self.left(t)
        if name is not None:
            body = [("set", ("var", t, "x"), self.expression(t, 2))]
            self.program.actions.append(Routine("change", [("inout", t, "x")], body))

    def _tables(self) -> None:
        r = self.random
        usable = self.program.actions
        candidates = [e for e in self.names if e[1][0] == "bit"]
        for i in range(r.randint(0, 3)):
            if not usable or not candidates:
                return
            style = r.choice(["exact", "lpm", "ternary", "range", "optional"])
            keys: list = []
            for k in range(r.randint(1, 2)):
                kind = "exact" if style == "lpm" and k == 0 and self.chance(50) else style
                if any(q[0] == "lpm" for q in keys):
                    kind = "exact"
                e = r.choice(candidates)
                keys.append((kind, e if self.chance(70) else self._small_key(e)))
            if style == "lpm" and not any(k == "lpm" for k, _ in keys):
                keys[0] = ("lpm", keys[0][1])
            actions = r.sample(usable, r.randint(1, len(usable)))
            entries, seen = [], set()
            for _ in range(r.randint(0, 6)):
                sets = tuple(self._set(kind, e[1][1]) for kind, e in keys)
                if sets in seen:
                    continue
                seen.add(sets)
                entries.append((sets, *self._chosen(r.choice(actions))))
            default = self._chosen(r.choice(actions)) if self.chance(50) else ("NoAction", [])
            names = [a.name for a in actions] + ["NoAction"]
            table = Table(f"t{i}", keys, names, entries, default, open=i != 0)
            table.bound = {a.name: [self.left(a.parameters[0][1])] for a in actions if a.name == "change"}  # fmt: skip  # noqa: E501
            if style in ("ternary", "range", "optional") and table.open and entries:
                self.priorities(table)
            self.program.tables.append(table)
        if self.program.tables and self.chance(20):
            self.implementation(self.program.tables[-1])

    def _small_key(self, e: tuple) -> tuple:
        width = min(4, e[1][1])
        return ("slice", bit(width), self.read_sure(e), width - 1, 0)

    def read_sure(self, e: tuple) -> tuple:
        sure = [x for x in self.names if x[1][0] == "bit" and (x[0] == "var" or x[2] == "hdr.h0")]
        wide = [x for x in sure if x[1][1] >= min(4, e[1][1])]
        return self.random.choice(wide)

    def _set(self, kind: str, width: int) -> tuple[int, int]:
        value = self.number(width)
        if kind == "range":
            return tuple(sorted((value, self.number(width))))
        if kind == "lpm":
            length = self.random.randint(0, width)
            mask = ((1 << length) - 1) << (width - length)
            return value & mask, mask
        if kind == "optional":
            return value, self.random.randrange(2)
        if kind == "ternary":
            mask = self.number(width)
            return value & mask, mask
        return value, (1 << width) - 1

    def _chosen(self, action: Routine) -> tuple[str, list]:
        data = [t for d, t, _ in action.parameters if not d]
        return action.name, [(t, self.const(t)[2]) for t in data]

    def _with_tables(self, statements: list) -> list:
        """Every table applied once, somewhere."""
        for t in self.program.tables:
            how = self.random.randrange(3)
            if how == 0:
                made: tuple = ("apply", t.name)
            elif how == 1:
                made = ("hit", t.name, self.block(1, 2), self.block(1, 2))
            else:
                first = t.actions[0]
                made = ("run", t.name, [([first], self.block(1, 2))], self.block(1, 2))
            statements.insert(self.random.randint(0, len(statements)), made)
        if self.chance(20):
            test = self.expression(BOOL)
            statements.append(("if", test, [("drop",)], []))
        return statements


def generate(seed: int) -> Program:
    return Generator(seed).make()


def packets(program: Program, seed: int, count: int) -> list[bytes]:
    """Packets of random length whose first bytes often lead deep into the parser."""
    r = Random(seed)
    made = []
    for _ in range(count):
        size = r.choice((0, 5, 20, 60, 60, 90, 120, 120, 120, 200, 200, 300))
        fill = r.choice((None, None, None, 0, 255))
        data = r.randbytes(size) if fill is None else bytes([fill]) * size
        if data and r.randrange(3):
            data = bytes([r.randrange(4)]) + data[1:]
        made.append(data)
    return made


__all__ = ["Generator", "generate", "packets"]
