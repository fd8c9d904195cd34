"""Networks in files of other simulators: topology text of SimAI, network files of ASTRA-sim's
analytical backend, and infrastructures of InfraGraph.

A reader makes a `Fabric`, which fabric.py turns into a topology. `fabric_in` tells the kinds apart,
and each reader notes what it does not take over.
"""

from __future__ import annotations

from pathlib import Path

from p4fabric.base.config.data_files import read_text, read_yaml
from p4fabric.netfile.fabrics import astra_network, infragraph_file, simai_topology
from p4fabric.netfile.fabrics.fabric import Fabric

YAML = (".yaml", ".yml")


def fabric_in(path: Path) -> tuple[str, Fabric] | None:
    """The kind of a file, as words for messages, and the network that it describes; None if it is
    of none of these kinds. Raises UserError."""
    if path.suffix == ".json":
        return None
    if path.suffix not in YAML:
        text = read_text(path)
        if not simai_topology.is_topology(text):
            return None
        return "a topology of SimAI", simai_topology.read(text, path)
    data = read_yaml(path)
    if not isinstance(data, dict):
        return None
    if astra_network.is_network(data):
        return "a network of ASTRA-sim's analytical backend", astra_network.read(data, path)
    if infragraph_file.is_infrastructure(data):
        return "an infrastructure of InfraGraph", infragraph_file.read(data, path)
    return None
