"""The background flows of one repetition on Mininet: a process at each end of each flow."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from p4fabric.base.errors import RunError
from p4fabric.base.flow import Flow
from p4fabric.base.topology import Topology, host_ip
from p4fabric.emulate.controlled import Controlled
from p4fabric.emulate.spawner import Process, Spawner

from testbed.results.schema import FlowRow
from testbed.run_parts.result_rows import flow_row

if TYPE_CHECKING:
    from collections.abc import Mapping

    from testbed.experiment.schema_background import Background

START_TIMEOUT_S = 60
STOP_TIMEOUT_S = 30
DRAIN_S = 0.1  # for packets on their way when senders have stopped
TARGET = "p4fabric.emulate.flow_process:run"
ENDS = ("receiver", "sender")


@dataclass
class _End(Controlled):
    """A process at one end of a flow."""

    flow: Flow
    end: str
    process: Process
    control: socket.socket
    ready: bool = False
    done: dict[str, Any] | None = None
    still_ns: int = 0
    failed: list[str] = field(default_factory=list)

    def check(self) -> None:
        """Take in its messages. Raises RunError if it cannot go on."""
        for message in self.heard()[0]:
            self.ready = self.ready or "ready" in message
            self.done = message.get("done", self.done)
            self.still_ns = message.get("still_ns", self.still_ns)
            if "failed" in message:
                what = f"background flow {self.flow.title}: {message['failed']}"
                raise RunError(what, self.process.log_tail(), str(self.process.log))
        if self.process.code is not None and self.done is None:
            what = f"the {self.end} of background flow {self.flow.title} ended"
            raise RunError(what, self.process.log_tail(), str(self.process.log))


def _told(flow: Flow[Background]) -> dict[str, object]:
    """A flow in the words of p4fabric/emulate/flow_process.py."""
    keys = flow.keys
    more = {"number": flow.number, "end_ns": keys.end_ns, "congestion_control": keys.controlled_by}
    return {**keys.model_dump(), **more}


class FlowGroup:
    """Call in this order: `wait_ready`, `start`, `stop`, `rows`, `close`. Without flows, none of
    them does anything."""

    def __init__(
        self,
        flows: Sequence[Flow[Background]],
        topology: Topology,
        spawner: Spawner,
        namespaces: Mapping[str, int],
        logs: Path,
        repetition: int,
    ) -> None:
        """Ask for all processes. namespaces: holder's process id by host."""
        self.flows = flows
        self._spawner = spawner
        self._ends: list[_End] = []
        self._start_ns = self._stop_ns = 0
        for flow in flows:
            for end in ENDS:
                host = flow.source if end == "sender" else flow.target
                key = f"flow-{flow.number}-{end}-r{repetition}"
                ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                with theirs:
                    process = spawner.spawn(
                        key,
                        TARGET,
                        {
                            "flow": _told(flow),
                            "end": end,
                            "address": host_ip(topology.number(flow.target)),
                        },
                        logs / f"{key}.log",
                        namespace=namespaces[host],
                        descriptors=[theirs.fileno()],
                    )
                self._ends.append(_End(flow, end, process, ours))

    def wait_ready(self) -> None:
        """Until all connections stand. Raises RunError naming a flow for which that fails."""
        self._wait(lambda end: end.ready, self._ends, START_TIMEOUT_S, "start")

    def start(self, start_ns: int) -> None:
        """Have all begin at this instant of CLOCK_MONOTONIC."""
        self._start_ns = start_ns
        for end in self._ends:
            end.send(start_ns=start_ns)

    def stop(self) -> None:
        """Stop the senders, then the receivers. Raises RunError naming a flow that could not be
        honoured."""
        if not self._ends:
            return
        self._stop_ns = time.monotonic_ns()
        for which in reversed(ENDS):
            ends = [end for end in self._ends if end.end == which]
            for end in ends:
                end.send(stop=True)
            self._wait(lambda end: end.done is not None, ends, STOP_TIMEOUT_S, "end")
            time.sleep(DRAIN_S)

    def _wait(
        self, holds: Callable[[_End], bool], ends: list[_End], timeout_s: int, what: str
    ) -> None:
        def all_hold() -> bool:
            for end in ends:
                end.check()
            return all(holds(end) and end.process.pid for end in ends)

        if ends:
            self._spawner.wait(all_hold, timeout_s, f"{what} of the background flows", ends)

    def close(self) -> None:
        """Kill what still runs and close everything."""
        running = [end for end in self._ends if end.process.code is None]
        for end in running:
            self._spawner.signal(end.process, 9)
        if running:
            processes = [end.process for end in running]
            self._spawner.wait_ended(processes, 10, "end of the background flows")
        for end in self._ends:
            end.control.close()

    def standstills(self) -> list[tuple[str, int]]:
        """Each process and how long it stood still, in ns, after `stop`."""
        return [
            (f"{end.end} of background flow {end.flow.title}", end.still_ns) for end in self._ends
        ]

    def rows(self) -> list[FlowRow]:
        """Rows of table flows, after `stop`."""
        end_ns = self._stop_ns - self._start_ns
        found = []
        for flow in self.flows:
            done: dict[str, Any] = {}
            for end in self._ends:
                if end.flow == flow:
                    done |= end.done or {}
            sent, received = done.get("packets_sent"), done.get("packets_received")
            lost = done.get("lost")
            if not flow.keys.is_tcp and sent is not None and received is not None:
                lost = sent - done["different"]
            times = done.get("bursts")
            bursts = None if times is None else (len(times), sum(times), max(times, default=0))
            packets = sent, received, lost
            found.append(flow_row(flow, end_ns, done.get("bytes", 0), packets, bursts))
        return found
