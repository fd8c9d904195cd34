"""Checks of lab 10: tests that right programs pass and wrong ones do not.

Each test of the submission runs on a fresh switch. A program is found if a test fails on it. In a
kit for students there is one wrong program for each topic.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from labs.grader.bench import Bench, Failure
from labs.grader.lab import Lab
from labs.lab10_tests.programs import (
    AGAIN,
    PACKETS,
    PRACTICE,
    ROUNDS,
    VALUES,
    WORKERS,
    Edits,
    text,
)

LAB = Lab(
    title="Tests for a switch",
    hand_in=("tests.stf",),
    given=("agree.p4",),
    switch=True,
    judged=True,
)
FILE, MARK = "tests.stf", re.compile(r"#:\s*(.*)")
MOST, LEAST = 20, 2  # tests
LONGEST = 200  # lines of a test
NAME = 60  # characters
# Statements about what is inside of a program.
NOT_ALLOWED = ("register_", "counter_", "check_counter", "meter_", "mirroring_")


@dataclass(frozen=True)
class Test:
    """A test of the submission. Its lines keep their numbers in the file."""

    name: str
    stf: str


def tests(t: Bench) -> list[Test]:
    """The tests of the submission. Raises Failure for a file that is none."""
    made: list[Test] = []
    lines = t.read(FILE).splitlines()
    marks = [(n, found[1].strip()) for n, line in enumerate(lines) if (found := MARK.match(line))]
    ends = [*(n for n, _ in marks[1:]), len(lines)]
    for (begin, name), end in zip(marks, ends, strict=False):
        if end - begin > LONGEST:
            raise Failure(f"{FILE}, line {begin + 1}: a test has at most {LONGEST} lines")
        for n, line in enumerate(lines[begin:end], begin + 1):
            word = line.split()[:1]
            if word and word[0].startswith(NOT_ALLOWED):
                told = f"{word[0]} is not for these tests"
                raise Failure(f"{FILE}, line {n}: {told}", case=told)
        made.append(Test(name[:NAME], "\n" * begin + "\n".join(lines[begin:end])))
    if not LEAST <= len(made) <= MOST:
        text = f"{FILE} has {len(made)} tests; there should be {LEAST} to {MOST}"
        raise Failure(f'{text}. A line "#: NAME" begins a test.', case=text)
    return made


def first_failure(t: Bench, edits: Edits) -> tuple[Test, str] | None:
    """The first test that a program does not pass, and why; None: it passes all."""
    key = t.own_program("agree.p4", text(edits))
    for test in tests(t):
        why = t.stf(key, test.stf)
        if why:
            return test, why
    return None


def accepted(t: Bench) -> None:
    """Right programs pass all tests. Raises Failure."""
    judge = LAB.judge()
    right: list[Edits] = [()] if judge is None else judge.RIGHT
    for edits in right:
        t.case = "a right program" if edits else "agree.p4"
        found = first_failure(t, edits)
        if found:
            test, why = found
            case = f"your test {test.name!r} fails"
            told = "agree.p4" if not edits else "a program that is right, too"
            details = why.splitlines() if not edits else []
            raise Failure(f"{case} on {told}", details=details, case=case)


@LAB.check(15, "Right programs pass all tests, which expect packets and their absence")
def right(t: Bench) -> None:
    accepted(t)
    written = "\n".join(test.stf for test in tests(t))
    for word in ("expect", "no_packet"):
        if not re.search(rf"^\s*{word}\b", written, re.MULTILINE):
            raise Failure(f"no test has the statement {word}", case="a statement is missing")


def finds(topic: str) -> Callable[[Bench], None]:
    """The check that all wrong programs of a topic are found."""

    def check(t: Bench) -> None:
        accepted(t)
        t.case = topic
        judge = LAB.judge()
        wrong = [each for each in judge.HIDDEN if each.topic == topic] if judge else []
        wrong += [each for each in PRACTICE if each.topic == topic]
        missed = [each for each in wrong if first_failure(t, each.edits) is None]
        t.note(f"{len(wrong) - len(missed)} of {len(wrong)} wrong programs found")
        t.share = 1 - len(missed) / len(wrong)
        if missed:
            told = missed[0].why if missed[0] in PRACTICE else "one that you do not have"
            case = f"{len(missed)} of {len(wrong)} wrong programs pass all tests"
            raise Failure(f"{case}: {told}", case=case)

    return check


for _name, _topic in (
    ("values", VALUES),
    ("rounds", ROUNDS),
    ("workers", WORKERS),
    ("again", AGAIN),
    ("packets", PACKETS),
):
    _check = finds(_topic)
    _check.__name__ = _name
    LAB.check(13, f"Wrong programs are found: {_topic}")(_check)
