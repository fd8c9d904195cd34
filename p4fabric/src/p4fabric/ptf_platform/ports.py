"""A switch of a network file whose ports are sockets of this process.

No interface, no namespace and no root are needed. A packet that is sent to a port is handled at
once, with all that follows from it (copies, recirculation), and what leaves lies in the sockets of
its ports. The clock is the real one; links have no rate and no delay.
"""

from __future__ import annotations

import socket
import threading
import time
from contextlib import ExitStack
from pathlib import Path

from p4engine.switch.library import Switch

from p4fabric.base.errors import UserError, did_you_mean, sentence
from p4fabric.netfile.install_entries import compile_all, install
from p4fabric.netfile.load_network import NetworkPlan, load_network

ROOM = 4 << 20  # bytes of packets that nobody has read


class SwitchPorts:
    """A switch that runs, and a socket for each of its ports.

    Attributes: `name` of the switch; `sockets`: by port, where its packets are read; `lost`:
    packets that found no room there, or no port."""

    def __init__(self, plan: NetworkPlan, name: str, ports: list[int]) -> None:
        """Fill the switch as the file says; with `p4runtime` there, serve it. Raises UserError."""
        settings = plan.net.switches[name]
        if settings.cpu_port is not None:
            raise UserError(
                f"switches.{name}.cpu_port: PTF's ports are the only ones here; leave it out, or"
                " run the file on Mininet"
            )
        self.name = name
        self.lost = 0
        self._lock = threading.RLock()
        self._began_ns = time.monotonic_ns()
        compiled = compile_all(plan)[plan.programs[name]]
        self._switch = Switch(compiled, priority_queues=settings.priority_queues)
        self._close = ExitStack()
        self._close.callback(self._switch.close)
        self.sockets: dict[int, socket.socket] = {}
        self._ends: dict[int, socket.socket] = {}
        for port in ports:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            for each in (ours, theirs):
                each.setblocking(False)
                each.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, ROOM)
                self._close.callback(each.close)
            self._ends[port], self.sockets[port] = ours, theirs
        try:
            install(name, settings, self._switch)
            if settings.p4runtime is not None:
                self._serve(plan, name)
        except BaseException:
            self.close()
            raise

    @classmethod
    def of_file(
        cls, path: Path, switch: str | None = None, ports: list[int] | None = None
    ) -> SwitchPorts:
        """Of a network file. switch: its name, if there are several; ports: their numbers; None:
        those of its links. Raises UserError."""
        from p4fabric.netfile.virtual_network import NumberedTopology

        plan = load_network(path)
        names = list(plan.net.switches)
        if switch is None and len(names) > 1:
            raise UserError(f"{path} has several switches ({', '.join(names)}): name one, --switch")
        name = switch or names[0]
        if name not in names:
            known = did_you_mean(name, names) or f"switches are: {', '.join(names)}"
            raise UserError(sentence(f"{path} has no switch `{name}`", known))
        return cls(plan, name, ports or sorted(NumberedTopology.of(plan).ports(name)))

    def _serve(self, plan: NetworkPlan, name: str) -> None:
        from p4engine.p4runtime.device import Device
        from p4engine.p4runtime.device_config import encode
        from p4engine.p4runtime.p4info import p4info
        from p4engine.p4runtime.serve import full_address
        from p4engine.p4runtime.service import Service

        settings, program = plan.net.switches[name], plan.programs[name]
        source = (program, dict(plan.net.defines), [program.parent])
        device = Device(self._switch, p4info(*source), lambda: self._lock, config=encode(*source))
        address = full_address(str(settings.p4runtime))
        service = Service(device, address, device_id=settings.device_id, idle_timer=True)
        self._close.callback(service.close)

    def send(self, port: int, frame: bytes) -> None:
        """A packet comes in through a port; what it causes leaves at once."""
        with self._lock:
            now_ns = max(time.monotonic_ns() - self._began_ns, self._switch.now_ns())
            self._switch.receive(port, frame, now_ns)
            for _, out, data in self._switch.run():
                try:
                    self._ends[out].send(data)
                except (KeyError, BlockingIOError):
                    self.lost += 1

    def close(self) -> None:
        """End the switch and its sockets."""
        self._close.close()
