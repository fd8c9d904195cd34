"""Jobs that share a switch's memory, in virtual time: what lab 12 measures schedulers with.

Time goes in ticks. In a tick each worker can send one packet (one that is slow, less often), and
each parameter server (PS) can take in one. So a PS that has to add up everything by itself holds
its job back, and a sum that leaves the switch in one packet does not. When all workers have sent a
fragment and it is not complete after some ticks, the PS sends a reminder.
"""

from __future__ import annotations

import random
import struct
from collections import deque
from dataclasses import dataclass, field

from labs.grader.bench import PACKET_GAP_NS, Failure, Switch
from labs.grader.jobs import (
    AT_AGG,
    AT_UDP,
    HEADER,
    SLOTS,
    VALUES,
    Job,
    header,
    udp_sum_fits,
)
from labs.grader.packets import GRADIENT, NOTHING, REMINDER, RESULT, wrapped

JOBS, FRAGMENTS = 3, 32
PS_PACKETS = 1  # that a PS takes in, in a tick
PATIENCE = 10  # ticks until a reminder
MOST_TICKS = 600
AT_IP = 14
AT_VALUES = AT_AGG + HEADER.size
ROW = struct.Struct(f"!{VALUES}i")


@dataclass
class Load:
    """The work of one job.

    Args:
        window: fragments that a worker may have on their way.
        pace: ticks for a packet, of each worker.
        begin: tick at which it begins.
        urgent: priority of its first fragments; later ones have less.
        turn: decides where its fragments go in the pool.
        first: number of its first fragment in packets. Fragments are counted from 0 here.
    """

    job: Job
    window: int
    pace: tuple[int, ...]
    begin: int
    urgent: int
    turn: int
    first: int

    def slot(self, number: int) -> int:
        return (number * 5 + self.turn) % SLOTS

    def priority(self, number: int) -> int:
        return max(1, self.urgent - number)


@dataclass(frozen=True)
class Workload:
    """Jobs drawn from a seed, and the order in which packets come."""

    loads: tuple[Load, ...]
    seed: int


def draw(seed: int) -> Workload:
    """A workload: some jobs, of which one has a slow worker."""
    rng = random.Random(seed)
    ports = rng.sample(range(1, 13), 12)
    groups = rng.sample(range(1, 100), JOBS)
    numbers = rng.sample(range(256), JOBS)
    if 0 not in numbers:
        numbers[0] = 0  # a number like any other
    slow = rng.randrange(JOBS)
    loads = []
    for n in range(JOBS):
        own, server = tuple(ports[4 * n : 4 * n + 3]), ports[4 * n + 3]
        workers = tuple(rng.sample(range(32), 3))
        job = Job(numbers[n], workers, own, server, groups[n])
        pace = [1, 1, 1]
        if n == slow:
            pace[rng.randrange(3)] = rng.randrange(3, 5)
        urgent = rng.randrange(60, 256)
        begin, turn = rng.randrange(20), rng.randrange(SLOTS)
        first = (1 << 31) - rng.randrange(1, FRAGMENTS)  # so no register can be narrower
        loads.append(Load(job, rng.randrange(5, 9), tuple(pace), begin, urgent, turn, first))
    return Workload(tuple(loads), seed)


def set_up(switch: Switch, workload: Workload, size: int = SLOTS, preemption: int = 1) -> None:
    """The control plane's facts about the jobs."""
    for load in workload.loads:
        job = load.job
        row = [job.everyone, size, job.group, preemption]
        switch.table_add("job", "aggregate", [job.number], row)
        switch.table_add("server", "to_port", [job.number], [job.server])
        switch.multicast_group(job.group, job.members)


@dataclass
class _State:
    """A job's workers and PS."""

    load: Load
    next: list[int]  # the next fragment of each worker
    values: list[list[list[int]]]  # by fragment and worker
    results: list[set[int]]  # of each worker
    sums: dict[int, tuple[int, list[int]]] = field(default_factory=dict)  # fragment: bitmap, values
    queue: deque[bytes] = field(default_factory=deque)
    asked: dict[int, int] = field(default_factory=dict)  # fragment: when a reminder is due
    sent: set[int] = field(default_factory=set)  # fragments whose result the PS has sent
    packets: int = 0  # that the PS has taken in
    end: int = 0

    def right(self, number: int) -> list[int]:
        """The sums of a fragment."""
        return [wrapped(sum(column)) for column in zip(*self.values[number], strict=True)]


def lengths_fit(data: bytes) -> bool:
    """The headers of IP and UDP say how long a frame is."""
    ip, udp = (int.from_bytes(data[at : at + 2], "big") for at in (AT_IP + 2, AT_UDP + 4))
    return len(data) - AT_IP == ip and len(data) - AT_UDP == udp


@dataclass(frozen=True)
class Result:
    """The outcome of a scheduler: the end of each job (ticks since its begin), packets
    at the PS for each fragment, and packets that have left where nobody waits for them."""

    ticks: tuple[int, ...]
    packets: float
    astray: int

    @property
    def mean(self) -> float:
        return sum(self.ticks) / len(self.ticks)


def run(switch: Switch, workload: Workload) -> Result:
    """Let the jobs run. Raises Failure for a wrong sum, or for jobs that do not end."""
    return _Run(switch, workload).run()


