"""Marks for Gradescope: a roster, and for each lab an autograder that hands out the marks.

Gradescope takes marks of a programming assignment from an autograder alone: a ZIP file with
`setup.sh` and `run_autograder`, which reads `submission_metadata.json` with the e-mail addresses of
the submission's users, and writes `results/results.json`. Ours has the results of the class with it
and copies those of the user. Nothing of a student's runs in it. To upload it and to choose "Regrade
all submissions" gives everybody the mark, with tests and feedback.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from testbed.errors import UserError
from testbed.labs.classes.feedback import in_a_line
from testbed.labs.classes.marks import Mark
from testbed.labs.classes.sheets import GRADESCOPE
from testbed.labs.classes.tables import write_table
from testbed.labs.grader.course import QUESTION_POINTS
from testbed.labs.grader.report import gradescope_test

SETUP = "#!/bin/sh\ncommand -v python3 || { apt-get update && apt-get install -y python3; }\n"
RUN = '''\
#!/usr/bin/env python3
"""Hand out the mark of the submission's user; the argument is for tests."""
import json
import pathlib
import sys

root = pathlib.Path(sys.argv[1] if sys.argv[1:] else "/autograder")
marks = json.loads((root / "source" / "marks.json").read_text())
users = json.loads((root / "submission_metadata.json").read_text())["users"]
emails = [user["email"].casefold() for user in users]
found = [marks[email] for email in emails if email in marks]
none = {"output": "There is no mark yet for " + ", ".join(emails), "tests": []}
(root / "results").mkdir(exist_ok=True)
(root / "results" / "results.json").write_text(json.dumps(found[0] if found else none))
'''
EXECUTABLE = 0o755 << 16


def write_gradescope(folder: Path, marks: Sequence[Mark]) -> None:
    """roster.csv and LAB.zip of each lab in the new folder `folder`. Raises UserError for students
    without an e-mail address, by which Gradescope knows them."""
    students = {mark.student.student: mark.student for mark in marks}
    for student in students.values():
        if not student.email:
            raise UserError(f"{student.where}: email: Gradescope knows students by this address")
    rows = [[*s.names, s.email, s.id] for s in students.values()]
    write_table(folder / "roster.csv", [*GRADESCOPE.names[0], "Email", "SID"], rows)
    labs: dict[str, dict[str, Any]] = {}
    for mark in marks:
        if mark.points is not None:
            labs.setdefault(mark.lab.name, {})[mark.student.email.casefold()] = results(mark)
    for lab, results_of in labs.items():
        with zipfile.ZipFile(folder / f"{lab}.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            for name, text in (("setup.sh", SETUP), ("run_autograder", RUN)):
                info = zipfile.ZipInfo(name)
                info.external_attr = EXECUTABLE
                archive.writestr(info, text)
            archive.writestr("marks.json", json.dumps(results_of, indent=1))


def results(mark: Mark) -> dict[str, Any]:
    """Gradescope's results file of a mark, in points of the course: late days, questions and points
    given by hand are in the score, so it can differ from the sum of the tests."""
    tests = [
        gradescope_test(
            number, test.title, test.points, test.of, test.points == test.of, "\n".join(test.output)
        )
        for number, test in enumerate(mark.outcomes, 1)
    ]
    if mark.answers is not None:
        a, number = mark.answers, len(tests) + 1
        passed = a.total == QUESTION_POINTS
        tests.append(
            gradescope_test(number, "Questions", a.total, QUESTION_POINTS, passed, a.comment)
        )
    assert mark.points is not None
    return {
        "score": mark.points,
        "output_format": "text",
        "output": f"{mark.points:g} of {mark.of:g} points. {in_a_line(mark)}",
        "tests": tests,
    }
