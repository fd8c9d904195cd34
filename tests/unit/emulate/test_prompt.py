"""Mininet's prompt: what it does without a display, its iperf, and jobs that go on beside it."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import time
from types import ModuleType, SimpleNamespace

import pytest
from p4fabric.base.errors import RunError
from p4fabric.emulate import prompt

from testbed.emulate import prompt_beside


class Shell:
    """Stands for Mininet's; types some lines, then leaves."""

    def __init__(self, network) -> None:
        self.typed, self.windows = network.typed, network.windows
        for line in self.typed:
            name, _, words = line.partition(" ")
            getattr(self, f"do_{name}")(words)

    def do_xterm(self, line, term="xterm"):
        self.windows.append((term, line))

    def do_x(self, line):
        self.windows.append(("x", line))


@pytest.fixture
def network(monkeypatch):
    module = ModuleType("mininet.cli")
    module.CLI = Shell
    monkeypatch.setitem(sys.modules, "mininet", ModuleType("mininet"))
    monkeypatch.setitem(sys.modules, "mininet.cli", module)
    monkeypatch.setattr(prompt.interrupts, "at_prompt", contextlib.nullcontext)
    hosts = [SimpleNamespace(name=f"h{n}") for n in range(1, 11)]
    return SimpleNamespace(typed=[], windows=[], hosts=hosts)


@pytest.mark.parametrize("display", ["", ":0"])
def test_windows_open_only_where_there_is_a_display(network, monkeypatch, capsys, display):
    monkeypatch.setenv("DISPLAY", display)
    network.typed = ["xterm h1", "x h2"]
    prompt.open_prompt(network)
    assert network.windows == ([("xterm", "h1"), ("x", "h2")] if display else [])
    said = capsys.readouterr().out
    for command in ("xterm", "x"):
        assert (f"{command} needs a display, and DISPLAY is not set" in said) == (not display)


def test_iperf_takes_two_hosts_or_the_first_and_the_last(network, monkeypatch, capsys):
    measured = []
    monkeypatch.setattr(prompt, "measure_tcp", lambda a, b: measured.append((a.name, b.name)))
    network.typed = ["iperf", "iperf h3 h2", "iperf h3", "iperf h3 h99", "iperf h1 h2 h3"]
    prompt.open_prompt(network)
    assert measured == [("h1", "h10"), ("h3", "h2")]
    line = "iperf takes two of h1, h2, h3, h4, h5, h6, h7, h8\n"
    assert capsys.readouterr().out.count(line) == 3


class Iperf:
    """iperf on two hosts. `answers`: what its clients print, one after the other."""

    def __init__(self, *answers: str) -> None:
        self.answers, self.log = [*answers], []
        self.client = SimpleNamespace(name="h1", popen=self._ask)
        self.server = SimpleNamespace(name="h2", popen=self._listen, IP=lambda: "10.0.0.2")

    def _listen(self, command, **_):
        if not self.answers:
            raise FileNotFoundError
        self.log.append(command)
        return SimpleNamespace(
            kill=lambda: self.log.append("kill"), wait=lambda: self.log.append("wait")
        )

    def _ask(self, command, **_):
        self.log.append(command)
        answer = self.answers[0] if len(self.answers) == 1 else self.answers.pop(0)
        return SimpleNamespace(communicate=lambda: (answer, None))


def test_iperf_asks_again_until_the_server_listens(monkeypatch, capsys):
    monkeypatch.setattr(prompt.time, "sleep", lambda _: None)
    run = Iperf("connect failed: Connection refused\n", "[ 1] 0-5 s\n[ 1] 9 Mbits/sec\n")
    prompt.measure_tcp(run.client, run.server)
    asked = ["iperf", "-c", "10.0.0.2", "-t", "5"]
    assert run.log == [["iperf", "-s"], asked, asked, "kill", "wait"]
    assert capsys.readouterr().out == "TCP from h1 to h2, 5 s\n[ 1] 9 Mbits/sec\n"
    silent = Iperf("")
    prompt.measure_tcp(silent.client, silent.server)
    assert silent.log.count(asked) == 20 and silent.log[-2:] == ["kill", "wait"]
    assert capsys.readouterr().out.endswith("no answer\n")
    missing = Iperf()
    prompt.measure_tcp(missing.client, missing.server)
    assert capsys.readouterr().out == "iperf is not installed: apt-get install iperf\n"


@pytest.fixture
def beside(monkeypatch):
    """Runs a work beside a prompt that does something, and returns what is printed."""

    def run(work, at_prompt, heard=lambda text: None):
        said = []

        def note(text, **_):
            said.append(text)
            heard(text)

        monkeypatch.setattr(prompt_beside, "print", note, raising=False)
        monkeypatch.setattr(prompt_beside, "open_prompt", lambda network: at_prompt())
        before = signal.getsignal(signal.SIGUSR1)
        try:
            prompt_beside.prompt_beside(SimpleNamespace(), work)
        finally:
            assert signal.getsignal(signal.SIGUSR1) is before
        return said

    return run


def test_the_prompt_closes_when_the_jobs_have_ended(beside):
    opened = threading.Event()

    def at_prompt():
        opened.set()
        while True:
            time.sleep(0.01)

    assert beside(opened.wait, at_prompt) == ["\nthe jobs have ended; the prompt is closed"]


def test_the_jobs_go_on_when_the_prompt_is_left(beside):
    left, done = threading.Event(), []

    def work():
        left.wait()
        done.append(True)

    said = beside(work, lambda: None, heard=lambda text: left.set())
    assert said == ["the prompt is closed; the jobs go on"] and done == [True]


def test_a_job_that_fails_beside_the_prompt_ends_the_run(beside):
    def fails():
        raise RunError("host h1 ended")

    def at_prompt():
        while True:
            time.sleep(0.01)

    with pytest.raises(RunError, match="host h1 ended"):
        beside(fails, at_prompt)
