"""`python -m labs class`: begin a class, mark it, and mark again."""

from __future__ import annotations

import argparse
import csv
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from p4fabric.base.errors import UserError
from rich.console import Console
from rich.table import Table
from rich.text import Text

from labs.classes.classroom import Class, new_class, read_class
from labs.classes.gradings import Grading, grade_all, labs_version, renewed
from labs.classes.handed_in import NOTHING, HandedIn
from labs.classes.marks import Mark, summary
from labs.grader.lab import Lab
from labs.grader.report import printable

COMPARED = ("time", "student", "lab", "test", "old", "new", "kept")
GONE = {  # actions of earlier versions, and what takes their place
    "similar": "lay the submissions out for JPlag (python -m labs jplag CLASS/submissions TARGET)",
    "export": "import CLASS/results/marks.csv, which has ids and e-mail addresses",
}


def add_parser(commands: argparse._SubParsersAction) -> None:
    """The arguments of `class`."""
    whole = commands.add_parser("class", help="a class with a roster: marks, feedback")
    actions = whole.add_subparsers(dest="action", required=True, metavar="ACTION")

    new = actions.add_parser("new", help="begin a class in a new folder")
    new.add_argument("folder", type=Path, help="a folder that does not exist yet")
    source = "students: a table exported by Canvas, Moodle or Gradescope"
    new.add_argument("--from", type=Path, metavar="FILE", dest="source", help=source)

    mark = actions.add_parser("mark", help="grade what is new, and write marks and feedback")
    again = actions.add_parser("again", help="grade again, and show old against new points")
    for each in (mark, again):
        each.add_argument("folder", type=Path, help="the class")
        _which(each, student=True)
        each.add_argument("--jobs", type=int, default=1, help="submissions at a time (default 1)")
    again.add_argument("--test", action="append", default=[], help="only this; can be repeated")
    again.add_argument("--compare", action="store_true", help="keep the old points")

    for name in GONE:
        gone = actions.add_parser(name, add_help=False)
        gone.add_argument("given", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)


def _which(parser: argparse.ArgumentParser, student: bool = False) -> None:
    if student:
        parser.add_argument("--student", action="append", default=[], help="only; can be repeated")
    parser.add_argument("--lab", action="append", default=[], help="only; can be repeated")


def run(arguments: argparse.Namespace, console: Console) -> int:
    """Carry out `class`; returns the exit code."""
    return ACTIONS[arguments.action](arguments, console)


def _say(console: Console, text: str) -> None:
    console.print(Text(printable(text)), soft_wrap=True)


def _new(arguments: argparse.Namespace, console: Console) -> int:
    found = new_class(arguments.folder, arguments.source)
    _say(console, f"{arguments.folder}: a class of {len(found)} students; edit course.yaml")
    return 0


def _mark(arguments: argparse.Namespace, console: Console) -> int:
    own = _read(arguments)
    todo = own.open(own.wanted(arguments.student, arguments.lab))
    _grade(own, todo, arguments.jobs, console)
    return _write(own, console)


def _grade(own: Class, todo: Sequence[HandedIn], jobs: int, console: Console) -> None:
    def done(each: HandedIn, grading: Grading) -> None:
        own.keep(each, grading)
        points = sum(test.points for test in grading.tests)
        told = f"{points:g} of {each.lab.points}" if grading.judged else "not judged"
        _say(console, f"{each.student.student:<24} {each.lab.name:<20} {told}")

    grade_all(todo, own.seed, jobs, (), done)


def _write(own: Class, console: Console) -> int:
    """Write marks and feedback, and tell of the class. Exit code 3: not all has been judged."""
    marks = own.marks()
    own.write(marks)
    columns = ("lab", "graded", "not handed in", "late", "no mark yet", "mean")
    _table(console, columns, summary(marks))
    for mark in marks:
        why = own.found[mark.student.student, mark.lab.name].why
        if why and (why != NOTHING or mark.points is not None):
            _say(console, f"{mark.student.student}, {mark.lab.name}: {'; '.join(mark.remarks)}")
    kept = [own.gradings[key].labs for key in own.found if key in own.gradings]
    others = [labs for labs in kept if labs != labs_version()]
    if others:
        _say(
            console,
            f"{len(others)} results are from other versions of the labs ({', '.join(set(others))});"
            f" this is {labs_version()}; to grade anew: python -m labs class again {own.folder}",
        )
    _say(console, f"{own.results / 'marks.csv'}, {own.results / 'feedback'}")
    return 3 if any(m.grading is not None and not m.grading.judged for m in marks) else 0


