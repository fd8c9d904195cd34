"""The keys of an experiment file for background traffic; see schema.py."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from testbed.config.fields import (
    HOUR,
    NAME,
    Choice,
    Nodes,
    Quantity,
    Section,
    Whole,
    as_pydantic,
)
from testbed.config.units import RATE, SIZE, TIME, FieldError

RANDOM = "random"  # in place of hosts
MAX_FLOWS = 1024  # of an experiment
SMALLEST_PACKET = 160  # the kernel's TCP has no smaller segments
LARGEST_PACKET = 1514  # of Ethernet
MODELLED = "reno"  # the congestion control that virtual time has


class Background(Section):
    """Flows outside all jobs: one from each host of `from` to each host of `to`, all alike. They
    begin and end with the run."""

    name: Annotated[str, NAME] = Field(
        default="",
        json_schema_extra={"default": "kind and number, such as `tcp-0`"},
        description="The name in tables. Several flows get numbers.",
    )
    kind: Annotated[str, Choice(("tcp", "cbr"))] = Field(
        description="`tcp`: as fast as congestion control allows; on Mininet the kernel's TCP,"
        " in virtual time a model of it. `cbr`: UDP packets at a constant rate.",
    )
    congestion_control: Annotated[str | None, Choice((MODELLED, "cubic", "bbr"))] = Field(
        default=None,
        json_schema_extra={"default": f"`{MODELLED}` with `tcp`"},
        description="What finds the rate of `tcp`, by Linux's name. Virtual time models"
        f" `{MODELLED}` only.",
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
    rate_bps: Annotated[int | None, Quantity(RATE, 1000, 10**15)] = Field(
        default=None,
        alias="rate",
        json_schema_extra={"default": "required with `cbr`"},
        description="Rate of each flow while it sends, counted like that of links; only with"
        " `cbr`.",
    )
    packet_bytes: Annotated[int, Quantity(SIZE, SMALLEST_PACKET, LARGEST_PACKET)] = Field(
        default=1000,
        alias="packet",
        description="Size of a full packet, from the Ethernet header to the end of the payload.",
    )
    start_ns: Annotated[int, Quantity(TIME, 0, HOUR)] = Field(
        default=0,
        alias="start",
        description="Start, from the start of the run.",
    )
    duration_ns: Annotated[int | None, Quantity(TIME, 1000, 24 * HOUR)] = Field(
        default=None,
        alias="for",
        json_schema_extra={"default": "to the end of the run"},
        description="Duration.",
    )
    on_ns: Annotated[int | None, Quantity(TIME, 1000, HOUR)] = Field(
        default=None,
        alias="on",
        json_schema_extra={"default": "none: it always sends"},
        description="With `off`: duration of each sending period, from the start on.",
    )
    off_ns: Annotated[int | None, Quantity(TIME, 1000, HOUR)] = Field(
        default=None,
        alias="off",
        json_schema_extra={"default": "none"},
        description="Duration of each silent period after it.",
    )
    burst_bytes: Annotated[int | None, Quantity(SIZE, 1, 2**40)] = Field(
        default=None,
        alias="burst",
        json_schema_extra={"default": "none: without end"},
        description="With `every`: payload bytes of each burst. Several senders to one host form an"
        " incast. Only with `tcp`.",
    )
    every_ns: Annotated[int | None, Quantity(TIME, 1000, HOUR)] = Field(
        default=None,
        alias="every",
        json_schema_extra={"default": "none"},
        description="From the start of one burst to the next; a burst that lasts longer delays the"
        " next one.",
    )

    @model_validator(mode="after")
    def _together(self) -> Background:
        def refuse(found: str, allowed: str) -> None:
            raise as_pydantic(FieldError(found, allowed))

        if self.kind == "cbr" and self.rate_bps is None:
            refuse("cbr without a rate", "a rate, such as 10 Mbit/s")
        if self.kind == "tcp" and self.rate_bps is not None:
            refuse("tcp with a rate", "no rate, which its congestion control finds, or kind cbr")
        if self.kind == "cbr" and self.congestion_control is not None:
            refuse(f"cbr with congestion_control {self.congestion_control}", "kind tcp, or no key")
        if (self.on_ns is None) != (self.off_ns is None):
            refuse("one of on, off", "both or neither")
        if (self.burst_bytes is None) != (self.every_ns is None):
            refuse("one of burst, every", "both or neither")
        if self.burst_bytes is not None and self.kind == "cbr":
            refuse("cbr with burst", "kind tcp, or on and off")
        if self.burst_bytes is not None and self.on_ns is not None:
            refuse("burst and on", "one of them")
        drawn = RANDOM in (*self.sources, *self.targets)
        if self.flows is not None and not drawn:
            refuse(f"flows: {self.flows} between given hosts", "flows with from or to: random")
        for hosts in (self.sources, self.targets):
            if len(hosts) > 1 and (RANDOM in hosts or len(set(hosts)) < len(hosts)):
                refuse(", ".join(hosts), "different hosts, or random alone")
        return self
