"""A wheel of all compiled functions of this checkout, so that who installs it need not compile.

    .venv/bin/python -m tools.compiled [-o FOLDER]

compiles for the baseline of this type of machine (p4fabric/simulate/shipped_code.py), holds that
nothing is missing, and makes `ina_testbed_compiled-*.whl` in dist/. That takes some minutes. The
wheel serves this Python, these sources and these versions of the libraries, which it requires.
setup.sh installs it where it finds it (DEVELOPERS.md, "A release").
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

from p4engine.module_start import module_command
from p4fabric.base.errors import RunError
from p4fabric.simulate.code_cache import directories, made_with
from p4fabric.simulate.shipped_code import MADE_WITH, own_baseline

from testbed.cli.warm import protocols
from testbed.protocols import COMPILED

ROOT = Path(__file__).resolve().parents[1]
CACHE = Path("p4fabric", "numba")  # in a folder for caches
PROJECT = """\
[build-system]
requires = ["hatchling>=1.21"]
build-backend = "hatchling.build"

[project]
name = "{name}"
version = "{version}"
description = "Compiled functions of ina-testbed, for processors of type {cpu} and newer"
requires-python = "=={python}"
license = "Apache-2.0"
dependencies = [{pins}]

[tool.hatch.build.targets.wheel]
packages = ["{module}"]

[tool.hatch.build.targets.wheel.hooks.custom]
path = "tag.py"
"""
TAG = """\
from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Tag(BuildHookInterface):
    def initialize(self, version, build_data):
        build_data.update(tag="{tag}", pure_python=False)
"""


def tag() -> str:
    """Of wheels for this Python and machine; setup.sh works it out, too."""
    python = "cp{}{}".format(*sys.version_info[:2])
    return f"{python}-{python}-linux_{platform.machine()}"


def compile_into(cache: Path, environment: Mapping[str, str], parts: Sequence[str] = ()) -> None:
    """Fill a folder for caches, in other processes: with all parts of `testbed.cli.warm` at a time,
    or with these, one after the other. Raises RunError."""
    words = ["--all"] if not parts else [word for part in parts for word in ("--part", part)]
    command = module_command("testbed.cli.warm", *words)
    variables = {**os.environ, **environment, "XDG_CACHE_HOME": str(cache)}
    variables.pop("NUMBA_DISABLE_JIT", None)
    if subprocess.run(command, cwd=ROOT, env=variables).returncode:
        raise RunError("what the package is made of cannot be compiled (see above)")


def stage(cache: Path, folders: Sequence[str], project: Path, cpu: str) -> None:
    """Make a project of the folders with these names in a folder for caches."""
    package = project / COMPILED
    for name in folders:
        shutil.copytree(cache / CACHE / name, package / name)
    (package / "__init__.py").write_text('"""Compiled functions, which p4fabric looks for."""\n')
    (package / MADE_WITH).write_text(json.dumps(made_with()))
    libraries = {name: each for name, each in made_with().items() if name != "Python"}
    (project / "pyproject.toml").write_text(
        PROJECT.format(
            name=COMPILED.replace("_", "-"),
            module=COMPILED,
            version=version("ina-testbed"),
            cpu=cpu,
            python=platform.python_version(),
            pins=", ".join(f'"{name}=={each}"' for name, each in libraries.items()),
        )
    )
    (project / "tag.py").write_text(TAG.format(tag=tag()))


def hold_complete(project: Path, cache: Path, parts: Sequence[str]) -> None:
    """Load these parts from the package with an empty folder for caches. Raises RunError if
    anything was compiled."""
    path = os.pathsep.join((str(project), os.environ.get("PYTHONPATH", "")))
    compile_into(cache, {"PYTHONPATH": path}, parts)
    if made := sorted(path.name for path in (cache / CACHE).rglob("*.nbc")):
        raise RunError(f"the package lacks {len(made)} functions, such as {made[0]}")


def build(project: Path, folder: Path) -> Path:
    """The wheel of a project, in this folder. Raises RunError."""
    words = ("wheel", "--no-deps", "--no-build-isolation", "--quiet", "-w", str(folder))
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *words, str(project)]
    if subprocess.run(command).returncode:
        raise RunError("the wheel cannot be built (see above)")
    return max(folder.glob(f"{COMPILED}-*-{tag()}.whl"), key=lambda path: path.stat().st_mtime_ns)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "dist", metavar="FOLDER")
    folder = parser.parse_args().output.resolve()
    baseline = own_baseline()
    if baseline is None:
        print(f"error: no baseline for machines of type {platform.machine()}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as name:
        cache, project, empty = (Path(name, each) for each in ("cache", "project", "empty"))
        try:
            compile_into(cache, baseline.environment())
            stage(cache, [each.name for each in directories()], project, baseline.cpu)
            hold_complete(project, empty, protocols(everything=True))
            wheel = build(project, folder)
        except RunError as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
    print(f"{wheel} ({wheel.stat().st_size / 1e6:.1f} MB)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
