"""The hooks of a program that tells what it does: they write events into its C.

Such a build is a separate one, so that the fast one pays nothing. Each event is a call with the
number of its *site* and a few values; the site (kind, place in the source, names and widths) is
known at compile time and goes into info.trace, from which trace_text.py makes text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from p4engine.backend.context import Context
from p4engine.backend.emit_expr import ExpressionEmitter, has_effect
from p4engine.backend.emit_left import LeftEmitter, is_next
from p4engine.backend.emit_numbers import NumberEmitter
from p4engine.backend.trace_hooks import Trace
from p4engine.frontend import ast
from p4engine.frontend.diagnostics import Place
from p4engine.frontend.spelling import spell
from p4engine.frontend.types import (
    BOOL,
    ERROR,
    Bits,
    Composite,
    EnumType,
    ExternType,
    Tuple,
    Type,
    Varbit,
    underlying,
    width_of,
)
from p4engine.middle.architecture import StageTrace
from p4engine.middle.instantiate import ActionInstance, TableInstance
from p4engine.middle.layout import words
from p4engine.program_info import Trace as TraceInfo

SILENT = {"packet_in", "packet_out", "static_assert", "verify"}  # they have events of their own

Field = tuple[str, Type]  # the C text and type of a scalar


def scalar(type_: Type | None) -> bool:
    """Can a value of this type be shown as one number?"""
    under = underlying(type_) if type_ is not None else None
    if isinstance(under, Bits):
        return under.width > 0
    return under in (BOOL, ERROR) or isinstance(under, EnumType)


def how_to_show(type_: Type) -> dict[str, Any]:
    """The form in which a value of a scalar type is shown."""
    under = underlying(type_)
    made: dict[str, Any] = {"width": width_of(under) or 1}
    if isinstance(under, Bits) and under.signed:
        made["signed"] = True
    kind = type_ if isinstance(type_, EnumType) else under  # a serializable enum keeps its names
    if under == BOOL:
        made["names"] = ["false", "true"]
    elif under == ERROR:
        made["error"] = True
    elif isinstance(kind, EnumType):
        made["enum"] = {str(int(v)): f"{kind}.{n}" for n, v in kind.members.items()}
    return made


def header_fields(type_: Type) -> list[list[Any]]:
    """(name, bits, how to show) of a header's fields; bits -1: a varbit, the rest."""
    made: list[list[Any]] = []

    def walk(t: Type, name: str) -> None:
        under = underlying(t)
        if isinstance(under, Composite | Tuple):
            parts = under.fields.items() if isinstance(under, Composite) else ()
            for n, inner in parts:
                walk(inner, f"{name}.{n}" if name else n)
        elif isinstance(under, Varbit):
            made.append([name, -1, {}])
        elif width_of(under):
            made.append([name, width_of(under), how_to_show(t)])

    walk(type_, "")
    return made


