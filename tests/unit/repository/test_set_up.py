"""setup.sh, demo and test, in a scratch checkout whose Python only writes down its calls."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.support.paths import ROOT

CALLED = 'printf "%s\\n" "$*" >> {calls}\n'


class Checkout:
    """A copy of the scripts. What they would install is only written down in `calls`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.calls_file = folder.parent / "calls"
        self.calls_file.write_text("")
        self.link = folder.parent / "ina"
        folder.mkdir()
        for name in ("setup.sh", "demo", "test", "pyproject.toml", ".ci"):
            source = ROOT / name
            (shutil.copytree if source.is_dir() else shutil.copy)(source, folder / name)
        (folder / "p4engine").mkdir()
        shutil.copy(ROOT / "p4engine" / "pyproject.toml", folder / "p4engine")
        (folder / "testbed").mkdir()
        (folder / "testbed" / "a.py").write_text("1\n")
        with (folder / "setup.sh").open("a") as script:
            script.write(
                f'link="{self.link}"\n'
                "become_root() { clean_up_at_exit; }\n"
                f"install_packages() {{ echo packages >> {self.calls_file}; }}\n"
                f"install_extras() {{ echo extras $optional >> {self.calls_file}; }}\n"
                "make_environment() {\n"
                f"    echo environment >> {self.calls_file}\n"
                '    mkdir -p "$environment/bin"\n'
                '    touch "$environment/bin/ina"\n'
                f'    printf \'#!/bin/sh\\necho python "$@" >> {self.calls_file}\\n\' > "$python"\n'
                '    chmod +x "$python"\n'
                "}\n"
            )

    def run(self, *command: str) -> subprocess.CompletedProcess:
        done = subprocess.run(
            [str(self.folder / command[0]), *command[1:]], capture_output=True, text=True, cwd="/"
        )
        assert done.returncode == 0, done.stderr
        return done

    def calls(self) -> list[str]:
        """Calls since the last time."""
        lines = self.calls_file.read_text().splitlines()
        self.calls_file.write_text("")
        return lines


@pytest.fixture
def checkout(tmp_path) -> Checkout:
    return Checkout(tmp_path / "check out")


WARMING = "python -m testbed.cli.warm --all"
SETTING_UP = ["packages", "environment", "extras", WARMING]
TESTING = ["python -m pytest -n auto"]


def test_the_second_time_nothing_is_set_up(checkout):
    checkout.run("test")
    assert checkout.calls() == SETTING_UP + TESTING
    checkout.run("test")
    assert checkout.calls() == TESTING


def test_tools_of_the_tests_are_installed_by_test_only(checkout):
    checkout.run("demo")
    checkout.calls()
    checkout.run("test")
    assert checkout.calls() == [*SETTING_UP, *TESTING]
    checkout.run("demo")
    assert checkout.calls() == ["python run.py sweep experiments/demo.yaml"]


@pytest.mark.parametrize("name", ["pyproject.toml", "setup.sh", "p4engine/pyproject.toml"])
def test_a_change_of_what_set_up_depends_on_sets_up_again(checkout, name):
    checkout.run("test")
    with (checkout.folder / name).open("a") as file:
        file.write("# more\n")
    checkout.calls()
    checkout.run("test")
    assert checkout.calls() == ["packages", "environment"] + TESTING


def test_a_change_of_sources_only_warms_the_caches(checkout):
    checkout.run("test")
    (checkout.folder / "testbed" / "a.py").write_text("2\n")
    checkout.calls()
    checkout.run("test")
    assert checkout.calls() == [WARMING] + TESTING


def test_a_moved_checkout_is_set_up_again(checkout):
    checkout.run("test")
    checkout.calls()
    moved = checkout.folder.with_name("moved")
    checkout.folder.rename(moved)
    checkout.folder = moved
    checkout.run("test")
    assert checkout.calls()[:2] == ["packages", "environment"]


