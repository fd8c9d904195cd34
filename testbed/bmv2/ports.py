"""Traffic of a BMv2 switch's ports, losses where the experiment has no queue, and processor time.

BMv2 does not report them, so they come from the kernel:

- packets and bytes: the interfaces' counters;
- what simple_switch was too slow to take out of its packet sockets: the sockets' own statistics.
  Only a process that has the socket can ask for them, so its descriptors are duplicated into this
  process (pidfd_getfd) for a moment;
- what a host's queue dropped: `tc` in the host's namespace;
- what an interface dropped because the other end had no room: the interfaces' counters again;
- processor time: the process's, of all its threads.

Nobody counts the drops of BMv2's own queues and their largest length. These are None.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from p4fabric.base.linux import kernel
from p4fabric.base.linux.processes import cpu_ns

from testbed.setup.job_setups import PortStats

TC_TIMEOUT_S = 30  # it only asks this machine's kernel
SOL_PACKET = 263
PACKET_STATISTICS = 6
_STATISTICS = struct.Struct("=II")  # received, dropped
UNCOUNTED = ("queue_drops", "losses", "duplicates", "reordered", "unmodelled_drops", "max_queue")


@dataclass(frozen=True)
class Neighbour:
    """The node at the other end of a port: its interface there, and a process in its namespace.
    `host`: True if it is a host, with queueing disciplines of ours."""

    interface: str
    pid: int
    host: bool


class Ports:
    """The ports of one switch process. Counters start at 0 when this is made.

    Args:
        pid: simple_switch.
        interfaces: name by port.
        neighbours: by port.
        impaired: whether netem is on the links, whose drops would be counted with the queues'.
    """

    def __init__(
        self,
        pid: int,
        interfaces: Mapping[int, str],
        neighbours: Mapping[int, Neighbour],
        impaired: bool,
    ) -> None:
        self._pid = pid
        self._interfaces = dict(interfaces)
        self._neighbours = dict(neighbours)
        self._impaired = impaired
        # By interface; None: not to be had. What was dropped until now does not count.
        self._socket_drops: dict[str, int] | None = dict.fromkeys(interfaces.values(), 0)
        if self._more_socket_drops() is None:
            self._socket_drops = None
        self._before = self._counted()
        self._cpu_before_ns = cpu_ns(pid) or 0

    def read(self) -> list[PortStats]:
        """One row per port and direction, with the columns of table links."""
        self._socket_drops = self._more_socket_drops()
        now = self._counted()
        rows = []
        for port, name in sorted(self._interfaces.items()):
            new = {key: now[port][key] - self._before[port][key] for key in now[port]}
            lost = None if self._socket_drops is None else self._socket_drops[name]
            ingress = {
                "packets": new["received"] - (lost or 0),
                "bytes": new["received_bytes"],
                "queue_drops": new.get("neighbour_queue_drops"),
                "unmodelled_drops": None if lost is None else lost + new["neighbour_drops"],
            }
            egress = {
                "packets": new["sent"],
                "bytes": new["sent_bytes"],
                "unmodelled_drops": new["drops"],
            }
            for direction, counters in (("ingress", ingress), ("egress", egress)):
                row = {"port": port, "direction": direction, **dict.fromkeys(UNCOUNTED)}
                rows.append(row | counters)
        return rows

    def stats(self) -> dict[str, int | None]:
        """Counters of the whole switch, with the columns of the embedded switch's `stats()`:
        received, sent, unmodelled_drops (packets), cpu_ns. None: cannot be had."""
        rows = self.read()
        drops = [row["unmodelled_drops"] for row in rows]
        used_ns = cpu_ns(self._pid)
        return {
            "received": sum(row["packets"] for row in rows if row["direction"] == "ingress"),
            "sent": sum(row["packets"] for row in rows if row["direction"] == "egress"),
            "unmodelled_drops": None if None in drops else sum(drops),
            "cpu_ns": None if used_ns is None else used_ns - self._cpu_before_ns,
        }

    def _counted(self) -> dict[int, dict[str, int]]:
        """The kernel's counters by port, since the interfaces exist."""
        ours = interface_counters(self._pid)
        counted = {}
        for port, name in self._interfaces.items():
            neighbour, row = self._neighbours[port], {**ours[name], "neighbour_drops": 0}
            if neighbour.host:  # a switch counts its own
                theirs = interface_counters(neighbour.pid)[neighbour.interface]
                row["neighbour_drops"] = theirs["drops"]
                if not self._impaired:
                    row["neighbour_queue_drops"] = queue_drops(neighbour.pid, neighbour.interface)
            counted[port] = row
        return counted

    def _more_socket_drops(self) -> dict[str, int] | None:
        """Drops of simple_switch's sockets by interface, with those of now; None: not to be had."""
        if self._socket_drops is None:
            return None
        try:
            more = socket_drops(self._pid)
        except OSError:
            return None
        return {name: before + more.get(name, 0) for name, before in self._socket_drops.items()}


def interface_counters(pid: int) -> dict[str, dict[str, int]]:
    """Counters by interface in the network namespace of a process: received, received_bytes, sent,
    sent_bytes, drops (of frames to be sent, behind its queueing discipline)."""
    counters = {}
    for line in Path(f"/proc/{pid}/net/dev").read_text().splitlines()[2:]:
        name, _, numbers = line.partition(":")
        n = [int(number) for number in numbers.split()]
        counters[name.strip()] = {
            "received_bytes": n[0],
            "received": n[1],
            "sent_bytes": n[8],
            "sent": n[9],
            "drops": n[11],
        }
    return counters


def queue_drops(pid: int, interface: str) -> int:
    """Packets that the queueing disciplines of an interface in the network namespace of a process
    have dropped. Raises OSError."""
    try:
        done = subprocess.run(
            ["tc", "-s", "-j", "qdisc", "show", "dev", interface],
            capture_output=True,
            text=True,
            timeout=TC_TIMEOUT_S,
            preexec_fn=lambda: kernel.enter_network(pid),
        )
    except subprocess.TimeoutExpired:
        raise OSError(f"tc did not end within {TC_TIMEOUT_S} s") from None
    if done.returncode != 0:
        raise OSError(f"tc: {done.stderr.strip()}")
    # A parent counts its children's drops, too.
    return max((entry.get("drops", 0) for entry in json.loads(done.stdout)), default=0)


def socket_drops(pid: int) -> dict[str, int]:
    """Packets that the packet sockets of a process have dropped since the last call, by interface.

    Reading sets the kernel's count to 0. Raises OSError where the process's descriptors cannot be
    had (a kernel before 5.6, a container without CAP_SYS_PTRACE)."""
    drops: dict[str, int] = {}
    process = os.pidfd_open(pid)
    try:
        for name in os.listdir(f"/proc/{pid}/fd"):
            if not _is_socket(pid, name):
                continue
            with socket.socket(fileno=kernel.pidfd_getfd(process, int(name))) as theirs:
                if theirs.family != socket.AF_PACKET:
                    continue
                interface = theirs.getsockname()[0]
                read = theirs.getsockopt(SOL_PACKET, PACKET_STATISTICS, _STATISTICS.size)
                drops[interface] = drops.get(interface, 0) + _STATISTICS.unpack(read)[1]
    finally:
        os.close(process)
    return drops


def _is_socket(pid: int, descriptor: str) -> bool:
    try:
        return os.readlink(f"/proc/{pid}/fd/{descriptor}").startswith("socket:")
    except FileNotFoundError:  # closed since it was listed
        return False
