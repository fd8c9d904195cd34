"""The files for students: the start of one lab in a folder of their own, and the kit with all labs.

The kit is a tree that works alone: the labs without the teacher's side, p4engine and p4fabric, with
a list of the Python packages that they need. A solution is in it only if a teacher puts it there.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from p4fabric.base.errors import UserError

import p4fabric
from labs.grader.lab import LABS, Lab, lab_names
from labs.grader.sandbox import ENGINE

ROOT = LABS.parent
FABRIC = Path(p4fabric.__file__).parent
TEACHER = LABS / "_teacher"
TEACHERS = ("_teacher", "TEACHERS.md", "gradescope")
PROJECT = "pyproject.toml"
# Distributions that a kit has, or what it uses of them.
HERE = ("p4engine", "p4fabric")
# What experiments need besides; the testbed's folder has links to some of it.
WHOLE = (
    *("analysis", "docs", "examples", "experiments", "p4", "topos", "traffic"),
    *("run.py", "pyproject.toml"),
)
SET_UP = """\
# The kit of the labs

{version}

You need Linux, a C compiler (`gcc`), `bubblewrap`, and Python 3.10 or newer. Set the kit up
once, in this folder:

    python3 -m venv .venv
    .venv/bin/python -m pip install -r requirements.txt

Then `python3 -m labs list` lists the labs (it uses the environment .venv by itself), and
[labs/README.md](labs/README.md) tells how to work.
"""
WHOLE_SET_UP = """
This kit has the whole testbed. `python3 run.py` in this folder is the command that its docs call
`ina` ([docs/commands.md](docs/commands.md)). It needs no root as long as the experiment says
`runtime: virtual`. For Python, use `.venv/bin/python`.
"""
CACHES = shutil.ignore_patterns("__pycache__", "*.pyc", ".*")


def start(lab: Lab, target: Path, student: str = "") -> None:
    """Put what a student begins with into the new folder `target`."""
    _refuse(target)
    target.mkdir(parents=True)
    for name, data in lab.skeleton(student).items():
        (target / name).write_bytes(data)


def export(
    target: Path,
    only: Sequence[str] = (),
    with_teacher: bool = False,
    with_testbed: bool = False,
) -> None:
    """Pack the kit into the new folder `target`, with all labs or `only` those named.

    Args:
        with_teacher: with solutions and the teacher's part of the checks, for an autograder.
        with_testbed: with the whole testbed, for labs that run experiments.

    Raises UserError where this is neither a checkout nor, without the testbed, a kit.
    """
    _refuse(target)
    if with_testbed and not all((ROOT / name).exists() for name in WHOLE):
        raise UserError("--with-testbed needs a checkout of the testbed, which this is not")
    if not (LABS / PROJECT).is_file():
        raise UserError("export needs a checkout of the labs or a kit, which this is not")
    names = list(only) or lab_names()
    target.mkdir(parents=True)
    parts = sorted(p.name for p in (ROOT / "testbed").iterdir()) if with_testbed else []
    for name in parts:
        if not (ROOT / "testbed" / name).is_symlink() and not name.startswith(("__py", ".")):
            _copy(ROOT / "testbed" / name, target / "testbed" / name)
    for name in WHOLE if with_testbed else ():
        _copy(ROOT / name, target / name)
        if (ROOT / "testbed" / name).is_symlink():
            (target / "testbed" / name).symlink_to(f"../{name}")
    _copy(ENGINE, target / "p4engine")
    _copy(FABRIC, target / "p4fabric")
    skipped = {"tests"} | set(lab_names()) - set(names) | set(() if with_teacher else TEACHERS)
    for path in sorted(LABS.iterdir()):
        if path.name not in skipped and not path.name.startswith((".", "__pycache__")):
            _copy(path, target / "labs" / path.name)
    _copy(ROOT / "LICENSE", target / "LICENSE")
    (target / "requirements.txt").write_text(_requirements(LABS, *[ROOT][:with_testbed]))
    (target / "VERSION").write_text(version() + "\n")
    set_up = SET_UP.format(version=version()) + (WHOLE_SET_UP if with_testbed else "")
    (target / "README.md").write_text(set_up)
    readme = target / "labs" / "README.md"
    lines = readme.read_text().splitlines(keepends=True)
    gone = [
        *([] if with_teacher else ["(TEACHERS.md)"]),
        *(f"({name}/" for name in lab_names() if name not in names),
    ]
    readme.write_text("".join(x for x in lines if not any(g in x for g in gone)))


def _requirements(*folders: Path) -> str:
    """Packages from elsewhere that the distributions in some folders need."""
    found = {}
    for folder in folders:
        text = (folder / PROJECT).read_text()
        part = text.split("\ndependencies = [")[1].split("\n]")[0]
        for line in re.findall(r'^\s*"([^"]+)"', part, re.MULTILINE):
            found[re.split(r"[^\w-]", line)[0]] = line
    return "".join(f"{line}\n" for name, line in found.items() if name not in HERE)


def version() -> str:
    """The version of these labs: the kit's file, or the distribution's version and the commit."""
    kept = ROOT / "VERSION"
    if kept.is_file():
        return kept.read_text().strip()
    try:
        number = metadata.version("ina-labs")
    except metadata.PackageNotFoundError:
        number = "of a checkout"
    commit = _git("describe", "--always", "--dirty", "--abbrev=12")
    return f"labs {number}" + (f", commit {commit}" if commit else "")


def _git(*words: str) -> str:
    """The checkout's version by git; "" where there is none."""
    command = ["git", "-C", str(ROOT), *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def warning() -> str:
    """Says so where students may find the solutions: git tracks them, and the repository has been
    published somewhere. "" where not."""
    tracked = _git("ls-files", "labs/_teacher/*/solution/*")
    remotes = sorted({line.split()[1] for line in _git("remote", "-v").splitlines()})
    if not tracked or not remotes:
        return ""
    return (
        f"git tracks the solutions in labs/_teacher, and the repository has a remote"
        f" ({', '.join(remotes)}). Students who can read that have them. Keep them outside:"
        " python -m labs solutions FOLDER"
    )


def move_solutions(target: Path) -> None:
    """Move solutions, mistakes and cheats out of the checkout, into the new folder `target`."""
    _refuse(target)
    if not TEACHER.is_dir():
        raise UserError(f"there are no solutions in {TEACHER}")
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(TEACHER, target / TEACHER.name, ignore=CACHES)
    shutil.rmtree(TEACHER)


def _refuse(target: Path) -> None:
    if target.exists():
        raise UserError(f"{target} exists already; name a folder that does not")


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, ignore=CACHES)
    else:
        shutil.copy(source, target)
