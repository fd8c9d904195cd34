"""The hosts and the network file for SwitchML's published program, without the program."""

from __future__ import annotations

import importlib.util
import itertools
import random
import socket
import subprocess
import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest
from p4fabric.netfile.load_network import load_network
from p4fabric_testing import ROOT

FOLDER = ROOT / "examples" / "published"


@pytest.mark.parametrize("size", [256, 1024])
def test_the_printed_file_is_a_sound_network_file(tmp_path, size):
    program = tmp_path / "switchml.p4"
    program.touch()
    words = [FOLDER / "make_network.py", program, "--bytes", str(size), "--loss", "1 %"]
    words += ["--drop", "0.5"]
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=True)
    path = tmp_path / "switchml.yaml"
    path.write_text(done.stdout)
    plan = load_network(path)
    assert plan.file.runtime == "virtual" and len(plan.net.hosts) == 4
    [switch] = plan.net.switches.values()
    assert bool(switch.loopback) is (size == 1024)
    assert (
        sum(
            f"$PORT_METADATA {n} {0x8000800000000000}" in " ".join(switch.commands)
            for n in range(9)
        )
        == 4
    )
    assert sum("next_step" in line for line in switch.commands) == (8 if size == 256 else 50)
    done = subprocess.run(
        [sys.executable, *words, "--mininet"], capture_output=True, text=True, check=True
    )
    path.write_text(done.stdout)
    plan = load_network(path)
    assert plan.file.runtime != "virtual" and len(plan.checks) == 7


class Switch:
    """Adds up what workers send, and gives each its sums; loses packets both ways."""

    def __init__(self, kind, loss, seed):
        self.random, self.loss = random.Random(seed), loss
        self.now_ns, self.on_way, self.timers = 0, [], {}
        self.sums, self.seen = {}, {}
        hosts = [SimpleNamespace(name=f"h{n + 1}", mac=f"02:00:00:00:00:0{n}") for n in range(4)]
        for number, host in enumerate(hosts):
            host.send = lambda frame, number=number: self.on_way.append((number, bytes(frame)))
            host.set_timer = lambda at, number=number: self.timers.__setitem__(number, at)
        self.workers = [kind(host) for host in hosts]

    def lost(self):
        return self.random.random() < self.loss

    def run(self):
        for worker in self.workers:
            worker.start(0)
        while self.on_way or self.timers:
            if not self.on_way:
                number = min(self.timers, key=self.timers.get)
                self.now_ns = self.timers.pop(number)
                self.workers[number].timer(self.now_ns)
                continue
            number, frame = self.on_way.pop(0)
            if not self.lost():
                self.take(number, frame)

    def take(self, number, frame):
        key, values = frame[44:50], np.frombuffer(frame, ">u4", offset=52)
        seen = self.seen.setdefault(key, set())
        again = number in seen
        if not again:
            seen.add(number)
            self.sums[key] = self.sums.get(key, 0) + values
        if len(seen) == 4:
            answer = frame[:52] + self.sums[key].astype(">u4").tobytes()
            for each in [number] if again else range(4):
                if not self.lost():
                    self.workers[each].receive(self.now_ns, answer)


def example(name):
    """A module of the example's folder."""
    spec = importlib.util.spec_from_file_location(f"published_{name}", FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Echo:
    """Sends again what has no answer, until three answers have come."""

    def __init__(self, host):
        self.host, self.answers, self.timers = host, [], 0

    @property
    def done(self):
        return len(self.answers) == 3

    def start(self, now_ns):
        assert now_ns == 0
        self.timer(0)

    def receive(self, now_ns, frame):
        self.answers.append((now_ns, frame))
        self.host.set_timer(now_ns + 1000)

    def timer(self, now_ns):
        self.timers += 1
        self.host.send(f"{self.host.name} {self.host.mac} {self.timers}".encode())
        self.host.set_timer(now_ns + 500_000)

    def results(self):
        return {"answers": self.answers, "timers": self.timers}


def test_a_class_runs_in_real_time():
    """The other end gives each second frame back; the clock goes on by 1 us a look."""
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ticks = itertools.count(10**9, 1000)

    def answer():
        while frame := far.recv(100):
            if int(frame.split()[-1]) % 2 == 0:
                far.send(frame)

    other = threading.Thread(target=answer)
    other.start()
    with near, far:
        told = example("real_host").run(Echo, "h3", "02:00", near, clock=lambda: next(ticks))
        near.shutdown(socket.SHUT_RDWR)
        other.join()
    assert [frame for _, frame in told["answers"]] == [b"h3 02:00 2", b"h3 02:00 4", b"h3 02:00 6"]
    assert told["timers"] == 6
    times = [now_ns for now_ns, _ in told["answers"]]
    assert times == sorted(times) and 0 < times[0] < 10**9


@pytest.mark.parametrize("kind", ["Worker", "LargeWorker"])
@pytest.mark.parametrize("loss", [0, 0.05])
def test_workers_get_every_sum(monkeypatch, kind, loss):
    module = example("workers")
    monkeypatch.setattr(module, "TOTAL", 40_000)
    switch = Switch(getattr(module, kind), loss, seed=3)
    switch.run()
    told = [worker.results() for worker in switch.workers]
    assert all(each["exact"] for each in told)
    assert any(each["again"] for each in told) is (loss > 0)
    switch.workers[2].sums[77] += 1
    assert not switch.workers[2].results()["exact"]
