"""A run on any runtime: its experiment, its program, and its view."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from rich.console import Console

from testbed.experiment import Experiment
from testbed.run_parts.program import Program
from testbed.schemes import set_up
from testbed.setup import Setup

if TYPE_CHECKING:
    from testbed.results import Writer
    from testbed.run_parts.live_view import Page


@dataclass(frozen=True)
class Run:
    """All repetitions of an experiment. setup: of the first one. page: shows the run while it goes
    on."""

    experiment: Experiment
    setup: Setup
    program: Program
    console: Console
    page: Page | None = None

    def setups(self) -> Iterator[Setup]:
        """The Setup of each repetition, in order."""
        yield self.setup
        for repetition in range(1, self.setup.repetitions):
            yield set_up(self.experiment, repetition)


class Runtime(Protocol):
    """The part of a run that depends on the runtime."""

    @property
    def run(self) -> Run: ...

    def versions(self) -> Mapping[str, str | None]:
        """Versions of the programs that it uses beside the testbed, for the results."""
        ...

    def repeat(self, writer: Writer) -> None:
        """Run all repetitions, and write their tables. Raises RunError."""
        ...
