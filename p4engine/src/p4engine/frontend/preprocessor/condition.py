"""The integer expression behind #if and #elif."""

from __future__ import annotations

from p4engine.frontend.diagnostics import Diagnostics, Place
from p4engine.frontend.lexer import Token, parse_number


class Condition:
    """Evaluates an integer expression over tokens by precedence climbing."""

    LEVELS = (
        ("||",),
        ("&&",),
        ("|",),
        ("^",),
        ("&",),
        ("==", "!="),
        ("<", ">", "<=", ">="),
        ("<<", ">>"),
        ("+", "-"),
        ("*", "/", "%"),
    )

    def __init__(self, tokens: list[Token], diagnostics: Diagnostics, place: Place) -> None:
        self.diagnostics, self.place, self.i = diagnostics, place, 0
        self.tokens: list[str] = []
        for token in tokens:  # join > >
            if token.text == ">" and self.tokens and self.tokens[-1] == ">" and not token.spaced:
                self.tokens[-1] = ">>"
            else:
                self.tokens.append(token.text)

    def value(self) -> int:
        """The value of all tokens; 0 for what was reported."""
        result = self._ternary()
        if self.i < len(self.tokens):
            self.diagnostics.error(self.place, f"unexpected {self.tokens[self.i]!r} in a condition")
        return result

    def _peek(self) -> str:
        return self.tokens[self.i] if self.i < len(self.tokens) else ""

    def _ternary(self) -> int:
        condition = self._level(0)
        if self._peek() != "?":
            return condition
        self.i += 1
        yes = self._ternary()
        if self._peek() != ":":
            self.diagnostics.error(self.place, "':' is missing in a condition")
            return 0
        self.i += 1
        no = self._ternary()
        return yes if condition else no

    def _level(self, level: int) -> int:
        if level == len(self.LEVELS):
            return self._unary()
        left = self._level(level + 1)
        while self._peek() in self.LEVELS[level]:
            op = self._peek()
            self.i += 1
            right = self._level(level + 1)
            left = self._apply(op, left, right)
        return left

    def _apply(self, op: str, a: int, b: int) -> int:
        if op in "/%" and b == 0:
            self.diagnostics.error(self.place, "division by zero in a condition")
            return 0
        if op in ("<<", ">>") and not 0 <= b < 4096:
            self.diagnostics.error(self.place, "bad shift in a condition")
            return 0
        return {
            "||": lambda: int(bool(a or b)),
            "&&": lambda: int(bool(a and b)),
            "|": lambda: a | b,
            "^": lambda: a ^ b,
            "&": lambda: a & b,
            "==": lambda: int(a == b),
            "!=": lambda: int(a != b),
            "<": lambda: int(a < b),
            ">": lambda: int(a > b),
            "<=": lambda: int(a <= b),
            ">=": lambda: int(a >= b),
            "<<": lambda: a << b,
            ">>": lambda: a >> b,
            "+": lambda: a + b,
            "-": lambda: a - b,
            "*": lambda: a * b,
            "/": lambda: int(a / b),
            "%": lambda: a - b * int(a / b),
        }[op]()

    def _unary(self) -> int:
        text = self._peek()
        self.i += 1
        if text == "!":
            return int(not self._unary())
        if text == "-":
            return -self._unary()
        if text == "+":
            return self._unary()
        if text == "~":
            return ~self._unary()
        if text == "(":
            result = self._ternary()
            if self._peek() != ")":
                self.diagnostics.error(self.place, "')' is missing in a condition")
            self.i += 1
            return result
        if text[:1].isdigit():
            number = parse_number(text) or parse_number(text.rstrip("uUlL"))
            if number is None:
                self.diagnostics.error(self.place, f"bad number {text!r} in a condition")
                return 0
            return number[0]
        if text == "true":
            return 1
        if text[:1].isalpha() or text[:1] == "_":
            return 0  # as in C: a name that is no macro
        self.diagnostics.error(self.place, f"unexpected {text or 'end'!r} in a condition")
        return 0
