"""Parsers to C: a state is a label, a transition a goto.

The packet is read through two local pointers, `p` and `end`. An error sets parser_error and
jumps to `reject`, after which BMv2 (and so this switch) goes on with ingress: what happens to
such a packet is the program's decision.
"""

from __future__ import annotations

from p4engine.backend.emit_packet import PacketEmitter
from p4engine.backend.reroll import reroll
from p4engine.frontend import ast
from p4engine.frontend.types import BOOL, Bits, Composite, SetOf, Tuple, underlying, width_of
from p4engine.middle.instantiate import BlockInstance, ValueSetInstance
from p4engine.middle.layout import words

MAX_STEPS = 4096  # states visited before a parser that loops without reading is stopped


class ParserEmitter(PacketEmitter):
    def parser_error(self, name: str) -> str:
        return f"P->base.std.parser_error = {self.checker.errors[name]}; {self.goto('reject')}"

    def parser_body(self, block: BlockInstance) -> None:
        saved, self.block = self.block, block
        if block is not saved:
            self.block_parents[id(block)] = saved
        decl: ast.Parser = block.decl
        variables = [d for d in decl.locals if isinstance(d, ast.Variable)]
        text = self.statements(variables)
        run = self.fresh("s")
        labels = {s.name: f"{run}_{s.name}" for s in decl.states}
        labels["accept"] = f"{run}_accept"
        labels["reject"] = "reject"
        loops = _cyclic(decl)
        steps = ""
        if loops:
            steps = self.temp_c("uint32_t", "0")
        text.append(self.goto(labels["start"]))
        self.depth += 2  # below the block of the parser's own variables
        for state in decl.states:
            text.append(f"{labels[state.name]}:;")
            text += self._state(state, labels, steps)
        self.depth -= 2
        text.append(f"{labels['accept']}:;")
        self.block = saved
        self.out += text

    def _state(self, state: ast.State, labels: dict[str, str], steps: str) -> list[str]:
        outer, self.out = self.out, []
        if steps:
            self.out.append(
                f"if (++{steps} > {MAX_STEPS}) {{ {self.parser_error('ParserTimeout')} }}"
            )
        for node in state.statements:
            self.statement(node)
        body = reroll(self.out, self.depth)
        self.out = body
        transition = state.transition
        if transition is None:
            self.out.append(self.goto(labels["reject"]))
        elif isinstance(transition, ast.Name):
            self.out.append(self.goto(labels[transition.name]))
        else:
            self._select(transition, labels)
        made, self.out = self.out, outer
        return ["{ " + "\n".join(made) + " }"]

    def _select(self, select: ast.Select, labels: dict[str, str]) -> None:
        values = []
        for value, text in zip(select.values, self.in_order(select.values), strict=True):
            values.append((self.temp(value.type, text), value.type))
        self.trace_select(select, values)
        complete = False
        for case in select.cases:
            target = self.goto(labels[case.state])
            if len(case.keys) == 1 and (
                isinstance(case.keys[0], ast.DontCare)
                or (isinstance(case.keys[0].type, SetOf) and isinstance(case.keys[0], ast.Name))
            ):
                key = case.keys[0]
                if isinstance(key, ast.DontCare):
                    self.out.append(target)
                    complete = True
                    break
                self.out.append(f"if ({self._in_set(key, values)}) {{ {target} }}")
                continue
            tests = []
            for key, (text, type_) in zip(case.keys, values, strict=True):
                test = self.key_test(key, text, type_)
                if test:
                    tests.append(test)
            if not tests:
                self.out.append(target)
                complete = True
                break
            self.out.append(f"if ({' && '.join(tests)}) {{ {target} }}")
        if not complete:
            # BMv2 has no error for this: the parser ends as if it had accepted.
            self.out.append(self.goto("reject"))

    def key_test(self, key: ast.Expr, text: str, type_) -> str:
        """C condition that `text` is in the set written as `key`; empty if always."""
        under = underlying(type_)
        if isinstance(key, ast.DontCare):
            return ""
        if isinstance(key, ast.Mask):
            value = self.literal(key.value.const & key.mask.const, under)
            mask = self.literal(key.mask.const, under)
            if isinstance(under, Bits) and under.width > 128:
                big = self.big(under.width)
                return f"{big}_cmp({big}_and({text}, {mask}), {value}) == 0"
            return f"({text} & {mask}) == {value}"
        if isinstance(key, ast.Range):
            low, high = self.literal(key.low.const, under), self.literal(key.high.const, under)
            if isinstance(under, Bits) and under.width > 128:
                big = self.big(under.width)
                return f"({big}_cmp({text}, {low}) >= 0 && {big}_cmp({text}, {high}) <= 0)"
            if isinstance(under, Bits) and under.signed:
                text, low, high = (self.signed(x, under.width) for x in (text, low, high))
            return f"({text} >= {low} && {text} <= {high})"
        if isinstance(key.type, SetOf):
            return self._in_set(key, [(text, type_)])
        return f"({self.equal(text, self.value(key), under)})"

    def _in_set(self, key: ast.Name, values: list) -> str:
        made = self.block.members.get(id(key.decl))
        if not isinstance(made, ValueSetInstance):
            raise self.fatal(key.place, "this value_set cannot be found")
        total = sum(words(width_of(t) or 1) or 1 for _, t in values)
        name = self.temp_c(f"uint64_t {self.fresh('set')}", None) if False else self.fresh("set")
        self.out.append(f"uint64_t {name}[{total}];")
        at = 0
        for text, type_ in values:
            width = width_of(type_) or 1
            for i in range(words(width)):
                if width <= 64:
                    part = text
                elif width <= 128:
                    part = f"(uint64_t)({text} >> {64 * i})"
                else:
                    part = f"{text}.w[{i}]"
                self.out.append(f"{name}[{at}] = {part};")
                at += 1
        return f"p4_value_set_match(&I->value_sets[{made.number}], {name})"


def value_set_keys(type_) -> list[int]:
    """Widths of the fields of a value_set's element."""
    element = type_.element
    under = underlying(element)
    if isinstance(under, Composite):
        return [width_of(t) or 1 for t in under.fields.values()]
    if isinstance(under, Tuple):
        return [width_of(t) or 1 for t in under.elements]
    return [1 if under == BOOL else width_of(under) or 1]


def _cyclic(decl: ast.Parser) -> bool:
    """Can a state be reached from itself?"""
    follow = {}
    for s in decl.states:
        t = s.transition
        if isinstance(t, ast.Name):
            follow[s.name] = [t.name]
        elif isinstance(t, ast.Select):
            follow[s.name] = [c.state for c in t.cases]
        else:
            follow[s.name] = []
    colour: dict[str, int] = {}
    for start in follow:
        if start in colour:
            continue
        stack = [(start, iter(follow[start]))]
        colour[start] = 1
        while stack:
            name, following = stack[-1]
            for n in following:
                if colour.get(n) == 1:
                    return True
                if n in follow and n not in colour:
                    colour[n] = 1
                    stack.append((n, iter(follow[n])))
                    break
            else:
                colour[name] = 2
                stack.pop()
    return False
