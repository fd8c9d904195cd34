"""Mininet's prompt in a run, and what another shell sees of the run meanwhile."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from testbed import results
from testbed.cli.main import main
from tests.support.ina import ina
from tests.support.paths import ROOT
from tests.support.runs import PYTHON

SMALL = """
name: prompted
topology: {{kind: star, hosts: 4}}
links: {{bandwidth: 10 Mbit/s}}
system: {{name: esa, window: 32}}
memory: {{aggregators: 64}}
timeout: 100 s
jobs: [{{name: a, model: resnet18, workers: 2, iterations: {iterations}, scale: 0.002}}]
"""
PROMPT = "mininet> "


class Terminal:
    """`run.py` in a terminal of its own."""

    def __init__(self, folder: Path, iterations: int, *words: str) -> None:
        (folder / "prompted.yaml").write_text(SMALL.format(iterations=iterations))
        self.said = ""
        self.end, its = pty.openpty()
        environment = {name: text for name, text in os.environ.items() if name != "DISPLAY"}
        self.process = subprocess.Popen(
            [PYTHON, str(ROOT / "run.py"), str(folder / "prompted.yaml"), "--no-report"]
            + ["--results", str(folder / "results"), *words],
            stdin=its, stdout=its, stderr=its, start_new_session=True, env=environment,
            preexec_fn=lambda: os.close(os.open(os.ttyname(0), os.O_RDWR)),  # is its own terminal
        )  # fmt: skip
        os.close(its)

    def until(self, text: str, timeout_s: float = 100) -> str:
        """Output up to a text."""
        deadline = time.monotonic() + timeout_s
        while text not in self.said:
            assert time.monotonic() < deadline, f"no {text!r} in {self.said}"
            if select.select([self.end], [], [], 0.2)[0]:
                try:
                    self.said += os.read(self.end, 65536).decode(errors="replace")
                except OSError:  # the process has ended
                    assert text in self.said, self.said
        head, _, self.said = self.said.partition(text)
        return head

    def type(self, line: str) -> str:
        """Type a command; returns what it printed."""
        os.write(self.end, f"{line}\n".encode())
        return self.until(PROMPT)

    def press_ctrl_c(self) -> None:
        """As a person does, who needs a moment to see the prompt: between printing it and waiting
        for a key, readline does not notice a signal until the next key."""
        time.sleep(0.3)
        os.write(self.end, b"\x03")

    def ends(self) -> int:
        """Exit code of the prompt's process."""
        while self.process.poll() is None:
            if select.select([self.end], [], [], 0.2)[0]:
                try:
                    self.said += os.read(self.end, 65536).decode(errors="replace")
                except OSError:
                    break
        return self.process.wait(60)


@pytest.fixture
def terminal(tmp_path):
    opened: list[Terminal] = []

    def start(iterations: int, *words: str) -> Terminal:
        opened.append(Terminal(tmp_path, iterations, *words))
        return opened[-1]

    yield start
    for each in opened:
        if each.process.poll() is None:
            each.process.terminate()
            each.ends()
        os.close(each.end)


