"""The constant descriptions in the C file, from which the runtime builds an instance: tables,
actions, profiles, records of registers, counters, meters, value sets; and the entries in the
program's text.
"""

from __future__ import annotations

from p4engine.backend.c_text import c_array, c_words, packed, to_words
from p4engine.frontend import ast
from p4engine.frontend.ast import KeyInfo
from p4engine.frontend.diagnostics import Diagnostics
from p4engine.frontend.lexer import parse_number
from p4engine.frontend.types import BOOL, Composite, Tuple, Type, underlying, width_of
from p4engine.middle.instantiate import (
    MATCH_KINDS,
    ExternInstance,
    Instances,
    TableInstance,
    known_number,
)
from p4engine.middle.layout import words
from p4engine.middle.records import Records

# ---- what instances are, for the C and for `info` ----


def profiles_of(instances: Instances) -> list[ExternInstance]:
    """Action profiles and selectors; a profile's number is its position."""
    return [
        *instances.externs.get("action_profile", []),
        *instances.externs.get("action_selector", []),
    ]


def profile_number(instances: Instances, table: TableInstance) -> int | None:
    """The number of the profile that holds the table's actions."""
    if table.profile is None:
        return None
    return next(i for i, p in enumerate(profiles_of(instances)) if p is table.profile)


def action_data(
    instances: Instances, t: TableInstance, ref: ast.ActionRef
) -> tuple[int, list[int]]:
    """(number of the action in the table, words of its data) of an action with its arguments."""
    for i, a in enumerate(t.actions):
        if a.decl is ref.decl:
            data: list[int] = []
            by_name = {p.name: v for p, v in ref.binding or []}
            for p in a.data:
                e = by_name.get(p.name)
                number = packed(instances.value(e, t.block.values), p.type) if e is not None else 0
                data += to_words(number, width_of(p.type) or 1)
            return i, data
    return 0, []


def value_set_widths(element: Type) -> list[int]:
    """Widths of the fields of a value_set's element."""
    under = underlying(element)
    fields: list[Type] = [under]
    if isinstance(under, Composite):
        fields = list(under.fields.values())
    elif isinstance(under, Tuple):
        fields = list(under.elements)
    elif under == BOOL:
        return [1]
    return [width_of(t) or 1 for t in fields]


# ---- descriptions ----


def descriptions(instances: Instances, records: Records) -> str:
    """The C arrays that describe the program's objects."""
    out: list[str] = []
    tables = [_table(instances, t, out) for t in instances.tables]
    out.append(c_array("p4_table_desc", "tables", tables))
    profiles = [_profile(instances, p) for p in profiles_of(instances)]
    out.append(c_array("p4_profile_desc", "profiles", profiles))
    groups = [f"{{ {stride}, {count} }}" for stride, count, _ in records.groups]
    out.append(c_array("p4_record_desc", "records", groups))
    rows = []
    registers = instances.externs.get("register", [])
    for r, (group, _, offset, size, width) in zip(registers, records.access, strict=True):
        rows.append(f"{{ {group}, {offset}, {size}, {width}, {r.size} }}")
    out.append(c_array("p4_register_desc", "registers", rows))
    for kind in ("counter", "meter"):
        rows = [f"{{ {x.size}, {x.unit.number} }}" for x in instances.externs.get(kind, [])]
        out.append(c_array(f"p4_{kind}_desc", f"{kind}s", rows))
    rows = []
    for v in instances.value_sets:
        widths = value_set_widths(v.element)
        keys = ", ".join(f"{{ 2, {w}, {words(w)} }}" for w in widths)
        out.append(f"static const p4_key_desc set{v.number}_keys[] = {{ {keys} }};")
        rows.append(f"{{ {v.size}, set{v.number}_keys, {len(widths)} }}")
    out.append(c_array("p4_value_set_desc", "value_sets", rows))
    return "\n".join(out)


def _profile(instances: Instances, p: ExternInstance) -> str:
    """The row of an action profile; its actions are those of the first table that uses it."""
    user = next((t for t in instances.tables if t.profile is p), None)
    actions = f"table{user.number}_actions" if user else "0"
    count = len(user.actions) if user else 0
    selector = int(p.kind == "action_selector")
    return f"{{ {selector}, {p.size}, {actions}, {count} }}"


