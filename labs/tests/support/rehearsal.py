"""The rehearsal of marking a class (labs/_teacher/rehearse.py), in which students have also handed
in solutions that are changed in one place, systematically.

    python -m labs.tests.support.rehearsal --students 30 --load 8 --jobs 2
"""

from __future__ import annotations

import os
import sys
from functools import partial

from labs._teacher import rehearse
from labs.tests.support import ROOT, mutants
from tests.support.mutants.change import sample

MOST = 8  # changed solutions of a lab


def changed_solutions(lab: str) -> list[rehearse.Submission]:
    """Some changed solutions of a lab, always the same ones. None of lab 10, whose changes are
    those of the program that its solution tests."""
    os.chdir(ROOT)
    chosen = [c for c in sample(mutants.changes(lab), MOST, seed=1) if c.file != mutants.TESTED]
    return [(lab, partial(mutants.write, lab, change)) for change in chosen]


if __name__ == "__main__":
    sys.exit(rehearse.main(more=changed_solutions))
