"""Packets per second of processor time of a network file in virtual time.

    .venv/bin/python -m bench networks [--rounds N] [--packets N]

One switch with examples/incast/marking.p4 and links of 100 Gbit/s. A packet goes from a host
through the switch to another one. The cases differ in the hosts: flows between a pair; all pairs of
16 hosts; small packets and large ones; a host that answers; a Python class that receives, and one
that sends. Building the network and compiling are not measured. Each number is the median of the
rounds, in which the cases take turns.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

from p4fabric.netfile.install_entries import compile_all
from p4fabric.netfile.load_network import load_network
from p4fabric.netfile.virtual_network import VirtualNetwork
from p4fabric.netfile.virtual_run import VirtualRun
from p4fabric.simulate.captures import Captures

from bench.harness import ROOT

HOSTS = """
class Sink:
    def __init__(self, host):
        self.octets = 0

    def receive(self, now_ns, frame):
        self.octets += len(frame)


class Source:
    EVERY_NS = 800

    def __init__(self, host):
        self.host = host
        there = host.hosts["h2"]
        macs = bytes.fromhex((there.mac + host.mac).replace(":", ""))
        self.frame = macs + bytes.fromhex("0800450003da00000000401100000a0000010a000002")
        self.frame = self.frame.ljust(1000, bytes(1))

    def start(self, now_ns):
        self.timer(now_ns)

    def timer(self, now_ns):
        self.host.send(self.frame)
        self.host.set_timer(now_ns + self.EVERY_NS)
"""
PAIR = "{from: h1, to: h2, packet_rate: 1e7, size: %d B}"
CASES = {
    "a flow, 1000 B": (2, PAIR % 1000, {}),
    "a flow, 60 B": (2, PAIR % 60, {}),
    "a flow, 9000 B": (2, PAIR.replace("1e7", "1e6") % 9000, {}),
    "240 flows of 16 hosts": (16, "{from: all, to: all, packet_rate: 5e5, size: 1000 B}", {}),
    "a Poisson process": (
        2,
        "{from: h1, to: h2, packet_rate: 1e7, size: 1000 B, gaps: exponential}",
        {},
    ),
    "answers (both ways)": (2, PAIR % 1000, {2: "answer: {delay: 2 us}"}),
    "TCP": (2, "{from: h1, to: h2, kind: tcp, size: 1500 B}", {}),
    "to a class": (2, PAIR % 1000, {2: "class: 'hosts.py:Sink'"}),
    "from a class": (2, "", {1: "class: 'hosts.py:Source'"}),
}


def text(hosts: int, flow: str, more: dict[int, str], duration_ns: int) -> str:
    lines = ["runtime: virtual", f"virtual: {{duration: {duration_ns} ns, sample: 1 s}}"]
    lines += ["network:", f"  program: {ROOT / 'examples' / 'incast' / 'marking.p4'}", "  hosts:"]
    for number in range(1, hosts + 1):
        own = f", {more[number]}" if number in more else ""
        lines.append(f"    h{number}: {{ip: 10.0.0.{number}/24{own}}}")
    lines += ["  switches:", "    s1:", "      entries:"]
    lines += [
        f"        - {{table: route, match: {{hdr.ipv4.destination: 10.0.0.{number}/32}},"
        f" action: forward, params: {{port: {number}}}}}"
        for number in range(1, hosts + 1)
    ]
    lines.append("  links:")
    lines += [
        f"    - {{between: [h{number}, s1-p{number}], bandwidth: 100 Gbit/s, delay: 1 us}}"
        for number in range(1, hosts + 1)
    ]
    return "\n".join([*lines, f"flows: [{flow}]"]) + "\n"


def measure(folder: Path, case: str, duration_ns: int) -> tuple[int, float]:
    """Packets that hosts have received, and the processor time in seconds."""
    hosts, flow, more = CASES[case]
    path = folder / "net.yaml"
    path.write_text(text(hosts, flow, more, duration_ns))
    plan = load_network(path)
    run = VirtualRun(VirtualNetwork(plan, compile_all(plan)))
    with Captures((), folder) as captures:
        begun = time.process_time()
        run.run(captures)
        took = time.process_time() - begun
    return int(run.network.nodes.world.hosts["packets_received"].sum()), took


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--packets", type=int, default=200_000, help="about, of each case")
    options = parser.parse_args()
    found: dict[str, list[float]] = {case: [] for case in CASES}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "hosts.py").write_text(HOSTS)
        rates = {}
        for case in CASES:  # loads what is compiled, and finds the packets of a time
            packets, _ = measure(folder, case, 100_000)
            rates[case] = packets / 100_000
        for _ in range(options.rounds):
            for case in CASES:
                packets, took = measure(folder, case, int(options.packets / rates[case]))
                found[case].append(packets / took / 1000)
    print(f"{'hosts':<26}{'thousand packets/s':>20}{'ns for a packet':>18}")
    for case, values in found.items():
        rate = statistics.median(values)
        print(f"{case:<26}{rate:>20.0f}{1e6 / rate:>18.0f}")
    return 0
