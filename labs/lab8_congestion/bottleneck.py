"""Workers that share one link, in virtual time: the student's switch, the student's windows.

Every worker sends fragments to the parameter server (PS) through one port of the switch, whose link
is the bottleneck. The PS answers each at once, with the mark that the fragment has. An answer needs
BACK_NS until it is at its worker. So what the switch does within BACK_NS can cause nothing in the
same time, and the run goes in steps of that length.
"""

from __future__ import annotations

import functools
import heapq
import struct
from dataclasses import dataclass

from labs.grader.bench import Bench, Failure, Python, Switch
from labs.grader.packets import GRADIENT, agg

VALUES = 8
RATE_BPS = 1_000_000_000
QUEUE = 60  # packets
BACK_NS = 20_000
# Steps: with all workers, with one, and the part of the latter in which its window may grow.
TOGETHER, ALONE, GROWING = 70, 70, 40
SERVER_PORT = 8  # workers have the ports from 1 on
MARK = 0x08
AT_AGG = 14 + 20 + 8  # bytes before the header
HEADER = struct.Struct("!BBBBIHH")  # kind, flags, job, priority, number, slot, worker


@dataclass
class Outcome:
    """The outcome of a run."""

    arrived: list[int]  # fragments per worker, until all but one stop
    dropped: int  # packets that found the queue full
    busy: float  # share of the time that the link was carrying packets, until then
    busy_alone: float  # the same of the end, when one worker has long been alone
    longest: int  # packets in the queue, at most
    window: int  # of the worker that is alone, at the end

    @property
    def fairness(self) -> float:
        """Jain's index: 1 if all workers got the same, 1 / workers if one got everything."""
        squares = sum(n * n for n in self.arrived)
        return sum(self.arrived) ** 2 / (len(self.arrived) * squares) if squares else 0.0


@functools.cache
def _first(worker: int) -> bytes:
    """The frame of a worker's fragment 0."""
    frame = agg(
        worker + 1,
        SERVER_PORT,
        kind=GRADIENT,
        worker=worker,
        bitmap=1 << worker,
        values=[1] * VALUES,
    )
    frame["IP"].tos = 2  # ECN-capable transport
    return bytes(frame)


def fragment(worker: int, number: int) -> bytes:
    """The frame of a worker's fragment. A run has thousands, and scapy would take most of its
    time."""
    frame = bytearray(_first(worker))
    HEADER.pack_into(frame, AT_AGG, GRADIENT, 0, 0, 0, number, number % 1024, worker)
    return bytes(frame)


def _arrived(data: bytes, workers: int) -> tuple[int, int, bool]:
    """(worker, number, whether it is marked) of a fragment that has reached the server."""
    if len(data) < AT_AGG + HEADER.size:
        raise Failure("what reaches the server is shorter than a fragment", got=[(8, data)])
    _, flags, _, _, number, _, worker = HEADER.unpack_from(data, AT_AGG)
    if worker >= workers:
        raise Failure(f"there is no worker {worker}", got=[(8, data)])
    return worker, number, bool(flags & MARK)


def run(t: Bench, switch: Switch, workers: int, most: int) -> Outcome:
    """Let `workers` workers send for TOGETHER steps of BACK_NS, and then one of them alone for
    ALONE steps. Each begins at another time, with a window of 2, which goes up to `most`. Each is
    a process of its own: windows know nothing of each other."""
    switch.port_shape(SERVER_PORT, "egress", rate_bps=RATE_BPS, queue_packets=QUEUE)
    hosts: list[Python] = [t.python() for _ in range(workers)]
    windows = [p.make("Window", 2, most) for p in hosts]
    begins = [(t.random.randrange(BACK_NS), worker, -1, False) for worker in range(workers)]
    answers = sorted(begins)  # (time, worker, fragment, mark); fragment -1: begin
    told: list[list] = [[] for _ in range(workers)]
    arrived, sent, flying = [0] * workers, [0] * workers, [0] * workers
    stays, shares, allowed = t.random.randrange(workers), arrived, 0
    busy: dict[int, int] = {}  # ns that the link was carrying packets, at the end of a step
    for step in range(TOGETHER + ALONE):
        if step == TOGETHER:
            shares = list(arrived)
        if step in (TOGETHER, TOGETHER + GROWING):
            busy[step] = int(_server_port(switch)["busy_ns"])
        end = (step + 1) * BACK_NS
        packets: list[tuple[int, int, bytes]] = []
        while answers and answers[0][0] < end:
            now, worker, number, marked = heapq.heappop(answers)
            calls = told[worker]  # calls that the window has not had yet
            if number >= 0:
                flying[worker] -= 1
                arrived[worker] += 1
                calls.append((windows[worker], "result", [number, marked]))
            if step >= TOGETHER and worker != stays:
                continue
            calls.append((windows[worker], "allowed", []))
            allowed = hosts[worker].methods(calls)[-1]
            calls.clear()
            if not isinstance(allowed, int) or allowed < 1:
                raise Failure(f"allowed() returns {allowed!r}, not a whole number above 0")
            while flying[worker] < min(allowed, most):
                calls.append((windows[worker], "sent", [sent[worker]]))
                packets.append((now, worker + 1, fragment(worker, sent[worker])))
                sent[worker] += 1
                flying[worker] += 1
        for at_ns, _, data in switch.burst(packets, until_ns=end - 1):
            heapq.heappush(answers, (at_ns + BACK_NS, *_arrived(data, workers)))
    port = _server_port(switch)
    last = (ALONE - GROWING) * BACK_NS
    return Outcome(
        shares,
        int(port["queue_drops"]),
        busy[TOGETHER] / (TOGETHER * BACK_NS),
        (int(port["busy_ns"]) - busy[TOGETHER + GROWING]) / last,
        int(port["max_queue"]),
        allowed,
    )


def _server_port(switch: Switch) -> dict:
    """The counters of the port to the server."""
    rows = switch.port_stats()
    (port,) = [r for r in rows if (r["port"], r["direction"]) == (SERVER_PORT, "egress")]
    return port
