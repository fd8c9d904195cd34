"""The trees of the reference's programs, and their text.

Scalar types: ("bit", width), ("int", width), ("bool",), ("ser", width, name, values) for
serializable enums, ("enum", members, name) for others.
Composite types: ("struct", name, ((field, type), ...)), ("tuple", (type, ...)),
("array", type, size).
Expressions (the type second, so that every node tells it):
    ("const", t, value) ("var", t, name) ("part", t, name, path) ("field", t, header, name)
    ("un", t, op, e) ("bin", t, op, a, b) ("cast", t, e) ("slice", t, e, high, low)
    ("tern", t, c, a, b) ("call", t, function, arguments) ("pick", t, c, a, b, explicit)
    ("valid", t, header) ("error", t, name) ("same", t, variable, variable)
    ("equal", t, header, header) ("look", t, composite type, field)
Statements:
    ("set", left, e) ("update", left, op, e) ("if", c, yes, no)
    ("switch", e, [(values, block)], default)
    ("apply", table) ("hit", table, yes, no) ("run", table, [(actions, block)], default)
    ("action", name, arguments) ("setValid", h) ("setInvalid", h) ("copy", h, h) ("union", u, u)
    ("exit",) ("return", e or None) ("break",) ("continue",) ("drop",) ("push", n) ("pop", n)
    ("read", register, left, index) ("write", register, index, e) ("count", counter, index)
    ("make", variable, type, values, style) ("whole", variable, variable)
    ("count up", t, name, limit, step, block) ("over range", t, name, low, high, block)
    ("over list", t, name, expressions, block) ("over array", t, name, variable, block)
    ("control", instance, arguments) ("inner", arguments)
A left value is a var, a part, a field, or a slice of one. A path is made of names of fields,
numbers, and ("at", e) for an index that is known at run time only. A header is "hdr.h1",
"hdr.s[2]", "hdr.u.x", or ("at", e) for an element of the stack.
"""

from __future__ import annotations

from dataclasses import dataclass, field

BOOL = ("bool",)


def bit(width: int) -> tuple:
    return ("bit", width)


@dataclass
class Table:
    """`keys`: (kind, expression); `entries`: (key sets, action, data), first match wins but for
    lpm, where the longest prefix does, and where there are `priorities`. A key set is (low, high)
    for range, (value, mask) else. `bound` has the arguments that the list of actions gives."""

    name: str
    keys: list
    actions: list
    entries: list
    default: tuple
    open: bool = False  # the control plane may change the entries
    bound: dict = field(default_factory=dict)
    priorities: list | None = None  # as written: numbers, or None
    largest_wins: bool = True
    step: int = 1
    implementation: str = ""


@dataclass
class Routine:
    """An action or function; parameters: (direction, type, name); `data` ones last, direction
    ""."""

    name: str
    parameters: list
    body: list
    result: tuple | None = None


@dataclass
class Control:
    """A control that ingress instantiates; `constructor`: (type, name), `inner` is the name of a
    parameter of control type with the same parameters, or ""."""

    name: str
    parameters: list
    constructor: list
    inner: str
    variables: list
    actions: list
    tables: list
    body: list


@dataclass
class Instance:
    """`values` of the constructor; `inner` names an instance, or is one."""

    name: str
    control: Control
    values: list
    inner: object = None


@dataclass
class State:
    """`steps`: ("extract", header or "next") ("variable", header) ("parser", header)
    ("verify", e, error) ("advance", bits) and assignments; `keys`: expressions; `cases`: (key sets
    or None, state); no keys: `cases[0]`."""

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
    unions: list = field(default_factory=list)  # names; members x of type b_t, y of type e_t
    enums: list = field(default_factory=list)  # types
    structs: list = field(default_factory=list)  # declarations in P4
    metadata: list = field(default_factory=list)  # (type, name)
    states: list = field(default_factory=list)
    functions: list = field(default_factory=list)
    controls: list = field(default_factory=list)
    control_instances: list = field(default_factory=list)
    actions: list = field(default_factory=list)
    tables: list = field(default_factory=list)
    registers: dict = field(default_factory=dict)  # name -> (type, size)
    counters: dict = field(default_factory=dict)  # name -> size
    variables: list = field(default_factory=list)  # (type, name, expression)
    composites: list = field(default_factory=list)  # (type, name)
    value_set: bool = False
    apply: list = field(default_factory=list)
    egress: list = field(default_factory=list)


