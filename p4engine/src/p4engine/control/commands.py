"""Control commands as text, one per line, spelled as for BMv2's simple_switch_CLI.

    table_add ipv4_lpm forward 10.0.1.0/24 => 00:00:00:00:01:01 2
    table_add acl drop 0x0800&&&0xffff 1024->65535 => 10
    mc_mgrp_create 1
    mc_node_create 0 1 2 3
    mc_node_associate 1 0
    mirroring_add 5 3
    register_write seen 0 1

Command files of other switches, exercises and STF tests thereby run here unchanged. A `Commands`
keeps nothing and passes everything on to a switch: a `library.Switch` or a `control.Client`, which
have the same calls. docs/commands.md compares all commands with BMv2's.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from p4engine.control.command_arrays import ArrayCommands
from p4engine.control.command_copies import CopyCommands
from p4engine.control.command_profiles import ProfileCommands
from p4engine.control.command_set import Command, CommandSet, check_count, spelling
from p4engine.control.command_switch import SwitchCommands
from p4engine.control.command_tables import TableCommands
from p4engine.control.command_values import CommandError
from p4engine.frontend.diagnostics import did_you_mean
from p4engine.program_info import ProgramInfo
from p4engine.values.names import Names
from p4engine.values.numbers import ControlError

SETS: tuple[type[CommandSet], ...] = (
    TableCommands,
    ProfileCommands,
    ArrayCommands,
    CopyCommands,
    SwitchCommands,
)


class Commands:
    """Carries out command lines on `switch`.

    `run` returns what a command prints (None for nothing) and raises ControlError with one clear
    line; the switch is then as before. Names are those of the program, full or by an unambiguous
    suffix.
    """

    def __init__(self, switch: Any):
        self.switch = switch
        self.info = ProgramInfo.from_json(switch.info()["program"])
        self.names = Names(self.info)
        self.calls: dict[str, Command] = {"help": self.do_help}
        for kind in SETS:
            self.calls |= kind(switch, self.names).commands()

    def run(self, line: str) -> str | None:
        """Carry out one line; comments (#) and empty lines do nothing."""
        words = line.split("#", 1)[0].split()
        if not words:
            return None
        return self.call(words[0], words[1:])

    def call(self, name: str, arguments: list[str]) -> str | None:
        """Carry out one command given in words."""
        function = self.calls.get(name.lower())
        if function is None:
            hint = did_you_mean(name, self.calls)
            raise CommandError(f"there is no command {name!r}{hint}")
        check_count(name, function, arguments)
        return function(arguments)

    def do_help(self, words: list[str]) -> str:
        """help [COMMAND]"""
        if not words:
            return "\n".join(spelling(self.calls[name]) for name in sorted(self.calls))
        if words[0] not in self.calls:
            hint = did_you_mean(words[0], self.calls)
            raise CommandError(f"there is no command {words[0]!r}{hint}")
        return spelling(self.calls[words[0]])

    def run_file(self, path: str | Path) -> list[str]:
        """Carry out a file; returns what its commands print. The first failure ends it."""
        try:
            lines = Path(path).read_text().splitlines()
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise CommandError(f"cannot read {path}: {reason}") from None
        printed = []
        for count, line in enumerate(lines, 1):
            try:
                text = self.run(line)
            except ControlError as error:
                raise CommandError(f"{path}:{count}: {error}\n    {line.strip()}") from None
            if text is not None:
                printed.append(text)
        return printed
