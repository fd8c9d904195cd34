"""What this machine's kernel lets root do, found out by doing it.

A kernel's configuration says little: a feature can be a module that is not installed, or forbidden
in a container. So this program makes namespaces of its own, a pair of interfaces and queueing
disciplines in them, and prints what came of it as JSON: {feature: reason why not, "" if it works}.
Everything made lives in the new namespaces and ends with the process, whichever way it ends; that
is why it is a program of its own:

    python -m testbed.machine.kernel_probe
"""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Callable

from testbed.linux import kernel

NAMESPACES = "namespaces"
VETH = "veth"
PACKET_SOCKETS = "packet sockets"
HTB = "HTB"
NETEM = "netem"
FEATURES = (NAMESPACES, VETH, PACKET_SOCKETS, HTB, NETEM)

_PAIR = "probe0", "probe1"
_FRAME = b"\xff" * 12 + b"\x88\xb5" + bytes(46)  # to all, of the EtherType for experiments


def _make_namespaces() -> None:
    kernel.unshare(kernel.CLONE_NEWNET | kernel.CLONE_NEWNS)
    kernel.mount("none", "/", None, kernel.MS_REC | kernel.MS_SLAVE)
    kernel.mount("sysfs", "/sys", "sysfs", 0)


def _make_veth() -> None:
    _command("ip", "link", "add", _PAIR[0], "type", "veth", "peer", "name", _PAIR[1])
    kernel.set_interfaces_up(list(_PAIR))
    kernel.wait_running(list(_PAIR), 5)


def _send_packet() -> None:
    every_protocol = socket.htons(3)
    with (
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sender,
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW, every_protocol) as receiver,
    ):
        sender.bind((_PAIR[0], 0))
        receiver.bind((_PAIR[1], 0))
        receiver.settimeout(2)
        sender.send(_FRAME)
        while receiver.recv(2048) != _FRAME:
            pass  # the kernel's own packets on a new link


def _make_htb() -> None:
    _command("tc", "qdisc", "replace", "dev", _PAIR[0], "root", "handle", "1:", "htb")
    rate = "htb", "rate", "10mbit"
    _command("tc", "class", "add", "dev", _PAIR[0], "parent", "1:", "classid", "1:1", *rate)


def _make_netem() -> None:
    _command("tc", "qdisc", "replace", "dev", _PAIR[1], "root", "netem", "delay", "1ms")


def _command(*arguments: str) -> None:
    """Run a command; raises OSError with its last words."""
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=10)
    if done.returncode != 0:
        raise OSError(" ".join(done.stderr.split()) or f"exit code {done.returncode}")


def _attempt(action: Callable[[], None]) -> str:
    try:
        action()
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error) or type(error).__name__
    return ""


def probe() -> dict[str, str]:
    """Try every feature, in namespaces that this process has from then on."""
    found = {NAMESPACES: _attempt(_make_namespaces)}
    if found[NAMESPACES]:
        # Without namespaces of its own it would do all that to the machine's own network.
        return found | dict.fromkeys(FEATURES[1:], "needs namespaces")
    found[VETH] = _attempt(_make_veth)
    if found[VETH]:
        return found | dict.fromkeys(FEATURES[2:], "needs veth")
    for feature, action in ((PACKET_SOCKETS, _send_packet), (HTB, _make_htb), (NETEM, _make_netem)):
        found[feature] = _attempt(action)
    return found


if __name__ == "__main__":
    print(json.dumps(probe()))
