"""Retransmissions and JCT of every shipped model and system.

    .venv/bin/python bench/losses.py [--models googlenet] [--systems "esa;atp"] [--losses 0,0.1,1,5]

Four jobs of four workers share a switch at 100 Gbit/s with too little memory, in virtual time.
Workers differ in speed, constantly and from iteration to iteration, by up to 10 % each. Models are
cut to so many values. For each share of packets that links lose (%), the table has the
retransmissions in percent of all gradient packets, and the mean job completion time in ms. On links
that lose nothing, each retransmission is needless. The whole takes about 20 minutes on two cores
for one share and seed.

    --values N     of each model (default 250,000)
    --compute X    compute times, in times of the model's at that size (default 0.1)
    --aggregators N  of the switch (default 128; GRID's plan needs 384)
    --seeds N      runs of each case (default 1)
    --processes N  runs at one time (default: all cores)
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from testbed.experiment import load_text  # noqa: E402
from testbed.runtimes.program import prepare  # noqa: E402
from testbed.schemes import set_up  # noqa: E402
from testbed.simulate.virtual_run import run_repetition  # noqa: E402
from testbed.systems import SYSTEMS  # noqa: E402
from testbed.traffic.trace import load_trace, shipped  # noqa: E402

TEXT = """
name: losses
runtime: virtual
seed: {seed}
topology: {{kind: star, hosts: 40}}
links:
  bandwidth: 100 Gbit/s
  delay: 1 us
  queue: 4000 packets
  ecn_threshold: 400 packets
  loss: {loss} %
system: {{{system}}}
{memory}
jobs:
  - &job
    model: {model}
    workers: 4
    iterations: 3
    scale: {scale:.6f}
    compute_scale: {compute:.8f}
    compute_jitter: 10 %
    speed_spread: 10 %
  - *job
  - *job
  - *job
"""
CASES = {
    "esa": "name: esa, window: 256",
    "esa, order front": "name: esa, window: 256, order: front",
    "atp": "name: atp, window: 256",
    "atp, gap 0": "name: atp, window: 256, gap: 0",
    "switchml": "name: switchml",
    "grid": "name: grid, window: 256",
    "ps": "name: ps, window: 128",
    "ps, 4 servers": "name: ps, window: 128, servers: 4",
    "ring": "name: ring, window: 512",
    "halving_doubling": "name: halving_doubling, window: 512",
    "double_tree": "name: double_tree, window: 512",
    "hierarchical": "name: hierarchical, window: 512",
    "colocated_ps": "name: colocated_ps, window: 512",
}
OF_A_PLAN = 384  # aggregators that GRID's plan needs


class Case(NamedTuple):
    model: str
    system: str  # of CASES
    loss: float  # %
    seed: int = 1
    values: int = 250_000
    compute: float = 0.1
    aggregators: int = 128


def run(case: Case) -> tuple[float, float]:
    """Retransmissions per gradient packet, and mean job completion time in ms."""
    name = CASES[case.system].partition(",")[0].removeprefix("name: ")
    scale = min(1, case.values / load_trace(case.model).values)
    aggregators = max(case.aggregators, OF_A_PLAN if name == "grid" else 0)
    text = TEXT.format(
        seed=case.seed,
        loss=case.loss,
        system=CASES[case.system],
        memory=f"memory: {{aggregators: {aggregators}}}" if SYSTEMS[name].memory else "",
        model=case.model,
        scale=scale,
        compute=scale * case.compute,
    )
    setup = set_up(load_text(text, folder=ROOT))
    jobs = run_repetition(setup, prepare(setup).compiled)["jobs"]
    sent = sum(job["gradient_packets"] for job in jobs)
    again = sum(job["retransmissions"] for job in jobs)
    return again / sent, fmean(job["jct_ns"] for job in jobs) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--models", default=",".join(shipped()))
    parser.add_argument("--systems", default=";".join(CASES), help="separated by semicolons")
    parser.add_argument("--losses", default="0")
    parser.add_argument("--values", type=int, default=250_000)
    parser.add_argument("--compute", type=float, default=0.1)
    parser.add_argument("--aggregators", type=int, default=128)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args()
    models, systems = options.models.split(","), options.systems.split(";")
    if unknown := [each for each in systems if each not in CASES]:
        parser.error(f"system {unknown[0]!r}: one of {'; '.join(CASES)}")
    losses = [float(each) for each in options.losses.split(",")]
    seeds = range(1, options.seeds + 1)

    def case(model: str, system: str, loss: float, seed: int) -> Case:
        size = options.values, options.compute, options.aggregators
        return Case(model, system, loss, seed, *size)

    cases = [case(*each) for each in itertools.product(models, systems, losses, seeds)]
    with ProcessPoolExecutor(options.processes) as pool:
        found = dict(zip(cases, pool.map(run, cases), strict=True))
    for loss in losses:
        print(f"\nLinks lose {loss:g} % of the packets: sent again, and job completion time\n")
        print(f"| model | {' | '.join(systems)} |")
        print("|---" * (1 + len(systems)) + "|")
        for model in models:
            cells = []
            for system in systems:
                runs = [found[case(model, system, loss, seed)] for seed in seeds]
                again, time = (fmean(each) for each in zip(*runs, strict=True))
                cells.append(f"{again:.3%}, {time:.2f} ms")
            print(f"| {model} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
