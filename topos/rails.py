"""Rails: servers with several GPUs, each with a network card (NIC) of its own, below leaves and
spines.

The GPUs of a server are linked to a switch of their own, as by NVLink, and a server's switch has
one uplink, a NIC, for each of them. In a rail-optimised network the r-th NICs of all servers lead
to the same leaf, so that ranks with the same place in their servers are one switch apart; else all
NICs of a server lead to one leaf.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from p4fabric.base.topology import MAX_PER_SERVER, Topology, TopologyError, within

SCALE_UP, NIC, FABRIC = TIERS = ("scale_up", "nic", "fabric")


class Rails(Topology):
    """Servers n1 to nN, each with g ranks on a switch of its own: rank r of server i, from 0, is
    host h(g (i - 1) + r + 1). Then come the hosts for parameter servers, leaf by leaf, then server
    by server. Switches are numbered servers' switches first, then leaves, then spines.

    servers: number of servers, 1 to 1024
    ranks: ranks of each server, 1 to 64
    leaves: number of leaves, 1 to 256; 0: `ranks` if rail-optimised, else 1. A rail-optimised
        network of k times `ranks` leaves has k pods of neighbouring servers, each with a leaf for
        each rank of its servers; one of fewer leaves puts every `leaves`-th rank on the same leaf
    spines: number of spines, 0 to 64, each linked to each leaf; 0 only if servers connect all
        leaves
    rail_optimized: true: NIC r of a server leads to leaf r; false: all its NICs lead to one leaf
    oversubscription: rates of a leaf's links to servers, divided by those to the spines; needs a
        bandwidth of `nic`, and gives that of `fabric`; 0: `fabric` or `links` says it
    scale_up: links of ranks to their server's switch: a bandwidth, such as 900 Gbit/s, or a mapping
        of keys of [links](#links), such as {bandwidth: 900 Gbit/s, delay: 300 ns}
    nic: links of servers, and of the leaves' hosts, to leaves, likewise
    fabric: links of leaves to spines, likewise
    ps: hosts for parameter servers on each leaf, 0 to 64
    server_ps: hosts for parameter servers on each server's switch, parts of the server, 0 to 64
    """

    def __init__(
        self,
        servers: int,
        ranks: int,
        leaves: int = 0,
        spines: int = 0,
        rail_optimized: bool = True,
        oversubscription: float = 0,
        scale_up: str | dict | None = None,
        nic: str | dict | None = None,
        fabric: str | dict | None = None,
        ps: int = 1,
        server_ps: int = 0,
    ) -> None:
        within("servers", servers, 1, 1024)
        within("ranks", ranks, 1, MAX_PER_SERVER)
        within("leaves", leaves, 0, 256)
        within("spines", spines, 0, 64)
        for option, value in (("ps", ps), ("server_ps", server_ps)):
            within(option, value, 0, 64)
        leaves = leaves or (ranks if rail_optimized else 1)
        homes = _homes(servers, ranks, leaves, rail_optimized)
        links = {
            SCALE_UP: _settings(SCALE_UP, scale_up),
            NIC: _settings(NIC, nic),
            FABRIC: _settings(FABRIC, fabric),
        }
        if oversubscription:
            rate = _fabric_rate(oversubscription, links, homes, leaves, spines)
            links[FABRIC]["bandwidth"] = rate
        if not spines:
            _check_connected(homes, leaves)
        own = [self.add_switch(f"s{number}") for number in range(1, servers + 1)]
        first = servers + leaves + 1
        below = [self.add_switch(f"s{number}") for number in range(servers + 1, first)]
        above = [self.add_switch(f"s{number}") for number in range(first, first + spines)]
        number = 0

        def add_host(switch: str, tier: str, server: str = "", ps: bool = True) -> None:
            nonlocal number
            number += 1
            host = self.add_host(f"h{number}", server, ps)
            self.add_link(host, switch, tier, **links[tier])

        for place, switch in enumerate(own):
            for _ in range(ranks):
                add_host(switch, SCALE_UP, f"n{place + 1}", ps=False)
        for leaf in below:
            for _ in range(ps):
                add_host(leaf, NIC)
        for place, switch in enumerate(own):
            for _ in range(server_ps):
                add_host(switch, SCALE_UP, f"n{place + 1}")
        for switch, home in zip(own, homes, strict=True):
            for of_leaf in home:
                self.add_link(switch, below[of_leaf], NIC, **links[NIC])
        for leaf in below:
            for spine in above:
                self.add_link(leaf, spine, FABRIC, **links[FABRIC])


def _homes(servers: int, ranks: int, leaves: int, rail_optimized: bool) -> list[list[int]]:
    """The leaves of each server's NICs."""
    if not rail_optimized:
        if leaves > servers:
            raise TopologyError(
                f"found {leaves}; {servers} servers, each with all NICs on one leaf, have at most"
                f" {servers}",
                option="leaves",
            )
        return [[server * leaves // servers] * ranks for server in range(servers)]
    if leaves % ranks and ranks % leaves:
        raise TopologyError(
            f"found {leaves}; a rail-optimised network of servers with {ranks} ranks has a multiple"
            " or a divisor of that many leaves",
            option="leaves",
        )
    pods, each = max(1, leaves // ranks), min(leaves, ranks)
    if pods > servers:
        raise TopologyError(
            f"found {leaves}, which are {pods} pods; allowed: a pod for each of the {servers}"
            f" servers, {servers * ranks} leaves",
            option="leaves",
        )
    first = [each * (server * pods // servers) for server in range(servers)]
    return [[start + rank % each for rank in range(ranks)] for start in first]


def _check_connected(homes: list[list[int]], leaves: int) -> None:
    """Without spines servers must connect all leaves."""
    found = set(homes[0])
    for home in homes:  # neighbouring servers have the same leaves, or others
        if found & set(home):
            found |= set(home)
    if len(found) < leaves:
        raise TopologyError(
            f"found 0; {leaves} leaves, which no server connects, need spines", option="spines"
        )


def _settings(option: str, value: str | dict | None) -> dict[str, Any]:
    """The keys of a link that an option says."""
    if value is None:
        return {}
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return dict(value)
    if isinstance(value, str):
        return {"bandwidth": value}
    raise TopologyError(
        "allowed: a bandwidth, such as 400 Gbit/s, or a mapping, such as {bandwidth: 400 Gbit/s,"
        " delay: 1 us}",
        option=option,
    )


def _fabric_rate(
    share: float, links: dict[str, dict[str, Any]], homes: list[list[int]], leaves: int, spines: int
) -> str:
    """The bandwidth of a link between a leaf and a spine."""
    # testbed.experiment imports all topologies, so it cannot be imported above.
    from p4fabric.base.config.units import RATE, FieldError, parse, show

    what = "oversubscription"
    if share < 0:
        raise TopologyError(f"found {share:g}; allowed: more than 0", option=what)
    if not spines:
        raise TopologyError("needs spines; take it out, or set spines", option=what)
    if "bandwidth" in links[FABRIC]:
        raise TopologyError("fabric has a bandwidth already; take one of them out", option=what)
    if "bandwidth" not in links[NIC]:
        raise TopologyError("needs the bandwidth of nic, such as 400 Gbit/s", option=what)
    try:
        rate = parse(links[NIC]["bandwidth"], RATE, 1000, 10**14)
    except FieldError as error:
        raise TopologyError(str(error), option=NIC) from None
    downwards = max(sum(home.count(leaf) for home in homes) for leaf in range(leaves))
    return show(max(1000, round(rate * downwards / (spines * Fraction(share)))), RATE)