def bits_of(t: tuple) -> int:
    """The width of a scalar."""
    return 1 if t == BOOL else t[1]


def parts(t: tuple, name: str, path: tuple = ()) -> list[tuple]:
    """All scalars in a variable of a composite type, as expressions."""
    if t[0] == "struct":
        return [p for f, inner in t[2] for p in parts(inner, name, (*path, f))]
    if t[0] == "tuple":
        return [p for i, inner in enumerate(t[1]) for p in parts(inner, name, (*path, i))]
    if t[0] == "array":
        return [p for i in range(t[2]) for p in parts(t[1], name, (*path, i))]
    return [("part", t, name, path)]


# ---- text ----


def type_text(t: tuple) -> str:
    if t == BOOL:
        return "bool"
    if t[0] in ("ser", "enum"):
        return t[2]
    if t[0] == "struct":
        return t[1]
    if t[0] == "tuple":
        return f"tuple<{', '.join(map(type_text, t[1]))}>"
    if t[0] == "array":
        return f"{type_text(t[1])}[{t[2]}]"
    return f"{t[0]}<{t[1]}>"


def literal(t: tuple, value: int) -> str:
    if t == BOOL:
        return "true" if value else "false"
    if t[0] == "int":
        return f"({type_text(t)}) ({value})"
    if t[0] == "enum":
        return f"{t[2]}.m{value}"
    if t[0] == "ser":
        return f"{t[2]}.m{t[3].index(value)}" if value in t[3] else f"(({t[2]}) {t[1]}w{value})"
    return f"{t[1]}w{value}"


def path_text(path: tuple) -> str:
    made = ""
    for step in path:
        if isinstance(step, str):
            made += f".{step}"
        elif isinstance(step, int):
            made += f"[{step}]"
        else:
            made += f"[{expression(step[1])}]"
    return made


def header(h: str | tuple) -> str:
    return h if isinstance(h, str) else f"hdr.s[{expression(h[1])}]"


def expression(e: tuple) -> str:
    kind, t = e[0], e[1]
    if kind == "const":
        return literal(t, e[2])
    if kind == "var":
        return e[2]
    if kind == "part":
        return e[2] + path_text(e[3])
    if kind == "field":
        return f"{header(e[2])}.{e[3]}"
    if kind == "un":
        return f"({e[2]} {expression(e[3])})"
    if kind == "bin":
        return f"({expression(e[3])} {e[2]} {expression(e[4])})"
    if kind == "cast":
        return f"(({type_text(t)}) {expression(e[2])})"
    if kind == "slice":
        return f"{expression(e[2])}{_slice(e[3], e[4])}"
    if kind == "tern":
        return f"({expression(e[2])} ? {expression(e[3])} : {expression(e[4])})"
    if kind == "call":
        return f"{e[2]}({', '.join(map(expression, e[3]))})"
    if kind == "pick":
        explicit = f"<{type_text(t)}>" if e[5] else ""
        return f"pick{explicit}({', '.join(map(expression, e[2:5]))})"
    if kind == "valid":
        return f"{header(e[2])}.isValid()"
    if kind == "error":
        return f"(standard.parser_error == error.{e[2]})"
    if kind in ("same", "equal"):
        return f"({e[2]} == {e[3]})"
    if kind == "look":
        return f"packet.lookahead<{type_text(e[2])}>().{e[3]}"
    raise AssertionError(kind)


def _slice(high: int, low: int) -> str:
    return f"[{low}+:{high - low + 1}]" if (high + low) % 3 == 0 else f"[{high}:{low}]"


