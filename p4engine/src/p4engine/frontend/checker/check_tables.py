"""Tables (keys, actions, properties, entries), and what is matched against a value."""

from __future__ import annotations

from p4engine.frontend import ast
from p4engine.frontend.checker.check_calls import bind, fit
from p4engine.frontend.checker.check_values import (
    check_value,
    coerce,
    constant,
    known_at_instantiation,
    same_type,
)
from p4engine.frontend.checker.checker import Checker, DeclarationRules
from p4engine.frontend.diagnostics import did_you_mean
from p4engine.frontend.parser.parse_annotations import string_value
from p4engine.frontend.spelling import same, spell
from p4engine.frontend.types import (
    BOOL,
    DONT_CARE,
    ERROR,
    INT,
    UNKNOWN,
    Bits,
    Composite,
    EnumType,
    ExternType,
    SetOf,
    Special,
    Type,
    Varbit,
    has_header,
    number_type,
    underlying,
    width_of,
)

# The properties of tables, in any architecture, whose value is an extern object.
EXTERN_PROPERTIES = (
    "counters",
    "meters",
    "implementation",
    "registers",
    "filters",
    "proxy_hash",
    "atcam",
    "alpm",
)

# ---- elements of the keys of entries and of the labels of a select ----


def check_key(c: Checker, value: ast.Expr, want: Type, kind: str) -> None:
    """Check `value` against the type it is compared with; `kind` is the match kind of the
    table's key, "" in a select."""
    got = c.check(value)
    if got == DONT_CARE:
        if kind == "exact":
            c.error(value.place, "an exact key needs a value")
    elif got == UNKNOWN:
        return
    elif isinstance(value, ast.Mask):
        _parts(c, value.value, value.mask, want)
        _mask(c, value, want, kind)
    elif isinstance(value, ast.Range):
        _parts(c, value.low, value.high, want)
        _range(c, value, kind)
    elif isinstance(got, SetOf):
        _value_set(c, value, got.element, want, kind)
    elif isinstance(got, Special):
        c.error(value.place, f"{got} cannot stand here")
    elif coerce(c, value, want, "the key needs"):
        _constant(c, value)


def _parts(c: Checker, first: ast.Expr, second: ast.Expr, want: Type) -> None:
    for part in (first, second):
        # Masks and ranges of a serializable enum may be written as numbers.
        as_number = part.type == INT or isinstance(part.type, Bits)
        coerce(c, part, number_type(want) if as_number else want)
        if part.type != UNKNOWN:
            _constant(c, part)


def _constant(c: Checker, e: ast.Expr) -> None:
    if e.const is None:
        c.error(e.place, "this must be known at compile time")


def _mask(c: Checker, e: ast.Mask, want: Type, kind: str) -> None:
    if kind == "exact":
        c.error(e.place, "an exact key needs a single value")
    elif kind in ("range", "optional"):
        c.error(e.place, f"a mask cannot be matched by a key of kind {kind}")
    elif kind == "lpm" and isinstance(e.mask.const, int):
        inverse = ~e.mask.const & ((1 << (width_of(want) or 0)) - 1)
        if inverse & (inverse + 1):
            c.error(e.place, "the mask of an lpm key must be a prefix")


def _range(c: Checker, e: ast.Range, kind: str) -> None:
    low, high = e.low.const, e.high.const
    if kind == "exact":
        c.error(e.place, "an exact key needs a single value")
    elif kind not in ("range", ""):
        c.error(e.place, f"a range cannot be matched by a key of kind {kind}")
    elif isinstance(low, int) and isinstance(high, int) and low > high:
        c.error(e.place, "the range is empty")


def _value_set(c: Checker, e: ast.Expr, element: Type, want: Type, kind: str) -> None:
    if kind:
        c.error(e.place, "a value_set cannot be a key")
    elif not same_type(element, want):
        fields = tuple(element.fields.values()) if isinstance(element, Composite) else ()
        if fields != (want,):
            c.error(e.place, f"this value_set holds {element}, not {want}")


# ---- tables ----


def _table(c: Checker, d: ast.Table) -> None:
    for key in d.keys:
        _key(c, d.info, key)
    names = set()
    for ref in d.actions:
        _listed_action(c, ref)
        if ref.name in names:
            c.error(ref.place, f"action {ref.name} is listed twice")
        names.add(ref.name)
        if ref.decl is not None:
            d.info.actions.append(ref)
            d.info.by_decl[id(ref.decl)] = ref
    if d.default is not None:
        _chosen_action(c, d, d.default, "default_action")
    else:
        d.default = _no_action(c, d)
    d.info.default = d.default
    if "implementation" in d.properties and d.default.name != "NoAction":
        d.info.without_default = _no_action(c, d)
    for prop in d.properties.values():
        _property(c, d.info, prop)
    if d.entries and not d.keys:
        c.error(d.place, f"table {d.name} has entries, but no key")
    else:
        for entry in d.entries or []:
            _entry(c, d, entry)
        _duplicates(c, d)
        _priorities(c, d)
    c.declare(d)


