"""Networks of a run: Mininet nodes in anonymous namespaces, veth links, and the processes inside
them.

`mininet_network` builds what a `Topology` describes, `nodes.P4Switch` is a Mininet switch that
other Mininet scripts can use too, `spawner.Spawner` starts the processes, and `registry` knows what
is ours on this machine and removes it.

Nothing of a run has a name in the machine: namespaces are anonymous and held by processes,
interfaces exist only inside them, and every process dies with its parent. So two runs cannot clash,
and a run that is killed outright takes its network along.
"""

from __future__ import annotations

__all__ = ["P4Switch"]


def __getattr__(name: str) -> object:
    # Mininet is imported by those who need it: much here works without.
    if name == "P4Switch":
        from p4fabric.emulate.nodes import P4Switch

        return P4Switch
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
