"""Parsers, controls and packages."""

from __future__ import annotations

from collections.abc import Callable

from p4engine.frontend import ast
from p4engine.frontend.diagnostics import Place
from p4engine.frontend.lexer import ID
from p4engine.frontend.parser.parse_annotations import parse_annotations
from p4engine.frontend.parser.parse_expressions import ExpressionParser
from p4engine.frontend.parser.parse_functions import FunctionParser
from p4engine.frontend.parser.parse_parameters import ParameterParser
from p4engine.frontend.parser.parse_statements import StatementParser
from p4engine.frontend.parser.parse_states import StateParser
from p4engine.frontend.parser.parse_tables import TableParser
from p4engine.frontend.parser.parse_variables import VariableParser
from p4engine.frontend.parser.token_stream import TokenStream


class BlockParser:
    """The grammar of parsers, controls and packages, and of what is declared in them."""

    def __init__(
        self,
        tokens: TokenStream,
        expressions: ExpressionParser,
        parameters: ParameterParser,
        variables: VariableParser,
        statements: StatementParser,
        functions: FunctionParser,
        tables: TableParser,
        states: StateParser,
    ) -> None:
        self.tokens, self.expressions, self.parameters = tokens, expressions, parameters
        self.variables, self.statements, self.functions = variables, statements, functions
        self.tables, self.states = tables, states
        self._locals: dict[str, Callable[[], ast.Decl]] = {
            "value_set": self.value_set,
            "const": variables.constant,
            "action": functions.action,
            "table": tables.table,
        }

    def package(self) -> ast.Package:
        """package name<T>(parameters);"""
        self.tokens.expect("package")
        place, name = self._name("the package's name")
        with self.tokens.type_scope():
            type_parameters = self.parameters.type_parameters()
            parameters = self.parameters.parameters()
        self.tokens.expect(";")
        return ast.Package(place, name, type_parameters, parameters)

    def parser(self) -> ast.Parser:
        """parser name<T>(parameters)(constructor's parameters) { locals states }, or its type"""
        self.tokens.expect("parser")
        place, name = self._name("the parser's name")
        with self.tokens.type_scope():
            type_parameters = self.parameters.type_parameters()
            parameters = self.parameters.parameters()
            made = ast.Parser(place, name, type_parameters, parameters, [], [], [])
            if self.tokens.accept(";"):
                made.is_type = True
                return made
            if self.tokens.at("("):
                made.constructor_parameters = self.parameters.parameters()
            self.tokens.expect("{", "before the parser's body")
            self.tokens.repeat(lambda: self._parser_item(made))
        return made

    def _parser_item(self, d: ast.Parser) -> None:
        annotations = parse_annotations(self.tokens)
        if self.tokens.at("state") and self.tokens.peek().kind == ID:
            state = self.states.state()
            state.annotations = annotations
            d.states.append(state)
        else:
            d.locals.append(self._local(annotations))

    def control(self) -> ast.Control:
        """control name<T>(parameters)(constructor's parameters) { locals apply {..} }, or its
        type"""
        self.tokens.expect("control")
        place, name = self._name("the control's name")
        with self.tokens.type_scope():
            type_parameters = self.parameters.type_parameters()
            parameters = self.parameters.parameters()
            made = ast.Control(place, name, type_parameters, parameters, [], [], None)
            if self.tokens.accept(";"):
                made.is_type = True
                return made
            if self.tokens.at("("):
                made.constructor_parameters = self.parameters.parameters()
            self.tokens.expect("{", "before the control's body")
            self.tokens.repeat(lambda: self._control_item(made))
            if made.body is None:
                self.tokens.diagnostics.error(place, f"control {name} has no apply block")
                made.body = ast.Block(place, [])
        return made

    def _control_item(self, d: ast.Control) -> None:
        annotations = parse_annotations(self.tokens)
        if self.tokens.at("apply") and self.tokens.peek().text in ("{", "@"):
            if d.body is not None:
                self.tokens.fail("a control has one apply block", self.tokens.place)
            self.tokens.advance()
            d.body = self.statements.block()
        else:
            if d.body is not None:
                self.tokens.fail(
                    "the apply block must be the last part of a control", self.tokens.place
                )
            d.locals.append(self._local(annotations))

    def _name(self, what: str) -> tuple[Place, str]:
        place = self.tokens.place
        name = self.tokens.name(what)
        self.tokens.add_type(name)
        return place, name

    def _local(self, annotations: list[ast.Annotation]) -> ast.Decl:
        token = self.tokens.token
        parse = self._locals.get(token.text) if token.kind == ID else None
        result = (parse or self.variables.variable_or_instance)()
        result.annotations = annotations
        return result

    def value_set(self) -> ast.ValueSet:
        """value_set<T>(size) name;"""
        self.tokens.expect("value_set")
        self.tokens.expect("<")
        target = self.expressions.types.type()
        self.tokens.expect(">")
        self.tokens.expect("(")
        size = self.expressions.expression()
        self.tokens.expect(")")
        place = self.tokens.place
        name = self.tokens.name("the value set's name")
        self.tokens.expect(";")
        return ast.ValueSet(place, name, target, size)
