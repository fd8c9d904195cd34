"""Hashes and checksums to C, and the choice of an action selector's member."""

from __future__ import annotations

from collections.abc import Callable

from p4engine.backend.c_text import mask
from p4engine.backend.emit_architecture import Parts
from p4engine.backend.emit_fields import Fields
from p4engine.frontend import ast
from p4engine.frontend.ast import Symbol
from p4engine.frontend.checker.check_values import known_at_instantiation
from p4engine.frontend.types import Bits, Type
from p4engine.middle.instantiate import TableInstance

HASHES = {
    "crc32": 0,
    "crc32_custom": 0,
    "crc16": 1,
    "crc16_custom": 1,
    "random": 2,
    "identity": 3,
    "csum16": 4,
    "xor16": 5,
}


class HashEmitter:
    """Hash functions over lists of fields. `functions` has the externs' C by their P4 names."""

    def __init__(self, parts: Parts) -> None:
        self.context, self.numbers, self.composites = parts.context, parts.numbers, parts.composites
        self.left, self.expressions, self.fields = parts.left, parts.expressions, parts.fields
        self.functions: dict[str, Callable[..., str | None]] = {
            "hash": self._hash_in_range,
            "verify_checksum": self._verify_checksum,
            "update_checksum": self._update_checksum,
            "verify_checksum_with_payload": self._verify_checksum_with_payload,
            "update_checksum_with_payload": self._update_checksum_with_payload,
            "Checksum16.get": self._checksum16,
        }

    def selector_hash(self, table: TableInstance, keys: Fields) -> str:
        """C expression of the hash that chooses a member of the table's action selector."""
        assert table.profile is not None
        algorithm = table.profile.arguments.get("algorithm")
        number = HASHES.get(algorithm.name, 0) if isinstance(algorithm, Symbol) else 0
        leaves: list[tuple[str, Type]] = []
        for text, type_ in keys:
            leaves += self.composites.leaves(text, type_)
        name, size = self.fields.pack(leaves)
        width = table.profile.arguments.get("outputWidth")
        limit = f" & {mask(width)}" if isinstance(width, int) and 0 < width < 64 else ""
        return f"(p4_hash({number}, {name}, {size}){limit})"

    def _algorithm(self, e: ast.Expr) -> int:
        if not known_at_instantiation(e):
            raise self.context.fatal(e.place, "the algorithm must be known at compile time")
        algorithm = self.expressions.known(e)
        if not isinstance(algorithm, Symbol) or algorithm.name not in HASHES:
            name = algorithm.name if isinstance(algorithm, Symbol) else algorithm
            raise self.context.fatal(e.place, f"hash algorithm {name} is not supported")
        return HASHES[algorithm.name]

    def _hash(self, algorithm: ast.Expr, data: ast.Expr, payload: bool = False) -> str:
        name, size = self.fields.pack(self.fields.fields_of(data))
        number = self._algorithm(algorithm)
        if payload:
            call = f"p4_hash_two({number}, {name}, {size}, P->base.payload, P->base.payload_length)"
        else:
            call = f"p4_hash({number}, {name}, {size})"
        return self.context.temp_c("uint64_t", call)

    def _hash_in_range(
        self,
        call: ast.ExternCall,
        result: ast.Expr,
        algorithm: ast.Expr,
        base: ast.Expr,
        data: ast.Expr,
        limit: ast.Expr,
    ) -> None:
        for bound in (base, limit):
            self.left.number_type(bound)
        low = self.context.temp_c("uint64_t", self.expressions.small(base))
        high = self.context.temp_c("uint64_t", self.expressions.small(limit))
        value = self._hash(algorithm, data)
        number = self.context.temp_c("uint64_t", f"{low} + ({high} ? {value} % {high} : 0)")
        self.left.store_number(result, number, 64)

    def _checksum(
        self,
        condition: ast.Expr,
        data: ast.Expr,
        checksum: ast.Expr,
        algorithm: ast.Expr,
        *,
        payload: bool,
        update: bool,
    ) -> None:
        out = self.context.out
        text = self.expressions.value(condition)
        with self.context.capture() as body:
            value = self._hash(algorithm, data, payload)
            if update:
                self.left.store_number(checksum, value, 64)
            else:
                under = self.left.number_type(checksum)
                if isinstance(under, Bits):
                    value = self.numbers.convert(value, Bits(64), under)
                equal = self.composites.equal(value, self.expressions.value(checksum), under)
                body.append(f"if (!({equal})) P->base.std.checksum_error = 1;")
        out.append(f"if ({text}) {{ " + "\n".join(body) + " }")

    def _verify_checksum(self, call: ast.ExternCall, *arguments: ast.Expr) -> None:
        self._checksum(*arguments, payload=False, update=False)

    def _update_checksum(self, call: ast.ExternCall, *arguments: ast.Expr) -> None:
        self._checksum(*arguments, payload=False, update=True)

    def _verify_checksum_with_payload(self, call: ast.ExternCall, *arguments: ast.Expr) -> None:
        self._checksum(*arguments, payload=True, update=False)

    def _update_checksum_with_payload(self, call: ast.ExternCall, *arguments: ast.Expr) -> None:
        self._checksum(*arguments, payload=True, update=True)

    def _checksum16(self, call: ast.MethodCall, data: ast.Expr) -> str:
        name, size = self.fields.pack(self.fields.fields_of(data))
        value = f"(uint16_t)p4_hash({HASHES['csum16']}, {name}, {size})"
        return self.context.temp_c("uint16_t", value)
