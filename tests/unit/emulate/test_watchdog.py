"""The watchdog: when a job is over, what it is told to wait for, and what ends a run."""

from __future__ import annotations

import socket
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from p4fabric.base.errors import RunError

from testbed.emulate import watchdog
from testbed.emulate.watchdog import BROKEN_NS, STILL_NS, Watch
from testbed.hosts import progress_board as board

S = 10**9
BEGUN = 100 * S
TIMEOUT = 10 * S


class Host:
    def __init__(self, name, role, job, program=False):
        self.title, self.role = f"{name} ({role} of job {job})", role
        names = (board.HEARTBEAT_NS, board.ITERATION, board.FINISHED, board.OPEN_CALLS)
        self.row = np.zeros(max(names) + 1, np.int64)
        self.spec = SimpleNamespace(
            host=name, is_worker=role == "worker", job=SimpleNamespace(number=job, program=program)
        )
        self.process = SimpleNamespace(
            pid=1, code=None, log=Path(f"{name}.log"), log_tail=lambda: "its last words"
        )
        self.done, self.killed, self.stopping, self.sent = None, False, False, []
        self.counted = False
        self.waiting = []  # what it has said and nobody has received
        self.channel, self.end = socket.socketpair()

    def fileno(self):
        return self.channel.fileno()

    def send(self, **message):
        self.sent.append(message)

    def receive(self):
        if self.waiting:
            self.done = self.waiting.pop()
        return True


class Hosts:
    def __init__(self, *hosts):
        self.hosts = list(hosts)

    def jobs(self):
        return sorted({host.spec.job.number for host in self.hosts})

    def of_job(self, job, role):
        return [h for h in self.hosts if h.role == role and h.spec.job.number == job]


class Faults:
    def __init__(self, **known):
        self.killed, self.broken, self.endangered, self.cut = set(), {}, {}, ""
        self.links_return, self.last_ns, self.due_ns, self.log = False, 0, None, []
        vars(self).update(known)

    def next_ns(self):
        return self.due_ns

    def tick(self, now_ns):
        self.log.append("tick")

    def close(self):
        self.log.append("close")

    def cut_off(self, job):
        return self.cut

    def silent_since_ns(self, since_ns):
        return max(since_ns, self.last_ns)


class Ticks:
    """Any sampler; remembers what it was told."""

    def __init__(self, *_, **__):
        self.log = []

    def __getattr__(self, what):
        return lambda *words, **named: self.log.append((what, *words, *named.items()))


@pytest.fixture
def watch(monkeypatch):
    for name in ("CpuSampler", "WaitSampler", "RunQueueDelay"):
        monkeypatch.setattr(watchdog, name, Ticks)
    made = []

    def watch(*hosts, faults=None, programs=None, **more):
        hosts = hosts or (Host("h1", "worker", 0), Host("h2", "worker", 0), Host("h3", "ps", 0))
        for host in hosts:
            host.row[board.HEARTBEAT_NS] = BEGUN
        made.extend(hosts)
        switches = SimpleNamespace(
            processes={"s1": SimpleNamespace(pid=7)}, by_thread=["s1"], check=lambda: None
        )
        memory = SimpleNamespace(tick=lambda now_ns: None, latest="latest")
        of_job = {host.spec.job.number: S for host in hosts}
        return Watch(
            Hosts(*hosts), switches, [], memory, Ticks(), BEGUN, of_job, TIMEOUT, faults,
            programs=programs, **more,
        )  # fmt: skip

    yield watch
    for host in made:
        host.channel.close()
        host.end.close()


def beat(run, now_ns):
    for host in run.hosts.hosts:
        host.row[board.HEARTBEAT_NS] = now_ns


def test_a_job_without_progress_stalls_and_names_who_is_behind(watch):
    run = watch()
    first, second, _ = run.hosts.hosts
    assert run._check_progress(0, BEGUN + S - 1) is None and 0 not in run._seen  # it has not begun
    first.row[board.ITERATION], second.row[board.ITERATION] = 3, 2
    now_ns = BEGUN + 5 * S
    beat(run, now_ns + TIMEOUT)
    assert run._check_progress(0, now_ns) is None
    assert run._check_progress(0, now_ns + TIMEOUT) is None
    with pytest.raises(RunError, match="host h2 .* stalled: .* no result for 10 s.*iteration 2"):
        run._check_progress(0, now_ns + TIMEOUT + 1)
    second.row[board.FINISHED] = 1  # whatever it is, it is progress
    assert run._check_progress(0, now_ns + TIMEOUT + 2) is None


