"""Programs of a job in one process with its network: their calls, and the hosts' machines, under
the clock of a fabric (tests/support/fabric.py), or on links with rates in virtual time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from p4fabric.simulate import event_queue, loop
from p4fabric.simulate.placed_machine import Placed

from testbed.collective import client, memory_map
from testbed.experiment.schema import VirtualTime
from testbed.protocols.host_spec import HostSpec
from testbed.run_parts.program import prepare
from testbed.simulate import world
from testbed.simulate.parts import Parts
from testbed.workload import feed, worker
from tests.support.experiments import memory_line, setup_of
from tests.support.fabric import MINUTE_NS, Fabric, Host, Schedule, perfect
from tests.support.switches import start_switches

WORDS = 1 << 20

# One job of four ranks.
TEXT = """
name: test
topology: {kind: star, hosts: 5}
links: {bandwidth: 1 Gbit/s}
system: {name: %s%s}
%s
values_per_packet: 16
jobs:
  - {name: digits, command: "true", workers: 4%s}
"""
BLOCK = 64 * 16  # values


def text(system: str, aggregators: int = 64, options: str = "", keys: str = "") -> str:
    memory = memory_line(system, aggregators)
    return TEXT % (system, options, memory, keys)


def draw(seed: int, size: int, dtype: type = np.float32) -> list[np.ndarray]:
    """An array of each of four ranks; the floats' sizes differ as those of gradients do."""
    random = np.random.default_rng(seed)
    if dtype == np.int32:
        return [random.integers(-(2**31), 2**31, size).astype(np.int32) for _ in range(4)]
    scale = 10.0 ** random.uniform(-12, 3, size)
    return [(random.normal(size=size) * scale).astype(np.float32) for _ in range(4)]


def reference(arrays: list[np.ndarray], divisor: int = 1, few: bool = True) -> np.ndarray:
    """The sum as docs/training.md defines it, block by block, without the machines' code. few: each
    rank adds up few values itself, as in an all_reduce."""
    parts: list[np.ndarray] = []
    if few and len(arrays) * arrays[0].size <= client.FEW_WORDS:
        return (np.sum(arrays, axis=0, dtype=np.float64) / divisor).astype(np.float32)
    for start in range(0, arrays[0].size, BLOCK):
        blocks = np.stack([array[start : start + BLOCK] for array in arrays]).astype(np.float64)
        largest = np.abs(blocks).max()
        exponent = np.frexp(largest)[1]
        exponent += exponent % 2 == 0  # levels are two octaves: odd exponents
        steps = 2.0 ** (31 - 3 - int(exponent)) if largest else 1.0
        parts.append((np.rint(blocks * steps).sum(axis=0) / steps / divisor).astype(np.float32))
    return np.concatenate(parts)


def _facts(spec: HostSpec) -> dict[str, Any]:
    """What a host tells its rank's program."""
    job = spec.job
    return {
        "rank": spec.number,
        "ranks": job.workers,
        "block_values": job.tensors[0].values,
        "floats": job.form_of_floats,
        "wide": job.wide,
        "formats": job.formats,
    }


class FabricLink(client.Link):
    """A program's link to the machine of a host in a fabric."""

    def __init__(self, fabric: Fabric, host: Host) -> None:
        memory = memory_map.new_memory(WORDS)
        super().__init__(memory, _facts(host.spec))
        self.fabric = fabric
        self.host = host
        host.use(worker.attach(host.machine, self.memory))

    def ring(self) -> None:
        worker.submit(self.host.machine, self.memory)
        name = self.host.spec.host
        self.fabric._wake.pop(name, None)
        self.fabric._call(self.fabric.now, name)

    def wait(self, timeout_s: float | None) -> None:
        """Let time pass until there is news for this program."""
        state = self.host.machine.source.state
        while not state.news:
            step(self.fabric)
        state.news = 0
        if state.failed:
            job = self.host.spec.job.name
            text = feed.failure(self.host.machine.source, self.memory.words, f"job {job}")
            memory_map.write_failure(self.memory, text)


