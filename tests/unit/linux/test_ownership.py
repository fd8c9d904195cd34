"""Files that root makes belong to the user behind sudo."""

import os

import pytest
from p4fabric.base.linux import ownership

from testbed.results import hand_over
from tests.support.synthetic_results import write_run


@pytest.fixture
def sudo(monkeypatch):
    if os.geteuid() != 0:
        pytest.skip("needs root: files are handed over only by root")
    monkeypatch.setenv("SUDO_UID", "12345")
    monkeypatch.setenv("SUDO_GID", "12346")


@pytest.mark.usefixtures("sudo")
def test_everything_belongs_to_the_user_behind_sudo(tmp_path):
    folder = write_run(tmp_path / "new" / "results")
    owners = {(path.stat().st_uid, path.stat().st_gid) for path in [folder, *folder.rglob("*")]}
    assert owners == {(12345, 12346)}
    assert (tmp_path / "new").stat().st_uid == 12345
    assert tmp_path.stat().st_uid == 0


@pytest.mark.usefixtures("sudo")
def test_handing_over_follows_no_link_and_takes_no_file_with_two_names(tmp_path):
    outside = tmp_path / "outside"
    outside.write_text("")
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "symbolic").symlink_to(outside)
    twice = tmp_path / "twice"
    twice.write_text("")
    (theirs / "hard").hardlink_to(twice)
    (theirs / "own").write_text("")
    hand_over(theirs, below=True)
    assert (theirs / "own").stat().st_uid == 12345
    assert outside.stat().st_uid == 0
    assert (theirs / "hard").stat().st_uid == 0


@pytest.mark.parametrize("uid", ["0", "", "me"])
def test_without_a_user_behind_sudo_owners_stay(monkeypatch, uid):
    monkeypatch.setenv("SUDO_UID", uid)
    monkeypatch.setenv("SUDO_GID", "0")
    assert ownership.user_behind() is None
