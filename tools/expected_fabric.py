"""Measured values of the rows of experiments/expected/fabric.yaml about links, in virtual time.

    .venv/bin/python -m tools.expected_fabric [ROW...] [--write]

prints each row with its expected value and what was measured. --write puts the measured values into
the file, and nothing else. Rows of transports and paths are not measured here.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

from p4fabric.netfile.install_entries import compile_all
from p4fabric.netfile.load_network import load_network
from p4fabric.netfile.virtual_network import VirtualNetwork
from p4fabric.netfile.virtual_run import VirtualRun
from p4fabric.netfile.virtual_tables import Rows, tables
from p4fabric.simulate.captures import Captures

from testbed.experiment import load_text
from testbed.run_parts.program import prepare
from testbed.schemes import set_up
from testbed.simulate.virtual_run import run_repetition
from tools.expected_rows import command

ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / "experiments/expected/fabric.yaml"
PROGRAM = ROOT / "examples/incast/marking.p4"

Found = dict[str, Rows]  # tables, by name

# ---- networks of plain hosts ----

LEAVES, SENDERS = 4, 16  # leaves with senders, and how many each has
LINK = "bandwidth: 10 Gbit/s, delay: 1 us, queue: 200 packets"
PACKET = 1250
SHORT = 72  # packets of a short flow, 90 kB
INCAST_NS, INCAST_END_NS = 1_000_000, 5_600_000  # its begin, and when 64 short flows are through
STEP_NS = 100_000


def _network(switches: dict[str, dict[int, list[str]]], links: list[str], lossless: str) -> str:
    """The beginning of a network file. switches: by name and port, the hosts that are behind it."""
    hosts = sorted({h for ports in switches.values() for each in ports.values() for h in each})
    hosts.sort(key=lambda name: int(name[1:]))
    lines = ["runtime: virtual", "network:", f"  program: {PROGRAM}", f"  lossless: {lossless}"]
    lines.append("  hosts:")
    lines += [f"    {name}: {{ip: {_address(name)}/16}}" for name in hosts]
    lines.append("  switches:")
    for switch, ports in switches.items():
        lines += [f"    {switch}:", "      entries:"]
        lines += [
            f"        - {{table: route, match: {{hdr.ipv4.destination: {_address(name)}/32}},"
            f" action: forward, params: {{port: {port}}}}}"
            for port, behind in ports.items()
            for name in behind
        ]
    return "\n".join([*lines, "  links:", *(f"    - {{{each}}}" for each in links), ""])


def _address(host: str) -> str:
    number = int(host[1:])
    return f"10.0.{number // 256}.{number % 256}"


def _leaf_spine(lossless: str, apart: bool) -> str:
    """h1 and h2 on leaf s1; a spine, s6; four leaves with 16 hosts each, and h67 on the first.
    apart: a second spine, s7, between this leaf and s1, for packets to h1."""
    homes = {"s1": ["h1", "h2"]}
    for leaf in range(LEAVES):
        first = 3 + leaf * SENDERS
        homes[f"s{leaf + 2}"] = [f"h{n}" for n in range(first, first + SENDERS)]
    homes["s2"].append("h67")
    every = [host for hosts in homes.values() for host in hosts]
    switches: dict[str, dict[int, list[str]]] = {}
    links = []
    for place, (leaf, hosts) in enumerate(homes.items(), start=1):
        own = {port: [host] for port, host in enumerate(hosts, start=1)}
        up = len(hosts) + 1
        switches[leaf] = own | {up: [host for host in every if host not in hosts]}
        switches.setdefault("s6", {})[place] = hosts
        links += [f"between: [{host}, {leaf}-p{port}], {LINK}" for port, (host,) in own.items()]
        links.append(f"between: [{leaf}-p{up}, s6-p{place}], {LINK.replace('10 G', '40 G')}")
    if apart:
        switches |= {"s7": {1: ["h1"]}}
        ports = {leaf: len(homes[leaf]) + 2 for leaf in ("s1", "s2")}
        switches["s2"][ports["s2"] - 1].remove("h1")
        switches["s2"][ports["s2"]] = ["h1"]
        for place, (leaf, port) in enumerate(ports.items(), start=1):
            links.append(f"between: [{leaf}-p{port}, s7-p{place}], {LINK.replace('10 G', '40 G')}")
    return _network(switches, links, lossless)


def _run(text: str, folder: Path) -> Found:
    path = folder / "network.yaml"
    path.write_text(text)
    plan = load_network(path)
    run = VirtualRun(VirtualNetwork(plan, compile_all(plan)))
    with Captures((), folder) as captures:
        run.run(captures)
    return tables(run)


def _run_text(text: str) -> Found:
    with tempfile.TemporaryDirectory() as folder:
        return _run(text, Path(folder))


@cache
def victim(lossless: str, apart: bool = False) -> Found:
    """One long flow at 9 Gbit/s to h1, and 64 short ones at once to h2 beside it. apart: by a spine
    of its own."""
    senders = ", ".join(f"h{n}" for n in range(3, 3 + LEAVES * SENDERS))
    flows = f"""virtual: {{duration: 7 ms, sample: {STEP_NS} ns, drain: 20 ms}}
