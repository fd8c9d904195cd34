"""Which houses' tests a call of ./test runs, in made-up repositories."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from p4engine.backend.c_build import find_target

from tests.support import houses
from tests.support.paths import ROOT, files_of_checkout

FILES = {
    "p4engine": ("src/switch.c",),
    "p4fabric": ("src/net.py",),
    "labs": ("lab1/task.py", "lab13/driver.py"),
    "testbed": ("paths.py",),
}
TESTS = {
    "p4engine": ("unit/test_switch.py",),
    "p4fabric": ("unit/test_net.py",),
    "labs": ("unit/test_lab1.py", "unit/test_lab13.py"),
}
RUNS_TESTBED = "/".join(("labs", "tests", TESTS["labs"][1]))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with all houses."""
    root = tmp_path / "repository"
    paths = [root / folder / name for folder, names in FILES.items() for name in names]
    paths += [root / house / "tests" / name for house, names in TESTS.items() for name in names]
    for path in (*paths, root / "tests" / "unit" / "paths.py"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"text of {path.name}\n")
    shutil.copy(ROOT / ".gitignore", root)
    (root / ".venv").mkdir()
    (root / "labs" / FILES["labs"][1]).write_text("from testbed.run import run\n")
    (root / RUNS_TESTBED).write_text("from labs.lab13 import driver\n")
    return root


@pytest.fixture
def call(root, monkeypatch) -> Callable[..., list[str]]:
    """Calls the door; returns pytest's arguments, each of which begins with its folder."""
    monkeypatch.setattr(houses, "_left_out", lambda _: None)

    def call(*words: str, code: int = 0, meanwhile: Callable[[], object] = bool) -> list[str]:
        ran: list[str] = []

        def run(folder: Path, arguments: list[str]) -> int:
            ran[:] = [folder.name, *arguments]
            meanwhile()
            return code

        monkeypatch.setattr(houses, "_run", run)
        assert houses.main(root, list(words)) == code
        return ran

    return call


def digests(root: Path) -> dict[str, str]:
    return {house: houses.digest(root, house) for house in houses.houses(root)}


def whole(*names: str) -> list[str]:
    """What pytest gets where these houses run beside the core."""
    tests = [f"{name}/tests" for name in names]
    left = [] if "labs" in names else [RUNS_TESTBED]
    return ["repository", "-c", "pyproject.toml", *tests, "tests", *left]


def _change(path: Path) -> None:
    path.write_text("another text\n")


def _make_executable(path: Path) -> None:
    path.chmod(0o755)


def _rename(path: Path) -> None:
    path.rename(path.with_name("renamed.py"))


def _link(path: Path) -> None:
    path.unlink()
    path.symlink_to("nowhere")


@pytest.mark.parametrize("change", [_change, _make_executable, _rename, _link, os.unlink])
@pytest.mark.parametrize(
    ("house", "runs"),
    [
        ("p4engine", ["p4engine", "p4fabric", "labs"]),
        ("p4fabric", ["p4fabric", "labs"]),
        ("labs", ["labs"]),
        ("testbed", []),
    ],
)
def test_a_change_runs_its_house_and_those_that_build_on_it(root, call, house, runs, change):
    call("--record-green")
    shutil.rmtree(root / ".venv")
    before = digests(root)
    assert call() == whole()
    change(root / house / FILES[house][0])
    after = digests(root)
    assert [name for name in after if after[name] != before[name]] == runs
    assert call() == whole(*runs)


def test_what_git_ignores_and_what_no_house_has_is_no_change(root):
    before = digests(root)
    for name in (".venv/x", "p4engine/__pycache__/x", "labs/lab1/task.pyc", "README.md"):
        path = root / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("x")
    assert digests(root) == before


def test_the_files_are_those_that_git_has_or_would_take():
    ignored = houses._ignored(ROOT)
    for house in houses.houses(ROOT):
        found = set(houses._files(ROOT, ROOT / house, ignored))
        assert found == set(files_of_checkout(house))


def test_an_archive_without_git_has_the_same_digests(root, tmp_path):
    for words in ("init --quiet", "add .", "-c user.name=a -c user.email=a commit --quiet -m a"):
        subprocess.run(["git", *words.split()], cwd=root, check=True)
    command = f"mkdir {tmp_path}/archive && git archive HEAD | tar -x -C {tmp_path}/archive"
    subprocess.run(command, shell=True, cwd=root, check=True)
    assert digests(tmp_path / "archive") == digests(root)


