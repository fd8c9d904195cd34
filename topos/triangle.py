"""Triangle: the three switches of GRID's worked example (docs/grid.md).

The parameter server's switch can be reached directly and over another switch. So it matters where a
gradient is aggregated: the shortest path is not the best for all workers.
"""

from __future__ import annotations

from fractions import Fraction

from p4fabric.base.topology import Topology, TopologyError


class Triangle(Topology):
    """Switches s1, s2, s3, linked with each other; workers h1 to h4 on s1, h5 and h6 on s2, h7, h8
    and the parameter server h9 on s3. The default placement puts a job of 8 workers on them.

    bandwidth: of every link; that of h9's link is three times as large
    """

    def __init__(self, bandwidth: str = "3 Gbit/s") -> None:
        # testbed.experiment imports all topologies, so it cannot be imported above.
        from p4fabric.base.config.units import RATE, FieldError, parse

        try:
            rate = parse(bandwidth, RATE, 1000, 10**13)
        except FieldError as error:
            raise TopologyError(str(error), option="bandwidth") from None
        for number in (1, 2, 3):
            self.add_switch(f"s{number}")
        for host, switch in enumerate("111122333", 1):
            carries = 3 * rate if host == 9 else rate
            self.add_link(self.add_host(f"h{host}"), f"s{switch}", bandwidth=_text(carries))
        for a, b in (("s1", "s3"), ("s1", "s2"), ("s2", "s3")):
            self.add_link(a, b, bandwidth=_text(rate))


def _text(rate_bps: Fraction) -> str:
    from p4fabric.base.config.units import RATE, show

    return show(rate_bps, RATE)
