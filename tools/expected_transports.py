"""Measured values of the rows on hosts' transports in experiments/expected/fabric.yaml.

    .venv/bin/python -m tools.expected_transports [ROW...] [--write]

prints each row with its expected value and what was measured, by runs in virtual time. --write puts
the measured values into the file, and nothing else.
"""

from __future__ import annotations

import functools
import random
import sys
from collections.abc import Callable, Sequence
from itertools import accumulate
from pathlib import Path

from p4fabric.simulate import controls, dcqcn
from p4fabric.simulate.congestion import DUE, LINE, RATE, TIMER
from p4fabric.simulate.tcp_model import NEVER

from testbed.experiment import load_text
from testbed.run_parts.program import prepare
from testbed.schemes import set_up
from testbed.simulate.virtual_run import run_repetition
from tools.expected_rows import command

FILE = Path(__file__).resolve().parents[1] / "experiments/expected/fabric.yaml"
SENDERS = 2, 4, 8, 16, 20
PORT_BPS = 40 * 10**9
# The job only keeps the run going while it computes: 100 ms. RoCE's packets have 1,024 bytes.
EXPERIMENT = """
name: transports
runtime: virtual
%(network)s
links: {bandwidth: 40 Gbit/s, delay: 2 us, queue: %(queue)d packets%(links)s}
system: esa
memory: {aggregators: 64}
jobs:
  - {model: resnet18, workers: 2, iterations: 1, scale: 0.0001, compute_scale: %(compute)g,
     placement: {workers: [h1, h2], ps: h3}}
background: [%(flows)s]
"""
# The paper's marks: from 5 KB on, all from 200 KB on, at most 1 % in between.
MARKS = ", ecn_threshold: 5 packets, ecn_max_threshold: 195 packets, ecn_max_probability: 1 %"
# From a fifth to four fifths of the bandwidth-delay product of 40 Gbit/s and 8 us, 37 packets.
NSCC = (
    "nscc",
    ", ecn_threshold: 7 packets, ecn_max_threshold: 30 packets, ecn_max_probability: 100 %",
)
NSCC_TARGET_NS = 8000 + 4 * 1078 // 5  # the empty round trip: 4 links of 2 us, and of 215 ns
RC = "kind: rc, size: 1078 B"


def run(
    flows: Sequence[str],
    links: str = "",
    hosts: int = 8,
    compute: float = 0.7,
    network: str = "",
    queue: int = 4000,
    table: str = "flows",
) -> list[dict]:
    """Rows of a table of these flows; in a star of so many hosts without a network."""
    values = {
        "flows": ", ".join(f"{{{each}}}" for each in flows),
        "links": links,
        "network": network or f"topology: {{kind: star, hosts: {hosts}}}",
        "queue": queue,
        "compute": compute,
    }
    setup = set_up(load_text(EXPERIMENT % values))
    return run_repetition(setup, prepare(setup).compiled)[table]


@functools.cache
def incast(count: int, control: str, marks: str) -> list[dict]:
    """Rows of so many senders to one port."""
    names = ", ".join(f"h{number}" for number in range(5, 5 + count))
    flow = f"{RC}, from: [{names}], to: h4, congestion_control: {control}"
    return run([flow], marks, 4 + count)


def incasts(control: str = "dcqcn", marks: str = MARKS) -> list[list[float]]:
    """Goodput over its share of the port, of each sender of each incast."""
    found = {count: incast(count, control, marks) for count in SENDERS}
    return [[row["mean_bps"] * count / PORT_BPS for row in rows] for count, rows in found.items()]


def jain(*of: str) -> list[float]:
    """Least and greatest index of the incasts."""
    indices = [sum(each) ** 2 / (len(each) * sum(x * x for x in each)) for each in incasts(*of)]
    return [min(indices), max(indices)]


def shares() -> list[float]:
    """Least and greatest share of a sender."""
    found = [share for each in incasts() for share in each]
    return [min(found), max(found)]


def totals(*of: str) -> list[float]:
    """Least and greatest goodput of all senders together over the port's rate."""
    found = [sum(each) / len(each) for each in incasts(*of)]
    return [min(found), max(found)]


def delay(control: str, marks: str) -> float:
    """Median delay of 8 senders' packets above the least one, over NSCC's target."""
    rows = incast(8, control, marks)
    (alone,) = run([f"{RC}, from: h5, to: h4, burst: 1000 B, every: 1 ms"])
    return max(row["p50_ns"] - alone["p50_ns"] for row in rows) / NSCC_TARGET_NS


