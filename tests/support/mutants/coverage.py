"""Lines that each test executes: only these tests can notice a change there.

Traced builds of the engine report each statement and condition of a P4 program that runs. Tests
that send many packets would take minutes in a traced build; for them only the files of their
programs are known. Protocols run as plain Python here, and the package coverage reports their
lines."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from p4engine.backend import build
from p4engine.frontend.preprocessor import preprocess as preprocessor
from p4engine.switch.library import Switch

from p4engine import compile_program
from tests.support.mutants.change import Change
from tests.support.paths import ROOT

P4 = (ROOT / "p4").resolve()


@dataclass
class Covered:
    """Lines that a test executes. `lines`: by file, such as "p4/esa.p4"; a file without lines
    (None) may have run anywhere. `seconds`: of processor time."""

    seconds: float = 0.0
    lines: dict[str, list[int] | None] = field(default_factory=dict)

    def may_notice(self, change: Change) -> bool:
        lines = self.lines.get(change.file, [])
        if lines is None or (change.first == 0 and change.file in self.lines):
            return True
        return any(change.first <= line <= change.last for line in lines)


class P4Lines:
    """Records from now on, in this process, what P4 programs execute, if `traced`."""

    def __init__(self, traced: bool) -> None:
        self.files: set[str] = set()
        self.sites: dict[str, set[int]] = {}
        self.infos: dict[str, Any] = {}
        real = preprocessor.preprocess

        def preprocess(*args: Any) -> Any:
            made = real(*args)
            self.files |= {path.name for path in made[1] if path.resolve().parent == P4}
            return made

        preprocessor.preprocess = preprocess
        build.Memory.spelling = lambda memory: None  # so that it is asked for every program
        self.traced = traced
        if traced:
            defaults = compile_program.__kwdefaults__
            assert defaults is not None
            defaults["trace"] = True
            self._listen()

    def _listen(self) -> None:
        begin = Switch.__init__

        def init(switch: Any, compiled: Any, **options: Any) -> None:
            begin(switch, compiled, **options)
            if compiled.info.trace is not None:
                self.infos[compiled.hash] = compiled.info
                seen = self.sites.setdefault(compiled.hash, set())
                switch.pipeline.on_trace(lambda _, text: seen.add(int(text.partition(" ")[0])))

        Switch.__init__ = init  # type: ignore[method-assign]

    def lines(self) -> dict[str, list[int] | None]:
        if not self.traced:
            return {f"p4/{name}": None for name in self.files}
        found: dict[str, set[int]] = {f"p4/{name}": set() for name in self.files}
        for program, sites in self.sites.items():
            for number in sites:
                site = self.infos[program].trace.sites[number]
                name = f"p4/{Path(site.get('file', '')).name}"  # of some, only the kind is known
                if name in found:
                    found[name].add(site["line"])
        return {name: sorted(lines) for name, lines in found.items()}


class PythonLines:
    """Which lines of `files` a process and its forks execute after `begin`. It is made once, for
    many processes, because that takes longer than most tests."""

    def __init__(self, files: list[str]) -> None:
        from coverage import Coverage

        self.names = {str((ROOT / file).resolve()): file for file in files}
        self.coverage = Coverage(data_file=None, include=list(self.names), config_file=False)
        self.forks = os.memfd_create("forks")  # some become another user, so it is no file

    def begin(self) -> None:
        """Record from now on, in this process, a fork of the one that has made this."""
        os.ftruncate(self.forks, 0)
        os.lseek(self.forks, 0, os.SEEK_SET)
        self.own = os.getpid()
        for name in ("_exit", "execvp", "execvpe"):
            setattr(os, name, self._telling(getattr(os, name)))
        self.coverage.start()

    def _telling(self, leave: Callable[..., Any]) -> Callable[..., Any]:
        def told(*words: Any) -> None:
            if os.getpid() != self.own:
                with contextlib.suppress(OSError):
                    os.write(self.forks, json.dumps(self._seen()).encode() + b"\n")
            leave(*words)

        return told

    def _seen(self) -> dict[str, list[int]]:
        self.coverage.stop()
        data = self.coverage.get_data()
        return {file: data.lines(path) or [] for path, file in self.names.items()}

    def lines(self) -> dict[str, list[int] | None]:
        found = {file: {*lines} for file, lines in self._seen().items()}
        os.lseek(self.forks, 0, os.SEEK_SET)
        with open(self.forks) as told:
            for seen in told:
                for file, lines in json.loads(seen).items():
                    found[file] |= {*lines}
        return {file: sorted(lines) for file, lines in found.items() if lines}


class CLines:
    """Of C only the files are known: those of a list."""

    def __init__(self, files: list[str]) -> None:
        self.files = files

    def lines(self) -> dict[str, list[int] | None]:
        return dict.fromkeys(self.files)
