"""The keys of a network file that mean something in virtual time alone (`runtime: virtual`)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field, model_validator

from p4fabric.base.config import units
from p4fabric.base.config.conditions import Bound, Condition
from p4fabric.base.config.fields import (
    ANY_TEXT,
    HOUR,
    NAME,
    NODE,
    SECOND,
    Choice,
    Flag,
    Kind,
    Nodes,
    Number,
    Quantity,
    Reads,
    Section,
    Text,
    Whole,
    as_pydantic,
)
from p4fabric.base.config.units import PERCENT, RATE, SIZE, TIME, FieldError, describe
from p4fabric.base.flow import ControlName, FlowKeys, refuse
from p4fabric.base.transports import CONTROL_TEXT, CONTROLS

MAC = Text(r"([0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}", "a MAC address, such as 08:00:00:00:01:11")
ADDRESS = Text(r"\d{1,3}(\.\d{1,3}){3}", "an IPv4 address, such as 10.0.1.1")
OBJECT = Text(r"[^:]+\.py:[A-Za-z_][A-Za-z0-9_]*", "a Python file and a name in it: FILE.py:NAME")
SMALLEST_BYTES = 60  # of an Ethernet frame, without its checksum
LARGEST_BYTES = 9216
MAX_FLOWS = 4096
ALL = "all"  # in place of hosts
MAX_SIZES = 4096  # different ones of a flow

PlainText = Annotated[str, ANY_TEXT]
Name = Annotated[str, NAME]
Time = Annotated[int, Quantity(TIME, 0, HOUR)]


@dataclass(frozen=True)
class Sizes(Kind):
    """Sizes of packets in bytes: a tuple of (size, weight), and whether they are drawn."""

    allowed = (
        f"a size from {SMALLEST_BYTES} B to {LARGEST_BYTES} B; a list of sizes, in turn; sizes with"
        " weights, such as {64 B: 7, 1500 B: 1}; or a range, such as {from: 64 B, to: 1500 B}"
    )

    def parse(self, value: object) -> tuple[bool, tuple[tuple[int, int], ...]]:
        if isinstance(value, dict) and set(value) == {"from", "to"}:
            low, high = self._size(value["from"]), self._size(value["to"])
            if not low <= high < low + MAX_SIZES:
                raise FieldError(f"{low} B to {high} B", self.allowed, f"at most {MAX_SIZES} sizes")
            return True, tuple((size, 1) for size in range(low, high + 1))
        if isinstance(value, dict) and value:
            whole = Whole(1, 10**6)
            return True, tuple((self._size(k), whole.parse(v) or 1) for k, v in value.items())
        if isinstance(value, list) and 0 < len(value) <= MAX_SIZES:
            return False, tuple((self._size(each), 1) for each in value)
        return False, ((self._size(value), 1),)

    def _size(self, value: object) -> int:
        try:
            return int(units.parse(value, SIZE, SMALLEST_BYTES, LARGEST_BYTES))
        except FieldError as error:
            raise FieldError(error.found, self.allowed, error.hint) from None


Elements = tuple[str, int, int | None] | None


@dataclass(frozen=True)
class Element(Kind):
    """Elements of a register or counter: (name, first, last) here; last None: all of them."""

    allowed = "a name, with an element or several of them: seen, seen[3], seen[0..7]"

    def parse(self, value: object) -> tuple[str, int, int | None]:
        pattern = r"([A-Za-z_][\w.]*)(?:\[(\d{1,9})(?:\.\.(\d{1,9}))?\])?"
        found = re.fullmatch(pattern, value) if isinstance(value, str) else None
        if not found:
            raise FieldError(describe(value), self.allowed)
        if found[2] is None:
            return found[1], 0, None
        first = int(found[2])
        last = int(found[3]) if found[3] else first
        if last < first:
            raise FieldError(describe(value), self.allowed, "the first is not above the last")
        return found[1], first, last


@dataclass(frozen=True)
class Moments(Kind):
    """Times in ns: one, or a list of them; a tuple here."""

    allowed = "a time such as 10 us, or a list of times"

    def parse(self, value: object) -> tuple[int, ...]:
        given = value if isinstance(value, list) and value else [value]
        kind = Quantity(TIME, 0, HOUR)
        return tuple(int(kind.parse(each) or 0) for each in given)


class VirtualSettings(Section):
    """The run in virtual time."""

    duration_ns: Annotated[int, Quantity(TIME, 1000, HOUR)] = Field(
        default=10_000_000, alias="duration", description="Flows and timers of hosts end then."
    )
    drain_ns: Time = Field(
        default=100_000_000,
        alias="drain",
        description="Afterwards the network goes on until nothing is on its way, at most so long.",
    )
    seed: Annotated[int, Whole(0, 2**31 - 1)] = Field(
        default=1, description="Of all random numbers."
    )
    steps: Annotated[str, Choice(("drawn", "exact"))] = Field(
        default="drawn",
        description="`drawn`: each flow has a phase and a jitter of its own, drawn from the seed."
        " `exact`: it sends exactly at its rate, in step with others.",
    )
    switch_latency_ns: Annotated[int, Quantity(TIME, 0, SECOND)] = Field(
        default=400,
        alias="switch_latency",
        description="The time of a packet through a switch, without queueing.",
    )
    sample_ns: Annotated[int | None, Quantity(TIME, 100, HOUR)] = Field(
        default=None,
        alias="sample",
        json_schema_extra={"default": "a 200th of the duration"},
        description="Queues and flows are looked at so often.",
    )
    longest_frame_bytes: Annotated[int | None, Quantity(SIZE, 64, 64 << 10)] = Field(
        default=None,
        alias="longest_frame",
        json_schema_extra={"default": "of the flows, at least 1514 B, and 512 B more"},
        description="Room for a frame, with the headers that programs add.",
    )

    @property
    def is_exact(self) -> bool:
        """True if flows may be in step with each other."""
        return self.steps == "exact"


class Answer(Section):
    """Answer of a host to the packets of flows."""

    delay_ns: Time = Field(
        default=1000,
        alias="delay",
        description="It sends each packet back to its sender so long after it has arrived.",
    )
    flows: tuple[Name, ...] | None = Field(
        default=None,
        json_schema_extra={"default": "all"},
        description="The flows whose packets it answers. Packets of classes are always answered.",
    )


class FlowEntry(FlowKeys):
    """Flows, one from each host of `from` to each host of `to`, all alike."""

    joker = ALL
    renamed = {"burst": "packet_burst", "stop": "for"}

    kind: Annotated[str, Choice(("udp", "tcp", "rc"))] = Field(
        default="udp",
        description="`udp`: packets at a rate; `tcp`: a model of TCP (docs/background.md), as fast"
        " as its congestion control allows, also in UDP packets; `rc`: a reliable connection as"
        " RDMA's (docs/transports.md), which follows the marks of the network's programs.",
    )
    congestion_control: Annotated[str | None, ControlName(CONTROLS)] = Field(
        default=None,
        json_schema_extra={"default": "`none` with `rc`"},
        description=f"What finds the rate; only with `rc`. {CONTROL_TEXT}",
    )
    sources: Annotated[tuple[str, ...], Nodes()] = Field(
        alias="from", description="The sending host, a list of hosts, or `all`."
    )
    targets: Annotated[tuple[str, ...], Nodes()] | None = Field(
        default=None,
        alias="to",
        description="The receiving host, a list of hosts, or `all`. Not needed with `address` or"
        " packets of your own; then no loss is known.",
    )
    packet_rate: Annotated[float | None, Number(0.001, 10**10)] = Field(
        default=None, description="Packets per second, instead of `rate`."
    )
    size: Annotated[tuple[bool, tuple[tuple[int, int], ...]], Sizes()] = Field(
        default=(False, ((1000, 1),)),
        json_schema_extra={"default": "1000 B"},
        description="Size of a packet, from the Ethernet header to the end of the payload: one;"
        " a list, in turn; sizes with weights, {64 B: 7, 1500 B: 1}, drawn; or a range, {from: 64"
        " B, to: 1500 B}, drawn.",
    )
    gaps: Annotated[str, Choice(("fixed", "exponential"))] = Field(
        default="fixed",
        description="Times between packets: all the same, or drawn (a Poisson process).",
    )
    packet_burst: Annotated[int, Whole(1, 100_000)] = Field(
        default=1,
        description="So many packets leave together, and then a longer gap: the rate stays.",
    )
    periods: Annotated[str, Choice(("fixed", "exponential"))] = Field(
        default="fixed", description="`on` and `off` are the times themselves, or their means."
    )
    stop_ns: Annotated[int | None, Quantity(TIME, 0, HOUR)] = Field(
        default=None,
        alias="stop",
        json_schema_extra={"default": "none"},
        description="The old word for `for`: when it ends. The next version has it no more.",
    )
    count: Annotated[int | None, Whole(1, 2**32 - 1)] = Field(
        default=None, description="At most so many packets."
    )
    mac: Annotated[str, MAC] | None = Field(
        default=None,
        json_schema_extra={
            "default": "as the sender's routes and neighbours say, else the receiver's"
        },
        description="Destination's MAC address.",
    )
    address: Annotated[str, ADDRESS] | None = Field(
        default=None,
        json_schema_extra={"default": "the receiver's"},
        description="Destination's IPv4 address.",
    )
    source_port: Annotated[int, Whole(0, 65535)] | None = Field(
        default=None,
        json_schema_extra={"default": "10000 and the flow's number"},
        description="UDP port of the sender.",
    )
    target_port: Annotated[int, Whole(0, 65535)] = Field(
        default=5001, description="UDP port of the receiver."
    )
    dscp: Annotated[int, Whole(0, 63)] = Field(default=0, description="DSCP of IPv4.")
    ecn: Annotated[str, Choice(("not-ect", "ect0", "ect1", "ce"))] = Field(
        default="not-ect", description="ECN bits of IPv4."
    )
    ttl: Annotated[int, Whole(1, 255)] = Field(default=64, description="TTL of IPv4.")
    packet: PlainText | None = Field(
        default=None,
        description="A packet of your own, instead of sizes and headers: an expression of Python"
        " with the names of scapy, such as Ether(dst=h2.mac)/IP(dst=h2.ip)/UDP()/Raw(b'x' * 50).",
    )
    packets: Annotated[Annotated[str, OBJECT] | None, Reads("Python file")] = Field(
        default=None,
        description="The same from a Python file, FILE.py:NAME: a list of packets (scapy's, or"
        " bytes), sent in turn, or a function that returns one.",
    )
    tag: Annotated[bool, Flag()] | None = Field(
        default=None,
        json_schema_extra={"default": "true; false for packets of your own"},
        description="The last 16 bytes of each packet are replaced by what the measurements"
        " need. Without it, nothing is known of the flow but what is sent.",
    )

    @property
    def is_own(self) -> bool:
        """Its packets are the file's own."""
        return self.packet is not None or self.packets is not None

    @property
    def tagged(self) -> bool:
        """True if each packet has a tag."""
        return not self.is_own if self.tag is None else self.tag

    @property
    def end_ns(self) -> int | None:
        return super().end_ns if self.stop_ns is None else self.stop_ns

    @model_validator(mode="after")
    def _together(self) -> FlowEntry:
        given = self.model_fields_set
        own = {"packet", "packets"} & given
        if self.congestion_control and not self.is_rc:
            refuse(f"{self.kind} with congestion_control", "kind rc, or no key")
        if self.is_tcp or self.is_rc:
            paced = {
                "rate_bps",
                "packet_rate",
                "gaps",
                "packet_burst",
                "on_ns",
                "off_ns",
                "periods",
            }
            paced |= {"packet", "packets", "count", "tag", "address"}
            if wrong := sorted(paced & given):
                key = FlowEntry.model_fields[wrong[0]].alias or wrong[0]
                refuse(f"{self.kind} with {key}", "kind udp, or the flow without it")
            if len(self.size[1]) > 1:
                refuse(f"{self.kind} with several sizes", "one size")
        elif (self.rate_bps is None) == (self.packet_rate is None):
            found = "both rate and packet_rate" if self.rate_bps else "neither rate nor packet_rate"
            refuse(found, "one of them, such as rate: 10 Gbit/s")
        if len(own) > 1:
            refuse("both packet and packets", "one of them")
        if own and (wrong := sorted({"size", "mac", "address", "dscp", "ecn", "ttl"} & given)):
            refuse(f"{own.pop()} with {wrong[0]}", "one of them: a packet of your own has all that")
        if "periods" in given and self.on_ns is None:
            refuse("periods without on and off", "on, off and periods")
        if self.stop_ns is not None and self.duration_ns is not None:
            refuse("both for and stop", "for")
        if self.stop_ns is not None and self.stop_ns <= self.start_ns:
            refuse("a stop that is not after the start", "a later stop")
        if self.targets is None and self.address is None and not own:
            refuse("neither to nor address", "a receiver, such as to: h2")
        return self


