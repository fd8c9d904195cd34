"""Samples during a run: processor time, and aggregators in use.

The fidelity mark depends on a process's busiest second. Windows of a second move in steps of a
quarter, so that a busy second on the border of two windows is still seen.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Mapping

from p4fabric.base.linux.processes import cpu_ns, thread_cpu_ns, thread_waits

from testbed.dataplane import MemorySnapshot, SnapshotHistory
from testbed.emulate.switch_group import SwitchGroup
from testbed.setup import Control

CPU_STEP_NS = 250_000_000
CPU_WINDOW_STEPS = 4
MEMORY_STEP_NS = 100_000_000
# A sample of a large pool takes long; it may use this share of the time, not more.
MEMORY_SHARE = 0.02
MEMORY_SAMPLES = 2000  # of a switch that are kept, at most
MEMORY_LONGEST_STEP_NS = 300_000_000  # most of what it takes is waiting for a busy machine

# When, and time so far, by process or thread id; all in ns.
Sample = tuple[int, dict[int, int]]


class CpuSampler:
    """Processor time of a set of processes, by name."""

    def __init__(
        self, processes: Mapping[str, int], now_ns: int, by_thread: Collection[str] = ()
    ) -> None:
        """processes: process id by name. now_ns: CLOCK_MONOTONIC. by_thread: names of those whose
        share is that of their busiest thread, since no thread can take over another's work."""
        self._processes = dict(processes)
        self._by_thread = frozenset(by_thread)
        self._samples: dict[str, deque[Sample]] = {
            name: deque(maxlen=CPU_WINDOW_STEPS + 1) for name in processes
        }
        self._peak: dict[str, float] = {}
        self._next_ns = now_ns
        self.tick(now_ns)

    def tick(self, now_ns: int, last: bool = False) -> None:
        """Take a sample if one is due; with `last` in any case, before processes end."""
        if now_ns < self._next_ns and not last:
            return
        self._next_ns = now_ns + CPU_STEP_NS
        for name, pid in self._processes.items():
            used_ns = self._read(name, pid)
            if not used_ns:
                continue
            samples = self._samples[name]
            samples.append((now_ns, used_ns))
            if len(samples) > CPU_WINDOW_STEPS:
                self._peak[name] = max(self._peak.get(name, 0.0), _share(samples))

    def _read(self, name: str, pid: int) -> dict[int, int]:
        """Time so far in ns, by thread or of the process; {} where it is gone."""
        if name in self._by_thread:
            return thread_cpu_ns(pid)
        used_ns = cpu_ns(pid)
        return {} if used_ns is None else {pid: used_ns}

    def watch_process(self, name: str, pid: int) -> None:
        """Measure this process under that name from now on. A new process starts without
        samples."""
        if self._processes.get(name) != pid:
            self._processes[name] = pid
            self._samples[name] = deque(maxlen=CPU_WINDOW_STEPS + 1)

    def peaks(self) -> dict[str, float | None]:
        """Largest share of a core in any second, by name; None where it could not be measured.

        The life of a process that was shorter than a second counts as its second.
        """
        return {
            name: self._peak.get(name, _share(samples) if len(samples) > 1 else None)
            for name, samples in self._samples.items()
        }


class WaitSampler(CpuSampler):
    """Time that processes waited for a processor, all their threads together, as a share of the
    worst second. The share is above 1 where several threads waited at once.

    A process whose threads hand packets on to each other may be far below a core's worth of work
    and late all the same, when others keep it waiting at each step."""

    def _read(self, name: str, pid: int) -> dict[int, int]:
        waits = thread_waits(pid)
        return {pid: sum(wait_ns for wait_ns, _ in waits.values())} if waits else {}


class RunQueueDelay:
    """Time that each process waits for its turn on a processor, over its whole life, by name. Of
    its threads the one that waits longest counts. Nothing is known where the kernel keeps no such
    accounts."""

    def __init__(self, processes: Mapping[str, int], now_ns: int) -> None:
        """processes: process id by name. now_ns: CLOCK_MONOTONIC."""
        self._processes: dict[str, int] = {}
        self._first: dict[str, tuple[int, dict[int, tuple[int, int]]]] = {}
        self._last: dict[str, tuple[int, dict[int, tuple[int, int]]]] = {}
        for name, pid in processes.items():
            self.watch_process(name, pid, now_ns)

    def watch_process(self, name: str, pid: int, now_ns: int) -> None:
        """Watch this process under that name from now on."""
        if self._processes.get(name) != pid:
            self._processes[name] = pid
            self._first[name] = now_ns, thread_waits(pid)

    def tick(self, now_ns: int) -> None:
        """Read all that still live; the last reading before a process ends is what counts."""
        for name, pid in self._processes.items():
            if waits := thread_waits(pid):
                self._last[name] = now_ns, waits

    def of(self, name: str) -> tuple[float | None, int | None]:
        """(share of the time that it waited, mean wait in ns for each time that it got a
        processor); (None, None) where it could not be measured."""
        if name not in self._last:
            return None, None
        (begin_ns, before), (end_ns, after) = self._first[name], self._last[name]
        gone = [
            (wait - before.get(thread, (0, 0))[0], turns - before.get(thread, (0, 0))[1])
            for thread, (wait, turns) in after.items()
        ]
        wait_ns, turns = max(gone)
        return wait_ns / max(end_ns - begin_ns, 1), wait_ns // max(turns, 1)


def _share(samples: deque[Sample]) -> float:
    (first_ns, before), (last_ns, after) = samples[0], samples[-1]
    used_ns = max(after[each] - before.get(each, 0) for each in after)
    # Processor time comes in ticks of 10 ms, too coarse for a span of a few.
    return used_ns / max(last_ns - first_ns, CPU_STEP_NS)


class MemorySampler:
    """Snapshots of every switch's memory, over time; `latest` are the last ones, by switch.

    A run of any length keeps between half of MEMORY_SAMPLES and that of each switch: when there are
    so many, every second one goes, and of those that follow every second one is kept."""

    def __init__(
        self,
        switches: SwitchGroup,
        take: Callable[[Control], MemorySnapshot] | None,
        start_ns: int,
    ) -> None:
        """take: a snapshot of a switch, through its control client; None for a system that uses no
        switch memory. start_ns: the run's start on CLOCK_MONOTONIC."""
        self._switches = switches
        self._take = take
        self._start_ns = start_ns
        self._next_ns = start_ns
        self._ticks = 0
        self._step = 1  # ticks from one kept sample to the next
        self.latest: dict[str, MemorySnapshot] = {}
        self.snapshots = SnapshotHistory()

    def tick(self, now_ns: int, last: bool = False) -> None:
        """Take a sample if one is due. Raises RunError when a switch does not answer."""
        if self._take is None:
            return
        if now_ns < self._next_ns and not last:
            return
        kept = -(-self._ticks // self._step)  # samples of each switch
        if kept == MEMORY_SAMPLES:
            self.snapshots.keep_every_second()
            self._step *= 2
        is_kept = last or self._ticks % self._step == 0
        self._ticks += 1
        for name in self._switches.clients:
            time_ns = max(time.monotonic_ns() - self._start_ns, 0)
            with self._switches.asked(name, "does not answer") as client:
                taken = self._take(client)
            self.latest[name] = taken
            if is_kept:
                self.snapshots.add(name, time_ns, taken)
        taken_ns = time.monotonic_ns() - now_ns
        pause_ns = min(int(taken_ns / MEMORY_SHARE), MEMORY_LONGEST_STEP_NS)
        self._next_ns = now_ns + max(MEMORY_STEP_NS, pause_ns)
