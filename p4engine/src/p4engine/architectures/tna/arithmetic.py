"""Hashes, random numbers and small functions of TNA to C."""

from __future__ import annotations

from collections.abc import Callable

from p4engine.backend.c_text import mask, signed
from p4engine.backend.emit_architecture import Parts
from p4engine.backend.emit_fields import Fields
from p4engine.frontend import ast
from p4engine.frontend.ast import Symbol
from p4engine.frontend.diagnostics import Place
from p4engine.frontend.types import Bits, underlying, width_of
from p4engine.middle.instantiate import ExternInstance

# Width, polynomial, reversed, initial and final value.
Crc = tuple[int, int, bool, int, int]
CRC: dict[str, Crc] = {
    "CRC8": (8, 0x07, False, 0, 0),
    "CRC16": (16, 0x8005, True, 0, 0),
    "CRC32": (32, 0x04C11DB7, True, 0xFFFFFFFF, 0xFFFFFFFF),
    "CRC64": (64, 0x42F0E1EBA9EA3693, False, 0, 0),
    "RANDOM": (32, 0x1EDC6F41, True, 0xFFFFFFFF, 0xFFFFFFFF),  # any function that spreads: CRC-32C
}
XOR = {"XOR8": 1, "XOR16": 2, "XOR32": 4}


class ArithmeticEmitter:
    """Functions of values. `functions` has the externs' C by their P4 names."""

    def __init__(self, parts: Parts) -> None:
        self.context, self.expressions, self.fields = parts.context, parts.expressions, parts.fields
        self.left = parts.left
        self.functions: dict[str, Callable[..., str | None]] = {
            "Hash.get": self._get,
            "Random.get": self._random,
            "max": self._max,
            "min": self._min,
            "funnel_shift_right": self._funnel,
            "sizeInBytes": self._size_in_bytes,
            "sizeInBits": self._size_in_bits,
        }

    # ---- hashes ----

    def hash(self, chosen: ExternInstance, leaves: Fields, width: int, place: Place) -> str:
        """C expression of the hash of fields, of at most `width` bits (up to 64)."""
        name, size = self.fields.pack(leaves)
        algorithm = chosen.arguments["algo"]
        assert isinstance(algorithm, Symbol)
        crc = CRC.get(algorithm.name)
        high = False
        if algorithm.name == "CUSTOM":
            crc, high = self._custom(chosen, place)
        if crc is not None:
            bits, polynomial, reverse, initial, final = crc
            call = (
                f"tna_crc({bits}, {polynomial}ull, {int(reverse)}, {initial}ull, {final}ull,"
                f" {name}, {size})"
            )
            if high and width < bits:
                call = f"({call} >> {bits - width})"
        elif algorithm.name in XOR:
            call = f"tna_xor({XOR[algorithm.name]}, {name}, {size})"
        else:
            total = sum(width_of(type_) or 0 for _, type_ in leaves)
            call = f"tna_identity(64, {name}, {size})"
            if total % 8:  # the last byte is filled up with zeros
                call = f"({call} >> {8 - total % 8})"
        return f"({call} & {mask(width)})" if width < 64 else f"({call})"

    def _custom(self, chosen: ExternInstance, place: Place) -> tuple[Crc, bool]:
        """The check that a CRCPolynomial describes, and whether its highest bits are the hash."""
        given = chosen.arguments.get("poly")
        if not isinstance(given, ExternInstance):
            raise self.context.fatal(place, f"{chosen.name} is CUSTOM, so it needs a CRCPolynomial")
        width = width_of(given.type.arguments[0]) or 0
        if not 8 <= width <= 64:
            raise self.context.fatal(given.place, "a CRCPolynomial has 8 to 64 bits")
        if given.arguments["extended"]:
            raise self.context.fatal(given.place, "an extended CRCPolynomial is not supported")
        numbers = [given.arguments[name] for name in ("coeff", "init", "xor")]
        coeff, initial, final = (n if isinstance(n, int) else 0 for n in numbers)
        reverse, high = bool(given.arguments["reversed"]), bool(given.arguments["msb"])
        return (width, coeff, reverse, initial, final), high

    def _get(self, call: ast.MethodCall, data: ast.Expr) -> str:
        chosen = self.context.extern(call)
        width = width_of(chosen.type.arguments[0]) or 0
        if not 1 <= width <= 64:
            raise self.context.fatal(call.place, "a Hash has 1 to 64 bits")
        text = self.hash(chosen, self.fields.fields_of(data), width, call.place)
        return self.context.temp(Bits(width), text)

    def _random(self, call: ast.MethodCall) -> str:
        width = width_of(self.context.extern(call).type.arguments[0]) or 0
        if not 1 <= width <= 64:
            raise self.context.fatal(call.place, "a Random has 1 to 64 bits")
        return self.context.temp(Bits(width), f"p4_random(I, 0, {mask(width)})")

    # ---- functions ----

    def _choose(self, call: ast.ExternCall, op: str, first: ast.Expr, second: ast.Expr) -> str:
        under = underlying(call.type)
        if not isinstance(under, Bits) or under.width > 64:
            raise self.context.fatal(call.place, f"{call.decl.name} takes numbers up to 64 bits")
        a, b = (
            self.context.temp(call.type, text)
            for text in self.expressions.in_order([first, second])
        )
        x, y = (signed(t, under.width) if under.signed else t for t in (a, b))
        return f"({x} {op} {y} ? {a} : {b})"

    def _max(self, call: ast.ExternCall, first: ast.Expr, second: ast.Expr) -> str:
        return self._choose(call, ">", first, second)

    def _min(self, call: ast.ExternCall, first: ast.Expr, second: ast.Expr) -> str:
        return self._choose(call, "<", first, second)

    def _funnel(
        self,
        call: ast.ExternCall,
        result: ast.Expr,
        high: ast.Expr,
        low: ast.Expr,
        amount: ast.Expr,
    ) -> None:
        """The low bits of high ++ low, moved right."""
        under, by = underlying(result.type), amount.known_number
        if (
            not isinstance(under, Bits)
            or under.signed
            or under.width > 64
            or not 0 <= by <= under.width
        ):
            raise self.context.fatal(
                call.place,
                "funnel_shift_right takes bit<> up to 64 bits, and moves by their width at most",
            )
        width, c_type = under.width, self.context.layout.c_type(under)
        first, second = self.expressions.in_order([high, low])
        both = f"((unsigned __int128)({first}) << {width} | ({second})) >> {by}"
        self.left.store(result, f"(({c_type})(({both}) & {mask(width)}))")

    def _size_in_bytes(self, call: ast.ExternCall, value: ast.Expr) -> str:
        return str(((width_of(value.type) or 0) + 7) // 8)

    def _size_in_bits(self, call: ast.ExternCall, value: ast.Expr) -> str:
        return str(width_of(value.type) or 0)
