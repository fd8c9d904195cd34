"""Annotations."""

from __future__ import annotations

from p4engine.frontend import ast
from p4engine.frontend.diagnostics import Place
from p4engine.frontend.lexer import ID, STRING
from p4engine.frontend.parser.token_stream import TokenStream

WITHOUT_BODY = ("defaultonly", "hidden", "tableonly")


def parse_annotations(tokens: TokenStream) -> list[ast.Annotation]:
    """@name, @name(...), @name[...] and @pragma, as many as there are."""
    result: list[ast.Annotation] = []
    while tokens.at("@"):
        place = tokens.advance().place
        name = tokens.word("the name of an annotation")
        made = ast.Annotation(place, name, [])
        if name == "pragma":  # goes to the end of the line
            while not tokens.at_end and tokens.place[:2] == place[:2]:
                made.body.append(tokens.advance().text)
            made.name = made.body.pop(0) if made.body else name
        elif tokens.at("("):
            made.body = _body(tokens, f"the annotation @{name} is not closed", place, ")")
        elif tokens.at("["):
            start = tokens.position + 1
            made.structured = True
            made.body = _body(tokens, f"the annotation @{name} is not closed", place, "]")
            _check_structure(tokens, made, start, tokens.position - 1)
        _check(tokens, made, result)
        result.append(made)
    return result


def string_value(annotation: ast.Annotation) -> str:
    """The text that an annotation such as @name has as its argument."""
    parts = [t for t in annotation.body if t not in ("++", "(", ")")]
    return "".join(t[1:-1] if t[:1] == t[-1:] == '"' and len(t) > 1 else t for t in parts)


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


def _check(tokens: TokenStream, made: ast.Annotation, others: list[ast.Annotation]) -> None:
    """Report what an element cannot have beside its other annotations, or without an argument."""
    same = [a for a in others if a.name == made.name]
    message = ""
    if same and same[0].structured != made.structured:
        message = f"@{made.name} is used with (..) and with [..] on the same element"
    elif same and (made.structured or made.name == "name"):
        message = f"the element has @{made.name} already"
    elif made.name in ("name", "deprecated", "match") and not made.body:
        message = f"@{made.name} needs an argument"
    elif made.name in WITHOUT_BODY and made.body:
        message = f"@{made.name} takes no argument"
    if message:
        tokens.report(made.place, message)


def _check_structure(tokens: TokenStream, made: ast.Annotation, start: int, end: int) -> None:
    """The body of @name[..] is a list of expressions, or of different names with values."""
    keys: set[str] = set()
    plain = False
    level, first = 0, True
    for i in range(start, end):
        token = tokens.tokens[i]
        if first and token.kind == ID and tokens.tokens[i + 1].text == "=":
            if token.text in keys:
                tokens.report(token.place, f"@{made.name} has the key '{token.text}' twice")
            keys.add(token.text)
        elif first:
            plain = True
        level += token.kind != STRING and (token.text in "([{") - (token.text in ")]}")
        first = level == 0 and token.text == ","
    if keys and plain:
        tokens.report(made.place, f"@{made.name} mixes values with and without a key")
