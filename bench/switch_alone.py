"""The speed of the native switch alone, between two veth pairs, against a bare forwarder.

    sudo .venv/bin/python -m bench switch_alone [--rounds N] [--seconds S] [--save FILE]

The generator (generator.c) sits on one core, the switch on the other. These are measured in turn,
because a shared machine's speed changes from minute to minute:

- `esa.p4`: the generator plays four workers of one job. Every packet is aggregated, every fourth
  leaves as a sum, which is checked.
- `l2.p4`: every packet is looked up by its address and leaves.
- the same two with packets in trains (docs/trains.md), where the kernel passes them.
- the bare forwarder (forwarder.c): every packet leaves, one by one, and nothing is looked at. It is
  what the kernel lets a program forward in this way, so l2.p4's share of it is the price of the
  engine. (esa.p4 may be faster than it: sending costs most, and esa.p4 sends a quarter of the
  packets.)

The generator keeps a bounded number of packets under way, so the rate is the highest without loss;
a round with more than 0.01 % missing does not count. The best and the median round are printed, and
the median of the ratios within rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from p4engine.backend.build import Compiled
from p4engine.control.client import Client
from p4engine.switch.packet_loop import LONGEST_TRAIN

from bench.harness import HERE, ROOT, machine
from p4engine import compile_program
from testbed.machine.kernel_probe import why_no_trains

FAN_IN = 4
MAX_MISSING = 1e-4
TARGET = 600_000  # packets/s of esa.p4, one by one
TARGET_SHARE = 0.85  # of the bare forwarder's rate, for l2.p4, one by one
TARGET_GAIN = 2.5  # of esa.p4 by trains
TARGET_TRAINS = 4  # times the bare forwarder's rate, for l2.p4 in trains


@dataclass(frozen=True)
class Case:
    """A program to measure: what its control plane needs, and how the generator feeds it."""

    name: str
    title: str
    compiled: Compiled
    install: Callable[[Client], None]
    fan_in: int
    trains: bool = False


class Wires:
    """Two network namespaces (generator's and switch's) joined by veth pairs g0-s0 and g1-s1."""

    def __init__(self) -> None:
        self.holders = [subprocess.Popen(["unshare", "-n", "sleep", "infinity"]) for _ in range(2)]
        here = os.stat("/proc/self/ns/net").st_ino
        for holder in self.holders:
            while os.stat(f"/proc/{holder.pid}/ns/net").st_ino == here:
                time.sleep(0.01)
        for n in "01":
            there = str(self.holders[1].pid)
            self.run(
                0, "ip", "link", "add", f"g{n}", "type", "veth", "peer", f"s{n}", "netns", there
            )
            for side, name in ((0, f"g{n}"), (1, f"s{n}")):
                self.run(side, "sysctl", "-qw", f"net.ipv6.conf.{name}.disable_ipv6=1")
                self.run(side, "ip", "link", "set", name, "up")

    def inside(self, side: int, *command: str) -> list[str]:
        """The command, run in a namespace."""
        return ["nsenter", "-t", str(self.holders[side].pid), "-n", *command]

    def run(self, side: int, *command: str) -> None:
        subprocess.run(self.inside(side, *command), check=True)

    def close(self) -> None:
        for holder in self.holders:
            holder.kill()
            holder.wait()


def build(folder: Path, name: str) -> str:
    """Compile one of the C programs beside this file."""
    target = folder / name
    command = ["cc", "-O2", "-march=native", "-o", str(target), str(HERE / f"{name}.c")]
    subprocess.run(command, check=True)
    return str(target)


def install_esa(client: Client) -> None:
    """Job 0 with four workers; everything that leaves goes out of port 2."""
    mac, ip = "02:00:00:00:00:02", "10.0.0.2"
    client.table_set_default("node", "set_node", [1, "02:00:00:01:00:01", "10.255.0.1", 0, 1, 0, 0])
    client.table_add("job", "aggregate", [0], [(1 << FAN_IN) - 1, 0, 0xFFFF, 4096, 0xFFFFFFFF])
    client.table_set_default("admission", "refuse", [])
    client.table_add("admission", "admit", [1, 0], [])
    for heading in range(4):
        client.table_add("job_route", "to_server", [0, heading], [2, mac, ip])
    client.table_add("route", "forward", [("10.0.0.0", 8)], [2, mac])


def install_l2(client: Client) -> None:
    """The generator's packets leave by port 2, among a thousand other stations."""
    client.table_add("stations", "to_port", ["02:00:00:01:00:01"], [2])
    client.batch(("table_add", "stations", "to_port", [n], [3]) for n in range(1000))


def generate(
    wires: Wires,
    generator: str,
    options: argparse.Namespace,
    fan_in: int,
    seconds: float,
    trains: bool = False,
) -> dict:
    """One round of the generator: its counts."""
    window = options.window if fan_in > 1 else 1024
    command = wires.inside(0, generator, "g0", "g1", "--cpu", "0", "--seconds", str(seconds))
    command += ["--fan-in", str(fan_in), "--window", str(window), "--values", str(options.values)]
    command += ["--trains", str(int(trains))]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=seconds + 20)
    return json.loads(done.stdout)


