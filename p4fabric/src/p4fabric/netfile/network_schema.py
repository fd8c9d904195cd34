"""The schema of a network file.

The key `network` distinguishes it from an experiment. The kinds of values, the units and the words
of errors are those of experiment files.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from p4fabric.base.config.fields import (
    ANY_TEXT,
    NAME,
    Choice,
    Flag,
    Kind,
    Reads,
    Section,
    Text,
    Whole,
)
from p4fabric.base.config.link_settings import LinkSettings
from p4fabric.base.config.lossless_settings import LOSSLESS, Lossless
from p4fabric.base.config.units import FieldError, describe
from p4fabric.netfile.virtual_schema import (
    MAC,
    MAX_FLOWS,
    OBJECT,
    Answer,
    Change,
    FlowEntry,
    Reading,
    VirtualChecks,
    VirtualSettings,
)

ADDRESS = Text(
    r"\d{1,3}(\.\d{1,3}){3}/\d{1,2}", "an IPv4 address with its prefix, such as 10.0.1.1/24"
)
LARGEST_PORT = 510
END = re.compile(r"([a-z][a-z0-9]{0,7})(?:-p([1-9][0-9]{0,2}))?")


@dataclass(frozen=True)
class Value(Kind):
    """A value of a key or parameter as the switch's control plane reads it."""

    allowed = "a number, or text such as 10.0.1.1/32, 0x0800, 6 &&& 0xff, 1 -> 1023"

    def parse(self, value: object) -> int | str:
        if isinstance(value, bool):
            return int(value)
        if not isinstance(value, int | str) or value == "":
            raise FieldError(describe(value), self.allowed)
        return value


@dataclass(frozen=True)
class End(Kind):
    """One end of a link: a host, or a switch and its port; (name, port or None) here."""

    allowed = "a host, such as h1, or a switch and its port, such as s1-p2"

    def parse(self, value: object) -> tuple[str, int | None]:
        found = END.fullmatch(value) if isinstance(value, str) else None
        port = int(found[2]) if found and found[2] else None
        if not found or (port or 1) > LARGEST_PORT:
            raise FieldError(describe(value), self.allowed)
        return found[1], port


@dataclass(frozen=True)
class Pair(Kind):
    """Two hosts, or all."""

    allowed = "two hosts, such as [h1, h2], or all"

    def parse(self, value: object) -> tuple[str, str] | str:
        if value == "all":
            return "all"
        if (
            not isinstance(value, list)
            or len(value) != 2
            or not all(isinstance(each, str) for each in value)
        ):
            raise FieldError(describe(value), self.allowed)
        return value[0], value[1]


Name = Annotated[str, NAME]
PlainText = Annotated[str, ANY_TEXT]
Values = dict[str, Annotated[int | str, Value()]]


class Host(Section):
    """A host; its interface is called eth0."""

    ip: Annotated[str, ADDRESS] = Field(description="IPv4 address and prefix length.")
    mac: Annotated[str, MAC] | None = Field(default=None, description="MAC address.")
    commands: Annotated[tuple[PlainText, ...], Reads("command")] = Field(
        default=(),
        description="Shell commands that are run in the host once the network is up. In virtual"
        " time only those that set routes and neighbours.",
    )
    answer: Answer | None = Field(
        default=None, description="In virtual time: it sends packets of flows back."
    )
    class_: Annotated[Annotated[str, OBJECT] | None, Reads("Python file")] = Field(
        default=None,
        alias="class",
        description="In virtual time: a Python class that is the host, FILE.py:NAME.",
    )


class Entry(Section):
    """A table entry, or with `default` a table's default action."""

    table: PlainText = Field(description="The table's name, in full or what it ends in.")
    match: Values = Field(default={}, description="The value of each key, by the key's name.")
    action: PlainText = Field(description="The action's name, in full or what it ends in.")
    params: Values = Field(default={}, description="The value of each parameter, by name.")
    priority: Annotated[int, Whole(1, 2**31 - 2)] | None = Field(
        default=None,
        description="Of an entry with ternary, range or optional keys; the higher one wins.",
    )
    default: Annotated[bool, Flag()] = Field(
        default=False, description="This is the default action."
    )


class Replica(Section):
    """A copy of a packet."""

    port: Annotated[int, Whole(0, LARGEST_PORT)] = Field(description="Where it leaves.")
    instance: Annotated[int, Whole(0, 65535)] = Field(
        default=0, description="What egress sees as egress_rid."
    )


class Group(Section):
    """A multicast group."""

    group: Annotated[int, Whole(1, 65535)] = Field(description="Its number.")
    replicas: tuple[Replica, ...] = Field(description="The copies.")


class Clone(Section):
    """A clone (mirror) session."""

    session: Annotated[int, Whole(0, 32767)] = Field(description="Its number.")
    replicas: tuple[Replica, ...] = Field(description="The copies.")
    packet_length_bytes: Annotated[int, Whole(0, 2**31 - 1)] = Field(
        default=0, description="Clones carry at most so many bytes of the packet; 0: all."
    )