@pytest.mark.parametrize(
    ("how", "code", "message"),
    [('fail "no network"', 2, "error: no network\n"), ("kill -TERM $$", 143, "")],
)
def test_set_up_that_ends_early_is_tried_again_and_leaves_nothing(checkout, how, code, message):
    with (checkout.folder / "setup.sh").open("a") as script:
        script.write(f'make_environment() {{ echo halfway >"$log"; {how}; }}\n')
    temporary = checkout.folder.parent / "temporary"
    temporary.mkdir()
    done = subprocess.run(
        [str(checkout.folder / "demo")],
        capture_output=True,
        text=True,
        env=dict(os.environ, TMPDIR=str(temporary), log=str(checkout.folder / "demo")),
    )
    assert (done.returncode, done.stderr) == (code, message)
    assert (checkout.folder / "demo").exists(), "a variable of the caller's with the same name"
    assert not (checkout.folder / ".venv").exists()
    assert list(temporary.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone has the link made")
def test_the_command_is_linked_and_what_is_not_ours_stays(checkout):
    own = str(checkout.folder / ".venv/bin/ina")

    def set_up_again() -> str:
        shutil.rmtree(checkout.folder / ".venv", ignore_errors=True)
        return checkout.run("demo").stderr

    assert "stays as it is" not in set_up_again()
    assert os.readlink(checkout.link) == own
    checkout.link.unlink()
    checkout.link.symlink_to("/deleted/.venv/bin/ina")
    assert "stays as it is" not in set_up_again()
    assert os.readlink(checkout.link) == own
    checkout.link.unlink()
    checkout.link.write_text("another program")
    assert f"{checkout.link} is not of this checkout and stays as it is" in set_up_again()
    assert checkout.link.read_text() == "another program"


def test_arguments_go_to_pytest_as_they_are(checkout):
    checkout.run("test", "--all")
    checkout.calls()
    python = checkout.folder / ".venv/bin/python"
    python.write_text(f'#!/bin/sh\nfor a; do echo "<$a>" >> "{checkout.calls_file}"; done\n')
    checkout.run("test", "--all", "-k", "two words", "")
    assert checkout.calls() == [
        "<-m>", "<pytest>", "<-n>", "<auto>",
        "<--slow>", "<-k>", "<two words>", "<>",
    ]  # fmt: skip


def test_pytorch_and_dask_are_installed_for_the_long_tests_alone(checkout):
    checkout.run("test")
    assert checkout.calls() == SETTING_UP + TESTING
    checkout.run("test", "--all")
    assert checkout.calls() == ["extras [torch,dask,fuzz]", f"{TESTING[0]} --slow"]
    checkout.run("test", "--all")
    assert checkout.calls() == [f"{TESTING[0]} --slow"]


def test_demo_compares_three_systems_and_ci_runs_the_tests(checkout):
    checkout.run("demo")
    assert "python -m testbed.cli.warm" in (calls := checkout.calls())
    assert calls[-1] == "python run.py sweep experiments/demo.yaml"
    checkout.run(".ci/run")
    assert checkout.calls() == [*SETTING_UP, *TESTING]


@pytest.fixture
def open_folder():
    """A folder that every user can read, which pytest's own are not."""
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        yield Path(name)


@pytest.mark.skipif(os.geteuid() != 0, reason="gives up root, so it has to be root")
def test_without_root_and_sudo_there_is_one_clear_error(open_folder):
    tools = open_folder / "bin"
    tools.mkdir()
    for name in ("sh", "dirname", "basename", "id"):
        (tools / name).symlink_to(shutil.which(name))
    for name in ("demo", "setup.sh"):
        shutil.copy(ROOT / name, open_folder)
    done = subprocess.run(
        [str(open_folder / "demo")],
        capture_output=True,
        text=True,
        env={"PATH": str(tools)},
        user=65534,
        group=65534,
        extra_groups=[],
    )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("error: demo builds networks and needs root")


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files away, so it has to be root")
@pytest.mark.parametrize(("owner", "expected"), [(1234, 1234), (0, 0)])
def test_files_that_root_made_become_the_users(tmp_path, owner, expected):
    checkout = tmp_path / "checkout"
    (checkout / "deep").mkdir(parents=True)
    made = checkout / "deep" / "file"
    made.write_text("")
    other = checkout / "other"
    other.write_text("")
    os.chown(other, 4321, 4321)
    os.chown(checkout, owner, owner)
    script = f'here="{checkout}"; . "{ROOT}/setup.sh"; hand_over'
    environment = dict(os.environ, SUDO_UID="1234", SUDO_GID="1234")
    subprocess.run(["sh", "-eu", "-c", script], check=True, env=environment)
    assert (made.stat().st_uid, made.stat().st_gid) == (expected, expected)
    assert other.stat().st_uid == 4321, "somebody else's file stays theirs"


def test_the_image_is_set_up_by_the_same_script_as_a_machine():
    """Its steps install through setup.sh, and the README says how to build and run it."""
    text = (ROOT / "Containerfile").read_text()
    steps = [line.split(maxsplit=1) for line in text.splitlines() if line[:1] not in ("", "#", " ")]
    kinds = [kind for kind, _ in steps]
    assert set(kinds) == {"FROM", "WORKDIR", "COPY", "RUN", "ENV", "CMD"}
    commands = [words for kind, words in steps if kind == "RUN"]
    for words in commands:
        subprocess.run(["sh", "-n", "-c", words], check=True)
        assert ". ./setup.sh" in words and not re.search(r"apt-get|pip install|curl|wget", words)
    assert "install_packages" in commands[0] and "set_up" in commands[1]
    folder = dict(steps)["WORKDIR"]
    assert f"PATH={folder}/.venv/bin:$PATH" in text, "where setup.sh makes the environment"
    program, *arguments = json.loads(dict(steps)["CMD"])
    assert program == "ina" and all((ROOT / word).is_file() for word in arguments)
    readme = (ROOT / "README.md").read_text()
    for command in re.findall(r"^#     (podman .+)$", text, re.MULTILINE):
        assert f"\n    sudo {command}" in readme
