"""Processor shares, whose worst second counts wherever it lies; samples of memory, which a run of
any length has a bounded number of."""

from __future__ import annotations

import contextlib
import os
from types import SimpleNamespace

import pytest
from p4fabric.base.linux.processes import thread_waits

from testbed.emulate import samplers as samples
from testbed.emulate.samplers import CpuSampler, MemorySampler, RunQueueDelay, WaitSampler
from tests.support.live_runs import snapshot

S = 1_000_000_000


@pytest.fixture
def processor_time(monkeypatch):
    """Processor time by process id, to be set by the test."""
    used: dict[int, int | None] = {1: 0, 2: 0}
    monkeypatch.setattr(samples, "cpu_ns", used.get)
    return used


def test_a_busy_second_between_two_whole_seconds_is_seen(processor_time):
    sampler = CpuSampler({"h1": 1, "s1": 2}, 0)
    for quarter in range(1, 17):
        processor_time[1] += S // 4 if 7 <= quarter <= 10 else 0
        processor_time[2] += S // 40
        sampler.tick(quarter * S // 4)
    assert sampler.peaks()["h1"] == pytest.approx(1.0)
    assert sampler.peaks()["s1"] == pytest.approx(0.1)


def test_a_run_shorter_than_a_second_counts_as_one_window(processor_time):
    sampler = CpuSampler({"h1": 1}, 0)
    processor_time[1] = S // 4
    sampler.tick(S // 2, last=True)
    assert sampler.peaks() == {"h1": pytest.approx(0.5)}


def test_a_process_that_takes_anothers_place_starts_from_nothing(processor_time):
    sampler = CpuSampler({"s1": 1}, 0)
    processor_time[1] = 100 * S
    sampler.watch_process("s1", 2)
    sampler.watch_process("s1", 2)
    for quarter in range(1, 7):
        processor_time[2] += S // 40
        sampler.tick(quarter * S // 4)
    assert sampler.peaks() == {"s1": pytest.approx(0.1)}


def test_a_process_that_ends_early_keeps_its_share(processor_time):
    sampler = CpuSampler({"h1": 1, "h2": 2}, 0)
    processor_time[1] = S // 4
    sampler.tick(S // 2)
    processor_time[1] = None
    for half in range(2, 8):
        sampler.tick(half * S // 2)
    assert sampler.peaks() == {"h1": pytest.approx(0.5), "h2": 0.0}


def test_a_process_that_is_gone_has_no_share(processor_time):
    processor_time[1] = None
    sampler = CpuSampler({"h1": 1}, 0)
    sampler.tick(S, last=True)
    assert sampler.peaks() == {"h1": None}


def test_the_share_is_that_of_the_busiest_thread(processor_time, monkeypatch):
    threads = {11: 0, 12: 0}
    monkeypatch.setattr(samples, "thread_cpu_ns", lambda pid: dict(threads))
    sampler = CpuSampler({"h1": 1, "s1": 2}, 0, by_thread=["s1"])
    for quarter in range(1, 9):
        processor_time[1] += S // 8
        threads[11] += S // 8
        threads[12] += S // 16
        threads.setdefault(13, 0)  # one that came later
        sampler.tick(quarter * S // 4)
    assert sampler.peaks() == {"h1": pytest.approx(0.5), "s1": pytest.approx(0.5)}


def test_waiting_threads_are_added_up_per_second(monkeypatch):
    waited = {"ns": 0}
    monkeypatch.setattr(
        samples, "thread_waits", lambda pid: {1: (waited["ns"], 1), 2: (waited["ns"], 1)}
    )
    sampler = WaitSampler({"s1": 1}, 0)
    for quarter in range(1, 13):
        waited["ns"] += S // 4 if 5 <= quarter <= 8 else S // 200
        sampler.tick(quarter * S // 4)
    assert sampler.peaks() == {"s1": pytest.approx(2.0)}
    assert WaitSampler({}, 0).peaks() == {}


def test_the_wait_is_that_of_the_longest_waiting_thread(monkeypatch):
    waits: dict[int, dict[int, tuple[int, int]]] = {7: {7: (100, 1), 8: (0, 0)}}
    monkeypatch.setattr(samples, "thread_waits", lambda pid: waits.get(pid, {}))
    found = RunQueueDelay({"s1": 7, "gone": 9}, 0)
    waits[7] = {7: (1100, 11), 8: (6000, 3), 9: (500, 1)}
    found.tick(20_000)
    assert found.of("s1") == (pytest.approx(0.3), 2000)
    del waits[7]  # ends: what was seen last counts
    found.tick(30_000)
    assert found.of("s1") == (pytest.approx(0.3), 2000)
    assert found.of("gone") == (None, None)
    waits[11] = {11: (50, 5)}
    found.watch_process("s1", 11, 40_000)
    waits[11] = {11: (150, 15)}
    found.tick(41_000)
    assert found.of("s1") == (pytest.approx(0.1), 10)


class OneIdleSwitch:
    """The part of a group of switches that a sampler uses."""

    clients = ("s1",)

    def asked(self, name, problem):
        return contextlib.nullcontext()


@pytest.fixture
def memory_sampler(monkeypatch):
    """A sampler of one switch on a clock that the test sets (`now_ns`), which keeps 8 samples; the
    n-th sample has n aggregators filling."""
    clock = SimpleNamespace(now_ns=0, samples=0)

    def take(client):
        clock.samples += 1
        return snapshot(clock.samples, 0)

    monkeypatch.setattr(samples.time, "monotonic_ns", lambda: clock.now_ns)
    monkeypatch.setattr(samples, "MEMORY_SAMPLES", 8)
    return MemorySampler(OneIdleSwitch(), take, 0), clock


@pytest.mark.parametrize("ticks", [1, 7, 8, 9, 16, 17, 100, 1000])
def test_a_run_of_any_length_keeps_samples_at_equal_steps(memory_sampler, ticks):
    sampler, clock = memory_sampler
    for _ in range(ticks):
        sampler.tick(clock.now_ns)
        clock.now_ns += samples.MEMORY_STEP_NS
        assert sampler.latest["s1"].filling == clock.samples, "what is shown is the newest"
    assert clock.samples == ticks
    rows = [row for row in sampler.snapshots.tables()["memory"] if row["job"] is None]
    times = [row["time_ns"] // samples.MEMORY_STEP_NS for row in rows]
    assert times[0] == 0 and min(ticks, 4) <= len(times) <= 8
    assert [row["occupied"] for row in rows] == [time + 1 for time in times]
    steps = {after - before for before, after in zip(times, times[1:], strict=False)}
    assert len(steps) == (ticks > 1)


def test_the_last_sample_is_always_kept(memory_sampler):
    sampler, clock = memory_sampler
    for _ in range(100):
        sampler.tick(clock.now_ns)
        clock.now_ns += samples.MEMORY_STEP_NS
    clock.now_ns -= 1
    sampler.tick(clock.now_ns, last=True)
    assert sampler.snapshots.tables()["memory"][-1]["time_ns"] == clock.now_ns


def test_the_kernel_reports_waits():
    threads = thread_waits(os.getpid())
    if not threads:
        pytest.skip("this kernel keeps no accounts of waits")
    assert os.getpid() in threads and all(turns > 0 for _, turns in threads.values())


def test_a_sample_is_taken_when_it_is_due_or_the_last_one():
    class Counting(CpuSampler):
        reads = 0

        def _read(self, name, pid):
            self.reads += 1
            return {}

    step_ns = samples.CPU_STEP_NS
    sampler = Counting({"h1": 1}, 0)
    counts = [sampler.reads]
    for now_ns, last in (
        *((step_ns - 1, False), (step_ns, False), (step_ns + 1, False)),
        *((step_ns + 2, True), (2 * step_ns + 1, False), (2 * step_ns + 2, False)),
    ):
        sampler.tick(now_ns, last=last)
        counts.append(sampler.reads)
    assert counts == [1, 1, 2, 2, 3, 3, 4]
