"""Things that this machine's kernel lets root do, found out by doing them.

A kernel's configuration says little: a feature can be a module that is not installed, or forbidden
in a container. So this program makes namespaces of its own, a pair of interfaces and queueing
disciplines in them, and prints what came of it as JSON: {feature: reason why not, "" if it works}.
Everything made lives in the new namespaces and ends with the process, whichever way it ends; that
is why it is a program of its own:

    python -m testbed.machine.kernel_probe
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Callable

from p4fabric.base.linux import kernel

NAMESPACES = "namespaces"
VETH = "veth"
PACKET_SOCKETS = "packet sockets"
HTB = "HTB"
TRAINS = "UDP trains"
NETEM = "netem"
POLICY_ROUTING = "policy routing"
FEATURES = (NAMESPACES, VETH, PACKET_SOCKETS, TRAINS, POLICY_ROUTING, HTB, NETEM)

_PAIR = "probe0", "probe1"
_ADDRESS, _NEIGHBOUR, _PORT = "10.0.0.1", "10.0.0.2", 9
_PART = bytes(range(100))  # the payload of each packet of a train
_SOL_UDP, _UDP_SEGMENT, _UDP_GRO = 17, 103, 104
_SOL_PACKET, _PACKET_VNET_HDR = 263, 15
_UDP_SEGMENTATION = 5  # the type of a virtio_net_hdr
_WAIT_S = 2
_FRAME = b"\xff" * 12 + b"\x88\xb5" + bytes(46)  # to all, of the EtherType for experiments


def _make_namespaces() -> None:
    kernel.unshare(kernel.CLONE_NEWNET | kernel.CLONE_NEWNS | kernel.CLONE_NEWUTS)
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


def _pass_trains() -> None:
    """A train from a UDP socket to a packet socket, as from a host to a switch, and back."""
    _command("ip", "addr", "add", _ADDRESS, "dev", _PAIR[0])
    _command("ip", "neigh", "add", _NEIGHBOUR, "lladdr", "02:00:00:00:00:01", "dev", _PAIR[0])
    _command("ip", "route", "add", _NEIGHBOUR, "dev", _PAIR[0])
    every_protocol = socket.htons(3)
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as host,
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW, every_protocol) as switch,
    ):
        host.setsockopt(_SOL_UDP, _UDP_SEGMENT, len(_PART))
        host.setsockopt(_SOL_UDP, _UDP_GRO, 1)
        host.bind((_ADDRESS, _PORT))
        switch.setsockopt(_SOL_PACKET, _PACKET_VNET_HDR, 1)
        switch.bind((_PAIR[1], 0))
        host.settimeout(_WAIT_S)
        switch.settimeout(_WAIT_S)
        host.sendto(3 * _PART, (_NEIGHBOUR, _PORT))
        while not (train := switch.recv(4096)).endswith(3 * _PART):
            pass  # the kernel's own packets on a new link
        if train[1] != _UDP_SEGMENTATION:
            raise OSError("packet sockets do not receive them")
        ip = 10 + 14
        back = bytearray(train)
        back[10:22] = train[16:22] + train[10:16]  # the reply swaps addresses, ports are equal
        back[ip + 12 : ip + 20] = train[ip + 16 : ip + 20] + train[ip + 12 : ip + 16]
        switch.send(back)
        try:
            data, control, _, _ = host.recvmsg(4096, 64)
        except TimeoutError:
            raise OSError("packet sockets do not send them") from None
        if data != 3 * _PART or not control:
            raise OSError("UDP sockets do not receive them")


def _route_by_source() -> None:
    """Rules as of a server with several addresses (p4fabric/emulate/server_routes.py)."""
    _command("ip", "rule", "add", "priority", "101", "from", _ADDRESS, "iif", "lo", "lookup", "101")
    _command("ip", "rule", "add", "priority", "300", "lookup", "local")
    _command("ip", "rule", "del", "priority", "0")


def why_no_trains() -> str:
    """Reason why this kernel does not pass UDP packets in trains; "" if it does."""
    return _why_not(_make_veth, _pass_trains)


def why_no_policy_routing() -> str:
    """Reason why this kernel has no rules of routing; "" if it has."""
    return _why_not(_route_by_source)


def _why_not(*actions: Callable[[], None]) -> str:
    """Reason why one of these fails; "" if none does. Tried in a child process with a network
    namespace of its own."""
    reason, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        found = "cannot be tried"
        try:
            found = _attempt(lambda: kernel.unshare(kernel.CLONE_NEWNET))
            for action in actions:
                found = found or _attempt(action)
        finally:
            os.write(theirs, found.encode()[:1000])
            os._exit(0)
    os.close(theirs)
    with os.fdopen(reason, "rb") as said:
        found = said.read().decode()
    os.waitpid(child, 0)
    return found


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
    for feature, action in (
        (PACKET_SOCKETS, _send_packet),
        (TRAINS, _pass_trains),
        (POLICY_ROUTING, _route_by_source),
        (HTB, _make_htb),
        (NETEM, _make_netem),
    ):
        found[feature] = _attempt(action)
    return found


if __name__ == "__main__":
    print(json.dumps(probe()))
