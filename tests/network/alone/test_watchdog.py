"""Hosts that start together, and the watchdog: whatever goes wrong ends the run with its name.

The hosts here are stand-ins that keep to the control protocol (tests/support/children.py). What
else the watch decides: tests/unit/emulate/test_watchdog.py.
"""

from __future__ import annotations

import io
import time
from dataclasses import replace

import pytest
from p4fabric.base.errors import RunError
from p4fabric.emulate.spawner import Spawner
from rich.console import Console

from testbed.emulate import host_group as hosts_module
from testbed.emulate.host_group import HostGroup
from testbed.emulate.watchdog import Watch
from testbed.protocols.host_spec import Compute
from testbed.run_parts.live_view import JobTitle, Progress
from tests.support.host_specs import OPTIONS, host_spec

SECOND = 1_000_000_000


class NoSwitches:
    """Stands for the switches: none, and all is well."""

    processes: dict = {}
    clients: dict = {}
    by_thread: tuple = ()

    def check(self) -> None:
        pass


class NoMemory:
    latest: dict = {}

    def tick(self, now_ns: int) -> None:
        pass


@pytest.fixture
def group(tmp_path, monkeypatch):
    """Makes the hosts of jobs, given per job: its workers' behaviours, then its server's."""
    monkeypatch.setattr(hosts_module, "TARGET", "tests.support.children:host")
    spawner = Spawner("host pool", ["tests.support.children"], tmp_path / "pool.log")
    made = []

    def make(*jobs: list[str], iterations: int = 3) -> HostGroup:
        specs = []
        for job, behaviours in enumerate(jobs):
            for worker, behaviour in enumerate(behaviours):
                is_worker = worker < len(behaviours) - 1
                specs.append(
                    host_spec(
                        {"number": job, "name": f"job-{job}", "iterations": iterations},
                        host=f"h{len(specs) + 1}",
                        role="worker" if is_worker else "ps",
                        number=worker if is_worker else 0,
                        compute=Compute() if is_worker else None,
                        options=replace(OPTIONS, extra={"behaviour": behaviour}),
                    )
                )
        namespaces = {spec.host: spawner.pid for spec in specs}
        made.append(HostGroup(specs, spawner, namespaces, tmp_path, 0))
        return made[-1]

    yield make
    for hosts in made:
        hosts.close()
    spawner.close()


def watch(hosts: HostGroup, timeout_s: float = 30) -> str:
    """Start the hosts and watch them to their end; returns what was shown."""
    hosts.wait_ready()
    start_ns = time.monotonic_ns() + 50_000_000
    hosts.start(start_ns)
    text = io.StringIO()
    late = dict.fromkeys(hosts.jobs(), 0)
    jobs = {job: JobTitle(f"job-{job}", 3, late[job]) for job in hosts.jobs()}
    progress = Progress(
        jobs, hosts.work, "test", Console(file=text, force_terminal=True, width=100)
    )
    with progress:
        watched = Watch(
            hosts,
            NoSwitches(),
            [hosts.spawner],
            NoMemory(),
            progress,
            start_ns,
            late,
            int(timeout_s * SECOND),
        )
        watched.run()
    return text.getvalue()


def test_all_begin_at_the_same_instant_and_the_watch_ends_with_the_last(group):
    hosts = group(["", "", ""], ["", ""], iterations=40)
    shown = watch(hosts)
    assert len({host.done["start_ns"] for host in hosts.hosts}) == 1
    hosts.spawner.wait_ended([host.process for host in hosts.hosts], 10, "end")
    assert {host.process.code for host in hosts.hosts} == {0}
    assert "job-1" in shown


@pytest.mark.parametrize(
    ("behaviour", "words", "log"),
    [
        ("die", r"host h2 \(worker 1 of job job-0\) ended with exit code 7", "cannot go on"),
        ("fail", "wrong value: job a, iteration 0", "began"),
        ("freeze", r"h2 \(worker 1 of job job-0\) gave no sign of life", "began"),
        ("idle", r"h2 \(worker 1 of job job-0\) stalled: its job received no result", "began"),
    ],
)
def test_a_failing_host_is_named(group, behaviour, words, log):
    hosts = group(["", behaviour, ""], ["", ""])
    with pytest.raises(RunError, match=words) as caught:
        watch(hosts, timeout_s=0.3 if behaviour in ("freeze", "idle") else 30)
    assert log in caught.value.log_tail
    assert caught.value.log.endswith("h2.log")


def test_a_host_that_cannot_start_is_named(group):
    hosts = group(["", "early", ""])
    with pytest.raises(RunError, match="h2 .* ended with exit code 1") as caught:
        hosts.wait_ready()
    assert caught.value.log_tail == "cannot open the socket"
