"""Routes of a server whose ranks have network cards (NICs) of their own, in one network namespace.

What a rank sends from its own address leaves by its own NIC, and packets between two ranks of a
server take the wire, as they do between hosts. Linux would deliver them by itself, since both
addresses are its own: the table `local` is the first that it asks. So it comes behind others here,
which count for packets that the server itself sends (`iif lo`):

1. From the address of a rank: a table with this rank's NIC alone. Only what it sends to itself
   stays inside.
2. Without an address of their own, as of a socket that connects without a `bind` and belongs to no
   rank (source_address.py): to a host by the NIC with the place in its server that the host has in
   its own, so that both ends are on one rail (as NCCL's PXN chooses), and to a rank of the same
   server by the NIC of the next rank.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

UNBOUND = 100  # table, and the rule's priority + 100
RANKS = 101  # table and priority of the first rank
LOCAL = 300  # priority of the table `local`, in place of 0


@dataclass(frozen=True)
class Nic:
    """A rank's interface and address, and the address and MAC address of its gateway."""

    interface: str
    address: str
    gateway: str
    mac: str


def server_commands(nics: Sequence[Nic], others: Mapping[str, int]) -> list[str]:
    """Lines for `ip -batch` in a server's namespace, whose interfaces are up and have addresses.

    nics: by local rank. others: the local rank of each host outside, by address."""
    commands = []
    for rank, nic in enumerate(nics):
        table, following = RANKS + rank, nics[(rank + 1) % len(nics)]
        commands += [
            f"route add local {nic.address} dev lo table {table}",
            f"route add default {_by(nic)} table {table}",
            f"rule add priority {table} from {nic.address} iif lo lookup {table}",
            f"route add {nic.address} {_by(following)} table {UNBOUND}",
        ]
    commands += [
        f"route add {address} {_by(nics[rank])} table {UNBOUND}"
        for address, rank in others.items()
        if 0 < rank < len(nics)
    ]
    commands += [
        f"rule add priority {UNBOUND + 100} iif lo lookup {UNBOUND}",
        f"rule add priority {LOCAL} lookup local",
        "rule del priority 0",
    ]
    return commands


def _by(nic: Nic) -> str:
    return f"via {nic.gateway} dev {nic.interface} onlink src {nic.address}"
