"""A grade as text for a terminal, and as Gradescope's results file.

The format of the file is Gradescope's for autograders: a score per test with its maximum, an output
that students see, and the whole time.
"""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.text import Text

from labs.grader.grade import Grade, Outcome

MARKS = {
    "pass": ("pass", "green"),
    "fail": ("FAIL", "bold red"),
    "not run": ("not run", "yellow"),
    "not judged": ("not judged", "yellow"),
}
WARNINGS = 10  # of the compiler that are shown
RUN_AGAIN = "Not judged, run again: this machine was too busy for some tests. No points are lost."


def show_outcome(console: Console, number: int, outcome: Outcome) -> None:
    """One line for a check, and why it has failed."""
    word, style = MARKS[outcome.status]
    line = Text(f"{word:<11}", style)
    line.append(f"{outcome.points:>4g} of {outcome.check.points:>2}  ", "default")
    line.append(
        f"{number}. {outcome.check.title}", "bold" if outcome.status == "fail" else "default"
    )
    line.append(f"  {outcome.seconds:.1f} s", "dim")
    if outcome.played:
        line.append(f"  ({outcome.played})", "dim")
    console.print(line, soft_wrap=True)
    for text in outcome_lines(outcome):
        console.print(Text(f"            {text}"), soft_wrap=True)


def outcome_lines(outcome: Outcome) -> list[str]:
    """Why a check has failed, what was printed, and the trace."""
    made = [*outcome.notes, *outcome.lines]
    if outcome.status == "fail" and outcome.printed.strip():
        made += ["your program printed:", *(f"    {x}" for x in outcome.printed.splitlines()[:20])]
    if outcome.trace:
        made += ["the packet's way through your program:", *(f"    {x}" for x in outcome.trace)]
    return [printable(line) for line in made]


def printable(text: str) -> str:
    """Text of a submission, for a terminal and for files: nothing in it can clear a screen, and all
    of it can be written as UTF-8."""
    return "".join(
        c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text
    )


def show_end(console: Console, grade: Grade) -> None:
    """Remarks on all checks, and the points."""
    for text in grade.warnings[:WARNINGS]:
        console.print(Text(printable(text), "yellow"), soft_wrap=True)
    if grade.problem:
        console.print(Text(printable(grade.problem), "red"), soft_wrap=True)
    if not grade.judged:
        console.print(Text(RUN_AGAIN, "bold yellow"), soft_wrap=True)
    line = f"{grade.points:g} of {grade.lab.points} points  ({grade.seconds:.1f} s)"
    console.print(Text(line, "bold"))


def gradescope(grade: Grade) -> dict[str, Any]:
    """The results file, as a dictionary. Without scores where some tests were not judged, so that
    Gradescope takes the run for one that did not succeed, and nobody loses points."""
    tests: list[dict[str, Any]] = []
    for number, outcome in enumerate(grade.outcomes, 1):
        text = "\n".join(outcome_lines(outcome))
        if outcome.status == "not run" and not text:
            text = printable(grade.problem) or "not run"
        if outcome.played:
            text = f"{outcome.played}\n{text}".strip()
        check, passed = outcome.check, outcome.status == "pass"
        tests.append(
            gradescope_test(number, check.title, outcome.points, check.points, passed, text)
        )
    head = ["" if grade.judged else RUN_AGAIN, grade.problem, *grade.warnings[:WARNINGS]]
    head = [printable(text) for text in head]
    made: dict[str, Any] = {
        "score": grade.points,
        "execution_time": round(grade.seconds, 3),
        "output_format": "text",
        "output": "\n".join(line for line in head if line),
        "tests": tests,
    }
    if not grade.judged:
        for each in (made, *tests):
            del each["score"]
    return made


def gradescope_test(
    number: int, name: str, score: float, most: float, passed: bool, output: str
) -> dict[str, Any]:
    """A test of the results file."""
    return {
        "number": str(number),
        "name": name,
        "score": score,
        "max_score": most,
        "status": "passed" if passed else "failed",
        "output_format": "text",
        "output": output,
        "visibility": "visible",
    }


def not_graded(text: str) -> dict[str, Any]:
    """The results file of a grading that could not be made."""
    return {"output_format": "text", "output": printable(f"Not graded: {text}"), "tests": []}
