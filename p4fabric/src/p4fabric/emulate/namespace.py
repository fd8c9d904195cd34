"""The inside of a node's network namespace: it is held, and it is configured.

Both run in children of a spawner. A namespace has no name; it lives as long as its holder, a
process that does nothing, so that a kill of the whole tree of processes takes the network away
without anybody cleaning up.
"""

from __future__ import annotations

import functools
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

from p4fabric.base.linux import kernel
from p4fabric.emulate.source_address import LIBRARY

# Set before the first interface exists, as an interface takes over `default` when it is made.
# Without IPv6 no router solicitations or multicast reports disturb counters and captures. Packets
# arrive from addresses that no route points to (a switch sends results as the parameter server), so
# reverse path filtering must be off.
_SETTINGS = {
    "net/ipv6/conf/all/disable_ipv6": "1",
    "net/ipv6/conf/default/disable_ipv6": "1",
    "net/ipv4/conf/all/rp_filter": "0",
    "net/ipv4/conf/default/rp_filter": "0",
}

# Of a server with several addresses: packets from one of them come to another over the wire.
_SEVERAL_ADDRESSES = {
    "net/ipv4/conf/all/accept_local": "1",
    "net/ipv4/conf/all/arp_ignore": "1",
}

# Longer than a run, in ms: a host whose work has ended does not tell its peer that nobody listens,
# which their links would count as a packet.
_WITHOUT_ERRORS = {"net/ipv4/icmp_ratelimit": str(2**31 - 1)}

_NAMES = "/etc/hosts"


def hold(arguments: dict, descriptors: list[int]) -> int:
    """Be a new network namespace until killed; a byte on descriptors[0] says that it is there.

    arguments: {"name": of the node, "hosts": file with the names of all hosts,
    "several_addresses": true if it is a server of several hosts, "icmp_errors": false if its kernel
    answers nothing that it cannot deliver, "library": file of source_address.py that its programs
    need, or null}. The node has a host name and
    mounts of its own, too: /sys shows its own interfaces, and /etc/hosts is that file. Its mount
    namespace stays a slave of the machine's: an unmount outside must not fail because of us.
    """
    kernel.unshare(kernel.CLONE_NEWNET | kernel.CLONE_NEWNS | kernel.CLONE_NEWUTS)
    socket.sethostname(arguments["name"])
    kernel.mount("none", "/", None, kernel.MS_REC | kernel.MS_SLAVE)
    kernel.mount("sysfs", "/sys", "sysfs", 0)
    if os.path.exists(_NAMES):
        kernel.mount(arguments["hosts"], _NAMES, None, kernel.MS_BIND)
    if arguments["library"] is not None:
        code = Path(arguments["library"]).read_bytes()
        kernel.mount("tmpfs", str(LIBRARY.parent), "tmpfs", 0)
        LIBRARY.write_bytes(code)
        LIBRARY.chmod(0o755)
    settings = _SETTINGS | (_SEVERAL_ADDRESSES if arguments["several_addresses"] else {})
    settings |= {} if arguments["icmp_errors"] else _WITHOUT_ERRORS
    for name, value in settings.items():
        path = Path("/proc/sys") / name
        if path.exists():  # a kernel without IPv6 has no IPv6 to switch off
            path.write_text(value)
    os.write(descriptors[0], b"\1")
    while True:
        signal.pause()


def build(arguments: dict, descriptors: list[int]) -> int:
    """Make all links of a network and configure all nodes; a failure's reason goes to the log.

    arguments: {"links": [command of ip-link, ...], "nodes": [{"name", "pid": holder, "interfaces",
    "commands": [ip commands inside], "qdiscs": [tc commands inside]}, ...], "trains": UDP packets
    may come in trains}. One `ip -batch` per
    namespace: a process per command, as Mininet does it, takes longer than all the rest.
    """
    _batch("ip", "links", arguments["links"])
    for node in arguments["nodes"]:
        kernel.enter_network(node["pid"])
        kernel.switch_offloads_off(node["interfaces"], udp=not arguments["trains"])
        kernel.set_interfaces_up(["lo", *node["interfaces"]])
        if node["commands"]:
            _batch("ip", node["name"], node["commands"])
        if node["qdiscs"]:
            _batch("tc", node["name"], node["qdiscs"])
    for node in arguments["nodes"]:
        kernel.enter_network(node["pid"])
        kernel.wait_running(node["interfaces"], 5)
    return 0


def _batch(tool: str, what: str, commands: list[str]) -> None:
    """Have `ip` or `tc` carry out commands; what fails ends the process with the reason."""
    result = subprocess.run(
        [tool, "-batch", "-"],
        input="\n".join(commands) + "\n",
        capture_output=True,
        text=True,
        preexec_fn=functools.partial(kernel.die_with_parent, os.getpid()),
    )
    if result.returncode != 0:
        # "Command failed -:N" is the last line; the ones before it are the kernel's reasons.
        number = result.stderr.rpartition("-:")[2].strip()
        line = commands[int(number) - 1] if number.isdigit() else commands[0]
        sys.exit(f"{what}: {tool} {line}: {result.stderr.strip()}")
