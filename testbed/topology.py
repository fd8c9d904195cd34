"""Topologies under the name that experiments and plug-ins of users import.

They are those of p4fabric, from where the testbed's own code takes them.
"""

from p4fabric.base.topology import Topology as Topology
from p4fabric.base.topology import TopologyError as TopologyError
