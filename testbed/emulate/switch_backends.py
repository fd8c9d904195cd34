"""The differences between the two kinds of switches in a run: start and control of a process,
shaping of links, and options of the network.

Everything else is the same for both. `Embedded` is the native switch, which shapes its ports
itself. `Bmv2` is simple_switch, which has egress queues and leaves the rest to the kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from p4fabric.base.errors import RunError, UserError
from p4fabric.emulate.nodes import P4Switch, connect

from testbed import dataplane
from testbed.experiment.schema_background import LARGEST_PACKET
from testbed.machine import kernel_probe

if TYPE_CHECKING:
    from p4fabric.base.lossless_buffers import Buffered
    from p4fabric.emulate.mininet_network import Network
    from p4fabric.emulate.spawner import Process

    from testbed.run_parts.program import Program
    from testbed.setup import Control, Platform


class Backend(Protocol):
    """One kind of switch. `target`: the function of a switch's process
    (testbed/emulate/child_processes.py); `by_thread`: True if its threads' processor time counts
    one by one, since each does another part of the work; `trains`: True if UDP packets go through
    it in trains (testbed/hosts/trains.py)."""

    target: str
    by_thread: bool
    trains: bool

    def versions(self) -> dict[str, str | None]:
        """Entries of the switch in the results' environment."""

    def network_options(self) -> dict[str, Any]:
        """The arguments of `Network`."""

    def arguments(self, node: P4Switch, seed: int) -> dict[str, object]:
        """Arguments of `target` for one switch."""

    def connect(
        self, node: P4Switch, process: Process, network: Network, alive: Callable[[], bool]
    ) -> Control:
        """A control client of the switch, once it answers. Raises RunError."""

    def shape(self, switch: str, client: Control) -> None:
        """Shape a switch's links as the experiment says."""


class Embedded:
    """The native switch."""

    target = "testbed.emulate.child_processes:switch"
    by_thread = False

    def __init__(self, platform: Platform, program: Program) -> None:
        self._platform = platform
        self._program = program
        why_not = "" if platform.offload == "off" else kernel_probe.why_no_trains()
        self.trains = platform.offload != "off" and not why_not
        if why_not and platform.offload == "on":
            raise UserError(
                "offload: on: this machine's kernel does not pass UDP packets in trains"
                f" ({why_not}); write `offload: auto`, or use Linux 6.2 or newer"
            )

    def versions(self) -> dict[str, str | None]:
        return {"offload": "trains" if self.trains else "off"}

    def network_options(self) -> dict[str, Any]:
        return {"trains": self.trains}

    def arguments(self, node: P4Switch, seed: int) -> dict[str, object]:
        control = _control_path(node)
        control.unlink(missing_ok=True)
        program = self._program
        assert program.compiled is not None, "a program for this switch has been compiled for it"
        return {
            "program": str(program.path),
            "defines": dict(program.defines),
            "include_dirs": [str(path) for path in program.include_dirs],
            "compiled": str(program.compiled.so_path),
            "interfaces": node.ports_in_use(),
            "control": str(control),
            "seed": seed,
            "trains": self.trains,
            "queues": lossless.queues if (lossless := self._platform.lossless) else 1,
        }

    def connect(
        self, node: P4Switch, process: Process, network: Network, alive: Callable[[], bool]
    ) -> Control:
        return connect(_control_path(node), alive, node.name, process.log)

    def shape(self, switch: str, client: Control) -> None:
        dataplane.shape_links(self._platform, switch, client)
        longest = max(self._platform.longest_frame_bytes, LARGEST_PACKET)
        dataplane.give_buffer(self._platform, switch, cast("Buffered", client), longest)


class Bmv2:
    """BMv2's simple_switch. Its random numbers know no seed."""

    target = "testbed.emulate.child_processes:bmv2_switch"
    by_thread = True
    trains = False

    def __init__(self, platform: Platform, program: Program) -> None:
        self._platform = platform
        self._topology = platform.topology
        assert program.json is not None, "a program for BMv2 has been compiled for it"
        self._json: Path = program.json

    def versions(self) -> dict[str, str | None]:
        from testbed.bmv2.compiler import P4c
        from testbed.bmv2.simple_switch import SIMPLE_SWITCH, version

        return {"p4c": version(P4c.find().path), SIMPLE_SWITCH: version(SIMPLE_SWITCH)}

    def network_options(self) -> dict[str, Any]:
        from testbed.bmv2.link_queues import mtu_bytes, qdiscs

        return {
            "mtu_bytes": mtu_bytes(self._platform),
            "qdiscs": qdiscs(self._platform),
        }

    def arguments(self, node: P4Switch, seed: int) -> dict[str, object]:
        from testbed.bmv2.simple_switch import command

        notifications = _control_path(node).with_suffix(".ipc")
        return {
            "command": command(self._json, self._interfaces(node), notifications=notifications),
            "namespace": node.namespace,
        }

    def _interfaces(self, node: P4Switch) -> dict[int, str]:
        """Interfaces of links that are up, by port."""
        up = self._topology.ports(node.name)
        return {port: name for port, name in node.ports_in_use().items() if port in up}

    def connect(
        self, node: P4Switch, process: Process, network: Network, alive: Callable[[], bool]
    ) -> Control:
        from thrift.Thrift import TException

        from testbed.bmv2.connection import Connection, p4utils_api, wait
        from testbed.bmv2.control_client import Client
        from testbed.bmv2.link_queues import impaired
        from testbed.bmv2.ports import Neighbour, Ports

        connection = Connection(node.namespace)
        wait(connection, alive, node.name, process.log)
        neighbours = {}
        for port, (name, _, _) in self._topology.ports(node.name).items():
            link = node.intfs[port].link
            ends = link.intf1, link.intf2
            other = ends[0] if ends[1].node is node else ends[1]
            host = name in self._topology.hosts
            neighbours[port] = Neighbour(other.name, network.holders[name].pid, host)
        try:
            ports = Ports(
                process.pid, self._interfaces(node), neighbours, impaired(self._platform.directions)
            )
            api = p4utils_api(connection.clients, self._json)
        except (OSError, TException) as error:  # it was up a moment ago
            raise RunError(f"switch {node.name} (simple_switch) is gone: {error}") from error
        return Client(api, node.name, connection.close, ports.read, ports.stats)

    def shape(self, switch: str, client: Control) -> None:
        from testbed.bmv2.link_queues import shape_queues

        shape_queues(self._platform, switch, client)


def _control_path(node: P4Switch) -> Path:
    assert node.control_path is not None, "a run's network gives each switch one"
    return node.control_path


def backend_of(platform: Platform, program: Program) -> Backend:
    """The kind of switch that a platform has."""
    return (Bmv2 if platform.switch == "bmv2" else Embedded)(platform, program)