def _table(instances: Instances, t: TableInstance, out: list[str]) -> str:
    """The row of a table; the arrays that it points to are appended to `out`."""
    n = t.number
    keys = [k for k in t.keys if k.kind != "selector"]
    rows = [f"{{ {MATCH_KINDS[k.kind]}, {k.width}, {words(k.width) or 1} }}" for k in keys]
    out.append(c_array("p4_key_desc", f"table{n}_keys", rows))
    rows = []
    for i, a in enumerate(t.actions):
        widths = [width_of(p.type) or 1 for p in a.data]
        out.append(
            f"static const uint16_t table{n}_action{i}[] = "
            f"{{ {', '.join(map(str, widths)) or '0'} }};"
        )
        total = sum(words(w) or 1 for w in widths)
        rows.append(f"{{ {total}, table{n}_action{i}, {len(widths)} }}")
    out.append(c_array("p4_action_desc", f"table{n}_actions", rows))
    default, params = action_data(instances, t, t.default)
    out.append(f"static const uint64_t table{n}_default[] = {{ {c_words(params)} }};")
    kinds = {k.kind for k in keys}
    strategy = 0 if not keys else 1 if kinds == {"exact"} else 2 if kinds <= {"exact", "lpm"} else 3
    total = sum(words(k.width) or 1 for k in keys)
    profile = profile_number(instances, t)
    meter = 1 + t.meter.unit.number if t.meter is not None else 0
    row = [
        f"table{n}_keys",
        len(keys),
        total,
        f"table{n}_actions",
        len(t.actions),
        t.size,
        -1 if profile is None else profile,
        strategy,
        int(t.counter is not None),
        meter,
        int(t.decl.const_default),
        int(t.decl.const_entries),
        default,
        f"table{n}_default",
        int(t.ages),
    ]
    if t.register is not None:
        row += [1, f"{initial_value(t.register)}ull"]
    return f"{{ {', '.join(map(str, row))} }}"


def initial_value(register: ExternInstance) -> int:
    """The bits of each element of a register at the beginning."""
    given = register.arguments.get("initial_value")
    return 0 if given is None else packed(given, register.type.arguments[0])


# ---- entries in the program's text ----


def initial_entries(instances: Instances, diagnostics: Diagnostics) -> str:
    """The C function that puts them into a new instance's tables, and values into registers that
    do not begin with 0."""
    lines = []
    for r in instances.externs.get("register", []):
        first = initial_value(r)
        if first:
            text = c_words(to_words(first, width_of(r.type.arguments[0]) or 1))
            lines.append(
                f"{{ static const uint64_t value[] = {{ {text} }}; "
                f"p4_register_fill(I, {r.number}, 0, {r.size}, value); }}"
            )
    for t in instances.tables:
        infos = t.decl.info.entries
        for entry, priority in zip(infos, _priorities(t, diagnostics), strict=True):
            match: list[int] = []
            for key, value in zip(t.keys, entry.keys, strict=True):
                if key.kind != "selector":
                    match += _match(key, value)
            action, data = action_data(instances, t, entry.action)
            lines.append(
                f"{{ static const uint64_t match[] = {{ {c_words(match)} }}, "
                f"data[] = {{ {c_words(data)} }}; "
                f"p4_table_add_initial(I, {t.number}, match, {priority}, {action}, data); }}"
            )
    return "static void init(p4_instance *I) {\n(void)I;\n" + "\n".join(lines) + "\n}\n"


def _match(key: KeyInfo, value: ast.Expr) -> list[int]:
    """The words that an entry's key consists of."""
    width = key.width
    ones = (1 << width) - 1

    def number(e: ast.Expr) -> int:
        return known_number(e.known) & ones

    low, mask, high = 0, 0, ones
    if isinstance(value, ast.Mask):
        low, mask = number(value.value), number(value.mask)
    elif isinstance(value, ast.Range):
        low, high = number(value.low), number(value.high)
    elif not isinstance(value, ast.DontCare):
        low = high = number(value)
        mask = ones
    if key.kind == "lpm":
        return [*to_words(low & mask, width), bin(mask).count("1")]
    if key.kind == "ternary":
        return [*to_words(low & mask, width), *to_words(mask, width)]
    if key.kind == "range":
        return [*to_words(low, width), *to_words(high, width)]
    if key.kind == "optional":
        return [*to_words(low, width), int(mask != 0)]
    return to_words(low, width)


def _priorities(t: TableInstance, diagnostics: Diagnostics) -> list[int]:
    """The priority (lower wins) of each entry in the program text."""
    entries = t.decl.info.entries
    marks = [next((a for a in e.annotations if a.name == "priority"), None) for e in entries]
    values: list[int] = []
    if any(marks):  # as p4c hands them to BMv2: the annotation, or the place in the list
        for place, mark in enumerate(marks, 1):
            number = parse_number(mark.body[0]) if mark and len(mark.body) == 1 else None
            if mark and number is None:
                diagnostics.error(mark.place, "@priority needs a number")
            values.append(number[0] if number else place)
        return values
    if not any(e.priority is not None for e in entries):
        return list(range(1, len(entries) + 1))
    largest = t.decl.properties.get("largest_priority_wins")
    largest_wins = largest is None or largest.value.const is not False
    values = t.decl.info.priorities
    order = sorted(range(len(values)), key=lambda i: -values[i] if largest_wins else values[i])
    rank = {i: position for position, i in enumerate(order, 1)}
    return [rank[i] for i in range(len(values))]
