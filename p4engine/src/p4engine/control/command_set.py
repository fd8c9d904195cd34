"""The base of all sets of text commands: how arguments are counted and turned into values.

A command is a method `do_NAME`, whose docstring begins with its spelling: NAME, its arguments in
capitals, those that may be left out in brackets, and `...` where there may be any number. The
spelling says how many arguments are right.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from p4engine.control.command_values import CommandError, fit, match_value, param_text, whole
from p4engine.program_info import Action, Table
from p4engine.values.matches import Match
from p4engine.values.names import Names

Command = Callable[[list[str]], str | None]


def spelling(command: Command) -> str:
    """The syntax of a command."""
    return (command.__doc__ or "").strip().splitlines()[0]


def check_count(name: str, command: Command, words: Sequence[str]) -> None:
    """Raises CommandError for too few or too many arguments."""
    _, *expected = spelling(command).split()
    _, *needed = re.sub(r"\[.*?\]", "", spelling(command)).split()
    # Nothing need stand behind =>, so it can be left out.
    least = sum(not word.endswith("...") and word != "=>" for word in needed)
    if len(words) < least:
        raise CommandError(f"{name} needs more arguments: {spelling(command)}")
    if len(words) > len(expected) and "..." not in spelling(command):
        raise CommandError(f"{name} takes no more arguments than {spelling(command)}")


class CommandSet:
    """Commands of one topic on `switch`, a `library.Switch` or a `control.Client`."""

    def __init__(self, switch: Any, names: Names) -> None:
        self.switch = switch
        self.names = names

    def commands(self) -> dict[str, Command]:
        """The commands by name."""
        return {name[3:]: getattr(self, name) for name in dir(self) if name.startswith("do_")}


def action_params(action: Action, texts: Sequence[str]) -> list[int]:
    """Values of an action's parameters in order; a leading => is left out."""
    texts = texts[1:] if texts and texts[0] == "=>" else texts
    expected = action.params
    if len(texts) != len(expected):
        names = ", ".join(p.name for p in expected) or "nothing"
        raise CommandError(
            f"action {action.name} takes {len(expected)} parameters ({names}), {len(texts)} given"
        )
    return [
        fit(text, p.width, f"action {action.name}, parameter {p.name}")
        for p, text in zip(expected, texts, strict=True)
    ]


def table_match(table: Table, texts: Sequence[str]) -> list[Match]:
    """The match of an entry, one value per key."""
    keys = table.match_keys
    if len(texts) != len(keys):
        names = ", ".join(k.name for k in keys) or "none"
        raise CommandError(
            f"table {table.name} has {len(keys)} keys ({names}), {len(texts)} values given"
        )
    return [
        match_value(k, text, f"table {table.name}") for k, text in zip(keys, texts, strict=True)
    ]


def split_arrow(words: list[str]) -> tuple[list[str], list[str]]:
    """The words before and behind =>."""
    if "=>" not in words:
        return words, []
    at = words.index("=>")
    return words[:at], words[at + 1 :]


def take_priority(table: Table, words: list[str]) -> int | None:
    """Take the priority from the end of `words`, where entries of the table have one."""
    if not table.ordered:
        return None
    if not words:
        raise CommandError(f"table {table.name} needs a priority as the last word (the lower wins)")
    return whole(words.pop(), "priority")


def action_text(action: Action, values: Sequence[int]) -> str:
    """An action with its parameters' values."""
    params = zip(action.params, values, strict=True)
    return " ".join([action.name, *(param_text(p.width, value) for p, value in params)])
