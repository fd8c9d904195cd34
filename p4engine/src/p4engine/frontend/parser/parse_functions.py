"""Functions, actions, and externs."""

from __future__ import annotations

from p4engine.frontend import ast
from p4engine.frontend.lexer import ID
from p4engine.frontend.parser.parse_annotations import parse_annotations
from p4engine.frontend.parser.parse_parameters import ParameterParser
from p4engine.frontend.parser.parse_statements import StatementParser
from p4engine.frontend.parser.parse_types import TypeParser
from p4engine.frontend.parser.parse_variables import VariableParser
from p4engine.frontend.parser.token_stream import TokenStream


class FunctionParser:
    """The grammar of what can be called."""

    def __init__(
        self,
        tokens: TokenStream,
        types: TypeParser,
        parameters: ParameterParser,
        variables: VariableParser,
        statements: StatementParser,
    ) -> None:
        self.tokens, self.types, self.parameters = tokens, types, parameters
        self.variables, self.statements = variables, statements

    def action(self) -> ast.Action:
        """action name(parameters) { statements }"""
        self.tokens.expect("action")
        place = self.tokens.place
        name = self.tokens.name("the action's name")
        parameters = self.parameters.parameters()
        return ast.Action(place, name, parameters, self.statements.block())

    def extern(self) -> ast.ExternObject | ast.Function:
        """extern N { methods } or extern T name(parameters);"""
        self.tokens.expect("extern")
        is_object = self.tokens.token.kind == ID and self.tokens.peek().text in ("{", "<")
        if not is_object or self.tokens.ahead(self._function_follows):
            return self._prototype()
        place = self.tokens.place
        name = self.tokens.name("the extern's name")
        self.tokens.add_type(name)
        with self.tokens.type_scope():
            type_parameters = self.parameters.type_parameters()
            self.tokens.expect("{")
            methods = self.tokens.repeat(lambda: self._method(name))
        return ast.ExternObject(place, name, type_parameters, methods)

    def _function_follows(self) -> bool:
        """True at `extern`'s type if `type name<..>(` follows (a function, not an object)."""
        self.types.type()
        return self.tokens.token.kind == ID and self.tokens.peek().text in ("(", "<")

    def _method(self, of: str) -> ast.Function:
        """A method, or a constructor, of the extern object named `of`."""
        annotations = parse_annotations(self.tokens)
        abstract = self.tokens.accept("abstract")
        if self.tokens.token.text == of and self.tokens.peek().text == "(":
            place = self.tokens.advance().place
            parameters = self.parameters.parameters()
            result = ast.TypeBase(place, "void")
            made = ast.Function(place, of, [], result, parameters, None)
            self.tokens.expect(";")
        else:
            made = self._prototype()
            made.abstract = abstract
        made.annotations = annotations
        return made

    def _prototype(self) -> ast.Function:
        """T f<T>(parameters);"""
        with self.tokens.type_scope():
            self._find_type_parameters()
            result = self.types.type()
            place = self.tokens.place
            name = self.tokens.name("the function's name")
            type_parameters = self.parameters.type_parameters()
            parameters = self.parameters.parameters()
        self.tokens.expect(";", "after the function's prototype")
        return ast.Function(place, name, type_parameters, result, parameters, None)

    def _find_type_parameters(self) -> None:
        """Make the type parameters, which stand behind the result type, known to that type."""
        tokens, i = self.tokens.tokens, self.tokens.position
        while tokens[i].text not in ("(", ";", "{", "}") and i < len(tokens) - 1:
            if tokens[i].kind == ID and tokens[i + 1].text == "<":
                j = self._names_end(i + 2)
                if tokens[j].text == ">" and tokens[j + 1].text == "(":
                    self._add_types(i + 2, j)
            i += 1

    def _names_end(self, i: int) -> int:
        """The end of the list of names that begins at token `i`."""
        tokens = self.tokens.tokens
        while tokens[i].kind == ID or tokens[i].text == ",":
            i += 1
        return i

    def _add_types(self, begin: int, end: int) -> None:
        for token in self.tokens.tokens[begin:end]:
            if token.kind == ID:
                self.tokens.add_local_type(token.text)

    def function_or_instance(self) -> ast.Function | ast.Instance:
        """T f<U>(parameters) { statements }, or T(arguments) name;"""
        tokens = self.tokens
        start = tokens.position
        if not tokens.at_type() and tokens.token.kind != ID:
            tokens.fail("expected a declaration")
        with tokens.type_scope():
            # A generic function's result may be its own type parameter.
            if tokens.peek().kind == ID and tokens.peek(2).text == "<" and tokens.token.kind == ID:
                self._add_types(start + 3, self._names_end(start + 3))
            target = self.types.type()
            if not tokens.at("("):
                return self._function(target, start)
        return self.variables.instance(target)

    def _function(self, result: ast.Node, start: int) -> ast.Function:
        """Parse a function from its name on; the result type began at token `start`."""
        tokens = self.tokens
        if tokens.token.kind != ID or tokens.peek().text not in ("(", "<"):
            variable = tokens.token.kind == ID and tokens.peek().text in ("=", ";")
            if tokens.position == start + 1 and isinstance(result, ast.TypeName):
                if variable:
                    tokens.fail("variables are not allowed here; use const", result.place)
                tokens.fail(f"expected a declaration, found '{result.name}'", result.place)
            if variable:
                tokens.fail("variables cannot be declared at the top level; use const")
            tokens.fail("expected a declaration")
        place = tokens.place
        name = tokens.name("the function's name")
        type_parameters = self.parameters.type_parameters()
        parameters = self.parameters.parameters()
        body = self.statements.block()
        return ast.Function(place, name, type_parameters, result, parameters, body)
