"""Conditions on what was measured, as checks of a file have them: an operator and a limit."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass

from p4fabric.base.config import units
from p4fabric.base.config.fields import Kind
from p4fabric.base.config.units import PERCENT, Dimension, FieldError, describe

OPERATORS: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "==": operator.eq,
}


@dataclass(frozen=True)
class Condition:
    """A number compared with a limit. `text` is as in the file."""

    text: str
    word: str
    limit: float

    def holds(self, value: float | None) -> bool:
        return value is not None and OPERATORS[self.word](value, self.limit)


@dataclass(frozen=True)
class Bound(Kind):
    """A condition: `>= 9 Gbit/s`; without an operator the value must be equal. `dimension` None: a
    whole number."""

    dimension: Dimension | None = None

    def show(self, value: Condition | None) -> str | None:
        return value.text if value else None

    @property
    def allowed(self) -> str:
        example = self.dimension.example if self.dimension else "100"
        return f"a condition such as '>= {example}' ({', '.join(OPERATORS)}), or the value itself"

    def parse(self, value: object) -> Condition:
        text = str(value).strip()
        found = re.fullmatch(r"(>=|<=|==|>|<)?\s*(.+)", text)
        if isinstance(value, bool) or not isinstance(value, str | int | float) or not found:
            raise FieldError(describe(value), self.allowed)
        word, rest = found[1] or "==", found[2]
        if self.dimension is None:
            try:
                limit: float = int(rest, 0)
            except ValueError:
                raise FieldError(describe(value), self.allowed) from None
        else:
            try:
                limit = float(units.parse(rest, self.dimension, 0, 10**18))
            except FieldError as error:
                raise FieldError(describe(value), self.allowed, error.hint) from None
            if self.dimension is PERCENT:
                limit /= 100
        return Condition(text, word, limit)
