"""Two hosts' interfaces and a switch's, connected by veth pairs, in network namespaces."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path


class VethPairs:
    """Two network namespaces with two veth pairs between them: h1-s1 and h2-s2.

    `sockets` are on h1 and h2, by number. A switch is started in `folder` and ended by `close`.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.holders = [subprocess.Popen(["unshare", "-n", "sleep", "infinity"]) for _ in range(2)]
        here = os.stat("/proc/self/ns/net").st_ino
        for holder in self.holders:  # until unshare has done it
            while os.stat(f"/proc/{holder.pid}/ns/net").st_ino == here:
                time.sleep(0.005)
        hosts, switch = (str(holder.pid) for holder in self.holders)
        for n in ("1", "2"):
            self.run(
                0, "ip", "link", "add", f"h{n}", "type", "veth", "peer", f"s{n}", "netns", switch
            )
            for side, name in ((0, f"h{n}"), (1, f"s{n}")):
                self.run(side, "sysctl", "-qw", f"net.ipv6.conf.{name}.disable_ipv6=1")
                self.run(side, "ip", "link", "set", name, "up")
        self.sockets = {n: self.open_socket(f"h{n}") for n in (1, 2)}
        self.process: subprocess.Popen | None = None

    def run(self, side: int, *command: str) -> None:
        """Run a command on the hosts' side (0) or the switch's (1)."""
        subprocess.run([*self.enter(side), *command], check=True)

    def enter(self, side: int) -> list[str]:
        return ["nsenter", "-t", str(self.holders[side].pid), "-n"]

    def open_socket(self, interface: str) -> socket.socket:
        made: list[socket.socket] = []

        def make() -> None:  # a thread of its own may change its namespace
            with open(f"/proc/{self.holders[0].pid}/ns/net") as namespace:
                assert ctypes.CDLL(None).setns(namespace.fileno(), 0) == 0
            sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
            sock.setsockopt(263, 23, 1)  # SOL_PACKET, PACKET_IGNORE_OUTGOING
            sock.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE
            sock.bind((interface, 3))  # ETH_P_ALL
            sock.settimeout(10)
            made.append(sock)

        thread = threading.Thread(target=make)
        thread.start()
        thread.join()
        return made[0]

    def spawn(self, *command: str | Path, environment: dict[str, str] | None = None) -> None:
        """Start a process on the switch's side; it is `process`."""
        self.process = subprocess.Popen(
            [*self.enter(1), *command],
            cwd=self.folder,
            env={**os.environ, **(environment or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def end(self) -> tuple[int, str]:
        """(exit code, stderr) of the process, once it has ended."""
        _, errors = self.process.communicate(timeout=20)
        return self.process.returncode, errors

    def close(self) -> None:
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
            self.process.communicate()
        for sock in self.sockets.values():
            sock.close()
        for holder in self.holders:
            holder.kill()
            holder.wait()
