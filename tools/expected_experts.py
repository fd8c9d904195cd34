"""Measured values of the rows of experiments/expected/experts.yaml and inference.yaml that come
from published work, by runs in virtual time.

    .venv/bin/python -m tools.expected_experts [ROW...] [--write]
    .venv/bin/python -m tools.expected_experts --inference [ROW...] [--write]

prints each row with its expected value and what was measured. --write puts the measured values into
the file, and nothing else.

Experts: eight ranks' experts answer each token of nine ranks, and each rank has as many tokens. In
the switch each batch of tokens is a dispatch of each rank and then a combine for each, and a batch
is dispatched while answers to the one before it come back. Inference: `experiments/inference.yaml`
with rings for shares, and `ina perf`'s calls of eight ranks of one machine for the others. The
simulated machine of `small_gain` has no costs of hosts.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pandas as pd
import yaml
from p4fabric.base.steps import quiet_console

import testbed
from testbed.sweeps.collective_perf import measure
from testbed.traffic import chakra
from testbed.traffic.rank_graph import Node, Program
from tools.expected_costs import KIB, MIB, Measured
from tools.expected_rows import command

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "experiments/expected"
K = 8
RANKS = tuple(range(K + 1))
SIZES = 4 * KIB, 64 * KIB, 256 * KIB  # of a rank's tokens of a batch
SETTING = """
name: experts
runtime: virtual
topology: {kind: star, hosts: %d}
links: {bandwidth: 400 Gbit/s, delay: 500 ns, queue: 1000 packets}
system: {name: switchml, zeros: header_only}
memory: {aggregators: 65536}
values_per_packet: 1024
jobs: [{name: experts, model: tokens.et, workers: %d, iterations: 1}]
"""


def exchanges(batches: int, size: int, in_switch: bool, answers: bool = True) -> Program:
    """The calls of all ranks; batches overlap."""
    groups = {f"batch.{batch}": RANKS for batch in range(batches)}
    ranks = []
    for rank in RANKS:
        nodes: list[Node] = []
        sent: tuple[int, ...] = ()
        for batch in range(batches):
            before = sent
            for kind in ("dispatch", "combine")[: 1 + answers]:
                first = len(nodes)
                for owner in RANKS if in_switch else (rank,):
                    parts = tuple(size * (each != rank) for each in RANKS)
                    what = {"kind": kind, "peer": owner, "bytes": size}
                    flow = {"kind": "all_to_all", "bytes": sum(parts), "parts": parts}
                    place = {"after": before, "group": f"batch.{batch}", "id": len(nodes)}
                    nodes.append(Node(**(what if in_switch else flow), **place, dtype="int32"))
                before = tuple(range(first, len(nodes)))
                sent = before if kind == "dispatch" else sent
        ranks.append(tuple(nodes))
    return Program(groups, tuple(ranks))


def results_of(setting: dict, program: Program | None = None) -> dict[str, pd.DataFrame]:
    """Tables of a run."""
    with tempfile.TemporaryDirectory(prefix="ina-expected-") as folder:
        if program is not None:
            chakra.write(Path(folder, "tokens.et"), program)
        file = Path(folder, "setting.yaml")
        file.write_text(yaml.safe_dump(setting))
        run = testbed.run(testbed.load(file), results=folder, progress=False)
        return {name: run.table(name) for name in ("jobs", "links", "requests")}


@cache
def experts_of(batches: int, size: int, in_switch: bool, answers: bool = True) -> tuple[int, int]:
    """Time in ns, and bytes of all links."""
    setting = yaml.safe_load(SETTING % (len(RANKS) + 1, len(RANKS)))
    found = results_of(setting, exchanges(batches, size, in_switch, answers))
    return int(found["jobs"]["jct_ns"].iloc[0]), int(found["links"]["bytes"].sum())


def over_flows(place: int, *what: int, answers: bool = True) -> float:
    flows, switch = (experts_of(*what, each, answers)[place] for each in (False, True))
    return switch / flows


def share(tp: int) -> float:
    """Of the network in the time of requests, with rings."""
    setting = yaml.safe_load((ROOT / "experiments/inference.yaml").read_text())
    del setting["sweep"]
    (job,) = setting["jobs"]
    setting |= {"system": "ring", "name": "share"}
    del setting["memory"], job["model"]["checks"]
    job |= {"parallel": {"tp": tp}, "workers": tp}
    rows = results_of(setting)["requests"]
    return float(1 - rows["compute_ns"].sum() / (rows["end_ns"] - rows["sent_ns"]).sum())


@cache
def times(size: int, costs: bool = True) -> dict[str, float]:
    """ns of an all_reduce among eight ranks of a machine, by what carries it."""
    systems = "ring", "double_tree", "colocated_ps", "switchml"
    setting = Measured("ring", size).setting
    if not costs:
        setting = replace(setting, costs="", delay="250 ns")
    return {e.system: e.time_ns for e in measure(setting, systems, [size], quiet_console())}


def crossover() -> list[int]:
    """MiB for which the sum in the switch is the fastest."""
    sizes = [64 * KIB << place for place in range(11)]
    return [size for size in sizes if min(t := times(size), key=t.__getitem__) == "switchml"]


EXPERTS: dict[str, Callable[[], float]] = {
    "traffic": lambda: over_flows(1, 4, 64 * KIB),
    "time": lambda: max(1 / over_flows(0, 16, size) for size in SIZES),
    "dispatch_latency": lambda: over_flows(0, 1, 4 * KIB, answers=False),
}
INFERENCE: dict[str, Callable[[], float]] = {
    "share_tp2": lambda: share(2),
    "share_tp8": lambda: share(8),
    "crossover_low": lambda: crossover()[0] / MIB,
    "crossover_high": lambda: crossover()[-1] / MIB,
    "small_gain": lambda: (t := times(48 * KIB, costs=False))["ring"] / t["switchml"],
}


if __name__ == "__main__":
    words = [each for each in sys.argv[1:] if each != "--inference"]
    of = len(words) < len(sys.argv) - 1
    file = FOLDER / ("inference.yaml" if of else "experts.yaml")
    sys.exit(command(file, INFERENCE if of else EXPERTS, __doc__, words))
