"""States of parsers, and their transitions."""

from __future__ import annotations

from p4engine.frontend import ast
from p4engine.frontend.diagnostics import Place
from p4engine.frontend.parser.parse_expressions import ExpressionParser
from p4engine.frontend.parser.parse_keysets import KeysetParser
from p4engine.frontend.parser.parse_statements import StatementParser
from p4engine.frontend.parser.token_stream import TokenStream


class StateParser:
    """The grammar of states."""

    def __init__(
        self,
        tokens: TokenStream,
        expressions: ExpressionParser,
        keysets: KeysetParser,
        statements: StatementParser,
    ) -> None:
        self.tokens, self.expressions = tokens, expressions
        self.keysets, self.statements = keysets, statements

    def state(self) -> ast.State:
        """state name { statements transition next; }"""
        self.tokens.expect("state")
        place = self.tokens.place
        name = self.tokens.name("the state's name")
        self.tokens.expect("{", "before the state's body")
        statements: list[ast.Node] = []
        transition = None
        while not self.tokens.at("}"):
            if self.tokens.at_end:
                self.tokens.fail("expected '}' at the end of the state")
            if self.tokens.accept("transition"):
                transition = self._transition()
                if not self.tokens.at("}"):
                    self.tokens.fail("the transition must be the last statement of a state")
                break
            with self.tokens.recovery():
                statements.append(self.statements.statement())
        self.tokens.expect("}")
        return ast.State(place, name, statements, transition)

    def _transition(self) -> ast.Name | ast.Select:
        place = self.tokens.place
        if self.tokens.accept("select"):
            return self._select(place)
        name = self.tokens.name("a state")
        self.tokens.expect(";", "after the transition")
        return ast.Name(place, name)

    def _select(self, place: Place) -> ast.Select:
        self.tokens.expect("(")
        values = []
        while not self.tokens.at(")"):
            values.append(self.expressions.expression())
            if not self.tokens.accept(","):
                break
        self.tokens.expect(")", "after the values of the select")
        self.tokens.expect("{")
        return ast.Select(place, values, self.tokens.repeat(self._case))

    def _case(self) -> ast.SelectCase:
        place = self.tokens.place
        keys = self.keysets.keysets()
        self.tokens.expect(":", "after a label of the select")
        target = self.tokens.name("a state")
        self.tokens.expect(";", "after the state")
        return ast.SelectCase(place, keys, target)
