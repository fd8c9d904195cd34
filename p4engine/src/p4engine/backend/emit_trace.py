"""A program that tells what it does: the code generator with an event at every step worth seeing.

A separate build, so that the fast one pays nothing. Each event is a call with the number of its
*site* and a few values; the site (kind, place in the source, names and widths) is known at
compile time and goes into info["trace"], from which trace.py makes text. The events are written
around what the ordinary emitters write and change nothing of it.
"""

from __future__ import annotations

from typing import Any

from p4engine.backend.emit_program import Generator
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
    Stack,
    Tuple,
    Type,
    Varbit,
    is_header,
    underlying,
    width_of,
)
from p4engine.middle.layout import words

STD_AFTER_INGRESS = ("egress_spec", "mcast_grp")
REQUESTS = ("clone", "clone_session", "resubmit", "recirculate", "truncate", "failed")
STAGES = {"p": "parser", "vr": "verify", "ig": "ingress", "eg": "egress", "ck": "update"}
STAGES["dep"] = "deparser"
SILENT = {"packet_in", "packet_out"}


def scalar(type_: Type | None) -> bool:
    """Can a value of this type be shown as one number?"""
    under = underlying(type_) if type_ is not None else None
    if isinstance(under, Bits):
        return under.width > 0
    return under in (BOOL, ERROR) or isinstance(under, EnumType)


def describe(type_: Type) -> dict:
    """How a value of a scalar type is to be shown."""
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


