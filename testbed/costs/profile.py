"""The keys of a cost profile, of what calls, steps, hosts, network cards and switches cost.

A profile is data with sources. Every number costs 0 unless the profile says something else, so a
profile is complete, and `none` is the one that says nothing. Calls have the costs of NCCL's own
model: of each algorithm and protocol a time before a call's first packet, a time for each step
inside a machine and between machines, and a share of the link's rate. docs/costs.md says what each
number does in a run, and testbed/setup/costs.py does it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, TypeVar

from p4fabric.base.config.fields import (
    ANY_TEXT,
    NAME,
    SECOND,
    Choice,
    Kind,
    Quantity,
    Section,
    Text,
    Whole,
    as_pydantic,
    kind_of,
)
from p4fabric.base.config.units import PERCENT, RATE, SIZE, TIME, FieldError
from p4fabric.base.config.units import show as show_quantity
from pydantic import Field, model_validator

S = TypeVar("S", bound=Section)
MAX_RATE = 100 * 10**12
PROTOCOLS = ("LL", "LL128", "Simple")  # of NCCL
AUTO = "auto"  # the protocol with the least time in the model

Time = Annotated[int, Quantity(TIME, 0, SECOND)]
Rate = Annotated[int | None, Quantity(RATE, 1000, MAX_RATE, (("unlimited", None),))]
SourceName = Annotated[str, NAME]
SOURCE = Field(default="", json_schema_extra={"default": "none"}, description="A key of `sources`.")


class CostSection(Section):
    """A part of a profile; what is not given costs nothing."""


class Source(CostSection):
    """Source of numbers."""

    what: Annotated[str, ANY_TEXT] = Field(description="The publication, or what was measured how.")
    date: Annotated[str, Text(r"\d{4}(-\d\d(-\d\d)?)?", "a date such as 2026-06, in quotes")] = (
        Field(description="Its date.")
    )


class ProtocolCosts(CostSection):
    """Costs of a call with one algorithm and protocol."""

    call_ns: Time = Field(
        default=0,
        alias="call",
        description="From a call's turn to its first packet: launch, synchronisation.",
    )
    inside_ns: Time = Field(
        default=0,
        alias="inside",
        description="Of each step inside a machine: from a packet's arrival until the host may use"
        " it. Sums in switches and servers: of the call, which has one such step, or one each way.",
    )
    between_ns: Time = Field(
        default=0, alias="between", description="The same of each step between machines."
    )
    per_rank_ns: Time = Field(
        default=0,
        alias="per_rank",
        description="Of `collnet`, each way: for each further rank of a machine.",
    )
    rate: Annotated[float, Quantity(PERCENT, 1, 100)] = Field(
        default=1.0, description="Share of its link's rate at which a rank sends."
    )

    @property
    def share(self) -> Fraction:
        """`rate` as it is written, without the error of a float."""
        return Fraction(repr(self.rate))

    def step_ns(self, is_inside: bool) -> int:
        """Time of a step, inside a machine or between machines."""
        return self.inside_ns if is_inside else self.between_ns


class AlgorithmCosts(CostSection):
    """Costs of an algorithm by NCCL's protocols; without any it costs nothing."""

    LL: ProtocolCosts | None = Field(default=None, description="8 bytes, 4 of them a flag.")
    LL128: ProtocolCosts | None = Field(default=None, description="128 bytes, 8 of them a flag.")
    Simple: ProtocolCosts | None = Field(default=None, description="Whole chunks, then a flag.")
    source: SourceName = SOURCE

    def by_protocol(self) -> dict[str, ProtocolCosts]:
        """The protocols that the algorithm has, by name."""
        known = {name: getattr(self, name) for name in PROTOCOLS}
        return {name: each for name, each in known.items() if each is not None}


