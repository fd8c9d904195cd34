"""C text of numbers: temporaries, literals, and the conversion between widths.

Every value of a P4 integer is kept reduced to its width; `norm` is where a C result is cut back
to it.
"""

from __future__ import annotations

from collections.abc import Sequence

from p4engine.frontend.diagnostics import Diagnostics, Fatal, Place
from p4engine.frontend.fold import Symbol
from p4engine.frontend.types import BOOL, ERROR, INT, Bits, EnumType, Type, underlying, width_of
from p4engine.middle.instantiate import BlockInstance, Instances
from p4engine.middle.layout import Layout, c_int, words


class TextEmitter:
    """State of the C function being written: `out` is its current list of statements."""

    diagnostics: Diagnostics
    instances: Instances
    layout: Layout
    out: list[str]
    env: dict  # id(declaration) -> C text of a variable
    block: BlockInstance
    depth: int

    def fatal(self, place: Place, message: str) -> Fatal:
        return self.diagnostics.fatal(place, message)

    # ---- temporaries ----

    def temp(self, type_: Type, init: str | None = None) -> str:
        return self.temp_c(self.layout.c_type(type_), init)

    def temp_c(self, c_type: str, init: str | None = None) -> str:
        self.temps += 1
        name = f"t{self.depth}_{self.temps}x"
        self.out.append(f"{c_type} {name};" if init is None else f"{c_type} {name} = {init};")
        return name

    def fresh(self, prefix: str) -> str:
        self.labels += 1
        return f"{prefix}_{self.labels}"

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
                name = self.temp(type_, text)
                parts += [f"{name}.w[{i}]" for i in range(words(width))]
        return parts

    @staticmethod
    def zero(type_: Type) -> str:
        under = underlying(type_)
        if isinstance(under, Bits):
            return "0" if under.width <= 128 else "{{0}}"
        if under in (BOOL, ERROR) or isinstance(under, EnumType):
            return "0"
        return "{0}"

    # ---- widths ----

    @staticmethod
    def compute(width: int) -> str:
        """The unsigned C type to compute in."""
        return "uint32_t" if width <= 32 else "uint64_t" if width <= 64 else "p4_u128"

    @staticmethod
    def mask(width: int) -> str:
        if width <= 64:
            value = (1 << width) - 1
            return f"{value}u" if width <= 32 else f"{value}ull"
        high = (1 << (width - 64)) - 1
        return f"P4_U128({high}ull, {2**64 - 1}ull)"

    def norm(self, text: str, width: int) -> str:
        """Reduce a C integer to `width` bits in its container."""
        c = c_int(width)
        if width in (8, 16, 32, 64, 128):
            return f"(({c})({text}))"
        return f"(({c})(({text}) & {self.mask(width)}))"

    def signed(self, text: str, width: int) -> str:
        """`text` of int<width>, width <= 128, as a signed C integer."""
        bits = 32 if width <= 32 else 64 if width <= 64 else 128
        return f"P4_SX{bits}({text}, {width})"

    def literal(self, value, type_: Type) -> str:
        under = underlying(type_)
        if isinstance(value, Symbol):
            return str(value.number)
        if under == BOOL or isinstance(value, bool):
            return "1" if value else "0"
        if isinstance(under, EnumType) or under == ERROR:
            return str(int(value))
        if under == INT:
            under = Bits(64)
        value = int(value) & ((1 << under.width) - 1)
        if under.width <= 64:
            return str(value) if value < 2**31 else f"{value}u" if value < 2**32 else f"{value}ull"
        if under.width <= 128:
            return f"P4_U128({value >> 64}ull, {value & (2**64 - 1)}ull)"
        limbs = ", ".join(
            f"{value >> (64 * i) & (2**64 - 1)}ull" for i in range(words(under.width))
        )
        self.layout.c_type(under)
        return f"(({c_int(under.width)}){{{{{limbs}}}}})"

    def big(self, width: int) -> str:
        """The prefix of the functions for integers of this width (above 128 bits)."""
        self.layout.c_type(Bits(width))
        return c_int(width)

    def convert(self, text: str, have: Bits, want: Bits) -> str:
        """(want) text: truncate or extend, by the sign of `have`."""
        a, b = have.width, want.width
        if a == b:
            return text
        if a <= 128 and b <= 128:
            if have.signed and a < b and a:
                return self.norm(f"({self.compute(b)}){self.signed(text, a)}", b)
            return f"(({c_int(b)})({text}))" if a < b else self.norm(text, b)
        if b <= 128:
            return self.norm(f"{self.big(a)}_low({text})", b)
        big = self.big(b)
        if a <= 128:
            if have.signed and a:
                return f"{big}_mask({big}_from_signed((__int128){self.signed(text, a)}), {b})"
            return f"{big}_from({text})"
        source = self.temp(have, text)
        if a < b and have.signed:
            return f"{big}_mask({big}_of_signed({source}.w, {words(a)}, {a}), {b})"
        return f"{big}_mask({big}_of({source}.w, {words(a)}), {b})"
