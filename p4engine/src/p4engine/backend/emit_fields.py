"""Lists of fields packed into bytes or words, for headers, checksums, hashes, digests and logs.

Fields are written one statement per group of whole bytes; runs of equal fields then differ only in
numbers and become loops (reroll).
"""

from __future__ import annotations

from collections.abc import Sequence

from p4engine.backend.context import Context
from p4engine.backend.emit_composite import CompositeEmitter
from p4engine.backend.emit_expr import ExpressionEmitter
from p4engine.backend.emit_numbers import NumberEmitter
from p4engine.frontend import ast
from p4engine.frontend.types import BOOL, Bits, EnumType, Type, Varbit, underlying, width_of

Fields = Sequence[tuple[str, Type]]  # C text and type


class FieldEmitter:
    """Fields one after the other."""

    def __init__(
        self,
        context: Context,
        numbers: NumberEmitter,
        composites: CompositeEmitter,
        expressions: ExpressionEmitter,
    ) -> None:
        self.context, self.numbers = context, numbers
        self.composites, self.expressions = composites, expressions

    def fields_of(self, e: ast.Expr) -> list[tuple[str, Type]]:
        """The fields of the data argument of a hash, checksum or digest."""
        result: list[tuple[str, Type]] = []
        if isinstance(e, ast.ListExpr):
            for item in e.items:
                result += self.fields_of(item)
            return result
        if isinstance(e, ast.StructExpr):
            for _, item in e.fields:
                result += self.fields_of(item)
            return result
        text = self.expressions.value(e)
        under = underlying(e.type)
        if not isinstance(under, Bits | EnumType) and under != BOOL:
            text = self.composites.stable(text, e.type)
        return self.composites.leaves(text, e.type)

    def word_array(self, fields: Fields) -> tuple[str, int]:
        """Write fields as 64-bit words; returns the C array and the number of words."""
        parts = self.numbers.words_of(fields)
        name = self.context.fresh("words")
        self.context.out.append(f"uint64_t {name}[] = {{ {', '.join(parts) or '0'} }};")
        return name, len(parts)

    def pack(self, fields: Fields) -> tuple[str, str]:
        """Pack fields into a byte buffer; returns its C name and the C expression of its bytes."""
        context = self.context
        total = sum(width_of(t) or 0 for _, t in fields)
        size = (total + 7) // 8
        name = f"buf{context.depth}_{len(context.out)}"
        if not any(isinstance(t, Varbit) for _, t in fields):
            stores, _ = self.stores(fields, name)
            context.out.append(f"uint8_t {name}[{max(size, 1)}] = {{0}};")
            context.out += stores
            return name, str(size)
        context.out.append(f"uint8_t {name}[{size + 8}] = {{0}};")
        at = context.temp_c("uint64_t", "0")
        for text, type_ in fields:
            if isinstance(type_, Varbit):
                context.out.append(f"p4_put_bytes({name}, &{at}, {text}.data, {text}.bits);")
            else:
                width = width_of(type_) or 0
                context.out.append(self._put_bits(name, at, text, width))
                context.out.append(f"{at} += {width};")
        return name, f"(({at} + 7) / 8)"

    def stores(self, fields: Fields, base: str) -> tuple[list[str], int]:
        """Statements that store `fields` (no varbit) at `base`, and the number of bits. The last
        byte is filled up with zeros."""
        made: list[str] = []
        offset = start = 0
        group: list[tuple[str, int]] = []  # fields from bit `start` on, to be stored at once
        for text, type_ in fields:
            width = width_of(type_) or 0
            if width == 0:
                continue
            if not group:
                start = offset
            grouped = sum(w for _, w in group)
            if grouped + width > 64 or (group and grouped % 8 == 0):
                if grouped % 8:
                    # a group that does not end at a byte and cannot grow: bit by bit
                    for t, w in group:
                        made.append(self._put_bits(base, start, t, w))
                        start += w
                else:
                    made += self._store_group(group, base, start)
                group = []
                start = offset
            if width > 64 or start % 8:
                made.append(self._put_bits(base, offset, text, width))
            else:
                group.append((text, width))
            offset += width
        made += self._store_group(group, base, start)
        return made, offset

    def _store_group(self, group: list[tuple[str, int]], base: str, start: int) -> list[str]:
        """The statement that stores fields of at most 64 bits in all from bit `start` on, where a
        byte begins."""
        if not group:
            return []
        total = sum(w for _, w in group)
        if len(group) == 1 and total in (8, 16, 32, 64):
            return [f"p4_store{total}({base} + {start // 8}, {group[0][0]});"]
        size = (total + 7) // 8
        parts, left = [], 8 * size
        c = "uint32_t" if size <= 4 else "uint64_t"
        for text, width in group:
            left -= width
            parts.append(f"(({c}){text} << {left})" if left else f"({c}){text}")
        return [f"p4_store{8 * size}({base} + {start // 8}, {' | '.join(parts)});"]

    def _put_bits(self, base: str, offset: int | str, text: str, width: int) -> str:
        if width <= 128:
            return f"p4_put_bits({base}, {offset}, {width}, (p4_u128)({text}));"
        return f"{self.numbers.big(width)}_store({base}, {offset}, {width}, {text});"
