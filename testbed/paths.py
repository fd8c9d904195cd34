"""Places of the testbed's files, and the name of its command, in a checkout and in a wheel.

What users know as top-level folders of a checkout (p4/, experiments/, traffic/, ...) is part of the
package in a wheel. In a checkout, links in testbed/ lead to these folders, so imports and paths are
the same in both: `testbed.traffic`, `PACKAGE / "p4"`.

The functions that name the command and start processes are those of every program (program.py). The
testbed's code takes them from here, so that they know that it is the testbed that runs.
"""

from __future__ import annotations

from pathlib import Path

from p4fabric.base import program
from p4fabric.base.program import command_line as command_line
from p4fabric.base.program import import_path as import_path
from p4fabric.base.program import module_environment as module_environment
from p4fabric.base.program import program_name as program_name
from p4fabric.base.program import sudo as sudo

PACKAGE = Path(__file__).resolve().parent
P4 = (PACKAGE / "p4").resolve()
EXPERIMENTS = (PACKAGE / "experiments").resolve()
# The folder of run.py and .git; None where the testbed is installed from a wheel.
CHECKOUT = PACKAGE.parent if (PACKAGE.parent / "run.py").is_file() else None
# Installed side by side, from this one to that which knows least (pyproject.toml of each).
DISTRIBUTIONS = "ina-testbed", "p4fabric", "p4engine"
LATEST = "latest"  # in place of a results folder: the newest one

program.introduce(program.Program("ina", script="run.py", folder=PACKAGE.parent))


def default_results() -> Path:
    """The folder where results go unless a command says otherwise: `results` in the current
    folder."""
    return Path("results")
