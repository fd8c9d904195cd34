"""Help at the start: a first file, completion, the results' folder, versions."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from testbed import experiment, systems
from testbed.cli import main as commands
from testbed.paths import default_results
from tests.support.paths import ROOT


@pytest.mark.parametrize("system", systems.SYSTEMS)
def test_a_first_file_is_sound_for_every_system(system, tmp_path, capsys):
    path = tmp_path / "mine.yaml"
    words = ["init", str(path), "--system", system, "--jobs", "3", "--workers", "2"]
    assert commands.main(words) == 0
    loaded = experiment.load(path)
    assert loaded.system.name == system and loaded.runtime == "virtual"
    assert [job.workers for job in loaded.jobs] == [2, 2, 2]
    assert f"`ina {path}` runs it" in capsys.readouterr().out
    assert commands.main(words) == 2
    assert "it is there already" in capsys.readouterr().err


def test_a_first_file_for_mininet_says_that_it_needs_root(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("SUDO_UID", "1000")
    path = tmp_path / "mine.yaml"
    assert commands.main(["init", str(path), "--runtime", "mininet"]) == 0
    said = capsys.readouterr().out
    assert re.fullmatch(rf"wrote {path}; `sudo \S+ {path}` runs it\n", said)
    remarks = re.findall(r"(?m)^#   (.*)  (?:finds mistakes|runs it)$", path.read_text())
    assert len(remarks) == 2 and len(set(map(len, remarks))) == 1


def test_its_sweep_is_sound_too(tmp_path):
    path = tmp_path / "mine.yaml"
    assert commands.main(["init", str(path)]) == 0
    text = path.read_text()
    path.write_text(re.sub(r"(?m)^# (repetitions|sweep|  memory)", r"\1", text))
    assert commands.main(["check", str(path)]) == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--system", "eas"], "there is no system 'eas'; did you mean esa?"),
        (["--runtime", "real"], "runtime: found 'real'; allowed: virtual, mininet"),
        (["--jobs", "0"], "jobs: found '0'; allowed: a whole number from 1 to 64"),
    ],
)
def test_an_answer_that_cannot_be_writes_nothing(words, message, tmp_path, capsys):
    assert commands.main(["init", str(tmp_path / "mine.yaml"), *words]) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_questions_are_asked_on_a_terminal(tmp_path, monkeypatch):
    answers = iter(["ring", "", "1", ""])
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda question: next(answers))
    assert commands.main(["init", str(tmp_path / "mine.yaml")]) == 0
    loaded = experiment.load(tmp_path / "mine.yaml")
    assert loaded.system.name == "ring" and [job.workers for job in loaded.jobs] == [4]


def test_bash_completes_commands_and_options(tmp_path, capsys):
    pytest.importorskip("shtab")
    assert commands.main(["completion", "bash"]) == 0
    script = tmp_path / "ina.bash"
    script.write_text(capsys.readouterr().out)

    def completed(*words: str) -> set[str]:
        line = f"source {script}; COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1};"
        done = subprocess.run(
            ["bash", "-c", f'{line} _shtab_ina; echo "${{COMPREPLY[@]}}"'],
            capture_output=True,
            text=True,
        )
        return set(done.stdout.split())

    assert completed("ina", "sw") == {"sweep", "switch"}
    assert {"--cli", "--results"} <= completed("ina", "run", "--")
    assert completed("ina", "schema", "e") == {"experiment"}


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_can_read_their_scripts(shell, tmp_path, capsys):
    pytest.importorskip("shtab")
    assert commands.main(["completion", shell]) == 0
    script = tmp_path / "script"
    script.write_text(capsys.readouterr().out)
    if shutil.which(shell):
        assert subprocess.run([shell, "-n", str(script)]).returncode == 0
    assert "sweep" in script.read_text()


def test_results_go_to_the_current_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert default_results().absolute() == tmp_path / "results"


def test_the_citation_has_the_packages_version():
    said = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    project = (ROOT / "pyproject.toml").read_text()
    assert f'version = "{said["version"]}"' in project
    assert f"## {said['version']}" in Path(ROOT / "CHANGELOG.md").read_text()


def test_the_demo_needs_neither_root_nor_a_folder(tmp_path, monkeypatch):
    from testbed.sweeps import sweep_runner

    ran = []
    monkeypatch.setattr(sweep_runner, "run_sweep", lambda sweep, *_: ran.append(sweep) or 0)
    monkeypatch.chdir(tmp_path)
    assert commands.main(["demo"]) == 0
    (sweep,) = ran
    assert {point.experiment.runtime for point in sweep.points} == {"virtual"}
    assert {point.experiment.system.name for point in sweep.points} == {"esa", "atp", "switchml"}
