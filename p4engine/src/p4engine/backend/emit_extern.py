"""The externs of core.p4 and v1model.p4 to C, one method each."""

from __future__ import annotations

from p4engine.backend.emit_parser import ParserEmitter
from p4engine.frontend import ast
from p4engine.frontend.fold import Symbol
from p4engine.frontend.types import (
    BOOL,
    INT,
    Bits,
    Composite,
    EnumType,
    Type,
    underlying,
    width_of,
)
from p4engine.middle.instantiate import ExternInstance
from p4engine.middle.layout import c_int, words

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
FIELD_LIST_OF_CALL = 1 << 16  # numbers of lists that clone3 and its like make up


class ExternEmitter(ParserEmitter):
    def extern_call(self, e: ast.Call) -> str | None:
        method = getattr(self, "_e_" + e.call.name, None)
        if method is None:
            raise self.fatal(e.place, f"extern function {e.call.name} is not supported")
        return method(e, *[v for _, v in e.call.arguments])

    def method_call(self, e: ast.Call) -> str | None:
        kind = e.call.receiver.type.decl.name
        name = f"_m_{kind}_{e.call.name}"
        method = getattr(self, name, None)
        if method is None:
            raise self.fatal(e.place, f"{kind}.{e.call.name} is not supported")
        return method(e, *[v for _, v in e.call.arguments])

    def extern(self, e: ast.Call) -> ExternInstance:
        made = self.find_extern(e.call.receiver)
        if not isinstance(made, ExternInstance):
            raise self.fatal(e.place, "this extern instance cannot be found")
        return made

    # ---- packets ----

    def _m_packet_in_extract(self, e: ast.Call, *_: ast.Expr) -> None:
        self.extract(e)

    def _m_packet_in_lookahead(self, e: ast.Call) -> str:
        return self.lookahead(e, e.call.type)

    def _m_packet_in_advance(self, e: ast.Call, bits: ast.Expr) -> None:
        amount = self.temp_c("uint64_t", self.small(bits))
        self.out.append(f"if ({amount} % 8) {{ {self.parser_error('ParserInvalidArgument')} }}")
        self.out.append(
            f"if ((uint64_t)(end - p) < {amount} / 8) {{ {self.parser_error('PacketTooShort')} }}"
        )
        self.out.append(f"p += {amount} / 8;")

    def _m_packet_in_length(self, e: ast.Call) -> str:
        return "P->base.length"

    def _m_packet_out_emit(self, e: ast.Call, what: ast.Expr) -> None:
        if isinstance(what, ast.ListExpr):
            for item in what.items:
                self.emit(self.stable(self.value(item), item.type), item.type)
            return
        text = self.left(what) if self.is_path(what) else self.stable(self.value(what), what.type)
        self.emit(text, what.type)

    def _e_verify(self, e: ast.Call, check: ast.Expr, error: ast.Expr) -> None:
        condition, number = self.in_order([check, error])
        self.out.append(
            f"if (!({condition})) {{ P->base.std.parser_error = {number}; {self.goto('reject')} }}"
        )

    def _e_static_assert(self, e: ast.Call, *_: ast.Expr) -> str:
        return "1"

    # ---- registers, counters, meters ----

    def _index(self, index: ast.Expr) -> str:
        text = self.small(index)
        if "(" in text:
            text = self.temp_c("uint64_t", text)
        return text

    def _m_register_read(self, e: ast.Call, result: ast.Expr, index: ast.Expr) -> None:
        register = self.extern(e)
        group, member, _, _, width = self.records.access[register.number]
        size = register.arguments["size"]
        self.used_records.add(group)
        at = self._index(index)
        if width > 128:
            name = self.temp(register.type.arguments[0], "{{0}}")
            self.out.append(f"if (P4_IN({at}, {size})) {name} = R{group}[{at}].{member};")
            self.store(result, name)
            return
        # Outside of the register BMv2 leaves the destination alone.
        old = self.left(result) if self.is_path(result) else "0"
        self.store(result, f"(P4_IN({at}, {size}) ? R{group}[{at}].{member} : {old})")

    def _m_register_write(self, e: ast.Call, index: ast.Expr, value: ast.Expr) -> None:
        register = self.extern(e)
        group, member, _, _, _ = self.records.access[register.number]
        size = register.arguments["size"]
        self.used_records.add(group)
        if self.has_effect(index) or self.has_effect(value):
            at = self.temp_c("uint64_t", self.small(index))
            text = self.value(value)
        else:
            at, text = self._index(index), self.value(value)
        self.out.append(f"if (P4_IN({at}, {size})) R{group}[{at}].{member} = {text};")

    def _m_counter_count(self, e: ast.Call, index: ast.Expr) -> None:
        counter = self.extern(e)
        self.out.append(
            f"p4_counter_add(&I->counters[{counter.number}], {self.small(index)}, P->base.length);"
        )

    def _m_direct_counter_count(self, e: ast.Call) -> None:
        """BMv2 counts at every hit of the table, so there is nothing left to do."""

    def _m_meter_execute_meter(self, e: ast.Call, index: ast.Expr, result: ast.Expr) -> None:
        meter = self.extern(e)
        colour = self.temp_c(
            "uint32_t",
            f"p4_meter_run(&I->meters[{meter.number}], {self.small(index)}, P->base.length,"
            " P->base.now_ns)",
        )
        self.store_number(result, colour)

    def _m_direct_meter_read(self, e: ast.Call, result: ast.Expr) -> None:
        if self.current_entry is None:
            raise self.fatal(e.place, "a direct meter can only be read in an action of its table")
        entry, hit, number, stored = self.current_entry
        if not stored:
            colour = self.temp_c("uint32_t", "0")
            self.out.append(f"if ({hit}) {colour} = {self.direct_meter(number, entry)};")
            self.store_number(result, colour)

    def store_number(self, target: ast.Expr, text: str, width: int = 32) -> None:
        """Store a C integer of `width` bits in a variable of any width."""
        under = self._of_numbers(target)
        if not isinstance(under, Bits):
            self.store(target, f"({self.layout.c_type(under)})({text})")
            return
        self.store(target, self.convert(text, Bits(width), Bits(under.width)))

    def _of_numbers(self, e: ast.Expr) -> Type:
        """The type of what must be a number. The externs' declarations allow any type there."""
        under = underlying(e.type)
        if not isinstance(under, Bits | EnumType) and under not in (BOOL, INT):
            raise self.fatal(e.place, f"expected a number (bit<W> or int<W>), but this is {e.type}")
        return under

    # ---- hashes and checksums ----

    def _algorithm(self, e: ast.Expr) -> int:
        if not isinstance(e.const, Symbol):
            raise self.fatal(e.place, "the algorithm must be known at compile time")
        if e.const.name not in HASHES:
            raise self.fatal(e.place, f"hash algorithm {e.const.name} is not supported")
        return HASHES[e.const.name]

    def _hash(self, algorithm: ast.Expr, data: ast.Expr, payload: bool = False) -> str:
        name, size = self.pack(self.data_fields(data))
        number = self._algorithm(algorithm)
        if payload:
            call = f"p4_hash_two({number}, {name}, {size}, P->base.payload, P->base.payload_length)"
        else:
            call = f"p4_hash({number}, {name}, {size})"
        return self.temp_c("uint64_t", call)

    def _e_hash(
        self, e: ast.Call, result: ast.Expr, algo: ast.Expr, base: ast.Expr, data: ast.Expr, limit
    ) -> None:
        for number in (base, limit):
            self._of_numbers(number)
        low = self.temp_c("uint64_t", self.small(base))
        high = self.temp_c("uint64_t", self.small(limit))
        value = self._hash(algo, data)
        number = self.temp_c("uint64_t", f"{low} + ({high} ? {value} % {high} : 0)")
        self.store_number(result, number, 64)

    def _checksum(self, e: ast.Call, payload: bool, update: bool) -> None:
        condition, data, checksum, algo = (v for _, v in e.call.arguments)
        outer, self.out = self.out, []
        text = self.value(condition)
        before, self.out = self.out, []
        value = self._hash(algo, data, payload)
        if update:
            self.store_number(checksum, value, 64)
        else:
            under = self._of_numbers(checksum)
            got = self.convert(value, Bits(64), under) if isinstance(under, Bits) else value
            self.out.append(
                f"if (!({self.equal(got, self.value(checksum), under)})) "
                "P->base.std.checksum_error = 1;"
            )
        body, self.out = self.out, outer
        self.out += before
        self.out.append(f"if ({text}) {{ " + "\n".join(body) + " }")

    def _e_verify_checksum(self, e: ast.Call, *_: ast.Expr) -> None:
        self._checksum(e, False, False)

    def _e_update_checksum(self, e: ast.Call, *_: ast.Expr) -> None:
        self._checksum(e, False, True)

    def _e_verify_checksum_with_payload(self, e: ast.Call, *_: ast.Expr) -> None:
        self._checksum(e, True, False)

    def _e_update_checksum_with_payload(self, e: ast.Call, *_: ast.Expr) -> None:
        self._checksum(e, True, True)

    def _m_Checksum16_get(self, e: ast.Call, data: ast.Expr) -> str:
        name, size = self.pack(self.data_fields(data))
        return self.temp_c("uint16_t", f"(uint16_t)p4_hash({HASHES['csum16']}, {name}, {size})")

    def selector_hash(self, table, fields: list) -> str:
        algorithm = table.profile.arguments.get("algorithm")
        number = HASHES.get(algorithm.name, 0) if isinstance(algorithm, Symbol) else 0
        leaves = []
        for text, type_ in fields:
            leaves += self.leaves(text, type_)
        name, size = self.pack(leaves)
        width = table.profile.arguments.get("outputWidth") or 64
        limit = f" & {self.mask(width)}" if width < 64 else ""
        return f"(p4_hash({number}, {name}, {size}){limit})"

    def _e_random(self, e: ast.Call, result: ast.Expr, low: ast.Expr, high: ast.Expr) -> None:
        for number in (low, high):
            self._of_numbers(number)
        a, b = self.temp_c("uint64_t", self.small(low)), self.temp_c("uint64_t", self.small(high))
        value = self.temp_c("uint64_t", f"p4_random(I, {a}, {b})")
        self.store_number(result, value, 64)

    # ---- requests to the traffic manager ----

    def _e_mark_to_drop(self, e: ast.Call, standard: ast.Expr | None = None) -> None:
        name = self.left(standard) if standard is not None else "P->base.std"
        self.out.append(f"{name}.egress_spec = {511};")
        self.out.append(f"{name}.mcast_grp = 0;")

    def _field_list(self, e: ast.Expr) -> int:
        if e.const is None:
            raise self.fatal(e.place, "the number of a field list must be known at compile time")
        return int(e.const)

    def _list_of_call(self, data: ast.Expr | None) -> int:
        """A field list from the explicit fields of clone3, resubmit(data), recirculate(data)."""
        if data is None:
            return -1
        fields = [text for text, _ in self.data_fields(data)]
        paths = tuple(text for text in fields if text.startswith(("P->m.", "P->h.")))
        if not paths:
            return -1
        if paths not in self.call_lists:
            self.call_lists.append(paths)
        return FIELD_LIST_OF_CALL + self.call_lists.index(paths)

    def _clone(self, session: ast.Expr, fields: int) -> None:
        self.out.append(f"P->base.req.clone_session = (uint32_t){self.small(session)};")
        self.out.append(f"P->base.req.clone_fields = {fields};")
        self.out.append("P->base.req.clone = 1;")

    def _e_clone(self, e: ast.Call, kind: ast.Expr, session: ast.Expr) -> None:
        self._clone(session, -1)

    def _e_clone3(self, e: ast.Call, kind: ast.Expr, session: ast.Expr, data: ast.Expr) -> None:
        self._clone(session, self._list_of_call(data))

    def _e_clone_preserving_field_list(
        self, e: ast.Call, kind: ast.Expr, session: ast.Expr, index: ast.Expr
    ) -> None:
        self._clone(session, self._field_list(index))

    def _request(self, name: str, fields: int) -> None:
        self.out.append(f"P->base.req.{name}_fields = {fields};")
        self.out.append(f"P->base.req.{name} = 1;")

    def _e_resubmit(self, e: ast.Call, data: ast.Expr) -> None:
        self._request("resubmit", self._list_of_call(data))

    def _e_recirculate(self, e: ast.Call, data: ast.Expr) -> None:
        self._request("recirculate", self._list_of_call(data))

    def _e_resubmit_preserving_field_list(self, e: ast.Call, index: ast.Expr) -> None:
        self._request("resubmit", self._field_list(index))

    def _e_recirculate_preserving_field_list(self, e: ast.Call, index: ast.Expr) -> None:
        self._request("recirculate", self._field_list(index))

    def _e_truncate(self, e: ast.Call, length: ast.Expr) -> None:
        limit = self.temp_c("uint32_t", f"(uint32_t){self.small(length)}")
        self.out.append(
            f"if (!P->base.req.truncate || {limit} < P->base.req.truncate) "
            f"P->base.req.truncate = {limit};"
        )

    def _words(self, fields: list) -> tuple[str, int]:
        """Fields as 64-bit words; returns the C array and their number."""
        parts = self.words_of(fields)
        name = self.fresh("words")
        self.out.append(f"uint64_t {name}[] = {{ {', '.join(parts) or '0'} }};")
        return name, len(parts)

    def _e_digest(self, e: ast.Call, receiver: ast.Expr, data: ast.Expr) -> None:
        type_ = data.type
        fields = self.data_fields(data)
        number = self._digest_number(e, type_, fields)
        array, count = self._words(fields)
        self.out.append(
            f"if (I->config.digest) I->config.digest(I->config.user, &P->base,"
            f" (uint32_t){self.small(receiver)}, {number}, {array}, {count});"
        )

    def _digest_number(self, e: ast.Call, type_, fields: list) -> int:
        """The number of the digest that a call makes, the same wherever the call is written."""
        if id(e) in self.digest_calls:
            return self.digest_calls[id(e)]
        number = self.digest_calls[id(e)] = len(self.digests)
        if isinstance(type_, Composite):
            name = str(type_)
        else:
            unnamed = [t for _, t in self.digest_types if not isinstance(t, Composite)]
            name = f"digest_{len(unnamed)}"
        self.digest_types.append((name, type_))
        widths = [{"width": width_of(t)} for _, t in fields]
        self.digests.append({"id": number, "name": name, "fields": widths})
        return number

    # ---- for the author of the program ----

    def _where(self, e: ast.Call) -> str:
        name = self.diagnostics.files[e.place.file].rsplit("/", 1)[-1]
        return f"{name}:{e.place.line}"

    def _e_assert(self, e: ast.Call, check: ast.Expr) -> None:
        text = c_string(f"{self._where(e)}: {e.call.name} failed")
        leave = self.goto(self.exit_label) if self.exit_label else self.goto("reject")
        self.out.append(
            f"if (!({self.value(check)})) {{ p4_failed(I, &P->base, {text}); {leave} }}"
        )

    _e_assume = _e_assert

    def _e_log_msg(self, e: ast.Call, message: ast.Expr, data: ast.Expr | None = None) -> None:
        if not isinstance(message.const, str):
            raise self.fatal(message.place, "the message must be known at compile time")
        fields = self.data_fields(data) if data is not None else []
        array, _ = self._words(fields)
        widths = ", ".join(str(words(width_of(t) or 1) or 1) for _, t in fields) or "0"
        name = self.fresh("widths")
        self.out.append(f"static const uint8_t {name}[] = {{ {widths} }};")
        self.out.append(
            f"p4_log(I, &P->base, {c_string(message.const)}, {array}, {name}, {len(fields)});"
        )

    # ---- traced builds override these (emit_trace) ----

    def trace_table(self, e: ast.Call, table, texts: list, hit: str, run: str, entry: str) -> None:
        pass

    def trace_extract(self, e: ast.Call, name: str, type_) -> None:
        pass

    def trace_select(self, select: ast.Select, values: list) -> None:
        pass


def c_string(text: str) -> str:
    made = "".join(
        c
        if c.isascii() and c.isprintable() and c not in '"\\?'
        else "".join(f"\\{b:03o}" for b in c.encode())
        for c in text
    )
    return f'"{made}"'


__all__ = ["ExternEmitter", "c_string", "BOOL", "EnumType", "c_int"]
