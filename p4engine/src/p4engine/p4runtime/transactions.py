"""Writes of which all updates are carried out or none.

Each kind of entity says, before an update, what would take it back: a function that is called if a
later update fails. They are called in reverse order, so that each finds the state which its update
left behind.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from p4engine.p4runtime.status import Code, Result

Undo = Callable[[], None]


def opposite(kind: str, entry: Any, old: Any, write: Callable[[str, Any], None]) -> Undo:
    """The undo of an update of an entity whose messages say all of it.

    Args:
        old: what is stored before the update; None: nothing.
        write: carries out an update.
    """
    if kind == "INSERT":
        return lambda: write("DELETE", entry)
    return lambda: write("MODIFY" if kind == "MODIFY" else "INSERT", old)


def all_or_nothing(
    updates: Sequence[Any],
    write: Callable[[Any], Result],
    undo_of: Callable[[Any], Undo | None],
) -> list[Result]:
    """Carry out updates until one fails; then take back those before it.

    Args:
        write: carries out one; undo_of: what would take it back, None: it will be refused.

    Returns:
        What came of each, in order. If one fails, the others are ABORTED.
    """
    done: list[Undo] = []
    for place, update in enumerate(updates):
        undo = undo_of(update)
        result = write(update)
        if result[0] is Code.OK and undo is not None:
            done.append(undo)
            continue
        if result[0] is Code.OK:
            result = (Code.INTERNAL, "the update cannot be taken back")
        for undo in reversed(done):
            undo()
        why = (Code.ABORTED, f"not carried out, because update {place} failed")
        return [result if i == place else why for i in range(len(updates))]
    return [(Code.OK, "")] * len(updates)
