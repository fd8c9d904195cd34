"""Run a host that is a Python class on a network interface, in real time.

    python real_host.py FILE.py:CLASS NAME [--interface eth0] [--timeout-ms 20]

The class is one of p4fabric/docs/networks.md. It is done when its attribute `done` is
true. Then this prints what its `results()` tells; the exit code is 1 if that has a value `exact`
that is false.
"""

import argparse
import importlib.util
import select
import socket
import sys
import time
from pathlib import Path

ETH_P_ALL = 3
BUFFER = 1 << 22  # bytes of frames that wait in the kernel


class Host:
    """A host for a class: its name and address, and a socket for its frames."""

    def __init__(self, name, mac, link):
        self.name, self.mac, self.link = name, mac, link
        self.timer_ns = None

    def send(self, frame):
        self.link.send(bytes(frame))

    def set_timer(self, time_ns):
        self.timer_ns = time_ns


def run(kind, name, mac, link, clock=time.monotonic_ns):
    """Run a host of this class with frames of `link`, a socket, until it is done; its results."""
    host = Host(name, mac, link)
    made = kind(host)
    begin_ns = clock()
    made.start(0)
    while not made.done:
        now_ns = clock() - begin_ns
        if host.timer_ns is not None and host.timer_ns <= now_ns:
            host.timer_ns = None
            made.timer(now_ns)
            continue
        left_s = None if host.timer_ns is None else (host.timer_ns - now_ns) / 1e9
        if select.select([link], [], [], left_s)[0]:
            frame, address = link.recvfrom(65536)
            if not isinstance(address, tuple) or address[2] != socket.PACKET_OUTGOING:
                made.receive(clock() - begin_ns, frame)
    return made.results()


def load(path, name):
    """The class `name` of a file."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", metavar="FILE.py:CLASS")
    parser.add_argument("name")
    parser.add_argument("--interface", default="eth0")
    parser.add_argument("--timeout-ms", type=float, default=20)
    options = parser.parse_args()
    kind = load(*options.what.rsplit(":", 1))
    kind.TIMEOUT_NS = int(options.timeout_ms * 1e6)
    link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
    link.bind((options.interface, 0))
    mac = Path(f"/sys/class/net/{options.interface}/address").read_text().strip()
    results = run(kind, options.name, mac, link)
    print(*(f"{key} {value}" for key, value in results.items()), flush=True)
    return int(results.get("exact") is False)


if __name__ == "__main__":
    sys.exit(main())
