"""The trees of the reference's programs, and their text.

Types: ("bit", width), ("int", width), ("bool",).
Expressions (the type second, so that every node tells it):
    ("const", t, value) ("var", t, name) ("field", t, header, name) ("un", t, op, e)
    ("bin", t, op, a, b) ("cast", t, e) ("slice", t, e, high, low) ("tern", t, c, a, b)
    ("call", t, function, arguments) ("valid", t, header) ("error", t, name)
Statements:
    ("set", left, e) ("if", c, yes, no) ("switch", e, [(values, block)], default)
    ("apply", table) ("hit", table, yes, no) ("run", table, [(actions, block)], default)
    ("action", name, arguments) ("setValid", h) ("setInvalid", h) ("copy", h, h) ("exit",)
    ("return", e or None) ("read", register, left, index) ("write", register, index, e)
    ("push", n) ("pop", n) ("drop",)
A left value is a var, a field, or a slice of one. A header is "hdr.h1" or "hdr.s[2]".
"""

from __future__ import annotations

from dataclasses import dataclass, field

BOOL = ("bool",)


def bit(width: int) -> tuple:
    return ("bit", width)


@dataclass
class Table:
    """`keys`: (kind, expression); `entries`: (key sets, action, data), first match wins but for
    lpm, where the longest prefix does. A key set is (low, high) for range, (value, mask) else."""

    name: str
    keys: list
    actions: list
    entries: list
    default: tuple
    open: bool = False  # the control plane may change the entries


@dataclass
class Routine:
    """An action or function; parameters: (direction, type, name); `data` ones last, direction
    ""."""

    name: str
    parameters: list
    body: list
    result: tuple | None = None


@dataclass
class State:
    """`steps`: ("extract", header or "next") ("verify", e, error) ("advance", bits) and
    assignments; `keys`: expressions; `cases`: (key sets or None, state); no keys: `cases[0]`."""

    name: str
    steps: list
    keys: list
    cases: list


@dataclass
class Program:
    headers: dict = field(default_factory=dict)  # name -> [(field, type)]
    stack: tuple = ("s", 3, "e_t")
    types: dict = field(default_factory=dict)  # type name -> [(field, type)]
    instances: dict = field(default_factory=dict)  # header instance -> type name
    states: list = field(default_factory=list)
    functions: list = field(default_factory=list)
    actions: list = field(default_factory=list)
    tables: list = field(default_factory=list)
    registers: dict = field(default_factory=dict)  # name -> (type, size)
    variables: list = field(default_factory=list)  # (type, name, expression)
    apply: list = field(default_factory=list)
    egress: list = field(default_factory=list)


def type_text(t: tuple) -> str:
    return "bool" if t == BOOL else f"{t[0]}<{t[1]}>"


def literal(t: tuple, value: int) -> str:
    if t == BOOL:
        return "true" if value else "false"
    if t[0] == "int":
        return f"({type_text(t)}) ({value})"
    return f"{t[1]}w{value}"


def expression(e: tuple) -> str:
    kind, t = e[0], e[1]
    if kind == "const":
        return literal(t, e[2])
    if kind == "var":
        return e[2]
    if kind == "field":
        return f"{e[2]}.{e[3]}"
    if kind == "un":
        return f"({e[2]} {expression(e[3])})"
    if kind == "bin":
        return f"({expression(e[3])} {e[2]} {expression(e[4])})"
    if kind == "cast":
        return f"(({type_text(t)}) {expression(e[2])})"
    if kind == "slice":
        return f"{expression(e[2])}[{e[3]}:{e[4]}]"
    if kind == "tern":
        return f"({expression(e[2])} ? {expression(e[3])} : {expression(e[4])})"
    if kind == "call":
        return f"{e[2]}({', '.join(map(expression, e[3]))})"
    if kind == "valid":
        return f"{e[2]}.isValid()"
    if kind == "error":
        return f"(standard.parser_error == error.{e[2]})"
    raise AssertionError(kind)


def block(statements: list) -> str:
    return "{ " + " ".join(map(statement, statements)) + " }"


def statement(s: tuple) -> str:
    kind = s[0]
    if kind == "set":
        return f"{expression(s[1])} = {expression(s[2])};"
    if kind == "if":
        text = f"if ({expression(s[1])}) {block(s[2])}"
        return text + (f" else {block(s[3])}" if s[3] else "")
    if kind == "switch":
        cases = "".join(
            "".join(f"{literal(s[1][1], v)}: " for v in values) + block(body)
            for values, body in s[2]
        )
        return f"switch ({expression(s[1])}) {{ {cases} default: {block(s[3])} }}"
    if kind == "apply":
        return f"{s[1]}.apply();"
    if kind == "hit":
        return f"if ({s[1]}.apply().hit) {block(s[2])} else {block(s[3])}"
    if kind == "run":
        cases = "".join("".join(f"{a}: " for a in names) + block(body) for names, body in s[2])
        return f"switch ({s[1]}.apply().action_run) {{ {cases} default: {block(s[3])} }}"
    if kind == "action":
        return f"{s[1]}({', '.join(map(expression, s[2]))});"
    if kind in ("setValid", "setInvalid"):
        return f"{s[1]}.{kind}();"
    if kind == "copy":
        return f"{s[1]} = {s[2]};"
    if kind == "exit":
        return "exit;"
    if kind == "return":
        return f"return {expression(s[1])};" if s[1] is not None else "return;"
    if kind == "read":
        return f"{s[1]}.read({expression(s[2])}, {expression(s[3])});"
    if kind == "write":
        return f"{s[1]}.write({expression(s[2])}, {expression(s[3])});"
    if kind in ("push", "pop"):
        return f"hdr.s.{kind}_front({s[1]});"
    if kind == "drop":
        return "mark_to_drop(standard);"
    raise AssertionError(kind)