def test_a_host_that_is_silent_is_named_unless_it_has_ended(watch):
    run = watch()
    server = run.hosts.hosts[2]
    beat(run, BEGUN + 2 * TIMEOUT)
    server.row[board.HEARTBEAT_NS] = 0
    assert run._check_progress(0, BEGUN + TIMEOUT) is None
    with pytest.raises(RunError, match="host h3 .*gave no sign of life for 10 s") as told:
        run._check_progress(0, BEGUN + TIMEOUT + 1)
    assert "its last words" in str(vars(told.value)) + str(told.value)
    server.killed = True
    assert run._check_progress(0, BEGUN + TIMEOUT + 1) is None
    server.killed, server.done = False, {"packets": 1}
    assert run._check_progress(0, BEGUN + TIMEOUT + 1) is None


def test_silence_counts_from_the_end_of_a_pause(watch):
    run = watch(faults=Faults(last_ns=BEGUN + 20 * S))
    assert run._check_progress(0, BEGUN + 20 * S + TIMEOUT) is None
    with pytest.raises(RunError, match="no sign of life"):
        run._check_progress(0, BEGUN + 20 * S + TIMEOUT + 1)


@pytest.mark.parametrize(
    "known, why",
    [
        ({"cut": "link s1-s2"}, "its hosts have no path to each other without link s1-s2"),
        ({"cut": "link s1-s2", "links_return": True}, None),
        ({"endangered": {0: "s1 was restarted"}}, "s1 was restarted"),
    ],
)
def test_a_job_that_a_fault_has_stopped_is_unfinished(watch, known, why):
    run = watch(faults=Faults(**known))
    run._check_progress(0, BEGUN + 2 * S)
    later_ns = BEGUN + 2 * S + TIMEOUT + 1
    beat(run, later_ns)
    assert run._job_over(0, later_ns) == (why is not None)
    assert run.unfinished == ({} if why is None else {0: why})
    told = [{"stop": True}] if why else []
    assert [host.sent for host in run.hosts.hosts] == [told] * 3


def test_a_broken_job_ends_sooner(watch):
    run = watch(faults=Faults(broken={0: "a worker was killed"}))
    run._check_progress(0, BEGUN + 2 * S)
    assert run._check_progress(0, BEGUN + 2 * S + BROKEN_NS) is None
    assert run._check_progress(0, BEGUN + 2 * S + BROKEN_NS + 1) == "a worker was killed"


def test_a_system_that_repairs_no_loss_says_so(watch):
    run = watch(lossless_reason="it has no timers")
    run._check_progress(0, BEGUN + 2 * S)
    beat(run, BEGUN + 20 * S)
    why = run._check_progress(0, BEGUN + 2 * S + TIMEOUT + 1)
    assert why.startswith("it received no result for 10 s, so a packet") and "no timers" in why


def test_a_program_that_computes_may_take_as_long_as_it_likes(watch):
    hosts = [Host(name, "worker", 0, program=True) for name in ("h1", "h2")]
    run = watch(*hosts)
    hosts[0].row[board.OPEN_CALLS] = 1
    run._check_progress(0, BEGUN + 2 * S)
    beat(run, BEGUN + 99 * S)
    assert run._check_progress(0, BEGUN + 50 * S) is None
    hosts[1].row[board.OPEN_CALLS] = 1
    with pytest.raises(RunError, match="stalled"):
        run._check_progress(0, BEGUN + 50 * S + TIMEOUT + 1)


def test_a_job_is_over_when_its_server_has_said_so_too(watch):
    run = watch()
    first, second, server = run.hosts.hosts
    assert not run._job_done(0) and not server.sent
    first.done = second.done = {"counted": 1}
    for _ in range(2):
        assert not run._job_done(0)
        assert [host.sent for host in run.hosts.hosts] == [[{"stop": True}]] * 3
    assert [what for what, *_ in run.cpu.log] == ["tick"] and run.cpu.log[0][-1] == ("last", True)
    server.killed = True
    assert run._job_done(0) and run._job_over(0, BEGUN)


def test_a_program_is_over_when_its_processes_have_ended(watch):
    over = []
    run = watch(programs=SimpleNamespace(is_over=lambda job: bool(over)))
    for host in run.hosts.hosts:
        host.done = {"counted": 1}
    assert not run._job_done(0)
    over.append(True)
    assert run._job_done(0)


