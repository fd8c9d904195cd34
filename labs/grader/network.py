"""The network of `grade --network`: a switch node and a host for each of its ports, on Mininet.

The same checks send the same packets as without it, but over real links: a frame goes out of the
interface of the host that hangs at the port, in the host's network namespace, and what reaches the
other hosts is captured at their interfaces. In the switch's namespace runs the submission's
program in the native switch, in a confined process (sandbox.py). Between hosts and switch there is
nothing but veth pairs; nothing leads from there to the machine or its networks. All of it lives in
anonymous namespaces and goes with the grader, also if that is killed.
"""

from __future__ import annotations

import os
import select
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from p4fabric.base.errors import UserError
from p4fabric.base.linux import kernel

MTU_BYTES = 1500
CAPTURE_S = 40.0  # for what the switch has sent to arrive; it takes microseconds
LONGEST = 1 << 16
# Of linux/if_packet.h and asm-generic/socket.h; the socket module does not have them.
SOL_PACKET, PACKET_IGNORE_OUTGOING = 263, 23
SO_TIMESTAMPNS, SO_RCVBUFFORCE, ETH_P_ALL = 35, 33, 3
CAPTURED_BYTES = 4 << 20  # that wait at an interface; a short frame takes 800


class Wires:
    """A network whose switch has `ports`; to be closed.

    Attributes:
        namespace: id of the process that holds the switch's network namespace.
        interfaces: of the switch, by port.

    Raises UserError where there can be no network, RunError where the kernel refuses to make one.
    """

    def __init__(self, ports: Sequence[int], folder: Path) -> None:
        """Build it, with logs in `folder`. For the main thread."""
        refuse()
        from p4fabric.base.topology import Topology
        from p4fabric.emulate.mininet_network import Network
        from p4fabric.emulate.spawner import Spawner

        topology = Topology()
        topology.add_switch("s1")
        for port in ports:
            topology.add_link(topology.add_host(f"h{port}"), "s1")
        folder.mkdir()
        self._net = None
        self._sockets: dict[int, socket.socket] = {}
        self._spawner = Spawner("labs", ["p4fabric.emulate.namespace"], folder / "spawner.log")
        try:
            self._net = Network(topology, self._spawner, folder, folder, mtu_bytes=MTU_BYTES)
            switch = self._net["s1"]
            self.namespace: int = switch.pid
            names = switch.ports_in_use().values()
            self.interfaces: dict[int, str] = dict(zip(ports, names, strict=True))
            for port in ports:
                host = self._net[f"h{port}"]
                self._sockets[port] = _open(host.pid, host.defaultIntf().name)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Take everything down."""
        for each in self._sockets.values():
            each.close()
        if self._net is not None:
            self._net.stop()
        self._spawner.close()

    def send(self, port: int, frame: bytes) -> None:
        """The host at `port` sends a frame."""
        self._sockets[port].send(frame)

    def forget(self) -> None:
        """Drop what has arrived at the hosts and nobody has asked for."""
        for each in self._sockets.values():
            while select.select([each], [], [], 0)[0]:
                each.recv(LONGEST)

    def capture(self, counts: Mapping[int, int]) -> list[tuple[int, int, bytes]]:
        """The next frames that the hosts receive, by the number of them at each port, as (time_ns,
        port, frame) in the order of their arrival. Fewer if they do not come."""
        made, end = [], time.monotonic() + CAPTURE_S
        for port, count in counts.items():
            for _ in range(count):
                left = max(0.0, end - time.monotonic())
                if not select.select([self._sockets[port]], [], [], left)[0]:
                    break
                made.append(_receive(self._sockets[port], port))
        return sorted(made, key=lambda each: each[0])


def refuse() -> None:
    """Raises UserError, with the remedy, where there can be no network."""
    if os.geteuid() != 0:
        raise UserError("--network needs root: sudo .venv/bin/python -m labs grade ... --network")
    try:
        import mininet  # noqa: F401
    except ImportError:
        raise UserError(
            "--network needs Mininet: sudo ./demo installs it (for a kit: apt install mininet, and"
            " .venv made with --system-site-packages)"
        ) from None


def _open(namespace: int, interface: str) -> socket.socket:
    """A socket at an interface in the network namespace of process `namespace`."""
    made: list[socket.socket] = []

    def opened() -> None:  # a thread of its own may leave this process's namespace
        kernel.enter_network(namespace)
        each = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
        each.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
        each.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        each.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, CAPTURED_BYTES)
        each.bind((interface, ETH_P_ALL))
        made.append(each)

    thread = threading.Thread(target=opened)
    thread.start()
    thread.join()
    return made[0]


def _receive(source: socket.socket, port: int) -> tuple[int, int, bytes]:
    data, extra, _, _ = source.recvmsg(LONGEST, 64)
    ((_, _, stamp),) = extra
    seconds, nanoseconds = (int.from_bytes(stamp[i : i + 8], "little") for i in (0, 8))
    return seconds * 1_000_000_000 + nanoseconds, port, data
