"""Constants, variables and instances."""

from __future__ import annotations

from collections.abc import Callable

from p4engine.frontend import ast
from p4engine.frontend.parser.parse_expressions import ExpressionParser
from p4engine.frontend.parser.token_stream import TokenStream


class VariableParser:
    """The grammar of declarations of objects, which stand in blocks as well as outside."""

    def __init__(
        self,
        tokens: TokenStream,
        expressions: ExpressionParser,
        declaration: Callable[[], ast.Decl],
    ) -> None:
        """`declaration` parses what stands in the body of an instance."""
        self.tokens, self.expressions, self.types = tokens, expressions, expressions.types
        self.declaration = declaration

    def constant(self) -> ast.Constant:
        """const T name = value;"""
        self.tokens.expect("const")
        target = self.types.type()
        place = self.tokens.place
        name = self.tokens.name("the constant's name")
        target = self.types.dimensions(target)
        self.tokens.expect("=")
        value = self.expressions.expression()
        self.tokens.expect(";", "after the constant")
        return ast.Constant(place, name, target, value)

    def variable(self, annotations: list[ast.Annotation] | None = None) -> ast.Variable:
        """T name = value, without the semicolon"""
        return self._variable(self.types.type(), annotations or [])

    def variable_or_instance(self) -> ast.Variable | ast.Instance:
        """T name = value; or T(arguments) name;"""
        target = self.types.type()
        if self.tokens.at("("):
            return self.instance(target)
        result = self._variable(target, [])
        self.tokens.expect(";", "after the declaration")
        return result

    def _variable(self, target: ast.Node, annotations: list[ast.Annotation]) -> ast.Variable:
        place = self.tokens.place
        name = self.tokens.name("the variable's name")
        target = self.types.dimensions(target)
        value = self.expressions.expression() if self.tokens.accept("=") else None
        return ast.Variable(place, name, target, value, annotations=annotations)

    def instance(self, target: ast.Node) -> ast.Instance:
        """Parse an instance from its arguments on, which follow the type `target`."""
        arguments = self.expressions.arguments()
        place = self.tokens.place
        name = self.tokens.name("the instance's name")
        body = None
        if self.tokens.accept("="):
            self.tokens.expect("{")
            body = self.tokens.repeat(self.declaration)
        self.tokens.expect(";", "after the instance")
        return ast.Instance(place, name, target, arguments, body)
