"""SwitchML: a switch with two jobs and its packets by name, and an experiment with late copies."""

from __future__ import annotations

import random

from testbed import dataplane
from testbed.protocols import wire
from tests.support.experiments import setup_of
from tests.support.fabric import US
from tests.support.switches import OneSwitch, Sent, start_switches

TWO_JOBS = """
name: test
topology: {kind: star, hosts: 6}
system: {name: switchml, sets: %(sets)d}
memory: {aggregators: %(aggregators)d}
values_per_packet: 4
jobs:
  - {model: alexnet, workers: 3, iterations: 1}
  - {model: alexnet, workers: 3, iterations: 1}
"""
TEXT = """
name: test
topology: {kind: star, hosts: 8}
system: {name: switchml%(options)s}
memory: {aggregators: %(aggregators)d}
values_per_packet: 16
jobs:
  - {model: resnet18, workers: 4, iterations: 2, scale: 0.0006}
  - {model: vgg16, workers: 4, iterations: 2, scale: 0.00006, start: 50 us}
"""
SECOND_SET = 1 << 31
SLOTS = 2  # of each job


class SlotSwitch(OneSwitch):
    """Job 0 has its workers on ports 1 to 3, job 1 on ports 4 to 6, with two slots each."""

    def __init__(self, sets: int = 2) -> None:
        self.sets = sets
        self.setup = setup_of(TWO_JOBS % {"aggregators": 4 * sets, "sets": sets})
        self.switch = start_switches(self.setup)["s1"]
        self.now = 1_000_000

    def chunk(self, job: int, worker: int, number: int = 0) -> list[Sent]:
        """Worker `worker` of job `job` sends its part of a chunk."""
        index = number % SLOTS | (SECOND_SET if number // SLOTS % self.sets else 0)
        return self.send(
            1 + 3 * job + worker,
            to="10.255.0.1",
            job=job,
            kind=wire.GRADIENT,
            fragment_number=number,
            index=index,
            bitmap=1 << worker,
            sender=worker,
            values=[10**worker] * 4,
        )

    def whole_chunk(self, job: int, number: int) -> list[Sent]:
        """All three workers send theirs; what the last one's packet makes leave."""
        for worker in range(3):
            sent = self.chunk(job, worker, number)
        return sent


def late_copies(seed):
    """Every tenth packet of a worker comes a second time, some chunks later."""
    draw = random.Random(seed)

    def schedule(now, node, frame):
        if node.startswith("h") and draw.random() < 0.1:
            return 0, draw.randrange(10, 100) * US
        return (0,)

    return schedule


def fabric_counters(fabric):
    total: dict[str, int] = {}
    for switch in fabric.switches.values():
        for _, name, value in dataplane.counters(fabric.setup.platform, switch):
            total[name] = total.get(name, 0) + value
    return total
