"""Planned faults: what they do to which processes when, and what a run says of them."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
from p4fabric.base.linux.processes import stat_fields

from testbed.emulate import fault_injection
from testbed.emulate.fault_injection import Faults, _TimeSlices
from testbed.experiment import load_text
from testbed.schemes import set_up
from testbed.setup.host_specs import host_specs

MS = 1_000_000
BEGUN = 5_000 * MS
TEXT = """
topology: {kind: two_level, tors: 2, hosts: 3, servers: 2}
system: esa
memory: {aggregators: 16}
jobs:
  - {name: a, model: resnet18, workers: 2, iterations: 1, scale: 0.001,
     placement: {workers: [h1, h2], ps: h7}}
  - {name: b, model: resnet18, workers: 2, iterations: 1, scale: 0.001,
     placement: {workers: [h4, h5], ps: h8}}
faults: [%s]
"""


class Switches:
    def __init__(self, log):
        self.log = log
        self.processes = {name: SimpleNamespace(pid=os.getpid()) for name in ("s1", "s2", "s3")}
        self.clients = {
            name: SimpleNamespace(
                register_write=lambda *words, name=name: log.append(("freed", name, *words))
            )
            for name in self.processes
        }

    def __getattr__(self, what):
        return lambda name: self.log.append((what, name))


class Run:
    """A run whose processes are told what happens to them: `log`."""

    def __init__(self, *faults):
        self.log = log = []
        self.setup = set_up(load_text(TEXT % ", ".join(faults)))
        spawner = SimpleNamespace(
            signal=lambda process, number: log.append((signal.Signals(number).name, process)),
            wait_ended=lambda processes, *_: log.append(("ended", *processes)),
        )
        self.hosts = {
            spec.host: SimpleNamespace(spec=spec, done=None, killed=False, process=spec.host)
            for spec in host_specs(self.setup)
        }
        group = SimpleNamespace(hosts=list(self.hosts.values()), spawner=spawner)
        self.faults = Faults(
            self.setup,
            group,
            Switches(log),
            BEGUN,
            lambda name: log.append(("before", name)),
            lambda name: log.append(("after", name)),
        )

    def tick(self, at_ms):
        """What happens then."""
        del self.log[:]
        self.faults.tick(BEGUN + at_ms * MS)
        return list(self.log)

    def next_ms(self):
        due_ns = self.faults.next_ns()
        return None if due_ns is None else (due_ns - BEGUN) / MS


def test_a_paused_worker_stands_still_for_as_long_as_planned(monkeypatch, caplog):
    caplog.set_level(logging.INFO, "testbed")
    monkeypatch.setattr(time, "monotonic_ns", lambda: BEGUN + 77 * MS)
    run = Run("{at: 20 ms, fault: pause, job: a, worker: 1, for: 30 ms}")
    assert run.next_ms() == 20 and run.tick(19) == [] and run.faults.missed() != []
    assert run.tick(25) == [("SIGSTOP", "h2")]  # late
    assert run.next_ms() == 55 and run.tick(54) == [] and run.faults.missed() == []
    assert run.faults.silent_since_ns(0) == BEGUN + 54 * MS
    assert run.faults.paused_ns("h2", BEGUN + 54 * MS) == 29 * MS
    assert run.tick(55) == [("SIGCONT", "h2")] and run.next_ms() is None
    assert run.faults.silent_since_ns(0) == BEGUN + 77 * MS
    assert run.faults.silent_since_ns(BEGUN + 90 * MS) == BEGUN + 90 * MS
    assert run.faults.excused == {"h2"} and run.faults.uneven == set()
    (row,) = run.faults.rows(BEGUN + 100 * MS)
    named = ("fault", "kind", "target", "job", "at_ns", "begun_ns", "ended_ns", "factor")
    assert [row[name] for name in named] == [
        *(0, "pause", "worker 1 of job a", 0, 20 * MS, 25 * MS, 77 * MS, None)
    ]
    assert run.faults.paused_ns("h2", BEGUN + 100 * MS) == 52 * MS
    assert run.faults.paused_ns("h1", BEGUN + 100 * MS) == 0
    assert [record.getMessage() for record in caplog.records] == [
        "begins at 25.0 ms: faults[0], pause of worker 1 of job a",
        "has ended at 77.0 ms: faults[0], pause of worker 1 of job a",
    ]


def test_a_run_that_ends_meanwhile_lets_everything_go_on():
    run = Run("{at: 20 ms, fault: pause, switch: s1, for: 1 s}")
    assert run.tick(20) == [("pause", "s1")]
    (row,) = run.faults.rows(BEGUN + 100 * MS)
    assert (row["begun_ns"], row["ended_ns"], row["job"]) == (20 * MS, 100 * MS, None)
    del run.log[:]
    run.faults.close()
    assert run.log == [("resume", "s1")] and run.faults.paused_ns("s1", BEGUN + 50 * MS) == 30 * MS


def test_what_has_finished_is_not_hit():
    run = Run("{at: 20 ms, fault: pause, job: a, worker: 0, for: 30 ms}")
    run.hosts["h1"].done = "its report"
    assert run.tick(20) == [] and run.next_ms() is None
    assert run.faults.excused == set() and len(run.faults.missed()) == 1
    assert run.faults.rows(BEGUN)[0]["begun_ns"] is None


@pytest.mark.parametrize(
    "whom, killed, why",
    [
        ("worker: 1", ["h2"], "every sum needs all workers, and one was killed"),
        ("ps: 0", ["h7"], "it gets its sums from its parameter server"),
    ],
)
def test_a_job_cannot_go_on_without_one_of_its_hosts(whom, killed, why):
    run = Run(f"{{at: 20 ms, fault: kill, job: a, {whom}}}")
    assert run.tick(20) == [*(("SIGKILL", each) for each in killed), ("ended", *killed)]
    assert run.faults.broken[0].startswith(why) and set(run.faults.broken) == {0}
    assert run.faults.killed == set() and run.hosts[killed[0]].killed
    assert run.faults.uneven == set(killed) and run.faults._ended() == set()


def test_a_killed_job_leaves_its_memory_to_others():
    run = Run(
        "{at: 10 ms, fault: pause, job: a, worker: 0, for: 50 ms}",
        "{at: 20 ms, fault: kill, job: a}",
    )
    assert run.tick(10) == [("SIGSTOP", "h1")]
    hosts = ("h1", "h2", "h7")
    assert run.tick(20) == [
        ("SIGCONT", "h1"),  # the pause ends with it
        *(("SIGKILL", each) for each in hosts),
        ("ended", *hosts),
        *(("freed", name, "job_gone", 0, 1) for name in ("s1", "s2", "s3")),
    ]
    assert run.faults.killed == {0} and run.faults.broken == {} and run.faults._ended() == {0}
    assert run.next_ms() is None


def test_jobs_whose_paths_cross_a_killed_switch_are_broken():
    run = Run("{at: 20 ms, fault: kill, switch: s1}")
    assert run.tick(20) == [("ended",), ("before", "s1"), ("kill", "s1")]
    assert set(run.faults.broken) == {0} and "switch s1 is on its paths" in run.faults.broken[0]
    whole = Run("{at: 20 ms, fault: kill, switch: s3}")
    whole.tick(20)
    assert set(whole.faults.broken) == {0, 1}


def test_a_restarted_switch_is_prepared_for_those_that_go_on():
    run = Run("{at: 20 ms, fault: kill, job: b}", "{at: 30 ms, fault: restart, switch: s3}")
    run.tick(20)
    assert run.tick(30) == [
        *(("before", "s3"), ("restart", "s3"), ("after", "s3"), ("freed", "s3", "job_gone", 1, 1))
    ]
    assert set(run.faults.endangered) <= {0, 1} and run.faults.broken == {}
    assert [row["ended_ns"] is None for row in run.faults.rows(BEGUN + 50 * MS)] == [False, False]


def test_a_slow_server_has_turns_until_it_may_go_on(monkeypatch):
    turns = []

    class Turns:
        def __init__(self, pid, factor):
            turns.append((pid, factor))

        def stop(self):
            turns.append("stopped")

    monkeypatch.setattr(fault_injection, "_TimeSlices", Turns)
    run = Run(
        "{at: 10 ms, fault: slow, job: a, ps: 0, factor: 4, for: 20 ms}",
        "{at: 10 ms, fault: slow, job: b, worker: 0, factor: 2, for: 20 ms}",
    )
    run.hosts["h7"].process = SimpleNamespace(pid=123)
    run.tick(10)
    assert turns == [(123, 4)]  # a worker computes longer by itself
    assert run.faults.excused == run.faults.uneven == {"h7"}
    run.tick(30)
    assert turns == [(123, 4), "stopped"]
    assert [row["factor"] for row in run.faults.rows(BEGUN + 50 * MS)] == [4, 2]


class Failover:
    """Links that fail; the next step is at `due_ms`."""

    def __init__(self, due_ms=None):
        self.due_ms, self.ticks, self.done = due_ms, [], []

    def next_ns(self):
        return fault_injection.NEVER if self.due_ms is None else self.due_ms * MS

    def tick(self, elapsed_ns, ended):
        self.ticks.append((elapsed_ns // MS, ended))
        self.due_ms = None

    def cut_off(self, job):
        return f"link {job}"

    def returns(self):
        return True

    def rows(self, last_ns):
        return [{"fault": 0, "kind": "link_down", "ended_ns": last_ns}]


def test_links_that_fail_have_their_turn(monkeypatch):
    monkeypatch.setattr(time, "monotonic_ns", lambda: BEGUN + 77 * MS)
    run = Run(
        "{at: 30 ms, fault: link_down, between: [s1, s3]}",
        "{at: 50 ms, fault: kill, job: b}",
    )
    assert (run.faults.cut_off(0), run.faults.links_return) == ("", False)
    run.faults._failover = links = Failover(30)
    assert (run.faults.cut_off(0), run.faults.links_return) == ("link 0", True)
    assert run.next_ms() == 30 and run.tick(29) == [] and links.ticks == []
    run.hosts["h1"].done = run.hosts["h2"].done = "its report"
    run.tick(30)
    assert links.ticks == [(30, {0})] and run.next_ms() == 50
    assert run.faults.silent_since_ns(0) == BEGUN + 77 * MS
    links.due_ms = 40
    assert run.next_ms() == 40
    links.due_ms, links.setup = None, run.faults._setup
    run.tick(50)
    assert run.next_ms() is None and len(links.ticks) == 1
    assert [row["kind"] for row in run.faults.rows(BEGUN + 80 * MS)] == ["link_down", "kill"]
    assert [text.partition(",")[0] for text in run.faults.missed()] == ["faults[0]"]
    links.done = [(SimpleNamespace(fault=0), 30 * MS)]
    assert run.faults.missed() == []


def test_a_process_with_turns_stands_still_in_between_and_not_at_the_end():
    loop = subprocess.Popen([sys.executable, "-c", "while True: pass"])

    def state():
        return stat_fields(loop.pid)[0]

    try:
        turns = _TimeSlices(loop.pid, 4)
        for wanted in "TRTR":
            while state() != wanted:
                time.sleep(0.001)
        turns.stop()
        assert state() != "T"
    finally:
        loop.kill()
        loop.wait()
