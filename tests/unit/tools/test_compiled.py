"""The wheel of compiled functions: what it holds and requires, and that nothing is missing."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from p4fabric.base.errors import RunError
from p4fabric.simulate import shipped_code
from p4fabric.simulate.code_cache import made_with

from testbed.protocols import COMPILED
from tools import compiled

FUNCTIONS = {"a1/protocols/f.nbi": b"index", "a1/protocols/f.1.nbc": b"code", "b2/loop.nbi": b"b"}


@pytest.fixture
def cache(tmp_path) -> Path:
    """A folder for caches with functions of two packages, and others of which nothing is known."""
    for name, content in {**FUNCTIONS, "c3/protocols/f.nbi": b"other"}.items():
        path = tmp_path / "cache" / compiled.CACHE / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return tmp_path / "cache"


def test_an_installed_wheel_has_the_functions_that_were_compiled(cache, tmp_path, monkeypatch):
    compiled.stage(cache, ["a1", "b2"], tmp_path / "project", "x86-64-v2")
    wheel = compiled.build(tmp_path / "project", tmp_path / "dist")
    assert wheel.name.endswith(f"-{compiled.tag()}.whl")
    site = tmp_path / "site"
    words = ("-m", "pip", "--disable-pip-version-check", "--quiet", "install", "--no-deps")
    subprocess.run([sys.executable, *words, "--target", site, wheel], check=True)
    monkeypatch.syspath_prepend(site)
    monkeypatch.setattr(shipped_code, "_unusable", lambda package: "")
    shipped_code.shipped.cache_clear()
    try:
        package = site / COMPILED
        assert shipped_code.installed() == [package]
        assert [shipped_code.shipped(name) for name in ("a1", "b2", "c3")] == [
            package / "a1",
            package / "b2",
            None,
        ]
        assert {name: (package / name).read_bytes() for name in FUNCTIONS} == FUNCTIONS
        assert shipped_code.why_unused(package, made_with()) == "it was made of other sources"
    finally:
        shipped_code.shipped.cache_clear()
    with zipfile.ZipFile(wheel) as packed:
        (name,) = (each for each in packed.namelist() if each.endswith("/METADATA"))
        metadata = packed.read(name).decode().splitlines()
    own = made_with()
    python = own.pop("Python")
    assert f"Requires-Python: =={python}" in metadata
    pins = {line for line in metadata if line.startswith("Requires-Dist: ")}
    assert pins == {f"Requires-Dist: {library}=={each}" for library, each in own.items()}


def test_a_package_from_which_anything_is_missing_is_refused(cache, tmp_path, monkeypatch):
    called = []

    def loads(folder, environment, parts):
        called.append((folder, environment["PYTHONPATH"].split(":")[0], parts))

    monkeypatch.setattr(compiled, "compile_into", loads)
    compiled.hold_complete(tmp_path / "project", tmp_path / "empty", ["esa:ps"])
    assert called == [(tmp_path / "empty", str(tmp_path / "project"), ["esa:ps"])]
    with pytest.raises(RunError, match=r"lacks 1 functions, such as f\.1\.nbc"):
        compiled.hold_complete(tmp_path / "project", cache, ["esa:ps"])


def test_a_compiler_that_fails_is_told(tmp_path):
    with pytest.raises(RunError, match="cannot be compiled"):
        compiled.compile_into(tmp_path, {}, ["nothing"])
