"""The keys of an experiment file for background traffic; see schema.py."""

from __future__ import annotations

from typing import Annotated

from p4fabric.base.config.fields import HOUR, Choice, Nodes, Quantity, Whole
from p4fabric.base.config.units import SIZE, TIME
from p4fabric.base.flow import RC, TCP, ControlName, FlowKeys, refuse
from p4fabric.base.transports import CONTROL_TEXT, CONTROLS
from pydantic import Field, model_validator

RANDOM = "random"  # in place of hosts
MAX_FLOWS = 1024  # of an experiment
SMALLEST_PACKET = 160  # the kernel's TCP has no smaller segments
LARGEST_PACKET = 1514  # of Ethernet
MODELLED = "reno"  # the congestion control of TCP that virtual time has
OF_TCP = (MODELLED, "cubic", "bbr")


class Background(FlowKeys):
    """Flows outside all jobs: one from each host of `from` to each host of `to`, all alike. They
    begin and end with the run."""

    joker = RANDOM
    renamed = {"packet": "size", "kind: cbr": "kind: udp"}

    kind: Annotated[str, Choice(("tcp", "rc", "udp", "cbr"))] = Field(
        description="`tcp`: as fast as congestion control allows; on Mininet the kernel's TCP,"
        " in virtual time a model of it. `rc`: a reliable connection as RDMA's, in virtual time"
        " (docs/transports.md). `udp`: packets at a constant rate; `cbr` is its old word.",
    )
    congestion_control: Annotated[str | None, ControlName((*OF_TCP, *CONTROLS))] = Field(
        default=None,
        json_schema_extra={"default": f"`{MODELLED}` with `tcp`, `none` with `rc`"},
        description="What finds the rate. Of `tcp`, by Linux's name; virtual time models"
        f" `{MODELLED}` only. Of `rc`: {CONTROL_TEXT}",
    )
    sources: Annotated[tuple[str, ...], Nodes()] = Field(
        alias="from",
        description="The sender's host, a list of hosts, or `random`. A host may also have a role"
        " in a job.",
    )
    targets: Annotated[tuple[str, ...], Nodes()] = Field(
        alias="to",
        description="The receiver's host, a list of hosts, or `random`. No host sends to itself.",
    )
    flows: Annotated[int | None, Whole(1, MAX_FLOWS)] = Field(
        default=None,
        json_schema_extra={"default": "1; only with `random`"},
        description="Number of drawn flows, each with its own random hosts. Each repetition"
        " draws its own.",
    )
    packet_bytes: Annotated[int, Quantity(SIZE, SMALLEST_PACKET, LARGEST_PACKET)] = Field(
        default=1000,
        alias="size",
        description="Size of a full packet, from the Ethernet header to the end of the payload.",
    )
    burst_bytes: Annotated[int | None, Quantity(SIZE, 1, 2**40)] = Field(
        default=None,
        alias="burst",
        json_schema_extra={"default": "none: without end"},
        description="With `every`: payload bytes of each burst. Several senders to one host form an"
        " incast. Only with `tcp` and `rc`.",
    )
    every_ns: Annotated[int | None, Quantity(TIME, 1000, HOUR)] = Field(
        default=None,
        alias="every",
        json_schema_extra={"default": "none"},
        description="From the start of one burst to the next; a burst that lasts longer delays the"
        " next one.",
    )

    @property
    def controlled_by(self) -> str | None:
        """The congestion control of TCP; None: not TCP."""
        return (self.congestion_control or MODELLED) if self.is_tcp else None

    @model_validator(mode="after")
    def _together(self) -> Background:
        kind = self.kind
        controlled = self.has_ends
        if not controlled and self.rate_bps is None:
            refuse(f"{kind} without a rate", "a rate, such as 10 Mbit/s")
        if controlled and self.rate_bps is not None:
            refuse(
                f"{kind} with a rate", "no rate, which its congestion control finds, or kind udp"
            )
        if (own := self.congestion_control) is not None:
            fits = TCP if own in OF_TCP else RC
            if kind != fits:
                refuse(f"{kind} with congestion_control {own}", f"kind {fits}, or no key")
        if (self.burst_bytes is None) != (self.every_ns is None):
            refuse("one of burst, every", "both or neither")
        if self.burst_bytes is not None and not controlled:
            refuse(f"{kind} with burst", "kind tcp or rc, or on and off")
        if self.burst_bytes is not None and self.on_ns is not None:
            refuse("burst and on", "one of them")
        drawn = RANDOM in (*self.sources, *self.targets)
        if self.flows is not None and not drawn:
            refuse(f"flows: {self.flows} between given hosts", "flows with from or to: random")
        return self
