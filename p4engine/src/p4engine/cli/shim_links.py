"""The rates of interfaces that the kernel shapes, as the rates of the stand-in's ports.

BMv2 waits while the kernel takes no more packets for an interface. Behind a slow queueing
discipline, such as that of Mininet's TCLink, packets therefore wait in BMv2's egress queue, and
programs see its length. The packet loop of p4engine never waits. So a port gets the rate of its
interface, and the queue is in the switch here, too.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager

from p4engine.process.switch_process import NetworkSwitch

QUEUE_PACKETS = 64  # BMv2's depth of an egress queue
UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
# "class htb 5:1 root prio 0 rate 500Kbit ceil 500Kbit burst 15Kb cburst 1600b"
HTB = re.compile(r"^class htb \S+ root .*\bceil (\d+)([KMGT]?)bit\b", re.MULTILINE)
# "qdisc tbf 8003: root refcnt 3 rate 500Kbit burst 10Kb lat 50ms"
TBF = re.compile(r"^qdisc tbf \S+ root .*\brate (\d+)([KMGT]?)bit\b", re.MULTILINE)


def shaped_rate_bps(qdiscs: str, classes: str) -> int | None:
    """The rate of an interface whose root is tbf, or htb with one class; None: any other.

    Args:
        qdiscs, classes: what `tc qdisc show dev NAME` and `tc class show dev NAME` print.
    """
    found = TBF.findall(qdiscs) or HTB.findall(classes)
    if len(found) != 1:
        return None
    [(number, unit)] = found
    return int(number) * UNITS[unit]


def _tc(what: str, interface: str) -> str:
    command = ["tc", what, "show", "dev", interface]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout
    except OSError:  # there is no tc, so nobody has shaped anything with it
        return ""


def with_link_rates(
    inner: Callable[[NetworkSwitch], AbstractContextManager[None]], interfaces: Mapping[int, str]
) -> Callable[[NetworkSwitch], AbstractContextManager[None]]:
    """The argument `controllers` of `serve`: `inner`, on a switch whose ports have the rates of
    their interfaces."""

    @contextmanager
    def controllers(switch: NetworkSwitch) -> Iterator[None]:
        for port, name in interfaces.items():
            rate_bps = shaped_rate_bps(_tc("qdisc", name), _tc("class", name))
            if rate_bps:
                switch.port_shape(port, "egress", rate_bps=rate_bps, queue_packets=QUEUE_PACKETS)
                print(f"port {port}: {rate_bps} bit/s, as {name} is shaped", flush=True)
        with inner(switch):
            yield

    return controllers