class TracedGenerator(Generator):
    """See the module's text. `sites` is what info["trace"]["sites"] will be."""

    def __init__(self, checker, instances, diagnostics):
        super().__init__(checker, instances, diagnostics)
        self.sites: list[dict] = []
        self.here: Place | None = None
        self.in_parser = False
        self.emitted: list[str] = []

    # ---- events ----

    def site(self, kind: str, place: Place | None, **facts: Any) -> int:
        """Number of a new site."""
        made: dict[str, Any] = {"kind": kind}
        if place is not None and place[0] >= 0:
            lines = self.diagnostics.lines[place[0]]
            made["file"] = self.diagnostics.files[place[0]]
            made["line"] = place[1]
            made["source"] = lines[place[1] - 1].strip() if place[1] <= len(lines) else ""
        made.update(facts)
        self.sites.append(made)
        return len(self.sites) - 1

    def values(self, fields: list[tuple[str, Type]]) -> tuple[str, int]:
        """A C array of 64-bit words with these scalar values, and their number."""
        parts = self.words_of(fields)
        return f"(const uint64_t[]){{ {', '.join(parts) or '0'} }}", len(parts)

    def event(
        self, kind: str, place: Place | None, fields: list[tuple[str, Type]] = (), **facts: Any
    ) -> str:
        """A C statement that reports an event; `fields` are scalar."""
        site = self.site(kind, place, values=[describe(t) for _, t in fields], **facts)
        array, count = self.values(list(fields))
        return f"p4_trace(I, &P->base, {site}, {array}, {count});"

    def plain(self, kind: str, place: Place | None, texts: list[str], **facts: Any) -> str:
        """An event with C integers of at most 64 bits."""
        return self.event(kind, place, [(t, Bits(64)) for t in texts], **facts)

    # ---- stages ----

    def stage(self, name: str, bindings: list, *, parser: bool = False) -> str:
        self.in_parser = parser
        block = self.blocks[name]
        body = super().stage(name, bindings, parser=parser)
        std, req = "P->base.std.", "P->base.req."
        begin, end = [], []
        if name == "p":
            begin = [f"{std}ingress_port", "P->base.length", f"{std}instance_type"]
        elif name == "ig":
            end = [std + n for n in STD_AFTER_INGRESS] + [req + n for n in REQUESTS]
        elif name == "eg":
            begin = [f"{std}egress_port", f"{std}egress_rid", f"{std}instance_type"]
            end = [f"{std}egress_spec", "0"] + [req + n for n in REQUESTS]
        elif name == "dep":
            end = ["(uint64_t)(out - begin)", "P->base.payload_length", f"{req}truncate"]
        facts = {"stage": STAGES[name], "block": block.decl.name}
        self.out = []
        first = self.plain("begin", block.decl.place, begin, **facts)
        last = self.plain("end", None, end, **facts) if end else ""
        return f"{{ {first}\n{body}\n{last} }}"

    def pipeline(self) -> list[str]:
        """The parser also runs for clones; what comes in passes here."""
        texts = super().pipeline()
        words_ = [f"packet->{n}" for n in ("std.ingress_port", "length", "std.instance_type")]
        site = self.site("packet", None, values=[describe(Bits(64))] * len(words_))
        report = f"p4_trace(I, packet, {site}, (const uint64_t[]){{ {', '.join(words_)} }}, 3);"
        head = "static void ingress(p4_instance *I, p4_packet *packet) {"
        return [t.replace(head, f"{head} {report}") for t in texts]

    def file(self, name: str) -> str:
        text = super().file(name)
        return text.replace('#include "p4gen.h"', '#include "p4gen.h"\n#include "p4trace.h"', 1)

    def info(self, name: str) -> dict:
        made = super().info(name)
        made["trace"] = {"sites": self.sites}
        return made

    # ---- statements ----

    def statement(self, s: ast.Node) -> None:
        before, self.here = self.here, getattr(s, "place", None) or self.here
        super().statement(s)
        self.here = before

    def _variable(self, s: ast.Variable, outer: list[str]) -> None:
        super()._variable(s, outer)
        if s.value is not None and scalar(s.type):
            fields = [(self.env[id(s)], s.type)]
            self.out.append(self.event("assign", s.place, fields, what=s.name))

    def _s_Assign(self, s: ast.Assign) -> None:
        super()._s_Assign(s)
        what = spell(s.left)
        if scalar(s.left.type) and not self.has_effect(s.left):
            fields = [(self.value(s.left), s.left.type)]
            self.out.append(self.event("assign", s.place, fields, what=what))
        else:
            self.out.append(self.event("do", s.place))

    def _s_If(self, s: ast.If) -> None:
        if s.condition.const is not None:
            super()._s_If(s)
            return
        condition = self.temp_c("uint8_t", self.value(s.condition))
        self.out.append(self.event("if", s.place, [(condition, BOOL)]))
        text = f"if ({condition}) {self.body(s.yes)}"
        if s.no is not None:
            text += f" else {self.body(s.no)}"
        self.out.append(text)

    def _s_Exit(self, s: ast.Exit) -> None:
        self.out.append(self.event("do", s.place))
        super()._s_Exit(s)

    def _s_Return(self, s: ast.Return) -> None:
        self.out.append(self.event("do", s.place))
        super()._s_Return(s)

    def _builtin(self, e: ast.Call) -> str | None:
        text = super()._builtin(e)
        if e.call.name in ("setValid", "setInvalid", "push_front", "pop_front"):
            self.out.append(self.event("do", e.place))
        return text

    def call(self, e: ast.Call) -> str | None:
        info = e.call
        if info is not None and info.kind == "action":
            self.out.append(self._enter("action", e, info.decl.name, info.arguments))
        elif info is not None and info.kind == "apply":
            self.out.append(self.event("enter", e.place, name=info.decl.name))
        return super().call(e)

    def _enter(self, kind: str, e: ast.Call, name: str, arguments: list) -> str:
        shown = [
            (p, v)
            for p, v in arguments
            if v is not None and scalar(p.type) and p.direction != "out" and not self.has_effect(v)
        ]
        fields = []
        for p, v in shown:
            type_ = p.type if v.const is not None else v.type
            text = self.literal(v.const, p.type) if v.const is not None else self.value(v)
            fields.append((text, type_ if scalar(type_) else p.type))
        names = [p.name for p, _ in shown]
        return self.event(kind, e.place, fields, name=name, names=names, direct=True)

    # ---- tables ----

    def trace_table(self, e: ast.Call, table, texts: list, hit: str, run: str, entry: str) -> None:
        fields: list[tuple[str, Type]] = []
        names = []
        for key, text in zip(table.keys, texts, strict=True):
            if scalar(key.value.type):
                fields.append((text, key.value.type))
                names.append([key.name, key.kind])
        fields += [(hit, BOOL), (run, Bits(32)), (f"(uint64_t){entry}->handle", Bits(64))]
        self.out.append(
            self.event(
                "table",
                e.place,
                fields,
                name=table.name,
                keys=names,
                actions=[a.name for a in table.actions],
            )
        )

    def _run_entry(self, action, entry: str) -> None:
        fields, at, names = [], 0, []
        for parameter, value in action.ref.binding:
            if value is None:
                if scalar(parameter.type):
                    text = self.words_value(f"{entry}->params", at, parameter.type)
                    fields.append((text, parameter.type))
                    names.append(parameter.name)
                at += words(width_of(parameter.type) or 1) or 1
        place = action.ref.decl.place
        self.out.append(self.event("action", place, fields, name=action.name, names=names))
        super()._run_entry(action, entry)

    # ---- externs ----

    def extern_call(self, e: ast.Call) -> str | None:
        return self._traced_extern(e, e.call.name, super().extern_call)

    def method_call(self, e: ast.Call) -> str | None:
        kind = e.call.receiver.type.decl.name
        if kind in SILENT:
            return super().method_call(e)
        name = f"{self.extern(e).name}.{e.call.name}"
        return self._traced_extern(e, name, super().method_call)

    def _traced_extern(self, e: ast.Call, name: str, write) -> str | None:
        """Arguments before, results behind."""
        if e.call.name in ("static_assert", "verify"):
            return write(e)
        before, names = [], []
        after = []
        for parameter, value in e.call.arguments:
            if value is None or isinstance(getattr(value, "type", None), ExternType):
                continue
            if not scalar(value.type) or self.has_effect(value):
                continue
            under = underlying(value.type)
            if parameter.direction in ("out", "inout"):
                after.append((parameter.name, value))
            elif value.const is None or not isinstance(under, EnumType):
                width = width_of(value.type)
                if width:
                    before.append((self.temp(value.type, self.value(value)), value.type))
                    names.append(parameter.name)
        text = write(e)
        fields = before + [(self.value(v), v.type) for _, v in after]
        names += [n for n, _ in after]
        if e.call.name.startswith("verify_checksum"):
            fields.append(("P->base.std.checksum_error", BOOL))
            names.append("checksum_error")
        for _, value in e.call.arguments:
            if isinstance(getattr(value, "const", None), str):  # the message of log_msg
                name += f' "{value.const}"'
        results = [n for n, _ in after]
        self.out.append(
            self.event("extern", e.place, fields, name=name, names=names, results=results)
        )
        return text

    # ---- parsers ----

    def _state(self, state: ast.State, labels: dict[str, str], steps: str) -> list[str]:
        before, self.here = self.here, state.place
        made = super()._state(state, labels, steps)
        self.here = before
        return [self.event("state", state.place, name=state.name), *made]

    def trace_select(self, select: ast.Select, values: list) -> None:
        fields = [(text, type_) for text, type_ in values if scalar(type_)]
        names = [spell(v) for v in select.values]
        self.out.append(self.event("select", select.place, fields, names=names))

    def parser_error(self, name: str) -> str:
        report = self.event("parser_error", self.here, name=name)
        return f"{report} {super().parser_error(name)}"

    def _e_verify(self, e: ast.Call, check: ast.Expr, error: ast.Expr) -> None:
        condition = self.temp_c("uint8_t", self.value(check))
        self.out.append(self.event("if", e.place, [(condition, BOOL)]))
        number = self.temp(error.type, self.value(error))
        report = self.event("verify", e.place, [(number, ERROR)])
        self.out.append(
            f"if (!{condition}) {{ {report} P->base.std.parser_error = {number};"
            f" {self.goto('reject')} }}"
        )

    def extract(self, e: ast.Call) -> None:
        self.packet_start = self.fresh("from")
        self.out.append(f"const uint8_t *{self.packet_start} = p;")
        super().extract(e)

    def _fields(self, type_: Type) -> list[list]:
        """(name, bits, how to show) of a header's fields; bits -1: a varbit, the rest."""
        made = []

        def walk(t: Type, name: str) -> None:
            under = underlying(t)
            if isinstance(under, Composite | Tuple):
                parts = under.fields.items() if isinstance(under, Composite) else ()
                for n, inner in parts:
                    walk(inner, f"{name}.{n}" if name else n)
            elif isinstance(under, Varbit):
                made.append([name, -1, {}])
            elif width_of(under):
                made.append([name, width_of(under), describe(t)])

        walk(type_, "")
        return made

    def trace_extract(self, e: ast.Call, name: str, type_: Type) -> None:
        target = e.call.arguments[0][1]
        what, index = (spell(target), "0") if target is not None else ("_", "0")
        stacked = isinstance(target, ast.Member) and isinstance(target.base.type, Stack)
        if stacked and target.name == "next":
            index = f"{self.left(target.base)}.next - 1"
        start = self.packet_start
        site = self.site("extract", e.place, what=what, fields=self._fields(type_))
        self.out.append(
            f"p4_trace_bytes(I, &P->base, {site}, (const uint64_t[]){{ {index} }}, 1, "
            f"(size_t)({start} - P->base.data), {start}, (size_t)(p - {start}));"
        )

    # ---- deparsers ----

    def _m_packet_out_emit(self, e: ast.Call, what: ast.Expr) -> None:
        self.emitted = [spell(what)]
        super()._m_packet_out_emit(e, what)

    def emit(self, text: str, type_: Type) -> None:
        under = underlying(type_)
        if isinstance(under, Stack):
            for i in range(under.size):
                self.emitted.append(f"[{i}]")
                self.emit(f"{text}.e[{i}]", under.element)
                self.emitted.pop()
        elif isinstance(under, Composite) and not is_header(under):
            for name, t in under.fields.items():
                self.emitted.append(f".{name}")
                self.emit(self.part(text, under, name), t)
                self.emitted.pop()
        else:
            super().emit(text, type_)

    def emit_header(self, text: str, type_: Type) -> list[str]:
        start = self.fresh("to")
        site = self.site("emit", self.here, what="".join(self.emitted), fields=self._fields(type_))
        report = (
            f"if ({text}.valid) p4_trace_bytes(I, &P->base, {site}, (const uint64_t[]){{ 0 }}, 0, "
            f"(size_t)({start} - begin), {start}, (size_t)(out - {start}));"
        )
        made = super().emit_header(text, type_)
        return [f"{{ const uint8_t *{start} = out;\n" + "\n".join(made) + f"\n{report} }}"]
