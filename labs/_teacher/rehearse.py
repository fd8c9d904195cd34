"""Mark the same class twice, on the machine as it is and with busy programs beside, and once more
with another class secret, and compare.

    python -m labs._teacher.rehearse --students 30 --load 40

The class has solutions, skeletons, typical mistakes and cheats, one submission per student
(labs/tests/support/rehearsal.py adds solutions with a change somewhere). Marks
depend on processor time and hidden seeds alone, so both times they have to be equal. With another
secret, and so with other numbers, they may differ by MOST points. Exit code 0: all is so; 1: it is
not; 3: something was not judged.
"""

from __future__ import annotations

import argparse
import io
import itertools
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from labs._teacher import mistakes, solution, write_mistake
from labs._teacher.cheats import CHEATS
from labs.grader.lab import find_lab, lab_names
from labs.grader.mark import Mark, mark, submissions
from labs.grader.seeds import Seed

SECRET, OTHER = b"a class that only rehearses", b"the same class with other numbers"
OURS = "solution"  # the student of our solutions
MOST = 2.0  # points that may depend on the numbers drawn
LOOP = "import os\nwhile os.getppid() == {}:\n    sum(range(1000000))"


Submission = tuple[str, Callable[[Path], object]]
"""The lab's name, and a function that writes the submission to a new folder."""


@contextmanager
def load(count: int, nice: int = 0) -> Iterator[None]:
    """So many busy programs beside, which end with the block, or with this process."""
    with ExitStack() as stack:
        for _ in range(count):
            loop = [sys.executable, "-c", LOOP.format(os.getpid())]
            process = subprocess.Popen(loop, preexec_fn=partial(os.nice, nice))
            stack.callback(process.wait)
            stack.callback(process.kill)
        yield


def write_class(
    folder: Path,
    students: int,
    labs: Sequence[str],
    seed: int = 0,
    more: Callable[[str], list[Submission]] = lambda lab: [],
) -> None:
    """Submissions of so many students in `folder`, in the layout that `mark` takes, drawn by
    `seed`. `more`: gives further ones of a lab. One of each lab whose files are personal is of the
    student that our solutions are for."""
    rows = []
    for lab in labs:
        found = [*_submissions(lab), *more(lab)]
        random.Random(seed).shuffle(found)
        rows.append(found)
    mixed = [each for row in itertools.zip_longest(*rows) for each in row if each is not None]
    for n in range(students):
        lab, write = mixed[n % len(mixed)]
        target = folder / OURS / lab
        if find_lab(lab).personal is None or target.exists():
            target = folder / f"student{n:03}" / lab
        target.parent.mkdir(parents=True, exist_ok=True)
        write(target)


def _submissions(lab: str) -> list[Submission]:
    plain = [solution(lab), find_lab(lab).folder / "skeleton"]
    made: list[Callable[[Path], object]] = [partial(shutil.copytree, path) for path in plain]
    made += [partial(write_mistake, lab, mistake) for mistake in mistakes(lab)]
    made += [cheat.write for cheat in CHEATS if cheat.lab == lab]
    return [(lab, write) for write in made]


def marked(folder: Path, jobs: int = 1, secret: bytes = SECRET) -> list[Mark]:
    """The class's marks."""
    return mark(submissions(folder, None), Seed(secret=secret), jobs, io.StringIO())


def differences(
    first: Sequence[Mark], second: Sequence[Mark], most: float | None = None
) -> list[str]:
    """Students whose mark differs between the two times, with the tests that differ; or by more
    than `most` points."""
    made = []
    for a, b in zip(first, second, strict=True):
        pairs = zip(a.grade.outcomes, b.grade.outcomes, strict=True)
        tests = [f"{x.check.name} {x.status}/{y.status}" for x, y in pairs if x.status != y.status]
        if most is not None:
            far = a.points is None or b.points is None or abs(a.points - b.points) > most
        else:
            far = a.points != b.points or bool(tests)
        if far:
            text = f"{a.points} and {b.points} points ({', '.join(tests)})"
            made.append(f"{a.student}, {a.lab.name}: {text}")
    return made


def main(
    words: list[str] | None = None, more: Callable[[str], list[Submission]] = lambda lab: []
) -> int:
    """The command; `more` as of `write_class`."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--students", type=int, default=30)
    parser.add_argument("--load", type=int, default=40, help="busy programs the second time")
    parser.add_argument("--nice", type=int, default=0, help="niceness of these programs")
    parser.add_argument("--jobs", type=int, default=1, help="submissions at a time")
    parser.add_argument("--no-other-secret", action="store_true", help="mark it only twice")
    parser.add_argument("--draw", type=int, default=0, help="another class, by a number")
    parser.add_argument("--lab", action="append", default=[], help="only this; can be repeated")
    arguments = parser.parse_args(words)
    labs = [find_lab(name).name for name in arguments.lab] or lab_names()
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        write_class(Path(name), arguments.students, labs, arguments.draw, more)
        rounds, seconds = [], []
        times = [(0, SECRET), (arguments.load, SECRET)]
        times += [] if arguments.no_other_secret else [(0, OTHER)]
        for count, secret in times:
            begin = time.monotonic()
            with load(count, arguments.nice):
                rounds.append(marked(Path(name), arguments.jobs, secret))
            seconds.append(time.monotonic() - begin)
            beside = f"with {count} busy programs beside"
            text = beside if secret == SECRET else "with another secret"
            print(f"{text}: {seconds[-1]:.0f} s", flush=True)
    told = differences(rounds[0], rounds[1])
    for other in rounds[2:]:
        told += [f"other secret: {line}" for line in differences(rounds[0], other, MOST)]
    for line in told:
        print(line)
    if not all(made.grade.judged for made in itertools.chain(*rounds)):
        print("some tests were not judged; run again")
        return 3
    print(f"{arguments.students} students, {len(told)} marks that differ more than they may")
    return 1 if told else 0


if __name__ == "__main__":
    sys.exit(main())