def _key_set(kind: str, t: tuple, low: int, second: int) -> str:
    if kind == "exact":
        return literal(t, low)
    if kind == "range":
        return f"{literal(t, low)} .. {literal(t, second)}"
    return f"{literal(t, low)} &&& {literal(t, second)}"


def _table(t: Table) -> str:
    keys = " ".join(f'{expression(e)}: {kind} @name("k{i}");' for i, (kind, e) in enumerate(t.keys))
    entries = " ".join(
        "("
        + ", ".join(_key_set(k, e[1], *s) for (k, e), s in zip(t.keys, sets, strict=True))
        + f"): {action}({', '.join(literal(*d) for d in data)});"
        for sets, action, data in t.entries
    )
    name, data = t.default
    default = f"{name}({', '.join(literal(*d) for d in data)})"
    word = "entries" if t.open else "const entries"
    entries = f"{word} = {{ {entries} }}" if t.entries else ""
    return (
        f"table {t.name} {{ key = {{ {keys} }} actions = {{ {' '.join(a + ';' for a in t.actions)}"
        f" }} {entries} default_action = {default}; }}"
    )


def _routine(r: Routine, word: str) -> str:
    parameters = ", ".join(f"{d} {type_text(t)} {n}".strip() for d, t, n in r.parameters)
    return f"{word} {r.name}({parameters}) {block(r.body)}"


def _state(s: State) -> str:
    parts = []
    for step in s.steps:
        if step[0] == "extract":
            target = "hdr.s.next" if step[1] == "next" else step[1]
            parts.append(f"packet.extract({target});")
        elif step[0] == "verify":
            parts.append(f"verify({expression(step[1])}, error.{step[2]});")
        elif step[0] == "advance":
            parts.append(f"packet.advance({step[1]});")
        else:
            parts.append(statement(step))
    if s.keys:
        cases = " ".join(
            ("default" if sets is None else "(" + ", ".join(sets) + ")") + f": {target};"
            for sets, target in (
                (
                    None
                    if c is None
                    else [_select_key(k, x) for k, x in zip(s.keys, c, strict=True)],
                    target,
                )  # fmt: skip
                for c, target in s.cases
            )
        )
        keys = ", ".join(map(expression, s.keys))
        parts.append(f"transition select({keys}) {{ {cases} }}")
    else:
        parts.append(f"transition {s.cases[0][1]};")
    return f"state {s.name} {{ {' '.join(parts)} }}"


def _select_key(key: tuple, label: tuple) -> str:
    """label: ("any",) ("is", v) ("mask", v, m) ("range", low, high)."""
    t = key[1]
    if label[0] == "any":
        return "_"
    if label[0] == "is":
        return literal(t, label[1])
    joiner = " &&& " if label[0] == "mask" else " .. "
    return joiner.join(literal(t, x) for x in label[1:])


def text(p: Program) -> str:
    """The program in P4."""
    out = ["#include <core.p4>", "#include <v1model.p4>", "error { Wrong }"]
    for name, fields in p.types.items():
        inner = " ".join(f"{type_text(t)} {f};" for f, t in fields)
        out.append(f"header {name} {{ {inner} }}")
    members = " ".join(f"{t} {h};" for h, t in p.instances.items())
    out.append(f"struct headers_t {{ {members} {p.stack[2]}[{p.stack[1]}] {p.stack[0]}; }}")
    out.append("struct metadata_t { bit<9> port; }")
    for f in p.functions:
        out.append(_routine(f, type_text(f.result) if f.result else "void"))
    parameters = "inout headers_t hdr, inout metadata_t meta"
    standard = "inout standard_metadata_t standard"
    out.append(
        "parser MyParser(packet_in packet, out headers_t hdr, inout metadata_t meta, "
        f"{standard}) {{"
    )
    out += [_state(s) for s in p.states]
    out.append("}")
    out.append(f"control MyVerify({parameters}) {{ apply {{ }} }}")
    out.append(f"control MyIngress({parameters}, {standard}) {{")
    for name, (t, size) in p.registers.items():
        out.append(f"register<{type_text(t)}>({size}) {name};")
    out += [f"{type_text(t)} {n} = {expression(e)};" for t, n, e in p.variables]
    out += [_routine(a, "action") for a in p.actions]
    out += [_table(t) for t in p.tables]
    out.append(f"apply {block([('set', ('var', bit(9), 'standard.egress_spec'), ('const', bit(9), 1)), *p.apply])} }}")  # fmt: skip  # noqa: E501
    out.append(f"control MyEgress({parameters}, {standard}) {{ apply {block(p.egress)} }}")
    out.append(f"control MyUpdate({parameters}) {{ apply {{ }} }}")
    emits = " ".join(f"packet.emit(hdr.{h});" for h in [*p.instances, p.stack[0]])
    out.append(f"control MyDeparser(packet_out packet, in headers_t hdr) {{ apply {{ {emits} }} }}")
    out.append(
        "V1Switch(MyParser(), MyVerify(), MyIngress(), MyEgress(), MyUpdate(), MyDeparser()) main;"
    )
    return "\n".join(out) + "\n"
