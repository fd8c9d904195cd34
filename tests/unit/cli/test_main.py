"""The command line: what is run, what a mistake looks like, which exit code comes out."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from argparse import ArgumentParser, Namespace
from pathlib import Path
from types import SimpleNamespace

import pytest
from p4fabric.base import program as programs
from p4fabric.base import steps
from p4fabric.base.errors import RunError, UserError

from testbed.cli import main as commands
from testbed.cli import warm
from testbed.paths import command_line
from tests.support.paths import ROOT

SYSTEM_PYTHON = "/usr/bin/python3"


@pytest.fixture
def one_command(monkeypatch):
    """A command line with the single command `go`; `calls` collects its arguments, and it
    raises what is in `raised`."""
    calls: list[list[str]] = []
    raised: list[BaseException] = []

    def go(options: Namespace) -> int:
        calls.append(options.words)
        if raised:
            raise raised[0]
        return 0

    def arguments(parser: ArgumentParser) -> None:
        parser.add_argument("words", nargs="*")

    monkeypatch.setattr(commands, "COMMANDS", {"go": "go"})
    monkeypatch.setattr(commands, "find", lambda _: (arguments, go))
    return SimpleNamespace(calls=calls, raised=raised)


def test_a_command_gets_its_arguments(one_command):
    assert commands.main(["go", "a", "b"]) == 0
    assert one_command.calls == [["a", "b"]]


def test_a_yaml_file_is_run():
    assert commands.with_command(["some/experiment.yaml"]) == ["run", "some/experiment.yaml"]


def test_an_unknown_command_names_the_nearest():
    with pytest.raises(UserError, match="did you mean report"):
        commands.with_command(["repot"])
    with pytest.raises(UserError, match="commands are: run, sweep, demo, init"):
        commands.with_command(["zzzzzz"])
    with pytest.raises(UserError, match="`calibrate` is gone: .* fidelity"):
        commands.with_command(["calibrate"])


def test_run_py_calls_itself_run_py(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["/somewhere/run.py", "--help"])
    assert commands.main(["--help"]) == 0
    assert capsys.readouterr().out.startswith("usage: run.py FILE.yaml\n")


@pytest.mark.parametrize(
    ("called", "line", "as_root"),
    [
        ("/somewhere/run.py", "python3 run.py check FILE", "sudo python3 run.py check FILE"),
        ("/venv/bin/ina", "/venv/bin/ina check FILE", "sudo /venv/bin/ina check FILE"),
        ("/venv/bin/pytest", "ina check FILE", "sudo ina check FILE"),
    ],
)
def test_a_message_quotes_a_command_that_works(monkeypatch, tmp_path, called, line, as_root):
    """It is `ina` where the path has it, and else what the user has called."""
    monkeypatch.setattr(sys, "argv", [called])
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr(programs, "SUDO_PATH", str(tmp_path / "empty"))
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setenv("SUDO_UID", "1000")
    assert command_line("check FILE") == line
    assert command_line("check FILE", root=True) == as_root
    program, link = tmp_path / "bin" / "ina", tmp_path / "link" / "ina"
    for path in (program, link):
        path.parent.mkdir()
    program.touch(0o755)
    link.symlink_to(program)
    monkeypatch.setenv("PATH", str(program.parent))
    assert command_line("check FILE") == "ina check FILE"
    assert command_line("check FILE", root=True) == as_root
    monkeypatch.setattr(programs, "SUDO_PATH", str(link.parent))
    assert command_line("check FILE", root=True) == "sudo ina check FILE"
    # Root needs none, also where there is no sudo, as in a container.
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    for name in ("0", None):
        monkeypatch.delenv("SUDO_UID")
        if name is not None:
            monkeypatch.setenv("SUDO_UID", name)
        assert command_line("check FILE", root=True) == "ina check FILE"
        monkeypatch.setenv("SUDO_UID", "1000")


@pytest.mark.parametrize(
    ("called", "name"), [("/a/run.py", "python3 run.py"), ("/b/ina", "/b/ina")]
)
def test_a_remedy_quotes_a_command_that_works(monkeypatch, tmp_path, called, name):
    monkeypatch.setattr(sys, "argv", [called])
    monkeypatch.setenv("PATH", str(tmp_path))
    file = ROOT / "experiments" / "quickstart.yaml"
    options = commands.parser_of("sweep").parse_args(["sweep", str(file)])
    with pytest.raises(UserError, match=f"has no key sweep; `{name} {file}` runs it"):
        commands.find("sweep")[1](options)


def test_the_version_is_that_of_all_distributions(capsys):
    assert commands.main(["--version"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[:3]] == [
        "ina-testbed",
        "p4fabric",
        "p4engine",
    ]


@pytest.mark.parametrize("arguments", [["check"], ["check", "a", "b"], ["show", "--all"]])
def test_a_command_for_one_file_wants_one_file(arguments, capsys):
    assert commands.main(arguments) == 2
    error = capsys.readouterr().err
    assert f"usage: ina {arguments[0]} [-h]" in error and "FILE.yaml" in error


@pytest.mark.parametrize("word", commands.COMMANDS)
def test_help_shows_the_usage_of_a_command(word, capsys):
    for flag in ("-h", "--help"):
        assert commands.main([word, flag]) == 0
        shown = capsys.readouterr().out
        assert shown.startswith(f"usage: ina {word}")
        assert commands.COMMANDS[word] in " ".join(shown.split())


def test_the_help_lists_all_commands_by_what_they_are_for(capsys):
    assert commands.main(["--help"]) == 0
    shown = capsys.readouterr().out
    places = [shown.index(f"\n{title}:\n") for title in commands.GROUPS]
    assert places == sorted(places)
    ends = [*places[1:], len(shown)]
    for (title, group), begin, end in zip(commands.GROUPS.items(), places, ends, strict=True):
        listed = re.findall(r"^  (\w+) {2,}\w", shown[begin:end], re.MULTILINE)
        assert listed == [*group], title
    assert max(map(len, shown.splitlines())) <= 80


@pytest.mark.parametrize("word", commands.EXAMPLES)
def test_the_examples_of_a_command_are_in_its_help_and_are_understood(word, capsys):
    assert commands.main([word, "--help"]) == 0
    shown = capsys.readouterr().out
    for example in commands.EXAMPLES[word]:
        assert f"\n  ina {word} {example}\n" in shown
        options, unknown = commands.parser_of(word).parse_known_args([word, *shlex.split(example)])
        assert all("=" in each and each[0] != "-" for each in unknown)
        assert not unknown or hasattr(options, "changes")


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["show", "x.yaml", "--hsah"], "did you mean --hash?"),
        (["run", "x.yaml", "--reuslts=here"], "did you mean --results?"),
        (["run", "--reuslts", "here", "x.yaml"], "did you mean --results?"),
        (["run", "x.yaml", "-q", "-v"], "not allowed with argument"),
        (["run", "x.yaml", "--cli", "befor"], "found 'befor'; did you mean before?"),
        (["completion", "bsh"], "found 'bsh'; did you mean bash?"),
        (["completion", "tcl"], "allowed: bash, zsh, fish"),
    ],
)
def test_a_wrong_option_or_value_names_the_nearest(words, hint, capsys):
    assert commands.main(words) == 2
    said = capsys.readouterr().err
    assert hint in said and said.count("\n") == 1


def test_the_usage_behind_a_mistake_is_one_line(capsys):
    assert commands.main(["plan", "net.txt", "--paths", "0"]) == 2
    shown = capsys.readouterr().err
    assert "found '0'; allowed: a whole number from 1; usage: ina plan" in shown
    assert shown.count("\n") == 1


def test_a_failed_run_shows_the_log_that_explains_it(one_command, capsys):
    error = RunError("switch s1 was killed by signal 9", "last words\nreally", "logs/s1.log")
    one_command.raised.append(error)
    assert commands.main(["go"]) == 1
    shown = capsys.readouterr().err
    assert shown.splitlines() == [
        "failed: switch s1 was killed by signal 9",
        "the end of logs/s1.log:",
        "  | last words",
        "  | really",
    ]


def test_ctrl_c_gives_exit_code_130(one_command):
    one_command.raised.append(KeyboardInterrupt())
    assert commands.main(["go"]) == 130


def test_a_defect_keeps_its_traceback(one_command):
    one_command.raised.append(ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        commands.main(["go"])


def run_py(*arguments: str, python: str = SYSTEM_PYTHON, script: Path = ROOT / "run.py", **options):
    return subprocess.run(
        [python, str(script), *arguments], capture_output=True, text=True, **options
    )


@pytest.mark.skipif(not (ROOT / ".venv").exists(), reason="the project is not set up here")
def test_run_py_works_with_any_python_in_any_folder(tmp_path):
    bare = {"PATH": "/usr/bin:/bin"}
    done = run_py("--help", python=SYSTEM_PYTHON, cwd=tmp_path, env=bare)
    assert done.returncode == 0, done.stderr
    assert "run an experiment" in done.stdout


def test_without_set_up_there_is_one_clear_message(tmp_path):
    shutil.copy(ROOT / "run.py", tmp_path)
    for said in ("set it up as README.md", "sudo ./demo"):  # in a kit of the labs, in a checkout
        done = run_py("--help", script=tmp_path / "run.py")
        assert done.returncode == 2
        assert done.stderr.count("\n") == 1
        assert said in done.stderr and str(tmp_path) in done.stderr
        shutil.copy(ROOT / "demo", tmp_path)


def test_an_environment_whose_python_is_gone_is_noticed(tmp_path):
    shutil.copy(ROOT / "run.py", tmp_path)
    shutil.copy(ROOT / "demo", tmp_path)
    binaries = tmp_path / ".venv" / "bin"
    binaries.mkdir(parents=True)
    # Runs, but is not the environment: what a moved or half-removed .venv looks like.
    (binaries / "python").symlink_to(os.path.realpath(sys.executable))
    done = run_py("--help", script=tmp_path / "run.py")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr and "sudo ./demo" in done.stderr


@pytest.mark.parametrize(
    "message, shown",
    [
        ("a line", "a line"),
        ("x" * 1000, "x" * 1000),
        ("a" + "x" * 5000 + "b", "a" + "x" * 499 + " ... " + "x" * 499 + "b"),
        ("one\ntwo", "one\ntwo"),
        (
            "\n".join("ab"[n % 2] for n in range(302)),
            "\n".join(["a\nb"] * 150) + "\n... and 2 more lines",
        ),
    ],
)
def test_a_message_is_as_long_as_anybody_reads(one_command, capsys, message, shown):
    """Names and values that it quotes come from files, and may be of any length."""
    one_command.raised.append(UserError(message))
    assert commands.main(["go"]) == 2
    assert capsys.readouterr().err == f"error: {shown}\n"


@pytest.mark.parametrize("command", [["show"], ["experiments/quickstart.yaml", "--results"]])
def test_a_name_that_is_not_utf_8_is_one_line(command, tmp_path, capsys):
    folder = tmp_path / os.fsdecode(b"r\xff")
    assert commands.main([*command, str(folder)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: the argument ") and "r\\udcff' is not UTF-8" in line
    assert "rename" in line and not folder.exists()


def test_check_says_what_takes_long_beside_its_result(monkeypatch, capsys):
    def slowly(setup):
        time.sleep(0.3)
        return SimpleNamespace(warnings=())

    monkeypatch.setattr(steps, "FIRST_S", 0.0)
    monkeypatch.setattr("testbed.run_parts.program.prepare", slowly)
    file = ROOT / "experiments" / "quickstart.yaml"
    assert commands.main(["check", str(file)]) == 0
    said = capsys.readouterr()
    assert "compiling its P4 program (0 s)" in said.err
    assert said.out.startswith(f"{file}: valid: ") and "compiling" not in said.out


def test_set_up_compiles_the_code_of_every_host_of_the_demo():
    hosts = warm.protocols(everything=False)
    workers = ["atp:worker", "esa:worker", "switchml:worker"]
    assert hosts == [*workers, "atp:ps", "esa:ps"]  # the longest first
    assert set(hosts) <= set(warm.protocols(everything=True))


@pytest.mark.parametrize("is_shipped", [True, False])
def test_set_up_compiles_what_no_package_has_and_says_why_a_package_is_not_used(
    is_shipped, monkeypatch, capsys, tmp_path
):
    started, loaded = [], []
    done = SimpleNamespace(returncode=0)
    monkeypatch.setattr(
        warm.subprocess, "run", lambda words, cwd: started.append(words[-1]) or done
    )
    monkeypatch.setattr(warm, "warm", loaded.append)
    monkeypatch.setattr(warm, "is_shipped", lambda: is_shipped)
    (tmp_path / "compiled").mkdir()
    monkeypatch.setattr(warm, "installed", lambda: [tmp_path / "compiled"])
    monkeypatch.setattr(warm, "remove_unused", lambda: None)
    monkeypatch.setattr("sys.argv", ["warm"])
    assert warm.main() == 0
    hosts = [] if is_shipped else warm.protocols(everything=False)
    assert sorted(started) == sorted([*hosts, "switches", "figures"])
    assert loaded == hosts
    said = [line for line in capsys.readouterr().err.splitlines() if "not used" in line]
    reason = f"{tmp_path}/compiled/made_with.json cannot be read"
    assert said == ([] if is_shipped else [f"set-up: compiled is not used, because {reason}"])
