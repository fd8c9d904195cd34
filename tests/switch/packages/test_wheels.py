"""All wheels: what they hold, and that each works elsewhere with those below it alone."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from p4fabric_testing import L3

from tests.support.paths import ROOT

PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")
RUN = "import sys; from testbed.cli.main import entry; sys.exit(entry())"
# What travels as data, one of each kind.
DATA = (
    "p4/esa.p4",
    "experiments/quickstart.yaml",
    "experiments/figures/headline.yaml",
    "traffic/models/resnet50.csv",
    "topos/graphs/grid-example.txt",
    "analysis/html/templates/page.html.j2",
)


def clean(**more: str) -> dict[str, str]:
    """The environment without anything that leads to the checkout."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return kept | more


def run(*words: object, cwd: Path, environment: dict[str, str]) -> str:
    done = subprocess.run(
        [str(word) for word in words], cwd=cwd, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheels(tmp_path_factory) -> list[Path]:
    folder = tmp_path_factory.mktemp("wheels")
    words = [*PIP, "wheel", "--no-deps", "--no-build-isolation", "-w", folder]
    run(*words, ROOT / "p4engine", ROOT / "p4fabric", ROOT, cwd=folder, environment=clean())
    return sorted(folder.glob("*.whl"))


def test_the_wheels_hold_one_name_each(wheels):
    names = [zipfile.ZipFile(wheel).namelist() for wheel in wheels]
    tops = [{name.split("/")[0] for name in found if ".dist-info/" not in name} for found in names]
    assert tops == [{"testbed"}, {"p4engine"}, {"p4fabric"}]
    assert [name for name in DATA if f"testbed/{name}" not in names[0]] == []
    assert not any("labs" in Path(name).parts for name in names[0])


def test_no_subpackage_has_a_name_of_the_python_interface(wheels):
    reserved = {"run", "load", "read", "sweep", "figure", "report"}
    names = {Path(name).parts[1] for name in zipfile.ZipFile(wheels[0]).namelist()}
    assert not reserved & {Path(name).stem for name in names}


def test_the_package_itself_imports_next_to_nothing():
    program = "import testbed, sys; print([m for m in ('numba', 'numpy') if m in sys.modules])"
    assert run(sys.executable, "-c", program, cwd=ROOT, environment=clean()) == "[]\n"


NEEDED = {"p4engine", "numba", "numpy", "psutil", "pydantic", "pyyaml", "rich", "setuptools"}
ALL_OF_NETWORKS = """
import importlib, importlib.util, pkgutil, sys
import p4fabric
of_mininet = {"p4fabric.emulate.mininet_network", "p4fabric.emulate.nodes"}
of_mininet |= {"p4fabric.emulate.mininet_parts"}
for module in pkgutil.walk_packages(p4fabric.__path__, "p4fabric."):
    if module.name not in of_mininet or importlib.util.find_spec("mininet"):
        importlib.import_module(module.name)
print(p4fabric.__file__, [name for name in sys.modules if name.partition(".")[0] == "testbed"])
"""


NETWORK = f"""
runtime: virtual
network:
  program: {L3}
  hosts: {{h1: {{ip: 10.0.0.1/24}}, h2: {{ip: 10.0.0.2/24}}}}
  switches:
    s1:
      entries:
        - {{table: route, match: {{hdr.ipv4.destination: 10.0.0.2/32}}, action: forward,
           params: {{port: 2, mac: "08:00:00:00:00:02"}}}}
  links: [{{between: [h1, s1-p1]}}, {{between: [h2, s1-p2]}}]
flows: [{{name: f, from: h1, to: h2, packet_rate: 1e5, count: 5}}]
checks: [{{flow: f, received: 5}}]
"""


def test_networks_need_no_testbed(wheels, tmp_path):
    """The wheel of p4fabric, with that of the engine and the libraries that it declares: every
    module can be imported, and a network file runs in virtual time."""
    site = tmp_path / "site"
    words = [*PIP, "install", "--no-deps", "--target", site, *wheels[1:]]
    run(*words, cwd=tmp_path, environment=clean())
    environment = clean(PYTHONPATH=str(site), NUMBA_DISABLE_JIT="1")  # nothing to compile anew
    words = [sys.executable, "-c", ALL_OF_NETWORKS]
    said = run(*words, cwd=tmp_path, environment=environment)
    assert said == f"{site}/p4fabric/__init__.py []\n"
    (tmp_path / "net.yaml").write_text(NETWORK)
    (site / "testbed.py").write_text("raise ImportError('of this environment')")
    for word in ("check", "run"):
        words = [site / "bin" / "p4fabric", word, "net.yaml"]
        said = run(*words, cwd=tmp_path, environment=environment)
    assert "ok      flow f: received == 5 (found 5)" in said
    required = [words for words in metadata(wheels[2]) if words.startswith("Requires-Dist: ")]
    found = {re.split(r"[ ;>=<]", words)[1] for words in required if "extra ==" not in words}
    assert found == NEEDED


def metadata(wheel: Path) -> list[str]:
    """The lines of a wheel's METADATA."""
    with zipfile.ZipFile(wheel) as packed:
        (name,) = (each for each in packed.namelist() if each.endswith(".dist-info/METADATA"))
        return packed.read(name).decode().splitlines()


def test_the_tests_of_networks_stand_by_themselves():
    words = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q"]
    said = run(*words, "--collect-only", cwd=ROOT / "p4fabric", environment=clean())
    for test in (
        "network/test_p4switch.py::test_it_works_in_a_plain_mininet_script",
        "switch/test_virtual_networks.py::test_a_topology_of_the_tutorials_runs",
        "unit/test_load_network.py::test_clones_are_cut_off_where_the_file_says",
    ):
        assert f"tests/{test}\n" in said
    run(*words, "tests/unit/test_command.py", cwd=ROOT / "p4fabric", environment=clean())
    strangers = re.compile(r"(?m)^\s*(?:from|import) (?:testbed|tests|labs)\b")
    files = (ROOT / "p4fabric").rglob("*.py")
    assert not [path for path in files if strangers.search(path.read_text(encoding="utf-8"))]


EXPERIMENT = """
runtime: virtual
topology: {kind: star, hosts: 5}
links: {bandwidth: 1 Gbit/s, delay: 1 us}
system: esa
memory: {aggregators: 64}
jobs: [{model: resnet18, workers: 4, iterations: 1, scale: 0.0005}]
"""


def works(python: Path, folder: Path, environment: dict[str, str]) -> None:
    """A virtual experiment runs in an empty folder with the testbed of that Python alone."""
    folder.mkdir()
    (folder / "mine.yaml").write_text(EXPERIMENT)
    where = run(
        python, "-c", "import testbed; print(testbed.__file__)", cwd=folder, environment=environment
    )
    assert not Path(where.strip()).is_relative_to(ROOT)
    ina = (python, "-c", RUN)
    assert "ina-testbed " in run(*ina, "--version", cwd=folder, environment=environment)
    said = run(*ina, "mine.yaml", cwd=folder, environment=environment)
    assert "all right" in said
    assert list((folder / "results").glob("mine-*/report.html"))
    assert "headline" in run(*ina, "figure", cwd=folder, environment=environment)


def works_here(wheels: list[Path], tmp_path: Path) -> None:
    """The same with the libraries of this environment, and nothing of this checkout."""
    site = tmp_path / "site"
    run(*PIP, "install", "--no-deps", "--target", site, *wheels, cwd=tmp_path, environment=clean())
    # PYTHONPATH goes before the editable installation of the checkout.
    environment = clean(PYTHONPATH=str(site), NUMBA_DISABLE_JIT="1")  # nothing to compile anew
    works(Path(sys.executable), tmp_path / "empty", environment)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_wheels_install_into_a_clean_environment(wheels, tmp_path):
    """With all that they declare, and nothing else; the commands are there. Without a package
    index, they run with the libraries that are here."""
    run(sys.executable, "-m", "venv", tmp_path / "env", cwd=tmp_path, environment=clean())
    binaries = tmp_path / "env" / "bin"
    words = [binaries / "python", *PIP[1:], "install", "--no-compile", *wheels]
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if done.returncode and "o matching distribution" in done.stderr:
        works_here(wheels, tmp_path)
        pytest.skip(f"cannot be installed here: {done.stderr.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    environment = clean(XDG_CACHE_HOME=str(tmp_path / "cache"))
    works(binaries / "python", tmp_path / "empty", environment)
    assert "ina-testbed" in run(
        binaries / "ina", "--version", cwd=tmp_path, environment=environment
    )
    listed = run(
        binaries / "python", *PIP[1:], "list", cwd=tmp_path, environment=environment
    ).lower()
    for package in ("pytest", "playwright", "ruff", "mkdocs", "hypothesis", "finsy", "mypy"):
        assert package not in listed, "a user who runs experiments does not need it"
    shutil.rmtree(tmp_path / "env")