class Algorithms(CostSection):
    """Costs of calls by what carries them."""

    ring: AlgorithmCosts = Field(
        default=AlgorithmCosts(), description="`ring` and `hierarchical`, of hosts."
    )
    tree: AlgorithmCosts = Field(
        default=AlgorithmCosts(), description="The other algorithms of hosts."
    )
    nvls: AlgorithmCosts = Field(
        default=AlgorithmCosts(),
        description="Sums in switches of one machine, or with switches of machines among them.",
    )
    collnet: AlgorithmCosts = Field(
        default=AlgorithmCosts(), description="Sums in switches between machines only."
    )
    server: AlgorithmCosts = Field(
        default=AlgorithmCosts(), description="Parameter servers without sums in switches."
    )
    send: AlgorithmCosts = Field(
        default=AlgorithmCosts(), description="Transfers from rank to rank; only `Simple`."
    )

    @model_validator(mode="after")
    def _none_is_ignored(self) -> Algorithms:
        for name in type(self).model_fields:
            for protocol, costs in getattr(self, name).by_protocol().items():
                if name != "collnet" and costs.per_rank_ns:
                    found = f"{name}.{protocol}.per_rank: {show_quantity(costs.per_rank_ns, TIME)}"
                    raise as_pydantic(FieldError(found, "only of collnet"))
                if name == "send" and protocol != "Simple":
                    raise as_pydantic(FieldError(f"send.{protocol}", "send.Simple"))
        return self


class NicCosts(CostSection):
    """Costs of a network card (NIC): with Q work requests of S bytes under way, each of which
    takes T to begin, a link of rate C carries S / (T / Q + S / C)."""

    start_ns: Time = Field(default=0, alias="start", description="T.")
    outstanding: Annotated[int, Whole(1, 65536)] = Field(default=1, description="Q.")
    message_bytes: Annotated[int, Quantity(SIZE, 1, 2**40)] = Field(
        default=2**20, alias="message", description="S."
    )
    source: SourceName = SOURCE


