"""The wheel: what it holds, and that the labs are there in an empty folder with it."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from labs.grader.lab import lab_names
from labs.tests.support import ROOT
from labs.tests.support.hostile_submission import NO_SANDBOX

PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")
LAB = "labs/lab2_aggregation"


def run(*words: object, cwd: Path, code: int = 0, **more: str) -> str:
    """Output of a command, without anything that leads to the checkout."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")} | more
    done = subprocess.run(
        [str(word) for word in words], cwd=cwd, env=environment, capture_output=True, text=True
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    words = [*PIP, "wheel", "--no-deps", "--no-build-isolation", "-w", folder]
    run(*words, ROOT / "labs", cwd=folder)
    (found,) = folder.glob("ina_labs-*.whl")
    return found


def test_the_wheel_has_all_that_students_get(wheel: Path) -> None:
    names = [n for n in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in n]
    assert {name.split("/")[0] for name in names} == {"labs"}
    wanted = [f"labs/{lab}/{part}" for lab in lab_names() for part in ("checks.py", "README.md")]
    wanted += ["labs/common/packet.p4", f"{LAB}/skeleton/aggregation.p4", "labs/README.md"]
    assert not {*wanted} - {*names}
    kept_back = ("labs/_teacher", "labs/TEACHERS.md", "labs/tests", "labs/pyproject.toml")
    assert not [name for name in names if name.startswith(kept_back)]


@NO_SANDBOX
def test_a_student_works_with_the_wheel_alone(wheel: Path, tmp_path: Path) -> None:
    """With the packages of this environment, and nothing of this checkout but what the labs' wheel
    depends on."""
    site, empty = tmp_path / "site", tmp_path / "empty"
    zipfile.ZipFile(wheel).extractall(site)
    empty.mkdir()
    # PYTHONPATH goes before the editable installation of the checkout.
    path = os.pathsep.join(map(str, (site, ROOT, ROOT / "p4engine" / "src", *sys.path)))
    where = (sys.executable, "-c", "import labs; print(labs.__file__)")
    assert Path(run(*where, cwd=empty, PYTHONPATH=path).strip()).is_relative_to(site)
    command = (sys.executable, "-m", "labs")
    assert "lab2_aggregation" in run(*command, "list", cwd=empty, PYTHONPATH=path)
    run(*command, "start", "2", "mine", cwd=empty, PYTHONPATH=path)
    said = run(*command, "grade", "2", "mine", cwd=empty, code=1, PYTHONPATH=path)
    assert "5 of 80 points" in said
    run(*command, "export", "kit", cwd=empty, code=2, PYTHONPATH=path)