def values_text(t: tuple, values: list | tuple, style: str) -> str:
    """A list or structure for a composite type; `values` are lists for composite parts."""
    if not isinstance(values, list):
        return expression(values)
    if t[0] == "struct":
        names, types = [f for f, _ in t[2]], [inner for _, inner in t[2]]
    else:
        types = list(t[1]) if t[0] == "tuple" else [t[1]] * t[2]
        names = []
    texts = [values_text(inner, v, style) for inner, v in zip(types, values, strict=False)]
    if names and style == "named":
        texts = [f"{n} = {text}" for n, text in zip(names, texts, strict=False)]
        texts.reverse()
    if len(texts) < len(types):
        texts.append("...")
    return f"{{ {', '.join(texts)} }}"


def block(statements: list) -> str:
    return "{ " + " ".join(map(statement, statements)) + " }"


def statement(s: tuple) -> str:
    kind = s[0]
    if kind == "set":
        return f"{expression(s[1])} = {expression(s[2])};"
    if kind == "update":
        return f"{expression(s[1])} {s[2]}= {expression(s[3])};"
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
        return f"{header(s[1])}.{kind}();"
    if kind in ("copy", "union", "whole"):
        return f"{header(s[1])} = {header(s[2])};"
    if kind in ("exit", "break", "continue"):
        return f"{kind};"
    if kind == "return":
        return f"return {expression(s[1])};" if s[1] is not None else "return;"
    if kind == "read":
        return f"{s[1]}.read({expression(s[2])}, {expression(s[3])});"
    if kind == "write":
        return f"{s[1]}.write({expression(s[2])}, {expression(s[3])});"
    if kind == "count":
        return f"{s[1]}.count({expression(s[2])});"
    if kind in ("push", "pop"):
        return f"hdr.s.{kind}_front({s[1]});"
    if kind == "drop":
        return "mark_to_drop(standard);"
    if kind == "make":
        return f"{s[1]} = {values_text(s[2], s[3], s[4])};"
    if kind == "control":
        return f"{s[1]}.apply({', '.join(map(expression, s[2]))});"
    if kind == "inner":
        return f"inner.apply({', '.join(map(expression, s[1]))});"
    return _loop(s)


def _loop(s: tuple) -> str:
    kind, t, name = s[0], type_text(s[1]), s[2]
    if kind == "count up":
        limit, step = literal(s[1], s[3]), literal(s[1], s[4])
        head = f"{t} {name} = 0; {name} < {limit}; {name} = {name} + {step}"
    elif kind == "over range":
        head = f"{t} {name} in {expression(s[3])} .. {expression(s[4])}"
    elif kind == "over list":
        items = ", ".join(map(expression, s[3]))
        head = f"{t} {name} in (list<{t}>){{ {items} }}"
    elif kind == "over array":
        head = f"{t} {name} in {s[3]}"
    else:
        raise AssertionError(kind)
    return f"for ({head}) {block(s[-1])}"


def _key_set(kind: str, t: tuple, low: int, second: int) -> str:
    if kind == "exact":
        return literal(t, low)
    if kind == "optional":
        return literal(t, low) if second else "_"
    if kind == "range":
        return f"{literal(t, low)} .. {literal(t, second)}"
    return f"{literal(t, low)} &&& {literal(t, second)}"


def _action_text(t: Table, action: str, data: list) -> str:
    given = [expression(e) for e in t.bound.get(action, [])] + [literal(*d) for d in data]
    return f"{action}({', '.join(given)})"


def _table(t: Table) -> str:
    keys = " ".join(f'{expression(e)}: {kind} @name("k{i}");' for i, (kind, e) in enumerate(t.keys))
    entries = ""
    for i, (sets, action, data) in enumerate(t.entries):
        number = t.priorities[i] if t.priorities is not None else None
        if number is not None:
            entries += f"priority={number}: "
        kinds = zip(t.keys, sets, strict=True)
        label = ", ".join(_key_set(k, e[1], *s) for (k, e), s in kinds)
        entries += f"({label}): {_action_text(t, action, data)}; "
    word = "entries" if t.open else "const entries"
    actions = " ".join(
        f"{a}({', '.join(map(expression, t.bound[a]))});" if a in t.bound else f"{a};"
        for a in t.actions
    )
    properties = [f"key = {{ {keys} }} actions = {{ {actions} }}"]
    if t.priorities is not None:
        properties.append("" if t.largest_wins else "largest_priority_wins = false;")
        properties.append(f"priority_delta = {t.step};")
        properties.append('@noWarn("duplicate_priorities")')
    if entries:
        properties.append(f"{word} = {{ {entries} }}")
    if t.implementation:
        properties.append(f"implementation = {t.implementation};")
    else:
        properties.append(f"default_action = {_action_text(t, *t.default)};")
    return f"table {t.name} {{ {' '.join(filter(None, properties))} }}"