def test_houses_that_are_not_there_are_not_named(root, call, capsys):
    shutil.rmtree(root / "p4fabric")
    shutil.rmtree(root / "labs" / "tests")
    assert call() == ["repository", "-c", "pyproject.toml", "p4engine/tests", "tests"]
    assert [line.partition(":")[0] for line in capsys.readouterr().err.splitlines()] == [
        "testbed",
        "p4engine",
    ]


def test_what_runs_and_what_not_is_said_with_the_reason(root, call, capsys):
    assert call() == whole("p4engine", "p4fabric", "labs")
    said = capsys.readouterr().err
    short = digests(root)["labs"][: houses.SHOWN]
    assert f"labs: runs, has no recorded green tree (digest {short})\n" in said
    assert call() == whole(), "this checkout was green"
    said = capsys.readouterr().err
    why = f"labs: unchanged since the recorded green tree (digest {short}); "
    assert "testbed: runs\n" in said and f"{why}./test --all or labs/test runs it\n" in said
    _change(root / "labs" / FILES["labs"][0])
    assert houses.main(root, ["--changed"]) == 0
    assert capsys.readouterr().out == "labs\n"
    assert call("-x", "--slow") == ["repository", "-x", "--slow", *whole("labs")[1:]]
    assert "labs: runs, changed since the recorded green tree (digest " in capsys.readouterr().err
    everything = whole("p4engine", "p4fabric", "labs")
    assert call("--all") == ["repository", "--slow", *everything[1:]]


@pytest.mark.parametrize(
    "words", [["testbed/paths.py::a"], ["-k", "star"], ["-x", "p4engine/tests"], ["--lf"]]
)
def test_arguments_that_name_tests_go_to_pytest_alone(root, call, words, capsys):
    assert call(*words, "--all") == ["repository", *words, "--slow"]
    assert call("--house", "labs", "-k", "star") == ["labs", "-k", "star"]
    assert houses.main(root, [*words, "--record-green"]) == 2
    assert "error: --record-green is for a whole run" in capsys.readouterr().err
    assert not (root / houses.GREEN).exists() and not (root / houses.HERE_GREEN).exists()


def test_a_house_has_its_own_door(root, call):
    assert call("--house", "p4engine", "-x", "--record-green") == ["p4engine", "-x", "tests"]
    assert call() == whole("p4fabric", "labs")
    for house in houses.houses(ROOT):
        door = (ROOT / house / "test").read_text()
        assert f'\nexec "$(dirname "$0")/../test" --house {house} "$@"\n' in door


def test_only_a_green_whole_run_of_an_unchanged_tree_is_recorded(root, call, monkeypatch, capsys):
    task = root / "labs" / FILES["labs"][0]
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    call("--record-green", code=1)
    call("--collect-only")
    monkeypatch.setenv("PYTEST_ADDOPTS", "-k star")
    call()
    assert not (root / houses.GREEN).exists() and not (root / houses.HERE_GREEN).exists()
    monkeypatch.delenv("PYTEST_ADDOPTS")
    call("--record-green", meanwhile=lambda: _change(task))
    assert {house for house, _ in houses.recorded(root, houses.GREEN)} == {"p4engine", "p4fabric"}
    monkeypatch.setattr(houses, "_left_out", lambda _: "network tests need root (sudo ./test)")
    assert houses.main(root, ["--record-green"]) == 2
    assert "network tests need root" in capsys.readouterr().err


@pytest.mark.parametrize("conflict", [False, True])
def test_a_merged_record_counts_for_both_sides_and_for_no_third_tree(root, call, conflict):
    """Whether git puts the lines together or marks a conflict."""
    engine, task = root / "p4engine" / FILES["p4engine"][0], root / "labs" / FILES["labs"][0]
    sides = []
    for path in (engine, task):
        kept = path.read_text()
        _change(path)
        call("--all", "--record-green")
        sides.append((root / houses.GREEN).read_text())
        path.write_text(kept)
    shutil.rmtree(root / ".venv")
    marks = ("<<<<<<< ours\n", "=======\n", ">>>>>>> theirs\n") if conflict else ("", "", "")
    (root / houses.GREEN).write_text(marks[0] + sides[0] + marks[1] + sides[1] + marks[2])
    for path in (engine, task):
        kept = path.read_text()
        _change(path)
        assert call() == whole(), "one side"
        path.write_text(kept)
    _change(engine)
    _change(task)
    assert call() == whole("labs"), "p4engine is as on one side, labs as on none"
    call("--record-green", "--all")
    assert len(houses.recorded(root, houses.GREEN)) == 3, "written anew"


def test_the_quick_rings_compile_quickly_unless_all_is_asked_for(request):
    slow = request.config.getoption("--slow")
    quick = "-O1" in find_target().flags
    assert quick != slow or "P4ENGINE_CFLAGS" in os.environ