def step(fabric: Fabric) -> None:
    """The next event."""
    if not fabric._events:
        raise AssertionError(f"at {fabric.now} ns nothing is left to happen")
    fabric.step()
    assert fabric.now < MINUTE_NS, "the programs have waited for a minute"


def programs(text: str, schedule: Schedule = perfect) -> tuple[Fabric, list[client.Job]]:
    """The network of an experiment with one job, and the job's ranks, in order."""
    setup = setup_of(text)
    fabric = Fabric(setup, start_switches(setup), schedule)
    workers = sorted(fabric.workers(), key=lambda host: host.spec.number)
    return fabric, [client.Job(FabricLink(fabric, host)) for host in workers]


def sums(jobs: list[client.Job], arrays: list[np.ndarray], **options) -> list[np.ndarray]:
    """Result of each rank when rank r gives arrays[r]."""
    handles = [
        job.allreduce_async(array, **options) for job, array in zip(jobs, arrays, strict=True)
    ]
    return [handle.wait() for handle in handles]


class SlowNetwork:
    """An experiment with one job that is a program, in virtual time: links with rates and queues,
    and hosts that handle a packet `host_us` microseconds after its arrival on average, from at once
    to twice as late. Timers and windows are those of the real clock."""

    def __init__(self, text: str, host_us: int, words: int = WORDS) -> None:
        setup = setup_of(text)
        delay = f"{host_us} us"
        times = VirtualTime.model_validate(
            {f"{who}_{what}": delay for who in ("worker", "server") for what in ("delay", "jitter")}
        )
        setup = replace(setup, platform=replace(setup.platform, virtual=times))
        self.nodes = world.build(setup, prepare(setup).compiled)
        self.parts = Parts(self.nodes)
        workers = [number for number, node in self.nodes.present if node.is_worker]
        self.jobs = [client.Job(VirtualLink(self, number, words)) for number in workers]

    def step(self) -> None:
        """Some events."""
        before = self.parts.events
        if self.parts.run(event_queue.NEVER - 1, 20) == loop.NO_ROOM:
            self.parts.grow()
        elif self.parts.events == before:
            raise AssertionError(f"at {self.parts.now_ns} ns nothing is left to happen")

    def done_ns(self) -> int:
        """Time at which the last call was done."""
        return max(int(job._link.memory.calls["done_ns"].max()) for job in self.jobs)

    def counted(self, name: str, workers: bool = True) -> list[int]:
        """A counter of the job's workers, or of its servers."""
        nodes = [node for _, node in self.nodes.present if node.is_worker == workers]
        return [int(node.machine.counters[name][0]) for node in nodes]


class VirtualLink(client.Link):
    """A program's link to the machine of a host in virtual time."""

    def __init__(self, network: SlowNetwork, number: int, words: int) -> None:
        node = network.nodes.present_at(number)
        super().__init__(memory_map.new_memory(words), _facts(node.spec))
        self.network, self.number = network, number
        # Workers of a replay share what programs change.
        scoreboard = node.machine.scoreboard
        own = {name: getattr(scoreboard, name).copy() for name in ("first", "size", "tensor")}
        machine = node.machine._replace(scoreboard=scoreboard._replace(**own))
        machine = worker.attach(machine, self.memory)
        placed = Placed(machine, node.placed.words)
        node = world.Node.of(node.spec, placed, network.nodes.batches)
        network.nodes.hosts[number] = self.node = node
        row = network.nodes.world.hosts[number]
        row.step, row.machine = node.stepper.address, node.placed.address

    def ring(self) -> None:
        worker.submit(self.node.machine, self.memory)
        event_queue.put(self.network.nodes.world.queue, self.number, self.network.parts.now_ns)

    def wait(self, timeout_s: float | None) -> None:
        """Let time pass until there is news for this program."""
        state = self.node.machine.source.state
        while not state.news:
            self.network.step()
        state.news = 0
