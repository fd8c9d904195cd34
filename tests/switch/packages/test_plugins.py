"""A package of its own adds a system, a planner, a topology and a model: examples/plugin."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from testbed.cli.main import main
from testbed.paths import import_path
from tests.support.paths import ROOT

EXAMPLE = ROOT / "examples" / "plugin"
RUN = "import sys; from testbed.cli.main import main; sys.exit(main(sys.argv[1:]))"


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """A folder with the example package as pip leaves it."""
    folder = tmp_path_factory.mktemp("site")
    words = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", folder]
    words += ["--no-build-isolation", "--disable-pip-version-check", EXAMPLE]
    done = subprocess.run(words, capture_output=True, text=True, cwd="/")
    assert done.returncode == 0, done.stderr
    return folder


def ina(installed: Path, *arguments: str | Path) -> subprocess.CompletedProcess:
    path = os.pathsep.join((str(installed), import_path()))
    words = [sys.executable, "-c", RUN, *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": path, "INA_PLUGINS": "on"}
    return subprocess.run(words, capture_output=True, text=True, cwd="/", env=environment)


def test_its_experiment_runs_and_every_value_is_right(installed, tmp_path, capsys):
    done = ina(installed, "run", EXAMPLE / "experiment.yaml", "--results", tmp_path, "--details")
    assert done.returncode == 0, done.stderr + done.stdout
    assert (
        "all right" in done.stdout
        and "ESA-LRU" in (next(tmp_path.glob("*/report.html"))).read_text()
    )
    preemptions = next(line for line in done.stdout.splitlines() if "preemptions " in line)
    assert int(preemptions.split()[-1]) > 0, "no sum was evicted by its age"
    (run,) = tmp_path.iterdir()
    (found,) = (
        each
        for each in json.loads((run / "environment.json").read_text())["inputs"]
        if each["role"] == "plug-in"
    )
    assert (found["name"], found["version"]) == ("ina-esa-lru", "0.1.0")

    # Who verifies it elsewhere is told which package is missing.
    packed = tmp_path / "packed.ina.zip"
    assert ina(installed, "pack", run, "-o", packed).returncode == 0
    assert main(["verify", str(packed), "--results", str(tmp_path / "there"), "--trust"]) == 2
    assert "a plug-in of the package ina-esa-lru 0.1.0, which is not" in capsys.readouterr().err
    (next(installed.glob("*/*.p4"))).open("a").write("// edited\n")
    done = ina(installed, "pack", run, "-o", packed.with_name("again.zip"))
    assert done.returncode == 2 and "esa_lru.p4 and ina-esa-lru have changed since" in done.stderr


def test_its_planner_plans(installed):
    graph = ROOT / "topos" / "graphs" / "grid-example.txt"
    done = ina(installed, "plan", graph, "--planner", "at-ps")
    assert done.returncode == 0, done.stderr
    assert "at-ps" in done.stdout or "at the PS" in done.stdout


def test_the_version_lists_what_was_found(installed):
    said = ina(installed, "--version").stdout
    for line in (
        "system esa-lru (ina-esa-lru 0.1.0)",
        "planner at-ps",
        "topology pair",
        "models ina-",
    ):
        assert line in said
    assert "esa-lru" not in ina(Path("/nonexistent"), "--version").stdout


@pytest.mark.parametrize(
    ("group", "name", "value", "said"),
    [
        ("ina.systems", "esa", "ina_esa_lru.system:SYSTEM", "has the name of one of the testbed's"),
        (
            "ina.systems",
            "broken",
            "no_such_module:SYSTEM",
            "cannot load the plug-in 'broken'",
        ),
        ("ina.systems", "wrong", "ina_esa_lru.topology:Pair", "it must be a System"),
        ("ina.systems", "other", "ina_esa_lru.system:SYSTEM", "must be the same"),
        ("ina.topologies", "plain", "ina_esa_lru.system:EsaLruOptions", "must subclass testbed"),
    ],
)
def test_a_package_that_is_wrong_is_named(installed, tmp_path, group, name, value, said):
    bad = tmp_path / "bad-1.dist-info"
    bad.mkdir()
    (bad / "METADATA").write_text("Metadata-Version: 2.1\nName: bad\nVersion: 1\n")
    (bad / "entry_points.txt").write_text(f"[{group}]\n{name} = {value}\n")
    environment = {**os.environ, "INA_PLUGINS": "on"}
    environment["PYTHONPATH"] = f"{tmp_path}:{installed}:{import_path()}"
    words = [sys.executable, "-c", RUN, "check", str(ROOT / "experiments" / "quickstart.yaml")]
    done = subprocess.run(words, capture_output=True, text=True, cwd="/", env=environment)
    assert done.returncode == 2, done.stderr + done.stdout
    assert said in done.stderr and "Traceback" not in done.stderr and name in done.stderr
