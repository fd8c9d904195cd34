"""Lower bounds of the time that packets are on their way after they leave a switch.

Within this time nothing that the switch does can affect anything else. Parts of a world (parts.py)
and turns of hosts (turns.py) rest on this."""

from __future__ import annotations

from collections.abc import Iterator

from testbed.setup import Platform


def ways_out(platform: Platform, switch: str) -> Iterator[tuple[str, int, int, int]]:
    """(neighbour, link, the switch's end of it, ns) of each port. 0 ns where a link of the switch
    reorders: then frames come out of the switch when they arrive, not ahead of it."""
    assert platform.virtual is not None
    ports = platform.topology.ports(switch).values()
    early = not any(platform.link(link)[end].reorder for _, link, end in ports)
    for neighbour, link, end in ports:
        leaving = platform.link(link)[end]
        ahead_ns = leaving.delay_ns - leaving.jitter_ns + platform.virtual.switch_latency_ns
        yield neighbour, link, end, ahead_ns if early else 0
