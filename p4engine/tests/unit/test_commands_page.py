"""docs/commands.md says of every text command whether there is one, as the code has it."""

from __future__ import annotations

import re

from p4engine.control.command_set import spelling
from p4engine.control.commands import SETS, Commands
from p4engine.program_info import ProgramInfo
from p4engine_testing import ENGINE

PAGE = (ENGINE / "docs" / "commands.md").read_text()
# | `command` | yes, no or stand-in | differences, or why not |
ROW = re.compile(r"^\| `(\w+)` \| (yes|no|stand-in) \| (.*)\|$", re.MULTILINE)


class NoSwitch:
    """A switch that has a program without any objects."""

    def info(self):
        empty = {name: () for name in ProgramInfo.__slots__}
        return {"program": ProgramInfo(**empty | {"program": "none.p4", "trace": None}).to_json()}


def test_the_page_has_all_commands_and_no_other():
    rows = ROW.findall(PAGE)
    assert len(rows) == len(re.findall(r"^\| `", PAGE, re.MULTILINE)), "a row of another form"
    names = [name for name, *_ in rows]
    assert len(set(names)) == len(names)
    assert {name for name, here, _ in rows if here == "yes"} == set(Commands(NoSwitch()).calls)


def test_what_is_left_out_has_a_reason():
    for name, here, reason in ROW.findall(PAGE):
        assert here == "yes" or reason.strip(), name


def test_each_command_says_how_it_is_spelled():
    commands = Commands(NoSwitch())
    for name, command in commands.calls.items():
        assert spelling(command).split()[0] == name
        assert commands.run(f"help {name}") == spelling(command)


def test_no_command_is_in_two_sets():
    names = [name for each in SETS for name in each(NoSwitch(), None).commands()]
    assert len(set(names)) == len(names)
