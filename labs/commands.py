"""`python -m labs`: list the labs, grade a submission, mark many, pack the student's kit.

Exit codes: 0 full points (or done), 1 points lost, 2 a mistake of the user, 3 this machine was too
busy to judge: run again.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import json
import sys
from pathlib import Path
from typing import Any

from p4fabric.base.errors import RunError, UserError
from p4fabric.base.linux.whole_files import write_whole, writing
from rich.console import Console
from rich.table import Table
from rich.text import Text

from labs.classes import commands as classes
from labs.grader.course import Course, read_course
from labs.grader.grade import Outcome, grade
from labs.grader.isolated import FLAG
from labs.grader.lab import find_lab, lab_names
from labs.grader.league import league
from labs.grader.mark import (
    Mark,
    mark,
    not_marked,
    plain,
    submissions,
    write_gradescope,
    write_jplag,
)
from labs.grader.pack import export, move_solutions, start, version, warning
from labs.grader.pairs import pairs
from labs.grader.report import gradescope, not_graded, printable, show_end, show_outcome
from labs.grader.sandbox import trust_the_platform
from labs.grader.seeds import Seed, login, read_secret
from labs.grader.submission import find

WHOSE = "whose submission this is, as the teacher's list has it (default: your login name)"
PLAIN_WIDTH = 200  # columns where there is no terminal


def _add_seed(parser: argparse.ArgumentParser) -> None:
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--seed", type=int, default=0, help="for practice (default 0)")
    hidden = "grade with hidden numbers, made of this class secret and the student's name"
    which.add_argument("--secret", type=Path, metavar="FILE", help=hidden)


def _seed(arguments: argparse.Namespace, student: str) -> Seed:
    if arguments.secret is None:
        return Seed(arguments.seed, student)
    return Seed(student=student, secret=read_secret(arguments.secret))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m labs", description=__doc__.split("\n")[0])
    parser.add_argument("--version", action="version", version=version())
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser("list", help="the labs")

    one = commands.add_parser("grade", help="grade one submission")
    one.add_argument("lab", help="number or name of the lab")
    one.add_argument("path", type=Path, help="the submission: a folder, or its only file")
    results = "write Gradescope's results ('-': print them instead of the text)"
    one.add_argument("--json", type=Path, metavar="FILE", help=results)
    _add_seed(one)
    one.add_argument("--student", metavar="NAME", help=WHOSE)
    wires = "play the tests on a Mininet network (needs root), where they have a switch"
    one.add_argument("--network", action="store_true", help=wires)
    one.add_argument("--trace", action="store_true", help="follow the first packet that differs")
    said = "make no sandbox: a platform has isolated this container for one submission"
    one.add_argument(FLAG, action="store_true", help=f"{said} (labs/TEACHERS.md)")

    begin = commands.add_parser("start", help="begin a lab in a folder of your own")
    begin.add_argument("lab", help="number or name of the lab")
    begin.add_argument("folder", type=Path, help="a folder that does not exist yet")
    begin.add_argument("--student", metavar="NAME", help=WHOSE)

    many = commands.add_parser("mark", help="grade a folder of submissions")
    many.add_argument("folder", type=Path, help="a folder per student, in it one per lab")
    many.add_argument("--lab", help="only this lab, whose files lie in the student's folder")
    many.add_argument(
        "--csv", type=Path, metavar="FILE", help="where to write ('-' or none: print)"
    )
    many.add_argument(
        "--json", type=Path, metavar="FILE", help="write the same as JSON, with tests"
    )
    per = "write Gradescope's results of each submission, STUDENT/LAB.json"
    many.add_argument("--gradescope", type=Path, metavar="FOLDER", help=per)
    rules = "points, deadlines and class secret (labs/TEACHERS.md)"
    many.add_argument("--course", type=Path, metavar="FILE", help=rules)
    _add_seed(many)
    many.add_argument("--jobs", type=int, default=1, help="submissions at a time (default 1)")

    classes.add_parser(commands)

    ranks = commands.add_parser("league", help="a table of submissions by score")
    ranks.add_argument("folder", type=Path, help="a folder per student, in it one per lab")
    ranks.add_argument("--lab", default="12", help="number or name of the lab (default 12)")
    _add_seed(ranks)
    ranks.add_argument("--jobs", type=int, default=1, help="submissions at a time (default 1)")

    meet = commands.add_parser("pairs", help="let parts of submissions meet those of others")
    meet.add_argument("folder", type=Path, help="a folder per student, in it one per lab")
    meet.add_argument("--lab", default="14", help="number or name of the lab (default 14)")
    others = "with how many others each meets (default 2; 0: with all)"
    meet.add_argument("--partners", type=int, default=2, help=others)
    meet.add_argument("--csv", type=Path, metavar="FILE", help="write the table to a file")
    _add_seed(meet)
    meet.add_argument("--jobs", type=int, default=1, help="submissions at a time (default 1)")

    similar = commands.add_parser("jplag", help="lay out submissions for JPlag")
    similar.add_argument("folder", type=Path, help="a folder per student, in it one per lab")
    similar.add_argument("target", type=Path, help="a folder that does not exist yet")
    similar.add_argument("--lab", help="only this lab, whose files lie in the student's folder")

    text = "change our solution in one place at a time, and list what costs no points"
    changed = commands.add_parser("mutants", help=f"{text} (needs the checkout)")
    changed.add_argument("lab", help="number or name of the lab")
    kept = "where the outcomes are; a campaign with the same folder goes on (default mutants-labs)"
    changed.add_argument("--results", default="mutants-labs", metavar="FOLDER", help=kept)
    changed.add_argument("--sample", type=int, default=1000, help="changes (default: all)")
    changed.add_argument("--seed", type=int, default=1, help="draws the sample (default 1)")
    changed.add_argument("--jobs", type=int, default=1, help="changes at a time (default 1)")
    changed.add_argument("--again", action="store_true", help="grade what cost no points again")

    outside = commands.add_parser("solutions", help="move the solutions out of the checkout")
    outside.add_argument("folder", type=Path, help="a folder that does not exist yet")

    kit = commands.add_parser("export", help="pack what students get, without solutions")
    kit.add_argument("folder", type=Path, help="a folder that does not exist yet")
    kit.add_argument("--lab", action="append", default=[], help="only this lab; can be repeated")
    whole = "for an autograder: with solutions and the teacher's part of the tests"
    kit.add_argument("--with-teacher", action="store_true", help=whole)
    runs = "with the whole testbed, for labs that run experiments"
    kit.add_argument("--with-testbed", action="store_true", help=runs)
    return parser


def _list(_: argparse.Namespace, console: Console) -> int:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("lab", "title", "hand in", "tests", "points"):
        table.add_column(name)
    for name in lab_names():
        lab = find_lab(name)
        files = ", ".join(lab.hand_in)
        table.add_row(name, lab.title, files, str(len(lab.checks)), str(lab.points))
    console.print(table)
    return 0


def _grade(arguments: argparse.Namespace, console: Console) -> int:
    quiet = arguments.json is not None and str(arguments.json) == "-"
    if arguments.json is not None and arguments.json.is_dir():
        raise UserError(f"--json {arguments.json}: this is a folder; name a file")
    if arguments.json is not None and not arguments.json.parent.is_dir():
        raise UserError(f"--json {arguments.json}: there is no folder {arguments.json.parent}")
    count = 0

    def progress(outcome: Outcome) -> None:
        nonlocal count
        count += 1
        if not quiet and (outcome.status != "not run" or outcome.lines):
            show_outcome(console, count, outcome)

    def write(results: dict[str, Any]) -> None:
        text = json.dumps(results, indent=2) + "\n"
        if quiet:
            sys.stdout.write(text)
        elif arguments.json is not None:
            with writing(arguments.json):
                write_whole(arguments.json, text)

    try:
        lab = find_lab(arguments.lab)
        folder = find(lab, arguments.path)
        if arguments.secret is not None and arguments.student is None:
            raise UserError("--secret: name the student, too (--student NAME)")
        seed = _seed(arguments, arguments.student or login())
        if arguments.already_isolated:
            if arguments.network:
                raise UserError(f"{FLAG} and --network: the network is built of namespaces")
            own = [Path(__file__).parent]
            trust_the_platform(own if arguments.secret is None else [*own, arguments.secret])
        made = grade(lab, folder, seed, arguments.trace, progress, network=arguments.network)
    except (UserError, RunError) as error:
        write(not_graded(str(error)))
        raise
    write(gradescope(made))
    if not quiet:
        show_end(console, made)
    return 3 if not made.judged else 0 if made.points == lab.points else 1


def _start(arguments: argparse.Namespace, console: Console) -> int:
    lab = find_lab(arguments.lab)
    with writing(arguments.folder):
        start(lab, arguments.folder, arguments.student or login())
    files = ", ".join(lab.hand_in)
    console.print(f"{arguments.folder}: edit {files}; the hand-out is {lab.folder / 'README.md'}")
    return 0


def _mark(arguments: argparse.Namespace, console: Console) -> int:
    if arguments.jobs < 1:
        raise UserError(f"--jobs {arguments.jobs}: at least one submission at a time")
    lab = find_lab(arguments.lab) if arguments.lab else None
    course = read_course(arguments.course) if arguments.course else Course()
    if course.for_a_class:
        raise UserError(
            f"{arguments.course}: {course.for_a_class}: this needs the list of the students; make a"
            " class (python -m labs class new), or leave it out"
        )
    found = submissions(arguments.folder, lab)
    unknown = {each[1].name for each in found if not course.includes(each[1])}
    if unknown:
        raise UserError(
            f"{arguments.course}: labs: it does not name {', '.join(sorted(unknown))}, which"
            " students have handed in; add what you want to mark, or mark one lab with --lab"
        )
    others = not_marked(arguments.folder, lab)
    seed = _seed(arguments, "")
    if course.secret:
        if arguments.secret is not None:
            raise UserError(f"--secret: {arguments.course} names a secret, too")
        seed = Seed(secret=course.secret)
    for path in (arguments.gradescope, arguments.json):
        if path is not None and path.exists() and (path == arguments.gradescope or path.is_dir()):
            raise UserError(f"{path} exists already; name one that does not")
    if seed.hidden and warning():
        Console(stderr=True, highlight=False).print(Text(f"warning: {warning()}", "yellow"))
    for student, why in others:
        text = f"warning: {printable(student)}: {why}; not marked"
        Console(stderr=True, highlight=False).print(Text(text, "yellow"), soft_wrap=True)
    printed = arguments.csv is None or str(arguments.csv) == "-"

    def told(made: Mark) -> None:
        points = "not judged" if made.points is None else f"{made.points:>6g} points"
        console.print(Text(f"{printable(made.student):<24} {made.lab.name:<18} {points}"))

    if printed:
        marks = mark(found, seed, arguments.jobs, sys.stdout, course=course, others=others)
    else:
        with writing(arguments.csv), arguments.csv.open("w", newline="") as file:
            marks = mark(found, seed, arguments.jobs, file, told, course, others)
        console.print(Text(f"{len(found)} submissions marked: {arguments.csv}"))
    if arguments.json is not None:
        with writing(arguments.json):
            text = json.dumps([each.as_dict() for each in marks], indent=2)
            write_whole(arguments.json, text + "\n")
    if arguments.gradescope is not None:
        with writing(arguments.gradescope):
            write_gradescope(marks, arguments.gradescope)
    return 0 if all(each.points is not None for each in marks) else 3


def _league(arguments: argparse.Namespace, console: Console) -> int:
    if arguments.jobs < 1:
        raise UserError(f"--jobs {arguments.jobs}: at least one submission at a time")
    lab = find_lab(arguments.lab)
    found = [each for each in submissions(arguments.folder, None) if each[1].name == lab.name]
    if not found:
        raise UserError(f"{arguments.folder}: nobody has handed in {lab.name}")
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("rank", justify="right")
    table.add_column("student")
    table.add_column("score", justify="right")
    table.add_column("")
    for row in league(found, _seed(arguments, ""), arguments.jobs):
        score = "" if row.score is None else f"{row.score:.3f}"
        rank = "" if row.rank is None else str(row.rank)
        table.add_row(rank, Text(printable(row.student)), score, Text(printable(row.why[:120])))
    console.print(table)
    return 0


def _pairs(arguments: argparse.Namespace, console: Console) -> int:
    for name, least in (("jobs", 1), ("partners", 0)):
        if getattr(arguments, name) < least:
            raise UserError(f"--{name} {getattr(arguments, name)}: at least {least}")
    lab = find_lab(arguments.lab)
    found = [each for each in submissions(arguments.folder, None) if each[1].name == lab.name]
    if len(found) < 2:
        raise UserError(f"{arguments.folder}: fewer than two students have handed in {lab.name}")
    made = pairs(found, _seed(arguments, ""), arguments.jobs, arguments.partners)
    head = [*(f"{side} of" for side in lab.sides), "result", "why"]
    if arguments.csv is not None:
        with writing(arguments.csv), arguments.csv.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(head)
            for row in made:
                writer.writerow(
                    [plain(row.first), plain(row.second), row.result, printable(row.why)]
                )
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in head:
        table.add_column(name)
    for row in made:
        cells = (row.first, row.second, row.result, row.why[:160])
        table.add_row(*(Text(printable(cell)) for cell in cells))
    console.print(table)
    return 3 if any(row.result == "not judged" for row in made) else 0


def _jplag(arguments: argparse.Namespace, console: Console) -> int:
    if arguments.target.exists():
        raise UserError(f"{arguments.target} exists already; name a folder that does not")
    lab = find_lab(arguments.lab) if arguments.lab else None
    with writing(arguments.target):
        write_jplag(submissions(arguments.folder, lab), arguments.target)
    for folder in sorted(arguments.target.iterdir()):
        words = f"--base-code {folder / 'base'} {folder / 'submissions'}"
        console.print(Text(f"java -jar jplag.jar {words}"), soft_wrap=True)
    return 0


def _mutants(arguments: argparse.Namespace, console: Console) -> int:
    for name in ("sample", "jobs"):
        if getattr(arguments, name) < 1:
            raise UserError(f"--{name} {getattr(arguments, name)}: at least 1")
    lab = find_lab(arguments.lab)
    try:
        campaign = importlib.import_module("labs.tests.support.mutants")
    except ImportError:
        raise UserError(
            "mutants: this needs our solutions and the tests beside the labs, which are in a"
            " checkout of the testbed and not in a kit; run it there"
        ) from None
    words = [lab.name, *(["--again"] if arguments.again else [])]
    for name in ("results", "sample", "seed", "jobs"):
        words += [f"--{name}", str(getattr(arguments, name))]
    return int(campaign.main(words))


def _solutions(arguments: argparse.Namespace, console: Console) -> int:
    with writing(arguments.folder):
        move_solutions(arguments.folder)
    console.print(
        Text(
            f"{arguments.folder}: the solutions. Commit that labs/_teacher is gone (the"
            " repository's history still has it). For the labs' tests, link it back:"
            f" ln -s {(arguments.folder / '_teacher').resolve()} labs/_teacher"
        ),
        soft_wrap=True,
    )
    return 0


def _export(arguments: argparse.Namespace, console: Console) -> int:
    names = [find_lab(name).name for name in arguments.lab]
    with writing(arguments.folder):
        export(arguments.folder, names, arguments.with_teacher, arguments.with_testbed)
    what = "for an autograder alone" if arguments.with_teacher else "ready to be handed out"
    console.print(Text(f"{arguments.folder}: {version()}, {what}"))
    if warning():
        Console(stderr=True, highlight=False).print(Text(f"warning: {warning()}", "yellow"))
    return 0


COMMANDS = {
    "list": _list,
    "start": _start,
    "grade": _grade,
    "mark": _mark,
    "class": classes.run,
    "league": _league,
    "pairs": _pairs,
    "jplag": _jplag,
    "mutants": _mutants,
    "solutions": _solutions,
    "export": _export,
}


def main(words: list[str] | None = None) -> int:
    """Carry out a command; returns the exit code."""
    arguments = _parser().parse_args(words)
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=PLAIN_WIDTH)
    try:
        return COMMANDS[arguments.command](arguments, console)
    except (UserError, RunError) as error:
        tail = getattr(error, "log_tail", "")
        text = f"error: {error}\n{tail}".strip()
        Console(stderr=True, highlight=False).print(Text(text), soft_wrap=True)
        return 2
    except KeyboardInterrupt:
        return 130
