"""The program that runs: its name in messages and in lists of processes, and where the modules are
that its processes import.

The code here is a library of several commands. The one that runs says so with `introduce`, when its
package is imported; until then the program is called as this package.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from p4engine.module_start import module_path

import p4engine

PACKAGE = __name__.partition(".")[0]
SUDO_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Program:
    """command: the name under which it is installed. script: the name of a file of a checkout that
    does the same; "": there is none. folder: from which its package is imported; None: from that
    of this package."""

    command: str
    script: str = ""
    folder: Path | None = None


_running = Program(PACKAGE)


def introduce(program: Program) -> None:
    """Say which program runs."""
    global _running
    _running = program


def command_name() -> str:
    """The name under which the program is installed."""
    return _running.command


def program_name() -> str:
    """The program's name in its usage: that of its script where it was called so."""
    called = Path(sys.argv[0]).name
    return called if called == _running.script else _running.command


def pip_install() -> str:
    """Beginning of a quoted command that installs packages for the Python that runs; environments
    that uv has made have no pip."""
    if find_spec("pip"):
        return f"{sys.executable} -m pip install"
    return f"uv pip install --python {sys.executable}"


def sudo() -> str:
    """Beginning of a quoted command that needs root: `sudo `, or nothing where the user is
    root, as in a container."""
    is_root = os.geteuid() == 0 and os.environ.get("SUDO_UID", "0") == "0"
    return "" if is_root else "sudo "


def command_line(words: str, root: bool = False) -> str:
    """A command line of the program to be quoted in messages, its name and `words`. root: one that
    needs it; sudo resets PATH. Where the command of this environment is not on the path, it begins
    as the user's own did."""
    name, script = _running.command, _running.script
    program, before = name, sudo() if root else ""
    called = Path(sys.argv[0])
    if called.name in (name, script):
        found = shutil.which(name, path=SUDO_PATH if before else None)
        if found is None or not os.path.samefile(found, Path(sys.prefix, "bin", name)):
            program = f"python3 {script}" if called.name == script else str(called)
    return f"{before}{program} {words}"


def import_path(environment: Mapping[str, str] = os.environ) -> str:
    """PYTHONPATH of a new process that imports the program, this package and this P4 engine, then
    what the environment's PYTHONPATH names."""
    files = (sys.modules[PACKAGE].__file__, p4engine.__file__)
    folders = [Path(file or "").resolve().parents[1] for file in files]
    if _running.folder is not None:
        folders.insert(0, _running.folder)
    path: str = module_path(*map(str, folders), environment=environment)
    return path


def module_environment() -> dict[str, str]:
    """Environment of a process of `p4engine.module_start.module_command`."""
    return {**os.environ, "PYTHONPATH": import_path()}
