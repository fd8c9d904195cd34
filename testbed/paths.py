"""Where the testbed's files are and how its command is called, in a checkout and in a wheel.

What users know as top-level folders of a checkout (p4/, experiments/, traffic/, ...) is part of the
package in a wheel. In a checkout, links in testbed/ lead to these folders, so imports and paths are
the same in both: `testbed.traffic`, `PACKAGE / "p4"`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import p4engine

PACKAGE = Path(__file__).resolve().parent
P4 = (PACKAGE / "p4").resolve()
EXPERIMENTS = (PACKAGE / "experiments").resolve()
LABS = (PACKAGE / "labs").resolve()
# The folder of run.py and .git; None where the testbed is installed from a wheel.
CHECKOUT = PACKAGE.parent if (PACKAGE.parent / "run.py").is_file() else None


def default_results() -> Path:
    """The folder where results go unless a command says otherwise: `results` in the current
    folder."""
    return Path("results")


def program_name() -> str:
    """The program as the user has called it: `run.py` (in a checkout) or `ina` (installed)."""
    return "run.py" if Path(sys.argv[0]).name == "run.py" else "ina"


def command_line(words: str, root: bool = False) -> str:
    """A command line of this program, to be quoted in messages: `python3 run.py check FILE` or
    `ina check FILE`, whichever the user has called. root: with sudo, and with the path of `ina`,
    since sudo resets PATH."""
    program = program_name()
    if program == "run.py":
        program = "python3 run.py"
    elif root and Path(sys.argv[0]).name == program:
        program = sys.argv[0]
    return f"{'sudo ' if root else ''}{program} {words}"


def import_path() -> str:
    """PYTHONPATH of a new process that imports this testbed and this P4 engine."""
    engine = Path(p4engine.__file__).resolve().parents[1]
    return os.pathsep.join(map(str, dict.fromkeys((PACKAGE.parent, engine))))
