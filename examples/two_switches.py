"""Two of our P4 switches in an ordinary Mininet script, filled with entries from Python.

    sudo .venv/bin/python examples/two_switches.py

Exit code 0: the hosts have reached each other.
"""

from __future__ import annotations

import sys
from pathlib import Path

from mininet.net import Mininet

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from p4fabric.emulate import P4Switch  # noqa: E402

PROGRAM = HERE / "learning.p4"


def main() -> int:
    net = Mininet(controller=None)
    h1, h2 = net.addHost("h1"), net.addHost("h2")
    s1, s2 = (net.addSwitch(name, cls=P4Switch, program=PROGRAM) for name in ("s1", "s2"))
    net.addLink(h1, s1, port2=1)
    net.addLink(s1, s2, port1=2, port2=2)
    net.addLink(h2, s2, port2=1)
    net.start()
    try:
        for switch, here, there in ((s1, h1, h2), (s2, h2, h1)):
            client = switch.client  # all calls of p4engine/src/p4engine/switch/library.py
            client.multicast_group(1, [(1, 0), (2, 0)])
            client.table_add("destinations", "to_port", [here.MAC()], [1])
            client.table_add("destinations", "to_port", [there.MAC()], {"port": 2})
            client.port_shape(2, "egress", rate_bps=10_000_000, delay_ns=5_000_000)
        lost = net.pingAll()
        for switch in (s1, s2):
            count = switch.client.register_read("unknown_frames", 0, 1)[0]
            sent = [row["packets"] for row in switch.client.port_stats()]
            print(f"{switch.name}: {count} frames of unknown stations, packets by port {sent}")
    finally:
        net.stop()
    return 0 if lost == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
