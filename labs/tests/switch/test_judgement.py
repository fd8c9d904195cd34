"""The grader judges what comes: faults in judging are the submission's, a busy machine is not."""

from __future__ import annotations

import csv
import io
import json
import struct
from dataclasses import replace

import pytest

from labs._teacher import solution
from labs._teacher.rehearse import (
    MOST,
    OTHER,
    differences,
    load,
    marked,
    write_class,
)
from labs.commands import main
from labs.grader import box
from labs.grader import mark as marking
from labs.grader.box import Box, BoxDied, NotJudged, remove, scratch_folder
from labs.grader.grade import Grade, Outcome, grade
from labs.grader.lab import find_lab, lab_names
from labs.grader.mark import Mark, mark, submissions
from labs.grader.seeds import Seed
from labs.tests.support.hostile_submission import NO_SANDBOX
from labs.tests.support.rehearsal import changed_solutions

pytestmark = NO_SANDBOX
QUANTISE = (solution("lab7_numbers") / "quantise.py").read_text()


@pytest.fixture
def python():
    """Makes boxes with a student's module."""
    made = []

    def start(text: str) -> Box:
        scratch = scratch_folder()
        (scratch / "source").mkdir()
        (scratch / "source" / "mine.py").write_text(text)
        each = Box("python", scratch, 20)
        made.append((each, scratch))
        each.call("module_load", "mine.py")
        return each

    yield start
    for each, scratch in made:
        each.close()
        remove(scratch)


def _told(made: Grade) -> str:
    return "\n".join([made.problem, *(line for o in made.outcomes for line in o.lines)])


# ---- faults ----


@pytest.mark.parametrize("kept", ["", "packet.emit(hdr.ethernet);"])
def test_packets_shorter_than_their_headers_are_told_and_cost_points(kept, tmp_path):
    text = (solution("lab2_aggregation") / "aggregation.p4").read_text()
    old = "        packet.emit(hdr.ethernet);\n        packet.emit(hdr.sum);\n"
    assert text.count(old) == 1
    (tmp_path / "aggregation.p4").write_text(text.replace(old, kept))
    made = grade(find_lab("2"), tmp_path)
    assert 0 < made.points < 40 and made.judged, _told(made)
    assert "struct" not in _told(made)


def test_a_fault_in_a_check_is_the_submissions_and_the_others_go_on(monkeypatch):
    lab = find_lab("7")

    def fault(t):
        raise struct.error("unpack requires a buffer of 8 bytes")

    first, *others = lab.checks[:3]
    monkeypatch.setattr(lab, "checks", [replace(first, run=fault), *others])
    made = grade(lab, solution("lab7_numbers"))
    assert made.points == lab.points - first.points
    assert "the test cannot use what your program" in made.outcomes[0].lines[0]
    assert "buffer of 8 bytes" in made.outcomes[0].lines[0]


def test_a_batch_survives_a_fault_of_the_grader(monkeypatch, tmp_path):
    for student in ("ada", "eve"):
        (tmp_path / student / "lab7_numbers").mkdir(parents=True)
        (tmp_path / student / "lab7_numbers" / "quantise.py").write_text("x = 1")

    def graded(lab, folder, *more):
        if "ada" in str(folder):
            raise struct.error("short")
        return Grade(lab, [])

    monkeypatch.setattr(marking, "grade", graded)
    output = io.StringIO()
    mark(submissions(tmp_path, None), Seed(), 1, output)
    rows = list(csv.DictReader(io.StringIO(output.getvalue())))
    assert [(r["student"], r["points"]) for r in rows] == [("ada", ""), ("eve", "0")]
    assert rows[0]["problem"].startswith("not judged, run again")


@pytest.mark.parametrize("path, code", [("nowhere", 2), ("empty", 1)])
def test_results_are_written_whatever_happens(path, code, tmp_path):
    (tmp_path / "empty").mkdir()
    results = tmp_path / "results.json"
    assert main(["grade", "7", str(tmp_path / path), "--json", str(results)]) == code
    made = json.loads(results.read_text())
    assert made["output"]
    assert ("score" in made) == (code == 1)


@pytest.mark.slow
def test_what_was_printed_is_kept_without_a_line_end_and_when_the_program_is_stopped(tmp_path):
    text = (
        QUANTISE
        + "\n\ndef quantise(values, scale):\n    print('so far', end='')\n    while True: pass\n"
    )
    (tmp_path / "quantise.py").write_text(text)
    lab = find_lab("7")
    made = grade(lab, tmp_path)
    assert "so far" in made.outcomes[0].printed
    assert "stopped after 5 s of computing" in made.outcomes[0].lines[0]


def test_what_a_box_has_printed_is_there_after_each_end(python):
    each = python(
        "import os\n"
        "def say(): print('one', end='')\n"
        "def leave(): print('two', end=''); os._exit(1)\n"
    )
    each.call("function", "say", [])
    with pytest.raises(BoxDied):
        each.call("function", "leave", [])
    assert each.printed == b"onetwo"


# ---- time ----


