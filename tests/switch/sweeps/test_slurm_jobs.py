"""Sweeps as SLURM jobs: their settings, what a lost job costs, and a sweep by submitit's executor
of local processes."""

from __future__ import annotations

import builtins
import os
import signal

import pytest
from p4fabric.base.errors import RunError, UserError

from testbed.cli.main import main
from testbed.results import find, read
from testbed.sweeps import slurm_jobs

TEXT = """
name: spread
runtime: {runtime}
topology: {{kind: star, hosts: 3}}
links: {{bandwidth: {rate}, delay: 1 us}}
system: {{name: esa, window: 16}}
memory: {{aggregators: 8}}
jobs:
  - {{name: a, model: resnet18, workers: 2, iterations: 1, scale: 0.0004, compute_scale: 0}}
sweep: {{memory.aggregators: [8, 16]}}
"""


def test_without_the_package_it_is_named(tmp_path, monkeypatch):
    plain = builtins.__import__

    def without(name, *given, **options):
        if name == "submitit":
            raise ImportError(name)
        return plain(name, *given, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(UserError, match="needs the package submitit: .*pip install .*submitit"):
        slurm_jobs.SlurmJobs("partition=short", tmp_path)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("partition", "--slurm: found 'partition'; allowed: KEY=VALUE,..., such as"),
        ("cluster=other", "cluster: found other; allowed: slurm, local"),
        ("cluster=local,partitio=x", "there is no setting 'partitio'; did you mean partition"),
        ("cluster=local,timeout_min=soon", "timeout_min: found 'soon'; allowed: a number"),
    ],
)
def test_settings_that_do_not_exist_are_one_message(settings, message, tmp_path):
    pytest.importorskip("submitit")
    with pytest.raises(UserError) as caught:
        slurm_jobs.SlurmJobs(settings, tmp_path)
    assert message in str(caught.value)


def test_without_slurm_it_says_so(tmp_path, monkeypatch):
    pytest.importorskip("submitit")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="has no SLURM .no command srun.; cluster=local tries"):
        slurm_jobs.SlurmJobs("partition=short", tmp_path)


def test_points_on_mininet_are_refused_before_anything_runs(tmp_path, capsys):
    file = tmp_path / "spread.yaml"
    file.write_text(TEXT.format(runtime="mininet", rate="10 Mbit/s"))
    words = ["sweep", str(file), "--results", str(tmp_path / "results"), "--slurm", "cluster=local"]
    assert main(words) == 2
    assert "2 of these are on Mininet" in capsys.readouterr().err
    assert not (tmp_path / "results").exists()


def double(number: int) -> int:
    return 2 * number


def die(number: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return number


def refuse(number: int) -> int:
    raise ValueError(f"{number} is too much")


@pytest.mark.slow
def test_a_lost_call_costs_itself_alone(tmp_path):
    pytest.importorskip("submitit")
    jobs = slurm_jobs.SlurmJobs("cluster=local,timeout_min=5", tmp_path)
    try:
        doubled, lost, refused = [jobs.submit(call, 21) for call in (double, die, refuse)]
        assert doubled.result(120) == 42
        with pytest.raises(RunError, match="has ended .*; its output is in "):
            lost.result(120)
        with pytest.raises(RunError, match="21 is too much"):
            refused.result(120)
    finally:
        jobs.shutdown(cancel_futures=True)


@pytest.mark.slow
def test_a_sweep_runs_as_jobs_and_goes_on(tmp_path, monkeypatch, capsys):
    pytest.importorskip("submitit")
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")  # a process that is new has nothing to compile
    file, results = tmp_path / "spread.yaml", tmp_path / "results"
    file.write_text(TEXT.format(runtime="virtual", rate="10 Gbit/s"))
    words = ["sweep", str(file), "--no-report", "--results", str(results)]
    assert main([*words, "--slurm", "cluster=local,timeout_min=5"]) == 0
    folder = results / "spread"
    points = [each for each in folder.iterdir() if each.is_dir() and each.name != slurm_jobs.LOGS]
    assert [read(run).state for each in points for run in find(each)] == ["finished"] * 2
    assert list((folder / slurm_jobs.LOGS).glob("*.out"))
    capsys.readouterr()
    assert main([*words, "--slurm", "cluster=local"]) == 0
    assert "2 of 2 points have finished before" in capsys.readouterr().out