def _routine(r: Routine, word: str) -> str:
    parameters = ", ".join(f"{d} {type_text(t)} {n}".strip() for d, t, n in r.parameters)
    return f"{word} {r.name}({parameters}) {block(r.body)}"


def _control(c: Control) -> str:
    parameters = ", ".join(f"{d} {type_text(t)} {n}" for d, t, n in c.parameters)
    constructor = [f"{type_text(t)} {n}" for t, n in c.constructor]
    constructor += [f"{c.inner} inner"] if c.inner else []
    lines = [f"control {c.name}({parameters})({', '.join(constructor)}) {{"]
    lines += [f"{type_text(t)} {n} = {expression(e)};" for t, n, e in c.variables]
    lines += [_routine(a, "action") for a in c.actions]
    lines += [_table(t) for t in c.tables]
    return "\n".join([*lines, f"apply {block(c.body)} }}"])


def _instance(i: Instance) -> str:
    """The constructor's arguments of an instance."""
    values = [literal(t, v) for (t, _), v in zip(i.control.constructor, i.values, strict=True)]
    if isinstance(i.inner, Instance):
        values.append(f"{i.inner.control.name}({_instance(i.inner)})")
    elif i.inner is not None:
        values.append(str(i.inner))
    return ", ".join(values)


def _state(s: State) -> str:
    lines = []
    for step in s.steps:
        if step[0] == "extract":
            target = "hdr.s.next" if step[1] == "next" else step[1]
            lines.append(f"packet.extract({target});")
        elif step[0] == "variable":
            bytes_ = "(bit<32>)(packet.lookahead<bit<8>>() & 15)"
            lines.append(f"packet.extract({step[1]}, ({bytes_}) << 3);")
        elif step[0] == "parser":
            lines.append(f"sub.apply(packet, {step[1]});")
        elif step[0] == "verify":
            lines.append(f"verify({expression(step[1])}, error.{step[2]});")
        elif step[0] == "advance":
            lines.append(f"packet.advance({step[1]});")
        else:
            lines.append(statement(step))
    if s.keys:
        cases = ""
        for sets, target in s.cases:
            label = "default"
            if sets is not None:
                keys = zip(s.keys, sets, strict=True)
                label = "(" + ", ".join(_select_key(k, x) for k, x in keys) + ")"
            cases += f"{label}: {target}; "
        keys = ", ".join(map(expression, s.keys))
        lines.append(f"transition select({keys}) {{ {cases} }}")
    else:
        lines.append(f"transition {s.cases[0][1]};")
    return f"state {s.name} {{ {' '.join(lines)} }}"


def _select_key(key: tuple, label: tuple) -> str:
    """label: ("any",) ("is", v) ("mask", v, m) ("range", low, high) ("set",)."""
    t = key[1]
    if label[0] == "set":
        return "chosen"
    if label[0] == "any":
        return "_"
    if label[0] == "is":
        return literal(t, label[1])
    joiner = " &&& " if label[0] == "mask" else " .. "
    return joiner.join(literal(t, x) for x in label[1:])


def _enum(t: tuple) -> str:
    if t[0] == "enum":
        return f"enum {t[2]} {{ {', '.join(f'm{i}' for i in range(t[1]))} }}"
    members = ", ".join(f"m{i} = {v}" for i, v in enumerate(t[3]))
    return f"enum bit<{t[1]}> {t[2]} {{ {members} }}"


