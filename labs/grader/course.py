"""A course in one file: which labs it has, what they count, and until when they can be handed in.

    secret: secret.txt            # class secret of hidden seeds; a path beside this file
    late: {percent_per_day: 10, days: 3, free: 2}
    labs:
      lab1_forwarding: {points: 10, deadline: 2026-11-30 23:59}
      lab2_aggregation: {points: 12, questions: 3, deadline: 2026-12-14 23:59}

The tests of a lab have 80 points, its questions 20. `points` and `questions` are what they count
for in the course; without `questions`, a quarter of the tests. Times are local. What is handed in
after the deadline loses `percent_per_day` for each day that has begun, and all points after `days`.
Each student has `free` late days for all labs together that cost nothing. Without `late`, lateness
is told and costs nothing. A submission was handed in when the newest of its files was last written.

Questions and free days need the list of the students (labs/classes).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, time
from pathlib import Path
from typing import Any

from p4fabric.base.errors import UserError

from labs.grader.lab import Lab, find_lab
from labs.grader.seeds import read_secret

DAY_S = 86400
QUESTION_POINTS = 20.0  # of a lab


@dataclass(frozen=True)
class Rules:
    """The settings of one lab. `points`: for all tests; None: as many as they have. `questions`:
    for all questions; None: in proportion to the tests."""

    points: float | None = None
    deadline: datetime | None = None
    questions: float | None = None


@dataclass(frozen=True)
class Course:
    """A course; without a file, one in which all is as the labs say."""

    labs: dict[str, Rules] = field(default_factory=dict)
    secret: bytes = b""
    percent_per_day: float = 0.0
    days: float = math.inf
    free_days: int = 0

    @property
    def for_a_class(self) -> str:
        """A setting that needs the list of the students; "": there is none."""
        if self.free_days:
            return "late: free"
        named = (name for name, rules in self.labs.items() if rules.questions is not None)
        return next((f"{name}: questions" for name in named), "")

    def includes(self, lab: Lab) -> bool:
        return not self.labs or lab.name in self.labs

    def most(self, lab: Lab) -> float:
        """Points of a lab whose tests are all passed."""
        rules = self.labs.get(lab.name, Rules())
        return lab.points if rules.points is None else rules.points

    def most_questions(self, lab: Lab) -> float:
        """Points of a lab whose questions are all answered well."""
        points = self.labs.get(lab.name, Rules()).questions
        in_proportion = self.most(lab) / lab.points * QUESTION_POINTS if lab.points else 0.0
        return in_proportion if points is None else points

    def deadline(self, lab: Lab) -> datetime | None:
        return self.labs.get(lab.name, Rules()).deadline

    def late_days(self, lab: Lab, folder: Path) -> int:
        """Days that have begun after the deadline; 0: in time."""
        return days_late(handed_in_at(lab, folder), self.deadline(lab))

    def points(self, lab: Lab, tests: float, late_days: int, questions: float = 0.0) -> float:
        """The points of a submission, from those of its tests and of its questions."""
        kept = 0.0 if late_days > self.days else 1 - self.percent_per_day / 100 * late_days
        share = tests / lab.points if lab.points else 0.0
        both = share * self.most(lab) + questions / QUESTION_POINTS * self.most_questions(lab)
        return round(both * max(0.0, kept), 2)


def handed_in_at(lab: Lab, folder: Path) -> float | None:
    """Time at which the newest file of a submission was written, in seconds since 1970; None: there
    is none of its files."""
    times = [p.stat().st_mtime for n in lab.hand_in if (p := folder / n).is_file()]
    return max(times, default=None)


def days_late(handed_in: float | None, deadline: datetime | None) -> int:
    """Days that have begun after the deadline; 0: in time."""
    if deadline is None or handed_in is None:
        return 0
    return max(0, math.ceil((handed_in - deadline.timestamp()) / DAY_S))


def read_course(path: Path) -> Course:
    """A course file. Raises UserError that names what is wrong in it."""
    import yaml  # a kit for students does not need it

    try:
        data = yaml.safe_load(path.read_text())
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: this is no YAML: {' '.join(str(error).split())}") from None
    _keys(path, "the file", data, {"secret", "late", "labs"})
    late = data.get("late", {})
    _keys(path, "late", late, {"percent_per_day", "days", "free"})
    labs = data.get("labs", {})
    if not isinstance(labs, dict):
        raise UserError(f"{path}: labs: here are keys of labs, such as lab2_aggregation")
    made: dict[str, Rules] = {}
    for name, row in labs.items():
        lab = find_lab(str(name)).name
        if lab in made:
            raise UserError(f"{path}: labs: {lab} is named twice, the second time as {name!r}")
        made[lab] = _rules(path, str(name), row)
    secret = b""
    if "secret" in data:
        secret = read_secret(path.parent / str(data["secret"]))
    return Course(
        made,
        secret,
        _number(path, "late: percent_per_day", late.get("percent_per_day", 0)),
        _number(path, "late: days", late.get("days", math.inf)),
        int(_number(path, "late: free", late.get("free", 0))),
    )


def _rules(path: Path, name: str, row: Any) -> Rules:
    _keys(path, name, row, {"points", "deadline", "questions"})
    points, questions = (
        None if row.get(key) is None else _number(path, f"{name}: {key}", row[key])
        for key in ("points", "questions")
    )
    return Rules(points, _time(path, f"{name}: deadline", row.get("deadline")), questions)


def _keys(path: Path, where: str, row: Any, known: set[str]) -> None:
    if not isinstance(row, Mapping):
        raise UserError(f"{path}: {where}: keys are expected here ({', '.join(sorted(known))})")
    for key in row:
        if key not in known:
            allowed = ", ".join(sorted(known))
            raise UserError(f"{path}: {where}: there is no key {key!r} (there are: {allowed})")


def _number(path: Path, where: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        raise UserError(f"{path}: {where}: {value!r} is no number from 0 on")
    return float(value)


def _time(path: Path, where: str, value: Any) -> datetime | None:
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            pass
    if value is None or isinstance(value, datetime):
        return value
    if isinstance(value, date):
        return datetime.combine(value, time(23, 59, 59))
    raise UserError(f"{path}: {where}: {value!r} is no time such as 2026-11-30 23:59")
