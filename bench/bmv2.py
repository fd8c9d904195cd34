"""The embedded switch and BMv2 side by side, alone: one switch between two veth pairs.

    sudo .venv/bin/python -m bench bmv2 [--values 1,4,16,64,256] [--rounds N] [--seconds S]

The switch runs esa.p4 for the generator of switch_alone.py, which plays four workers of a job and
keeps so many fragments under way that nothing is lost. Every packet is aggregated, every fourth
leaves as a sum, and the sums are checked. For each number of values per packet: packets/s that go
in, and processor time per packet, of all the switch's threads.

Rounds of the two switches take turns. The best round of each is printed, because other programs on
a shared machine only ever make a round worse. Needs BMv2 (docs/bmv2.md). bmv2_experiment.yaml
compares whole experiments.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

from p4fabric.base.linux.processes import cpu_ns

from bench.harness import ROOT, machine
from bench.switch_alone import (
    FAN_IN,
    MAX_MISSING,
    Case,
    Wires,
    build,
    generate,
    install_esa,
    round_of_switch,
)
from p4engine import compile_program
from testbed.bmv2.compiler import compile_for_bmv2
from testbed.bmv2.connection import Connection, p4utils_api, wait
from testbed.bmv2.control_client import Client
from testbed.bmv2.link_queues import DEEP_PACKETS
from testbed.bmv2.ports import socket_drops
from testbed.bmv2.simple_switch import command

SWITCHES = "embedded", "bmv2"
DEFINES = {"AGGREGATORS": 4096, "BITMAP_WIDTH": 32}
# Fragments under way; simple_switch's sockets have room for some thousand packets.
WINDOWS = {"embedded": 512, "bmv2": 64}
INTERFACES = {1: "s0", 2: "s1"}
PREPARE = (
    "from p4fabric.base.linux.kernel import set_interfaces_up, switch_offloads_off;"
    f"set_interfaces_up(['lo']); switch_offloads_off({list(INTERFACES.values())})"
)


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
            options = SimpleNamespace(window=WINDOWS["bmv2"], values=values)
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
    options = SimpleNamespace(window=WINDOWS["embedded"], values=values, seconds=seconds)
    case = Case("esa", f"{values} values", compiled, install_esa, FAN_IN)
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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each round")
    parser.add_argument(
        "--values",
        type=lambda text: [int(word) for word in text.split(",")],
        default=[1, 4, 16, 64, 256],
        help="per packet",
    )
    options = parser.parse_args()
    if os.geteuid() != 0:
        print("needs root: it makes network namespaces", file=sys.stderr)
        return 2
    print(machine())
    alone(options)
    return 0
