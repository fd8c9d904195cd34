"""Sweeps on a Dask cluster: which workers may run points, and what a killed one costs."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest
import yaml
from p4fabric.base.errors import UserError

from testbed.cli.main import main
from testbed.results import find, read
from testbed.sweeps import dask_cluster
from tests.support.experiments import SMALL
from tests.support.paths import ROOT

PAGE = ROOT / "docs/dask.md"
TEXT = SMALL.replace("small", "spread") + "sweep: {memory.aggregators: [8, 16, 32, 64]}\n"


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
            r"w2 lacks the testbed \(No module named 'testbed'\); install all three packages there",
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


@pytest.fixture
def distributed(tmp_path):
    """Dask's package, whose schedulers and workers keep their files in the test's folder."""
    package = pytest.importorskip("distributed")
    import dask

    with dask.config.set({"temporary-directory": str(tmp_path / "dask")}):
        yield package


@pytest.mark.slow
def test_a_worker_that_is_killed_costs_no_point(tmp_path, monkeypatch, distributed):
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


@pytest.mark.parametrize(
    ("address", "is_open"),
    [
        ("tcp://first:8786", True),
        ("first:8786", True),
        ("tcp://10.0.0.1:8786", True),
        ("tcp://0.0.0.0:8786", True),
        ("tcp://[2001:db8::1]:8786", True),
        ("tls://first:8786", False),
        ("tcp://127.0.0.1:8786", False),
        ("127.0.0.1:8786", False),
        ("tcp://localhost:8786", False),
        ("tcp://[::1]:8786", False),
    ],
)
def test_a_scheduler_that_others_reach_without_tls_is_warned_of(address, is_open):
    assert bool(dask_cluster.exposure(address)) is is_open


def certificates(folder: Path, authority: str) -> None:
    """Make an authority and a member with the commands of the page, in a new folder."""
    folder.mkdir()
    commands = re.findall(r"^openssl .*$", PAGE.read_text(), re.MULTILINE)
    assert len(commands) == 2
    for command in commands:
        words = shlex.split(command.replace("/CN=cluster", f"/CN={authority}"))
        subprocess.run(words, cwd=folder, check=True, capture_output=True)


def configuration(folder: Path) -> dict:
    """The settings of the page's configuration, with the files in `folder`."""
    (text,) = re.findall(r"```yaml\n(distributed:\n.*?)```", PAGE.read_text(), re.DOTALL)
    settings = {}
    waiting = [("", yaml.safe_load(text.replace("/shared/keys", str(folder))))]
    for prefix, values in waiting:
        for key, value in values.items():
            if isinstance(value, dict):
                waiting.append((f"{prefix}{key}.", value))
            else:
                settings[prefix + key] = value
    return settings


def test_certificates_that_are_missing_or_broken_are_named(tmp_path):
    pytest.importorskip("distributed")
    import dask

    certificates(tmp_path / "keys", "cluster")
    address = "tls://127.0.0.1:1"
    with (
        dask.config.set({"distributed.comm.tls.ca-file": None}),
        pytest.raises(UserError, match=r"has no distributed.comm.tls.ca-file; set it"),
    ):
        dask_cluster._check_certificates(address)
    with dask.config.set(configuration(tmp_path / "keys")):
        dask_cluster._check_certificates(address)
        (tmp_path / "keys/member.key").write_text("no key")
        with pytest.raises(UserError, match="its private key in PEM"):
            dask_cluster._check_certificates(address)
        (tmp_path / "keys/member.pem").unlink()
        with pytest.raises(UserError, match=r"member.pem, Dask's tls_client_cert: No such file"):
            dask_cluster._check_certificates(address)


@pytest.mark.slow
def test_a_sweep_over_tls_and_nobody_without_a_certificate(
    tmp_path, monkeypatch, capfd, distributed
):
    import dask

    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    certificates(tmp_path / "keys", "cluster")
    certificates(tmp_path / "others", "others")
    file = tmp_path / "spread.yaml"
    file.write_text(TEXT.replace("[8, 16, 32, 64]", "[8]"))
    words = ["sweep", str(file), "--no-report", "--results", str(tmp_path / "results"), "--dask"]
    with (
        dask.config.set(configuration(tmp_path / "keys")),
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, dashboard_address=None, protocol="tls"
        ) as cluster,
    ):
        address = cluster.scheduler_address
        assert address.startswith("tls://")
        with dask.config.set(configuration(tmp_path / "others")):
            assert main([*words, address]) == 2
            assert "certificate" in capfd.readouterr().err
        none = dict.fromkeys(configuration(tmp_path))
        with dask.config.set(none):
            assert main([*words, address]) == 2
            assert "needs certificates" in capfd.readouterr().err
            assert main([*words, address.replace("tls://", "tcp://")]) == 2
            assert "no Dask scheduler at tcp://" in capfd.readouterr().err
        assert not (tmp_path / "results").exists()
        assert main([*words, address]) == 0
        assert "without TLS" not in capfd.readouterr().err
    assert len(list((tmp_path / "results/spread").glob("*/*/status.json"))) == 1
