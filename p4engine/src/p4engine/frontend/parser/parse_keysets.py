"""Key sets, matched against a value: labels of a select, and keys of a table's entry."""

from __future__ import annotations

from p4engine.frontend import ast
from p4engine.frontend.parser.parse_expressions import ExpressionParser
from p4engine.frontend.parser.token_stream import TokenStream


class KeysetParser:
    """The grammar of single values, masks, ranges, and tuples of them."""

    def __init__(self, tokens: TokenStream, expressions: ExpressionParser) -> None:
        self.tokens, self.expressions = tokens, expressions

    def keyset(self) -> ast.Expr:
        """One element of a select label or of an entry's keys."""
        if self.tokens.at("_", "default") and self.tokens.peek().text in (",", ":", ")"):
            return ast.DontCare(self.tokens.advance().place)
        start = self.tokens.place
        left = self.expressions.expression()
        if isinstance(left, ast.DontCare):
            self.tokens.fail("'...' is no value to compare with; '_' stands for any", start)
        place = self.tokens.place
        if self.tokens.accept("&&&"):
            return ast.Mask(place, left, self.expressions.expression())
        if self.tokens.accept(".."):
            return ast.Range(place, left, self.expressions.expression())
        return left

    def keysets(self) -> list[ast.Expr]:
        """A label: one element, or several in parentheses."""
        if self.tokens.at("("):
            # (a, b) : ... is a tuple; (a) + b : ... is an expression
            items = self.tokens.attempt(self._tuple_before_colon)
            if items is not None:
                return items
            if self._tuple_ahead():
                return self._tuple()
        return [self.keyset()]

    def _tuple_before_colon(self) -> list[ast.Expr] | None:
        items = self._tuple()
        return items if self.tokens.at(":") else None

    def _tuple_ahead(self) -> bool:
        """True if the parenthesis that opens here is followed by `:` where it closes."""
        depth, i = 0, self.tokens.position
        tokens = self.tokens.tokens
        while i < len(tokens):
            if tokens[i].text == "(":
                depth += 1
            elif tokens[i].text == ")":
                depth -= 1
                if depth == 0:
                    return tokens[min(i + 1, len(tokens) - 1)].text == ":"
            i += 1
        return False

    def _tuple(self) -> list[ast.Expr]:
        self.tokens.expect("(")
        items = []
        while not self.tokens.at(")"):
            items.append(self.keyset())
            if not self.tokens.accept(","):
                break
        self.tokens.expect(")")
        return items
