"""Grading in a container that a platform has isolated: no namespaces, few privileges, root."""

from __future__ import annotations

import json
import os
import shutil
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from p4fabric.base.errors import UserError

from labs._teacher import solution
from labs._teacher.cheats import CHEATS, Cheat
from labs.commands import main
from labs.grader import isolated, sandbox
from labs.grader.box import Box, remove, scratch_folder
from labs.grader.grade import grade
from labs.grader.lab import find_lab
from labs.grader.seeds import Seed
from labs.tests.support import ROOT
from labs.tests.support.container import NEEDS_ROOT, in_container
from labs.tests.support.hostile_submission import ATTEMPTS
from labs.tests.support.ordinary_user import run_as

pytestmark = NEEDS_ROOT
QUICK = {"answers for the grader", "stands in for the grader's modules"}


@pytest.fixture
def autograder(tmp_path):
    """Gradescope's folder, with a kit and a secret, as it is when a student hands in lab 7."""
    for path in (tmp_path, *tmp_path.parents):
        if not path.stat().st_mode & stat.S_IXOTH and path.stat().st_uid == os.geteuid():
            path.chmod(path.stat().st_mode | stat.S_IXOTH)
    folder = tmp_path / "autograder"
    for name in ("source", "results"):
        (folder / name).mkdir(parents=True)
    assert main(["export", "--with-teacher", str(folder / "source" / "kit")]) == 0
    for name in ("run_autograder", "setup.sh"):
        shutil.copy(folder / "source" / "kit" / "labs" / "gradescope" / name, folder)
    (folder / "source" / "lab.txt").write_text("7\n")
    (folder / "source" / "secret.txt").write_text("the secret of the class of 2026\n")
    (folder / "submission_metadata.json").write_text('{"users": [{"email": "ada@example.org"}]}')
    (folder / "venv").symlink_to(sys.prefix)
    shutil.copytree(solution("lab7_numbers"), folder / "submission")
    return folder


def trusting(function: Callable[[], Any]) -> Any:
    """Result of a function where the platform is trusted, in a process of its own."""

    def tried() -> Any:
        sandbox.trust_the_platform([])
        try:
            return function()
        finally:
            shutil.rmtree(sandbox._isolated.folder)  # run_as ends without exit handlers

    return run_as("root", tried)


def ran(folder: Path) -> dict:
    environment = {"PATH": os.environ["PATH"], "AUTOGRADER": str(folder), "HOME": "/root"}
    done = in_container([str(folder / "run_autograder")], environment)
    assert done.returncode == 0, done.stderr
    return json.loads((folder / "results" / "results.json").read_text())


@pytest.mark.slow
def test_gradescope_gets_a_mark_where_namespaces_are_refused(autograder):
    results = ran(autograder)
    assert [test["score"] for test in results["tests"]] == [
        test["max_score"] for test in results["tests"]
    ]
    assert not (autograder / "source").stat().st_mode & 0o077
    program = autograder / "submission" / "quantise.py"
    program.write_text(
        program.read_text() + "\n\ndef quantise(values, scale):\n    return values\n"
    )
    worse = ran(autograder)
    assert 0 < sum(t["score"] for t in worse["tests"]) < sum(t["score"] for t in results["tests"])


def test_what_is_not_isolated_is_refused(tmp_path, capsys, monkeypatch):
    words = [sys.executable, "-m", "labs", "grade", "7", str(solution("lab7_numbers"))]
    done = in_container(words, os.environ)
    assert done.returncode == 2 and "bubblewrap cannot confine" in done.stderr
    folder = str(solution("lab7_numbers"))
    assert main(["grade", "7", folder, "--already-isolated", "--network"]) == 2
    assert "the network is built of namespaces" in capsys.readouterr().err
    monkeypatch.setattr(isolated, "readable", lambda path: path == ROOT / "labs")
    assert main(["grade", "7", folder, "--already-isolated"]) == 2
    assert f"could read {ROOT / 'labs'}; `chmod -R go= " in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["mark", str(tmp_path), "--already-isolated"])
    with pytest.raises(UserError, match="not root here"):
        monkeypatch.setattr(os, "geteuid", lambda: 1000)
        sandbox.trust_the_platform([])


def test_only_what_nobody_can_reach_is_closed(tmp_path):
    folder = Path(isolated.tempfile.mkdtemp())
    try:
        inner = folder / "inner"
        inner.mkdir(mode=0o755)
        assert not isolated.readable(inner)
        folder.chmod(0o755)
        assert isolated.readable(inner)
        inner.chmod(0o700)
        assert not isolated.readable(inner)
    finally:
        shutil.rmtree(folder)


def test_a_submission_changes_nothing_and_makes_no_other_system_call():
    """Files that are open to everybody can be read here; all else is as in the sandbox."""

    def tried() -> dict:
        closed = Path(isolated.tempfile.mkdtemp())
        secret, victim = closed / "secret", Path("/etc/hostname")
        secret.write_text("the seed")
        scratch = scratch_folder()
        try:
            (scratch / "source").mkdir()
            (scratch / "source" / "hostile.py").write_text(ATTEMPTS)
            with Box("python", scratch, 20) as box:
                box.call("module_load", "hostile.py")
                names = [str(secret), str(victim), str(scratch / "source" / "hostile.py")]
                made = box.call("function", "attempts", [names, os.getpid()])
                shared = box.call("function", "together", [])
                inside = Path(f"/proc/{box.pid}/status").read_text()
            return {"attempts": made, "together": shared, "status": inside}
        finally:
            remove(scratch)
            shutil.rmtree(closed)

    made = trusting(tried)
    done = {name for name, result in made["attempts"].items() if result == "done"}
    assert done <= {"process list"}, done
    assert made["together"].pop("futex of its own") == "done"
    assert made["together"].pop("memory of its own") == "done"
    assert set(made["together"].values()) == {"errno 1"}
    lines = dict(line.split(":\t") for line in made["status"].splitlines() if ":\t" in line)
    assert lines["Uid"].split() == ["65534"] * 4 and lines["Seccomp"] == "2"
    assert int(lines["CapPrm"], 16) == 0 and lines["NoNewPrivs"] == "1"


@pytest.mark.parametrize(
    "cheat",
    [
        pytest.param(c, id=f"{c.lab}-{c.name}", marks=() if c.name in QUICK else pytest.mark.slow)
        for c in CHEATS
    ],
)
def test_a_cheat_does_not_get_the_points_either(cheat: Cheat):
    def statuses() -> dict[str, str]:
        lab = find_lab(cheat.lab)
        lab.checks = [check for check in lab.checks if check.name in cheat.loses]
        folder = scratch_folder()
        try:
            cheat.write(folder / "cheat")
            seed = Seed(student="solution", secret=b"the secret of the class of 2026")
            made = grade(lab, folder / "cheat", seed)
        finally:
            remove(folder)
        return {o.check.name: o.status for o in made.outcomes}

    made = trusting(statuses)
    assert set(made) == cheat.loses and set(made.values()) <= {"fail", "not run"}, made
