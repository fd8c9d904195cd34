"""The list of systems: one entry each.

An entry says how a system is called, which P4 program its switches run, how figures draw it, which
options an experiment may set, and where the code of its hosts and tables is.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from testbed.paths import P4
from testbed.systems.options import (
    AtpOptions,
    EsaOptions,
    GridOptions,
    PsOptions,
    RingOptions,
    SwitchmlOptions,
    SystemOptions,
)


@dataclass(frozen=True)
class System:
    """A system. `color` and `marker` are matplotlib's; `program` is its P4 file; `options` the
    model of its part of an experiment file.

    `slot_bytes` is the state that its P4 program keeps per aggregator beside bitmap and values.
    `servers`: parameter servers of a job, "none", "one" or "many" (its option `servers` says how
    many). `memory`: whether it uses switch memory, so that `memory:` must be given.
    `divided`: whether each job has a part of every switch's memory to itself, in slots of as many
    aggregators as its option `sets` says.
    `planned`: whether a plan says which switch aggregates what, within what the switches can.
    `lost_with_registers`: why a job may not survive a switch that loses its registers; "" if it
    does.
    """

    name: str
    title: str
    color: str
    marker: str
    program: Path
    options: type[SystemOptions]
    slot_bytes: int
    servers: str = "one"
    memory: bool = True
    divided: bool = False
    planned: bool = False
    lost_with_registers: str = ""

    def servers_per_job(self, options: SystemOptions | None) -> int:
        """Parameter servers of each job; `options` are needed only where there are "many"."""
        return options.servers if self.servers == "many" else int(self.servers == "one")

    def aggregators_per_job(self, options: SystemOptions) -> int:
        """The fewest aggregators of each switch that every job must have to itself."""
        return options.sets if self.divided else 0

    def aggregator_bytes(self, values: int, bitmap_bits: int) -> int:
        """Switch memory of one aggregator: its registers, int32 values and bitmap included."""
        return self.slot_bytes + bitmap_bits // 8 + 4 * values


SYSTEMS: dict[str, System] = {
    system.name: system
    for system in (
        System(
            name="esa",
            title="ESA",
            color="#D55E00",
            marker="o",
            program=P4 / "esa.p4",
            options=EsaOptions,
            slot_bytes=26,
        ),
        System(
            name="atp",
            title="ATP",
            color="#0072B2",
            marker="s",
            program=P4 / "atp.p4",
            options=AtpOptions,
            slot_bytes=26,
        ),
        System(
            name="grid",
            title="GRID",
            color="#CC79A7",
            marker="P",
            program=P4 / "grid.p4",
            options=GridOptions,
            slot_bytes=28,
            planned=True,
        ),
        System(
            name="switchml",
            title="SwitchML",
            color="#009E73",
            marker="^",
            program=P4 / "switchml.p4",
            options=SwitchmlOptions,
            slot_bytes=14,
            servers="none",
            divided=True,
            lost_with_registers="SwitchML keeps results in switch registers alone, so one that some"
            " workers had and others lacked is gone for good",
        ),
        System(
            name="ps",
            title="PS",
            color="#000000",
            marker="v",
            program=P4 / "forward.p4",
            options=PsOptions,
            slot_bytes=0,
            servers="many",
            memory=False,
        ),
        System(
            name="ring",
            title="Ring",
            color="#56B4E9",
            marker="D",
            program=P4 / "forward.p4",
            options=RingOptions,
            slot_bytes=0,
            servers="none",
            memory=False,
        ),
    )
}
