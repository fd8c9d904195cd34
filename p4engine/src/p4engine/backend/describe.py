"""The constant descriptions in the C file, from which the runtime builds an instance: tables,
actions, profiles, records of registers, counters, meters, value sets; and the entries in the
program's text.
"""

from __future__ import annotations

from p4engine.backend.emit_extern import ExternEmitter
from p4engine.backend.emit_parser import value_set_keys
from p4engine.frontend import ast
from p4engine.frontend.diagnostics import Diagnostics
from p4engine.frontend.fold import Symbol
from p4engine.frontend.lexer import parse_number
from p4engine.frontend.types import width_of
from p4engine.middle.instantiate import MATCH_KINDS, TableInstance
from p4engine.middle.layout import words


class Describer(ExternEmitter):
    """descriptions and entries."""

    def descriptions(self) -> str:
        out: list[str] = []
        profiles = [
            *self.instances.externs.get("action_profile", []),
            *self.instances.externs.get("action_selector", []),
        ]
        self.profile_numbers = {id(p): i for i, p in enumerate(profiles)}
        owners = {id(p): [t for t in self.instances.tables if t.profile is p] for p in profiles}
        rows = []
        for t in self.instances.tables:
            rows.append(self._table(t, out))
        out.append(_array("p4_table_desc", "tables", rows))
        rows = []
        for p in profiles:
            users = owners[id(p)]
            count = len(users[0].actions) if users else 0
            actions = f"table{users[0].number}_actions" if users else "0"
            selector = int(p.kind == "action_selector")
            rows.append(f"{{ {selector}, {p.arguments.get('size') or 0}, {actions}, {count} }}")
        out.append(_array("p4_profile_desc", "profiles", rows))
        out.append(
            _array(
                "p4_record_desc",
                "records",
                [f"{{ {stride}, {count} }}" for stride, count, _ in self.records.groups],
            )
        )
        rows = []
        registers = self.instances.externs.get("register", [])
        for r, (group, _, offset, size, width) in zip(registers, self.records.access, strict=True):
            rows.append(f"{{ {group}, {offset}, {size}, {width}, {r.arguments.get('size') or 0} }}")
        out.append(_array("p4_register_desc", "registers", rows))
        counters = self.instances.externs.get("counter", [])
        rows = [f"{{ {c.arguments['size']}, {_symbol(c.arguments['type'])} }}" for c in counters]
        out.append(_array("p4_counter_desc", "counters", rows))
        meters = self.instances.externs.get("meter", [])
        rows = [f"{{ {c.arguments['size']}, {_symbol(c.arguments['type'])} }}" for c in meters]
        out.append(_array("p4_meter_desc", "meters", rows))
        rows = []
        for v in self.instances.value_sets:
            keys = ", ".join(f"{{ 2, {w}, {words(w)} }}" for w in value_set_keys(v.decl.type))
            out.append(f"static const p4_key_desc set{v.number}_keys[] = {{ {keys} }};")
            count = len(value_set_keys(v.decl.type))
            rows.append(f"{{ {v.size}, set{v.number}_keys, {count} }}")
        out.append(_array("p4_value_set_desc", "value_sets", rows))
        return "\n".join(out)

    def _table(self, t: TableInstance, out: list[str]) -> str:
        n = t.number
        keys = [k for k in t.keys if k.kind != "selector"]
        out.append(
            _array(
                "p4_key_desc",
                f"table{n}_keys",
                [f"{{ {MATCH_KINDS[k.kind]}, {k.width}, {words(k.width) or 1} }}" for k in keys],
            )
        )
        rows = []
        for i, a in enumerate(t.actions):
            widths = [width_of(p.type) or 1 for p in a.data]
            out.append(
                f"static const uint16_t table{n}_action{i}[] = "
                f"{{ {', '.join(map(str, widths)) or '0'} }};"
            )
            total = sum(words(w) or 1 for w in widths)
            rows.append(f"{{ {total}, table{n}_action{i}, {len(widths)} }}")
        out.append(_array("p4_action_desc", f"table{n}_actions", rows))
        default, params = self._action_data(t, t.decl.info.default)
        out.append(f"static const uint64_t table{n}_default[] = {{ {_list(params)} }};")
        kinds = {k.kind for k in keys}
        strategy = (
            0 if not keys else 1 if kinds == {"exact"} else 2 if kinds <= {"exact", "lpm"} else 3
        )
        total = sum(words(k.width) or 1 for k in keys)
        profile = self.profile_numbers[id(t.profile)] if t.profile else -1
        meter = 0
        if t.meter is not None:
            meter = 1 + _symbol(t.meter.arguments.get("type"))
        return (
            f"{{ table{n}_keys, {len(keys)}, {total}, table{n}_actions, {len(t.actions)}, "
            f"{t.size}, "
            f"{profile}, {strategy}, {int(t.counter is not None)}, {meter}, "
            f"{int(t.decl.const_default)}, {int(t.decl.const_entries)}, {default}, "
            f"table{n}_default }}"
        )

    def _action_data(self, t: TableInstance, ref: ast.ActionRef) -> tuple[int, list[int]]:
        """(number of the action in the table, words of its data)."""
        for i, a in enumerate(t.actions):
            if a.ref.decl is ref.decl:
                data: list[int] = []
                by_name = {p.name: v for p, v in ref.binding or []}
                for p in a.data:
                    e = by_name.get(p.name)
                    value = self.instances.value(e, t.block.values) if e is not None else 0
                    data += to_words(value, width_of(p.type) or 1)
                return i, data
        return 0, []

    def entries(self) -> str:
        lines = []
        for t in self.instances.tables:
            infos = t.decl.info.entries
            for entry, priority in zip(infos, priorities(t, self.diagnostics), strict=True):
                match: list[int] = []
                for key, value in zip(t.keys, entry.keys, strict=True):
                    if key.kind != "selector":
                        match += self._match(key, value)
                action, data = self._action_data(t, entry.action)
                lines.append(
                    "{ static const uint64_t match[] = { "
                    + _list(match)
                    + " }, data[] = { "
                    + _list(data)
                    + f" }}; p4_table_add_initial(I, {t.number}, match, {priority}, {action},"
                    + " data); }"
                )
        return "static void init(p4_instance *I) {\n(void)I;\n" + "\n".join(lines) + "\n}\n"

    @staticmethod
    def _match(key, value: ast.Expr) -> list[int]:
        width = key.width
        ones = (1 << width) - 1

        def number(e: ast.Expr) -> int:
            c = e.const.number if isinstance(e.const, Symbol) else int(e.const)
            return c & ones

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


