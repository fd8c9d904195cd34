"""What students get: the start of one lab in a folder of their own, and the kit with all labs.

The kit is a tree that works alone: the labs without the teacher's side, and the P4 engine, with a
list of the Python packages that both need. A solution is in it only if a teacher puts it there.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from testbed.errors import UserError
from testbed.labs.grader.lab import LABS, Lab, lab_names
from testbed.labs.grader.sandbox import ENGINE

ROOT = LABS.parent
TEACHERS = ("_teacher", "TEACHERS.md")
# What the grader uses of testbed/.
TESTBED = ("__init__.py", "errors.py", "paths.py", "topology.py", "linux", "network")
REQUIREMENTS = "numpy>=1.26\nrich>=13\nscapy>=2.5\nscipy>=1.11\nnetworkx>=3.1\npyseccomp>=0.1.2\n"
CACHES = shutil.ignore_patterns("__pycache__", "*.pyc", ".*")


def start(lab: Lab, target: Path, student: str = "") -> None:
    """Put what a student begins with into the new folder `target`."""
    _refuse(target)
    target.mkdir(parents=True)
    for name, data in lab.skeleton(student).items():
        (target / name).write_bytes(data)


def export(target: Path, only: Sequence[str] = ()) -> None:
    """Pack the kit into the new folder `target`, with all labs or `only` those named."""
    _refuse(target)
    names = list(only) or lab_names()
    target.mkdir(parents=True)
    for name in TESTBED:
        _copy(ROOT / "testbed" / name, target / "testbed" / name)
    _copy(ENGINE, target / "p4engine")
    skipped = {*TEACHERS, *(set(lab_names()) - set(names))}
    for path in sorted(LABS.iterdir()):
        if path.name not in skipped and not path.name.startswith((".", "__pycache__")):
            _copy(path, target / "labs" / path.name)
    (target / "testbed" / "labs").symlink_to("../labs")
    _copy(ROOT / "LICENSE", target / "LICENSE")
    (target / "requirements.txt").write_text(REQUIREMENTS)
    readme = target / "labs" / "README.md"
    lines = readme.read_text().splitlines(keepends=True)
    gone = ["(TEACHERS.md)", *(f"({name}/" for name in lab_names() if name not in names)]
    readme.write_text("".join(x for x in lines if not any(g in x for g in gone)))


def _refuse(target: Path) -> None:
    if target.exists():
        raise UserError(f"{target} exists already; name a folder that does not")


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, ignore=CACHES)
    else:
        shutil.copy(source, target)
