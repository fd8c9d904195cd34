"""The embedded switch and BMv2 side by side.

    sudo python bench/bmv2.py alone [--values 1,4,16,64,256] [--rounds N] [--seconds S]
    sudo python bench/bmv2.py experiment [--rounds N] [--window N]

`alone`: one switch between two veth pairs runs esa.p4 for the generator of switch_alone.py, which
plays four workers of a job and keeps so many fragments under way that nothing is lost. Every packet
is aggregated, every fourth leaves as a sum, and the sums are checked. For each number of values per
packet: packets/s that go in, and processor time per packet, of all the switch's threads.

`experiment`: the same experiment file with either switch: eight workers in two jobs, links without
a limit, no compute time, all values checked by all workers. Hosts and switch share the machine, and
the workers' windows keep what is under way within what BMv2's sockets hold.

Rounds of the two switches take turns. Of `alone` the best round of each is printed, because other
programs on a shared machine only ever make a round worse; of `experiment` the median. Needs BMv2
(docs/bmv2.md).
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path[:0] = [str(ROOT), str(HERE)]

from switch_alone import (  # noqa: E402
    FAN_IN,
    MAX_MISSING,
    Case,
    Wires,
    build,
    generate,
    install_esa,
    machine,
    round_of_switch,
)

from p4engine import compile_program  # noqa: E402
from testbed.bmv2.compiler import compile_for_bmv2  # noqa: E402
from testbed.bmv2.connection import Connection, p4utils_api, wait  # noqa: E402
from testbed.bmv2.control_client import Client  # noqa: E402
from testbed.bmv2.link_queues import DEEP_PACKETS  # noqa: E402
from testbed.bmv2.ports import socket_drops  # noqa: E402
from testbed.bmv2.simple_switch import command  # noqa: E402
from testbed.linux.processes import cpu_ns  # noqa: E402
from testbed.results import find, read  # noqa: E402

SWITCHES = "embedded", "bmv2"
DEFINES = {"AGGREGATORS": 4096, "BITMAP_WIDTH": 32}
# Fragments under way; simple_switch's sockets have room for some thousand packets.
WINDOWS = {"embedded": 512, "bmv2": 64}
INTERFACES = {1: "s0", 2: "s1"}
PREPARE = (
    "from testbed.linux.kernel import set_interfaces_up, switch_offloads_off;"
    f"set_interfaces_up(['lo']); switch_offloads_off({list(INTERFACES.values())})"
)
EXPERIMENT = """
name: side-by-side
switch: {switch}
topology: {{kind: star, hosts: 10}}
system: {{name: esa, window: {window}}}
memory: {{aggregators: 4096}}
timeout: 60 s
jobs:
  - {{model: resnet50, workers: 4, iterations: 2, scale: {scale}, compute_scale: 0}}
  - {{model: resnet50, workers: 4, iterations: 2, scale: {scale}, compute_scale: 0}}
