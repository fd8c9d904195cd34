"""What a results folder says about the machine and the program."""

from __future__ import annotations

import json
import os
import subprocess
from importlib import metadata

import pytest

from testbed.results import environment


def test_an_environment_is_that_of_this_process():
    found = environment.describe(1000, runtime="virtual")
    assert found["cores_usable"] == len(os.sched_getaffinity(0))
    assert (found["timestamp_unit_ns"], found["runtime"]) == (1000, "virtual")
    assert found["packages"]["numpy"] == metadata.version("numpy")
    assert found["kernel"].startswith("Linux") and found["python"].startswith("3.")
    json.dumps(found)


def test_fewer_usable_cores_are_counted():
    whole = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(whole)})
        assert environment.describe(1000)["cores_usable"] == 1
    finally:
        os.sched_setaffinity(0, whole)


def test_the_version_is_that_of_the_package(monkeypatch):
    assert environment.version() == metadata.version("ina-testbed")
    monkeypatch.setattr(environment, "_version", lambda _: None)
    assert environment.version() == "not known"


def test_a_commit_with_changes_is_dirty(tmp_path, monkeypatch):
    monkeypatch.setattr(environment, "CHECKOUT", tmp_path)
    unknown = {"commit": None, "dirty": None}
    assert environment.checkout() == unknown, "without .git"

    def git(*words: str) -> str:
        names = ("-c", "user.name=a", "-c", "user.email=a@b")
        command = ["git", *names, "-C", str(tmp_path), *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    git("init")
    assert environment.checkout() == {"commit": None, "dirty": False}, "without a commit"
    git("commit", "--allow-empty", "-m", "first")
    commit = git("rev-parse", "HEAD")
    assert environment.checkout() == {"commit": commit, "dirty": False}
    (tmp_path / "new").touch()
    assert environment.checkout() == {"commit": commit, "dirty": True}
    git("add", "new")
    os.utime(tmp_path / "new", (1, 1))  # of which git would make a note in its index
    before = (tmp_path / ".git" / "index").stat().st_mtime_ns
    assert environment.checkout()["dirty"]
    assert (tmp_path / ".git" / "index").stat().st_mtime_ns == before
    monkeypatch.setattr(environment, "CHECKOUT", None)
    assert environment.checkout() == unknown


@pytest.mark.parametrize("program, said", [("true", None), ("false", None), (None, None)])
def test_a_program_that_says_nothing_is_not_known(program, said):
    assert environment._first_line(program) is said
