"""setup.sh, demo and test, in a scratch checkout whose Python only writes down its calls."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import yaml
from p4fabric_testing.matrix import first_of

from tests.support.paths import ROOT
from tools import compiled


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
        for name in ("p4engine", "p4fabric", "labs"):
            (folder / name / "src").mkdir(parents=True)
            shutil.copy(ROOT / name / "pyproject.toml", folder / name)
        (folder / "testbed").mkdir()
        (folder / "topos").mkdir()
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
                f'    printf \'#!/bin/sh\\necho python "$@" >> {self.calls_file}\\n'
                "case $* in *schema*) mkdir -p $4; touch $4/network.json ;; esac\\n'"
                ' > "$python"\n'
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
SCHEMAS = "python run.py schema -o experiments/schema"
SETTING_UP = ["packages", "environment", WARMING, SCHEMAS]
TESTING = ["python -m tests.support.houses -n auto"]
DEMO = "python run.py sweep experiments/demo.yaml"
WARMED = ["python -m testbed.cli.warm", SCHEMAS, DEMO]  # without what the tests alone need


@pytest.mark.parametrize(
    "commands",
    [
        # The second time nothing is set up.
        [("test", SETTING_UP + TESTING), ("test", TESTING), ("demo", [DEMO])],
        # Tools of the tests are installed by test only.
        [
            ("demo", [*SETTING_UP[:2], *WARMED]),
            (".ci/run", [*SETTING_UP[:-1], *TESTING, "python -m tests.support.houses --changed"]),
        ],
        # A browser, Wireshark, PyTorch and Dask are installed for all tests alone.
        [
            ("test", SETTING_UP + TESTING),
            ("test --all", ["extras [torch,dask,slurm,fuzz]", f"{TESTING[0]} --all"]),
            ("test --all", [f"{TESTING[0]} --all"]),
        ],
    ],
)
def test_what_is_missing_is_set_up_and_nothing_else(checkout, commands):
    for command, calls in commands:
        checkout.run(*command.split())
        assert checkout.calls() == calls


@pytest.mark.parametrize(
    "name", ["pyproject.toml", "setup.sh", "p4fabric/pyproject.toml", "labs/pyproject.toml"]
)
def test_a_change_of_what_set_up_depends_on_sets_up_again(checkout, name):
    checkout.run("test")
    with (checkout.folder / name).open("a") as file:
        file.write("# more\n")
    checkout.calls()
    checkout.run("test")
    assert checkout.calls() == ["packages", "environment"] + TESTING


def test_a_change_of_sources_only_warms_the_caches_and_makes_the_schemas(checkout):
    checkout.run("test")
    (checkout.folder / "testbed" / "a.py").write_text("2\n")
    checkout.calls()
    checkout.run("test")
    assert checkout.calls() == [WARMING, SCHEMAS] + TESTING
    shutil.rmtree(checkout.folder / "experiments")
    checkout.run("test")
    assert checkout.calls() == [SCHEMAS] + TESTING


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
        "<-m>", "<tests.support.houses>", "<-n>", "<auto>",
        "<--all>", "<-k>", "<two words>", "<>",
    ]  # fmt: skip


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
    stages = [words.split()[0::2] for kind, words in steps if kind == "FROM"]
    assert stages == [["debian:12", "base"], ["base", "tests"], ["base", "users"]]
    assert set(kinds) == {"FROM", "WORKDIR", "COPY", "RUN", "ENV", "CMD"}
    commands = [words for kind, words in steps if kind == "RUN"]
    for words in commands:
        subprocess.run(["sh", "-n", "-c", words], check=True)
        assert ". ./setup.sh" in words and not re.search(r"apt-get|pip install|curl|wget", words)
    assert "install_packages" in commands[0]
    assert all("set_up" in words for words in commands[1:]) and "[test]" in commands[1]
    folder = dict(steps)["WORKDIR"]
    assert f"PATH={folder}/.venv/bin:$PATH" in text, "where setup.sh makes the environment"
    program, *arguments = json.loads(dict(steps)["CMD"])
    assert program == "ina" and all((ROOT / word).is_file() for word in arguments)
    readme = (ROOT / "README.md").read_text()
    for command in re.findall(r"^#     (podman (?!build --target).+)$", text, re.MULTILINE):
        assert f"\n    sudo {command}" in readme


# A Python and a uv that install one package in two steps, and take half of it for all of it.
TOOLS = {
    "system-python": """
case $* in
-c*) echo 3 11 ;;
*venv*)
    for folder do :; done
    rm -rf "$folder"
    mkdir -p "$folder/bin"
    cp "$tools/python" "$folder/bin/python"
    work
    touch "$folder/pip" ;;
esac
""",
    "python": """
