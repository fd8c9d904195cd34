"""Where the testbed's files are: the same names in a checkout and in an installed wheel.

What users know as top-level folders of a checkout (p4/, experiments/, traffic/, ...) is part of the
package in a wheel. In a checkout, links in testbed/ lead to these folders, so imports and paths are
the same in both: `testbed.traffic`, `PACKAGE / "p4"`.
"""

from __future__ import annotations

import os
from pathlib import Path

import p4engine

PACKAGE = Path(__file__).resolve().parent
P4 = (PACKAGE / "p4").resolve()
EXPERIMENTS = (PACKAGE / "experiments").resolve()
LABS = (PACKAGE / "labs").resolve()
# The folder of run.py and .git; None where the testbed is installed from a wheel.
CHECKOUT = PACKAGE.parent if (PACKAGE.parent / "run.py").is_file() else None


def default_results() -> Path:
    """The folder where results go unless a command says otherwise: `results` in the checkout, else
    in the current folder."""
    return (CHECKOUT or Path()) / "results"


def import_path() -> str:
    """PYTHONPATH of a new process that imports this testbed and this P4 engine."""
    engine = Path(p4engine.__file__).resolve().parents[1]
    return os.pathsep.join(map(str, dict.fromkeys((PACKAGE.parent, engine))))
