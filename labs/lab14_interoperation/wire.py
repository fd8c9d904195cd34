"""The wire format of lab 14, for whoever judges packets: what a gradient and a result have to be.

A packet that is not what the specification says is the fault of its sender, and `fault` names it.
The hand-out has the same format as a table.
"""

from __future__ import annotations

import functools
import random
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from scapy.packet import Packet

from labs.grader.packets import (
    GRADIENT,
    PORT_AGG,
    RESULT,
    SWITCH_MAC,
    agg,
    as_number,
    host_mac,
)

VALUES, SLOTS = 8, 8
RESEND = 4
ETHERNET = struct.Struct("!6s6sH")
IP = struct.Struct("!BBHHHBBH4s4s")
UDP = struct.Struct("!HHHH")
AGG = struct.Struct("!BBBBIHHI")
ROW = struct.Struct(f"!{VALUES}i")
AT_IP = ETHERNET.size
AT_UDP = AT_IP + IP.size
AT_AGG = AT_UDP + UDP.size
AT_VALUES = AT_AGG + AGG.size
SIZE = AT_VALUES + ROW.size
IPV4, PROTOCOL_UDP, NO_OPTIONS = 0x0800, 17, 0x45
FRAGMENT = 0x3FFF  # more fragments, and the offset
# With these addresses the sum of a header's words has carries, and for hosts 1 and 2 adding the
# carries has another one (TTL 64, identification and flags 0). A checksum must not forget them.
NETWORK = "64.209.252"
CARRYING = (1, 2)
SWITCH_IP = f"{NETWORK}.254"


def host_ip(number: int) -> str:
    return f"{NETWORK}.{number}"


