"""The scapy layer of the testbed's packets, for tests, labs and captures; never in the data path.

    >>> from scapy.layers.inet import IP, UDP
    >>> from scapy.layers.l2 import Ether
    >>> p = Ether() / IP() / UDP(dport=18766) / Ina(kind="gradient", job=1, values=[1, -2])
    >>> Ether(bytes(p))[Ina].values
    [1, -2]

The header is p4/ina.p4's; docs/wire.md describes it. The width of the bitmap and the number of
values are not in the packet: a dissector takes the bitmap's width from `Ina.bitmap_width` (32
unless set) and reads values to the packet's end. `Ina.tokens` says that there is a second bitmap.
"""

from __future__ import annotations

from typing import ClassVar

from scapy.fields import (
    BitEnumField,
    BitField,
    ByteField,
    ConditionalField,
    Field,
    FieldListField,
    FlagsField,
    IntField,
    MultipleTypeField,
    ShortField,
    SignedByteField,
    SignedIntField,
    SignedShortField,
)
from scapy.layers.inet import UDP
from scapy.packet import Packet, bind_layers

from testbed.protocols import wire
from testbed.protocols.sizes import MAX_VALUES

KINDS = {
    wire.GRADIENT: "gradient",
    wire.RESULT: "result",
    wire.RESULT_ONE: "result_one",
    wire.REMINDER: "reminder",
    wire.REMINDER_EMPTY: "reminder_empty",
    wire.ASK: "ask",
    wire.CONTROL: "control",
    wire.COLLIDED: "collided",
    wire.GRADIENT_ZEROS: "gradient_zeros",
    wire.RESULT_ZEROS: "result_zeros",
    wire.RESULT_ONE_ZEROS: "result_one_zeros",
}
FLAGS = [
    "partial",
    "collision",
    "resend",
    "ecn",
    "overflow",
    "reminded",
    "over_rate",
    "float",
    "short",
    "round",
    "for_one",
    "from_one",
    "again",
    "contended",
    "integers",
]


class BitmapField(Field):
    """An unsigned integer as wide as the packet's bitmap_width."""

    def __init__(self, name: str, default: int) -> None:
        super().__init__(name, default, "I")

    def addfield(self, packet: Packet, raw: bytes, value: int | None) -> bytes:
        assert value is not None  # it has a default
        return raw + int(value).to_bytes(packet.bitmap_width // 8, "big")

    def getfield(self, packet: Packet, raw: bytes) -> tuple[bytes, int]:
        size = packet.bitmap_width // 8
        return raw[size:], int.from_bytes(raw[:size], "big")

    def i2repr(self, packet: Packet | None, value: int) -> str:
        return bin(value)


def _is_short(packet: Packet) -> bool:
    """True if a packet's values have 16 bits."""
    return bool(packet.flags & wire.SHORT) and packet.short_bits == 16


def _is_byte(packet: Packet) -> bool:
    """True if they have 8."""
    return bool(packet.flags & wire.SHORT) and packet.short_bits == 8


def _values(each: Field) -> FieldListField:
    """The values up to a packet's end. Without a limit of its own, scapy gives up at 100."""
    return FieldListField("values", [], each, max_count=MAX_VALUES)


class Ina(Packet):
    """The header of every system, with bitmap and values."""

    name = "INA"
    bitmap_width: ClassVar[int] = 32
    short_bits: ClassVar[int] = 16  # of values in packets with the flag `short`, or 8
    tokens: ClassVar[bool] = False  # packets name the workers that get tokens

    fields_desc = [
        BitField("version", wire.VERSION, 4),
        BitEnumField("kind", wire.GRADIENT, 4, KINDS),
        ByteField("priority", 0),
        FlagsField("flags", 0, 16, FLAGS),
        ShortField("job", 0),
        ShortField("node", 0),
        IntField("fragment_number", 0),  # `fragment` is a method of every scapy packet
        IntField("index", 0),
        IntField("extra", 0),
        ShortField("sender", 0),
        ByteField("exponent", 0),
        ByteField("next_exponent", 0),
        ConditionalField(BitmapField("wanted", 0), lambda packet: packet.tokens),
        BitmapField("bitmap", 0),
        MultipleTypeField(
            [
                (_values(SignedShortField("value", 0)), _is_short),
                (_values(SignedByteField("value", 0)), _is_byte),
            ],
            _values(SignedIntField("value", 0)),
        ),
    ]


bind_layers(UDP, Ina, dport=wire.PORT)
bind_layers(UDP, Ina, sport=wire.PORT, dport=wire.PORT)