def said(*words: str) -> str:
    done = ina(*words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_run_waits_at_its_prompt_and_is_looked_into_from_another_shell(
    terminal, tmp_path, capsys
):
    shell = terminal(1, "--cli", "before")
    shell.until(PROMPT)
    run = ("--run", str(shell.process.pid))

    def here(*words: str) -> str:
        """The same as `said`, in this process, which has imported all."""
        assert main([*words]) == 0
        return capsys.readouterr().out

    (described,) = json.loads(said("ps", *run, "--json"))
    nodes = {node["name"]: node for node in described["nodes"]}
    assert {name: node["kind"] for name, node in nodes.items()} == {
        "h1": "host", "h2": "host", "h3": "host", "h4": "host", "s1": "switch",
    }  # fmt: skip
    titles = {
        name: Path(f"/proc/{node['process']}/cmdline").read_bytes().strip(b"\0").decode()
        for name, node in nodes.items()
        if node["process"]
    }
    assert titles == {"h1": "ina host h1", "h2": "ina host h2", "h3": "ina host h3",
                      "s1": "ina switch s1"}  # fmt: skip
    listed = here("ps", *run)
    assert "prompted (" in listed and "ina host" not in listed

    assert "10.0.0.2/32" in said("exec", *run, "h2", "--", "ip", "addr")
    assert " 0% packet loss" in said("exec", *run, "h1", "--", "ping", "-c", "1", "10.0.0.2")
    assert ina("exec", *run, "h1", "--", "sh", "-c", "exit 7").returncode == 7
    wrong = ina("exec", *run, "h9", "--", "true")
    assert wrong.returncode == 2 and "has no host or switch 'h9'" in wrong.stderr
    assert ina("logs", *run, "h1").returncode == 0

    assert "PoolIngress.route" in said("switch", *run, "s1", "tables")
    routes = here("switch", *run, "s1", "table", "route")
    assert "10.0.0.1/32 => PoolIngress.forward 1 02:00:00:00:00:01" in routes
    told = json.loads(here("switch", *run, "s1", "table", "route", "--json"))
    assert told["table"] == "PoolIngress.route" and len(told["entries"]) >= 4
    tables = json.loads(here("switch", *run, "--json", "s1", "tables"))["tables"]
    assert "PoolIngress.route" in {each["name"] for each in tables}
    assert json.loads(here("switch", *run, "s1", "register", "slot_job", "3", "--json"))["values"]
    assert json.loads(here("switch", *run, "s1", "counters", "--json"))["ports"]
    here("switch", *run, "s1", "set", "register_write", "slot_job", "3", "42")
    assert re.search(r"\b42\b", here("switch", *run, "s1", "register", "slot_job", "3"))
    here("switch", *run, "s1", "set", "register_write", "slot_job", "3", "0")
    assert re.search(r"1 +ingress +[1-9]", here("switch", *run, "s1", "counters"))
    wrong = ina("switch", *run, "s1", "table", "nope")
    assert wrong.returncode == 2 and "there is no table 'nope'" in wrong.stderr

    assert " 0% packet loss" in shell.type("h1 ping -c 1 h3")
    if shutil.which("iperf"):
        assert "bits/sec" in shell.type("iperf h1 h2")
    assert "iperf takes two of h1" in shell.type("iperf h1 h9")
    assert "needs a display" in shell.type("xterm h1")
    shell.press_ctrl_c()
    assert shell.until(PROMPT).count("Interrupt") == 1
    time.sleep(1.5)  # an interrupt that came again would have come by now
    assert "Interrupt" not in shell.type("py 6 * 7")
    os.write(shell.end, b"exit\n")
    assert shell.ends() == 0
    (folder,) = (tmp_path / "results").iterdir()
    assert results.read(folder).finished


@pytest.mark.slow
def test_a_prompt_beside_the_jobs_ends_with_the_run(terminal, tmp_path):
    shell = terminal(100_000, "--cli")
    shell.until(PROMPT)
    run = ("--run", str(shell.process.pid))
    sleeper = subprocess.Popen(
        [PYTHON, str(ROOT / "run.py"), "exec", *run, "h1", "--", "sleep", "4321"],
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert " 0% packet loss" in shell.type("h1 ping -c 1 h2")
    while "\nsleep 4321\n" not in said("exec", *run, "h1", "--", "ps", "-eo", "args"):
        time.sleep(0.1)
    os.kill(shell.process.pid, signal.SIGTERM)
    assert shell.ends() == 128 + signal.SIGTERM
    (folder,) = (tmp_path / "results").iterdir()
    assert results.read(folder).state == "interrupted"
    _, error = sleeper.communicate()
    assert sleeper.returncode == 1 and "has ended, and with it h1" in error


@pytest.mark.slow
def test_a_prompt_beside_the_jobs_closes_after_them(terminal):
    shell = terminal(3, "--cli")
    shell.until(PROMPT)
    shell.until("the jobs have ended; the prompt is closed")
    assert shell.ends() == 0