flows:
  - {{name: long, from: h67, to: h1, size: {PACKET} B, rate: 9 Gbit/s}}
  - {{name: short, from: [{senders}], to: h2, size: {PACKET} B, rate: 10 Gbit/s,
     start: {INCAST_NS} ns, count: {SHORT}}}
"""
    return _run_text(_leaf_spine(lossless, apart) + flows)


def drops(found: Found) -> float:
    return float(sum(row["queue_drops"] for row in found["ports"]))


def goodputs(found: Found, flow: str) -> dict[int, float]:
    """Bits/s that have arrived, by the end of a sample."""
    rows = found["throughput"]
    return {row["time_ns"]: row["throughput_bps"] for row in rows if row["flow"] == flow}


def _mean(values: dict[int, float], begin_ns: int, end_ns: int) -> float:
    chosen = [value for time_ns, value in values.items() if begin_ns < time_ns <= end_ns]
    return sum(chosen) / len(chosen)


INPUT = "{control: pfc, threshold: 100 KiB}"
OUTPUT = "{control: pfc, threshold: 100 KiB, pause_by: output}"


def victim_pause() -> float:
    rates = goodputs(victim(INPUT), "long")
    before = _mean(rates, INCAST_NS // 2, INCAST_NS)
    return min(v for t, v in rates.items() if INCAST_NS < t <= INCAST_END_NS) / before


def victim_output(apart: bool = False) -> float:
    rates = (goodputs(victim(each, apart), "long") for each in (OUTPUT, INPUT))
    output, own = (_mean(each, INCAST_NS, INCAST_END_NS) for each in rates)
    return output / own


WINDOW_CLASS = '''
"""Senders with a window, and a receiver that acknowledges each packet."""
import struct

WINDOW, SIZE, END_NS = %d, %d, %d


class Sender:
    def __init__(self, host):
        self.host, self.sent = host, 0
        there = host.hosts["h1"]
        address = lambda mac: bytes.fromhex(mac.replace(":", ""))
        ip = lambda text: bytes(map(int, text.split(".")))
        head = address(there.mac) + address(host.mac) + b"\\x08\\x00"
        size = SIZE - 14
        words = struct.pack("!BBHHHBBH", 0x45, 0, size, 0, 0, 64, 17, 0)
        udp = struct.pack("!HHHH", 7, 7, size - 20, 0)
        self.frame = (head + words + ip(host.ip) + ip(there.ip) + udp).ljust(SIZE - 16, b"\\0")

    def send(self, now_ns):
        self.sent += 1
        self.host.send(self.frame + self.host.tag(now_ns, self.sent))

    def start(self, now_ns):
        for _ in range(WINDOW):
            self.send(now_ns)

    def receive(self, now_ns, frame):
        if now_ns < END_NS:
            self.send(now_ns)
'''


def window_128() -> float:
    """128 hosts at one switch send to h1, each with a window of one bandwidth-delay product of
    100 Gbit/s and a round trip of 4 us: 40 packets."""
    link = "bandwidth: 100 Gbit/s, delay: 1 us, queue: 1000 packets"
    names = [f"h{n}" for n in range(1, 130)]
    ports = {n: [name] for n, name in enumerate(names, start=1)}
    links = [f"between: [{name}, s1-p{n}], {link}" for n, name in enumerate(names, start=1)]
    text = _network({"s1": ports}, links, "{control: pfc}")
    for name in names:
        own = "answer: {}" if name == "h1" else "class: window.py:Sender"
        address = f"{{ip: {_address(name)}/16"
        text = text.replace(f"    {name}: {address}}}", f"    {name}: {address}, {own}}}")
    text += "virtual: {duration: 1 ms, drain: 20 ms}\n"
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "window.py").write_text(WINDOW_CLASS % (40, PACKET, 1_000_000))
        return drops(_run(text, Path(folder)))


# ---- systems ----

SYSTEM = """
name: lossless
runtime: virtual
topology: {kind: leaf_spine, leaves: 8, spines: 1, hosts: 9}
links:
  bandwidth: 100 Gbit/s
  delay: 1 us
  ecn_threshold: none
  lossless: %(lossless)s
  each: [%(uplinks)s]
