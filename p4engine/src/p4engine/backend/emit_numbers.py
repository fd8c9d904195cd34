"""C text of numbers: literals, the conversion between widths, and 64-bit words."""

from __future__ import annotations

from collections.abc import Sequence

from p4engine.backend.c_text import WORD, compute, norm, signed
from p4engine.backend.context import Context
from p4engine.frontend.ast import Const, Symbol
from p4engine.frontend.types import BOOL, ERROR, INT, Bits, EnumType, Type, underlying, width_of
from p4engine.middle.instantiate import known_number
from p4engine.middle.layout import c_int, words


class NumberEmitter:
    """Numbers of any width; above 128 bits they are structs of limbs."""

    def __init__(self, context: Context) -> None:
        self.context = context

    def literal(self, value: Const, type_: Type) -> str:
        """A compile-time scalar."""
        under = underlying(type_)
        if isinstance(value, Symbol):
            return str(value.number)
        if under == BOOL or isinstance(value, bool):
            return "1" if value else "0"
        if isinstance(under, EnumType) or under == ERROR:
            return str(known_number(value))
        if under == INT:
            under = Bits(64)
        assert isinstance(under, Bits)
        number = known_number(value) & ((1 << under.width) - 1)
        if under.width <= 64:
            tail = "" if number < 2**31 else "u" if number < 2**32 else "ull"
            return f"{number}{tail}"
        if under.width <= 128:
            return f"P4_U128({number >> 64}ull, {number & WORD}ull)"
        limbs = ", ".join(f"{number >> (64 * i) & WORD}ull" for i in range(words(under.width)))
        return f"(({self.big(under.width)}){{{{{limbs}}}}})"

    def big(self, width: int) -> str:
        """The prefix of the functions for integers of this width (above 128 bits)."""
        self.context.layout.c_type(Bits(width))
        return c_int(width)

    def convert(self, text: str, have: Bits, want: Bits) -> str:
        """(want) text: truncate or extend, by the sign of `have`."""
        a, b = have.width, want.width
        if a == b:
            return text
        if a <= 128 and b <= 128:
            if have.signed and a < b and a:
                return norm(f"({compute(b)}){signed(text, a)}", b)
            return f"(({c_int(b)})({text}))" if a < b else norm(text, b)
        if b <= 128:
            return norm(f"{self.big(a)}_low({text})", b)
        big = self.big(b)
        if a <= 128:
            if have.signed and a:
                return f"{big}_mask({big}_from_signed((__int128){signed(text, a)}), {b})"
            return f"{big}_from({text})"
        source = self.context.temp(have, text)
        if a < b and have.signed:
            return f"{big}_mask({big}_of_signed({source}.w, {words(a)}, {a}), {b})"
        return f"{big}_mask({big}_of({source}.w, {words(a)}), {b})"

    def saturated(self, text: str, type_: Type) -> str:
        """The value `text` of an unsigned type as at most 64 bits, larger values saturated."""
        under = underlying(type_)
        width = under.width if isinstance(under, Bits) else 64
        if isinstance(under, Bits) and under.signed and width <= 64:
            return f"((uint64_t){signed(text, width)})"
        if width <= 64:
            return text
        if width <= 128:
            return f"P4_SATURATE64({text})"
        return f"{self.big(width)}_small({text})"

    # ---- 64-bit words ----

    def words_of(self, fields: Sequence[tuple[str, Type]]) -> list[str]:
        """The C texts of the 64-bit words, lowest first, of scalar values one after the other."""
        parts: list[str] = []
        for text, type_ in fields:
            width = width_of(type_) or 1
            if width <= 64:
                parts.append(f"(uint64_t)({text})")
            elif width <= 128:
                parts += [f"(uint64_t)({text})", f"(uint64_t)((p4_u128)({text}) >> 64)"]
            else:
                name = self.context.temp(type_, text)
                parts += [f"{name}.w[{i}]" for i in range(words(width))]
        return parts

    def cut(self, base: str, at: int, low: int, type_: Type) -> str:
        """A scalar from the bits of the C array of words `base` that begin at bit `low` of word
        `at` or behind it."""
        width = width_of(type_) or 1
        parts = []
        for i in range(words(width) or 1):
            word, shift = divmod(low + 64 * i, 64)
            text = f"({base}[{at + word}] >> {shift})"
            used = min(64, width - 64 * i)
            if shift + used > 64:
                text = f"({text} | {base}[{at + word + 1}] << {64 - shift})"
            parts.append(norm(text, used) if used < 64 else text)
        under = underlying(type_)
        if under == BOOL:
            return f"(uint8_t)({parts[0]} != 0)"
        if width <= 64:
            return f"({self.context.layout.c_type(type_)}){parts[0]}"
        if width <= 128:
            return f"P4_U128({parts[1]}, {parts[0]})"
        return f"(({self.big(width)}){{{{{', '.join(parts)}}}}})"

    def from_words(self, base: str, at: int, type_: Type) -> str:
        """A value of `type_` from the 64-bit words of the C array `base`, from number `at` on."""
        under = underlying(type_)
        width = width_of(under) or 1
        if under == BOOL:
            return f"(uint8_t)({base}[{at}] != 0)"
        if width <= 64:
            return f"({self.context.layout.c_type(type_)}){base}[{at}]"
        if width <= 128:
            return f"P4_U128({base}[{at + 1}], {base}[{at}])"
        return f"{self.big(width)}_of({base} + {at}, {words(width)})"
