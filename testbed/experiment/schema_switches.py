"""The keys of an experiment file for switches; see schema.py."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from testbed.config.fields import NODE, Flag, Quantity, Section
from testbed.config.units import PACKETS, RATE
from testbed.experiment.schema_links import MAX_RATE


class SwitchSettings(Section):
    """The aggregation of a switch."""

    aggregates: Annotated[bool, Flag()] = Field(
        default=True,
        description="Whether the switch aggregates. Otherwise it only forwards, and the job's next"
        " aggregating switch aggregates its packets.",
    )
    capacity_bps: Annotated[int | None, Quantity(RATE, 1000, MAX_RATE, (("unlimited", None),))] = (
        Field(
            default=None,
            alias="capacity",
            description="Aggregation capacity: the largest total rate of gradients, of all jobs,"
            " that the switch aggregates. Gradients beyond it continue to the parameter server"
            " unchanged. Counts bytes from the Ethernet header to the end of the payload. System"
            " grid only.",
        )
    )
    burst_packets: Annotated[int | None, Quantity(PACKETS, 1, 10**6, (("auto", None),))] = Field(
        default=None,
        alias="burst",
        description="Largest burst of packets beyond the capacity. auto: for each aggregated"
        " worker, four packets, plus the worker's burst (timers.burst), plus the largest lead of"
        " the fragments for this switch over their share. System grid only.",
    )


class SwitchException(SwitchSettings):
    """Settings of one switch. Keys that are not given keep the value of `switches:`."""

    switch: Annotated[str, NODE] = Field(description="The switch's name.")


class Switches(SwitchSettings):
    """The settings of all switches, and the exceptions."""

    each: tuple[SwitchException, ...] = Field(
        default=(),
        description="Exceptions: settings of particular switches.",
    )

    def of(self, name: str) -> SwitchSettings:
        """One switch's settings."""
        found = {key: getattr(self, key) for key in SwitchSettings.model_fields}
        for exception in self.each:
            if exception.switch == name:
                given = exception.model_fields_set - {"switch"}
                found |= {key: getattr(exception, key) for key in given}
        return SwitchSettings.model_construct(**found)