[ "$PWD" = "$checkout" ] || { echo "called in $PWD" >&2; exit 1; }
cd "$checkout/.venv"
case $* in
-c*) echo 3 11 ;;
*config*) exit 1 ;;
*"input uv") [ -e pip ] && cp "$tools/uv" bin/uv ;;
*torch*) [ -e pip ] || exit 1; [ -e torch ] || { : >torch; work; echo whole >torch; } ;;
*"-m pip"*) [ -e pip ] && . "$tools/uv" ;;
*.houses*) [ "$(cat package)" = whole ] && [ "$(cat torch)" = whole ] && touch ../../tested ;;
*) [ "$(cat package)" = whole ] ;;
esac
""",
    "uv": """
cd "$checkout/.venv"
[ -e package ] || { : >package; touch bin/ina; work; echo whole >package; }
""",
}
# For each bash: `work` is many commands. A line is written before each command, and all processes
# of the session end before the one with the number `kill_at`.
KILLER = """
set -T
work() { for part in {1..30}; do :; done; }
trap 'echo >>"$lines"; mapfile -t begun <"$lines"; ((${#begun[@]} < kill_at)) || kill -KILL 0' DEBUG
"""
NEVER = 10**6


def _use_python(checkout, python):
    """Have the checkout's set-up call this in place of the system's Python, and no apt."""
    shutil.copy(ROOT / "setup.sh", checkout.folder)
    with (checkout.folder / "setup.sh").open("a") as script:
        script.write(
            f'link="{checkout.link}"\n'
            f'system_python="{python}"\n'
            "become_root() { clean_up_at_exit; }\n"
            "missing_packages() { :; }\n"
        )


@pytest.mark.parametrize("moments", first_of([5, 20], 1))
def test_a_set_up_that_is_killed_at_any_moment_is_finished_by_the_next(checkout, tmp_path, moments):
    """Moments that a seed draws of the commands of a set-up with all extras."""
    tools, lines, killer = (tmp_path / name for name in ("tools", "lines", "killer"))
    tools.mkdir()
    for name, text in TOOLS.items():
        (tools / name).write_text(f"#!/bin/bash\nset -e\n{text}")
        (tools / name).chmod(0o755)
    killer.write_text(KILLER)
    _use_python(checkout, tools / "system-python")

    def ended(kill_at: int) -> tuple[int, str]:
        """How a set-up ended that is killed before this command."""
        lines.write_text("")
        named = {"tools": tools, "lines": lines, "checkout": checkout.folder, "kill_at": kill_at}
        environment = {**os.environ, **{name: str(value) for name, value in named.items()}}
        done = subprocess.run(
            ["bash", str(checkout.folder / "test"), "--all"],
            env={**environment, "BASH_ENV": str(killer), "TMPDIR": str(tmp_path)},
            cwd="/",
            start_new_session=True,
            capture_output=True,
            text=True,
        )
        return done.returncode, done.stderr

    tested = tmp_path / "tested"
    assert ended(NEVER)[0] == 0 and tested.exists()
    commands = len(lines.read_text())
    for moment in random.Random(41).sample(range(1, commands), moments):
        shutil.rmtree(checkout.folder / ".venv")
        tested.unlink()
        assert ended(moment)[0] == -signal.SIGKILL
        code, said = ended(NEVER)
        assert code == 0 and tested.exists(), f"killed before command {moment}: {said}"


def test_no_python_is_called_in_the_folder_of_the_caller(checkout, tmp_path):
    """Python imports from there, so that anybody's `venv.py` would run with root's rights."""
    calls, hostile = tmp_path / "folders", tmp_path / "hostile"
    hostile.mkdir()
    python = tmp_path / "python"
    python.write_text(
        f'#!/bin/sh\npwd >>"{calls}"\nfor folder do :; done\n'
        'case $* in *venv*) mkdir -p "$folder/bin"; cp "$0" "$folder/bin/python" ;; esac\n'
    )
    python.chmod(0o755)
    _use_python(checkout, python)
    for name in ("demo", "test"):
        command = [str(checkout.folder / name)]
        subprocess.run(command, cwd=hostile, check=True, capture_output=True)
    assert set(calls.read_text().splitlines()) == {str(checkout.folder)}


# A Python that makes environments of itself, where it is uv, too, and tells what uv installs last.
INSTALLER = """#!/bin/sh
case $* in
-[cI]*) exec {python} "$@" ;;
*--compile-bytecode*)
    for last do :; done
    echo "$last" >>{calls}
    case $last in *unavailable*) exit 1 ;; esac ;;
*"-m venv"*)
    for folder do :; done
    mkdir -p "$folder/bin"
    for name in python uv ina; do cp "$0" "$folder/bin/$name"; done ;;
