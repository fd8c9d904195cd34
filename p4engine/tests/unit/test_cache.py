"""The cache of compiled programs stays within its bounds."""

from __future__ import annotations

import os
import pwd

import pytest
from p4engine.backend.build import compile_program, compiled_before
from p4engine.backend.cache import cache_folder, prune
from p4engine.frontend.diagnostics import P4Error
from p4engine_testing.programs import source


def test_the_least_recently_used_files_go(tmp_path):
    for folder in ("a program at work", "a program whose compiler was killed"):
        (tmp_path / folder).mkdir()
    os.utime(tmp_path / folder, (1, 1))
    for age, name in enumerate(("new", "newer", "old", "oldest", "middle")):
        rank = {"oldest": 1, "old": 2, "middle": 3, "new": 4, "newer": 5}[name]
        (tmp_path / name).write_text(str(age))
        os.utime(tmp_path / name, (rank, rank))
    prune(tmp_path, most=3)
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"middle", "new", "newer", "a program at work"}


def test_what_was_compiled_is_found_without_its_source(tmp_path):
    path = tmp_path / "program.p4"
    path.write_text(source())
    compiled = compile_program(path, cache=tmp_path / "cache")
    path.unlink()
    found = compiled_before(compiled.so_path)
    assert found is not None and found.cached
    assert (found.so_path, found.info, found.hash, found.warnings) == (
        (compiled.so_path, compiled.info, compiled.hash, compiled.warnings)
    )
    info = compiled.so_path.with_suffix(".json")
    info.write_text(info.read_text()[:-1])
    assert compiled_before(compiled.so_path) is None
    compiled.so_path.unlink()
    assert compiled_before(compiled.so_path) is None


def test_a_hit_counts_as_use(tmp_path):
    path = tmp_path / "program.p4"
    path.write_text(source())
    compiled = compile_program(path)
    os.utime(compiled.so_path, (1, 1))
    again = compile_program(path)
    assert again.cached and again.so_path == compiled.so_path
    assert again.so_path.stat().st_mtime > 1


def test_it_lies_where_the_user_says(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = cache_folder()
    assert folder == tmp_path / "p4engine" and folder.stat().st_mode & 0o777 == 0o700
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(P4Error, match="file/p4engine: Not a directory; set XDG_CACHE_HOME"):
        cache_folder()


def test_a_user_without_an_account_has_the_home_that_the_environment_names(tmp_path, monkeypatch):
    def no_account(user):
        raise KeyError(f"getpwuid(): uid not found: {user}")

    monkeypatch.setattr(pwd, "getpwuid", no_account)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "p4engine"
    monkeypatch.delenv("HOME")
    with pytest.raises(P4Error, match="has no account.*set XDG_CACHE_HOME"):
        cache_folder()
