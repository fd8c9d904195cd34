"""The parser: tokens to a syntax tree.

`Parser` wires up the parts, which read from one stream of tokens. After a syntax error the parser
skips to the next statement (or declaration) and goes on, so that one run reports several; names of
types stay known, because the skipped text is most often a body.
"""

from __future__ import annotations

from collections.abc import Callable

from p4engine.frontend import ast
from p4engine.frontend.diagnostics import Diagnostics
from p4engine.frontend.lexer import ID, Token
from p4engine.frontend.parser.parse_annotations import parse_annotations
from p4engine.frontend.parser.parse_blocks import BlockParser
from p4engine.frontend.parser.parse_expressions import ExpressionParser
from p4engine.frontend.parser.parse_functions import FunctionParser
from p4engine.frontend.parser.parse_keysets import KeysetParser
from p4engine.frontend.parser.parse_named_types import NamedTypeParser
from p4engine.frontend.parser.parse_parameters import ParameterParser
from p4engine.frontend.parser.parse_statements import StatementParser
from p4engine.frontend.parser.parse_states import StateParser
from p4engine.frontend.parser.parse_tables import TableParser
from p4engine.frontend.parser.parse_variables import VariableParser
from p4engine.frontend.parser.token_stream import SyntaxFailure, TokenStream


class Parser:
    """The whole grammar."""

    def __init__(self, tokens: list[Token], diagnostics: Diagnostics) -> None:
        stream = self.tokens = TokenStream(tokens, diagnostics)
        expressions = ExpressionParser(stream)
        keysets = KeysetParser(stream, expressions)
        parameters = ParameterParser(stream, expressions)
        variables = VariableParser(stream, expressions, self.declaration)
        statements = StatementParser(stream, expressions, variables)
        functions = self.functions = FunctionParser(
            stream, expressions.types, parameters, variables, statements
        )
        named_types = NamedTypeParser(stream, expressions, parameters, self.declaration)
        tables = TableParser(stream, expressions, keysets)
        states = StateParser(stream, expressions, keysets, statements)
        blocks = BlockParser(
            stream, expressions, parameters, variables, statements, functions, tables, states
        )
        self._keywords: dict[str, Callable[[], ast.Decl]] = {
            "const": variables.constant,
            "extern": functions.extern,
            "action": functions.action,
            "parser": blocks.parser,
            "control": blocks.control,
            "header": named_types.composite,
            "header_union": named_types.composite,
            "struct": named_types.composite,
            "enum": named_types.enum,
            "error": named_types.error,
            "match_kind": named_types.match_kind,
            "typedef": named_types.typedef,
            "type": named_types.typedef,
            "package": blocks.package,
            "value_set": blocks.value_set,
        }

    def program(self) -> ast.Program:
        """All tokens."""
        place = self.tokens.place
        declarations = []
        while not self.tokens.at_end:
            start = self.tokens.position
            if self.tokens.accept(";"):
                continue
            try:
                declarations.append(self.declaration())
            except SyntaxFailure:
                self.tokens.skip_declaration(start)
        return ast.Program(place, declarations)

    def declaration(self) -> ast.Decl:
        """A declaration as at the top level."""
        annotations = parse_annotations(self.tokens)
        token, after = self.tokens.token, self.tokens.peek()
        parse = self._keywords.get(token.text) if token.kind == ID else None
        if (token.text == "type" and after.kind != ID) or (
            token.text in ("error", "match_kind") and after.text != "{"
        ):
            parse = None
        result = (parse or self.functions.function_or_instance)()
        result.annotations = annotations
        return result


def parse(tokens: list[Token], diagnostics: Diagnostics) -> ast.Program:
    """The program's syntax tree; errors are in `diagnostics`."""
    return Parser(tokens, diagnostics).program()
