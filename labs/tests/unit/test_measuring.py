"""Lab 13 takes experiments of a list of keys and words alone, and says how sure a number is."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
from p4fabric.base.config.yaml_document import read_yaml

from labs._teacher import solution
from labs._teacher.lab13_measuring import judge
from labs.grader.failure import Failure
from labs.lab13_measuring import checks, driver
from labs.lab13_measuring.allowed import NotAllowed, check
from labs.lab13_measuring.setting import draw

EXPERIMENT = (solution("lab13_measuring") / "experiment.yaml").read_text()


def _check(text: str) -> None:
    check(read_yaml(text, "experiment.yaml").data)


@pytest.mark.parametrize("student", ["solution", "ada", "", "x" * 50])
def test_every_setting_is_allowed(student):
    setting = draw(student)
    _check(setting.experiment(7, 5, (16, 64), ("esa", "atp")))
    _check(EXPERIMENT)


@pytest.mark.parametrize(
    "old, new",
    [
        ("kind: star,", "class: 'mine.py:Mine',"),
        ("kind: star, hosts: 10", "kind: graph, file: /etc/passwd"),
        ("kind: star", "kind: somebodys_plugin"),
        ("model: vgg16,", "model: ../../etc/shadow,"),
        ("model: vgg16,", "command: ./evil.sh,"),
        ("system: esa", "system: {name: esa, program: /tmp/x.p4}"),
        ("system: esa", "system: {name: my_plugin}"),
        ("system: esa", "system: /tmp/plugin.py"),
        ("[esa, atp, switchml]", "[esa, {name: ../x}, switchml]"),
        ("  memory.aggregators:", "  system.program: [/tmp/x.p4]\n  memory.aggregators:"),
        ("  memory.aggregators:", "  jobs[*].command: [id]\n  memory.aggregators:"),
        ("  memory.aggregators:", "  topology.file: [x]\n  memory.aggregators:"),
        ("runtime: virtual", "runtime: mininet"),
        ("runtime: virtual", "runtime: virtual\nswitch: bmv2"),
        ("runtime: virtual", "runtime: virtual\narrivals: {csv: /etc/passwd}"),
        ("runtime: virtual", "runtime: virtual\nbackground: [{cbr: 1}]"),
        ("runtime: virtual", "runtime: virtual\nfaults: [{at: 1 s, fault: kill, job: vgg16}]"),
        ("name: vgg16,", "name: {name: /etc},"),
        ("name: measuring", "name: ../../tmp/x"),
        ("iterations: 2", "iterations: .inf"),
    ],
)
def test_what_names_a_program_a_file_or_a_plug_in_is_refused(old, new):
    assert old in EXPERIMENT
    with pytest.raises(NotAllowed):
        _check(EXPERIMENT.replace(old, new, 1))


def _answer(text: str) -> str:
    request = {"experiment": text, "setting": draw("solution").as_data()}
    return driver.answer(request).get("problem", "")


@pytest.mark.parametrize(
    "text, told",
    [
        ("- a\n- b\n", "it has no keys"),
        ("a: [", "line 1"),
        ("a: " + "[" * 3000, "nested"),
        ("x" * 20000, "larger than 16 KB"),
        ("a: &a [1, 1]\nb: [*a, *a]\n", "aliases"),
        ("a: [" + "1, " * 9000 + "]", "larger than"),
        ("a: [" + "1," * 8100 + "]", "more than 2000 values"),
        (EXPERIMENT.split("sweep:")[0], "no key sweep"),
        (EXPERIMENT.replace("repetitions: 5", "repetitions: 11"), "at most 10 repetitions"),
        (EXPERIMENT.replace("iterations: 2", "iterations: 9"), "send much more"),
        (EXPERIMENT.replace("[16, 64, 512]", "[16, 32, 64, 512]"), "has 12 points"),
    ],
)
def test_what_is_no_experiment_of_this_lab_is_told_and_not_run(text, told, monkeypatch):
    monkeypatch.setattr(driver, "_rows", lambda experiments: pytest.fail("it was run"))
    assert told in _answer(text)


def test_other_jobs_for_one_system_are_found(monkeypatch):
    monkeypatch.setattr(driver, "_rows", lambda experiments: [])
    text = EXPERIMENT.replace(
        "  system: [esa, atp, switchml]\n",
        "  together:\n    - system: [esa, atp, switchml]\n      jobs[*].workers: [4, 3, 3]\n",
    )
    request = {"experiment": text, "setting": draw("solution").as_data()}
    points = driver.answer(request)["points"]
    assert {p["system"]: p["differs"] for p in points} == {
        "esa": [],
        "atp": ["jobs"],
        "switchml": ["jobs"],
    }
    request["experiment"] = EXPERIMENT
    made = driver.answer(request)
    assert len(made["points"]) == 9 and not any(p["differs"] for p in made["points"])
    assert made["figure"]["x"] == "memory.aggregators"


def test_an_interval_is_that_of_students_distribution():
    made = checks.estimate([1.0, 2.0, 3.0, 4.0, 5.0])
    assert made.mean == 3 and made.half == pytest.approx(2.776 * math.sqrt(2.5 / 5), rel=1e-3)
    verdicts = [checks.Estimate(m, 0.1).verdict for m in (1.2, 1.05, 0.95, 0.8)]
    assert verdicts == ["slower", "undecided", "undecided", "faster"]


@pytest.mark.parametrize(
    "said, told",
    [
        (571.0 * 1.015, "less than 2%"),
        (600.0, "2% to 10%"),
        (700, "10% to 50%"),
        (5, "more than 50%"),
    ],
)
def test_a_wrong_number_is_told_in_bands_and_never_the_right_one(said, told):
    found = checks.Estimate(571.0, 9.0)
    with pytest.raises(Failure, match=f"the JCT of esa, .* is off by {told}") as error:
        checks.same("the JCT of esa", checks.Estimate(said, 9.0), found)
    with pytest.raises(Failure, match="a half width .* is off by more than 50%") as other:
        checks.same("the JCT of esa", checks.Estimate(571.0, 19.0), found)
    for text in (error.value.lines(), other.value.lines()):
        assert "571" not in " ".join(text)


@pytest.mark.parametrize(
    "numbers, packets",
    [((4, 1, 3), 4), ((4, 1, 1), 3), ((7, 2, 1), 3), ((3, 1, 2), 3)],
)
def test_the_puzzle(numbers, packets):
    """The evicted sum, every gradient that collides, and the rest in one packet."""
    assert judge.packets(numbers) == packets


@pytest.mark.parametrize("value", [True, "1", -1, float("nan"), [1], None, 10**13])
def test_an_answer_that_is_no_number_is_told(value):
    answers = checks.Answers(SimpleNamespace(mistake="", answers={"a": {"mean": value}}))
    with pytest.raises(Failure, match="an answer"):
        answers.number("a", "mean")
