"""Topologies that an experiment can name: `topology: {kind: star, hosts: 10}`.

A topology is one small class in a file of its own. The arguments of its `__init__` are the keys
that the experiment file may set. To add one, write the file and enter it here; to use one without
adding it, name its file in the experiment: `topology: {class: my.py:MyTopology}`. Other installed
packages add theirs by entry points (testbed/plugins.py).
"""

from __future__ import annotations

from p4fabric.base.errors import UserError
from p4fabric.base.topology import Topology

from testbed import plugins
from testbed.topos.explicit import Explicit
from testbed.topos.fat_tree import FatTree
from testbed.topos.graph import Graph
from testbed.topos.leaf_spine import LeafSpine
from testbed.topos.rails import Rails
from testbed.topos.star import Star
from testbed.topos.triangle import Triangle
from testbed.topos.two_level import TwoLevel

SHIPPED: dict[str, type[Topology]] = {
    "star": Star,
    "two_level": TwoLevel,
    "leaf_spine": LeafSpine,
    "fat_tree": FatTree,
    "rails": Rails,
    "triangle": Triangle,
    "graph": Graph,
    "explicit": Explicit,
}


def _all() -> dict[str, type[Topology]]:
    kinds = plugins.with_shipped(plugins.TOPOLOGIES, SHIPPED, type)
    for name, made in kinds.items():
        if not issubclass(made, Topology):
            raise UserError(
                f"the plug-in topology {name!r} ({made.__module__}:{made.__name__}) must subclass"
                " testbed.topology.Topology"
            )
    return kinds


KINDS = _all()