*config*) exit 1 ;;
esac
"""


class Compiled:
    """A checkout whose set-up may find wheels of compiled functions."""

    def __init__(self, checkout: Checkout) -> None:
        self.checkout = checkout
        python = checkout.folder.parent / "installer"
        python.write_text(INSTALLER.format(python=sys.executable, calls=checkout.calls_file))
        python.chmod(0o755)
        _use_python(checkout, python)
        folder = "p4fabric/src/p4fabric/base/linux"
        (checkout.folder / folder).mkdir(parents=True)
        shutil.copy(ROOT / folder / "writers.py", checkout.folder / folder)

    def wheel(self, name: str = "1", folder: str = "dist", tag: str = compiled.tag()) -> Path:
        """A wheel, newer than those before."""
        path = self.checkout.folder / folder / f"ina_testbed_compiled-{name}-{tag}.whl"
        path.parent.mkdir(exist_ok=True)
        number = len(list(path.parent.iterdir()))
        path.write_text("")
        os.utime(path, (number, number))
        return path

    def set_up(self, **variables: str) -> tuple[list[str], list[str]]:
        """The last words of uv's calls, and what set-up says of wheels."""
        done = subprocess.run(
            [str(self.checkout.folder / "demo")],
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return self.checkout.calls(), [line for line in done.stderr.splitlines() if "whl" in line]


PLAIN = "./labs"  # the last word of what uv installs without a wheel


@pytest.fixture
def with_wheels(checkout) -> Compiled:
    return Compiled(checkout)


def test_the_newest_wheel_of_compiled_functions_is_installed(with_wheels):
    assert with_wheels.set_up() == ([PLAIN], [])
    assert with_wheels.set_up() == ([], [])
    old = with_wheels.wheel("2")
    assert with_wheels.set_up() == ([str(old)], [])
    assert with_wheels.set_up() == ([], [])
    new = with_wheels.wheel("1")
    assert with_wheels.set_up() == ([str(new)], [])
    own = with_wheels.wheel("3", "given")
    assert with_wheels.set_up(INA_COMPILED=str(own.parent)) == ([str(own)], [])


def test_a_wheel_of_another_python_or_machine_is_left_alone(with_wheels):
    with_wheels.wheel(tag="cp27-cp27-linux_pdp11")
    assert with_wheels.set_up() == ([PLAIN], [])


@pytest.mark.parametrize("which", ["wheel", "folder"])
def test_a_wheel_that_others_could_have_written_is_not_installed(with_wheels, which):
    wheel = with_wheels.wheel()
    path = wheel if which == "wheel" else wheel.parent
    path.chmod(0o777)
    calls, (line,) = with_wheels.set_up()
    assert calls == [PLAIN]
    assert line == f"set-up: {wheel} is not used, because others could have written {path}"


def test_without_what_a_wheel_needs_set_up_goes_on_without_the_wheel(with_wheels):
    wheel = with_wheels.wheel("unavailable")
    calls, (line,) = with_wheels.set_up()
    assert calls == [str(wheel), PLAIN]
    assert line.startswith(f"set-up: {wheel} is not used, because")


def test_the_container_of_editors_and_the_releases_are_made_of_what_is_there():
    """Files for services that no test can call: their words name stages, commands and folders."""
    lines = (ROOT / ".devcontainer/devcontainer.json").read_text().splitlines()
    editor = json.loads("\n".join(line for line in lines if not line.startswith("//")))
    stages = re.findall(r"^FROM \S+ AS (\w+)", (ROOT / "Containerfile").read_text(), re.MULTILINE)
    assert editor["build"]["target"] in stages
    assert (ROOT / ".devcontainer" / editor["build"]["dockerfile"]).resolve().is_file()
    for house in re.findall(r"-e (\S+)", editor["postCreateCommand"].replace('"', "")):
        assert (ROOT / house / "pyproject.toml").is_file()
    workflows = {
        path.stem: yaml.safe_load(path.read_text())
        for path in (ROOT / ".github/workflows").glob("*.yml")
    }
    assert set(workflows) == {"tests", "release"}
    for made in workflows.values():
        steps = [step for job in made["jobs"].values() for step in job["steps"]]
        for step in steps:
            assert len({"run", "uses"} & set(step)) == 1
            if "run" in step:
                text = re.sub(r"\$\{\{.*?\}\}", "x", step["run"])
                subprocess.run(["bash", "-n", "-c", text], check=True)
    machines = workflows["tests"]["jobs"]["tests"]["strategy"]["matrix"]["machine"]
    assert {name.endswith("-arm") for name in machines} == {True, False}
    told = json.loads((ROOT / ".zenodo.json").read_text())
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert told["title"] == cited["title"] and told["license"] == cited["license"]
    assert told["keywords"] == cited["keywords"]
    assert [each["name"] for each in told["creators"]] == [
        each["name"] for each in cited["authors"]
    ]
    assert told["description"].split() == cited["abstract"].split()