def priorities(t: TableInstance, diagnostics: Diagnostics) -> list[int]:
    """The priority (lower wins) of each entry in the program text."""
    entries = t.decl.info.entries
    marks = [next((a for a in e.annotations if a.name == "priority"), None) for e in entries]
    if any(marks):  # as p4c hands them to BMv2: the annotation, or the place in the list
        values = []
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
    delta_property = t.decl.properties.get("priority_delta")
    delta = delta_property.value.const if delta_property is not None else 1
    values, previous = [], None
    for entry in entries:
        if entry.priority is not None:
            value = entry.priority.const or 0
        elif previous is None:
            value = (len(entries) - 1) * delta + 1 if largest_wins else 1
        else:
            value = previous - delta if largest_wins else previous + delta
        values.append(value)
        previous = value
    order = sorted(range(len(values)), key=lambda i: -values[i] if largest_wins else values[i])
    rank = {}
    for position, i in enumerate(order):
        rank[i] = position + 1
    return [rank[i] for i in range(len(values))]


def to_words(value, width: int) -> list[int]:
    """A number as little-endian 64-bit words."""
    number = value.number if isinstance(value, Symbol) else int(value)
    number &= (1 << width) - 1
    return [number >> (64 * i) & (2**64 - 1) for i in range(words(width) or 1)]


def _symbol(value) -> int:
    return value.number if isinstance(value, Symbol) else 0


def _list(values: list[int]) -> str:
    return ", ".join(f"{v}ull" for v in values) or "0"


def _array(c_type: str, name: str, rows: list[str]) -> str:
    empty = "{ 0 }"
    return f"static const {c_type} {name}[] = {{ {', '.join(rows) or empty} }};"
