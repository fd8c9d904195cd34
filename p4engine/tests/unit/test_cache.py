"""The cache of compiled programs stays within its bounds, and has no program that was changed."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import subprocess
import sys

import pytest
from p4engine.backend import build
from p4engine.backend.build import compile_program, compiled_before
from p4engine.backend.c_build import share_runtime
from p4engine.backend.cache import cache_folder, prune
from p4engine.frontend.diagnostics import P4Error
from p4engine_testing import damage
from p4engine_testing.programs import source


@pytest.fixture(scope="module", autouse=True)
def compiled_quickly():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("P4ENGINE_CFLAGS", "-O0")
        yield


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
    compiled.so_path.unlink()
    assert compiled_before(compiled.so_path) is None


@pytest.mark.skipif(shutil.which("clang") is None, reason="needs clang")
def test_clang_compiles_a_program_too(tmp_path, monkeypatch):
    monkeypatch.setenv("CC", "clang")
    (tmp_path / "program.p4").write_text(source())
    assert not compile_program(tmp_path / "program.p4", cache=tmp_path / "cache").cached


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A program, a cache that has it, and the name of what is loaded."""
    folder = tmp_path_factory.mktemp("filled")
    path, cache = folder / "program.p4", folder / "cache"
    path.write_text(source())
    return path, cache, compile_program(path, cache=cache).so_path.name


# Each ending and each way once, and then all pairs.
ENDINGS = ["so", "json", "o", "sources"]
DAMAGED = [
    pytest.param(ending, way, marks=pytest.mark.slow if n % len(ENDINGS) != m else ())
    for m, ending in enumerate(ENDINGS)
    for n, way in enumerate(damage.WAYS)
]


@pytest.mark.parametrize("ending, damage", DAMAGED)
def test_a_damaged_file_is_made_again_and_one_line_says_so(filled, tmp_path, ending, damage):
    """In processes of their own: what is loaded of a damaged file may end the process."""
    (path, kept, so), cache = filled, tmp_path / "cache"
    shutil.copytree(kept, cache)
    whole = {each.name: each.read_bytes() for each in cache.iterdir()}
    for each in cache.glob(f"*.{ending}"):
        damage(each)
    if ending == "o":  # objects are used by what is not compiled yet
        (cache / so).unlink()
    script = (
        "import sys\n"
        "from pathlib import Path\n"
        "from p4engine import compile_program\n"
        "from p4engine.switch.library import Switch\n"
        "made = compile_program(sys.argv[1], cache=Path(sys.argv[2]))\n"
        "Switch(made, ports=[1]).close()\n"
        "print(made.cached)\n"
    )
    for said, cached in ((1, str(ending == "sources")), (0, "True")):
        command = [sys.executable, "-c", script, str(path), str(cache)]
        done = subprocess.run(command, capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (0, f"{cached}\n"), done.stderr
        lines = done.stderr.splitlines()
        assert len(lines) == said, done.stderr
        for line in lines:
            assert re.fullmatch(rf"warning: .* {cache}/\S+\.{ending} is damaged and .*", line)
    assert {each.name: each.read_bytes() for each in cache.iterdir()} == whole


def test_a_damaged_object_of_the_runtime_is_not_shared(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path, other = tmp_path / "program.p4", tmp_path / "other"
    path.write_text(source())
    compile_program(path)
    other.mkdir()
    assert share_runtime(other)
    damage.truncate(next(cache_folder().glob("*.o")))
    assert not share_runtime(other)


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone mounts")
def test_a_cache_from_which_nothing_can_be_loaded_is_named(tmp_path):
    path, cache = tmp_path / "program.p4", tmp_path / "cache"
    path.write_text(source())
    cache.mkdir()
    mount = f"mount -t tmpfs -o noexec none {cache}"
    command = f"{mount} && XDG_CACHE_HOME={cache} {sys.executable} -m p4engine compile {path}"
    done = subprocess.run(["unshare", "-m", "sh", "-c", command], capture_output=True, text=True)
    assert done.returncode != 0
    (line,) = done.stderr.splitlines()
    assert f"{cache}/p4engine is on a file system that is mounted noexec" in line
    assert "set XDG_CACHE_HOME" in line


def test_a_hit_counts_as_use(tmp_path):
    path = tmp_path / "program.p4"
    path.write_text(source())
    compiled = compile_program(path)
    os.utime(compiled.so_path, (1, 1))
    again = compile_program(path)
    assert again.cached and again.so_path == compiled.so_path
    assert again.so_path.stat().st_mtime > 1


def test_a_program_that_is_as_it_was_is_not_preprocessed_again(tmp_path, monkeypatch):
    (tmp_path / "part.p4").write_text("const bit<8> ADDED = 3;\n")
    path = tmp_path / "program.p4"
    path.write_text(
        '#include "part.p4"\n' + source(apply="hdr.h.a = hdr.h.a + (bit<32>)ADDED * N;")
    )
    first = compile_program(path, {"N": 1})
    other = compile_program(path, {"N": "2"})
    assert other.hash != first.hash

    def preprocessed(*_):
        raise AssertionError("preprocessed again")

    with monkeypatch.context() as patch:
        patch.setattr(build, "_preprocess", preprocessed)
        for definitions, then in (({"N": 1}, first), ({"N": "2"}, other), ({"N": "1"}, first)):
            again = compile_program(path, definitions)
            assert again.cached and (again.hash, again.so_path) == (then.hash, then.so_path)
            assert again.info == then.info
    assert compile_program(path, {"N": 1}, trace=True).hash != first.hash


def test_another_process_does_not_preprocess_it_again_either(tmp_path):
    path, cache = tmp_path / "program.p4", tmp_path / "cache"
    path.write_text(source())
    compiled = compile_program(path, cache=cache)
    script = (
        "import sys\n"
        "from pathlib import Path\n"
        "from p4engine.backend import build\n"
        "made = build.compile_program(sys.argv[1], cache=Path(sys.argv[2]))\n"
        "print(made.hash, 'p4engine.frontend.preprocessor.preprocess' in sys.modules)\n"
    )
    command = [sys.executable, "-c", script, str(path), str(cache)]
    for text, preprocessed in ((source(), False), ("\n" + source(), True)):
        path.write_text(text)
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        name, asked = done.stdout.split()
        assert asked == str(preprocessed) and (name == compiled.hash) != preprocessed


def test_a_file_that_has_changed_is_noticed(tmp_path):
    path, part = tmp_path / "program.p4", tmp_path / "part.p4"
    path.write_text('#include "part.p4"\n' + source(apply="hdr.h.a = hdr.h.a + (bit<32>)ADDED;"))
    part.write_text("const bit<8> ADDED = 3;\n")
    first, then = compile_program(path), part.stat()
    part.write_text("const bit<8> ADDED = 4;\n")
    os.utime(part, ns=(then.st_atime_ns, then.st_mtime_ns))  # neither time nor length tells
    changed = compile_program(path)
    assert changed.hash != first.hash
    part.write_text("const bit<8> OTHER = 4;\n")
    with pytest.raises(P4Error, match="ADDED"):
        compile_program(path)
    part.write_text("const bit<8> ADDED = 3;\n")
    again = compile_program(path)
    assert again.cached and again.hash == first.hash
    part.unlink()
    with pytest.raises(P4Error, match="cannot find the include file"):
        compile_program(path)


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