def after_cuts(cuts: int, counts_bytes: bool = True) -> tuple[float, float]:
    """us of fast recovery after notifications at 400 Gbit/s, and ms of additive increase from then
    until the target is the link's rate, while the flow sends at its rate. Each notification halves
    rate and target; fast recovery alone undoes a single one."""
    control = controls.new_words("dcqcn", 400 * 10**9, 1078, 20_000, 1000, None)
    if not counts_bytes:
        control[dcqcn.COUNTER] = 0
    dcqcn.on_start(control, 0)
    for _ in range(cuts):
        dcqcn.on_mark(control, 0)
    now, begun = 0, NEVER
    while control[dcqcn.TARGET] < control[LINE] or begun == NEVER:
        due = min(int(control[TIMER]), now + 1000)
        dcqcn.on_send(control, due, int(control[RATE]) * (due - now) // (8 * 10**9))
        now = due
        while control[TIMER] <= now:
            dcqcn.on_timer(control, now, DUE)
        if max(control[dcqcn.BY_TIMER], control[dcqcn.BY_BYTES]) >= control[dcqcn.RECOVERIES]:
            begun = min(begun, now)
    return begun / 1e3, (now - begun) / 1e6


def with_loss() -> float:
    """Goodput of go-back-N over the link's rate, at a round trip of 20 us: links, and hosts."""
    lossy = ", each: [{between: [h5, s1], forward: {loss: 1 %}}]"
    (row,) = run([f"{RC}, from: h5, to: h6, congestion_control: dcqcn"], lossy, compute=0.2)
    return row["mean_bps"] / PORT_BPS


@functools.cache
def without_marks() -> list[dict]:
    """Bursts between two hosts, under each of three controls."""
    found = []
    for name in ("dcqcn", "dcqcn_vendor", "swift"):
        burst = "burst: 1 MB, every: 1 ms, window: 1000 packets"
        found += run([f"{RC}, from: h5, to: h6, congestion_control: {name}, {burst}"])
    return found


def unequal() -> float:
    """Greatest over least completion time."""
    times = [row["burst_mean_ns"] for row in without_marks()]
    return max(times) / min(times)


# The workload of IRN's paper, in a fat-tree of 16 hosts in place of 54: Poisson arrivals of flows,
# of which half have one packet and 15 % 200 kB to 3 MB, at 70 % of the hosts' rate; queues of
# 240 kB.
FAT_TREE = "topology: {kind: fat_tree, k: 4}\npaths: {choice: ecmp}"
FAT_TREE_HOSTS = 16
FLOWS, DRAWS, LOAD, QUEUE = 1000, 3, 0.7, 222
WITH_PFC = ", lossless: {control: pfc, threshold: 220 kB}"


def _size(draws: random.Random) -> int:
    """Bytes of a flow."""
    share = draws.random()
    if share < 0.5:
        return draws.randint(32, 1000)
    if share < 0.85:
        return int(1000 * 200 ** draws.random())
    return draws.randint(200_000, 3_000_000)


def _arrivals(seed: int, keys: str) -> list[str]:
    """The flows of a draw, each a burst that has none after it."""
    draws = random.Random(seed)
    sizes = [_size(draws) for _ in range(FLOWS)]
    mean_ns = 8e9 * sum(sizes) / FLOWS / (LOAD * FAT_TREE_HOSTS * PORT_BPS)
    starts = accumulate(draws.expovariate(1 / mean_ns) for _ in range(FLOWS))
    found = []
    for size, start_ns in zip(sizes, starts, strict=True):
        source, target = draws.sample(range(1, FAT_TREE_HOSTS + 1), 2)
        ends = f"from: h{source}, to: h{target}, start: {int(start_ns)} ns"
        found.append(f"{RC}, {ends}, burst: {size} B, every: 1000 s, {keys}")
    return found


def completion_ns(seed: int, keys: str, links: str) -> float:
    """Mean completion time of the flows of a draw, all of which complete."""
    flows = _arrivals(seed, keys)
    rows = run(flows, links, compute=0.35, network=FAT_TREE, queue=QUEUE)
    assert all(row["bursts"] == 1 for row in rows)
    return sum(row["burst_mean_ns"] for row in rows) / FLOWS


def irn(control: str = "none", marks: str = "") -> list[float]:
    """Least and greatest ratio of the draws: go-back-N with PFC and without a window, as RoCE, over
    selective repeat without, in a window of one bandwidth-delay product."""
    keys = f"congestion_control: {control}, recovery"
    ratios = [
        completion_ns(seed, f"{keys}: go_back_n, window: unlimited", marks + WITH_PFC)
        / completion_ns(seed, f"{keys}: selective_repeat, window: bdp", marks)
        for seed in range(1, DRAWS + 1)
    ]
    return [min(ratios), max(ratios)]


ROWS: dict[str, Callable[[], float | list[float]]] = {
    "dcqcn_jain": jain,
    "dcqcn_share": shares,
    "dcqcn_recovery": lambda: after_cuts(1)[0],
    "dcqcn_increase": lambda: after_cuts(2)[1],
    "dcqcn_increase_timer": lambda: after_cuts(2, counts_bytes=False)[1],
    "nscc_jain": lambda: jain(*NSCC),
    "nscc_rate": lambda: totals(*NSCC),
    "nscc_delay": lambda: delay(*NSCC),
    "gbn_loss": with_loss,
    "irn_over_pfc": irn,
    "irn_over_pfc_dcqcn": lambda: irn("dcqcn", MARKS),
    "uncongested_equal": unequal,
    "uncongested_marks": lambda: sum(row["marked"] for row in without_marks()),
}


if __name__ == "__main__":
    sys.exit(command(FILE, ROWS, __doc__))
