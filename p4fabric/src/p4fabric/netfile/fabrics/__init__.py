"""Networks in files of other simulators: topology text of SimAI, network files of ASTRA-sim's
analytical backend, and infrastructures of InfraGraph.

A reader makes a `Fabric`, which fabric.py turns into a topology. `read_fabric` tells the kinds
apart, and each reader notes what it does not take over.
"""

from __future__ import annotations

from pathlib import Path

from p4fabric.base.config.data_files import DataError, read_text, read_yaml
from p4fabric.base.errors import UserError
from p4fabric.netfile.fabrics import astra_network, infragraph_file, simai_topology
from p4fabric.netfile.fabrics.fabric import Fabric

KNOWN = (
    "a topology of SimAI begins with the number of nodes, GPUs per server, NVSwitches, switches,"
    " links and a GPU type; a network of ASTRA-sim has the keys topology and npus_count; an"
    " InfraGraph has devices, instances and edges"
)
YAML = (".yaml", ".yml")


def is_fabric(path: Path) -> bool:
    """True if a file looks like one of the kinds that `read_fabric` reads. Raises UserError if it
    cannot be read."""
    if path.suffix in YAML:
        data = _mapping(path)
        return astra_network.is_network(data) or infragraph_file.is_infrastructure(data)
    return path.suffix != ".json" and simai_topology.is_topology(read_text(path))


def read_fabric(path: Path) -> tuple[str, Fabric]:
    """The kind of a file, as words for messages, and the network that it describes. Raises
    UserError."""
    if path.suffix not in YAML:
        text = read_text(path)
        if simai_topology.is_topology(text):
            return "a topology of SimAI", simai_topology.read(text, path)
    else:
        data = _mapping(path)
        if astra_network.is_network(data):
            return "a network of ASTRA-sim's analytical backend", astra_network.read(data, path)
        if infragraph_file.is_infrastructure(data):
            return "an infrastructure of InfraGraph", infragraph_file.read(data, path)
    raise UserError(f"{path}: this is no network of a known kind: {KNOWN}")


def _mapping(path: Path) -> dict[str, object]:
    """The top of a YAML file; {} if it is no mapping."""
    try:
        data = read_yaml(path)
    except DataError as error:
        raise UserError(str(error)) from None
    return data if isinstance(data, dict) else {}
