"""Processor time per gradient packet of the P4 programs, against those of another folder, by turns.

    .venv/bin/python -m bench pipeline /tmp/old/p4 [--rounds N] [--systems esa,atp,...]
    .venv/bin/python -m bench pipeline --off        the same programs with `admission: off`
    .venv/bin/python -m bench pipeline --sum float32    the same programs, which add in this format

One job of eight workers at one switch, which runs in this process: parser, tables, registers,
values, deparser and queues, and nothing of the kernel's. Where a switch's rate is measured
(switch_alone.py), the kernel's part comes on top, so a share of the time here is less of the rate.

A shared machine's speed changes from minute to minute. So each round measures both, one right after
the other, in time of the processor. What counts is the median of the ratios within rounds.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import statistics
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from p4engine.switch.library import Switch
from p4fabric.base.topology import host_ip

from bench.harness import ROOT
from p4engine import compile_program
from testbed import dataplane
from testbed.dissect import Ina
from testbed.experiment import load_text
from testbed.number_formats import DEFAULT, FORMATS
from testbed.protocols import wire
from testbed.schemes import set_up
from testbed.setup import Platform, Setup
from tests.support.switches import Recorder

WORKERS = 8
FRAGMENTS = 256  # of a round
PACKETS = WORKERS * FRAGMENTS
TEXT = """
name: pipeline
topology: {{kind: star, hosts: 10}}
links: {{bandwidth: 100 Gbit/s, queue: 10000 packets}}
system: {{name: {system}{options}}}
{memory}
admission: {admission}
jobs: [{{model: resnet152, workers: {workers}, iterations: 1000}}]
"""
OPTIONS = {"atp": ", release: on_completion"}
SYSTEMS = ("esa", "atp", "switchml", "grid", "ps")


def setup_of(system: str, admission: str, number_format: str = DEFAULT) -> Setup:
    memory = "" if system == "ps" else f"memory: {{aggregators: {2 * FRAGMENTS}}}"
    text = TEXT.format(
        system=system,
        options=f"{OPTIONS.get(system, '')}, sum: {number_format}",
        memory=memory,
        admission=admission,
        workers=WORKERS,
    )
    return set_up(load_text(text))


def frames_of(platform: Platform) -> tuple[np.ndarray, np.ndarray]:
    """Gradients of all workers by fragment: uint8[P, bytes], and their ports, uint32[P]."""
    from scapy.layers.inet import IP, UDP
    from scapy.layers.l2 import Ether

    grid = platform.system.planned
    frames, ports = [], []
    for fragment in range(FRAGMENTS):
        for worker in range(WORKERS):
            ina = Ina(
                kind=wire.GRADIENT,
                job=0,
                node=1 if grid else 0,
                fragment_number=fragment,
                index=fragment,
                extra=1 if grid else 0,
                sender=worker,
                bitmap=1 << worker,
                priority=9,
                values=[worker + 1] * platform.values,
            )
            addresses = IP(src=host_ip(worker + 1), dst=host_ip(WORKERS + 1))
            ether = Ether(src="02:00:00:00:00:01", dst="02:00:00:01:00:01")
            udp = UDP(sport=wire.PORT, dport=wire.PORT, chksum=0)
            frames.append(bytes(ether / addresses / udp / ina))
            ports.append(worker + 1)
    table = np.frombuffer(b"".join(frames), np.uint8).reshape(PACKETS, -1).copy()
    return table, np.array(ports, np.uint32)


class Driven:
    """A switch that pipeline.c drives with the same packets over and over."""

    switch: Switch
    frames: np.ndarray  # uint8[packets, bytes]
    ports: np.ndarray  # uint32[packets], where they come in
    fragments: int  # of a round
    sets = 1  # of slots, which fragments use by turns

    def __init__(self, drive: Any) -> None:
        self._drive, self._round = drive, 0

    def run(self, rounds: int) -> float:
        """Processor time per packet in ns, over some rounds."""
        entry = self.switch.entry_points()
        packets, length = self.frames.shape
        took = self._drive(
            ctypes.c_void_p(self.switch.address),
            *(ctypes.c_void_p(entry[name]) for name in ("receive", "advance", "outputs_clear")),
            ctypes.c_void_p(self.frames.ctypes.data),
            ctypes.c_void_p(self.ports.ctypes.data),
            length,
            packets,
            self._round,
            rounds,
            self.fragments,
            self.sets,
        )
        if took < 0:
            raise SystemExit(f"the switch did not take a packet: {took}")
        self._round += rounds
        return took / (rounds * packets)


def driver() -> Any:
    """The function of pipeline.c that drives a switch, compiled."""
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "pipeline.so"
        source = ROOT / "bench" / "pipeline.c"
        command = ["cc", "-O2", "-shared", "-fPIC", "-o", str(library), str(source)]
        subprocess.run(command, check=True)
        drive = ctypes.CDLL(str(library)).drive
        drive.restype = ctypes.c_int64
    return drive


def by_turns(cases: Sequence[Driven], rounds: int, repeats: int) -> tuple[list[float], list[float]]:
    """ns per packet of two cases, in each round, after one that warms them up."""
    times: tuple[list[float], list[float]] = [], []
    for number in range(rounds + 1):
        for which in (0, 1) if number % 2 else (1, 0):
            took = cases[which].run(repeats)
            if number:  # the first one warms up
                times[which].append(took)
    return times


def quartiles(times: tuple[list[float], list[float]]) -> list[float]:
    """Of the ratios within rounds: lower quartile, median, upper quartile."""
    ratios = [new / old for old, new in zip(*times, strict=True)]
    return statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3


class Case(Driven):
    """A program with the tables of a Setup."""

    fragments = FRAGMENTS

    def __init__(self, setup: Setup, folder: Path, drive: Any) -> None:
        super().__init__(drive)
        self.platform = platform = setup.platform
        source, defines, _ = dataplane.program(platform)
        compiled = compile_program(folder / source.name, defines, (folder,))
        self.switch = Switch(compiled, ports=sorted(platform.topology.ports("s1")))
        recorder = Recorder()
        dataplane.install(setup, "s1", recorder)
        self.switch.batch([call for each in recorder.calls for call in _known(each, compiled.info)])
        self.frames, self.ports = frames_of(platform)
        self.sets = 2 if platform.system.divided else 1

    def sums(self) -> int:
        """Complete sums so far; packets that a forwarder sent are PACKETS per round."""
        counted = dataplane.counters(self.platform, self.switch)
        if not counted:
            sent = sum(row["packets"] for row in self.switch.port_stats()) // 2
            return sent // WORKERS
        return sum(value for _, name, value in counted if name == "completions")


def _known(call: tuple, info: Any) -> list[tuple]:
    """A call as an older program takes it: without tables that it does not have, and with as many
    parameters as its action has."""
    if call[0] not in ("table_add", "table_set_default"):
        return [call]
    tables = {table.name.rpartition(".")[2]: table for table in info.tables}
    if call[1] not in tables:
        return []
    actions = {action.name.rpartition(".")[2]: action for action in tables[call[1]].actions}
    most = len(actions[call[2]].params)
    return [(*call[:-1], call[-1][:most])]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("other", type=Path, nargs="?", help="the other folder of P4 programs")
    parser.add_argument("--off", action="store_true", help="against `admission: off` instead")
    parser.add_argument("--sum", choices=FORMATS, help="against int32: sums in this format")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--repeats", type=int, default=20, help=f"times {PACKETS} packets in each")
    parser.add_argument("--systems", default=",".join(SYSTEMS))
    options = parser.parse_args()
    if [options.other is not None, options.off, options.sum is not None].count(True) != 1:
        parser.error("name another folder of P4 programs, or give --off or --sum")
    drive = driver()
    print(f"{'ns per packet, medians':24}{'other':>8}{'now':>8}{'ratio':>8}  (quartiles)")
    for system in options.systems.split(","):
        ours = setup_of(system, "port", options.sum or DEFAULT)
        theirs = setup_of(system, "off" if options.off else "port") if not options.other else ours
        programs = ours.platform.program.parent
        cases = (
            Case(theirs, options.other or programs, drive),
            Case(ours, programs, drive),
        )
        times = by_turns(cases, options.rounds, options.repeats)
        for case in cases:
            expected = (options.rounds + 1) * options.repeats * FRAGMENTS
            if (sums := case.sums()) != expected:
                raise SystemExit(f"{system}: {sums} sums instead of {expected}")
            with contextlib.suppress(AttributeError):
                case.switch.close()
        low, middle, high = quartiles(times)
        print(
            f"{system:24}{statistics.median(times[0]):>8.0f}{statistics.median(times[1]):>8.0f}"
            f"{middle:>8.3f}  ({low:.3f} to {high:.3f})",
            flush=True,
        )
    return 0
