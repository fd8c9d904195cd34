"""What is to be a package of its own, for networks of P4 switches, stands alone: it imports nothing
of the testbed beside it, and speaks of nothing that is the testbed's business."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.paths import ROOT

# Modules and whole packages, by the package that they are to be in.
HOUSE = {
    "base": (
        "errors units text_table steps topology flow plugins config linux routing.hops"
        " runtimes.interrupts analysis.data.ties"
    ),
    "emulate": "network machine.network_needs emulate.network_session emulate.prompt",
    "simulate": (
        "code_cache protocols.jit protocols.callees protocols.records protocols.mixing"
        " workload.machine workload.native workload.placed_machine workload.generator"
        " workload.flow_machine workload.tcp_model simulate.event_queue simulate.frames"
        " simulate.state simulate.wiring simulate.loop simulate.taps simulate.captures"
        " simulate.packing simulate.frame_world runtimes.captured_ports"
    ),
    "netfile": (
        "analysis.laws.law analysis.laws.network_file netfile.flow_packets netfile.host_routes"
        " netfile.import_topology netfile.install_entries netfile.json_parts netfile.load_network"
        " netfile.network_run netfile.network_schema netfile.p4_utils netfile.p4lang"
        " netfile.plain_network netfile.python_host netfile.python_object netfile.virtual_checks"
        " netfile.virtual_command netfile.virtual_network netfile.virtual_plan"
        " netfile.virtual_results netfile.virtual_run netfile.virtual_schema netfile.virtual_tables"
    ),
}
BELOW = {"base": (), "emulate": ("base",), "simulate": ("base",), "netfile": tuple(HOUSE)}
PATHS = "paths"  # places of this checkout's files, which `network` asks for
FOREIGN = r"\b(jobs?|gradients?|workers?|aggregat\w+|training|ina|esa|atp|a2tp|switchml)\b"


def path_of(module: str) -> Path:
    path = ROOT / "testbed" / module.replace(".", "/")
    return path if path.is_dir() else path.with_suffix(".py")


def files(package: str) -> Iterator[Path]:
    for name in HOUSE[package].split():
        path = path_of(name)
        yield from path.rglob("*.py") if path.is_dir() else (path,)


def imports(path: Path) -> Iterator[str]:
    """The modules of the testbed that a file imports, without its name."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "testbed":
            for alias in node.names:
                whole = f"{node.module}.{alias.name}".removeprefix("testbed.")
                yield whole if path_of(whole).exists() else whole.rpartition(".")[0]
        elif isinstance(node, ast.Import):
            names = (alias.name for alias in node.names)
            yield from (name[8:] for name in names if name.startswith("testbed."))


@pytest.mark.parametrize("package", HOUSE)
def test_a_package_imports_itself_and_those_below_it(package):
    allowed = [each for name in (package, *BELOW[package]) for each in HOUSE[name].split()]
    allowed += [PATHS] if package == "emulate" else []
    wrong = [
        f"{path.relative_to(ROOT)}: {module}"
        for path in files(package)
        for module in imports(path)
        if not any(module == each or module.startswith(f"{each}.") for each in allowed)
    ]
    assert wrong == []


@pytest.mark.parametrize("package", ["simulate", "netfile"])
def test_a_package_names_no_system_no_job_and_no_gradient(package):
    words = re.compile(FOREIGN, re.IGNORECASE)
    lines = [
        f"{path.relative_to(ROOT)}: {line}"
        for path in files(package)
        for line in path.read_text().splitlines()
        if words.search(re.sub(r"testbed[\w./]*", "", line))
    ]
    assert lines == []


NETWORK = f"""
runtime: virtual
virtual: {{duration: 20 us}}
network:
  program: {ROOT}/examples/incast/marking.p4
  hosts: {{h1: {{ip: 10.0.0.1/24}}, h2: {{ip: 10.0.0.2/24, answer: {{}}}}}}
  switches:
    s1:
      entries:
        - {{table: route, match: {{hdr.ipv4.destination: 10.0.0.2/32}}, action: forward,
           params: {{port: 2}}}}
  links: [{{between: [h1, s1-p1], delay: 1 us}}, {{between: [h2, s1-p2], delay: 1 us}}]
flows: [{{name: steady, from: h1, to: h2, rate: 1 Gbit/s}}]
checks: [{{flow: steady, received: ">= 2"}}]
"""

ALONE = """
import sys
from importlib.abc import MetaPathFinder
from pathlib import Path
from types import ModuleType

root, known = Path.cwd() / "testbed", sys.argv[2].split()

class Refused(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.startswith("testbed.") and not f"{name[8:]}.".startswith(
            tuple(f"{each}." for each in known)
        ):
            raise ImportError(f"{name} is not of this house")

import testbed
for name in known:  # folders that also have what is not of the house, without that
    parts = name.split(".")[:-1]
    for folder in (".".join(parts[: n + 1]) for n in range(len(parts))):
        empty = sys.modules.setdefault(f"testbed.{folder}", ModuleType(f"testbed.{folder}"))
        empty.__path__ = [str(root / folder.replace(".", "/"))]
sys.meta_path.insert(0, Refused())
from testbed.netfile.load_network import load_network
from testbed.netfile.virtual_command import run_virtual
sys.exit(run_virtual(load_network(sys.argv[1]), Path(sys.argv[3])))
"""


def test_a_network_file_runs_in_virtual_time_without_the_rest(tmp_path):
    path = tmp_path / "net.yaml"
    path.write_text(NETWORK)
    known = " ".join(HOUSE.values())
    command = [sys.executable, "-c", ALONE, str(path), known, str(tmp_path / "results")]
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "steady" in done.stdout