def round_of_switch(wires: Wires, generator: str, case: Case, options: argparse.Namespace) -> dict:
    """Start the switch on core 1, measure, stop it."""
    with tempfile.TemporaryDirectory() as folder:
        control = f"{folder}/control.sock"
        code = (
            "import os, sys\n"
            "os.sched_setaffinity(0, {1})\n"
            "from pathlib import Path\n"
            "from p4engine.backend.build import Compiled\n"
            "from p4engine.program_info import ProgramInfo\n"
            "from p4engine.process.switch_process import serve\n"
            "import json\n"
            "job = json.load(sys.stdin)\n"
            "compiled = Compiled(Path(job['so']), ProgramInfo.from_json(job['info']), '')\n"
            "ready = lambda: print('ready', flush=True)\n"
            "ports = {1: 's0', 2: 's1'}\n"
            "sys.exit(serve(compiled, ports, job['control'], ready=ready, **job['options']))\n"
        )
        process = subprocess.Popen(
            wires.inside(1, sys.executable, "-c", code),
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            job = {"so": str(case.compiled.so_path), "info": case.compiled.info.to_json()}
            job["control"] = control
            job["options"] = {"trains": LONGEST_TRAIN if case.trains else 0}
            process.stdin.write(json.dumps(job))
            process.stdin.close()
            if process.stdout.readline() != "ready\n":
                raise SystemExit("the switch did not start")
            with Client(control) as client:
                case.install(client)
                generate(wires, generator, options, case.fan_in, 0.2, case.trains)  # warm up
                before = client.stats()
                result = generate(
                    wires, generator, options, case.fan_in, options.seconds, case.trains
                )
                after = client.stats()
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(10)
    result["switch_cpu_ns"] = after["cpu_ns"] - before["cpu_ns"]
    result["unmodelled_drops"] = after["unmodelled_drops"] - before["unmodelled_drops"]
    if after["received"] - before["received"] != result["sent"] or result["wrong"]:
        raise SystemExit(f"packets lost or wrong before they were counted: {result}, {after}")
    return result


def round_of_forwarder(
    wires: Wires, generator: str, forwarder: str, options: argparse.Namespace
) -> dict:
    """The same wires with the bare forwarder on core 1."""
    command = wires.inside(1, forwarder, "s0", "s1", "--cpu", "1")
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        time.sleep(0.1)
        generate(wires, generator, options, 1, 0.2)
        result = generate(wires, generator, options, 1, options.seconds)
    finally:
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=10)
    own = json.loads(output)  # since its start
    return result | {"switch_cpu_ns": own["cpu_ns"] * result["sent"] / own["sent"]}


def compare(rounds: dict[str, list[dict]], name: str, other: str, target: float) -> None:
    """Print the ratio of two rates within rounds."""
    ratios = [
        one["packets_per_s"] / two["packets_per_s"]
        for one, two in zip(rounds[name], rounds[other], strict=True)
    ]
    middle = statistics.median(ratios)
    print(
        f"{name} / {other}: {middle:.2f} ({min(ratios):.2f} to {max(ratios):.2f}),"
        f" target of {target} {'reached' if middle >= target else 'missed'}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each round")
    parser.add_argument("--window", type=int, default=512, help="fragments under way")
    parser.add_argument("--values", type=int, default=64)
    parser.add_argument("--save", type=Path, help="write the numbers as JSON")
    options = parser.parse_args()
    if os.geteuid() != 0:
        print("needs root: it makes network namespaces", file=sys.stderr)
        return 2
    esa = compile_program(ROOT / "p4" / "esa.p4", {"AGGREGATORS": 4096, "VALUES": options.values})
    title = f"esa.p4, {options.values} values, fan-in {FAN_IN}"
    cases = [
        Case("esa", title, esa, install_esa, FAN_IN),
        Case("l2", "l2.p4", compile_program(HERE / "l2.p4"), install_l2, 1),
    ]
    if why := why_no_trains():
        print(f"no trains: {why}", file=sys.stderr)
    else:
        cases += [
            replace(case, name=f"{case.name}_trains", title=f"{case.title}, trains", trains=True)
            for case in cases
        ]
    wires = Wires()
    rounds: dict[str, list[dict]] = {case.name: [] for case in cases} | {"forwarder": []}
    try:
        with tempfile.TemporaryDirectory() as folder:
            generator = build(Path(folder), "generator")
            bare = build(Path(folder), "forwarder")
            for _ in range(options.rounds):
                for case in cases:
                    rounds[case.name].append(round_of_switch(wires, generator, case, options))
                rounds["forwarder"].append(round_of_forwarder(wires, generator, bare, options))
    finally:
        wires.close()
    print(machine())
    print(f"{'packets/s':40}{'best':>12}{'median':>12}{'rounds':>8}{'CPU/packet':>12}")
    titles = {case.name: case.title for case in cases} | {"forwarder": "bare forwarder"}
    for name, kept in rounds.items():
        good = [r for r in kept if (r["fragments"] - r["returned"]) <= MAX_MISSING * r["sent"]]
        if not good:
            print(f"{titles[name]}: every round lost packets: {kept}", file=sys.stderr)
            return 1
        rates = [r["packets_per_s"] for r in good]
        cpu_ns = min(r["switch_cpu_ns"] / r["sent"] for r in good)
        print(
            f"{titles[name]:40}{max(rates):>12,.0f}{statistics.median(rates):>12,.0f}"
            f"{f'{len(good)}/{len(kept)}':>8}{f'{cpu_ns:.0f} ns':>12}"
        )
    best = max(r["packets_per_s"] for r in rounds["esa"])
    print(f"esa.p4: target of {TARGET:,} {'reached' if best >= TARGET else 'missed'}")
    compare(rounds, "l2", "forwarder", TARGET_SHARE)
    if len(cases) > 2:
        compare(rounds, "esa_trains", "esa", TARGET_GAIN)
        compare(rounds, "l2_trains", "forwarder", TARGET_TRAINS)
    if options.save:
        numbers = {"machine": machine(), **rounds}
        options.save.write_text(json.dumps(numbers, indent=1) + "\n")
    return 0