def _key(c: Checker, info: ast.TableInfo, key: ast.Key) -> None:
    got = check_value(c, key.value)
    kinds = c.match_kinds
    if key.match_kind not in kinds:
        c.error(
            key.place,
            f"'{key.match_kind}' is not a match kind{did_you_mean(key.match_kind, kinds)}",
        )
    if got == UNKNOWN:
        return
    if got == INT:
        c.error(key.value.place, "a key needs a width")
        return
    width, under = width_of(got), underlying(got)
    if width is None or not (isinstance(under, Bits | EnumType) or under in (BOOL, ERROR)):
        c.error(key.value.place, f"a value of {got} cannot be a key")
        return
    given = next((a for a in key.annotations if a.name == "name"), None)
    name = string_value(given) if given is not None else spell(key.value)
    info.keys.append(ast.KeyInfo(key.value, key.match_kind, width, name))


def _no_action(c: Checker, d: ast.Table) -> ast.ActionRef:
    """NoAction as the default; it joins the table's actions if it is not among them."""
    made = ast.ActionRef(d.place, "NoAction", True, [], [])
    listed = next((a for a in d.info.actions if a.name == "NoAction"), None)
    decl = listed.decl if listed is not None else c.globals.find("NoAction")
    made.binding = []
    if not isinstance(decl, ast.Action):
        return made
    made.decl = decl
    if listed is None and id(decl) not in d.info.by_decl:
        made.annotations = [ast.Annotation(d.place, "defaultonly", [])]
        d.info.actions.append(made)
        d.info.by_decl[id(decl)] = made
    return made


def _property(c: Checker, info: ast.TableInfo, prop: ast.Property) -> None:
    value = prop.value
    if prop.name in (
        "size",
        "support_timeout",
        "idle_timeout",
        "largest_priority_wins",
        "priority_delta",
    ):
        if prop.name == "size":
            _size(c, info, value)
            return
        const = constant(c, value, None, f"the property {prop.name}")
        is_number = isinstance(const, int) and not isinstance(const, bool)
        if prop.name == "priority_delta" and const is not None:
            if not (isinstance(const, int) and is_number and const > 0):
                c.error(value.place, "priority_delta must be a positive number")
        elif const is not None and not isinstance(const, bool):
            c.error(value.place, f"{prop.name} must be true or false")
    elif prop.name in EXTERN_PROPERTIES:
        got = c.check(value)
        if got != UNKNOWN and not isinstance(got, ExternType):
            c.error(value.place, f"{prop.name} needs an extern object, not {got}")
    elif prop.name not in (
        "psa_idle_timeout",
        "add_on_miss",
        "default_idle_timeout_for_data_plane",
        "requires_versioning",
    ):
        c.warning(prop.place, f"the table property '{prop.name}' is unknown")
        c.check(value)


def _size(c: Checker, info: ast.TableInfo, value: ast.Expr) -> None:
    """The number of entries; it may depend on the constructor's parameters."""
    got, const = check_value(c, value), value.const
    if got == UNKNOWN:
        return
    if not known_at_instantiation(value):
        c.error(value.place, "the size of a table must be known at compile time")
    elif not (got == INT or isinstance(got, Bits)) or (isinstance(const, int) and const < 0):
        c.error(value.place, "the size of a table must be a number")
    elif isinstance(const, int):
        info.size = const


# ---- actions ----


def _listed_action(c: Checker, ref: ast.ActionRef) -> None:
    """An element of a table's action list: find the action and bind what is given."""
    decl = c.lookup(ref.name, ref.absolute, ref.place)
    if decl is None:
        return
    if not isinstance(decl, ast.Action):
        c.error(ref.place, f"'{ref.name}' is not an action")
        return
    ref.decl = decl
    directed = [p for p in decl.parameters if p.direction]
    arguments = ref.arguments or []
    if len(arguments) > len(directed):
        bound_data = len(arguments) <= len(decl.parameters)
        c.error(
            ref.place,
            f"'{decl.parameters[len(directed)].name}' of {decl.name} is data of the entries and"
            " cannot be given here"
            if bound_data
            else f"action {decl.name} has only {len(decl.parameters)} parameters",
        )
        return
    if len(arguments) < len(directed):
        c.error(
            ref.place, f"parameter '{directed[len(arguments)].name}' of {decl.name} needs a value"
        )
        return
    bound = bind(c, ref.place, directed, arguments, f"action {decl.name}")
    if bound is None:
        return
    for p, value in bound:
        if value is None:  # there is no call whose result could be ignored
            c.error(ref.place, f"'{p.name}' of {decl.name} needs a variable in a table's actions")
            return
    with c.argument_of_action():
        good = fit(c, bound, {})
    if good:
        ref.binding = bound + [(p, None) for p in decl.parameters[len(arguments) :]]
    for p in decl.parameters[len(arguments) :]:
        has_size = width_of(p.type) is not None and not isinstance(p.type, Varbit)
        if p.type != UNKNOWN and (has_header(p.type) or not has_size):
            c.error(p.place, f"a value of {p.type} cannot be the data of a table's entries")