def test_the_clocks_of_a_submission_are_its_processor_time(python):
    each = python(
        "import time\n"
        "def spend(sleep):\n"
        "    begin = [time.monotonic(), time.perf_counter(), time.time(), time.process_time()]\n"
        "    time.sleep(sleep)\n"
        "    while time.process_time() < begin[3] + 0.05: pass\n"
        "    end = [time.monotonic(), time.perf_counter(), time.time(), time.process_time()]\n"
        "    return [b - a for a, b in zip(begin, end)]\n"
    )
    for sleep in (0, 1000):
        *clocks, computing = each.call("function", "spend", [sleep])
        for clock in clocks:
            assert abs(clock - sleep - computing) < 0.01


def test_a_submissions_coins_fall_the_same_way_each_time(python):
    """Also those that nobody can predict elsewhere, and the order of sets."""
    text = (
        "import os, random, secrets, uuid\n"
        "import numpy\n"
        "def toss():\n"
        "    own = [random.random(), random.SystemRandom().random(), secrets.randbits(40)]\n"
        "    own += [numpy.random.random(), numpy.random.default_rng().random()]\n"
        "    own += [os.urandom(4).hex(), os.getrandom(4).hex(), str(uuid.uuid4())]\n"
        "    return own + ['-'.join({str(n) for n in range(20)})]\n"
    )
    one, other = (python(text).call("function", "toss", []) for _ in range(2))
    assert one == other and len(set(map(str, one))) == len(one)


def test_only_processor_time_counts(python):
    each = python("def loop():\n    while True: pass\n")
    with pytest.raises(BoxDied, match=r"stopped after 0\.2 s of computing"):
        each.call("function", "loop", [], limit_s=0.2)


def test_a_busy_machine_is_not_the_submissions_fault(python, monkeypatch):
    each = python("def loop():\n    while True: pass\n")
    monkeypatch.setattr(box, "CLOCK", 0.0)  # as if it had got no processor for long
    with pytest.raises(NotJudged, match="run again"):
        each.call("function", "loop", [], limit_s=2)
    assert not each.alive


def test_a_submission_that_waits_is_late_by_its_own_fault(python):
    lock = python(
        "import _thread\ndef wait():\n    a = _thread.allocate_lock(); a.acquire(); a.acquire()\n"
    )
    with pytest.raises(BoxDied, match="it waits, and does not compute"):
        lock.call("function", "wait", [], limit_s=0.1)


def test_what_was_not_judged_loses_no_points(monkeypatch, tmp_path, capsys):
    lab = find_lab("7")

    def busy(t):
        raise NotJudged("not judged, run again: this machine was too busy")

    first, second = lab.checks[:2]
    monkeypatch.setattr(lab, "checks", [replace(first, run=busy), second])
    results = tmp_path / "results.json"
    folder = str(solution("lab7_numbers"))
    assert main(["grade", "7", folder, "--json", str(results)]) == 3
    assert "No points are lost" in capsys.readouterr().out
    made = json.loads(results.read_text())
    assert "score" not in made and not any("score" in test for test in made["tests"])
    (tmp_path / "ada").mkdir()
    (tmp_path / "ada" / "quantise.py").write_text(QUANTISE)
    output = io.StringIO()
    mark([("ada", lab, tmp_path / "ada")], Seed(), 1, output)
    (row,) = csv.DictReader(io.StringIO(output.getvalue()))
    assert row["points"] == "" and "run again" in row["problem"]


def test_a_class_has_the_same_marks_on_a_busy_machine(monkeypatch, tmp_path):
    """A full one: TEACHERS.md."""
    lab = find_lab("9")
    wanted = [check for check in lab.checks if check.name in ("rates",)]
    monkeypatch.setattr(lab, "checks", wanted)
    write_class(tmp_path, 2, [lab.name])
    idle = marked(tmp_path)
    with load(3):
        busy = marked(tmp_path)
    assert len(idle) == 2 and all(made.grade.judged for made in (*idle, *busy))
    assert differences(idle, busy) == []


# Labs whose gradings take long are marked by the command alone.
FAST = [n for n in lab_names() if n not in ("lab9_routing", "lab12_scheduler", "lab13_measuring")]


@pytest.mark.parametrize(
    "students, labs",
    [(2, ["lab2_aggregation"]), pytest.param(8, FAST, marks=pytest.mark.slow)],
)
def test_a_class_marked_twice_has_the_same_marks_and_nearly_with_other_numbers(
    students, labs, tmp_path
):
    write_class(tmp_path, students, labs, more=changed_solutions)
    one, again, other = marked(tmp_path), marked(tmp_path), marked(tmp_path, secret=OTHER)
    assert differences(one, again) == []
    assert differences(one, other, MOST) == []


def test_marks_that_differ_are_told():
    lab = find_lab("7")
    good, bad = Outcome(lab.checks[0], "pass"), Outcome(lab.checks[0], "fail")
    one, other = (Mark("ada", lab, p, 80, 0, Grade(lab, [o])) for p, o in ((10, good), (0, bad)))
    assert differences([one], [one]) == [] == differences([one], [one], 2)
    near = Mark("ada", lab, 8.5, 80, 0, Grade(lab, [bad]))
    assert differences([one], [near], 2) == [] and len(differences([one], [near], 1)) == 1
    assert differences([one], [other]) == [
        "ada, lab7_numbers: 10 and 0 points (rounding pass/fail)"
    ]
