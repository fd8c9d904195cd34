"""Parameters and type parameters."""

from __future__ import annotations

from p4engine.frontend import ast
from p4engine.frontend.parser.parse_annotations import parse_annotations
from p4engine.frontend.parser.parse_expressions import ExpressionParser
from p4engine.frontend.parser.token_stream import TokenStream


class ParameterParser:
    """The grammar of what stands behind the name of a function, a block or a package."""

    def __init__(self, tokens: TokenStream, expressions: ExpressionParser) -> None:
        self.tokens, self.expressions = tokens, expressions

    def type_parameters(self) -> list[ast.TypeParameter]:
        """<T, U> if present; they join the innermost scope of type names."""
        result = []
        if self.tokens.accept("<"):
            while not self.tokens.at(">"):
                place = self.tokens.place
                name = self.tokens.name("a type parameter")
                self.tokens.add_local_type(name)
                result.append(ast.TypeParameter(place, name))
                if not self.tokens.accept(","):
                    break
            self.tokens.expect(">", "after the type parameters")
        return result

    def parameters(self) -> list[ast.Parameter]:
        """(in bit<8> a, out T b)"""
        self.tokens.expect("(", "before the parameters")
        result = []
        while not self.tokens.at(")"):
            result.append(self._parameter())
            if not self.tokens.accept(","):
                break
        self.tokens.expect(")", "after the parameters")
        return result

    def _parameter(self) -> ast.Parameter:
        annotations = parse_annotations(self.tokens)
        direction = ""
        if self.tokens.at("in", "out", "inout"):
            direction = self.tokens.advance().text
        target = self.expressions.types.type()
        place = self.tokens.place
        name = self.tokens.name("the parameter's name")
        target = self.expressions.types.dimensions(target)
        default = self.expressions.expression() if self.tokens.accept("=") else None
        return ast.Parameter(place, name, direction, target, default, annotations=annotations)
