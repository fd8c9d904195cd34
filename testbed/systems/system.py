"""An entry in the list of systems."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from testbed.systems.options import ServerOptions, SlotOptions, SystemOptions


@dataclass(frozen=True)
class System:
    """A system. `color` and `marker` are matplotlib's; `program` is its P4 file; `options` the
    model of its part of an experiment file (testbed/systems/options.py), or its place as
    "module:class", so that hosts and reports, which ask for no option, need not load models.

    `slot_bytes` is the state that its P4 program keeps per aggregator beside bitmap and values.
    `servers`: parameter servers of a job, "none", "one" or "many" (its option `servers` says how
    many). `memory`: whether it uses switch memory, so that `memory:` must be given.
    `divided`: whether each job has a part of every switch's memory to itself, in slots of as many
    aggregators as its option `sets` says.
    `managed`: whether a manager gives each job memory of its own, or refuses it (option
    `fallback`: the algorithm of hosts that then adds up).
    `planned`: whether a plan says which switch aggregates what, within what the switches can.
    `lost_with_registers`: why a job may not survive a switch that loses its registers; "" if it
    does.

    `algorithm`: of the hosts, where they add up without servers (testbed/algorithms).
    `reroutes`: whether jobs go on when links fail during a run; otherwise such faults are errors.
    The code of a system is its scheme (testbed/setup/job_setups.py)."""

    name: str
    title: str
    color: str
    marker: str
    program: Path
    options: type[SystemOptions] | str
    slot_bytes: int
    servers: str = "one"
    memory: bool = True
    divided: bool = False
    managed: bool = False
    planned: bool = False
    lost_with_registers: str = ""
    algorithm: str = ""
    reroutes: bool = False

    @property
    def option_model(self) -> type[SystemOptions]:
        """The class behind `options`."""
        place = self.options
        return cast("type[SystemOptions]", resolve_name(place)) if isinstance(place, str) else place

    @property
    def carries_tokens(self) -> bool:
        """True if its switches take packets that name the ranks of a call (p4/tokens.p4)."""
        return self.memory and not self.planned

    def servers_per_job(self, options: SystemOptions | None) -> int:
        """Parameter servers of each job; `options` are needed only where there are "many"."""
        if self.servers == "many":
            return cast("ServerOptions", options).servers
        return int(self.servers == "one")

    def aggregators_per_job(self, options: SystemOptions) -> int:
        """The fewest aggregators of each switch that every job must have to itself."""
        return cast("SlotOptions", options).sets if self.divided else 0

    def aggregator_bytes(self, values: int, bitmap_bits: int, sum_bits: int = 32) -> int:
        """Switch memory of one aggregator: its registers, bitmap and sums of `sum_bits` included
        (number_formats.NumberFormat)."""
        return self.slot_bytes + bitmap_bits // 8 + -(-sum_bits * values // 8)


def fallback_words(job: str, algorithm: str, refused: str) -> str:
    """That an algorithm of hosts carries a job in place of the system, and why: `gpt: ring, because
    s1 is held by llama`."""
    return f"{job}: {algorithm}, because {refused}"