class HostCosts(CostSection):
    """Costs of a worker's host."""

    delay_ns: Time = Field(
        default=0, alias="delay", description="From a frame's arrival to its handling."
    )
    jitter_ns: Time = Field(default=0, alias="jitter", description="As `virtual.worker_jitter`.")
    packet_ns: Time = Field(default=0, alias="packet", description="Processor time of a frame.")
    cores: Annotated[int, Whole(1, 1024)] = Field(
        default=1, description="Cores that share this work."
    )
    source: SourceName = SOURCE

    @model_validator(mode="after")
    def _jitter_within_delay(self) -> HostCosts:
        if self.jitter_ns > self.delay_ns:
            found, most = (show_quantity(each, TIME) for each in (self.jitter_ns, self.delay_ns))
            raise as_pydantic(FieldError(f"jitter: {found}", f"at most the delay, {most}"))
        return self

    def frame_ns(self, values: int) -> int:
        """The time that a frame with so many values takes from the host."""
        return -(-self.packet_ns // self.cores)


class ServerCosts(HostCosts):
    """Costs of a parameter server's host."""

    per_1000_values_ns: Time = Field(
        default=0, alias="per_1000_values", description="Processor time of 1000 added values."
    )

    def frame_ns(self, values: int) -> int:
        whole = 1000 * self.packet_ns + values * self.per_1000_values_ns
        return -(-whole // (1000 * self.cores))


class CopyCosts(CostSection):
    """Costs of copies to and from a GPU, where hosts send from their own memory."""

    latency_ns: Time = Field(
        default=0, alias="latency", description="Of a copy; a call has two, both before it."
    )
    bandwidth_bps: Rate = Field(
        default=None, alias="bandwidth", description="Rate, which limits that of a rank's packets."
    )
    source: SourceName = SOURCE


class SwitchCosts(CostSection):
    """Costs of a switch's pipeline."""

    latency_ns: Time = Field(default=0, alias="latency", description="Of a pass.")
    values: Annotated[int | None, Whole(1, 65536, word="unlimited")] = Field(
        default=None, description="Values that a pass adds; more need further passes."
    )
    recirculation_bps: Annotated[int | None, Quantity(RATE, 1000, MAX_RATE, (("none", None),))] = (
        Field(
            default=None,
            alias="recirculation",
            description="Rate of the port by which packets come back for further passes.",
        )
    )
    source: SourceName = SOURCE

    def passes(self, values: int) -> int:
        """Passes of a packet with so many values."""
        return 1 if self.values is None else -(-values // self.values)


class Costs(CostSection):
    """Costs of calls, steps, hosts, network cards and a switch's pipeline."""

    name: Annotated[str, NAME] = Field(
        default="",
        json_schema_extra={"default": "that of its file"},
        description="Its name in results.",
    )
    base: Annotated[str, ANY_TEXT] = Field(
        default="",
        alias="from",
        json_schema_extra={"default": "none"},
        description="A profile, by name or file, of which this one has all that it does not name.",
    )
    about: Annotated[str, ANY_TEXT] = Field(
        default="", json_schema_extra={"default": "none"}, description="What it describes."
    )
    protocol: Annotated[str, Choice((AUTO, *PROTOCOLS))] = Field(
        default=AUTO,
        description="NCCL's protocol of all calls; `auto`: of each call, and of those that its"
        " algorithm has, the one with the least time in the alpha-beta model.",
    )
    sources: dict[str, Source] = Field(default={}, description="Sources, by the name used here.")
    algorithms: Algorithms = Field(default=Algorithms(), description="Of calls.")
    nic: NicCosts = Field(default=NicCosts(), description="Of network cards.")
    host: HostCosts = Field(default=HostCosts(), description="Of workers' hosts.")
    server: ServerCosts = Field(default=ServerCosts(), description="Of servers' hosts.")
    gpu_copy: CopyCosts = Field(default=CopyCosts(), alias="copy", description="To and from GPUs.")
    switch: SwitchCosts = Field(default=SwitchCosts(), description="Of a switch's pipeline.")

    def title(self) -> str:
        """The profile in a few words, such as `none (all 0)`."""
        return f"{self.name}{'' if any(costs_in(self)) else ' (all 0)'}"

    @property
    def of_calls(self) -> bool:
        """True if calls cost something beside their packets."""
        return self.algorithms != Algorithms() or self.gpu_copy != CopyCosts()


def merged(base: S, over: S) -> S:
    """A section with what `over` gives, else as `base`. Numbers of `over` are not from the source
    of those of `base`."""
    found: dict[str, object] = {}
    for name in over.model_fields_set:
        value, before = getattr(over, name), getattr(base, name)
        if isinstance(value, Section) and isinstance(before, Section):
            value = merged(before, value)
        elif isinstance(value, dict):
            value = before | value
        found[name] = value
    if found and "source" in type(base).model_fields:
        found.setdefault("source", "")
    return base.model_copy(update=found)


@dataclass(frozen=True)
class Cost:
    """A number of a profile: its path, as a file writes it, and its source, with the path of the
    key that names it."""

    path: tuple[str, ...]
    text: str
    source: str = ""
    source_path: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        return ".".join(self.path)


def costs_in(part: Section, path: tuple[str, ...] = (), near: Cost | None = None) -> Iterator[Cost]:
    """The costs of a profile's part that are not 0. near: what is known of their source."""
    source = near.source if near else ""
    source_path = near.source_path if near else ()
    own = getattr(part, "source", None)
    if isinstance(own, str):
        source, source_path = own, (*path, "source")
    for name, info in type(part).model_fields.items():
        value, here = getattr(part, name), (*path, info.alias or name)
        kind: Kind | None = kind_of(info)
        if isinstance(value, CostSection):
            yield from costs_in(value, here, Cost(here, "", source, source_path))
        elif value != info.default and (isinstance(kind, Quantity) or name == "values"):
            shown = kind.show(value) if kind else value
            yield Cost(here, str(shown), source, source_path)
