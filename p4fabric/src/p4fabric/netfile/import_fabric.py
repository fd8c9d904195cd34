"""A network file out of a network of another simulator (fabrics/): its switches run one P4 program.

Hosts get an address each in one network, 10.0.0.0/8, in the order of ranks. Such files have no
table entries: those of the program follow by hand, or from a controller.
"""

from __future__ import annotations

from collections.abc import Callable
from os.path import relpath
from pathlib import Path
from typing import Any

from p4fabric.base.config.yaml_document import Inline
from p4fabric.base.errors import UserError
from p4fabric.base.topology import Topology, host_ip, host_mac
from p4fabric.netfile.fabrics import read_fabric
from p4fabric.netfile.fabrics.fabric import topology_of
from p4fabric.netfile.import_topology import FLOWS, output_file, write_network


def import_fabric(
    source: Path,
    program: Path | None,
    output: Path | None,
    virtual: bool,
    command: Callable[[str, bool], str],
) -> int:
    """Write a network file for the network in `source`; arguments as those of `import_topology`.
    Raises UserError."""
    kind, fabric = read_fabric(source)
    if program is None:
        raise UserError(
            f"{source} is {kind}: give the switches a P4 program with --program FILE.p4"
        )
    topology, notes = topology_of(fabric)
    output = output_file(output, program, source)
    folder = output.absolute().parent
    made: dict[str, Any] = {"name": program.stem}
    made["network"] = {"program": relpath(program.absolute(), folder), **_nodes(topology)}
    if virtual:
        made |= {"runtime": "virtual", "flows": FLOWS}
    return write_network(output, made, source, [*fabric.notes, *notes], virtual, command)


def _nodes(topology: Topology) -> dict[str, Any]:
    hosts = {
        name: {"ip": f"{host_ip(number)}/8", "mac": host_mac(number)}
        for number, name in enumerate(topology.hosts, 1)
    }
    links = [
        {"between": Inline(ends), **settings}
        for ends, settings in zip(topology.links, topology.link_options, strict=True)
    ]
    return {"hosts": hosts, "switches": {name: {} for name in topology.switches}, "links": links}
