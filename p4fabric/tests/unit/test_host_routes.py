"""Where a host sends packets for an address (p4fabric/src/p4fabric/netfile/host_routes.py)."""

from __future__ import annotations

from itertools import product

from p4fabric.netfile.host_routes import routes_of

NEAR, FAR, GATEWAY = "10.0.0.7", "10.9.0.7", "10.0.0.1"
MACS = {NEAR: "02:00:00:00:00:07", FAR: "02:00:00:00:09:07", GATEWAY: "02:00:00:00:00:01"}


def test_a_neighbour_has_its_own_mac_and_what_is_far_the_gateways():
    for target, has_gateway, *known in product((NEAR, FAR), *[(False, True)] * 4):
        neighbours = {ip: MACS[ip] for ip, knows in zip(MACS, known, strict=True) if knows}
        routes = routes_of(
            [f"arp -s {ip} {mac}" for ip, mac in neighbours.items()]
            + [f"ip route add default via {GATEWAY}"] * has_gateway
        )
        by_gateway = neighbours.get(GATEWAY) if has_gateway and target == FAR else None
        assert routes.mac_of(target, "10.0.0.2/24") == neighbours.get(target, by_gateway)