def _header(name: str, fields: list) -> list[str]:
    """A header's declaration, behind those of the structs in it. Fields such as f1[0] and f1[1] are
    those of an array, f1.x and f1.y those of a struct."""
    out, lines = [], []
    groups: dict[str, list] = {}
    for f, t in fields:
        groups.setdefault(f.split("[")[0].split(".")[0], []).append((f, t))
    for group, members in groups.items():
        first, t = members[0]
        if "[" in first:
            lines.append(f"{type_text(t)}[{len(members)}] {group};")
        elif "." in first:
            inner = " ".join(f"{type_text(t)} {f.split('.')[1]};" for f, t in members)
            out.append(f"struct {name}_{group} {{ {inner} }}")
            lines.append(f"{name}_{group} {group};")
        else:
            lines.append(f"{type_text(t)} {first};")
    return [*out, f"header {name} {{ {' '.join(lines)} }}"]


def _declarations(p: Program) -> list[str]:
    """The text before the parser."""
    out = ["#include <core.p4>", "#include <v1model.p4>", "error { Wrong }"]
    out += map(_enum, p.enums)
    for name, fields in p.types.items():
        out += _header(name, fields)
    out.append("header v_t { bit<8> n; varbit<64> d; }")
    out.append("header_union u_t { b_t x; e_t y; }")
    out += p.structs
    members = " ".join(f"{t} {h};" for h, t in p.instances.items())
    members += "".join(f" u_t {u};" for u in p.unions)
    out.append(f"struct headers_t {{ {members} {p.stack[2]}[{p.stack[1]}] {p.stack[0]}; }}")
    fields = " ".join(f"{type_text(t)} {n};" for t, n in p.metadata)
    out.append(f"struct metadata_t {{ {fields} }}")
    out.append("T pick<T>(in bool c, in T a, in T b) { return c ? a : b; }")
    for f in p.functions:
        out.append(_routine(f, type_text(f.result) if f.result else "void"))
    if p.controls:
        c = p.controls[0]
        parameters = ", ".join(f"{d} {type_text(t)} {n}x" for d, t, n in c.parameters)
        out.append(f"control control_t({parameters});")
    out += map(_control, p.controls)
    out.append("parser Sub(packet_in packet, out b_t h) {")
    out.append("state start { packet.extract(h); transition accept; } }")
    return out


def text(p: Program) -> str:
    """The program in P4."""
    out = _declarations(p)
    parameters = "inout headers_t hdr, inout metadata_t meta"
    standard = "inout standard_metadata_t standard"
    out.append(
        "parser MyParser(packet_in packet, out headers_t hdr, inout metadata_t meta, "
        f"{standard}) {{\nSub() sub;"
    )
    if p.value_set:
        out.append("value_set<bit<8>>(4) chosen;")
    out += [_state(s) for s in p.states]
    out.append("}")
    out.append(f"control MyVerify({parameters}) {{ apply {{ }} }}")
    out.append(f"control MyIngress({parameters}, {standard}) {{")
    for name, (t, size) in p.registers.items():
        out.append(f"register<{type_text(t)}>({size}) {name};")
    for name, size in p.counters.items():
        out.append(f"counter({size}, CounterType.packets_and_bytes) {name};")
    out += [f"{i.control.name}({_instance(i)}) {i.name};" for i in p.control_instances]
    out += [f"{type_text(t)} {n} = {expression(e)};" for t, n, e in p.variables]
    out += [f"{type_text(t)} {n} = ...;" for t, n in p.composites]
    out += [_routine(a, "action") for a in p.actions]
    out += [_table(t) for t in p.tables]
    out.append(f"apply {block([('set', ('var', bit(9), 'standard.egress_spec'), ('const', bit(9), 1)), *p.apply])} }}")  # fmt: skip  # noqa: E501
    out.append(f"control MyEgress({parameters}, {standard}) {{ apply {block(p.egress)} }}")
    out.append(f"control MyUpdate({parameters}) {{ apply {{ }} }}")
    emits = " ".join(f"packet.emit(hdr.{h});" for h in [*p.instances, *p.unions, p.stack[0]])
    out.append(f"control MyDeparser(packet_out packet, in headers_t hdr) {{ apply {{ {emits} }} }}")
    out.append(
        "V1Switch(MyParser(), MyVerify(), MyIngress(), MyEgress(), MyUpdate(), MyDeparser()) main;"
    )
    return "\n".join(out) + "\n"
