"""The ports that a run captures (the option `--pcap SWITCH:PORT`).

Each has a file `captures/<switch>-<port>.pcapng` in the results folder, for all repetitions of the
run. What a packet's time is, and which packets are in the file, is the same on every runtime: what
enters a port is seen before the link's modelled delay, and what leaves it after the delay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from p4fabric.base.errors import UserError

if TYPE_CHECKING:
    from p4fabric.base.topology import Topology


@dataclass(frozen=True)
class CapturedPort:
    """A port of a switch, and the node at the other end of its link."""

    switch: str
    port: int
    neighbour: str

    @property
    def file_name(self) -> str:
        return f"{self.switch}-{self.port}.pcapng"

    @property
    def title(self) -> str:
        return f"port {self.port} of {self.switch}, to {self.neighbour}"


def ports(topology: Topology, wanted: Sequence[str]) -> list[CapturedPort]:
    """The ports that `wanted` names, each as SWITCH:PORT or SWITCH:NEIGHBOUR.

    Raises UserError for one that the network does not have."""
    return list(dict.fromkeys(_port(topology, each) for each in wanted))


def _port(topology: Topology, text: str) -> CapturedPort:
    switch, colon, port = text.partition(":")
    if not colon or switch not in topology.switches:
        names = ", ".join(topology.switches[:8]) + (", ..." if len(topology.switches) > 8 else "")
        raise UserError(
            f"--pcap: found {text!r}; allowed: SWITCH:PORT or SWITCH:NEIGHBOUR, such as "
            f"{topology.switches[0]}:1; the switches are {names}"
        )
    found = topology.ports(switch)
    for number, (neighbour, _, _) in found.items():
        if port in (str(number), neighbour):
            return CapturedPort(switch, number, neighbour)
    listed = ", ".join(f"{number} (to {neighbour})" for number, (neighbour, _, _) in found.items())
    raise UserError(f"--pcap: switch {switch} has no port {port!r}; its ports are {listed}")
