"""Mininet's prompt in a network that is up."""

from __future__ import annotations

import os
import subprocess
import time
from typing import TYPE_CHECKING, Any

from p4fabric.base import interrupts

if TYPE_CHECKING:
    from p4fabric.emulate.mininet_network import Network


def open_prompt(network: Network) -> None:
    """Mininet's prompt, until the user leaves it (`exit`, Ctrl-D). Ctrl-C stops the command that
    runs; the signals TERM and HUP end the run: KeyboardInterrupt."""
    from mininet.cli import CLI

    class Prompt(CLI):
        """Without windows where there is no display."""

        def do_xterm(self, line: str, term: str = "xterm") -> None:
            if has_display(term):
                super().do_xterm(line, term)

        def do_iperf(self, line: str) -> None:
            """Measure TCP between two hosts: iperf [h1 h2]."""
            names = line.split() or [network.hosts[0].name, network.hosts[-1].name]
            known = {host.name: host for host in network.hosts}
            if len(names) != 2 or not set(names) <= set(known):
                print(f"iperf takes two of {', '.join(list(known)[:8])}")
                return
            measure_tcp(known[names[0]], known[names[1]])

        def do_x(self, line: str) -> None:
            if has_display("x"):
                super().do_x(line)

    print("Mininet's prompt: `help` lists commands, `exit` leaves it", flush=True)
    with interrupts.at_prompt():
        Prompt(network)


def has_display(command: str) -> bool:
    """True if there is a display; otherwise prints that there is none."""
    if os.environ.get("DISPLAY"):
        return True
    print(f"{command} needs a display, and DISPLAY is not set; `h1 COMMAND` runs commands here")
    return False


def measure_tcp(client: Any, server: Any) -> None:
    """Print what iperf measures from one host to another in five seconds. Mininet's own command
    waits for a line of the server that newer versions of iperf do not print, and ends every iperf
    of the machine first."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    try:
        listening = server.popen(["iperf", "-s"], **quiet)
    except FileNotFoundError:
        print("iperf is not installed: apt-get install iperf")
        return
    try:
        print(f"TCP from {client.name} to {server.name}, 5 s", flush=True)
        # The server may not listen yet; then the connection is refused at once.
        for _ in range(20):
            done = client.popen(
                ["iperf", "-c", server.IP(), "-t", "5"],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            said, _ = done.communicate()
            if "bits/sec" in said:
                break
            time.sleep(0.1)
        print(said.splitlines()[-1] if said else "no answer", flush=True)
    finally:
        listening.kill()
        listening.wait()
