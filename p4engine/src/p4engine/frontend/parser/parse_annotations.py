"""Annotations."""

from __future__ import annotations

from p4engine.frontend import ast
from p4engine.frontend.diagnostics import Place
from p4engine.frontend.lexer import STRING
from p4engine.frontend.parser.token_stream import TokenStream


def parse_annotations(tokens: TokenStream) -> list[ast.Annotation]:
    """@name, @name(...), @name[...] and @pragma, as many as there are."""
    result = []
    while tokens.at("@"):
        place = tokens.advance().place
        name = tokens.word("the name of an annotation")
        body: list[str] = []
        if name == "pragma":  # goes to the end of the line
            while not tokens.at_end and tokens.place[:2] == place[:2]:
                body.append(tokens.advance().text)
            name = body.pop(0) if body else name
        elif tokens.at("("):
            body = _body(tokens, f"the annotation @{name} is not closed", place, ")")
        elif tokens.at("["):
            body = _body(tokens, f"the annotation @{name} is not closed", place, "]")
        result.append(ast.Annotation(place, name, body))
    return result


def _body(tokens: TokenStream, unclosed: str, place: Place, closing: str) -> list[str]:
    """The texts of the tokens between brackets, which may contain further brackets."""
    opening = tokens.advance().text
    body: list[str] = []
    level = 1
    while True:
        if tokens.at_end:
            tokens.fail(unclosed, place)
        token = tokens.advance()
        if token.kind != STRING:
            level += (token.text == opening) - (token.text == closing)
            if level == 0:
                return body
        body.append(token.text)
