"""Compiling for BMv2, with a stand-in for p4c."""

from __future__ import annotations

import pytest
from p4engine_testing import damage
from p4fabric.base.errors import UserError

from testbed.bmv2 import compiler

FAKE = """#!/bin/sh
# p4c, for a test: writes JSON and counts its calls, or complains as p4c does.
echo "$@" >> "$(dirname "$0")/calls"
for word in "$@"; do last=$word; done
if grep -q mistake "$last"; then
  echo "w.p4(1): [--Wwarn=unused] warning: x: unused" >&2
  echo "  bit<8> x;" >&2
  echo "w.p4(2): [--Werror=type-error] error: y: no such thing" >&2
  echo "  y = 1;" >&2
  exit 1
fi
while [ $# -gt 0 ]; do
  if [ "$1" = -o ]; then out=$2; fi
  shift
done
case $out in *.json) ;; *) out=$out/$(basename "$last" .p4).json;; esac
echo '{}' > "$out"
"""


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Installs a fake p4c under a name; returns the arguments of its calls so far."""
    tools, cache = tmp_path / "bin", tmp_path / "cache"
    tools.mkdir()
    cache.mkdir()
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
    monkeypatch.setattr(compiler, "cache_folder", lambda name: cache)

    def install(name: str):
        (tools / name).write_text(FAKE)
        (tools / name).chmod(0o755)
        calls = tools / "calls"
        return lambda: calls.read_text().splitlines() if calls.exists() else []

    return install


@pytest.mark.parametrize("name", ["p4c-bm2-ss", "p4c"])
def test_both_names_of_p4c_make_the_json_once(installed, tmp_path, name):
    calls = installed(name)
    source = tmp_path / "own.p4"
    source.write_text("const bit<8> A = VALUES;\n")
    made = compiler.compile_for_bmv2(source, {"VALUES": 4}, [tmp_path])
    assert made.read_text() == "{}\n"
    assert compiler.compile_for_bmv2(source, {"VALUES": 4}, [tmp_path]) == made
    (call,) = calls()
    assert f"-DVALUES=4 -I{tmp_path} {source}" in call
    assert ("--target bmv2 --arch v1model" in call) == (name == "p4c")
    assert compiler.compile_for_bmv2(source, {"VALUES": 8}, [tmp_path]) != made
    source.write_text("\nconst bit<8> A = VALUES;\n")  # p4c writes lines into the JSON
    assert compiler.compile_for_bmv2(source, {"VALUES": 4}, [tmp_path]) != made
    assert len(calls()) == 3


@pytest.mark.parametrize("damage", damage.WAYS)
def test_a_damaged_file_is_made_again_and_one_line_says_so(installed, tmp_path, capsys, damage):
    calls = installed("p4c")
    source = tmp_path / "own.p4"
    source.write_text("const bit<8> A = VALUES;\n")
    made = compiler.compile_for_bmv2(source, {"VALUES": 4}, [tmp_path])
    assert capsys.readouterr().err == ""
    damage(made)
    assert compiler.compile_for_bmv2(source, {"VALUES": 4}, [tmp_path]) == made
    (line,) = capsys.readouterr().err.splitlines()
    assert line == f"warning: the cached file {made} is damaged and is made again"
    assert made.read_text() == "{}\n" and list(made.parent.iterdir()) == [made]
    assert compiler.compile_for_bmv2(source, {"VALUES": 4}, [tmp_path]) == made
    assert capsys.readouterr().err == "" and len(calls()) == 2


def test_p4c_s_errors_are_shown_and_its_warnings_not(installed, tmp_path):
    installed("p4c-bm2-ss")
    source = tmp_path / "own.p4"
    source.write_text("mistake\n")
    with pytest.raises(UserError) as caught:
        compiler.compile_for_bmv2(source, {}, [])
    lines = str(caught.value).splitlines()
    assert lines[0].endswith(f"/p4c-bm2-ss refuses {source}:")
    assert lines[1:] == ["w.p4(2): [--Werror=type-error] error: y: no such thing", "  y = 1;"]
    assert not list((tmp_path / "cache").iterdir())


def test_a_missing_p4c_is_named(installed):
    with pytest.raises(UserError, match="neither p4c-bm2-ss nor p4c .* `ina doctor` says how"):
        compiler.P4c.find()
