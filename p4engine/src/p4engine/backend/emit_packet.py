"""Bits in packets: extraction, emission, and lists of fields packed for checksums, hashes and
digests.

Fields are read and written one statement per group of whole bytes; runs of equal fields then
differ only in numbers and become loops (reroll).
"""

from __future__ import annotations

from p4engine.backend.emit_operators import flat
from p4engine.backend.emit_table import TableEmitter
from p4engine.frontend import ast
from p4engine.frontend.types import (
    BOOL,
    Bits,
    Composite,
    EnumType,
    Stack,
    Tuple,
    Type,
    Varbit,
    is_header,
    is_union,
    underlying,
    width_of,
)


class PacketEmitter(TableEmitter):
    """extract, lookahead, emit, pack."""

    def leaves(self, text: str, type_: Type) -> list[tuple[str, Type]]:
        """(C text, type) of all integers and varbits within a value, in order."""
        under = underlying(type_)
        if isinstance(under, Composite | Tuple):
            result = []
            for name, t in flat(under):
                result += self.leaves(self.part(text, under, name), t)
            return result
        if isinstance(under, Stack):
            result = []
            for i in range(under.size):
                result += self.leaves(f"{text}.e[{i}]", under.element)
            return result
        return [(text, under)]

    # ---- reading ----

    def load(self, base: str, offset: int, type_: Type, *, sure: str = "") -> str:
        """C expression of the `type_` at bit `offset` behind the byte pointer `base`."""
        under = underlying(type_)
        width = width_of(under) or 0
        first, shift = offset // 8, offset % 8
        size = (shift + width + 7) // 8
        if width == 0:
            return "0"
        if width > 128:
            return f"{self.big(width)}_load({base}, {offset}, {width})"
        if size > 8:
            return f"p4_load_wide({base}, {offset}, {width})"
        text = f"p4_load{8 * size}({base} + {first})"
        right = 8 * size - shift - width
        if right:
            text = f"({text} >> {right})"
        if shift or right:
            return self.norm(text, width)
        return f"({self.layout.c_type(under)}){text}" if 8 * size not in (8, 16, 32, 64) else text

    def read_fields(self, target: str, type_: Type, base: str, offset: int = 0) -> list[str]:
        """Statements that fill the fixed part of `target` from bytes at `base`."""
        made = []
        for text, under in self.leaves(target, type_):
            if isinstance(under, Varbit):
                continue
            made.append(f"{text} = {self.load(base, offset, under)};")
            offset += width_of(under) or 0
        return made

    def extract(self, e: ast.Call) -> None:
        """packet.extract(header) and packet.extract(header, bits)."""
        bound = [v for _, v in e.call.arguments]
        target = bound[0]
        if target is None:
            type_ = next(iter(e.call.bindings.values()))
            for variable, t in e.call.bindings.items():
                if variable.name == "T":
                    type_ = t
            name = self.temp(type_, "{0}")
            stack = None
        else:
            type_ = underlying(target.type)
            stack = (
                target
                if isinstance(target, ast.Member)
                and isinstance(target.base.type, Stack)
                and target.name == "next"
                else None
            )
            name = self.left(target)
        fixed = sum(
            (width_of(t) or 0) for _, t in self.leaves(name, type_) if not isinstance(t, Varbit)
        )
        if fixed % 8 and len(bound) == 1:
            raise self.fatal(e.place, f"{type_} has {fixed} bits; BMv2 extracts only whole bytes")
        variable = self.small(bound[1]) if len(bound) == 2 else None
        if variable is not None:
            self._extract_variable(e, name, type_, fixed, variable)
        else:
            size = fixed // 8
            if size:
                self.out.append(
                    f"if (__builtin_expect(end - p < {size}, 0)) "
                    f"{{ {self.parser_error('PacketTooShort')} }}"
                )
            from p4engine.backend.reroll import reroll

            self.out += reroll(self.read_fields(name, type_, "p"), self.depth + 1)
            if size:
                self.out.append(f"p += {size};")
        self.out.append(f"{name}.valid = 1;")
        if stack is not None:
            self.out.append(f"{self.left(stack.base)}.next++;")
        elif isinstance(target, ast.Member) and is_union(target.base.type):
            self._only_valid(target, name)
            inner = target.base
            next_union = isinstance(inner, ast.Member) and isinstance(inner.base.type, Stack)
            if next_union and inner.name == "next":
                self.out.append(f"{self.left(inner.base)}.next++;")
        self.trace_extract(e, name, type_)

    def _extract_variable(
        self, e: ast.Call, name: str, type_: Type, fixed: int, variable: str
    ) -> None:
        bits = self.temp_c("uint64_t", variable)
        leaves = self.leaves(name, type_)
        varbit = next((text, t) for text, t in leaves if isinstance(t, Varbit))
        self.out.append(f"if ({bits} % 8) {{ {self.parser_error('ParserInvalidArgument')} }}")
        self.out.append(
            f"if ({bits} > (uint64_t)(end - p) * 8 || (uint64_t)(end - p) * 8 < {fixed} + {bits}) "
            f"{{ {self.parser_error('PacketTooShort')} }}"
        )
        self.out.append(
            f"if ({bits} > {varbit[1].width}) {{ {self.parser_error('HeaderTooShort')} }}"
        )
        offset, base = 0, "p"
        for text, under in leaves:
            if isinstance(under, Varbit):
                if offset % 8:
                    raise self.fatal(e.place, f"the varbit field of {type_} must begin at a byte")
                self.out.append(f"{text}.bits = (uint32_t){bits};")
                self.out.append(f"memcpy({text}.data, {base} + {offset // 8}, {bits} / 8);")
                base, offset = f"(p + {offset // 8} + {bits} / 8)", 0
                continue
            self.out.append(f"{text} = {self.load(base, offset, under)};")
            offset += width_of(under) or 0
        self.out.append(f"p += {fixed // 8} + {bits} / 8;")

    def lookahead(self, e: ast.Call, type_: Type) -> str:
        width = width_of(type_) or 0
        size = (width + 7) // 8
        self.out.append(f"if (end - p < {size}) {{ {self.parser_error('PacketTooShort')} }}")
        under = underlying(type_)
        if isinstance(under, Composite | Tuple | Stack):
            name = self.temp(type_, "{0}")
            self.out += self.read_fields(name, type_, "p")
            if is_header(under):
                self.out.append(f"{name}.valid = 1;")
            return name
        return self.temp(type_, self.load("p", 0, type_))

    # ---- writing ----

    def write_fields(self, fields: list[tuple[str, Type]], base: str) -> tuple[list[str], int]:
        """Statements that store `fields` (no varbit) at `base`, and the number of bits. The last
        byte is filled up with zeros."""
        made: list[str] = []
        offset = 0
        group: list[tuple[str, int]] = []
        start = 0

        def flush() -> None:
            nonlocal group
            if not group:
                return
            total = sum(w for _, w in group)
            size = (total + 7) // 8
            if len(group) == 1 and total in (8, 16, 32, 64):
                made.append(f"p4_store{total}({base} + {start // 8}, {group[0][0]});")
            else:
                parts, left = [], 8 * size
                c = "uint32_t" if size <= 4 else "uint64_t"
                for text, width in group:
                    left -= width
                    parts.append(f"(({c}){text} << {left})" if left else f"({c}){text}")
                made.append(f"p4_store{8 * size}({base} + {start // 8}, {' | '.join(parts)});")
            group = []

        for text, type_ in fields:
            width = width_of(type_) or 0
            if width == 0:
                continue
            if not group:
                start = offset
            total = sum(w for _, w in group) + width
            if total > 64 or (group and sum(w for _, w in group) % 8 == 0):
                if group and sum(w for _, w in group) % 8:
                    # a group that does not end at a byte and cannot grow: bit by bit
                    for t, w in group:
                        made.append(self._put_bits(base, start, t, w))
                        start += w
                    group = []
                flush()
                start = offset
            if width > 64 or start % 8:
                made.append(self._put_bits(base, offset, text, width))
            else:
                group.append((text, width))
            offset += width
        if group:
            flush()
        return made, offset

    def _put_bits(self, base: str, offset: int, text: str, width: int) -> str:
        if width <= 128:
            return f"p4_put_bits({base}, {offset}, {width}, (p4_u128)({text}));"
        return f"{self.big(width)}_store({base}, {offset}, {width}, {text});"

    def emit_header(self, text: str, type_: Type) -> list[str]:
        """Statements that append the header `text` to `out` if it is valid."""
        leaves = self.leaves(text, type_)
        made: list[str] = []
        if not any(isinstance(t, Varbit) for _, t in leaves):
            stores, bits = self.write_fields(leaves, "out")
            size = (bits + 7) // 8
            from p4engine.backend.reroll import reroll

            made.append(f"if (limit - out < {size}) return P4_OVERFLOW;")
            made += reroll(stores, self.depth + 1)
            made.append(f"out += {size};")
        else:
            run: list[tuple[str, Type]] = []
            for leaf in [*leaves, ("", Varbit(0))]:
                if not isinstance(leaf[1], Varbit):
                    run.append(leaf)
                    continue
                if run:
                    stores, bits = self.write_fields(run, "out")
                    made.append(f"if (limit - out < {(bits + 7) // 8}) return P4_OVERFLOW;")
                    made += [*stores, f"out += {(bits + 7) // 8};"]
                    run = []
                if leaf[0]:
                    made.append(
                        f"if (limit - out < (ptrdiff_t)({leaf[0]}.bits / 8)) return P4_OVERFLOW;"
                    )
                    made.append(f"memcpy(out, {leaf[0]}.data, {leaf[0]}.bits / 8);")
                    made.append(f"out += {leaf[0]}.bits / 8;")
        return [f"if ({text}.valid) {{ " + "\n".join(made) + " }"]

    def emit(self, text: str, type_: Type) -> None:
        """packet.emit of a header, union, stack, or struct of these."""
        under = underlying(type_)
        if is_header(under):
            self.out += self.emit_header(text, under)
        elif isinstance(under, Stack):
            for i in range(under.size):
                self.emit(f"{text}.e[{i}]", under.element)
        elif isinstance(under, Composite | Tuple):
            for name, t in flat(under):
                self.emit(self.part(text, under, name), t)

    def data_fields(self, e: ast.Expr) -> list[tuple[str, Type]]:
        """The fields of the data argument of a hash, checksum or digest."""
        if isinstance(e, ast.ListExpr):
            result = []
            for item in e.items:
                result += self.data_fields(item)
            return result
        if isinstance(e, ast.StructExpr):
            result = []
            for _, item in e.fields:
                result += self.data_fields(item)
            return result
        text = self.value(e)
        under = underlying(e.type)
        if not isinstance(under, Bits | EnumType) and under != BOOL:
            text = self.stable(text, e.type)
        return self.leaves(text, e.type)

    def pack(self, fields: list[tuple[str, Type]]) -> tuple[str, str]:
        """Pack fields into a byte buffer; returns its C name and the C expression of its bytes."""
        total = sum(width_of(t) or 0 for _, t in fields)
        size = (total + 7) // 8
        self.layout_counter += 1
        name = f"buf{self.depth}_{len(self.out)}"
        if not any(isinstance(t, Varbit) for _, t in fields):
            any((width_of(t) or 0) > 64 for _, t in fields)
            stores, _ = self.write_fields(fields, name)
            self.out.append(f"uint8_t {name}[{max(size, 1)}]{' = {0}' if True else ''};")
            self.out += stores
            return name, str(size)
        self.out.append(f"uint8_t {name}[{size + 8}] = {{0}};")
        at = self.temp_c("uint64_t", "0")
        for text, type_ in fields:
            if isinstance(type_, Varbit):
                self.out.append(f"p4_put_bytes({name}, &{at}, {text}.data, {text}.bits);")
            else:
                width = width_of(type_) or 0
                if width <= 128:
                    self.out.append(f"p4_put_bits({name}, {at}, {width}, (p4_u128)({text}));")
                else:
                    self.out.append(f"{self.big(width)}_store({name}, {at}, {width}, {text});")
                self.out.append(f"{at} += {width};")
        return name, f"(({at} + 7) / 8)"
