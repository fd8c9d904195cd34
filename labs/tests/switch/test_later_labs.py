"""Labs 13 to 15 around their checks: a class whose parts meet, a kit without the testbed, and the
switch that adds up what quantisers send."""

from __future__ import annotations

import csv
import importlib.util
import shutil
import subprocess

import numpy as np
import pytest
from p4fabric.base.errors import UserError

from labs._teacher import mistakes, solution, write_mistake
from labs.commands import main
from labs.grader import pack
from labs.grader.grade import grade
from labs.grader.lab import find_lab
from labs.grader.pack import export
from labs.lab15_training.model import Task
from labs.lab15_training.switch import Summing
from labs.tests.support.hostile_submission import NO_SANDBOX

MEETING = "lab14_interoperation"


@NO_SANDBOX
@pytest.mark.slow
def test_parts_of_a_class_meet(tmp_path, monkeypatch, capsys):
    """Good ones, hosts without a timer, and a switch whose mistake shows only where packets are
    lost, which its own test does not try here."""
    lab = find_lab(MEETING)
    some = {"switch_plain", "hosts_lossy", "together"}
    few = [check for check in lab.checks if check.name in some]
    monkeypatch.setattr(lab, "checks", few)
    shutil.copytree(solution(MEETING), tmp_path / "class" / "ada" / MEETING)
    for student, name in (("bob", "never again"), ("eve", "answers nobody")):
        (mistake,) = [m for m in mistakes(MEETING) if m.name == name]
        (tmp_path / "class" / student).mkdir()
        write_mistake(MEETING, mistake, tmp_path / "class" / student / MEETING)
    (tmp_path / "secret").write_text("a secret of the class")
    words = ["pairs", str(tmp_path / "class"), "--secret", str(tmp_path / "secret")]
    assert main([*words, "--partners", "0", "--csv", str(tmp_path / "pairs.csv")]) == 0
    assert "hosts of" in capsys.readouterr().out
    rows = list(csv.DictReader((tmp_path / "pairs.csv").open()))
    made = {(r["switch of"], r["hosts of"]): (r["result"], r["why"]) for r in rows}
    assert len(made) == 6
    assert made["ada", "eve"][0] == "works"
    assert made["bob", "ada"][0] == "works" and made["bob", "eve"][0] == "works"
    result, why = made["ada", "bob"]
    assert result == "alone" and why.startswith("the hosts of bob with ours")
    result, why = made["eve", "ada"]
    assert result == "fails" and "the switch breaks the specification" in why


def test_a_lab_without_parts_has_no_pairs(tmp_path, capsys):
    for student in ("ada", "bob"):
        shutil.copytree(solution("lab2_aggregation"), tmp_path / student / "lab2_aggregation")
    assert main(["pairs", str(tmp_path), "--lab", "2"]) == 2
    assert "no parts that can meet" in capsys.readouterr().err


def test_a_kit_without_the_testbed_says_what_is_missing(monkeypatch):
    found = importlib.util.find_spec

    def missing(name, *more):
        return None if name == "testbed" else found(name, *more)

    monkeypatch.setattr(importlib.util, "find_spec", missing)
    with pytest.raises(UserError, match="needs the whole testbed.*--with-testbed"):
        grade(find_lab("13"), solution("lab13_measuring"))


def test_a_kit_with_the_testbed_has_it_and_no_solution(tmp_path):
    kit = tmp_path / "kit"
    export(kit, ["lab13_measuring"], with_testbed=True)
    assert (kit / "testbed" / "simulate" / "virtual_run.py").is_file()
    assert (kit / "testbed" / "p4" / "switchml.p4").samefile(kit / "p4" / "switchml.p4")
    assert not list(kit.rglob("_teacher")) and not list((kit / "labs").glob("lab9*"))
    wanted = (kit / "requirements.txt").read_text().split()
    assert any(line.startswith("numba") for line in wanted) and "p4engine" not in wanted
    assert (kit / "docs" / "experiment.md").is_file() and "run.py" in (
        kit / "README.md"
    ).read_text()
    code = "".join(path.read_text() for path in (kit / "labs").rglob("*.py"))
    assert "def explained" in code and "def packets" not in code  # the puzzle's answer
    bare = ["/usr/bin/python3", "-S"]  # without the packages of this machine
    for command in (["-m", "labs", "list"], ["run.py", "--help"]):
        done = subprocess.run([*bare, *command], cwd=kit, capture_output=True, text=True)
        assert done.returncode == 2 and "Traceback" not in done.stderr
        assert ("requirements.txt" in done.stderr) or ("README.md" in done.stderr)


def test_a_kit_of_a_kit_has_no_testbed(tmp_path, monkeypatch):
    monkeypatch.setattr(pack, "ROOT", tmp_path)
    with pytest.raises(UserError, match="needs a checkout"):
        export(tmp_path / "kit", with_testbed=True)


def test_the_switch_adds_what_workers_send_and_wraps():
    rng = np.random.default_rng(1)
    switch = Summing(3)
    for length in (64, 100, 1, 700):
        parts = [rng.integers(-(2**31), 2**31, length).astype(np.int32) for _ in range(3)]
        with np.errstate(over="ignore"):
            want = parts[0] + parts[1] + parts[2]
        assert (switch.add(parts) == want).all()


def test_the_model_learns_and_does_not_without_gradients():
    task = Task(5)
    assert task.train(lambda parts: np.sum(parts, axis=0)) > 0.7
    assert task.train(lambda parts: np.zeros_like(parts[0])) < 0.3
