"""Compiled functions of an installed package: when they are used, and why they are not."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from p4fabric.base.program import import_path
from p4fabric.simulate import shipped_code
from p4fabric.simulate.code_cache import made_with
from p4fabric.simulate.shipped_code import MADE_WITH, own_baseline, why_unused

MODULE = "made_elsewhere"
PROGRAM = f"""
import numpy as np
from p4fabric.simulate import shipped_code
shipped_code.add_shipped({MODULE!r})
from p4fabric.simulate.code_cache import is_shipped
from p4fabric.simulate.event_queue import new_event_queue, put
put(new_event_queue(2), np.int64(1), np.int64(5))
print(sum(put.stats.cache_hits.values()), is_shipped())
"""
BASELINE = own_baseline()
pytestmark = pytest.mark.skipif(BASELINE is None, reason="no packages for this machine")


def ran(cache: Path, path: Path | None = None, **variables: str) -> tuple[list[str], set[Path]]:
    """What PROGRAM prints with this folder for caches and a package in `path`, and the files with
    code that are in the cache then."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache), **variables}
    environment["PYTHONPATH"] = import_path() + (f"{os.pathsep}{path}" if path else "")
    for name in ("NUMBA_DISABLE_JIT", "NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES"):
        if name not in variables:
            environment.pop(name, None)
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.split(), set(cache.rglob("*.nbc"))


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """A folder with the package, compiled for the baseline."""
    site, cache = (tmp_path_factory.mktemp(name) for name in ("site", "cache"))
    assert BASELINE is not None
    said, made = ran(cache, **BASELINE.environment())
    assert said == ["0", "False"] and len(made) == 1
    shutil.copytree(cache / "p4fabric/numba", site / MODULE)
    (site / MODULE / "__init__.py").write_text("")
    (site / MODULE / MADE_WITH).write_text(json.dumps(made_with()))
    return site


def test_what_a_package_has_is_loaded_and_not_compiled(site, tmp_path):
    assert ran(tmp_path, site) == (["1", "True"], set())


def test_what_others_could_have_written_is_compiled_here(site, tmp_path):
    shutil.copytree(site, tmp_path / "site")
    code = next((tmp_path / "site").rglob("*.nbc"))
    code.chmod(0o666)
    said, made = ran(tmp_path / "cache", tmp_path / "site")
    assert said == ["0", "False"] and len(made) == 1


def test_what_is_of_other_sources_is_compiled_here(site, tmp_path):
    shutil.copytree(site, tmp_path / "site")
    (folder,) = (path.parent for path in (tmp_path / "site").rglob("simulate"))
    folder.rename(folder.with_name("0" * 16))
    said, made = ran(tmp_path / "cache", tmp_path / "site")
    assert said == ["0", "False"] and len(made) == 1


@pytest.fixture
def package(tmp_path, monkeypatch):
    """An installed package, found by name."""
    package = tmp_path / MODULE
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / MADE_WITH).write_text(json.dumps(made_with()))
    (package / "made").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(shipped_code, "_PACKAGES", ["not_installed", MODULE])
    monkeypatch.delenv("NUMBA_CPU_NAME", raising=False)
    for cached in (shipped_code.shipped, shipped_code._unusable):
        cached.cache_clear()
    yield package
    for cached in (shipped_code.shipped, shipped_code._unusable):
        cached.cache_clear()


def test_a_package_is_found_by_its_module_and_the_folder(package):
    assert shipped_code.installed() == [package]
    assert shipped_code.shipped("made") == package / "made"
    assert shipped_code.shipped("other") is None
    assert why_unused(package, made_with()) == "it was made of other sources"


def processor_without(monkeypatch, package):
    monkeypatch.setattr(shipped_code, "_host_features", dict)
    return f"this processor has no {BASELINE.features[0]}"


def machine_without(monkeypatch, package):
    monkeypatch.setattr(shipped_code, "BASELINES", {})
    return "there is no code for machines"


def another_processor(monkeypatch, package):
    monkeypatch.setenv("NUMBA_CPU_NAME", "generic")
    return "NUMBA_CPU_NAME asks"


def other_writers(monkeypatch, package):
    package.chmod(0o777)
    return f"others could have written {package}"


@pytest.mark.parametrize(
    "cause", [processor_without, machine_without, another_processor, other_writers]
)
def test_a_package_that_cannot_be_used_is_not_found_and_the_reason_is_told(
    package, monkeypatch, cause
):
    reason = cause(monkeypatch, package)
    assert shipped_code.shipped("made") is None
    assert why_unused(package, made_with()).startswith(reason)


def test_versions_that_differ_are_named(package):
    path = package / MADE_WITH
    path.write_text(json.dumps({**made_with(), "numba": "0.1", "Python": "3.9.0"}))
    own = made_with()
    reason = why_unused(package, own)
    assert f"numba 0.1, not {own['numba']} and Python 3.9.0, not {own['Python']}" in reason
    assert "numpy" not in reason
    for text in ("{", "[]", "{}"):
        path.write_text(text)
        assert why_unused(package, own) == f"{path} cannot be read"
