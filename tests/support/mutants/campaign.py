"""Runs mutants against tests in forked processes, as a plug-in of pytest.

pytest collects the tests once, with everything imported. Each mutant is a fork of that process: it
makes the change its own and runs the tests that execute the line, the ones that are most likely to
fail per second of processor time first, until one fails. So a mutant costs its compilation and a
few tests, and no imports. A change that no usable test executes is counted apart; without any
usable test nothing is judged.

A test that fails, crashes or takes ten times its usual processor time has noticed. Tests that fail,
are skipped or take more than `most_s` without a change are left out, and a mutant that has lived
through tests of `all_s` has survived: others might notice it, so a score is a lower bound. Results
are written line by line, so an interrupted campaign goes on where it was.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest
from _pytest.runner import runtestprotocol
from hypothesis import settings
from p4engine.frontend.diagnostics import P4Error

from p4engine import compile_program
from tests.support.mutants import c_changes, p4_changes, python_changes, yaml_changes
from tests.support.mutants.apart import leave_the_others
from tests.support.mutants.change import Change, digest
from tests.support.mutants.coverage import CLines, Covered, P4Lines, PythonLines
from tests.support.mutants.install import install, prepare_engine, use_own_cache
from tests.support.mutants.score import (
    INVALID,
    KILLED,
    SURVIVED,
    UNCOVERED,
    Result,
    equal_mutants,
    read,
)
from tests.support.paths import ROOT

OF_P4 = ("tests/switch/p4", "tests/switch/dataplane", "tests/switch/protocols")
# Of the folders that a campaign runs as plain Python.
PLAIN = {
    "testbed/protocols": (
        *("tests/unit/protocols", "tests/switch/protocols", "tests/switch/collective"),
    ),
    "testbed/workload": (
        *("tests/unit/workload", "tests/unit/protocols", "tests/unit/hosts", "tests/unit/traffic"),
        *("tests/switch/simulate/test_rank_programs.py", "tests/switch/protocols"),
    ),
}
# Of the other modules, by their folder. A change is made in this process alone, but for tests on
# Mininet, whose processes find the mutant, too (apart.py).
OF_FOLDERS = {
    "testbed/simulate": ("tests/unit/simulate", "tests/switch/simulate", "tests/switch/api"),
    "testbed/dataplane": (
        "tests/unit/dataplane",
        "tests/switch/dataplane",
        "tests/switch/simulate",
    ),
    "testbed/setup": (
        *("tests/unit/setup", "tests/unit/schemes", "tests/unit/routing", "tests/unit/experiment"),
        *("tests/unit/cli/test_plan_command.py", "tests/switch/simulate"),
    ),
    "testbed/schemes": (
        *("tests/unit/setup", "tests/unit/schemes", "tests/unit/dataplane"),
        *("tests/switch/simulate", "tests/switch/routing"),
    ),
    "testbed/collective": (
        *("tests/unit/collective", "tests/switch/collective"),
        "tests/unit/traffic/test_recordings.py",
    ),
    "testbed/results": ("tests/unit/results", "tests/unit/artifacts", "tests/unit/analysis"),
    "p4fabric/src/p4fabric/emulate": (
        *("p4fabric/tests/unit", "p4fabric/tests/network"),
        *("tests/network/network", "tests/network/emulate"),
    ),
    "testbed/emulate": ("tests/unit/emulate", "tests/network/emulate"),
    "p4fabric/src/p4fabric/base": ("p4fabric/tests/unit", "tests/unit/experiment"),
    "testbed/experiment": ("tests/unit/experiment", "p4fabric/tests/unit"),
    "analysis/data": ("tests/unit/analysis", "tests/switch/analysis", "tests/switch/api"),
    "testbed/tracing": ("tests/switch/tracing",),
    "p4fabric/src/p4fabric/netfile": (
        *("p4fabric/tests/unit", "p4fabric/tests/switch", "tests/switch/netfile"),
    ),
    "p4fabric/src/p4fabric/simulate": (
        *("p4fabric/tests/unit", "p4fabric/tests/switch", "tests/switch/simulate"),
    ),
    "traffic": ("tests/unit/traffic", "tests/unit/cli", "tests/switch/simulate"),
    "labs/classes": ("labs/tests/unit/classes",),
    "labs/grader": ("labs/tests/unit", "labs/tests/switch"),
}
# Of the engine's compiler, with folders below.
OF_COMPILER = ("p4engine/tests/switch/test_p4_*.py", "p4engine/tests/unit")
ENGINE = "p4engine/src/p4engine"
COMPILER = tuple(
    f"{ENGINE}/{folder}" for folder in ("architectures", "backend", "middle", "frontend")
)
# Of the engine's runtime, by the beginning of a file's name. A switch in a process of its own uses
# the changed copy, too (install.py).
SWITCH, VETH = "p4engine/tests/switch", "p4engine/tests/network/test_switch_veth.py"
OF_RUNTIME = {
    "tm": (f"{SWITCH}/test_tm_*.py", f"{SWITCH}/test_install.py", f"{SWITCH}/test_p4_[av]*.py"),
    "passes.h": (
        f"{SWITCH}/test_tm_*.py",
        f"{SWITCH}/test_p4_[apv]*.py",
        f"{SWITCH}/test_tna.py",
    ),
    "hashes.c": (f"{SWITCH}/test_p4_v1model.py",),
    "tna": (f"{SWITCH}/test_tna.py",),
    "architecture.h": (f"{SWITCH}/test_tm_*.py", f"{SWITCH}/test_p4_[av]*.py"),
    "train": (f"{SWITCH}/test_trains.py", VETH),
    "io": (VETH,),
    "stamps.h": (f"{SWITCH}/test_stamps.py", VETH),
    "p4": (f"{SWITCH}/test_p4*.py", f"{SWITCH}/test_co*.py"),
    "pages.h": (f"{SWITCH}/test_tm_*.py", f"{SWITCH}/test_p4_tables.py"),
}
FINDERS = {
    **{"p4": p4_changes.changes, "py": python_changes.changes},
    **{"c": c_changes.changes, "h": c_changes.changes, "yaml": yaml_changes.changes},
}


def changes(file: str) -> list[Change]:
    """All changes of a file."""
    return FINDERS[file.rpartition(".")[2]](file)


def tests_of(kind: str, files: list[str]) -> tuple[str, ...]:
    """Tests that may notice changes of these files. Raises KeyError for a folder without any."""
    if kind == "p4":
        return OF_P4
    found = []
    for file in files:
        folder, _, name = file.rpartition("/")
        if kind != "c":
            compiles = file.startswith(COMPILER)
            of_folders = PLAIN | OF_FOLDERS
            ways = OF_COMPILER if compiles else of_folders[file if file in of_folders else folder]
        else:
            of_name = [begin for begin in OF_RUNTIME if name.startswith(begin)] or list(OF_RUNTIME)
            ways = [way for begin in of_name for way in OF_RUNTIME[begin]]
        found += [str(path.relative_to(ROOT)) for way in ways for path in sorted(ROOT.glob(way))]
    return tuple(dict.fromkeys(found))


TRACED = "tests/switch/p4/"  # tests that send few packets
NOT_THEIR = (
    *("test_sanitizers.py", "test_compile_cache.py", "test_code_cache.py", "test_cache.py"),
    "test_rings.py",
)
# Compares this process, which has the mutant, with one that has not.
BESIDE_THE_ORIGINAL = ("test_plain_python_does_the_same",)
TIMES, EXTRA_S = 10, 5  # the limit of a test: so many times its usual time, and so much
# Of real time, for a process that waits for something. Mutants of C and of single modules often
# do: there it is so much beyond four times the limit of all tests.
LONGEST_S, BEYOND_S = 900, 60
ON_MININET = "tests/network/"
ANYWHERE = ""  # instead of a file
LONGEST_ON_MININET_S = 120


class Campaign:
    """Mutants of one kind of file ("p4", "c", "plain" for folders of PLAIN, or "python" for all
    other modules); results go to a file in `folder`. The campaign ends after `longest_min`."""

    def __init__(
        self,
        kind: str,
        changes: list[Change],
        folder: Path,
        most_s: float,
        all_s: float,
        longest_min: float,
        again: bool = False,
        told: Callable[[str], None] = print,
    ) -> None:
        self.kind, self.changes, self.folder = kind, changes, folder
        self.most_s, self.all_s = most_s, all_s
        self.told = told
        self.cover_until_s = time.monotonic() + 60 * longest_min / 2
        self.end_s = time.monotonic() + 60 * longest_min
        self.results_file = folder / "results.jsonl"
        done = read(self.results_file)
        self.sources = {c.file: (ROOT / c.file).read_text() for c in changes}
        equal = equal_mutants()
        self.engine = any(change.file.startswith(ENGINE) for change in changes)
        self.longest_s = BEYOND_S + 4 * all_s if kind in ("c", "python") else LONGEST_S
        self.done = {
            key: result
            for key, result in done.items()
            if not again
            or result.end not in (SURVIVED, UNCOVERED)
            or (result.file, result.name) in equal
        }
        self.covered: dict[str, Covered] = {}
        self.left_out: dict[str, str] = {}  # tests that cannot be used, and why
        self.untried = 0  # tests of which nothing is known
        self.kills: Counter[tuple[str, str]] = Counter()  # by file and test
        self.runs: Counter[tuple[str, str]] = Counter()
        for result in self.done.values():
            if result.end == KILLED:
                self._count(result.file, [], result.by.partition(": ")[0])
        self.raised: BaseException | None = None
        self.apart = False  # see apart.py
        (folder / "cache").mkdir(parents=True, exist_ok=True)

    def key(self, change: Change) -> str:
        text = self.sources[change.file]
        return f"{change.file}:{change.start}:{change.end}:{change.new.strip()}:{digest(text)}"

    # ---- hooks of pytest ----

    def pytest_runtest_makereport(self, call: pytest.CallInfo) -> None:
        if call.excinfo is not None and self.raised is None:
            self.raised = call.excinfo.value

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # a limit of time: clean up
        settings.register_profile("mutants", derandomize=True, database=None, deadline=None)
        settings.load_profile("mutants")
        if self.engine:
            prepare_engine(self.folder)
        else:
            defaults = compile_program.__kwdefaults__
            assert defaults is not None
            defaults["cache"] = self.folder / "cache"
        items = {item.nodeid: item for item in session.items if self._counts(item)}
        self.apart = any(name.startswith(ON_MININET) for name in items)
        if self.apart:
            self.longest_s = LONGEST_ON_MININET_S
        usable = self._usable(items)
        for number, change in enumerate(self.changes, 1):
            key = self.key(change)
            if key in self.done:
                continue
            if time.monotonic() > self.end_s:
                self.told("the campaign's time is over; the same command continues it")
                break
            result = self._judge(change, usable)
            if result.end == UNCOVERED and self.untried:
                self.told(f"{change.file}:{change.line} is not judged: {self.untried} tests to try")
                continue
            with self.results_file.open("a") as file:
                file.write(result.as_json() + "\n")
            self.done[key] = result
            place = f"{number}/{len(self.changes)} {change.file}:{change.line}"
            self.told(f"{place} {result.end} {result.seconds:.1f} s | {change.name} | {result.by}")
        return True

    def _counts(self, item: pytest.Item) -> bool:
        if item.path.name in NOT_THEIR or item.name in BESIDE_THE_ORIGINAL:
            return False
        return item.get_closest_marker("skip") is None

    # ---- what the tests do without a change ----

    def _usable(self, items: dict[str, pytest.Item]) -> dict[str, pytest.Item]:
        """The tests that may notice changes. Without any, every mutant would seem to survive, so
        the campaign ends with an error."""
        self._cover(items)
        long = {name for name, found in self.covered.items() if found.seconds > self.most_s}
        usable = {name: items[name] for name in items if name in self.covered.keys() - long}
        total = sum(self.covered[name].seconds for name in usable)
        self.told(f"{len(usable)} tests of {total:.0f} s")
        if not usable:
            reasons = "".join(f"\n  {name}: {why}" for name, why in self.left_out.items())
            pytest.exit(
                f"no mutant is judged, because none of {len(items)} tests can be used: {len(long)}"
                f" take more than {self.most_s:g} s (--most-s), {self.untried} were not tried in"
                f" half of the campaign's time (--minutes), the others are left out:{reasons}",
                returncode=2,
            )
        return usable

    def _cover(self, items: dict[str, pytest.Item]) -> None:
        """Fill `covered` from the file of an earlier campaign, or by running each test."""
        path = self.folder / f"covered-{self.kind}.jsonl"
        known = dict(map(json.loads, path.read_text().splitlines())) if path.exists() else {}
        shared = self._shared_digest()
        of_kind = {"plain": PLAIN, "python": OF_FOLDERS}.get(self.kind, {})
        others = () if self.engine else _modules(of_kind)
        files = sorted({*self.sources, *others})
        python = PythonLines(files) if self.kind in ("plain", "python") else None
        for name, item in items.items():
            key = digest(item.path.read_text() + shared)
            entry = known.get(name)
            if entry is None or entry["key"] != key or not set(files) <= set(entry["of"]):
                if time.monotonic() > self.cover_until_s:
                    self.untried += 1  # a later campaign may know it
                    continue
                answer = self._in_child(
                    lambda item=item: self._covered(item, files, python), self.longest_s
                )
                if isinstance(answer, str):  # its process was ended, maybe by a busy machine
                    self.left_out[name] = answer
                    self.told(f"{name}: left out ({answer})")
                    continue
                lines = asdict(answer[0]) if answer[0] else None
                of = sorted({*files, *(entry["of"] if entry and entry["key"] == key else [])})
                entry = {"key": key, "of": of, "covered": lines, "why": answer[1]}
                known[name] = entry
                with path.open("a") as file:
                    file.write(json.dumps([name, entry]) + "\n")
                said = f"left out ({answer[1]})" if lines is None else f"{lines['seconds']} s"
                self.told(f"{name}: {said}")
            if entry["covered"] is not None:
                self.covered[name] = Covered(**entry["covered"])
            else:
                self.left_out[name] = entry.get("why", "it failed before")

    def _shared_digest(self) -> str:
        """Digest of the files on which tests depend, beside their own file."""
        product = {
            "python": ("testbed", "p4fabric/src", "analysis/data", "labs/grader"),
            "plain": (*PLAIN,),
        }
        of_kind = product.get(self.kind, ("testbed/protocols",))
        if self.engine:
            of_kind = ("p4engine/src", "p4engine/tests/p4engine_testing")
        folders = ("p4", *of_kind, "tests/support")
        paths = [p for f in folders for p in sorted((ROOT / f).rglob("*.p[4y]"))]
        paths = [p for p in paths if not {"mutants", "explorer"} & {*p.parts}]
        return digest("".join(p.read_text() for p in paths))

    def _covered(
        self, item: pytest.Item, files: list[str], python: PythonLines | None
    ) -> tuple[Covered | None, str]:
        """In a child: run a test and see what it executes, or why it cannot be used."""
        _limit(4 * self.most_s + EXTRA_S)
        lines: P4Lines | PythonLines | CLines
        if python:
            lines = python
            lines.begin()
        elif self.kind == "c":
            test = str(item.path.relative_to(ROOT))
            lines = CLines([file for file in files if test in tests_of("c", [file])])
        else:
            lines = P4Lines(item.nodeid.startswith(TRACED))
        begin = self._clock_s()
        passed = self._passes(item)
        seconds = self._clock_s() - begin
        if not passed:
            return None, _short(self.raised)
        found = lines.lines()
        if item.nodeid.startswith(ON_MININET):  # nobody knows what its processes execute
            found = dict.fromkeys(files)
        return Covered(round(seconds, 2), found), ""

    # ---- one mutant ----

    def _judge(self, change: Change, usable: dict[str, pytest.Item]) -> Result:
        names = [name for name in usable if self.covered[name].may_notice(change)]
        place = self.key(change), change.file, change.line, change.kind, change.name
        if not names:
            longer = any(found.may_notice(change) for found in self.covered.values())
            by = "only longer tests execute it" if longer else "no test executes it"
            return Result(*place, UNCOVERED, by, 0.0)
        names.sort(key=lambda name: self._price(change.file, name))
        if self.kind == "c":  # nothing is known of lines: a test of each test file in turn
            files: dict[str, list[str]] = {}
            for name in names:
                files.setdefault(name.partition("::")[0], []).append(name)
            turns = zip_longest(*files.values())
            names = [name for turn in turns for name in turn if name is not None]
        while True:
            begin = time.monotonic()
            answer = self._in_child(
                lambda: self._noticed(change, [usable[name] for name in names]), self.longest_s
            )
            seconds = time.monotonic() - begin
            if isinstance(answer, str):  # the end of the process, maybe in the middle of a test
                end, by = KILLED, answer
                break
            end, by, seconds, count = answer
            killer = names[count - 1] if end == KILLED else None
            if killer is None or self._is_sure(change, usable[killer]):
                self._count(change.file, names[: count - 1] if killer else names[:count], killer)
                break
            self.told(f"{killer}: left out, it fails by itself")
            del usable[killer]
            names.remove(killer)
        return Result(*place, end, by, round(seconds, 2))

    def _is_sure(self, change: Change, item: pytest.Item) -> bool:
        """False if a test on Mininet does not fail again, or fails without the change, too."""
        if not item.nodeid.startswith(ON_MININET):
            return True
        again = self._in_child(lambda: self._noticed(change, [item]), self.longest_s)
        if not isinstance(again, str) and again[0] != KILLED:
            return False
        return self._in_child(lambda: self._passes(item), self.longest_s) is True

    def _count(self, file: str, others: list[str], killer: str | None) -> None:
        """Note which tests have noticed a change of a file, or not."""
        for where in (file, ANYWHERE):
            for name in [*others, killer] if killer else others:
                self.runs[where, name] += 1
            if killer:
                self.kills[where, killer] += 1

    def _price(self, file: str, name: str) -> float:
        """Seconds for each mutant that the test can be expected to notice."""
        where = ANYWHERE if name.startswith(ON_MININET) else file  # it runs all of a folder
        chance = (self.kills[where, name] + 0.5) / (self.runs[where, name] + 2)
        return (self.covered[name].seconds + 0.05) / chance

    def _noticed(self, change: Change, items: list[pytest.Item]) -> tuple[str, str, float, int]:
        """In a child: (end, by, seconds, tests run)."""
        begin = self._clock_s()
        with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
            try:
                install(change, Path(folder), self.apart)
            except SyntaxError as error:
                return INVALID, str(error), 0.0, 0
            for count, item in enumerate(items, 1):
                if self._clock_s() - begin > self.all_s:
                    return SURVIVED, f"{count - 1} tests", self._clock_s() - begin, count - 1
                _limit(TIMES * self.covered[item.nodeid].seconds + EXTRA_S)
                if not self._passes(item, *items[count : count + 1]):
                    seconds = self._clock_s() - begin
                    if type(self.raised) is P4Error and self.kind in ("p4", "c"):
                        return INVALID, _short(self.raised), seconds, count
                    return KILLED, f"{item.nodeid}: {_short(self.raised)}", seconds, count
        return SURVIVED, f"{len(items)} tests", self._clock_s() - begin, len(items)

    def _clock_s(self) -> float:
        """Of the processor; on Mininet, where other processes do the work, of the wall."""
        return time.monotonic() if self.apart else _processor_s()

    def _passes(self, item: pytest.Item, following: pytest.Item | None = None) -> bool:
        """Run a test; what the following one needs as well stays."""
        self.raised = None
        reports = runtestprotocol(item, log=False, nextitem=following)
        return all(report.passed for report in reports)

    def _in_child(self, function: Callable[[], Any], longest_s: float) -> Any:
        """Result of a function in a fork of this process, or a text about the end of the fork."""
        sys.stdout.flush()
        folder = Path(tempfile.mkdtemp(prefix="mutant-tests-"))
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            status = 1
            try:
                os.setpgid(0, 0)
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
                os.close(reading)
                _be_quiet()
                if self.apart:
                    leave_the_others()
                _use_temporary_folder(folder)
                if self.engine:
                    use_own_cache(self.folder, folder)
                try:
                    made = function()
                except Exception as error:
                    made = f"{type(error).__name__}: {error}"
                with os.fdopen(writing, "wb") as file:
                    file.write(pickle.dumps(made))
                status = 0
            finally:
                os._exit(status)
        os.close(writing)
        data, ended = b"", time.monotonic() + longest_s
        try:
            with os.fdopen(reading, "rb", buffering=0) as file:
                while select.select([file], [], [], max(0.0, ended - time.monotonic()))[0]:
                    more = file.read(1 << 16)
                    if not more:
                        break
                    data += more
                else:
                    os.killpg(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
        finally:  # also where the campaign is interrupted
            for _ in range(100):
                with contextlib.suppress(ProcessLookupError):  # what a crash has left of a test
                    os.killpg(child, signal.SIGKILL)
                shutil.rmtree(folder, ignore_errors=True)
                if not folder.exists():  # what is ending may still write
                    break
                time.sleep(0.01)
        if data:
            return pickle.loads(data)
        if os.WIFSIGNALED(status):
            name = signal.Signals(os.WTERMSIG(status)).name
            return "too much processor time" if name == "SIGXCPU" else name
        return f"exit code {os.WEXITSTATUS(status)}"


def _short(error: BaseException | None) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]


def _modules(folders: Iterable[str]) -> list[str]:
    """Of all folders: a test that several of them have is run once."""
    paths = (path for folder in folders for path in (ROOT / folder).glob("*.py"))
    return [str(path.relative_to(ROOT)) for path in paths]


def _processor_s() -> float:
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(u.ru_utime + u.ru_stime for u in used)


def _limit(more_s: float) -> None:
    """End this process when it has used so much more processor time."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    limit = int(used.ru_utime + used.ru_stime + more_s) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.getrlimit(resource.RLIMIT_CPU)[1]))


def _be_quiet() -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)


def _use_temporary_folder(folder: Path) -> None:
    """Have pytest and everybody else put their files there."""
    os.environ["TMPDIR"] = str(folder)
    os.environ["PYTEST_DEBUG_TEMPROOT"] = str(folder)
    tempfile.tempdir = str(folder)
