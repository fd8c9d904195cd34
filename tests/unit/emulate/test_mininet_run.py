"""The order of a run's steps on Mininet, with a network and repetitions that are made up."""

from __future__ import annotations

import contextlib
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

from testbed.emulate import mininet_run
from testbed.emulate.mininet_run import MininetRun, shared_session
from testbed.experiment import load_text
from testbed.schemes import set_up

TEXT = """
name: ordered
topology: {kind: star, hosts: 3}
system: ps
repetitions: 2
jobs: [{model: resnet18, workers: 2, iterations: 1, scale: 0.001}]
"""


class Repetition:
    """Notes when it begins, runs and ends."""

    log: list

    def __init__(self, setup, backend, session, page) -> None:
        self.number = setup.repetition
        self.log.append(("made", self.number, page))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.log.append(("over", self.number))

    def run(self, console, writer, beside) -> None:
        self.log.append(("run", self.number, beside))


@pytest.mark.parametrize("prompt", [None, "before", "during", "after"])
def test_the_prompt_opens_once_at_its_time(monkeypatch, tmp_path, prompt):
    log: list = []
    monkeypatch.setattr(Repetition, "log", log, raising=False)
    monkeypatch.setattr(mininet_run, "Repetition", Repetition)
    monkeypatch.setattr(mininet_run, "open_prompt", lambda network: log.append("prompt"))
    options = SimpleNamespace(network_options=lambda: {"trains": True}, versions=lambda: {})
    monkeypatch.setattr(mininet_run, "backend_of", lambda *_: options)
    built: list = []
    session = SimpleNamespace(
        network=object(), build=lambda topology, **given: built.append((topology, given))
    )
    titles: list = []

    class Shared:
        def run(self, title, logs):
            titles.append((title, logs))
            return contextlib.nullcontext(session)

    setups = [set_up(load_text(TEXT), number) for number in range(2)]
    run = SimpleNamespace(
        setup=setups[0], setups=lambda: iter(setups), console=Console(quiet=True),
        program=SimpleNamespace(compiled=None), page="page",
    )  # fmt: skip
    writer = SimpleNamespace(folder=Path("results/ordered"), logs=tmp_path)
    MininetRun(run, shared=Shared(), prompt=prompt).repeat(writer)
    assert titles == [("ordered (results/ordered)", tmp_path)]
    assert built == [(setups[0].platform.topology, {"trains": True})]
    beside = prompt == "during"
    first = [("made", 0, "page"), ("run", 0, beside), ("over", 0)]
    second = [("made", 1, "page"), ("run", 1, beside), ("over", 1)]
    if prompt == "before":
        first.insert(1, "prompt")
    if prompt == "after":
        second.insert(2, "prompt")
    assert log == [*first, *second]


def test_a_session_of_several_runs_knows_each_kind_of_host_once():
    other = TEXT.replace("system: ps", "system: ring").replace("ordered", "second")
    setups = [set_up(load_text(text)) for text in (TEXT, other, TEXT)]
    made = shared_session(iter(setups))
    kinds = [(spec.role, spec.job.system) for spec in made._hosts]
    assert made._title == "ordered" and len(kinds) == len(set(kinds))
    assert {role for role, _ in kinds} == {"worker", "ps"} and len(kinds) == 3