def _again(arguments: argparse.Namespace, console: Console) -> int:
    own = _read(arguments)
    tests = _tests(own, arguments)
    wanted = own.wanted(arguments.student, arguments.lab)
    todo = []
    for each in wanted:
        old = own.gradings.get((each.student.student, each.lab.name))
        if old is None or (tests and old.key != each.key):
            why = "not graded yet" if old is None else "changed since it was graded"
            raise UserError(
                f"{each.student.student}, {each.lab.name}: {why}: python -m labs class mark"
                f" {own.folder}"
            )
        todo.append(each)
    before = {(m.student.student, m.lab.name): m for m in own.marks()}
    rows: list[list[str]] = []

    def done(each: HandedIn, grading: Grading) -> None:
        key = each.student.student, each.lab.name
        old = own.gradings[key]
        new = renewed(old, grading) if tests else grading
        rows.extend(_differences(each, old, new))
        own.gradings[key] = new
        if not arguments.compare:
            own.keep(each, new)

    grade_all(todo, own.seed, arguments.jobs, tests, done)
    after = {(m.student.student, m.lab.name): m for m in own.marks()}
    for each in todo:
        key = each.student.student, each.lab.name
        if before[key].points != after[key].points:
            rows.append([*key, "mark", _points(before[key]), _points(after[key])])
    _table(console, COMPARED[1:-1], rows)
    _say(console, f"{len(todo)} graded again, {len(rows)} differences")
    now, kept = datetime.now().isoformat(" ", "seconds"), "old" if arguments.compare else "new"
    _log(own.results / "again.csv", [[now, *row, kept] for row in rows])
    if not arguments.compare:
        own.write(own.marks())
    return 3 if any(not own.gradings[e.student.student, e.lab.name].judged for e in todo) else 0


def _tests(own: Class, arguments: argparse.Namespace) -> list[str]:
    """Names of tests to run. Raises UserError for one that no chosen lab has."""
    labs: dict[str, Lab] = {
        each.lab.name: each.lab for each in own.wanted(arguments.student, arguments.lab)
    }
    if arguments.test and len(labs) != 1:
        raise UserError("--test: say which lab's test (--lab)")
    known = [check.name for lab in labs.values() for check in lab.checks]
    for name in arguments.test:
        if name not in known:
            raise UserError(f"--test {name}: there are {', '.join(known)}")
    return arguments.test


def _differences(each: HandedIn, old: Grading, new: Grading) -> list[list[str]]:
    """A row per test whose points or status differ."""
    known = {test.name: test for test in old.tests}
    rows = []
    for test in new.tests:
        was = known.get(test.name)
        before = "" if was is None else f"{was.points:g} ({was.status})"
        now = f"{test.points:g} ({test.status})"
        if before != now:
            rows.append([each.student.student, each.lab.name, test.name, before, now])
    return rows


def _points(mark: Mark) -> str:
    return "" if mark.points is None else f"{mark.points:g}"


def _log(path: Path, rows: Sequence[Sequence[str]]) -> None:
    """Append to a table."""
    new = not path.exists()
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerows([*([COMPARED] if new else []), *rows])


def _gone(arguments: argparse.Namespace, console: Console) -> int:
    raise UserError(f"class {arguments.action} is gone: {GONE[arguments.action]}")


def _read(arguments: argparse.Namespace) -> Class:
    if getattr(arguments, "jobs", 1) < 1:
        raise UserError(f"--jobs {arguments.jobs}: at least one submission at a time")
    return read_class(arguments.folder)


def _table(console: Console, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    if not rows:
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column)
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    console.print(table)


ACTIONS = {"new": _new, "mark": _mark, "again": _again, **dict.fromkeys(GONE, _gone)}
