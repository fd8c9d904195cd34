"""The course's example on Mininet: three levels, and a result file of each rank."""

from __future__ import annotations

import subprocess
import sys

import pytest
from p4fabric.base.program import import_path
from p4fabric_testing import ROOT

COURSE = ROOT / "examples" / "course"


def levels(script, folder, *words):
    return subprocess.run(
        [sys.executable, str(script), *words, "--chunks", "8", "--results", str(folder)],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": import_path(), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
    )


def test_all_levels_pass_and_each_rank_leaves_its_sums(tmp_path):
    done = levels(COURSE / "levels.py", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines() == [f"level {level}: passed" for level in (1, 2, 3)]
    for level in (1, 2, 3):
        files = [tmp_path / f"level-{level}-rank-{rank}.txt" for rank in range(4)]
        assert len({file.read_text() for file in files}) == 1
        assert len(files[0].read_text().splitlines()) == 8


@pytest.mark.slow
def test_sums_that_are_wrong_are_told_by_file_and_chunk(tmp_path):
    for name in ("levels.py", "worker.py", "sums.p4"):
        text = (COURSE / name).read_text().replace("sum + numbers", "sum")
        (tmp_path / name).write_text(text)
    done = levels(tmp_path / "levels.py", tmp_path, "2")
    assert done.returncode == 1
    assert "level 2: failed" in done.stdout
    assert "level-2-rank-0.txt: chunk 0 is wrong" in done.stdout
