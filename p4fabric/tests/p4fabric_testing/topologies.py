"""Topologies of tests."""

from p4fabric.base.topology import Topology


def star(hosts: int, per_server: int = 1) -> Topology:
    """Switch s1 with hosts h1 to hN; `per_server` neighbouring ones are a server."""
    topology = Topology()
    topology.add_hosts(topology.add_switch("s1"), hosts, per_server)
    return topology