class Reading(Section):
    """A register or counter that is read at given times, into table readings."""

    register_: Annotated[Elements, Element()] = Field(
        default=None, alias="register", description="A register, or some of its elements."
    )
    counter: Annotated[Elements, Element()] = Field(
        default=None, description="A counter, or some of its elements."
    )
    of: Annotated[str, NODE] = Field(description="The switch.")
    at: Annotated[tuple[int, ...] | None, Moments()] = Field(
        default=None, description="When: a time, or a list."
    )
    every_ns: Annotated[int | None, Quantity(TIME, 100, HOUR)] = Field(
        default=None, alias="every", description="Or again and again."
    )

    @model_validator(mode="after")
    def _together(self) -> Reading:
        if (self.register_ is None) == (self.counter is None):
            raise as_pydantic(FieldError("a reading", "one of the keys register, counter"))
        if (self.at is None) == (self.every_ns is None):
            raise as_pydantic(FieldError("a reading", "one of the keys at, every"))
        return self


class Change(Section):
    """Action of the control plane at a given time."""

    at_ns: Time = Field(alias="at", description="When.")
    on: Annotated[str, NODE] | None = Field(default=None, description="The switch of `commands`.")
    commands: tuple[PlainText, ...] = Field(
        default=(), description="Lines for simple_switch_CLI, such as table entries."
    )
    link: Annotated[tuple[str, ...], Nodes()] | None = Field(
        default=None, description="Or the two nodes of a link, whose state changes:"
    )
    up: Annotated[bool, Flag()] = Field(default=False, description="whether it is up from then on.")

    @model_validator(mode="after")
    def _together(self) -> Change:
        if (self.link is None) == (not self.commands):
            raise as_pydantic(FieldError("a change", "one of the keys commands, link"))
        if bool(self.commands) != (self.on is not None):
            raise as_pydantic(FieldError("commands and on, one without the other", "both"))
        if self.link is not None and len(self.link) != 2:
            raise as_pydantic(FieldError(describe(self.link), "the two nodes of a link"))
        return self


