"""Whole sweeps in virtual time: side by side, resumed, with a point that fails."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from p4engine_testing.leftovers import children_of
from p4fabric.base.errors import UserError
from p4fabric.base.linux.processes import Identity

from testbed.cli.main import main
from testbed.experiment.sweep_file import load_sweep
from testbed.results import find, read
from testbed.sweeps import dask_cluster
from testbed.sweeps.sweep_runner import run_sweep
from tests.support.paths import P4, ROOT

TEXT = """
name: swept
runtime: virtual
topology: {{kind: star, hosts: 4}}
links: {{bandwidth: 100 Mbit/s}}
system: esa
memory: {{aggregators: 64}}
jobs: [{{model: resnet18, workers: 3, iterations: 1, scale: 0.0005, compute_scale: 0}}]
sweep:
  {sweep}
"""


@pytest.fixture
def swept(tmp_path: Path):
    """swept(sweep, **options): run it; returns the exit code and {point's key: its runs}."""

    def run(sweep: str, **options):
        path = tmp_path / "swept.yaml"
        path.write_text(TEXT.format(sweep=sweep))
        code = run_sweep(load_sweep(path), tmp_path / "results", report=False, **options)
        folder = tmp_path / "results" / "swept"
        return code, {each.name: find(each) for each in folder.iterdir() if find(each)}

    return run


def test_a_sweep_resumes(swept, tmp_path, capsys):
    """With more points, of which one fails and does not stop the other."""
    code, first = swept("system: [esa, switchml]", processes=2)
    assert code == 0 and len(first) == 2
    assert all(read(run).finished for (run,) in first.values())
    folder = tmp_path / "p4"
    shutil.copytree(P4, folder)
    memory = folder / "value_memory.p4"
    text = memory.read_text()
    assert text.count("EACH_VALUE(SUM_VALUE)") == 2  # of integers, and of other formats
    memory.write_text(
        text.replace(
            "EACH_VALUE(SUM_VALUE)",
            "hdr.values.v05 = hdr.values.v05 + 1; EACH_VALUE(SUM_VALUE)",
        )
    )
    wrong = f"{{name: esa, program: {folder / 'esa.p4'}}}"
    code, second = swept(f"system: [{wrong}, atp, esa, switchml]", processes=1)
    assert code == 1 and len(second) == 4
    assert {key: second[key] for key in first} == first
    added = {key: read(run).state for key, (run,) in second.items() if key not in first}
    assert sorted(added.values()) == ["failed", "finished"]
    printed = capsys.readouterr()
    assert "2 of 4 points have finished before" in printed.out
    assert "1 of 2: failed: " in printed.out and "2 of 2: done: system=atp" in printed.out
    assert "wrong value: job resnet18-0, iteration 0" in printed.err


def test_parts_of_a_sweep_run_apart_into_one_folder(swept, tmp_path, capsys):
    """As the jobs of a job array; each point is run once, and the last part reports."""
    sweep = "system: [esa, switchml, ring]"
    code, first = swept(sweep, processes=1, part=(2, 2))
    assert code == 0 and len(first) == 1
    printed = capsys.readouterr().out
    assert "part 2 of 2 has ended; 2 of 3 points are missing" in printed
    assert f"report {tmp_path / 'results' / 'swept'}" in printed and "Points" not in printed
    code, both = swept(sweep, processes=1, part=(1, 2))
    assert code == 0 and len(both) == 3 and both.items() > first.items()
    assert "missing" not in (printed := capsys.readouterr().out) and "Points" in printed
    _, again = swept(sweep, processes=1, part=(2, 2))
    assert again == both and "1 of 1 points have finished before" in capsys.readouterr().out
    with pytest.raises(UserError, match="4 parts of a sweep of 3 points: take fewer"):
        swept(sweep, part=(1, 4))


@pytest.mark.parametrize("words", ["0/3", "4/3", "3", "a/3", "1/0", "-1/3"])
def test_a_part_is_one_of_several(words, tmp_path, capsys):
    path = tmp_path / "swept.yaml"
    path.write_text(TEXT.format(sweep="system: [esa, ring]"))
    assert main(["sweep", str(path), f"--points={words}"]) == 2
    assert f"found {words!r}; allowed: K/N, such as 3/10" in capsys.readouterr().err


def test_a_point_without_a_sound_program_is_named_first(swept, tmp_path):
    program = tmp_path / "empty.p4"
    program.write_text("")
    with pytest.raises(UserError, match=r"no 'main'(.|\n)*at the sweep's point system=esa \(prog"):
        swept(f"system: [esa, {{name: esa, program: {program}}}]")
    assert not (tmp_path / "results").exists()


def test_a_missing_scheduler_is_one_message(swept, monkeypatch):
    monkeypatch.setattr(dask_cluster, "CONNECT_TIMEOUT", "500ms")
    with pytest.raises(UserError, match="Dask scheduler|package distributed"):
        swept("seed: [1]", dask="tcp://127.0.0.1:9")


def test_an_interrupt_ends_the_sweep_and_says_what_is_kept(tmp_path):
    path = tmp_path / "swept.yaml"
    path.write_text(TEXT.format(sweep="jobs[0].iterations: [1, 20000]"))
    options = ["--no-report", "--processes", "1"]
    words = [sys.executable, str(ROOT / "run.py"), "sweep", str(path), *options]
    process = subprocess.Popen(
        [*words, "--results", str(tmp_path / "results")],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    for line in process.stdout:
        if "1 of 2: done" in line:
            break
    workers = children_of(process.pid)
    assert workers
    process.send_signal(signal.SIGINT)  # to it alone; its processes are not told
    _, error = process.communicate()
    assert process.returncode == 130
    again = f"{' '.join(words[2:])} --results {tmp_path / 'results'}` goes on with the others"
    assert "1 of 2 points are kept in" in error and again in error
    ended_by = time.monotonic() + 30  # whoever inherits them has to notice
    while any(Identity.of(pid) for pid in workers) and time.monotonic() < ended_by:
        time.sleep(0.05)
    assert not any(Identity.of(pid) for pid in workers)
