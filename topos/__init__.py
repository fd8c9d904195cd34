"""Topologies that an experiment can name: `topology: {kind: star, hosts: 10}`.

A topology is one small class in a file of its own. The arguments of its `__init__` are the keys
that the experiment file may set. To add one, write the file and enter it here; to use one without
adding it, name its file in the experiment: `topology: {class: my.py:MyTopology}`.
"""

from __future__ import annotations

from testbed.topology import Topology
from testbed.topos.fat_tree import FatTree
from testbed.topos.graph import Graph
from testbed.topos.leaf_spine import LeafSpine
from testbed.topos.star import Star
from testbed.topos.triangle import Triangle
from testbed.topos.two_level import TwoLevel

KINDS: dict[str, type[Topology]] = {
    "star": Star,
    "two_level": TwoLevel,
    "leaf_spine": LeafSpine,
    "fat_tree": FatTree,
    "triangle": Triangle,
    "graph": Graph,
}