Rate = Annotated[Condition | None, Bound(RATE)]
Latency = Annotated[Condition | None, Bound(TIME)]
Amount = Annotated[Condition | None, Bound()]


class VirtualChecks(Section):
    """The keys of a check in virtual time."""

    flow: Name | None = Field(default=None, description="In virtual time: a flow; with conditions:")
    throughput: Rate = Field(default=None, description="what arrives, of all packets' bytes;")
    loss: Annotated[Condition | None, Bound(PERCENT)] = Field(
        default=None, description="the share of packets that has not arrived;"
    )
    least: Latency = Field(default=None, description="latencies: the least,")
    mean: Latency = Field(default=None, description="the mean,")
    p50: Latency = Field(default=None, description="the median,")
    p99: Latency = Field(default=None, description="the 99th percentile,")
    most: Latency = Field(default=None, description="and the longest;")
    received: Amount = Field(default=None, description="packets that have arrived;")
    duplicates: Amount = Field(default=None, description="copies among them;")
    late: Amount = Field(default=None, description="packets behind a later one;")
    marked: Amount = Field(default=None, description="packets with a congestion mark (CE).")
    register_: Annotated[Elements, Element()] = Field(
        default=None, alias="register", description="A register's element at the end,"
    )
    counter: Annotated[Elements, Element()] = Field(
        default=None, description="or a counter's, in packets or with `octets` in bytes;"
    )
    of: Annotated[str, NODE] | None = Field(default=None, description="its switch;")
    is_: Amount = Field(default=None, alias="is", description="and the condition.")
    octets: Amount = Field(default=None, description="A condition on the counter's bytes.")
    port: (
        Annotated[str, Text(r"[a-z][a-z0-9]{0,7}-p[0-9]{1,3}", "a port, such as s1-p2")] | None
    ) = Field(default=None, description="A port; with conditions:")
    queue: Amount = Field(default=None, description="the most packets that waited in it;")
    drops: Amount = Field(default=None, description="packets that its queue has dropped.")


CONDITIONS: dict[str, tuple[str, ...]] = {
    "flow": ("throughput", "loss", "least", "mean", "p50", "p99", "most", "received", "duplicates")
    + ("late", "marked"),
    "register": ("is",),
    "counter": ("is", "octets"),
    "port": ("queue", "drops"),
}
"""The conditions of each kind of check, by their keys."""


def condition(check: VirtualChecks, key: str) -> Condition | None:
    """A check's condition of a key."""
    found: Condition | None = getattr(check, "is_" if key == "is" else key)
    return found
