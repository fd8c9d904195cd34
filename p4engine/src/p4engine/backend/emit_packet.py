"""Headers from packets and into packets: extraction, lookahead and emission.

Fields are read one statement each; runs of equal fields then differ only in numbers and become
loops (reroll).
"""

from __future__ import annotations

from p4engine.backend.c_text import norm
from p4engine.backend.context import Context
from p4engine.backend.emit_composite import CompositeEmitter, flat
from p4engine.backend.emit_expr import ExpressionEmitter
from p4engine.backend.emit_fields import FieldEmitter, Fields
from p4engine.backend.emit_left import LeftEmitter, is_next
from p4engine.backend.emit_numbers import NumberEmitter
from p4engine.backend.reroll import reroll
from p4engine.frontend import ast
from p4engine.frontend.diagnostics import Place
from p4engine.frontend.spelling import spell
from p4engine.frontend.types import (
    Composite,
    Stack,
    Tuple,
    Type,
    Varbit,
    is_flexible,
    is_header,
    is_union,
    underlying,
    width_of,
)


class PacketEmitter:
    """packet_in's extract and lookahead, packet_out's emit."""

    def __init__(
        self,
        context: Context,
        numbers: NumberEmitter,
        composites: CompositeEmitter,
        left: LeftEmitter,
        expressions: ExpressionEmitter,
        fields: FieldEmitter,
    ) -> None:
        self.context, self.numbers, self.composites = context, numbers, composites
        self.left, self.expressions, self.fields = left, expressions, fields

    # ---- reading ----

    def _load(self, base: str, offset: int, type_: Type) -> str:
        """C expression of the `type_` at bit `offset` behind the byte pointer `base`."""
        under = underlying(type_)
        width = width_of(under) or 0
        first, shift = offset // 8, offset % 8
        size = (shift + width + 7) // 8
        if width == 0:
            return "0"
        if width > 128:
            return f"{self.numbers.big(width)}_load({base}, {offset}, {width})"
        if size > 8:
            return f"p4_load_wide({base}, {offset}, {width})"
        text = f"p4_load{8 * size}({base} + {first})"
        right = 8 * size - shift - width
        if right:
            text = f"({text} >> {right})"
        if shift or right:
            return norm(text, width)
        if 8 * size in (8, 16, 32, 64):
            return text
        return f"({self.context.layout.c_type(under)}){text}"

    def _read_fields(self, target: str, type_: Type) -> list[str]:
        """Statements that fill the fixed part of `target` from the bytes at `p`."""
        made, offset = [], 0
        for text, under in self.composites.leaves(target, type_):
            if isinstance(under, Varbit):
                continue
            made.append(f"{text} = {self._load('p', offset, under)};")
            offset += width_of(under) or 0
        return made

    def extract(self, call: ast.MethodCall, target: ast.Expr, bits: ast.Expr | None) -> None:
        """packet.extract(header) and packet.extract(header, bits)."""
        type_ = underlying(target.type)
        with self.context.trace.extracted(call.place, target, type_):
            name = self.left.left(target)
            self._extract_fields(call.place, name, type_, bits)
            self.context.out.append(f"{name}.valid = 1;")
            if isinstance(target, ast.Member):
                self._extracted_member(target, name)

    def _extracted_member(self, target: ast.Member, name: str) -> None:
        """An element of a stack or a member of a union has been filled."""
        filled: ast.Expr = target
        if is_union(target.base.type):
            self.left.only_valid(target, name)
            filled = target.base
        if is_next(filled):
            self.context.out.append(f"{self.left.left(filled.base)}.next++;")

    def _extract_fields(self, place: Place, name: str, type_: Type, bits: ast.Expr | None) -> None:
        context = self.context
        leaves = self.composites.leaves(name, type_)
        sizes = [t for _, t in leaves if not isinstance(t, Varbit)]
        fixed = sum(width_of(t) or 0 for t in sizes)
        if fixed % 8 and len(sizes) == len(leaves) and not is_flexible(type_):
            raise context.fatal(
                place, f"{type_} has {fixed} bits; only whole bytes can be extracted"
            )
        if len(sizes) < len(leaves):
            assert bits is not None, "the size of a varbit is given"
            self._extract_variable(place, name, type_, fixed, self.expressions.small(bits))
            return
        size = (fixed + 7) // 8
        if size:
            error = context.too_short(str(size))
            context.out.append(f"if (__builtin_expect(end - p < {size}, 0)) {{ {error} }}")
        context.out += reroll(self._read_fields(name, type_), context.depth + 1)
        if size:
            context.out.append(f"p += {size};")

    def _extract_variable(
        self, place: Place, name: str, type_: Type, fixed: int, variable: str
    ) -> None:
        context = self.context
        bits = context.temp_c("uint64_t", variable)
        leaves = self.composites.leaves(name, type_)
        most = next(t.width for _, t in leaves if isinstance(t, Varbit))
        error = context.parser_error("ParserInvalidArgument")
        context.out.append(f"if (({fixed} + {bits}) % 8) {{ {error} }}")
        error = context.too_short(f"({fixed} + {bits}) / 8")
        context.out.append(
            f"if ({bits} > (uint64_t)(end - p) * 8 || (uint64_t)(end - p) * 8 < {fixed} + {bits}) "
            f"{{ {error} }}"
        )
        error = context.parser_error("HeaderTooShort")
        context.out.append(f"if ({bits} > {most}) {{ {error} }}")
        if not _at_bytes(leaves):
            self._read_bit_by_bit(leaves, bits)
            context.out.append(f"p += ({fixed} + {bits}) / 8;")
            return
        offset, base = 0, "p"
        for text, under in leaves:
            if isinstance(under, Varbit):
                context.out.append(f"{text}.bits = (uint32_t){bits};")
                context.out.append(f"memcpy({text}.data, {base} + {offset // 8}, {bits} / 8);")
                base, offset = f"(p + {offset // 8} + {bits} / 8)", 0
                continue
            context.out.append(f"{text} = {self._load(base, offset, under)};")
            offset += width_of(under) or 0
        context.out.append(f"p += {fixed // 8} + {bits} / 8;")

    def _read_bit_by_bit(self, leaves: Fields, bits: str) -> None:
        """Fill a header whose varbit field, of so many bits, does not begin or end at a byte."""
        at = self.context.temp_c("uint64_t", "0")
        for text, under in leaves:
            width = str(width_of(under) or 0)
            if isinstance(under, Varbit):
                width = bits
                self.context.out.append(f"{text}.bits = (uint32_t){bits};")
                self.context.out.append(f"p4_take_bits({text}.data, p, {at}, (uint32_t){bits});")
            elif int(width) > 128:
                load = f"{self.numbers.big(int(width))}_load(p, {at}, {width})"
                self.context.out.append(f"{text} = {load};")
            elif width != "0":
                self.context.out.append(f"{text} = p4_load_wide(p, {at}, {width});")
            self.context.out.append(f"{at} += {width};")

    def advance(self, call: ast.MethodCall, bits: ast.Expr) -> None:
        """packet.advance(bits)."""
        context = self.context
        amount = context.temp_c("uint64_t", self.expressions.small(bits))
        error = context.parser_error("ParserInvalidArgument")
        context.out.append(f"if ({amount} % 8) {{ {error} }}")
        error = context.too_short(f"{amount} / 8")
        context.out.append(f"if ((uint64_t)(end - p) < {amount} / 8) {{ {error} }}")
        context.out.append(f"p += {amount} / 8;")

    def lookahead(self, type_: Type) -> str:
        """packet.lookahead<T>(); returns the C variable of the value."""
        context = self.context
        size = ((width_of(type_) or 0) + 7) // 8
        error = context.too_short(str(size))
        context.out.append(f"if (end - p < {size}) {{ {error} }}")
        under = underlying(type_)
        if isinstance(under, Composite | Tuple | Stack):
            name = context.temp(type_, "{0}")
            context.out += self._read_fields(name, type_)
            self.composites.validate(name, type_)
            return name
        return context.temp(type_, self._load("p", 0, type_))

    # ---- writing ----

    def emit(self, e: ast.Expr) -> None:
        """packet.emit of a header, union, stack, struct of these, or a list of them."""
        what = spell(e)
        if isinstance(e, ast.ListExpr):
            for item in e.items:
                text = self.composites.stable(self.expressions.value(item), item.type)
                self._emit(text, item.type, what)
        elif self.context.is_path(e):
            self._emit(self.left.left(e), e.type, what)
        else:
            text = self.composites.stable(self.expressions.value(e), e.type)
            self._emit(text, e.type, what)

    def _emit(self, text: str, type_: Type, what: str) -> None:
        """Emit the value of the C variable `text`, in P4 `what`."""
        under = underlying(type_)
        if is_header(under):
            self._whole_bytes(under)
            with self.context.trace.emitted(text, under, what):
                self._emit_header(text, under)
        elif isinstance(under, Stack):
            for i in range(under.size):
                self._emit(f"{text}.e[{i}]", under.element, f"{what}[{i}]")
        else:
            for name, t in flat(under):
                part = self.composites.part(text, under, name)
                self._emit(part, t, what if isinstance(under, Tuple) else f"{what}.{name}")

    def _whole_bytes(self, type_: Composite) -> None:
        """Refuse headers that do not end at a byte, as p4c does for BMv2."""
        leaves = [t for _, t in self.composites.leaves("", type_)]
        bits = sum(width_of(t) or 0 for t in leaves if not isinstance(t, Varbit))
        if any(isinstance(t, Varbit) for t in leaves):
            return  # its size in the packet decides
        if bits % 8 and not is_flexible(type_):
            raise self.context.fatal(
                self.context.here or type_.decl.place,
                f"{type_} has {bits} bits; only headers of whole bytes can be emitted",
            )

    def _emit_header(self, text: str, type_: Type) -> None:
        """Append the header to `out` if it is valid."""
        leaves = self.composites.leaves(text, type_)
        made: list[str] = []
        if not any(isinstance(t, Varbit) for _, t in leaves):
            stores, bits = self.fields.stores(leaves, "out")
            size = (bits + 7) // 8
            made.append(f"if (limit - out < {size}) return P4_OVERFLOW;")
            made += reroll(stores, self.context.depth + 1)
            made.append(f"out += {size};")
        elif not _at_bytes(leaves):
            made += self._bit_by_bit(leaves)
        else:
            run: list[tuple[str, Type]] = []
            for leaf in [*leaves, ("", Varbit(0))]:
                if not isinstance(leaf[1], Varbit):
                    run.append(leaf)
                    continue
                if run:
                    stores, bits = self.fields.stores(run, "out")
                    made.append(f"if (limit - out < {(bits + 7) // 8}) return P4_OVERFLOW;")
                    made += [*stores, f"out += {(bits + 7) // 8};"]
                    run = []
                if leaf[0]:
                    made.append(
                        f"if (limit - out < (ptrdiff_t)({leaf[0]}.bits / 8)) return P4_OVERFLOW;"
                    )
                    made.append(f"memcpy(out, {leaf[0]}.data, {leaf[0]}.bits / 8);")
                    made.append(f"out += {leaf[0]}.bits / 8;")
        self.context.out.append(f"if ({text}.valid) {{ " + "\n".join(made) + " }")

    def _bit_by_bit(self, leaves: Fields) -> list[str]:
        """Statements that append a header whose varbit field does not begin or end at a byte."""
        made = ["uint64_t at = 0;"]
        fixed = sum(width_of(t) or 0 for _, t in leaves if not isinstance(t, Varbit))
        parts = [f"{text}.bits" for text, t in leaves if isinstance(t, Varbit)]
        total = " + ".join([str(fixed), *parts])
        made.append(f"if (limit - out < (ptrdiff_t)(({total} + 7) / 8)) return P4_OVERFLOW;")
        for text, under in leaves:
            width = width_of(under) or 0
            if isinstance(under, Varbit):
                made.append(f"p4_put_bytes(out, &at, {text}.data, {text}.bits);")
                continue
            if width > 128:
                made.append(f"{self.numbers.big(width)}_store(out, at, {width}, {text});")
            else:
                made.append(f"p4_put_bits(out, at, {width}, (p4_u128)({text}));")
            made.append(f"at += {width};")
        return [*made, "out += (at + 7) / 8;"]


def _at_bytes(leaves: Fields) -> bool:
    """True if a varbit field with whole bytes begins and ends where bytes do."""
    before = 0
    for _, under in leaves:
        if isinstance(under, Varbit):
            break
        before += width_of(under) or 0
    fixed = sum(width_of(t) or 0 for _, t in leaves if not isinstance(t, Varbit))
    return before % 8 == 0 and fixed % 8 == 0
