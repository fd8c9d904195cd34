"""Values with parts: structs, headers, unions, stacks and tuples, and whether headers are valid."""

from __future__ import annotations

from p4engine.backend.context import Context
from p4engine.backend.emit_numbers import NumberEmitter
from p4engine.frontend.types import (
    BOOL,
    ERROR,
    Bits,
    Composite,
    EnumType,
    Stack,
    Tuple,
    Type,
    Varbit,
    has_header,
    is_header,
    underlying,
    width_of,
)


def composite(type_: Type) -> Composite:
    """The struct, header or union that `type_` is; the checker has made sure that it is one."""
    under = underlying(type_)
    assert isinstance(under, Composite), f"{type_} has no fields"
    return under


def stack_size(type_: Type) -> int:
    """The number of elements of the stack that `type_` is."""
    under = underlying(type_)
    assert isinstance(under, Stack), f"{type_} is no stack"
    return under.size


def flat(under: Type) -> list[tuple[str, Type]]:
    """Names and types of the parts of a composite or tuple."""
    if isinstance(under, Composite):
        return list(under.fields.items())
    if isinstance(under, Tuple):
        return [(f"f{i}", t) for i, t in enumerate(under.elements)]
    return []


class CompositeEmitter:
    """Parts of values, copies, equality, and the validity of headers."""

    def __init__(self, context: Context, numbers: NumberEmitter) -> None:
        self.context, self.numbers = context, numbers

    # ---- parts ----

    def part(self, base: str, under: Type, name: str) -> str:
        """The C lvalue of a field of `base`."""
        if isinstance(under, Tuple):
            return f"{base}.{name}"
        return f"{base}.{self.context.layout.member(under, name)}"

    def leaves(self, text: str, type_: Type) -> list[tuple[str, Type]]:
        """(C text, type) of all integers and varbits within a value, in order."""
        under = underlying(type_)
        result: list[tuple[str, Type]] = []
        if isinstance(under, Composite | Tuple):
            for name, t in flat(under):
                result += self.leaves(self.part(text, under, name), t)
            return result
        if isinstance(under, Stack):
            for i in range(under.size):
                result += self.leaves(f"{text}.e[{i}]", under.element)
            return result
        return [(text, under)]

    def stable(self, text: str, type_: Type) -> str:
        """A name for a composite value, so that it can be mentioned many times."""
        if text.replace("_", "").replace(".", "").replace("->", "").isalnum() or "[" in text:
            return text
        return self.context.temp(type_, text)

    # ---- whole values ----

    def equal(self, left: str, right: str, type_: Type) -> str:
        """C condition: two values of one type are equal."""
        under = underlying(type_)
        if isinstance(under, Bits) and under.width > 128:
            return f"{self.numbers.big(under.width)}_cmp({left}, {right}) == 0"
        if isinstance(under, Bits | EnumType) or under in (BOOL, ERROR):
            return f"{left} == {right}"
        if isinstance(under, Varbit):
            a, b = self.context.temp(under, left), self.context.temp(under, right)
            return f"p4_varbit_equal({a}.bits, {a}.data, {b}.bits, {b}.data)"
        a, b = self.stable(left, under), self.stable(right, under)
        if isinstance(under, Stack):
            parts = [
                f"({self.equal(f'{a}.e[{i}]', f'{b}.e[{i}]', under.element)})"
                for i in range(under.size)
            ]
        else:
            parts = [
                f"({self.equal(self.part(a, under, n), self.part(b, under, n), t)})"
                for n, t in flat(under)
            ]
        both = " && ".join(parts) or "1"
        if is_header(under):
            return f"{a}.valid == {b}.valid && (!{a}.valid || ({both}))"
        return both

    def copy(self, target: str, text: str, type_: Type) -> None:
        """target = text. Of an invalid header, only that it is invalid is copied: the fields stay
        what they were, as on BMv2."""
        out = self.context.out
        under = underlying(type_)
        if not has_header(under):
            out.append(f"{target} = {text};")
            return
        text = self.stable(text, under)
        if is_header(under):
            out.append(f"if ({text}.valid) {target} = {text}; else {target}.valid = 0;")
        elif isinstance(under, Stack):
            out.append(f"{target}.next = {text}.next;")
            for i in range(under.size):
                self.copy(f"{target}.e[{i}]", f"{text}.e[{i}]", under.element)
        else:
            for name, t in flat(under):
                self.copy(self.part(target, under, name), self.part(text, under, name), t)

    def clear(self, text: str, type_: Type) -> None:
        """Set what a callee finds in an out parameter that is the caller's variable itself:
        numbers are 0, headers are invalid."""
        under = underlying(type_)
        if has_header(under):
            self.invalidate(text, type_)
        elif under == BOOL or isinstance(under, Bits | EnumType) and (width_of(under) or 0) <= 128:
            self.context.out.append(f"{text} = 0;")

    # ---- headers ----

    def invalidate(self, text: str, type_: Type) -> None:
        """Make all headers within a variable invalid."""
        under = underlying(type_)
        if is_header(under):
            self.context.out.append(f"{text}.valid = 0;")
        elif isinstance(under, Stack):
            self.context.out.append(f"{text}.next = 0;")
            for i in range(under.size):
                self.invalidate(f"{text}.e[{i}]", under.element)
        elif isinstance(under, Composite | Tuple):
            if isinstance(under, Composite) and under.name in self.context.fixed_structs:
                return
            for name, t in flat(under):
                self.invalidate(self.part(text, under, name), t)

    def validate(self, text: str, type_: Type) -> None:
        """Make all headers within a variable valid, whatever their fields are."""
        under = underlying(type_)
        if is_header(under):
            self.context.out.append(f"{text}.valid = 1;")
        elif isinstance(under, Stack) and has_header(under):
            for i in range(under.size):
                self.validate(f"{text}.e[{i}]", under.element)
        elif isinstance(under, Composite | Tuple):
            for name, t in flat(under):
                self.validate(self.part(text, under, name), t)

    def any_valid(self, base: str, union: Composite) -> str:
        """C condition: a member of the union is valid."""
        parts = [f"{self.part(base, union, n)}.valid" for n in union.fields]
        return f"({' | '.join(parts) or '0'})"

    def only_valid(self, base: str, union: Composite, member: str, target: str) -> None:
        """Make the other members of a union invalid if this one, in C `target`, is valid."""
        others = [f"{self.part(base, union, n)}.valid = 0;" for n in union.fields if n != member]
        if others:
            self.context.out.append(f"if ({target}.valid) {{ {' '.join(others)} }}")

    def set_valid(self, base: str, type_: Type) -> None:
        """As on BMv2: an invalid header becomes valid with all fields 0 (a varbit keeps its
        length), and counts in the length that egress sees."""
        under = composite(type_)
        keep = [
            (self.context.fresh("bits"), f"{self.part(base, under, name)}.bits")
            for name, t in under.fields.items()
            if isinstance(underlying(t), Varbit)
        ]
        before = "".join(f"uint32_t {k} = {bits}; " for k, bits in keep)
        after = "".join(f" {bits} = {k};" for k, bits in keep)
        c_type = self.context.layout.c_type(type_)
        self.context.out.append(
            f"if (!{base}.valid) {{ {before}{base} = ({c_type}){{0}};{after}"
            f" {base}.valid = 1; P->base.req.growth += {self._header_bytes(base, under)}; }}"
        )

    def set_invalid(self, base: str, type_: Type) -> None:
        """A valid header becomes invalid, and no longer counts in the length that egress sees."""
        size = self._header_bytes(base, composite(type_))
        self.context.out.append(
            f"if ({base}.valid) {{ {base}.valid = 0; P->base.req.growth -= {size}; }}"
        )

    def _header_bytes(self, base: str, under: Composite) -> str:
        """C expression of the bytes that a header takes in the packet now."""
        bits = sum(width_of(t) or 0 for t in under.fields.values() if not isinstance(t, Varbit))
        parts = [str(bits // 8)]
        for name, t in under.fields.items():
            if isinstance(underlying(t), Varbit):
                parts.append(f"(int32_t)({self.part(base, under, name)}.bits / 8)")
        return " + ".join(parts) if len(parts) == 1 else f"({' + '.join(parts)})"

    def shift_stack(self, base: str, stack: Stack, count: int, push: bool) -> None:
        """push_front and pop_front."""
        out, size = self.context.out, stack.size
        if count == 0:
            return
        if push:
            for i in range(size - 1, count - 1, -1):
                out.append(f"{base}.e[{i}] = {base}.e[{i - count}];")
            for i in range(count):
                self.invalidate(f"{base}.e[{i}]", stack.element)
            out.append(
                f"{base}.next = {base}.next + {count} > {size} ? {size} : {base}.next + {count};"
            )
        else:
            for i in range(size - count):
                out.append(f"{base}.e[{i}] = {base}.e[{i + count}];")
            for i in range(size - count, size):
                self.invalidate(f"{base}.e[{i}]", stack.element)
            out.append(f"{base}.next = {base}.next > {count} ? {base}.next - {count} : 0;")
