"""Every command that the docs show is run by a test; the quick ones by these."""

from __future__ import annotations

import os
import re
import runpy
import shlex
import subprocess
import sys

import pytest

from testbed.cli import main as commands
from testbed.sweeps import figures as figure_run
from tests.support import docs
from tests.support.paths import ROOT
from tests.support.synthetic_results import write_experiment_run, write_run

HERE = [(pattern, how) for pattern, how in docs.COMMANDS if not isinstance(how, str)]


def test_every_command_that_the_docs_show_is_run_by_a_test():
    shown = docs.shown()
    assert len(shown) > 50
    unknown = [
        f"{each.place}:{each.line}: {each.text}" for each in shown if not docs.how(each.text)
    ]
    assert not unknown, "nothing runs these (see tests/support/docs.py):\n" + "\n".join(unknown)


def test_the_page_of_commands_lists_them_as_the_help_does():
    page = (ROOT / "docs" / "commands.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| (.+) \| \[.+ \|$", page, re.MULTILINE)
    assert rows == list(commands.COMMANDS.items())


def test_what_the_docs_change_on_a_command_line_fits_the_file(monkeypatch, capsys):
    """The files' own keys, as they stand on the page."""
    monkeypatch.chdir(ROOT)
    checked = set()
    for each in docs.shown():
        words = shlex.split(each.text.partition(" --")[0])
        files = [word for word in words if word.endswith(".yaml") and (ROOT / word).exists()]
        changes = [word for word in words if re.match(r"[a-z_.*\d\[\]]+=", word)]
        if files and changes:
            checked.add(each.place)
            found = commands.main(["check", *files, *changes])
            assert found == 0, f"{each.place}:{each.line}: {each.text}\n{capsys.readouterr().err}"
    assert "docs/commands.md" in checked


def test_the_tests_that_run_a_command_exist():
    for _, how in docs.COMMANDS:
        if isinstance(how, str):
            path, _, function = how.partition("::")
            assert f"\ndef {function}(" in (ROOT / path).read_text(), how


def test_the_commands_among_the_tests_start_without_pytest():
    """Their imports are found from the checkout's folder alone."""
    mains = sorted((ROOT / "tests").rglob("__main__.py"))
    names = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in mains]
    assert "tests.support.chaos.__main__" in names
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r})"
    for name in names:
        code += f"\nimport {name}"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd="/", capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_the_figures_that_the_docs_name_exist():
    names = set()
    for each in docs.shown():
        pattern, _ = docs.how(each.text)
        names.add(re.fullmatch(pattern, each.text).groupdict().get("figure"))
    names.discard(None)
    assert names and names <= set(figure_run.names())


@pytest.fixture
def files(tmp_path):
    """Files that stand for those of a reader of the docs."""
    small = tmp_path / "small.yaml"
    small.write_text(docs.SMALL)
    return {
        "small": small,
        "results": tmp_path / "results",
        "folder": tmp_path,
        "run": write_run(tmp_path / "a"),
        "other": write_run(tmp_path / "b", system="atp"),
        "real": write_experiment_run(tmp_path / "c").folder,
        "new": tmp_path / "my_lab",
    }


@pytest.mark.parametrize(
    "how",
    [
        pytest.param(how, id=pattern, marks=[pytest.mark.slow] if how.slow else [])
        for pattern, how in HERE
    ],
)
def test_a_command_does_what_it_says(how, files, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    words = docs.words(how.words, files)
    if isinstance(how, docs.Run):
        assert commands.main(words) == how.code, capsys.readouterr().err
        return
    module, *arguments = words
    monkeypatch.setattr(sys, "argv", [module, *arguments])
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=False)
    except SystemExit as ended:
        assert not ended.code, capsys.readouterr().err
    assert capsys.readouterr().out
