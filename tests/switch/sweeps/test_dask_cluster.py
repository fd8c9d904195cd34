"""Sweeps on a Dask cluster: which workers may run points, and what a killed one costs."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from testbed.cli.main import main
from testbed.errors import UserError
from testbed.results import find, read
from testbed.sweeps import dask_cluster

TEXT = """
name: spread
runtime: virtual
topology: {kind: star, hosts: 3}
links: {bandwidth: 10 Gbit/s, delay: 1 us}
system: {name: esa, window: 16}
memory: {aggregators: 8}
jobs:
  - {name: a, model: resnet18, workers: 2, iterations: 1, scale: 0.0004, compute_scale: 0}
sweep: {memory.aggregators: [8, 16, 32, 64]}
"""


class Cluster:
    """A client whose workers have said these things."""

    def __init__(self, **said) -> None:
        self.said = said

    def run(self, function, on_error):
        assert function is dask_cluster.describe and on_error == "return"
        return self.said


def test_workers_must_have_the_same_testbed():
    here = dask_cluster.describe()
    assert dask_cluster.check_workers(Cluster(w1=here, w2=dict(here)), "tcp://x") is not None
    # A commit that is not known, of an installed package, says nothing.
    dask_cluster.check_workers(Cluster(w1=here | {"commit": None}), "tcp://x")
    cases = [
        ({}, "has no worker"),
        (
            # As Dask hands it on: the worker fails before it calls anything.
            {"w1": here, "w2": Exception("ModuleNotFoundError(\"No module named 'testbed'\")")},
            r"w2 lacks the testbed \(No module named 'testbed'\); install both packages there",
        ),
        ({"w1": ValueError("odd")}, "w1 cannot load the testbed: odd"),
        ({"w1": here | {"numba": "0.1", "machine": "m9"}}, "w1 on m9 has numba 0.1"),
    ]
    for said, words in cases:
        with pytest.raises(UserError, match=words) as error:
            dask_cluster.check_workers(Cluster(**said), "tcp://x")
        assert "\n" not in str(error.value)


def test_points_on_mininet_need_workers_that_are_root():
    here = dask_cluster.describe()
    workers = {"w1": here | {"root": True}, "w2": here | {"root": False}}
    found = dask_cluster.check_workers(Cluster(**workers), "tcp://x")
    assert dask_cluster.root_workers(found) == ["w1"]
    with pytest.raises(UserError, match="workers that run as root"):
        dask_cluster.root_workers({"w2": found["w2"]})


@pytest.mark.slow
def test_a_worker_that_is_killed_costs_no_point(tmp_path, monkeypatch):
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr("testbed.runtimes.interrupts.install", lambda: None)
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")  # a worker that is new has nothing to compile
    file, results = tmp_path / "spread.yaml", tmp_path / "results"
    file.write_text(TEXT)
    folder = results / "spread"
    killed: list[int] = []
    ended = threading.Event()

    def kill(cluster) -> None:
        """End a worker's process while it runs a point."""
        while not killed and not ended.is_set():
            if list(folder.glob("*/*/status.json")):
                with distributed.Client(cluster) as client:
                    pids = client.run(os.getpid)
                os.kill(next(iter(pids.values())), signal.SIGKILL)
                killed.extend(pids.values())
            time.sleep(0.02)

    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None
    ) as cluster:
        thread = threading.Thread(target=kill, args=(cluster,))
        thread.start()
        words = ["sweep", str(file), "--dask", cluster.scheduler_address, "--no-report"]
        monkeypatch.chdir(tmp_path)  # a relative folder is that of who asks
        code = main([*words, "--results", "results"])
        ended.set()
        thread.join()
    assert killed and code == 0
    points = [path for path in folder.iterdir() if path.is_dir()]
    runs = {path.name: [read(run).state for run in find(path)] for path in points}
    assert len(runs) == 4 and all(states == ["finished"] for states in runs.values()), runs