class SwitchSettings(Section):
    """A switch, its program and its entries at the start."""

    program: Annotated[PlainText | None, Reads("P4 program")] = Field(
        default=None, description="P4 program, where it is not that of all switches."
    )
    entries: tuple[Entry, ...] = Field(default=(), description="Table entries, in order.")
    multicast: tuple[Group, ...] = Field(default=(), description="Multicast groups.")
    clones: tuple[Clone, ...] = Field(default=(), description="Clone sessions.")
    commands: tuple[PlainText, ...] = Field(
        default=(), description="Lines for simple_switch_CLI, run after all that."
    )
    cpu_port: Annotated[int, Whole(0, LARGEST_PORT)] | None = Field(
        default=None, description="The port of packets from and to controllers; with `p4runtime`."
    )
    priority_queues: Annotated[int, Whole(1, 256)] = Field(
        default=1, description="Egress queues of each port, one per `priority` of packets."
    )
    loopback: tuple[Annotated[int, Whole(0, LARGEST_PORT)], ...] = Field(
        default=(),
        description="Ports whose packets come back into ingress; of programs for tna or t2na. They"
        " need no link.",
    )
    deflection: Annotated[int, Whole(0, LARGEST_PORT)] | None = Field(
        default=None,
        description="The port for packets that ask for deflect_on_drop and find their queue full;"
        " of programs for tna or t2na.",
    )
    p4runtime: Annotated[int, Whole(1, 65535)] | None = Field(
        default=None, description="Serve P4Runtime at this port of 127.0.0.1."
    )
    device_id: Annotated[int, Whole(0, 2**63 - 1)] = Field(
        default=1, description="What P4Runtime controllers must call the switch."
    )


class LinkEntry(LinkSettings):
    """A link. Takes the keys of `links:` of an experiment (bandwidth, delay, ...)."""

    between: Annotated[
        tuple[Annotated[tuple[str, int | None], End()], ...], Field(min_length=2, max_length=2)
    ] = Field(description="Its two ends: a host, or a switch and its port, such as s1-p2.")

    def shape(
        self, latency_ns: int = 0
    ) -> tuple[int, int | None, None, int, int, float, float, float, int]:
        """The arguments of a switch's `port_shape`, in order. latency_ns: of the switch, which is
        added to the delay."""
        return (
            self.bandwidth_bps or 0,
            self.queue_packets,
            None,
            self.delay_ns + latency_ns,
            self.jitter_ns,
            self.loss,
            self.duplicate,
            self.reorder,
            self.reorder_delay_ns,
        )


class Net(Section):
    """Hosts, switches and links."""

    program: Annotated[PlainText, Reads("P4 program")] = Field(
        description="P4 program of all switches that have no other."
    )
    defines: Values = Field(default={}, description="Preprocessor constants of the programs.")
    architecture: PlainText | None = Field(
        default=None,
        description="What the programs are for, v1model, tna or t2na; it is found without, too.",
    )
    hosts: dict[str, Host] = Field(description="Hosts by name.")
    switches: dict[str, SwitchSettings] = Field(description="Switches by name.")
    links: tuple[LinkEntry, ...] = Field(description="Links.")
    lossless: Annotated[Lossless, LOSSLESS] = Field(
        default=None,
        description="In virtual time: links that lose nothing to full queues, `pfc`, `cbfc` or a"
        " mapping, see docs/fabric.md.",
    )


class Check(VirtualChecks):
    """Something that must hold, or a command; they are carried out in order."""

    ping: Annotated[tuple[str, str] | str | None, Pair()] = Field(
        default=None, description="Two hosts that reach each other, or `all`."
    )
    lost: Annotated[bool, Flag()] = Field(default=False, description="The ping must not come back.")
    run: Annotated[PlainText | None, Reads("command")] = Field(
        default=None, description="A shell command; its exit code must be 0."
    )
    start: Annotated[PlainText | None, Reads("command")] = Field(
        default=None,
        description="A shell command that goes on until the end, a server for example.",
    )
    on: Name | None = Field(default=None, description="The host that runs the command.")
    prints: PlainText | None = Field(
        default=None, description="A regular expression that must be found in what `run` prints."
    )


class NetworkFile(Section):
    """A network file."""

    name: Name | None = Field(default=None, description="A name; by default that of the file.")
    runtime: Annotated[str, Choice(("mininet", "virtual"))] = Field(
        default="mininet",
        description="`mininet`: real hosts, with Linux's network; `virtual`: virtual time.",
    )
    network: Net = Field(description="The network.")
    virtual: VirtualSettings = Field(
        default=VirtualSettings(), description="Of a run in virtual time."
    )
    flows: Annotated[tuple[FlowEntry, ...], Field(max_length=MAX_FLOWS)] = Field(
        default=(), description="What hosts send in virtual time."
    )
    readings: tuple[Reading, ...] = Field(
        default=(), description="Registers and counters that are read in virtual time."
    )
    changes: tuple[Change, ...] = Field(
        default=(), description="What the control plane does in virtual time."
    )
    checks: tuple[Check, ...] = Field(
        default=(), description="What must hold once it is up, in order."
    )