class EventTrace(Trace):
    """Hooks that write events. `sites` is what info.trace.sites will be."""

    headers = ("p4trace.h",)

    def __init__(
        self,
        context: Context,
        numbers: NumberEmitter,
        left: LeftEmitter,
        expressions: ExpressionEmitter,
    ) -> None:
        self.context, self.numbers = context, numbers
        self.left, self.expressions = left, expressions
        self.sites: list[dict[str, Any]] = []

    def info(self) -> TraceInfo:
        return TraceInfo(self.sites)

    # ---- events ----

    def _site(self, kind: str, place: Place | None, **facts: Any) -> int:
        """Number of a new site."""
        made: dict[str, Any] = {"kind": kind}
        if place is not None and place.file >= 0:
            lines = self.context.diagnostics.lines[place.file]
            made["file"] = self.context.diagnostics.files[place.file]
            made["line"] = place.line
            made["source"] = lines[place.line - 1].strip() if place.line <= len(lines) else ""
        made.update(facts)
        self.sites.append(made)
        return len(self.sites) - 1

    def _event(
        self,
        kind: str,
        place: Place | None,
        fields: Sequence[Field] = (),
        packet: str = "&P->base",
        **facts: Any,
    ) -> None:
        """Write an event with the values of scalar fields."""
        site = self._site(kind, place, values=[how_to_show(t) for _, t in fields], **facts)
        parts = self.numbers.words_of(fields)
        array = f"(const uint64_t[]){{ {', '.join(parts) or '0'} }}"
        self.context.out.append(f"p4_trace(I, {packet}, {site}, {array}, {len(parts)});")

    def _numbers(self, texts: Sequence[str]) -> list[Field]:
        """C integers of at most 64 bits as fields."""
        return [(t, Bits(64)) for t in texts]

    # ---- stages ----

    def packet_arrived(self) -> None:
        texts = [f"packet->{n}" for n in self.context.instances.architecture.arrival]
        self._event("packet", None, self._numbers(texts), packet="packet")

    def stage_begun(self, stage: str, decl: ast.Decl) -> None:
        shown = self._stage(stage)
        fields = self._numbers(shown.begin)
        self._event("begin", decl.place, fields, stage=shown.name, block=decl.name)

    def stage_ended(self, stage: str, decl: ast.Decl) -> None:
        shown = self._stage(stage)
        if shown.end:
            fields = self._numbers(shown.end)
            self._event("end", None, fields, stage=shown.name, block=decl.name)

    def _stage(self, stage: str) -> StageTrace:
        return self.context.instances.architecture.stages[stage.partition("_")[0]]

    # ---- statements ----

    def ran(self, place: Place) -> None:
        self._event("do", place)

    def assigned(self, s: ast.Assign) -> None:
        if scalar(s.left.type) and not has_effect(s.left):
            fields = [(self.expressions.value(s.left), s.left.type)]
            self._event("assign", s.place, fields, what=spell(s.left))
        else:
            self.ran(s.place)

    def declared(self, s: ast.Variable, text: str) -> None:
        if scalar(s.type):
            self._event("assign", s.place, [(text, s.type)], what=s.name)

    def decided(self, place: Place, condition: str) -> str:
        name = self.context.temp_c("uint8_t", condition)
        self._event("if", place, [(name, BOOL)])
        return name

    # ---- calls ----

    def action_called(self, call: ast.ActionCall) -> None:
        fields: list[Field] = []
        names: list[str] = []
        for p, v in call.arguments:
            if v is None or not scalar(p.type) or p.direction == "out" or has_effect(v):
                continue
            if v.const is not None:
                fields.append((self.numbers.literal(v.const, p.type), p.type))
            else:
                fields.append((self.expressions.value(v), v.type if scalar(v.type) else p.type))
            names.append(p.name)
        self._event("action", call.place, fields, name=call.decl.name, names=names, direct=True)

    def block_entered(self, call: ast.BlockCall) -> None:
        self._event("enter", call.place, name=call.decl.name)

    @contextmanager
    def extern_called(self, call: ast.ExternCall) -> Iterator[None]:
        """Values of the arguments as they are before the call, results as they are after it."""
        name = silent = call.decl.name
        if isinstance(call, ast.MethodCall):
            silent = call.extern.name
            if silent not in SILENT:
                name = f"{self.context.extern(call).name}.{name}"
        if silent in SILENT:
            yield
            return
        fields: list[Field] = []
        names: list[str] = []
        results: list[tuple[str, ast.Expr]] = []
        for parameter, value in call.arguments:
            if value is None or isinstance(value.type, ExternType):
                continue
            if isinstance(value.const, str):  # the message of log_msg
                name += f' "{value.const}"'
            if not scalar(value.type) or has_effect(value):
                continue
            if parameter.direction in ("out", "inout"):
                results.append((parameter.name, value))
            elif value.const is None or not isinstance(underlying(value.type), EnumType):
                text = self.context.temp(value.type, self.expressions.value(value))
                fields.append((text, value.type))
                names.append(parameter.name)
        yield
        for result, value in results:
            fields.append((self.expressions.value(value), value.type))
            names.append(result)
        if call.decl.name.startswith("verify_checksum"):
            fields.append(("P->base.std.checksum_error", BOOL))
            names.append("checksum_error")
        self._event(
            "extern", call.place, fields, name=name, names=names, results=[n for n, _ in results]
        )

    # ---- tables ----

    def table_applied(
        self,
        call: ast.TableCall,
        table: TableInstance,
        keys: list[str],
        hit: str,
        action: str,
        entry: str,
    ) -> None:
        fields: list[Field] = []
        names: list[list[str]] = []
        for key, text in zip(table.keys, keys, strict=True):
            if scalar(key.value.type):
                fields.append((text, key.value.type))
                names.append([key.name, key.kind])
        fields += [(hit, BOOL), (action, Bits(32)), (f"(uint64_t){entry}->handle", Bits(64))]
        actions = [a.name for a in table.actions]
        self._event("table", call.place, fields, name=table.name, keys=names, actions=actions)

    def action_chosen(self, action: ActionInstance, entry: str) -> None:
        fields: list[Field] = []
        names: list[str] = []
        at = 0
        for parameter, value in action.binding:
            if value is None:
                if scalar(parameter.type):
                    text = self.numbers.from_words(f"{entry}->params", at, parameter.type)
                    fields.append((text, parameter.type))
                    names.append(parameter.name)
                at += words(width_of(parameter.type) or 1) or 1
        self._event("action", action.decl.place, fields, name=action.name, names=names)

    # ---- parsers ----

    def state_entered(self, state: ast.State) -> None:
        self._event("state", state.place, name=state.name)

    def selected(self, select: ast.Select, values: list[Field]) -> None:
        fields = [(text, type_) for text, type_ in values if scalar(type_)]
        self._event("select", select.place, fields, names=[spell(v) for v in select.values])

    def parser_failed(self, error: str) -> None:
        self._event("parser_error", self.context.here, name=error)

    def verify_failed(self, place: Place, error: str) -> None:
        self._event("verify", place, [(error, ERROR)])

    @contextmanager
    def extracted(self, place: Place, target: ast.Expr, type_: Type) -> Iterator[None]:
        start = self.context.fresh("from")
        self.context.out.append(f"const uint8_t *{start} = p;")
        yield
        index = f"{self.left.left(target.base)}.next - 1" if is_next(target) else "0"
        site = self._site("extract", place, what=spell(target), fields=header_fields(type_))
        offset = self.context.instances.architecture.offset_in_packet.format(start=start)
        self.context.out.append(
            f"p4_trace_bytes(I, &P->base, {site}, (const uint64_t[]){{ {index} }}, 1, "
            f"{offset}, {start}, (size_t)(p - {start}));"
        )

    # ---- deparsers ----

    @contextmanager
    def emitted(self, text: str, type_: Type, what: str) -> Iterator[None]:
        start = self.context.fresh("to")
        fields = header_fields(type_)
        site = self._site("emit", self.context.here, what=what, fields=fields)
        with self.context.capture() as made:
            yield
        made.append(
            f"if ({text}.valid) p4_trace_bytes(I, &P->base, {site}, (const uint64_t[]){{ 0 }}, 0, "
            f"(size_t)({start} - begin), {start}, (size_t)(out - {start}));"
        )
        self.context.out.append(f"{{ const uint8_t *{start} = out;\n" + "\n".join(made) + " }")
