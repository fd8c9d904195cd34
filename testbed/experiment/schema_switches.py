"""What an experiment file may say about switches; see schema.py."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from testbed.config.fields import NODE, Flag, Quantity, Section
from testbed.config.units import PACKETS, RATE
from testbed.experiment.schema_links import MAX_RATE


class SwitchSettings(Section):
    """How much a switch aggregates."""

    aggregates: Annotated[bool, Flag()] = Field(
        default=True,
        description="Whether it aggregates at all. One that does not only forwards; the others on a"
        " job's way aggregate what comes through it.",
    )
    capacity_bps: Annotated[int | None, Quantity(RATE, 1000, MAX_RATE, (("unlimited", None),))] = (
        Field(
            default=None,
            alias="capacity",
            description="Aggregation capacity: the most that the gradients of all jobs that it is"
            " to aggregate may come to. What exceeds it goes on to the parameter server as it is."
            " Counts bytes from the Ethernet header to the end of the payload. System grid only.",
        )
    )
    burst_packets: Annotated[int | None, Quantity(PACKETS, 1, 10**6, (("auto", None),))] = Field(
        default=None,
        alias="burst",
        description="Packets by which its input may run ahead of the capacity. auto: for each"
        " worker that it aggregates four, what the worker's pacing may make up for (timers.burst),"
        " and what the fragments that name it are ahead of their share. System grid only.",
    )


class SwitchException(SwitchSettings):
    """Settings of one switch; what is not given stays as it is."""

    switch: Annotated[str, NODE] = Field(description="Which one.")


class Switches(SwitchSettings):
    """What all switches have in common, and the exceptions."""

    each: tuple[SwitchException, ...] = Field(
        default=(),
        description="Switches that differ, and in what.",
    )

    def of(self, name: str) -> SwitchSettings:
        """One switch's settings."""
        found = {key: getattr(self, key) for key in SwitchSettings.model_fields}
        for exception in self.each:
            if exception.switch == name:
                given = exception.model_fields_set - {"switch"}
                found |= {key: getattr(exception, key) for key in given}
        return SwitchSettings.model_construct(**found)
