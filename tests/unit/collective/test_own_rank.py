"""Which rank of its server a process is: by LOCAL_RANK, or the first one that is free."""

from __future__ import annotations

import json
import os
import types

import pytest
from p4fabric.base.errors import UserError

from testbed.collective import client, measures, own_rank, tally

NAMES = ["ina-5-2", "ina-5-3", "ina-5-6"]


@pytest.fixture(autouse=True)
def server(monkeypatch, tmp_path):
    """The environment of a process that makes three ranks of a server."""
    own = [
        {client.SOCKET: name, measures.MEASURES: str(tmp_path / name), tally.COLLECTIVES: name}
        for name in NAMES
    ]
    for name in own[0]:
        monkeypatch.setenv(name, "")  # so that it is put back
        monkeypatch.delenv(name)
    monkeypatch.setenv(own_rank.RANKS, json.dumps(own))
    monkeypatch.setenv(own_rank.LOCAL, "")


def test_local_rank_says_which_one_it_is(monkeypatch, tmp_path):
    own_rank.adopt()
    assert client.in_job() and client.SOCKET not in os.environ and len(own_rank.entries()) == 3
    measures.report(step=1, loss=2)
    assert not [*tmp_path.iterdir()], "nobody knows yet whose report it is"
    monkeypatch.setenv(own_rank.LOCAL, "1")
    measures.report(step=1, loss=2)
    assert [path.name for path in tmp_path.iterdir()] == ["ina-5-3"]
    assert os.environ[client.SOCKET] == "ina-5-3" and client.job_rank() == 3
    assert not own_rank.entries() and own_rank.RANKS not in os.environ and client.in_job()


def test_a_rank_that_the_server_does_not_have_is_an_error(monkeypatch):
    monkeypatch.setenv(own_rank.LOCAL, "3")
    with pytest.raises(UserError, match="LOCAL_RANK 3, .* 3 ranks .* --nproc-per-node 3"):
        client.join()


def test_without_a_number_it_is_the_first_one_that_is_free(monkeypatch):
    asked = []

    def connect(name, wish):
        asked.append(name)
        if name != "ina-5-2":
            raise client.Refused("another one has joined", False)
        return types.SimpleNamespace(name=name)

    monkeypatch.setattr(client, "SocketLink", connect)
    monkeypatch.setattr(client, "Job", lambda link, rank: (link.name, rank))
    with pytest.raises(UserError, match="let it join the job first, or set LOCAL_RANK"):
        client.job_rank()
    assert client.join(1) == ("ina-5-2", 1)
    assert asked == ["ina-5-3", "ina-5-6", "ina-5-2"] and client.job_rank() == 2


def test_nobody_is_free(monkeypatch):
    def refuse(name, wish):
        raise client.Refused(f"{name} is taken", False)

    monkeypatch.setattr(client, "SocketLink", refuse)
    with pytest.raises(client.Refused, match="ina-5-6 is taken"):
        client.join()


def test_counts_go_to_the_rank_that_the_process_has_become(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    registered = []
    monkeypatch.setattr(tally.atexit, "register", registered.append)
    counts = tally.Tally()
    counts.add("all", "barrier", "", 0, 5)
    (write,) = registered
    write()
    assert not [*tmp_path.iterdir()]
    monkeypatch.setenv(own_rank.LOCAL, "2")
    own_rank.adopt()
    write()
    assert [path.name for path in tmp_path.iterdir()] == ["ina-5-6"]
