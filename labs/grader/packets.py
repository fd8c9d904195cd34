"""Packets of the labs as scapy layers, and what differs between two of them, field by field.

Students compare fields, not digits. A packet is taken apart into rows (field, value) by the same
layers that made it, so that a message can say `Agg.values[3]: expected 30, got 27`. Two headers
serve all labs: `Sum` directly in Ethernet for the first steps, and `Agg` in UDP from lab 3 on. The
P4 side of both is in the skeletons.
"""

from __future__ import annotations

import struct
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from scapy.fields import (
    ByteEnumField,
    ByteField,
    FieldListField,
    FlagsField,
    IntField,
    ShortField,
    SignedIntField,
    XIntField,
)
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import NoPayload, Packet, Raw, bind_layers

ETHERNET_BYTES = 14
ETHERTYPE_SUM = 0x88B5  # for local experiments (IEEE 802)
PORT_AGG = 18767
AT_AGG = 14 + 20 + 8  # bytes before the header
HEADER = struct.Struct("!BBBBIHHI")  # of Agg
GRADIENT, RESULT, REMINDER, NOTHING, RECEIPT, DATA = 1, 2, 3, 4, 5, 6
KINDS = {GRADIENT: "GRADIENT", RESULT: "RESULT", REMINDER: "REMINDER", NOTHING: "NOTHING"}
KINDS |= {RECEIPT: "RECEIPT", DATA: "DATA"}
FLAGS = ["PARTIAL", "COLLISION", "RESEND", "ECN", "OVERFLOW"]


class Sum(Packet):
    """The header of lab 2."""

    name = "Sum"
    fields_desc = [
        ByteEnumField("kind", GRADIENT, KINDS),
        ByteField("worker", 0),
        ShortField("round", 0),
        FieldListField("values", [], SignedIntField("", 0), count_from=lambda _: 4),
    ]


class Agg(Packet):
    """The header of labs from 3 on; `values` reach to the packet's end."""

    name = "Agg"
    fields_desc = [
        ByteEnumField("kind", GRADIENT, KINDS),
        FlagsField("flags", 0, 8, FLAGS),
        ByteField("job", 0),
        ByteField("priority", 0),
        IntField("number", 0),
        ShortField("slot", 0),
        ShortField("worker", 0),
        XIntField("bitmap", 0),
        FieldListField("values", [], SignedIntField("", 0)),
    ]


bind_layers(Ether, Sum, type=ETHERTYPE_SUM)
bind_layers(UDP, Agg, dport=PORT_AGG)


def host_mac(number: int) -> str:
    """The MAC address of the labs' host `number`, which no real host of ours has."""
    return f"0a:00:00:00:00:{number:02x}"


def host_ip(number: int) -> str:
    return f"10.0.0.{number}"


SWITCH_MAC = "0a:00:00:00:01:00"
SWITCH_IP = "10.0.0.254"


def agg(source: int | str, destination: int | str, ttl: int = 64, **fields: Any) -> Packet:
    """A frame with an Agg header from one host to another; "switch" stands for the switch.

    Its UDP checksum is 0, which IPv4 permits; that of IPv4 is right.
    """
    ends = [
        (SWITCH_MAC, SWITCH_IP) if end == "switch" else (host_mac(int(end)), host_ip(int(end)))
        for end in (source, destination)
    ]
    ether = Ether(src=ends[0][0], dst=ends[1][0])
    ip = IP(src=ends[0][1], dst=ends[1][1], ttl=ttl, flags="DF")
    return ether / ip / UDP(sport=PORT_AGG, dport=PORT_AGG, chksum=0) / Agg(**fields)


def wrapped(value: int) -> int:
    """The value as an int32."""
    return (value + (1 << 31)) % (1 << 32) - (1 << 31)


def as_number(address: str) -> int:
    """A MAC or IPv4 address as the control plane takes it."""
    parts = address.split(":") if ":" in address else address.split(".")
    base = 16 if ":" in address else 10
    return int.from_bytes(bytes(int(p, base) for p in parts), "big")


@dataclass(frozen=True)
class Difference:
    """A field that is not what it should be; None: the packet does not have it."""

    field: str
    expected: str | None
    got: str | None


def dissect(data: bytes) -> Packet:
    """A frame as far as its headers are whole; what is shorter than its header is bytes."""
    if len(data) < ETHERNET_BYTES:
        return Raw(data)
    try:
        return Ether(data)
    except Exception:  # scapy reads beyond the end of what is too short
        made = Ether(data[:ETHERNET_BYTES])
        made.remove_payload()
        return made / Raw(data[ETHERNET_BYTES:])


def layers(packet: Packet) -> list[Packet]:
    """The packet's headers, from the outside in."""
    made = []
    while not isinstance(packet, NoPayload):
        made.append(packet)
        packet = packet.payload
    return made


def rows(data: bytes) -> dict[str, str]:
    """Field by field what a frame says, in order; a list is a row for each element."""
    made: dict[str, str] = {}
    for layer in layers(dissect(data)):
        title = type(layer).__name__
        if isinstance(layer, Raw):
            made["bytes behind"] = layer.load[:64].hex()
            continue
        for field in layer.fields_desc:
            value = layer.getfieldval(field.name)
            name = f"{title}.{field.name}"
            if isinstance(value, list) and value and isinstance(value[0], int):
                made |= {f"{name}[{i}]": str(v) for i, v in enumerate(value)}
            elif value not in (None, []):
                made[name] = _text(layer, field.name, value)
    return made


def _text(layer: Packet, name: str, value: object) -> str:
    shown = str(layer.get_field(name).i2repr(layer, value)).strip("'")
    if isinstance(value, int) and not isinstance(value, bool):
        number = hex(value) if shown.startswith("0x") else str(value)
        return shown if shown in (number, "") else f"{number} ({shown})"
    return shown or "none"


def differences(
    expected: bytes, got: bytes, only: Collection[str] = (), ignore: Collection[str] = ()
) -> list[Difference]:
    """The differences; `only` and `ignore` name fields ("Agg.kind") or layers ("Ether")."""
    left, right = rows(expected), rows(got)
    made = []
    for field in [*left, *(name for name in right if name not in left)]:
        if only and not _named(field, only) or _named(field, ignore):
            continue
        if left.get(field) != right.get(field):
            made.append(Difference(field, left.get(field), right.get(field)))
    return made


def _named(field: str, names: Collection[str]) -> bool:
    plain = field.partition("[")[0]
    return plain in names or plain.partition(".")[0] in names


HIDDEN = {  # fields of IP and UDP that say nothing to a reader of a summary
    "IP": {"version", "ihl", "tos", "len", "id", "flags", "frag", "proto", "chksum", "options"},
    "UDP": {"sport", "dport", "len", "chksum"},
    "Ether": {"type"},
}


def summary(data: bytes) -> str:
    """A frame in one line: what matters of each header."""
    parts = []
    for layer in layers(dissect(data)):
        title = type(layer).__name__
        if isinstance(layer, Raw):
            parts.append(f"{len(layer.load)} bytes")
            continue
        shown = []
        for field in layer.fields_desc:
            value = layer.getfieldval(field.name)
            if field.name in HIDDEN.get(title, ()):
                continue
            if isinstance(value, list):
                text = ", ".join(map(str, value[:8])) + (", ..." if len(value) > 8 else "")
                shown.append(f"{field.name}=[{text}]")
            else:
                shown.append(f"{field.name}={layer.get_field(field.name).i2repr(layer, value)}")
        parts.append(f"{title}({' '.join(shown)})" if shown else title)
    return " / ".join(parts) or f"{len(data)} bytes"