"""
# About two seconds of each.
SCALES = {"embedded": 0.1, "bmv2": 0.002}


def install_on_bmv2(client: Client) -> None:
    """As install_esa, for Client has the same calls."""
    install_esa(client)
    client.batch([("queue_depth", DEEP_PACKETS, port) for port in INTERFACES])


def round_of_bmv2(wires: Wires, generator: str, values: int, seconds: float) -> dict:
    """Start simple_switch, measure, stop it."""
    json = compile_for_bmv2(ROOT / "p4" / "esa.p4", {**DEFINES, "VALUES": values}, (ROOT / "p4",))
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        words = command(json, INTERFACES, notifications=Path(folder) / "ipc")
        with log.open("wb") as output:
            process = subprocess.Popen(wires.inside(1, *words), stdout=output, stderr=output)
        connection = Connection(wires.holders[1].pid)
        try:
            wait(connection, lambda: process.poll() is None, "alone", log)
            api = p4utils_api(connection.clients, json)
            install_on_bmv2(Client(api, "alone", connection.close))
            options = SimpleNamespace(real_time=False, window=WINDOWS["bmv2"], values=values)
            generate(wires, generator, options, FAN_IN, 0.2)  # warm up
            socket_drops(process.pid)
            before = cpu_ns(process.pid)
            result = generate(wires, generator, options, FAN_IN, seconds)
            result["switch_cpu_ns"] = cpu_ns(process.pid) - before
            result["unmodelled_drops"] = sum(socket_drops(process.pid).values())
        finally:
            connection.close()
            process.kill()
            process.wait()
    return result


def round_of_embedded(wires: Wires, generator: str, values: int, seconds: float) -> dict:
    compiled = compile_program(ROOT / "p4" / "esa.p4", {**DEFINES, "VALUES": values})
    options = SimpleNamespace(
        **{"real_time": False, "window": WINDOWS["embedded"], "values": values},
        **{"seconds": seconds, "spin_ns": 0, "bypass": False, "ring_frames": 0},
    )
    case = Case(f"{values} values", compiled, install_esa, FAN_IN)
    return round_of_switch(wires, generator, case, options)


ROUNDS: dict[str, Callable[[Wires, str, int, float], dict]] = {
    "embedded": round_of_embedded,
    "bmv2": round_of_bmv2,
}


def alone(options: argparse.Namespace) -> None:
    """Print packets/s and processor time per packet against values per packet."""
    print(
        f"{'values':>6} {'frame':>7} {'embedded':>12} {'CPU':>9} {'BMv2':>12} {'CPU':>9}"
        f" {'rate':>7} {'CPU':>7}\n"
        f"{'':>6} {'bytes':>7} {'packets/s':>12} {'/packet':>9} {'packets/s':>12} {'/packet':>9}"
        f" {'ratio':>7} {'ratio':>7}"
    )
    wires = Wires()
    try:
        subprocess.run(wires.inside(1, sys.executable, "-c", PREPARE), check=True, cwd=ROOT)
        with tempfile.TemporaryDirectory() as folder:
            generator = build(Path(folder), "generator")
            for values in options.values:
                kept: dict[str, list[dict]] = {switch: [] for switch in SWITCHES}
                for _ in range(options.rounds):
                    for switch, measure in ROUNDS.items():
                        kept[switch].append(measure(wires, generator, values, options.seconds))
                print(_row(values, kept), flush=True)
    finally:
        wires.close()


def _row(values: int, kept: dict[str, list[dict]]) -> str:
    rates, costs = {}, {}
    for switch, rounds in kept.items():
        good = [
            each
            for each in rounds
            if each["fragments"] - each["returned"] <= MAX_MISSING * each["sent"]
            and not each["wrong"]
        ]
        if not good:
            raise SystemExit(f"{switch}, {values} values: every round lost packets: {rounds}")
        rates[switch] = max(each["packets_per_s"] for each in good)
        costs[switch] = min(each["switch_cpu_ns"] / each["sent"] for each in good)
    ours, theirs = SWITCHES
    return (
        f"{values:>6} {70 + 4 * values:>7} {rates[ours]:>12,.0f} {costs[ours] / 1e3:>6.2f} us"
        f" {rates[theirs]:>12,.0f} {costs[theirs] / 1e3:>6.0f} us"
        f" {rates[ours] / rates[theirs]:>7.0f} {costs[theirs] / costs[ours]:>7.0f}"
    )


def experiment(options: argparse.Namespace) -> None:
    """Print gradient packets/s of the same experiment with either switch."""
    found: dict[str, list[Run]] = {switch: [] for switch in SWITCHES}
    for _ in range(options.rounds):
        for switch in SWITCHES:
            found[switch].append(_run(switch, options.window))
    print(
        f"{'':10} {'gradient packets/s':>20} {'switch CPU/packet':>19} {'hosts CPU/packet':>18}"
        "  fidelity"
    )
    for switch, rounds in found.items():
        rate, of_switch, of_hosts = (
            statistics.median(getattr(each, name) for each in rounds)
            for name in ("rate", "switch_us", "hosts_us")
        )
        marks = ", ".join(sorted({each.mark for each in rounds}))
        print(f"{switch:10} {rate:>20,.0f} {of_switch:>16.1f} us {of_hosts:>15.1f} us  {marks}")
    ours, theirs = (statistics.median(each.rate for each in found[name]) for name in SWITCHES)
    print(f"ratio of rates {ours / theirs:.0f}")


@dataclass(frozen=True)
class Run:
    """Of one run: gradient packets/s, processor time of the switch and of all hosts per gradient
    packet in us, fidelity mark."""

    rate: float
    switch_us: float
    hosts_us: float
    mark: str


def _run(switch: str, window: int) -> Run:
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "bench.yaml"
        file.write_text(EXPERIMENT.format(switch=switch, window=window, scale=SCALES[switch]))
        words = [sys.executable, str(ROOT / "run.py"), str(file), "--results", name]
        done = subprocess.run(words, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(done.stdout[-2000:] + done.stderr[-2000:])
        results = read(find(Path(name))[-1])
        jobs = results.jobs
        packets = float(jobs["gradient_packets"].sum())
        seconds = float(jobs["end_ns"].max() - jobs["start_ns"].min()) / 1e9
        of_switch, of_hosts = (
            float(table["cpu_ns"].sum()) / packets / 1e3
            for table in (results.switches, results.hosts)
        )
        return Run(packets / seconds, of_switch, of_hosts, str(results.fidelity))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("alone", "experiment"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each round of `alone`")
    parser.add_argument("--window", type=int, default=32, help="of a worker in `experiment`")
    parser.add_argument(
        "--values",
        type=lambda text: [int(word) for word in text.split(",")],
        default=[1, 4, 16, 64, 256],
        help="per packet, of `alone`",
    )
    options = parser.parse_args()
    if os.geteuid() != 0:
        print("needs root: it makes network namespaces", file=sys.stderr)
        return 2
    facts = machine()
    print(f"{facts['cpu']}, {facts['cores']} cores, Linux {facts['kernel']}, {facts['date']}")
    (alone if options.what == "alone" else experiment)(options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
