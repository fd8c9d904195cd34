"""Packets between a controller and the switch's CPU port.

A program names the headers that such packets carry: `@controller_header("packet_out")` in front of
what a controller sends, `@controller_header("packet_in")` in front of what it gets. Their fields
travel as metadata of the message.
"""

from __future__ import annotations

from typing import Any

from p4engine.p4runtime.catalog import Catalog, Field
from p4engine.p4runtime.matches import encoded, number
from p4engine.p4runtime.proto import p4runtime_pb2
from p4engine.p4runtime.status import invalid

LONGEST = 65535


def packet_out(catalog: Catalog, message: Any) -> bytes:
    """The frame that a PacketOut puts on the CPU port.

    Raises Refused when its metadata is not that of the program's header.
    """
    fields = catalog.packet_out or ()
    given: dict[int, bytes] = {}
    for each in message.metadata:
        if each.metadata_id in given:
            invalid(f"packet out: metadata {each.metadata_id} is given twice")
        given[each.metadata_id] = each.value
    unknown = set(given) - {field.id for field in fields}
    if unknown:
        invalid(f"packet out: the program's header has no field {min(unknown)}")
    value = width = 0
    for field in fields:
        if field.id not in given and not _padding(field):
            invalid(f"packet out: metadata {field.name} is missing")
        data = given.get(field.id, b"\0")
        value = value << field.width | number(data, field.width, f"packet out, {field.name}")
        width += field.width
    frame: bytes = value.to_bytes(width // 8, "big") + message.payload
    if not frame or len(frame) > LONGEST:
        invalid(f"packet out: a packet has 1 to {LONGEST} bytes, not {len(frame)}")
    return frame


def packet_in(catalog: Catalog, frame: bytes) -> Any | None:
    """The message about a frame that has come out of the CPU port; None: it is too short."""
    fields = catalog.packet_in or ()
    width = sum(field.width for field in fields)
    if len(frame) < width // 8:
        return None
    made = p4runtime_pb2.StreamMessageResponse()
    made.packet.payload = frame[width // 8 :]
    value = int.from_bytes(frame[: width // 8], "big")
    for field in fields:
        width -= field.width
        part = value >> width & ((1 << field.width) - 1)
        made.packet.metadata.add(metadata_id=field.id, value=encoded(part))
    return made


def _padding(field: Field) -> bool:
    """Fields that only fill a header up to whole bytes need no value."""
    return field.name.lstrip("_").startswith("pad")
