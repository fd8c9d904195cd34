"""Named mutations: each takes one defence out of a copy of the source, and says what must notice.

A defence that nothing misses is no defence, or it has no test. So each hazard of the protocols has
an entry in this folder: the piece of source that guards against it, what it is replaced by, and
its *proof*, a test that must then fail. `test_mutations.py` shows that it does, and that it passes
without the mutation.

A piece of source must occur exactly once, so a mutation does not outlive the code it is about.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from testbed import dataplane
from tests.support.paths import ROOT

BUDGET = 40  # histories until a mutation must have been noticed


@dataclass(frozen=True)
class Histories:
    """Some of `budget` random histories of a small experiment (cases.py) must fail."""

    system: str
    racks: bool = False
    lossless: bool = False  # nothing is lost, and no worker's timer may be needed
    options: dict[str, object] = field(default_factory=dict)
    budget: int = BUDGET


@dataclass(frozen=True)
class Test:
    """An ordinary test of tests/switch, "folder.module.function", must fail."""

    name: str
    __test__ = False  # nothing that pytest should collect


@dataclass(frozen=True)
class Mutation:
    """`old` in `file` (p4/... or testbed/...) becomes `new`. `hazard`: what happens then."""

    name: str
    hazard: str
    file: str
    old: str
    new: str
    proof: Histories | Test
    quick: bool = False  # also in the short run of the tests

    @property
    def of_host(self) -> bool:
        return self.file.startswith("testbed/")


def apply(mutation: Mutation, folder: Path) -> None:
    """Change the copy of the sources in `folder`; AssertionError unless `old` is there once."""
    path = folder / mutation.file
    text = path.read_text()
    assert text.count(mutation.old) == 1, f"{mutation.file} has changed: {mutation.name}"
    path.write_text(text.replace(mutation.old, mutation.new))


def install(mutation: Mutation, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every switch that is started from now on run the mutant of its program."""
    shutil.copytree(ROOT / "p4", folder / "p4")
    apply(mutation, folder)
    real = dataplane.program

    def program(experiment):
        source, definitions, _ = real(experiment)
        return folder / "p4" / source.name, definitions, (folder / "p4",)

    monkeypatch.setattr(dataplane, "program", program)


def mutate_hosts(mutation: Mutation, folder: Path) -> None:
    """Make `folder` a checkout whose hosts are the mutant."""
    for part in ROOT.iterdir():
        if part.name != "testbed" and not part.name.startswith("."):
            (folder / part.name).symlink_to(part)
    shutil.copytree(
        ROOT / "testbed", folder / "testbed", ignore=shutil.ignore_patterns("__pycache__")
    )
    apply(mutation, folder)