system: %(system)s
memory: {aggregators: 512}
values_per_packet: 64
jobs:
  - {%(job)s, placement: {workers: [%(a)s]%(ps_a)s}}
  - {%(job)s, placement: {workers: [%(b)s]%(ps_b)s}}
"""
JOB = "model: resnet50, workers: 32, iterations: 1, scale: 0.005, compute_scale: 0"
SYSTEMS = {
    "esa": "{name: esa, window: 256}",
    "atp": "{name: atp, window: 256}",
    "a2tp": "{name: a2tp, window: 256}",
    "switchml": "switchml",
    "tree": "tree",
}


def system_text(name: str, lossless: str) -> str:
    """Two jobs of 32 workers on every leaf, whose uplink has half of the rates of its 8 hosts."""
    leaves = range(8)
    a = [f"h{9 * leaf + n}" for leaf in leaves for n in (1, 2, 3, 4)]
    b = [f"h{9 * leaf + n}" for leaf in leaves for n in (5, 6, 7, 8)]
    up = [f"{{between: [s{leaf + 1}, s9], bandwidth: 400 Gbit/s}}" for leaf in leaves]
    served = name not in ("switchml", "tree")
    return SYSTEM % {
        "lossless": lossless,
        "uplinks": ", ".join(up),
        "system": SYSTEMS[name],
        "job": JOB,
        "a": ", ".join(a),
        "b": ", ".join(b),
        "ps_a": ", ps: h9" if served else "",
        "ps_b": ", ps: h18" if served else "",
    }


def lossless(name: str, how: str = "pfc") -> float:
    """Drops, and packets that were sent again."""
    setup = set_up(load_text(system_text(name, how)), 0)
    found = run_repetition(setup, prepare(setup).compiled)
    again = sum(job["retransmissions"] for job in found["jobs"])
    return float(sum(row["queue_drops"] for row in found["links"]) + again)


ROWS: dict[str, Callable[[], float]] = {
    "victim_lossless_drops": lambda: drops(victim(INPUT)),
    "victim_lossy_drops": lambda: drops(victim("none")),
    "victim_pause": victim_pause,
    "victim_output": victim_output,
    "victim_output_apart": lambda: victim_output(apart=True),
    "window_128_drops": window_128,
    **{f"lossless_{name}": (lambda name=name: lossless(name)) for name in SYSTEMS},
}


if __name__ == "__main__":
    sys.exit(command(FILE, ROWS, __doc__))
