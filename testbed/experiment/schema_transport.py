"""The key of an experiment file for packets between hosts, and the problems that keep it from being
honoured; see schema.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from p4fabric.base.config.fields import Section, as_pydantic
from p4fabric.base.config.units import FieldError
from p4fabric.base.flow import ControlName, Window
from p4fabric.base.transports import AIMD, CONTROL_TEXT, CONTROLS, OWN_WINDOW, WINDOW_TEXT
from pydantic import Field, model_validator

from testbed.experiment.schema_jobs import Job
from testbed.systems import System


class Transport(Section):
    """Packets between the hosts of a job, which a system of hosts (ring, double_tree, ...) and the
    transfers of ranks consist of. Windows of systems that aggregate in switches, and of parameter
    servers, are their own."""

    congestion_control: Annotated[str, ControlName((AIMD, *CONTROLS))] = Field(
        default=AIMD,
        description="What finds rates and windows. `aimd`: a window for each other host, which"
        " grows by a packet per round trip and is halved by a congestion mark. " + CONTROL_TEXT,
    )
    window_packets: Window = Field(
        default=OWN_WINDOW,
        alias="window",
        description="Most packets in flight to one host, at most those of the system's window;"
        f" not with `aimd`. {WINDOW_TEXT}",
    )

    @model_validator(mode="after")
    def _together(self) -> Transport:
        if self.congestion_control == AIMD and self.window_packets != OWN_WINDOW:
            raise as_pydantic(FieldError("aimd with window", "another congestion_control"))
        return self


def why_no_control(
    transport: Transport,
    entry: System,
    scale_windows: bool,
    jobs: Sequence[Job] = (),
    kinds: Sequence[Job] = (),
) -> str:
    """Why a congestion control cannot be honoured; "" if it can."""
    control = transport.congestion_control
    if control == AIMD:
        return ""
    if scale_windows:
        return f"found {control} with scale_windows, which cannot scale its constants; take one out"
    if entry.algorithm or any(job.has_ranks for job in (*jobs, *kinds)):
        return ""
    return (
        f"found {control}, but no packets between workers: {entry.title} has windows of its own,"
        f" and no job replays a program of ranks. Take {AIMD}, or a system of hosts"
        " (docs/baselines.md)"
    )