class _Run:
    def __init__(self, switch: Switch, workload: Workload) -> None:
        self.switch, self.rng = switch, random.Random(workload.seed + 1)
        self.tick = self.astray = 0
        self.states = []
        for load in workload.loads:
            count = len(load.job.workers)
            values = [
                [
                    [self.rng.randrange(-(1 << 31), 1 << 31) for _ in range(VALUES)]
                    for _ in range(count)
                ]
                for _ in range(FRAGMENTS)
            ]
            self.states.append(_State(load, [0] * count, values, [set() for _ in range(count)]))
        self.by_server = {s.load.job.server: s for s in self.states}
        self.by_port = {p: (s, w) for s in self.states for w, p in enumerate(s.load.job.ports)}

    def run(self) -> Result:
        for self.tick in range(1, MOST_TICKS):
            packets = [packet for state in self.states for packet in self.turn(state)]
            self.rng.shuffle(packets)
            self.asked = {(port, header(d)[3]) for port, d in packets if header(d)[0] == REMINDER}
            begin = self.switch.now_ns
            timed = [(begin + PACKET_GAP_NS * (n + 1), *p) for n, p in enumerate(packets)]
            for _, port, data in self.switch.burst(timed):
                self.arrived(port, data)
            if self.asked:
                text = "a PS gets no answer to its reminder"
                port, number = next(iter(self.asked))
                raise Failure(f"{text}: fragment {number}, port {port}", case=text)
            for state in self.states:
                if not state.end and all(len(r) == FRAGMENTS for r in state.results):
                    state.end = self.tick
            if all(state.end for state in self.states):
                ticks = tuple(s.end - s.load.begin for s in self.states)
                packets_at_ps = sum(s.packets for s in self.states)
                per_fragment = packets_at_ps / (FRAGMENTS * len(self.states))
                return Result(ticks, per_fragment, self.astray + self.switch.astray)
        raise Failure(
            f"after {MOST_TICKS} ticks some jobs have not ended", case="a job does not end"
        )

    def turn(self, state: _State) -> list[tuple[int, bytes]]:
        """Packets that a job's workers and PS send in this tick."""
        load, job, made = state.load, state.load.job, []
        for worker, pace in enumerate(load.pace):
            number = state.next[worker]
            free = number < load.window or number - load.window in state.results[worker]
            if number < FRAGMENTS and free and self.tick >= load.begin and self.tick % pace == 0:
                slot, priority = load.slot(number), load.priority(number)
                frame = bytearray(job.plain(worker, load.first + number, slot, priority))
                ROW.pack_into(frame, AT_VALUES, *state.values[number][worker])
                made.append((job.ports[worker], bytes(frame)))
                state.next[worker] += 1
                if min(state.next) > number:
                    state.asked[number] = self.tick + PATIENCE
        for _ in range(min(PS_PACKETS, len(state.queue))):
            made += self.taken_in(state, state.queue.popleft())
        for number, due in state.asked.items():
            if due <= self.tick:
                state.asked[number] = self.tick + PATIENCE
                asked = job.plain_reminder(load.first + number, load.slot(number))
                made.append((job.server, asked))
        return made

    def taken_in(self, state: _State, data: bytes) -> list[tuple[int, bytes]]:
        """The PS adds a packet; the result, if that was the last one."""
        job = state.load.job
        _, _, owner, number, bitmap = header(data)
        number -= state.load.first
        state.packets += 1
        short = len(data) < AT_VALUES + ROW.size or not lengths_fit(data)
        if owner != job.number or not 0 <= number < FRAGMENTS or short:
            text = "a PS gets a packet that is not for it"
            raise Failure(text, got=[(job.server, data)], case=text)
        if not udp_sum_fits(data):
            text = "a PS gets a packet with a wrong UDP checksum, which it cannot take"
            raise Failure(text, got=[(job.server, data)], case=text)
        seen, sums = state.sums.get(number, (0, [0] * VALUES))
        if not bitmap or bitmap & ~job.everyone or seen & bitmap:
            text = "a worker is in a sum twice, or none is"
            told = f"{text}: fragment {number} has {seen:#x}, and {bitmap:#x} comes"
            raise Failure(told, got=[(job.server, data)], case=text)
        sums = [wrapped(a + b) for a, b in zip(sums, ROW.unpack_from(data, AT_VALUES), strict=True)]
        state.sums[number] = (seen | bitmap, sums)
        if seen | bitmap != job.everyone:
            return []
        if sums != state.right(number):
            text = "a sum is wrong"
            raise Failure(f"{text}: fragment {number} of job {job.number}", case=text)
        state.asked.pop(number, None)
        state.sent.add(number)
        plain = job.plain_result(state.load.first + number, state.load.slot(number))
        frame = bytearray(plain)
        ROW.pack_into(frame, AT_VALUES, *sums)
        return [(job.server, bytes(frame))]

    def arrived(self, port: int, data: bytes) -> None:
        kind, _, owner, number, _ = header(data)
        if kind in (GRADIENT, NOTHING):
            self.asked.discard((port, number))
        if kind == GRADIENT and port in self.by_server:
            self.by_server[port].queue.append(data)
        elif kind == RESULT and port in self.by_port:
            state, worker = self.by_port[port]
            if owner == state.load.job.number:
                self.answered(state, worker, number - state.load.first, data)
            else:
                self.astray += 1
        elif kind != NOTHING or port not in self.by_server:
            self.astray += 1

    def answered(self, state: _State, worker: int, number: int, data: bytes) -> None:
        """A worker gets a result. Raises Failure for one that is not the PS's."""
        whole = number in state.sent and len(data) >= AT_VALUES + ROW.size
        if not whole or list(ROW.unpack_from(data, AT_VALUES)) != state.right(number):
            text = "a worker gets a result that its PS has not sent"
            port = state.load.job.ports[worker]
            raise Failure(text, got=[(port, data)], case=text)
        state.results[worker].add(number)
