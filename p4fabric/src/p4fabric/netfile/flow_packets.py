"""The packets of flows: frames with headers as a flow's keys say, or the file's own.

A frame is complete but for the tag at its end (generator.py). Own packets come
from an expression, or from a Python file, with the names of scapy.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

from p4fabric.base.errors import UserError
from p4fabric.base.flow import Flow
from p4fabric.base.topology import FRAME_OVERHEAD
from p4fabric.netfile.load_network import NetworkPlan
from p4fabric.netfile.python_object import load_object
from p4fabric.netfile.virtual_plan import mac_of
from p4fabric.netfile.virtual_schema import LARGEST_BYTES, FlowEntry
from p4fabric.simulate.generator import ACKNOWLEDGEMENT_BYTES, TAG_BYTES

ECN = {"not-ect": 0, "ect1": 1, "ect0": 2, "ce": 3}
FIRST_PORT = 10_000
MOST_PACKETS = 65_536  # of a flow of own packets
UDP = 17


def source_port(flow: Flow[FlowEntry]) -> int:
    """The sender's UDP port."""
    given = flow.keys.source_port
    return FIRST_PORT + flow.number if given is None else given


def udp_frame(
    macs: tuple[str, str],
    addresses: tuple[str, str],
    ports: tuple[int, int],
    size: int,
    tos: int = 0,
    ttl: int = 64,
) -> bytes:
    """A frame of so many bytes with zeros as payload; (source, destination) of each pair. Its UDP
    checksum is 0, which means none."""
    there, ours = (bytes.fromhex(mac.replace(":", "")) for mac in (macs[1], macs[0]))
    ends = (socket.inet_aton(address) for address in addresses)
    network = struct.pack("!BBHHHBBH4s4s", 0x45, tos, size - 14, 0, 0x4000, ttl, UDP, 0, *ends)
    total = sum(struct.unpack("!10H", network))
    total = (total & 0xFFFF) + (total >> 16)
    check = ~(total + (total >> 16)) & 0xFFFF
    network = network[:10] + struct.pack("!H", check) + network[12:]
    transport = struct.pack("!HHHH", *ports, size - 34, 0)
    payload = bytes(size - FRAME_OVERHEAD)
    return there + ours + b"\x08\x00" + network + transport + payload


def frames_of(plan: NetworkPlan, flow: Flow[FlowEntry]) -> list[bytes]:
    """The flow's frames, of each size or packet, in the file's order. Raises UserError."""
    keys = flow.keys
    if keys.is_own:
        return _own(plan, flow)
    assert flow.mac is not None and flow.address is not None  # see VirtualProblems
    macs = mac_of(plan.net, flow.source), flow.mac
    addresses = plan.net.hosts[flow.source].ip.partition("/")[0], flow.address
    ports = source_port(flow), keys.target_port
    tos = keys.dscp << 2 | ECN[keys.ecn]
    return [udp_frame(macs, addresses, ports, size, tos, keys.ttl) for size, _ in keys.size[1]]


def acknowledgement(plan: NetworkPlan, flow: Flow[FlowEntry], mac: str) -> bytes:
    """The frame with which a flow's receiver acknowledges, to this MAC address."""
    hosts = plan.net.hosts
    ours, theirs = (hosts[name].ip.partition("/")[0] for name in (flow.target, flow.source))
    ports = flow.keys.target_port, source_port(flow)
    size = FRAME_OVERHEAD + ACKNOWLEDGEMENT_BYTES + TAG_BYTES
    tos = flow.keys.dscp << 2
    return udp_frame((mac_of(plan.net, flow.target), mac), (ours, theirs), ports, size, tos)


def names_for_packets(plan: NetworkPlan) -> dict[str, object]:
    """Names in an expression for a packet: scapy's names, and each host with mac and ip."""
    from scapy import packet
    from scapy.layers import inet, inet6, l2

    names: dict[str, Any] = {}
    for module in (packet, l2, inet, inet6):
        names |= {name: each for name, each in vars(module).items() if name[0] != "_"}
    for name, host in plan.net.hosts.items():
        names[name] = SimpleNamespace(mac=mac_of(plan.net, name), ip=host.ip.partition("/")[0])
    return names


def _own(plan: NetworkPlan, flow: Flow[FlowEntry]) -> list[bytes]:
    keys = flow.keys
    where = f"{plan.path}: flows, {flow.name}: {'packet' if keys.packet else 'packets'}"
    try:
        if keys.packet is not None:
            found = eval(keys.packet, names_for_packets(plan))  # noqa: S307  # the user's own
        else:
            assert keys.packets is not None
            found = load_object(keys.packets, plan.folder, where)
            found = found() if callable(found) and not hasattr(found, "build") else found
        listed: Iterable[Any] = found if isinstance(found, list | tuple) else [found]
        frames = [bytes(each) for each in listed]
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"{where}: {type(error).__name__}: {error}") from None
    least = 14 + TAG_BYTES if keys.tagged else 14
    if not 0 < len(frames) <= MOST_PACKETS:
        raise UserError(f"{where}: found {len(frames)} packets; allowed: 1 to {MOST_PACKETS}")
    for number, frame in enumerate(frames):
        if not least <= len(frame) <= LARGEST_BYTES:
            raise UserError(
                f"{where}: packet {number} has {len(frame)} B; allowed: {least} B"
                f" to {LARGEST_BYTES} B" + (", of which the tag takes 16" if keys.tagged else "")
            )
    return frames
