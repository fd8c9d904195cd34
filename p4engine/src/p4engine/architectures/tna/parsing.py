"""Checksums, parser counters, port metadata: externs of TNA whose state lasts as long as a pass."""

from __future__ import annotations

from collections.abc import Callable

from p4engine.backend.emit_architecture import Parts
from p4engine.frontend import ast
from p4engine.frontend.types import width_of
from p4engine.middle.instantiate import ExternInstance


class ParsingEmitter:
    """Externs with a variable for each instance in each gress. `functions` has their C by their P4
    names."""

    def __init__(self, parts: Parts, port_metadata_bits: int) -> None:
        self.context, self.expressions, self.fields = parts.context, parts.expressions, parts.fields
        self.packets, self.left = parts.packets, parts.left
        self.port_metadata_bits = port_metadata_bits
        self._deposits: list[str] = []  # C statements for the end of the parser
        self.functions: dict[str, Callable[..., str | None]] = {
            "Checksum.add": self._add,
            "Checksum.subtract": self._subtract,
            "Checksum.verify": self._verify,
            "Checksum.get": self._get,
            "Checksum.subtract_all_and_deposit": self._deposit,
            "Checksum.update": self._update,
            "ParserCounter.set": self._set_counter,
            "ParserCounter.is_zero": self._is_zero,
            "ParserCounter.is_negative": self._is_negative,
            "ParserCounter.increment": self._increment,
            "ParserCounter.decrement": self._decrement,
            "ParserPriority.set": self._priority,
            "port_metadata_unpack": self._port_metadata,
        }

    def members(self) -> str:
        """C members of a gress's state."""
        externs = self.context.instances.externs
        made = []
        if sums := len(externs.get("Checksum", [])):
            made.append(f"uint32_t sums[{sums}];")
            made.append(f"const uint8_t *marks[{sums}];")
        if counters := len(externs.get("ParserCounter", [])):
            made.append(f"int16_t counters[{counters}];")
        return " ".join(made)

    def _of(self, call: ast.MethodCall, array: str) -> str:
        made: ExternInstance = self.context.extern(call)
        return f"{self.context.gress}{array}[{made.number}]"

    # ---- checksums ----

    def _sum(self, start: str, data: ast.Expr) -> str:
        name, size = self.fields.pack(self.fields.fields_of(data))
        return f"tna_sum({start}, {name}, {size})"

    def _add(self, call: ast.MethodCall, data: ast.Expr) -> None:
        sums = self._of(call, "sums")
        self.context.out.append(f"{sums} = {self._sum(sums, data)};")

    def _subtract(self, call: ast.MethodCall, data: ast.Expr) -> None:
        sums = self._of(call, "sums")
        less = self.context.temp_c("uint16_t", f"~{self._sum('0', data)}")
        self.context.out.append(f"{sums} = tna_fold({sums} + {less});")

    def _verify(self, call: ast.MethodCall) -> str:
        """True if the checksum is wrong, which is how programs use it."""
        return self.context.temp_c("uint8_t", f"tna_fold({self._of(call, 'sums')}) != 0xffff")

    def _get(self, call: ast.MethodCall) -> str:
        return self.context.temp_c("uint16_t", f"tna_fold({self._of(call, 'sums')})")

    def _deposit(self, call: ast.MethodCall, target: ast.Expr) -> None:
        """Remember where the parser is; at its end, the headers since then are subtracted."""
        sums, mark = self._of(call, "sums"), self._of(call, "marks")
        if not self.context.is_path(target) or not self.left.left(target).startswith("P->"):
            raise self.context.fatal(
                call.place, "what is deposited must go into metadata or a header"
            )
        # What follows must lie in one piece, for the difference of two places in it.
        self.context.out.append("tna_rest(&P->base, &p, &end);")
        self.context.out.append(f"{mark} = p;")
        with self.context.capture() as made:
            less = f"(uint16_t)~tna_sum(0, {mark}, (size_t)(p - {mark}))"
            self.left.store_number(target, f"tna_fold({sums} + {less})", 16)
        self._deposits.append(f"if ({mark}) {{ {' '.join(made)} }}")

    def at_end(self) -> list[str]:
        """C statements for the end of the parser that has been written."""
        made, self._deposits = self._deposits, []
        return made

    def _update(
        self, call: ast.MethodCall, data: ast.Expr, zeros_as_ones: ast.Expr | None = None
    ) -> str:
        made = self.context.temp_c("uint16_t", f"~tna_fold({self._sum('0', data)})")
        if zeros_as_ones is not None:
            wanted = self.expressions.value(zeros_as_ones)
            self.context.out.append(f"if (!{made} && {wanted}) {made} = 0xffff;")
        return made

    # ---- counters of parsers ----

    def _set_counter(
        self, call: ast.MethodCall, value: ast.Expr, *rotated: ast.Expr | None
    ) -> None:
        counter = self._of(call, "counters")
        if not rotated or rotated[0] is None:
            text = self.expressions.small(value)
            self.context.out.append(f"{counter} = (int8_t)({text});")
            return
        largest, rotate, kept, add = (self.expressions.small(e) for e in rotated if e is not None)
        number = self.context.temp_c("uint32_t", f"{self.expressions.small(value)} & 255")
        turn = self.context.temp_c("uint32_t", f"({rotate}) & 7")
        out = self.context.out
        out.append(f"{number} = ({number} >> {turn} | {number} << (8 - {turn})) & 255;")
        as_mask = width_of(call.decl.parameters[3].type) == 8  # else the highest bit that is kept
        out.append(f"{number} &= {kept if as_mask else f'(2u << ({kept})) - 1'};")
        error = self.context.parser_error("CounterRange")
        out.append(f"if ({number} > {largest}) {{ {error} }}")
        out.append(f"{counter} = (int8_t)({number} + {add});")

    def _is_zero(self, call: ast.MethodCall) -> str:
        return f"({self._of(call, 'counters')} == 0)"

    def _is_negative(self, call: ast.MethodCall) -> str:
        return f"({self._of(call, 'counters')} < 0)"

    def _increment(self, call: ast.MethodCall, value: ast.Expr) -> None:
        counter, by = self._of(call, "counters"), self.expressions.small(value)
        self.context.out.append(f"{counter} = (int8_t)({counter} + (int8_t)({by}));")

    def _decrement(self, call: ast.MethodCall, value: ast.Expr) -> None:
        counter, by = self._of(call, "counters"), self.expressions.small(value)
        self.context.out.append(f"{counter} = (int8_t)({counter} - (int8_t)({by}));")

    def _priority(self, call: ast.MethodCall, value: ast.Expr) -> None:
        """Accept a priority of packets in a full input buffer, without effect: none fills up
        here."""

    # ---- port metadata ----

    def _port_metadata(self, call: ast.ExternCall, packet: ast.Expr) -> str:
        bits = self.port_metadata_bits
        if (width_of(call.type) or 0) > bits:
            raise self.context.fatal(call.place, f"port metadata have {bits} bits")
        name = self.packets.lookahead(call.type)
        size = bits // 8
        error = self.context.too_short(str(size))
        self.context.out.append(f"if (end - p < {size}) {{ {error} }}")
        self.context.out.append(f"p += {size};")
        return name
