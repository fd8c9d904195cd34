"""A session opens in steps, and takes away exactly what there is; with parts that are made up."""

from __future__ import annotations

import contextlib
from pathlib import Path
from types import SimpleNamespace

import pytest
from p4fabric.base.errors import RunError
from p4fabric.emulate import network_session as sessions
from p4fabric.emulate.network_session import NetworkSession

from testbed.emulate.session import Session, SharedSession


class Spawner:
    def __init__(self, log: list, name: str, preload: tuple, path: Path) -> None:
        self.told, self.name, self.preload, self.log = log, name, preload, path
        self.pid, self.kept, self.processes, self.broken = 10 + len(log), None, {}, False
        log.append(f"start {name}")

    def wait_ready(self) -> None:
        self.told.append(f"ready {self.name}")

    def check(self) -> None:
        if self.broken:
            raise RunError(f"the {self.name} ended")

    def close(self) -> None:
        self.told.append(f"close {self.name}")


class Record:
    def __init__(self, log: list, title: str, folder: Path) -> None:
        self.told, self.title, self.folder, self.logs = log, title, folder, None
        self.added, self.nodes = {}, {}

    def register(self) -> None:
        self.told.append("register")

    def add(self, name: str, pid: int) -> None:
        self.added[name] = pid

    def save(self) -> None:
        self.saved = self.title, dict(self.added), dict(self.nodes)

    def remove(self) -> None:
        self.told.append("remove")


class Network:
    """A network that stands."""

    def __init__(self, topology, spawner, logs, sockets, **options) -> None:
        self.told, self.made = spawner.told, (topology, logs, sockets, options)
        self.told.append("build")
        self.gone = False
        self.holders = {"h1": SimpleNamespace(pid=7), "h2": SimpleNamespace(pid=7)}

    def check(self) -> None:
        if self.gone:
            raise RunError("the namespace of h1 ended")

    def take_down(self) -> None:
        self.told.append("take down")

    def stop(self) -> None:
        self.told.append("stop")
        raise OSError("it is gone already")


TOPOLOGY = SimpleNamespace(hosts=["h1", "h2"], switches=["s1"], servers={})


@pytest.fixture
def log(monkeypatch, tmp_path) -> list:
    """What happens, in order."""
    made: list = []
    monkeypatch.setattr(sessions.interrupts, "tear_down", contextlib.nullcontext)
    monkeypatch.setattr(sessions, "Spawner", lambda *words: Spawner(made, *words))
    monkeypatch.setattr(
        sessions, "Record", SimpleNamespace(new=lambda title: Record(made, title, tmp_path / "run"))
    )
    return made


def test_a_session_is_noted_before_anything_is_started(log, tmp_path):
    opened = Session("first")
    assert opened.logs == opened.record.logs == tmp_path / "run" and log == []
    opened.start()
    assert log == ["register", "start host pool", "start switch pool"]
    assert opened.record.saved[1] == {
        "host pool": opened.pool.pid,
        "switch pool": opened.nodes.pid,
    }
    first, *_ = opened.pool.preload
    assert first == "testbed.protocols", "numba asks once for its cache"
    assert "p4fabric.emulate.namespace" in opened.nodes.preload
    assert opened.pool.kept is None, "the run's own folder goes"
    del log[:]
    plain = NetworkSession("no hosts", tmp_path / "logs")
    plain.start()
    assert log == ["register", "start switch pool"]
    assert plain.nodes.kept == tmp_path / "logs" / plain.nodes.log.name


def test_logs_of_spawners_are_kept_with_the_first_run(log, tmp_path):
    opened = Session("shared")
    opened.start()
    for name in ("one", "two"):
        opened.begin(name, tmp_path / name)
        assert (opened.record.title, opened.record.logs) == (name, tmp_path / name)
        assert opened.record.saved[0] == name
    assert {each.kept for each in (opened.pool, opened.nodes)} == {
        tmp_path / "one" / "host-pool.log",
        tmp_path / "one" / "switch-pool.log",
    }


def test_a_network_is_built_again_only_if_it_is_another(log, tmp_path):
    opened = Session("first", tmp_path / "logs")
    opened.start()
    alive = SimpleNamespace(key="h1-net", pid=5, code=None)
    opened.nodes.processes = {
        "h1-net": alive,
        "over": SimpleNamespace(key="over", pid=6, code=0),
        "soon": SimpleNamespace(key="soon", pid=0, code=None),
    }
    del log[:]
    made = opened.build(TOPOLOGY, Network, trains=True)
    assert made is opened.network is opened.build(TOPOLOGY, Network, trains=True)
    assert made.made == (TOPOLOGY, tmp_path / "logs", tmp_path / "run", {"trains": True})
    assert log == ["ready switch pool", "build"]
    _, processes, nodes = opened.record.saved
    assert nodes == {"h1": "host", "h2": "host", "s1": "switch"}
    assert processes["h1-net"] == 5 and not {"over", "soon"} & {*processes}
    assert opened.build(TOPOLOGY, Network, trains=False) is not made
    assert log[2:] == ["take down", "ready switch pool", "build"]


def test_what_has_ended_is_named(log):
    opened = Session("first")
    opened.check()
    opened.start()
    made = opened.build(TOPOLOGY, Network)
    opened.check()
    made.gone = True
    with pytest.raises(RunError, match="the namespace of h1 ended"):
        opened.check()
    for spawner in (opened.pool, opened.nodes):
        spawner.broken = True
        with pytest.raises(RunError, match=f"the {spawner.name} ended"):
            opened.check()
        spawner.broken = False


def test_each_host_of_a_server_is_found_by_its_name(log):
    topology = SimpleNamespace(hosts=["h1", "h2"], switches=["s1"], servers={"n1": ("h1", "h2")})
    with contextlib.suppress(OSError), Session("first") as opened:
        opened.start()
        opened.build(topology, Network)
        assert opened.record.nodes == {"h1": "host", "h2": "host", "n1": "host", "s1": "switch"}
        assert opened.record.added.items() >= {"h1-net": 7, "h2-net": 7}.items()


def test_everything_is_taken_away_whatever_happens_and_only_once(log):
    with Session("first") as opened:
        opened.start()
        opened.build(TOPOLOGY, Network)
        del log[:]
        opened.close()
        assert log == ["stop", "close host pool", "close switch pool", "remove"]
        del log[:]
    assert log == ["remove"]


def test_an_interrupt_at_the_end_does_not_keep_it_from_closing(log, monkeypatch):
    opened, close = Session("first"), Session.close
    opened.start()
    calls = []

    def interrupted(self):
        calls.append(True)
        if len(calls) == 1:
            raise KeyboardInterrupt
        close(self)

    monkeypatch.setattr(Session, "close", interrupted)
    with pytest.raises(KeyboardInterrupt), opened:
        pass
    assert log[-1] == "remove" and len(calls) == 2


def test_a_run_that_fails_takes_the_session_away(log, tmp_path):
    with SharedSession("several", ()) as shared:
        with shared.run("one", tmp_path) as first:
            pass
        with shared.run("two", tmp_path) as second:
            assert second is first
        with pytest.raises(ValueError, match="x"), shared.run("three", tmp_path):
            raise ValueError("x")
        assert log[-1] == "remove"
        with (
            pytest.raises(RunError, match="the switch pool ended"),
            shared.run("four", tmp_path) as third,
        ):
            assert third is not first
            third.nodes.broken = True  # of which a host has noticed something first
            raise RunError("host h1 ended")
        assert log.count("remove") == 2
        shared.start()
    assert log.count("remove") == log.count("register") == 3