def _chosen_action(c: Checker, d: ast.Table, ref: ast.ActionRef, what: str) -> None:
    """The action of an entry or the default: its data must be known at compile time."""
    decl = c.lookup(ref.name, ref.absolute, ref.place)
    if decl is None:
        return
    listed = d.info.by_decl.get(id(decl))
    if not isinstance(decl, ast.Action):
        c.error(ref.place, f"'{ref.name}' is not an action")
        return
    if listed is None:
        hint = did_you_mean(ref.name, [a.name for a in d.info.actions])
        c.error(
            ref.place, f"{what}: action '{ref.name}' is not in the actions of table {d.name}{hint}"
        )
        return
    ref.decl = decl
    barred = "tableonly" if ref is d.default else "defaultonly"
    if any(a.name == barred for a in listed.annotations):
        c.error(ref.place, f"{what}: action '{ref.name}' is @{barred} in this table")
    if listed.binding is None:
        return
    data = [p for p, v in listed.binding if v is None]
    arguments = list(ref.arguments or [])
    bound_count = len(decl.parameters) - len(data)
    given = arguments[:bound_count]
    listed_arguments = [a.value for a in listed.arguments or []]
    if not same([a.value for a in given], listed_arguments):
        c.error(
            ref.place, f"{what}: the arguments of {decl.name} must be those of the table's actions"
        )
        return
    arguments = arguments[bound_count:]
    bound = bind(c, ref.place, data, arguments, f"action {decl.name}")
    if bound is None or not fit(c, bound, {}):
        return
    for p, v in bound:
        if v is None or not known_at_instantiation(v):
            c.error((v or ref).place, f"{what}: '{p.name}' must be known at compile time")
            return
    ref.binding = bound


def _entry(c: Checker, d: ast.Table, entry: ast.Entry) -> None:
    keys = d.info.keys
    if len(entry.keys) != len(keys):
        if len(entry.keys) == 1 and isinstance(entry.keys[0], ast.DontCare):
            entry.keys = [ast.DontCare(entry.place) for _ in keys]
        else:
            if len(keys) == len(d.keys):
                c.error(entry.place, f"{len(entry.keys)} keys given, the table has {len(keys)}")
            return
    for key, value in zip(keys, entry.keys, strict=True):
        check_key(c, value, key.value.type, key.kind)
    if entry.priority is not None:
        constant(c, entry.priority, None, "a priority")
    _chosen_action(c, d, entry.action, "entry")
    d.info.entries.append(entry)


def _duplicates(c: Checker, d: ast.Table) -> None:
    """Entries of a table with exact keys only differ in their keys."""
    if any(k.kind != "exact" for k in d.info.keys):
        return
    seen: list[list[ast.Const | None]] = []
    for entry in d.info.entries:
        key = [e.const for e in entry.keys]
        if key in seen and None not in key:
            c.error(entry.place, "an earlier entry has the same key")
        seen.append(key)


# ---- priorities of entries ----


def _priorities(c: Checker, d: ast.Table) -> None:
    """Give the entries their priorities, if the author gives some, or asks for an order."""
    info, entries = d.info, d.info.entries
    given = [e for e in entries if e.priority is not None]
    if given and d.const_entries:
        c.error(given[0].place, "const entries have no priorities; the first that matches wins")
    elif given and all(k.kind in ("exact", "lpm") for k in info.keys):
        c.error(given[0].place, "entries have a priority only where a key is not exact or lpm")
    elif given and entries[0].priority is None:
        c.error(entries[0].place, "if any entry has a priority, the first one must have one")
    if d.const_entries or not entries:
        return
    largest = d.properties.get("largest_priority_wins")
    delta = d.properties.get("priority_delta")
    largest_wins = largest is None or largest.value.const is not False
    step = delta.value.const if delta is not None else 1
    assert isinstance(step, int)
    next_step = -step if largest_wins else step
    priority = 1 if not largest_wins else (len(entries) - 1) * step + 1
    for entry in entries:
        value = entry.priority.const if entry.priority is not None else None
        if isinstance(value, int):
            priority = value
        if not 0 <= priority < 1 << 31:
            c.error(entry.place, f"the priority {priority} is not from 0 to 2^31 - 1")
        info.priorities.append(priority)
        priority += next_step
    if given:
        _unusual_priorities(c, d, largest_wins)


def _unusual_priorities(c: Checker, d: ast.Table, largest_wins: bool) -> None:
    """Warn of equal priorities, and of those against the order of the text."""
    silent = {string_value(a) for a in d.entries_annotations if a.name == "noWarn"}
    seen: set[int] = set()
    last: int | None = None
    for entry, priority in zip(d.info.entries, d.info.priorities, strict=True):
        if priority in seen and "duplicate_priorities" not in silent:
            c.warning(entry.place, f"an earlier entry has the priority {priority}, too")
        wrong = last is not None and (priority > last if largest_wins else priority < last)
        if wrong and "entries_out_of_priority_order" not in silent:
            c.warning(
                entry.place, f"this entry (priority {priority}) wins against the one before it"
            )
        seen.add(priority)
        last = priority


DECLARATIONS: DeclarationRules = {ast.Table: _table}
