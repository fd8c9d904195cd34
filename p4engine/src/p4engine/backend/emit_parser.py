"""Parsers to C: a state is a label, a transition a goto.

The packet is read through two local pointers, `p` and `end`. An error sets parser_error and
jumps to `reject`, after which BMv2 (and so this switch) goes on with ingress: what happens to
such a packet is the program's decision.
"""

from __future__ import annotations

from p4engine.backend.c_text import signed
from p4engine.backend.context import Context
from p4engine.backend.emit_composite import CompositeEmitter
from p4engine.backend.emit_expr import ExpressionEmitter
from p4engine.backend.emit_numbers import NumberEmitter
from p4engine.backend.emit_stmt import StatementEmitter
from p4engine.backend.reroll import reroll
from p4engine.frontend import ast
from p4engine.frontend.types import Bits, SetOf, Tuple, Type, underlying, width_of
from p4engine.middle.instantiate import BlockInstance, ValueSetInstance
from p4engine.middle.layout import words

MAX_STEPS = 4096  # states visited before a parser that loops without reading is stopped


class ParserEmitter:
    """States and transitions."""

    def __init__(
        self,
        context: Context,
        numbers: NumberEmitter,
        composites: CompositeEmitter,
        expressions: ExpressionEmitter,
        statements: StatementEmitter,
    ) -> None:
        self.context, self.numbers, self.composites = context, numbers, composites
        self.expressions, self.statements = expressions, statements

    def body(self, block: BlockInstance) -> None:
        """Write the locals and the states of a parser instance."""
        context, decl = self.context, block.decl
        assert isinstance(decl, ast.Parser)
        with context.within(block):
            variables = [d for d in decl.locals if isinstance(d, ast.Variable)]
            text = self.statements.statements(variables)
            run = context.fresh("s")
            labels = {s.name: f"{run}_{s.name}" for s in decl.states}
            labels["accept"] = f"{run}_accept"
            labels["reject"] = "reject"
            steps = context.temp_c("uint32_t", "0") if _cyclic(decl) else ""
            text.append(context.goto(labels["start"]))
            context.depth += 2  # below the block of the parser's own variables
            for state in decl.states:
                text.append(f"{labels[state.name]}:;")
                text += self._state(state, labels, steps)
            context.depth -= 2
            text.append(f"{labels['accept']}:;")
            context.out += text

    def _state(self, state: ast.State, labels: dict[str, str], steps: str) -> list[str]:
        context = self.context
        with context.at(state.place), context.capture() as made:
            if steps:
                error = context.parser_error("ParserTimeout")
                made.append(f"if (++{steps} > {MAX_STEPS}) {{ {error} }}")
            for node in state.statements:
                self.statements.statement(node)
            made[:] = reroll(made, context.depth)
            transition = state.transition
            if transition is None:
                made.append(context.goto(labels["reject"]))
            elif isinstance(transition, ast.Name):
                made.append(context.goto(labels[transition.name]))
            else:
                self._select(transition, labels)
        with context.capture() as entered:
            context.trace.state_entered(state)
        return [*entered, "{ " + "\n".join(made) + " }"]

    def _select(self, select: ast.Select, labels: dict[str, str]) -> None:
        context = self.context
        values: list[tuple[str, Type]] = []
        texts = self.expressions.in_order(select.values)
        for value, text in zip(select.values, texts, strict=True):
            name = context.temp(value.type, text)
            if isinstance(value.type, Tuple):
                parts = enumerate(value.type.elements)
                values += [(f"{name}.f{i}", t) for i, t in parts]
            else:
                values.append((name, value.type))
        context.trace.selected(select, values)
        for case in select.cases:
            target = context.goto(labels[case.state])
            test = self._case_test(case, values)
            if not test:
                context.out.append(target)
                return
            context.out.append(f"if ({test}) {{ {target} }}")
        if context.instances.architecture.no_match_is_error:
            context.out.append(context.parser_error("NoMatch"))
        else:  # BMv2 has no error for this: the parser ends as if it had accepted
            context.out.append(context.goto("reject"))

    def _case_test(self, case: ast.SelectCase, values: list[tuple[str, Type]]) -> str:
        """C condition that the values are in the case; empty if always."""
        first = case.keys[0]
        if len(case.keys) == 1 and isinstance(first, ast.DontCare):
            return ""
        if len(case.keys) == 1 and isinstance(first.type, SetOf) and isinstance(first, ast.Name):
            return self._in_set(first, values)
        keys = zip(case.keys, values, strict=True)
        tests = [self._key_test(key, text, type_) for key, (text, type_) in keys]
        return " && ".join(filter(None, tests))

    def _key_test(self, key: ast.Expr, text: str, type_: Type) -> str:
        """C condition that `text` is in the set written as `key`; empty if always."""
        under = underlying(type_)
        literal = self.numbers.literal
        if isinstance(key, ast.DontCare):
            return ""
        if isinstance(key, ast.Mask):
            value = literal(key.value.known_number & key.mask.known_number, under)
            mask = literal(key.mask.known, under)
            if isinstance(under, Bits) and under.width > 128:
                big = self.numbers.big(under.width)
                return f"{big}_cmp({big}_and({text}, {mask}), {value}) == 0"
            return f"({text} & {mask}) == {value}"
        if isinstance(key, ast.Range):
            low, high = literal(key.low.known, under), literal(key.high.known, under)
            if isinstance(under, Bits) and under.width > 128:
                big = self.numbers.big(under.width)
                return f"({big}_cmp({text}, {low}) >= 0 && {big}_cmp({text}, {high}) <= 0)"
            if isinstance(under, Bits) and under.signed:
                text, low, high = (signed(x, under.width) for x in (text, low, high))
            return f"({text} >= {low} && {text} <= {high})"
        if isinstance(key.type, SetOf):
            return self._in_set(key, [(text, type_)])
        return f"({self.composites.equal(text, self.expressions.value(key), under)})"

    def _in_set(self, key: ast.Expr, values: list[tuple[str, Type]]) -> str:
        """C condition that the values are in a value_set."""
        context = self.context
        assert isinstance(key, ast.Name)
        number = id(key.decl)
        made = context.block.members.get(number) or context.instances.global_value_sets.get(number)
        if not isinstance(made, ValueSetInstance):
            raise context.fatal(key.place, "this value_set cannot be found")
        total = sum(words(width_of(t) or 1) or 1 for _, t in values)
        name = context.fresh("set")
        context.out.append(f"uint64_t {name}[{total}];")
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
                context.out.append(f"{name}[{at}] = {part};")
                at += 1
        return f"p4_value_set_match(&I->value_sets[{made.number}], {name})"


def _cyclic(decl: ast.Parser) -> bool:
    """Can a state be reached from itself?"""
    follow: dict[str, list[str]] = {}
    for s in decl.states:
        t = s.transition
        if isinstance(t, ast.Name):
            follow[s.name] = [t.name]
        elif isinstance(t, ast.Select):
            follow[s.name] = [c.state for c in t.cases]
        else:
            follow[s.name] = []
    done: dict[str, bool] = {}  # False: on the path that is being followed
    for start in follow:
        if start in done:
            continue
        stack = [(start, iter(follow[start]))]
        done[start] = False
        while stack:
            name, following = stack[-1]
            for n in following:
                if done.get(n) is False:
                    return True
                if n in follow and n not in done:
                    done[n] = False
                    stack.append((n, iter(follow[n])))
                    break
            else:
                done[name] = True
                stack.pop()
    return False
