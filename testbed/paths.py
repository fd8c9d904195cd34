"""Places of the testbed's files, and the name of its command, in a checkout and in a wheel.

What users know as top-level folders of a checkout (p4/, experiments/, traffic/, ...) is part of the
package in a wheel. In a checkout, links in testbed/ lead to these folders, so imports and paths are
the same in both: `testbed.traffic`, `PACKAGE / "p4"`.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from p4engine.module_start import module_path

import p4engine

PACKAGE = Path(__file__).resolve().parent
P4 = (PACKAGE / "p4").resolve()
EXPERIMENTS = (PACKAGE / "experiments").resolve()
LABS = (PACKAGE / "labs").resolve()
# The folder of run.py and .git; None where the testbed is installed from a wheel.
CHECKOUT = PACKAGE.parent if (PACKAGE.parent / "run.py").is_file() else None
LATEST = "latest"  # in place of a results folder: the newest one
SUDO_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def default_results() -> Path:
    """The folder where results go unless a command says otherwise: `results` in the current
    folder."""
    return Path("results")


def program_name() -> str:
    """The program's name in its usage: `run.py` where it was called so, else `ina`."""
    return "run.py" if Path(sys.argv[0]).name == "run.py" else "ina"


def sudo() -> str:
    """Beginning of a quoted command that needs root: `sudo `, or nothing where the user is
    root, as in a container."""
    is_root = os.geteuid() == 0 and os.environ.get("SUDO_UID", "0") == "0"
    return "" if is_root else "sudo "


def command_line(words: str, root: bool = False) -> str:
    """A command line to be quoted in messages, as `ina check FILE`. root: one that needs it; sudo
    resets PATH. Where no `ina` of this environment is on the path, it begins as the user's own
    did."""
    program, before = "ina", sudo() if root else ""
    called = Path(sys.argv[0])
    if called.name in ("ina", "run.py"):
        found = shutil.which("ina", path=SUDO_PATH if before else None)
        if found is None or not os.path.samefile(found, Path(sys.prefix, "bin", "ina")):
            program = "python3 run.py" if called.name == "run.py" else str(called)
    return f"{before}{program} {words}"


def import_path(environment: Mapping[str, str] = os.environ) -> str:
    """PYTHONPATH of a new process that imports this testbed and this P4 engine, then what the
    environment's PYTHONPATH names."""
    engine = Path(p4engine.__file__).resolve().parents[1]
    path: str = module_path(str(PACKAGE.parent), str(engine), environment=environment)
    return path


def module_environment() -> dict[str, str]:
    """Environment of a process of `p4engine.module_start.module_command`."""
    return {**os.environ, "PYTHONPATH": import_path()}
