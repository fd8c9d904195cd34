"""Macros: their expansion, with # and ##, on tokens."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from p4engine.frontend.diagnostics import Diagnostics, Place
from p4engine.frontend.lexer import ID, NUMBER, OP, STRING, Token

MAX_TOKENS = 4_000_000
_PLACES = ("__LINE__", "__FILE__")


@dataclass(frozen=True)
class Macro:
    """`parameters` is None for an object-like macro."""

    name: str
    parameters: tuple[str, ...] | None
    body: tuple[Token, ...]
    variadic: bool = False


def spell(tokens: list[Token]) -> str:
    """The text of tokens, with a space where there was white space."""
    text = ""
    for token in tokens:
        text += (" " if token.spaced and text else "") + token.text
    return text


def _at(tokens: Iterable[Token], place: Place) -> list[Token]:
    """The tokens with another place. (`_replace` takes four times as long, and large packets have
    some hundred thousand tokens.)"""
    return [Token(kind, text, place, spaced) for kind, text, _, spaced in tokens]


class MacroExpander:
    """Knows the macros and expands them."""

    def __init__(self, diagnostics: Diagnostics) -> None:
        self.diagnostics = diagnostics
        self.macros: dict[str, Macro] = {}

    def concerns(self, tokens: list[Token]) -> bool:
        """True if there is anything to expand."""
        return any(t.kind == ID and (t.text in self.macros or t.text in _PLACES) for t in tokens)

    def expand(self, tokens: list[Token], hidden: frozenset[str] = frozenset()) -> list[Token]:
        """Expand all macros; `hidden` are those being expanded, which stay as they are."""
        out: list[Token] = []
        i, n = 0, len(tokens)
        while i < n:
            token = tokens[i]
            i += 1
            if token.kind != ID:
                out.append(token)
                continue
            if token.text == "__LINE__":
                out.append(Token(NUMBER, str(token.place.line), token.place, token.spaced))
                continue
            if token.text == "__FILE__":
                name = self.diagnostics.files[token.place.file]
                out.append(Token(STRING, f'"{name}"', token.place, token.spaced))
                continue
            macro = self.macros.get(token.text)
            if macro is None or token.text in hidden:
                out.append(token)
                continue
            inside = hidden | {token.text}
            if macro.parameters is None:
                body = self._paste(_at(macro.body, token.place))
                replaced = self.expand(body, inside)
            else:
                if i >= n or tokens[i].text != "(":
                    out.append(token)
                    continue
                arguments, i = self._arguments(tokens, i, token.place)
                replaced = self.expand(
                    self._substitute(macro, arguments, token.place, hidden), inside
                )
            # A function-like macro's name may come out of an expansion and take its arguments from
            # the text behind; that is rare enough to re-scan only then.
            if (
                replaced
                and i < n
                and tokens[i].text == "("
                and replaced[-1].kind == ID
                and replaced[-1].text not in inside
                and (m := self.macros.get(replaced[-1].text))
                and m.parameters is not None
            ):
                arguments, i = self._arguments(tokens, i, token.place)
                replaced = replaced[:-1] + self.expand(
                    self._substitute(m, arguments, token.place, hidden), inside | {m.name}
                )
            out += replaced
            if len(out) > MAX_TOKENS:
                raise self.diagnostics.fatal(token.place, "macro expansion does not end")
        return out

    def _arguments(
        self, tokens: list[Token], i: int, place: Place
    ) -> tuple[list[list[Token]], int]:
        """The arguments of a call whose "(" is tokens[i], and the index behind its ")"."""
        arguments: list[list[Token]] = [[]]
        depth = 0
        while i < len(tokens):
            token = tokens[i]
            i += 1
            if token.text in "([{" and token.kind == OP:
                depth += 1
                if depth == 1:
                    continue
            elif token.text in ")]}" and token.kind == OP:
                depth -= 1
                if depth == 0:
                    return arguments, i
            elif token.text == "," and depth == 1:
                arguments.append([])
                continue
            arguments[-1].append(token)
        raise self.diagnostics.fatal(place, "the arguments of this macro are not closed")

    def _substitute(
        self, macro: Macro, arguments: list[list[Token]], place: Place, hidden: frozenset[str]
    ) -> list[Token]:
        parameters = macro.parameters or ()
        if macro.variadic and len(arguments) >= len(parameters):
            fixed = len(parameters) - 1
            tail: list[Token] = []
            for k, argument in enumerate(arguments[fixed:]):
                tail += ([Token(OP, ",", place)] if k else []) + argument
            arguments = arguments[:fixed] + [tail]
        if not parameters and arguments == [[]]:
            arguments = []
        if len(arguments) != len(parameters):
            self.diagnostics.error(
                place,
                f"macro {macro.name} takes {len(parameters)} arguments, {len(arguments)} given",
            )
            return []
        given = dict(zip(parameters, arguments, strict=True))
        expanded: dict[str, list[Token]] = {}
        out: list[Token] = []
        body = macro.body
        for k, token in enumerate(body):
            if token.text == "#" and k + 1 < len(body) and body[k + 1].text in given:
                continue
            if token.text in given and token.kind == ID:
                if k and body[k - 1].text == "#":
                    text = spell(given[token.text]).replace("\\", "\\\\").replace('"', '\\"')
                    out.append(Token(STRING, f'"{text}"', place, True))
                    continue
                pasted = (k and body[k - 1].text == "##") or (
                    k + 1 < len(body) and body[k + 1].text == "##"
                )
                if pasted:
                    tokens = given[token.text] or [Token(OP, "", place)]
                else:
                    if token.text not in expanded:
                        expanded[token.text] = self.expand(given[token.text], hidden)
                    tokens = expanded[token.text]
                out += _at(tokens, place)
            else:
                out.append(Token(token[0], token[1], place, token[3]))
        return self._paste(out)

    def _paste(self, tokens: list[Token]) -> list[Token]:
        if all(t[1] != "##" and t[1] for t in tokens):
            return tokens
        out: list[Token] = []
        i = 0
        while i < len(tokens):
            token = tokens[i]
            if token.text == "##" and out and i + 1 < len(tokens):
                text = out[-1].text + tokens[i + 1].text
                place, spaced = out[-1].place, out[-1].spaced
                out.pop()
                kind = (
                    ID
                    if text[:1].isalpha() or text[:1] == "_"
                    else NUMBER
                    if text[:1].isdigit()
                    else OP
                )
                out.append(Token(kind, text, place, spaced))
                i += 2
                continue
            out.append(token)
            i += 1
        return [t for t in out if t.text]
