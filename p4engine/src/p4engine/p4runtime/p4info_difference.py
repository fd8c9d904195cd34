"""Comparison of two P4Infos: the objects that a controller may write to, by its numbers.

Two compilers, or two versions of one, write what is only for people differently (annotations,
documentation, the package's name), and what a program has beside (initial values, names of types).
None of that changes what a number means.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

IGNORED = {
    "alias",
    "annotations",
    "annotation_locations",
    "structured_annotations",
    "doc",
    "pkg_info",
    "type_info",
    "type_name",
    "index_type_name",
    "initial_default_action",
    "const_default_action_id",
    "has_initial_entries",
    "other_properties",
    "externs",  # v1model has none
    "type",  # of a meter: from an annotation that not all compilers know
}


def first_difference(given: Any, own: Any) -> str | None:
    """The place where the P4Info `given` does not fit the P4Info `own`, in words; None if it
    does."""
    for kind, _ in (*own.ListFields(), *given.ListFields()):
        if kind.name in IGNORED:
            continue
        what = kind.name.replace("_", " ")
        mine = {each.preamble.id: each for each in getattr(own, kind.name)}
        theirs = {each.preamble.id: each for each in getattr(given, kind.name)}
        for number, each in mine.items():
            name = f"{each.preamble.name} ({number:#010x})"
            if number not in theirs:
                return f"{what}: {name} of the program is missing"
            found = next(_differences(theirs[number], each), None)
            if found is not None:
                return f"{what}: {name}: {found}"
        for number, each in theirs.items():
            if number not in mine:
                return f"{what}: the program has no {each.preamble.name} ({number:#010x})"
    return None


def _differences(given: Any, own: Any) -> Iterator[str]:
    """The difference of two messages of one type."""
    for member in own.DESCRIPTOR.fields:
        if member.name in IGNORED:
            continue
        theirs, mine = getattr(given, member.name), getattr(own, member.name)
        if member.message_type is None:
            plain = isinstance(mine, int | str | bytes | bool | float)
            if (theirs != mine) if plain else (sorted(theirs) != sorted(mine)):
                yield f"{member.name} is {_plain(member, theirs)}, not {_plain(member, mine)}"
        elif member.name == "type_spec":
            if theirs != mine:
                yield f"{member.name} is {_line(theirs)}, not {_line(mine)}"
        elif not hasattr(mine, "add"):
            yield from (f"{member.name}: {each}" for each in _differences(theirs, mine))
        else:
            numbers = {each.id: each for each in theirs}
            if set(numbers) != {each.id for each in mine} or len(theirs) != len(mine):
                yield f"{member.name} are {sorted(numbers)}, not {sorted(e.id for e in mine)}"
                continue
            for each in mine:
                for found in _differences(numbers[each.id], each):
                    yield f"{member.name} {getattr(each, 'name', '') or each.id}: {found}"


def _plain(member: Any, value: Any) -> str:
    if member.enum_type is not None:
        return str(member.enum_type.values_by_number[value].name)
    if not isinstance(value, int | str | bytes | bool | float):
        return str(sorted(value))
    return str(value) or "empty"


def _line(message: Any) -> str:
    return " ".join(str(message).split()) or "empty"
