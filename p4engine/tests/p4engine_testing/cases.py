"""Programs with what they do, as text: the cases of data/*.txt, in which a new one is a few lines
of P4 and hexadecimal digits.

  == name of the case
  part: P4 text          a part of the frame (programs.py, tna.py), which may go on in lines that
                         begin with four spaces
  > 1 0102               a packet comes in at port 1
  < 2 0102               what leaves for it, in this order; nothing: no line
  $ register_read r 0    a text command
  = r[0] = 5             what it prints, line by line
  ! text                 the command before it, or else the program, is refused with this
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest
from p4engine.control.commands import Commands
from p4engine.switch.library import Switch
from p4engine.switch.traffic_manager import SwitchError
from p4engine.values.numbers import ControlError

from p4engine_testing import DATA

MS = 1_000_000


@dataclass
class Step:
    """A packet (`port`, `data`) with what leaves for it, or a text command with what it prints."""

    port: int = 0
    data: bytes = b""
    command: str = ""
    leaves: list[tuple[int, bytes]] = field(default_factory=list)
    prints: list[str] = field(default_factory=list)
    error: str = ""


@dataclass
class Case:
    """A program in parts, and the steps to take with it; `error`: it is refused with that."""

    name: str
    parts: dict[str, str]
    steps: list[Step]
    error: str = ""

    def check(self, switch: Switch, run: Callable[[str], str | None] | None = None) -> None:
        """Take the steps with a switch that runs the program, a millisecond apart; `run` carries
        out a text command."""
        run = run or Commands(switch).run
        for number, step in enumerate(self.steps):
            if not step.command:
                switch.receive(step.port, step.data, MS * number)
                left = [(port, bytes(data)) for _, port, data in switch.advance(MS * number)]
                assert left == step.leaves, step
            elif step.error:
                with pytest.raises((ControlError, SwitchError)) as caught:
                    run(step.command)
                assert step.error in str(caught.value), step.command
            else:
                printed = run(step.command)
                if step.prints:
                    assert (printed or "").splitlines() == step.prints, step.command


def _packet(line: str) -> tuple[int, bytes]:
    _, port, *data = line.split()
    return int(port), bytes.fromhex("".join(data))


def read(*names: str) -> list[Case]:
    """The cases of files in data."""
    return [case for name in names for case in _cases((DATA / name).read_text())]


def _cases(text: str) -> Iterator[Case]:
    for block in text.split("\n== ")[1:]:
        name, *lines = block.splitlines()
        parts: dict[str, list[str]] = {}
        steps: list[Step] = []
        error = ""
        current: list[str] = []
        for line in lines:
            if line.startswith("    "):
                current.append(line[4:])
            elif line.startswith("> "):
                port, data = _packet(line)
                steps.append(Step(port, data))
            elif line.startswith("< "):
                steps[-1].leaves.append(_packet(line))
            elif line.startswith("$ "):
                steps.append(Step(command=line[2:]))
            elif line.startswith("= "):
                steps[-1].prints.append(line[2:])
            elif line.startswith("! ") and steps:
                steps[-1].error = line[2:]
            elif line.startswith("! "):
                error = line[2:]
            elif line:
                part, _, more = line.partition(":")
                current = parts.setdefault(part, [more.strip()])
        yield Case(name, {part: "\n".join(text) for part, text in parts.items()}, steps, error)
