"""Ends of a spawner that tests with a real one do not see, with processes that are made up."""

from __future__ import annotations

import errno
import gc
import json
import os
import socket
import subprocess
from types import SimpleNamespace

import pytest
from p4fabric.base.errors import RunError
from p4fabric.emulate import spawner
from p4fabric.emulate.spawner import Spawner


@pytest.mark.parametrize(
    "ready, asked, stubborn, done",
    [
        (True, True, False, ["wait 5"]),
        (True, False, True, ["wait 5", "kill", "wait"]),
        (False, False, False, ["kill", "wait 5"]),  # it may import for a long while yet
        (False, True, False, ["wait 5"]),  # it may have begun children by now
    ],
)
def test_a_spawner_is_given_time_and_then_killed(tmp_path, ready, asked, stubborn, done):
    log = []

    def wait(timeout=None):
        log.append("wait" if timeout is None else f"wait {timeout}")
        if stubborn and "kill" not in log:
            raise subprocess.TimeoutExpired("spawner", timeout)

    process = SimpleNamespace(wait=wait, kill=lambda: log.append("kill"))
    (tmp_path / "pool.log").write_text("its words")
    made = SimpleNamespace(
        _socket=SimpleNamespace(close=lambda: None), _ready=ready, _process=process,
        processes={"child": None} if asked else {},
        log=tmp_path / "pool.log", kept=tmp_path / "kept.log",
    )  # fmt: skip
    Spawner.close(made)
    assert log == done and made.kept.read_text() == "its words"


@pytest.mark.parametrize(
    "preload, failed",
    [
        (["os", "no_such_module"], "ModuleNotFoundError: No module named 'no_such_module'"),
        (["json:loads 5"], "TypeError: the JSON object must be str, bytes or bytearray, not int"),
        (["json:loads [1"], "JSONDecodeError: "),
    ],
)
def test_a_spawner_that_cannot_start_says_why(monkeypatch, capsys, preload, failed):
    names = ("die_with_parent", "set_process_name", "set_command_line")
    for name in names:
        monkeypatch.setattr(spawner.kernel, name, lambda *_: None)
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours:
        try:
            assert spawner.main([str(its.detach()), str(os.getpid()), "pool", *preload]) == 1
        finally:
            gc.enable()
        assert json.loads(ours.recv(1 << 16))["failed"].startswith(failed)
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize(
    "error, told",
    [
        (MemoryError(), "memory"),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), "memory"),
        (OSError(errno.EAGAIN, "Resource temporarily unavailable"), "no more processes"),
        (OSError(errno.EBADF, "Bad file descriptor"), ""),
    ],
)
def test_a_spawner_that_lacks_something_says_what(monkeypatch, capsys, error, told):
    class Server:
        def __init__(self, channel):
            pass

        def serve(self):
            raise error

    for name in ("die_with_parent", "set_process_name", "set_command_line"):
        monkeypatch.setattr(spawner.kernel, name, lambda *_: None)
    monkeypatch.setattr(spawner, "_Server", Server)
    for name in ("collect", "freeze"):
        monkeypatch.setattr(spawner.gc, name, lambda: None)
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours:
        words = [str(its.detach()), str(os.getpid()), "pool"]
        if told:
            assert spawner.main(words) == 1 and told in capsys.readouterr().err
        else:
            with pytest.raises(OSError, match="Bad file"):
                spawner.main(words)
        assert json.loads(ours.recv(100)) == {"ready": True}


def test_a_spawner_that_takes_no_message_is_named(monkeypatch):
    """It is stopped, and its socket is full."""
    monkeypatch.setattr(spawner, "SEND_TIMEOUT_S", 0)
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    made = SimpleNamespace(
        _socket=ours, _receive=lambda: None, _tail=lambda: "its words", name="pool", pid=7
    )
    with (
        ours,
        its,
        pytest.raises(RunError, match=r"the pool \(process 7\) took no message for 0 s"),
    ):
        while True:
            Spawner._send(made, {"signal": "x" * 10_000})
