"""Systematic mutation of the labs' reference solutions: every single change must cost points.

    python -m labs mutants 4 --results FOLDER [--sample N] [--seed S] [--jobs N]

What a solution can do wrong in one place and nobody notices is a gap in a lab's checks, or equal to
the solution in all that can be observed; then equal.yaml says why. Each mutant is graded as a
submission, by one check after the other until one is lost, the one first that finds most. A P4
program that does not compile is no mutant. Lab 10's solution is tests, so there the program that
they are for is changed, and a test has to fail. Of lab 13's files the numbers and words are
changed.

A campaign with the same FOLDER goes on where it was; with `--again`, survivors are run again. The
numbers of a grading are those of a practice seed, which is another one for each mutant.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from types import SimpleNamespace

from p4engine.frontend.diagnostics import P4Error
from p4engine.stf.stf_run import run_test

from labs._teacher import solution
from labs.grader.grade import Outcome, grade
from labs.grader.lab import find_lab, lab_names
from labs.grader.seeds import Seed
from labs.tests.support import ROOT, lab_changes
from p4engine import compile_program
from tests.support.mutants import p4_changes, python_changes, yaml_changes
from tests.support.mutants.change import Change, digest, sample
from tests.support.mutants.score import (
    HEAD,
    INVALID,
    KILLED,
    SURVIVED,
    Result,
    equal_mutants,
    read,
    score,
)

STUDENT = "solution"
EQUAL = Path(__file__).with_name("equal.yaml")
FINDERS = {
    ".p4": p4_changes.changes,
    ".py": python_changes.changes,
    ".yaml": yaml_changes.changes,
}
TESTED = "labs/lab10_tests/skeleton/agree.p4"  # instead of a solution


def changes(lab: str) -> list[Change]:
    """All changes of a lab's solution."""
    if lab == "lab10_tests":
        return FINDERS[".p4"](TESTED)
    paths = [p for p in sorted(solution(lab).iterdir()) if p.suffix in FINDERS]
    files = [str(p.resolve().relative_to(ROOT)) for p in paths]
    plain = [c for p, f in zip(paths, files, strict=True) for c in FINDERS[p.suffix](f)]
    return [*plain, *(c for f in files for c in lab_changes.changes(f))]


class Noticed(Exception):
    """A check has been lost."""


def judge(lab: str, change: Change, order: Sequence[str] = ()) -> tuple[str, str]:
    """The end of a mutant, and the check that it has lost. `order`: names of checks to try
    first."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "submission"
        if change.file == TESTED:
            text = change.apply((ROOT / change.file).read_text())
            return _tested(text, solution(lab) / "tests.stf", Path(name))
        write(lab, change, folder)
        return _graded(lab, folder, change, order)


def write(lab: str, change: Change, folder: Path) -> None:
    """Write the changed solution to a new folder."""
    shutil.copytree(solution(lab), folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / Path(change.file).name).write_text(change.apply((ROOT / change.file).read_text()))


def _graded(lab: str, folder: Path, change: Change, order: Sequence[str]) -> tuple[str, str]:
    found = find_lab(lab)
    places = {name: n for n, name in enumerate(order)}
    all_checks = found.checks
    found.checks = sorted(all_checks, key=lambda check: places.get(check.name, len(places)))

    def stop(outcome: Outcome) -> None:
        if outcome.status == "not judged":
            raise RuntimeError(f"{change.name}: {outcome.lines}")
        if outcome.status != "pass":
            raise Noticed(outcome.check.name, outcome.status)

    try:
        number = int(digest(change.name), 16)
        made = grade(found, folder, Seed(number, STUDENT), progress=stop)
    except Noticed as noticed:
        name, status = noticed.args
        wrong = status == "not run" and change.file.endswith(".p4")
        return (INVALID, "it does not compile") if wrong else (KILLED, name)
    finally:
        found.checks = all_checks
    return (KILLED, made.problem) if made.problem else (SURVIVED, "")


def _tested(text: str, tests: Path, folder: Path) -> tuple[str, str]:
    """A changed agree.p4 against the tests of lab 10's solution."""
    from labs.lab10_tests import checks

    (folder / "agree.p4").write_text(text)
    try:
        program = compile_program(folder / "agree.p4")
    except P4Error:
        return INVALID, "it does not compile"
    for test in checks.tests(SimpleNamespace(read=lambda name: tests.read_text())):  # type: ignore[arg-type]
        (folder / "one.stf").write_text(test.stf)
        if run_test(program, folder / "one.stf").status != "pass":
            return KILLED, test.name
    return SURVIVED, ""


def _judged(task: tuple[str, Change, tuple[str, ...]]) -> tuple[str, str, float]:
    begin = time.monotonic()
    return *judge(*task), time.monotonic() - begin


def key(change: Change) -> str:
    text = (ROOT / change.file).read_text()
    return f"{change.file}:{change.start}:{change.end}:{change.new.strip()}:{digest(text)}"


def campaign(
    lab: str, chosen: Sequence[Change], done: dict[str, Result], file: Path, jobs: int
) -> Iterator[Result]:
    """Judge what is not done, and write the results to a file; all of them."""
    kills: Counter[str] = Counter(r.by for r in done.values() if r.end == KILLED)
    todo = [change for change in chosen if key(change) not in done]
    yield from (done[key(change)] for change in chosen if key(change) in done)
    with ProcessPoolExecutor(jobs) as pool:
        while todo:
            some, todo = todo[: 4 * jobs], todo[4 * jobs :]
            order = tuple(name for name, _ in kills.most_common())
            tasks = [(lab, change, order) for change in some]
            for change, (end, by, seconds) in zip(some, pool.map(_judged, tasks), strict=True):
                kills[by] += end == KILLED
                where = (change.file, change.line, change.kind, change.name)
                result = Result(key(change), *where, end, by, seconds)
                with file.open("a") as results:
                    results.write(result.as_json() + "\n")
                yield result


def main(words: list[str]) -> int:
    """The command `python -m labs mutants`, which checks its arguments."""
    parser = argparse.ArgumentParser(prog="python -m labs mutants")
    parser.add_argument("labs", nargs="*", help="such as 4; without any: all")
    parser.add_argument("--results", type=Path, default=Path("mutants-labs"), help="a folder")
    parser.add_argument("--sample", type=int, default=200, help="changes of each lab")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1, help="mutants at a time")
    parser.add_argument("--again", action="store_true", help="run survivors again")
    parser.add_argument("--only-score", action="store_true")
    options = parser.parse_args(words)
    os.chdir(ROOT)
    options.results.mkdir(parents=True, exist_ok=True)
    file, equal, rows, told = options.results / "results.jsonl", equal_mutants(EQUAL), [], []
    for lab in [find_lab(name).name for name in options.labs] or lab_names():
        found = changes(lab)
        chosen = sample(found, options.sample, options.seed)
        done = {
            k: r
            for k, r in read(file).items()
            if not (options.again and r.end == SURVIVED and (r.file, r.name) not in equal)
        }
        if options.only_score:
            results = [done[key(c)] for c in chosen if key(c) in done]
        else:
            results = []
            for number, result in enumerate(campaign(lab, chosen, done, file, options.jobs), 1):
                results.append(result)
                print(
                    f"{number}/{len(chosen)} {result.end} {result.name} ({result.by})", flush=True
                )
        made, left = score(lab, results, len(found), EQUAL)
        rows.append(made.row())
        told += [f"{r.file}:{r.line} {r.kind}: {r.name}" for r in left]
    print("\n".join([HEAD, *rows, "", "Survivors:", *(told or ["none"])]))
    return 0
