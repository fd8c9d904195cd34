"""The engine as a distribution: what its wheel holds, and that it needs nothing of the checkout."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from p4engine_testing import DATA, ENGINE, TESTS

SOURCES = ENGINE / "src" / "p4engine"
STF = "packet 1 020000000009 020000000001 88b5\nno_packet\n"
FRAME = "02000000000902000000000188b5"


def run(*command: object, cwd: Path, environment: dict[str, str] | None = None) -> str:
    """The output of a command that must succeed; no setting of Python or pytest reaches it."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "PYTEST"))}
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=clean | (environment or {}),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_folder_named_like_the_package_does_not_hide_it():
    """The checkout has a folder p4engine/ without __init__.py, which Python would take for a
    package if it found no other."""
    program = "import p4engine; p4engine.compile_program; print(p4engine.__file__)"
    found = run(sys.executable, "-c", program, cwd=ENGINE.parent)
    assert Path(found.strip()).name == "__init__.py"
    run(sys.executable, "-m", "p4engine", "--help", cwd=ENGINE.parent)


def test_it_imports_nothing_of_the_testbed():
    strangers = {"testbed", "tests", "labs", "analysis", "topos", "traffic", "tools"}
    found = []
    for path in [*SOURCES.rglob("*.py"), *TESTS.rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module or ""]
            found += [f"{path}: {n}" for n in names if n.split(".")[0] in strangers]
    assert found == []


def test_the_tests_stand_by_themselves():
    said = run(sys.executable, "-m", "pytest", "--collect-only", "-q", cwd=ENGINE)
    assert "tests/unit/test_packaging.py::test_the_tests_stand_by_themselves" in said


@pytest.mark.slow
def test_the_types_are_right():
    """Of the folders that pyproject.toml names for mypy."""
    for needed in ("mypy", "google-stubs", "grpc-stubs"):
        if not any(Path(folder, needed).is_dir() for folder in sys.path):
            pytest.skip(f"{needed} is not installed")
    assert "no issues found" in run(sys.executable, "-m", "mypy", cwd=ENGINE)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(folder)]
    done = subprocess.run([*pip, str(ENGINE)], capture_output=True, text=True, cwd=folder)
    if done.returncode:
        if "No module named pip" in done.stderr or "o matching distribution" in done.stderr:
            pytest.skip(f"no wheel can be built here: {done.stderr.strip().splitlines()[-1]}")
        raise AssertionError(done.stderr)
    [made] = folder.glob("*.whl")
    return made


@pytest.mark.slow
def test_what_the_wheel_holds(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    top = {name.split("/")[0] for name in names}
    assert sorted(name for name in top if not name.endswith(".dist-info")) == ["p4engine"]
    assert len(top) == 2
    wanted = {
        f"p4engine/{path.relative_to(SOURCES)}"
        for path in SOURCES.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert wanted <= names
    for suffix in (".c", ".h", ".p4", ".py"):
        assert any(name.endswith(suffix) for name in wanted)


@pytest.mark.slow
def test_the_wheel_works_by_itself(wheel, tmp_path):
    """In an environment with its declared dependencies only, far from the checkout."""
    run(sys.executable, "-m", "venv", tmp_path / "env", cwd=tmp_path)
    python, command = tmp_path / "env" / "bin" / "python", tmp_path / "env" / "bin" / "p4engine"
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    done = subprocess.run([*map(str, pip), str(wheel)], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"cannot be installed here: {done.stderr.strip().splitlines()[-1]}")
    empty = tmp_path / "empty"
    empty.mkdir()
    program, test = tmp_path / "router.p4", tmp_path / "router.stf"
    program.write_text((DATA / "router.p4").read_text())
    test.write_text(STF)
    home = {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    said = run(python, "-c", "import p4engine; print(p4engine.__file__)", cwd=empty)
    assert said.startswith(str(tmp_path))
    assert "tables: " in run(command, "compile", program, cwd=empty, environment=home)
    assert "pass " in run(command, "stf", program, test, cwd=empty, environment=home)
    trace = [python, "-m", "p4engine", "trace", program, "--packet", FRAME]
    assert "parser " in run(*trace, cwd=empty, environment=home)