def test_a_killed_job_is_over_at_once(watch):
    assert watch(faults=Faults(killed={0}))._job_over(0, BEGUN + 99 * S)


def test_a_process_that_dies_ends_the_run_unless_it_had_finished(watch, monkeypatch):
    monkeypatch.setattr(watchdog, "process_died", lambda host: RunError(f"{host.title} died"))
    run = watch()
    host = run.hosts.hosts[1]
    run._check_processes()
    host.process.code, host.waiting = 0, [{"counted": 1}]
    run._check_processes()
    assert host.done == {"counted": 1}
    host.done = None
    with pytest.raises(RunError, match="h2 .*died"):
        run._check_processes()
    host.killed = True
    run._check_processes()


def test_a_step_looks_at_everything(watch):
    faults = Faults(killed={0})
    run, jobs = watch(faults=faults, programs=Ticks()), {0}
    run._step(jobs, BEGUN + S)
    assert jobs == set() and faults.log == ["tick"]
    assert run.programs.log == [("tick", BEGUN + S)]
    assert run.progress.log == [("job_ended", 0, S), ("tick", S, "latest")]
    assert run.cpu.log == [("watch_process", "s1", 7), ("tick", BEGUN + S)]
    assert run.waits.log == run.cpu.log
    assert run.run_queue.log == [("watch_process", "s1", 7, BEGUN + S), ("tick", BEGUN + S)]


def test_a_run_ends_with_its_last_job_and_hears_what_is_left(watch):
    faults = Faults()
    run = watch(faults=faults)
    first, second, server = run.hosts.hosts
    for host in (first, second, server):
        host.waiting = [{"counted": 1}]
        host.end.send(b"x")
    before_ns = time.monotonic_ns()
    run.run()
    assert before_ns <= run.end_ns <= time.monotonic_ns() and faults.log[-1] == "close"
    assert first.done and second.done and server.done


def test_it_waits_no_longer_than_until_the_next_fault(watch):
    class Selector:
        def select(self, pause_s):
            self.pause_s = pause_s
            return []

    selector, faults = Selector(), Faults()
    run = watch(faults=faults)
    usual_ns = run._listen(selector)
    assert usual_ns == int(watchdog.SELECT_S * 1e9) and selector.pause_s == watchdog.SELECT_S
    faults.due_ns = time.monotonic_ns() - S
    assert run._listen(selector) == 0 and selector.pause_s == 0
    faults.due_ns = time.monotonic_ns() + 1000 * S
    assert run._listen(selector) == usual_ns


def test_only_what_no_turn_explains_is_a_standstill(watch, monkeypatch):
    """Faults take their time: a switch that starts again, for instance."""
    clock = [BEGUN]
    monkeypatch.setattr(watchdog.time, "monotonic_ns", lambda: clock[0])
    late = [0, 3 * S, STILL_NS, STILL_NS + 1, 0]  # beyond the time of each wait

    class Slow(Faults):
        def tick(self, now_ns):
            clock[0] += 2 * S

    run = watch(faults=Slow())

    def listen(selector):
        clock[0] += S + late.pop(0)
        if not late:
            for host in run.hosts.hosts:
                host.done, host.counted = {"counted": 1}, True
        return S

    monkeypatch.setattr(run, "_listen", listen)
    monkeypatch.setattr(run, "_check_progress", lambda job, now_ns: None)
    run.run()
    assert not late and run.still_ns == 4 * S + 1


@pytest.mark.parametrize("answers", [True, False])
def test_hosts_that_are_to_stop_have_time_to_say_what_they_have_counted(
    watch, monkeypatch, answers
):
    clock, looks = [BEGUN], []
    monkeypatch.setattr(watchdog.time, "monotonic_ns", lambda: clock[0])
    run = watch(Host("h1", "worker", 0), Host("h2", "worker", 1), Host("h3", "worker", 1))

    def listen(selector):
        looks.append(clock[0] - BEGUN)
        clock[0] += S
        if answers and len(looks) == 3:
            run.hosts.hosts[1].counted = True

    monkeypatch.setattr(run, "_listen", listen)
    run._receive_remaining(None)
    assert looks == []
    run._tell_to_stop(1)
    run.hosts.hosts[2].killed = True
    run._receive_remaining(None)
    assert looks == [n * S for n in range(3 if answers else watchdog.STOP_NS // S)]
