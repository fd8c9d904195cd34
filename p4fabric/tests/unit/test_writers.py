"""Users who could have written a file: its owner, and those whom modes of folders let in."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from p4fabric.base.linux import writers
from p4fabric.base.linux.writers import writable_by_others


@pytest.fixture
def package(tmp_path) -> Path:
    """A folder with a file in a folder, below one that others can read."""
    (tmp_path / "above/package/deep").mkdir(parents=True)
    (tmp_path / "above/package/deep/code").write_text("")
    for path in (tmp_path / "above").rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return tmp_path / "above/package"


def test_what_only_its_owner_writes_is_nobody_else_s(package):
    assert writable_by_others(package) is None
    assert writable_by_others(package / "deep/code") is None


PLACES = ("..", ".", "deep", "deep/code")


@pytest.mark.parametrize("place", PLACES)
def test_a_place_that_all_can_write_is_found_wherever_it_is(package, place):
    path = (package / place).resolve()
    path.chmod(path.stat().st_mode | 0o002)
    assert writable_by_others(package) == path


@pytest.mark.parametrize("place", PLACES)
def test_a_place_that_a_group_can_write_is_found_if_the_group_has_other_members(
    package, place, monkeypatch
):
    path = (package / place).resolve()
    path.chmod(path.stat().st_mode | 0o020)
    members = {0, os.geteuid()}
    monkeypatch.setattr(writers, "_members", lambda group: members)
    assert writable_by_others(package) is None
    members.add(1234)
    assert writable_by_others(package) == path


def test_members_of_a_group_are_those_who_begin_in_it_and_those_whom_it_lists(monkeypatch):
    """A group of which nothing is known may have any."""
    users = {name: SimpleNamespace(pw_uid=uid, pw_gid=7) for name, uid in (("a", 1), ("b", 2))}
    users["b"].pw_gid = 8
    monkeypatch.setattr(writers.pwd, "getpwall", users.values)
    monkeypatch.setattr(writers.pwd, "getpwnam", users.__getitem__)
    listed = {7: ["b"], 8: [], 9: ["unknown"]}
    monkeypatch.setattr(writers.grp, "getgrgid", lambda gid: SimpleNamespace(gr_mem=listed[gid]))
    members = writers._members.__wrapped__
    assert [members(group) for group in (7, 8, 9, 10)] == [{1, 2}, {2}, {-1}, {-1}]


def test_a_folder_like_tmp_is_fine_above_and_not_in_it(package):
    package.parent.chmod(0o1777)
    assert writable_by_others(package) is None
    package.chmod(0o1777)
    assert writable_by_others(package) == package


def test_a_link_in_it_leads_anywhere(package):
    (package / "link").symlink_to(package / "deep")
    assert writable_by_others(package) == package / "link"


def test_what_is_not_there_is_nobody_s(package):
    assert writable_by_others(package / "no/such") == package / "no"


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a file away, so it has to be root")
@pytest.mark.parametrize("place", PLACES)
def test_another_owner_is_found_unless_its_code_runs_already(package, place, monkeypatch):
    path = (package / place).resolve()
    os.chown(path, 1234, -1)
    assert writable_by_others(package) == path
    here = package / "module.py"
    here.write_text("")
    os.chown(here, 1234, -1)
    monkeypatch.setattr(writers, "__file__", str(here))
    assert writable_by_others(package) is None


def test_set_up_asks_before_anything_is_installed(package):
    command = [sys.executable, "-I", "-S", writers.__file__, package / "deep/code"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == ""
    package.chmod(0o777)
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == str(package)
