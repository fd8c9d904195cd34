"""The `shims` command: stand-ins with the command lines of p4c and BMv2.

Scripts for BMv2 call its programs by name. The stand-ins have these names and run p4engine. They
are written only into a folder that the user names, and work only where the user puts this folder in
front of the PATH: on their own they would silently replace an installed BMv2. Each file says in its
second line what it is, so that a search for the real programs can leave it out (`find_real`).
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import sys
from pathlib import Path

import p4engine
from p4engine.frontend.diagnostics import Diagnostic, P4Error
from p4engine.module_start import START

MODULES = {
    "p4c-bm2-ss": "shim_compiler",
    "simple_switch": "shim_switch",
    "simple_switch_grpc": "shim_switch",
    "simple_switch_CLI": "shim_commands",
}
MARK = "# Stand-in of p4engine, made by `p4engine shims`"
SCRIPT = """\
#!/bin/sh
{mark}: not the program of p4lang.
PYTHONPATH={path}"${{PYTHONPATH:+:$PYTHONPATH}}" \
    exec {python} -c "{start}" p4engine.cli.{module} {name} "$@"
"""


def is_shim(path: str | os.PathLike[str]) -> bool:
    """True if the file at `path` is a stand-in."""
    try:
        with open(path, "rb") as file:
            return MARK.encode() in file.read(200)
    except OSError:
        return False


def find_real(name: str) -> str | None:
    """Path of a program as by shutil.which, without stand-ins."""
    path = shutil.which(name)
    if path is None or not is_shim(path):
        return path
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        path = shutil.which(name, path=folder or os.curdir)
        if path is not None and not is_shim(path):
            return path
    return None


def find_shim(name: str) -> str | None:
    """The stand-in of this name, where the PATH finds it first."""
    path = shutil.which(name)
    return path if path is not None and is_shim(path) else None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line of `shims`."""
    parser.add_argument("folder", type=Path, help="to put in front of the PATH yourself")


def main(arguments: argparse.Namespace) -> int:
    """p4engine shims FOLDER."""
    folder: Path = arguments.folder
    path = Path(p4engine.__file__).parents[1]
    for name in MODULES:
        file = folder / name
        if file.exists() and not is_shim(file):
            message = f"{file} is there already and is no stand-in: name another folder"
            raise P4Error([Diagnostic("error", message, "", 0, 0, "")])
    folder.mkdir(parents=True, exist_ok=True)
    for name, module in MODULES.items():
        text = SCRIPT.format(
            mark=MARK,
            path=shlex.quote(str(path)),
            python=shlex.quote(sys.executable),
            start=START,
            module=module,
            name=name,
        )
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    print(f"written: {', '.join(MODULES)}")
    print(f'to use them: export PATH={shlex.quote(str(folder.absolute()))}:"$PATH"')
    return 0