@dataclass(frozen=True)
class Setting:
    """A job.

    Args:
        job: its number in packets.
        workers: bits of the bitmap, one for each host.
        ports: of the hosts, in the same order. Host n of the network is at port n.
        first: number of the first fragment, any.
        fragments: how many there are.
    """

    job: int
    workers: tuple[int, ...]
    ports: tuple[int, ...]
    first: int
    fragments: int

    @property
    def everyone(self) -> int:
        return sum(1 << worker for worker in self.workers)

    def slot(self, number: int) -> int:
        """The field `slot` of a fragment: the set is its top bit."""
        return number % SLOTS | (number // SLOTS % 2) << 15

    def of_host(self, who: int) -> dict[str, int]:
        """The settings of a student's host."""
        port = self.ports[who]
        return {
            "job": self.job,
            "worker": self.workers[who],
            "everyone": self.everyone,
            "first": self.first,
            "mac": as_number(host_mac(port)),
            "ip": as_number(host_ip(port)),
            "switch_mac": as_number(SWITCH_MAC),
            "switch_ip": as_number(SWITCH_IP),
        }


def checksum(header: bytes) -> int:
    """The Internet checksum (RFC 1071) of bytes of even length; 0 of a header that has a right
    one."""
    total = sum(struct.unpack(f"!{len(header) // 2}H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


@functools.cache
def _template(port: int) -> bytes:
    return _addressed(agg(port, "switch", kind=GRADIENT, values=[0] * VALUES), port, True)


@functools.cache
def _result_template(port: int) -> bytes:
    return _addressed(agg("switch", port, kind=RESULT, values=[0] * VALUES), port, False)


def _addressed(made: Packet, port: int, to_switch: bool) -> bytes:
    ends = (host_ip(port), SWITCH_IP) if to_switch else (SWITCH_IP, host_ip(port))
    made["IP"].src, made["IP"].dst = ends
    return bytes(made)


def gradient(
    setting: Setting,
    who: int,
    number: int,
    values: Sequence[int],
    again: bool = False,
    free: random.Random | None = None,
) -> bytes:
    """A gradient of one of our hosts. `free` draws what the specification leaves open."""
    frame = bytearray(_template(setting.ports[who]))
    priority = 0
    if free is not None:
        priority = free.randrange(256)
        frame[AT_IP + 8] = free.randrange(1, 256)  # TTL
        struct.pack_into("!H", frame, AT_IP + 4, free.randrange(1 << 16))  # identification
        struct.pack_into("!H", frame, AT_IP + 10, 0)
        struct.pack_into("!H", frame, AT_IP + 10, checksum(bytes(frame[AT_IP:AT_UDP])))
        struct.pack_into("!H", frame, AT_UDP, free.randrange(1024, 1 << 16))  # source port
    worker = setting.workers[who]
    row = (GRADIENT, RESEND * again, setting.job, priority, number, setting.slot(number), worker)
    AGG.pack_into(frame, AT_AGG, *row, 1 << worker)
    ROW.pack_into(frame, AT_VALUES, *values)
    return bytes(frame)


@dataclass(frozen=True)
class Content:
    """The fields of a packet."""

    kind: int
    flags: int
    job: int
    number: int
    slot: int
    worker: int
    bitmap: int
    values: tuple[int, ...]


def content(frame: bytes) -> Content:
    """Of a packet that has no fault."""
    kind, flags, job, _, number, slot, worker, bitmap = AGG.unpack_from(frame, AT_AGG)
    values = ROW.unpack_from(frame, AT_VALUES)
    return Content(kind, flags, job, number, slot, worker, bitmap, values)


def envelope_fault(frame: bytes, source: tuple[str, str], target: tuple[str, str]) -> str:
    """The problem of a packet's size, or its headers up to UDP; "": nothing.

    Args:
        source, target: MAC and IP addresses.
    """
    if len(frame) != SIZE:
        return "the packet's size"
    to, by, ethertype = ETHERNET.unpack_from(frame)
    first, _, length, _, fragment, ttl, protocol, _, ip_by, ip_to = IP.unpack_from(frame, AT_IP)
    _, port, udp_length, udp_checksum = UDP.unpack_from(frame, AT_UDP)
    wanted = {
        "the Ethernet source": (by, _bytes(source[0], 6)),
        "the Ethernet destination": (to, _bytes(target[0], 6)),
        "the ethertype": (ethertype, IPV4),
        "the IP version or header length": (first, NO_OPTIONS),
        "the IP length": (length, SIZE - AT_IP),
        "the IP fragment fields": (fragment & FRAGMENT, 0),
        "the IP TTL": (ttl > 0, True),
        "the IP protocol": (protocol, PROTOCOL_UDP),
        "the IP source": (ip_by, _bytes(source[1], 4)),
        "the IP destination": (ip_to, _bytes(target[1], 4)),
        "the IP checksum": (checksum(frame[AT_IP:AT_UDP]), 0),
        "the UDP destination port": (port, PORT_AGG),
        "the UDP length": (udp_length, SIZE - AT_UDP),
        "the UDP checksum": (udp_checksum, 0),
    }
    return next((name for name, (got, want) in wanted.items() if got != want), "")


def _bytes(address: str, size: int) -> bytes:
    return as_number(address).to_bytes(size, "big")


def result(port: int, want: Content) -> bytes:
    """A result of our switch for the host at a port."""
    frame = bytearray(_result_template(port))
    row = (RESULT, 0, want.job, 0, want.number, want.slot, 0, want.bitmap)
    AGG.pack_into(frame, AT_AGG, *row)
    ROW.pack_into(frame, AT_VALUES, *want.values)
    return bytes(frame)


def gradient_fault(frame: bytes, setting: Setting, who: int, values: Sequence) -> str:
    """The problem of a host's gradient; "": none. `values`: of all its fragments."""
    port = setting.ports[who]
    fault = envelope_fault(frame, (host_mac(port), host_ip(port)), (SWITCH_MAC, SWITCH_IP))
    if fault:
        return fault
    made, worker = content(frame), setting.workers[who]
    fragment = made.number - setting.first
    if not 0 <= fragment < setting.fragments:
        return "the fragment's number"
    wanted = {
        "the kind": (made.kind, GRADIENT),
        "the flags": (made.flags & ~RESEND, 0),
        "the job": (made.job, setting.job),
        "the slot": (made.slot, setting.slot(made.number)),
        "the worker": (made.worker, worker),
        "the bitmap": (made.bitmap, 1 << worker),
        "the values": (made.values, tuple(values[fragment])),
    }
    return next((name for name, (got, want) in wanted.items() if got != want), "")


def result_fault(frame: bytes, setting: Setting, port: int, want: Content) -> str:
    """The problem of a result that leaves at a port; "": none."""
    fault = envelope_fault(frame, (SWITCH_MAC, SWITCH_IP), (host_mac(port), host_ip(port)))
    if fault:
        return fault
    made = content(frame)
    wanted = {
        "the kind": (made.kind, RESULT),
        "the job": (made.job, want.job),
        "the number": (made.number, want.number),
        "the slot": (made.slot, want.slot),
        "the bitmap": (made.bitmap, setting.everyone),
        "the values": (made.values, want.values),
    }
    return next((name for name, (got, right) in wanted.items() if got != right), "")
