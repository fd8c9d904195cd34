"""A file system that is full: the folder still says how its run ended."""

from __future__ import annotations

import errno
import os
import re
import shutil
import subprocess

import pytest
from p4fabric.base.errors import RunError, shortage
from p4fabric.base.linux.whole_files import write_whole

from testbed.analysis import report
from testbed.cli import main as commands
from testbed.cli.commands import machine
from testbed.results import ResultsError, Writer, read
from tests.support.paths import ROOT
from tests.support.synthetic_results import ENVIRONMENT, tables, write_run

TEXT = """
name: full
runtime: virtual
topology: {kind: star, hosts: 3}
system: esa
memory: {aggregators: 8}
jobs: [{model: resnet50, scale: 0.001, workers: 2, iterations: 1}]
"""


@pytest.fixture
def small_disk(tmp_path):
    """A folder with a file system of 256 KiB and 64 inodes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k,nr_inodes=64", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("needs the right to mount a file system (root)")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(folder) -> None:
    """Write until nothing more can be written."""
    with (folder / "filler").open("wb", buffering=0) as file:
        try:
            while file.write(b"x" * 512):
                pass
        except OSError:
            pass


def test_a_folder_is_whole_or_not_there(small_disk):
    """With more and more room: 4 KiB more each time, at last enough."""
    folders = []
    for room in range(0, 48, 4):
        fill(small_disk)
        with (small_disk / "filler").open("r+b") as file:
            file.truncate((256 - room) * 1024)
        refused = False
        try:
            Writer.create(small_disk, "full", "name: full\n", ENVIRONMENT)
        except ResultsError as error:
            refused = str(error).endswith("No space left on device")
        folders = [path for path in small_disk.iterdir() if path.is_dir()]
        assert len(folders) == (0 if refused else 1), room
        for folder in folders:
            assert read(folder).state == "running"
            shutil.rmtree(folder)
    assert folders


def test_a_file_that_finds_no_room_leaves_what_was_there(small_disk):
    path = small_disk / "page.html"
    write_whole(path, "old")
    fill(small_disk)
    with pytest.raises(OSError) as told:
        write_whole(path, "new" * 100)
    assert shortage(told.value) == f"the file system of {path} is full; make room on it"
    assert path.read_text() == "old" and len(list(small_disk.iterdir())) == 2


def test_a_file_that_finds_no_inode_is_told_so(small_disk):
    with pytest.raises(OSError) as told:
        for number in range(100):
            write_whole(small_disk / str(number), "")
    said = shortage(told.value)
    assert said.endswith(
        "has room, but no inode for another file; remove files on it, or use another one"
    )
    assert f"of {small_disk}/" in said


def test_a_report_without_room_leaves_the_one_before(small_disk, capsys):
    folder = write_run(small_disk)
    page = folder / "report.html"
    page.write_text("old")
    fill(small_disk)
    os.truncate(small_disk / "filler", (small_disk / "filler").stat().st_size - 24 * 1024)
    assert commands.main(["report", str(folder)]) in (1, 2)
    said = capsys.readouterr().err
    assert f"can't write the report into {folder}: the file system of {folder}" in said
    assert "is full; make room on it" in said
    assert page.read_text() == "old"
    assert all(path.stat().st_size for path in folder.rglob("*.p*"))


def test_what_commands_write_is_written_whole():
    """By `whole` or `write_whole`, and not in its place."""
    folders = "analysis", "testbed/api", "testbed/cli", "testbed/netfile", "testbed/sweeps"
    direct = re.compile(
        r"(?<!draft)\.(write_text|write_bytes)\(|(?<!draft)\.open\(\"[awx]"
        r"|\b(frame|table|DataFrame\(\w+\))\.to_csv\((?!draft|index)"
    )
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for folder in folders
        for path in sorted((ROOT / folder).rglob("*.py"))
        for line in path.read_text().splitlines()
        if direct.search(line)
    ]
    assert not found


@pytest.mark.parametrize("number, refused", [(errno.EOPNOTSUPP, False), (errno.ENOSPC, True)])
def test_only_a_full_disk_refuses_to_reserve(tmp_path, monkeypatch, number, refused):
    """Not every file system can."""

    def fail(*_: int) -> None:
        raise OSError(number, "No room")

    monkeypatch.setattr(os, "posix_fallocate", fail)
    if refused:
        with pytest.raises(ResultsError, match="No room$"):
            Writer.create(tmp_path, "full", "name: full\n", ENVIRONMENT)
        assert not list(tmp_path.iterdir())
    else:
        writer = Writer.create(tmp_path, "full", "name: full\n", ENVIRONMENT)
        writer.interrupt()
        assert read(writer.folder).state == "interrupted"


def test_a_table_that_finds_no_room_fails_the_run_with_the_reason(small_disk):
    made = Writer.create(small_disk, "full", "name: full\n", ENVIRONMENT)
    with pytest.raises(RunError) as told, made as writer:
        writer.write("jobs", tables()["jobs"], repetition=0)
        fill(small_disk)
        writer.write("iterations", tables()["iterations"], repetition=0)
    assert str(told.value).endswith("is full; make room on it")
    results = read(writer.folder)
    assert (results.state, results.error) == ("failed", str(told.value))
    assert len(results.jobs) == 2 and results.iterations.empty
    assert not list(writer.folder.rglob("*.part"))


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(errno.ENOMEM, "Cannot allocate memory"), "memory ran out; "),
        (MemoryError(), "memory ran out; "),
        (OSError(errno.ENOSPC, "No space", "/a/b"), "the file system of /a/b is full; make room"),
        (OSError(errno.EIO, "Input/output error"), "[Errno 5] Input/output error"),
    ],
)
def test_the_folder_and_the_command_give_the_same_cause(
    tmp_path, capsys, monkeypatch, error, words
):
    made = Writer.create(tmp_path, "short", "name: short\n", ENVIRONMENT)
    with pytest.raises(type(error)), made as writer:
        raise error
    said = read(writer.folder).error
    assert said.startswith(words)
    if error.args[:1] == (errno.EIO,):
        return

    def fail(options: object) -> int:
        raise error

    monkeypatch.setattr(machine, "clean", fail)
    assert commands.main(["clean"]) == 1
    assert capsys.readouterr().err == f"failed: {said}\n"


def test_an_interrupted_run_says_so_on_a_full_disk(small_disk):
    made = Writer.create(small_disk, "full", "name: full\n", ENVIRONMENT)
    with pytest.raises(KeyboardInterrupt), made as writer:
        fill(small_disk)
        raise KeyboardInterrupt
    assert read(writer.folder).state == "interrupted"


def test_a_reason_of_any_length_finds_room(small_disk):
    made = Writer.create(small_disk, "full", "name: full\n", ENVIRONMENT)
    with pytest.raises(RunError), made as writer:
        fill(small_disk)
        raise RunError("\n".join(["é"] * 100_000))
    assert read(writer.folder).error.endswith(" ...")


def test_a_run_on_a_disk_that_is_too_small_is_one_message(small_disk, capsys):
    path = small_disk / "full.yaml"
    path.write_text(TEXT)
    with (small_disk / "filler").open("wb") as file:
        file.write(b"x" * (256 - 56) * 1024)
    assert commands.main([str(path), "--results", str(small_disk / "results")]) == 1
    printed = capsys.readouterr().err
    assert printed.startswith("failed: ") and printed.endswith(" is full; make room on it\n")
    (folder,) = (small_disk / "results").iterdir()
    assert read(folder).state == "failed"


@pytest.mark.parametrize("sweep", ["", "\nsweep: {memory.aggregators: [4, 8]}"])
def test_a_report_that_finds_no_room_fails_and_says_that_results_are_whole(
    tmp_path, capsys, monkeypatch, sweep
):
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(report, "_keep", fail)
    monkeypatch.setattr(report, "_show", fail)
    path = tmp_path / "full.yaml"
    path.write_text(TEXT + sweep)
    command = "sweep" if sweep else "run"
    assert commands.main([command, str(path), "--results", str(tmp_path), "--no-report"]) == 1
    said = capsys.readouterr().err
    (folder,) = (each for each in tmp_path.iterdir() if each.is_dir())
    assert f"failed: can't write the report into {folder}: No space left on device. " in said
    assert f" report {folder}" in said
    if not sweep:
        assert read(folder).finished
