"""The switch processes of one repetition: forked into their namespaces, shaped, filled with tables.

A repetition gets new switch processes, so that registers and counters start from zero; the network
around them stays.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from testbed.errors import RunError
from testbed.network.nodes import P4Switch, connect
from testbed.network.spawner import Process, Spawner

if TYPE_CHECKING:
    from testbed.experiment import Experiment, LinkDirection
    from testbed.network.net import Network
    from testbed.p4engine.control import Client
    from testbed.run.program import Program
    from testbed.topology import Topology


class SwitchGroup:
    """All switch processes of one repetition."""

    def __init__(
        self,
        network: Network,
        program: Program,
        spawner: Spawner,
        logs: Path,
        seed: int,
        repetition: int,
    ) -> None:
        """Ask for all processes; does not wait for them."""
        self.spawner = spawner
        self.nodes: list[P4Switch] = list(network.switches)
        self.processes: dict[str, Process] = {}
        self.clients: dict[str, Client] = {}
        for number, node in enumerate(self.nodes):
            suffix = "" if repetition == 0 else f"-r{repetition}"
            node.control_path.unlink(missing_ok=True)
            self.processes[node.name] = spawner.spawn(
                f"{node.name}-r{repetition}",
                "testbed.run.children:switch",
                {
                    "program": str(program.path),
                    "defines": dict(program.defines),
                    "include_dirs": [str(path) for path in program.include_dirs],
                    "interfaces": node.ports_in_use(),
                    "control": str(node.control_path),
                    "seed": seed * 1000 + number,
                },
                logs / f"{node.name}{suffix}.log",
                namespace=network.holders[node.name].pid,
            )

    def wait_ready(self) -> None:
        """Until every switch answers. Raises RunError with the words of one that does not."""
        for node in self.nodes:
            process = self.processes[node.name]

            def alive(process: Process = process) -> bool:
                self.spawner.pump()
                return process.code is None

            try:
                node.client = connect(node.control_path, alive, node.name, process.log)
            except RunError:
                self.check()  # says how it ended, if it has
                raise
            self.clients[node.name] = node.client
        self.spawner.wait_started(list(self.processes.values()))

    def check(self) -> None:
        """Raises RunError if one of the processes has ended."""
        for name, process in self.processes.items():
            if process.code is not None:
                raise RunError(
                    f"the process of switch {name} {describe_exit(process.code)}",
                    process.log_tail(),
                    str(process.log),
                )

    def stop(self) -> None:
        """Ask all to end and wait; what does not end in time is killed."""
        for node in self.nodes:
            if node.client is not None:
                node.client.close()
                node.client = None
        self.clients.clear()
        running = [process for process in self.processes.values() if process.code is None]
        for process in running:
            self.spawner.signal(process, 15)
        try:
            self.spawner.wait_ended(running, 3, "end of the switches")
        except RunError:
            for process in running:
                self.spawner.signal(process, 9)
            self.spawner.wait_ended(running, 10, "end of the switches")


def describe_exit(code: int) -> str:
    """How a process ended, for a message."""
    return f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"


def shape_links(experiment: Experiment, topology: Topology, switch: str, client: Client) -> None:
    """Give a switch's links their bandwidth, delay, jitter, queue and impairments.

    A switch shapes what leaves its ports. What enters one from a host it shapes, too, on the host's
    behalf; what enters one from a switch has been shaped there.
    """
    calls = []
    for port, (neighbour, link, end) in topology.ports(switch).items():
        forward, backward = experiment.link(link)
        leaving, entering = (forward, backward) if end == 0 else (backward, forward)
        calls.append(("port_shape", port, "egress", _shape(leaving)))
        if neighbour in topology.hosts:
            calls.append(("port_shape", port, "ingress", _shape(entering)))
    client.batch(calls)


def _shape(link: LinkDirection) -> dict[str, int | float]:
    return {
        "rate_bps": link.bandwidth_bps or 0,
        "queue_packets": link.queue_packets,
        "delay_ns": link.delay_ns,
        "jitter_ns": link.jitter_ns,
        "loss": link.loss,
        "duplicate": link.duplicate,
        "reorder": link.reorder,
        "reorder_ns": link.reorder_delay_ns,
    }
