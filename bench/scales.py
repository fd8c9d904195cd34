"""Comparison of systems at several scales of a model, with `scale_windows` or without it.

    .venv/bin/python bench/scales.py [--models resnet50] [--scales 1,0.5,0.125] [--plain]

Two jobs of each model, four workers each, share a switch at 100 Gbit/s in virtual time; 256 values
per packet, every value checked. A job's time is divided by the scale, so that it would be the same
at every scale if a small model were a large one in small. The table shows each system's time, and
its ratio to the first system's: the verdict. The last column is the largest difference of a ratio
from that at the first scale. The whole takes about 15 minutes on two cores.

    --systems X   esa,atp,switchml,ring,ps by default; the first one is what the others are compared
                  with
    --compute X   compute times as a share of the model's (default 0.05: links are the bottleneck)
    --iterations N, --repetitions N   of each run; times are means over jobs and repetitions
    --plain       without `scale_windows`: what it is for
    --processes N points at one time (default: all cores)
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

TEXT = """
name: scales
runtime: virtual
seed: {seed}
topology: {{kind: star, hosts: 10}}
links: {{bandwidth: 100 Gbit/s, delay: 1 us}}
system: {system}
values_per_packet: 256
scale_windows: {along}
{memory}
jobs:
  - &job
    model: {model}
    workers: 4
    iterations: {iterations}
    scale: {scale}
    compute_scale: {compute}
  - *job
"""
MODELS = "resnet50,vgg16,bert_large,gpt2"
MEMORY = "memory: {aggregators: 512}"


class Point(NamedTuple):
    model: str
    system: str
    scale: float
    seed: int
    compute: float
    iterations: int
    plain: bool


def job_time(point: Point) -> float:
    """Mean time of the jobs in ms, divided by the scale."""
    memory = MEMORY if SYSTEMS[point.system].memory else ""
    text = TEXT.format(
        seed=point.seed,
        system=point.system,
        along="no" if point.plain else "yes",
        memory=memory,
        model=point.model,
        iterations=point.iterations,
        scale=point.scale,
        compute=point.scale * point.compute,
    )
    setup = set_up(load_text(text, folder=ROOT))
    tables = run_repetition(setup, prepare(setup).compiled)
    return fmean(job["jct_ns"] for job in tables["jobs"]) / 1e6 / point.scale


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--models", default=MODELS)
    parser.add_argument("--systems", default="esa,atp,switchml,ring,ps")
    parser.add_argument("--scales", default="1,0.5,0.125")
    parser.add_argument("--compute", type=float, default=0.05)
    parser.add_argument("--iterations", type=int, default=1)
    parser.add_argument("--repetitions", type=int, default=1)
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args()
    models, systems = options.models.split(","), options.systems.split(",")
    scales = [float(each) for each in options.scales.split(",")]
    seeds = range(1, options.repetitions + 1)

    def point(model: str, system: str, scale: float, seed: int) -> Point:
        kind = options.compute, options.iterations, options.plain
        return Point(model, system, scale, seed, *kind)

    points = [point(*each) for each in itertools.product(models, systems, scales, seeds)]
    points.sort(key=lambda each: -each.scale)  # the longest ones first
    with ProcessPoolExecutor(options.processes) as pool:
        found = dict(zip(points, pool.map(job_time, points), strict=True))
    heads = [f"scale {scale:g}: ms" for scale in scales]
    print(f"| model | system | {' | '.join(heads)} | ratios to {systems[0]} | differ by |")
    print("|---" * (4 + len(scales)) + "|")
    for model in models:
        mean = {
            (system, scale): fmean(found[point(model, system, scale, seed)] for seed in seeds)
            for system in systems
            for scale in scales
        }
        for system in systems:
            times = [mean[system, scale] for scale in scales]
            ratios = [mean[system, scale] / mean[systems[0], scale] for scale in scales]
            worst = max((each / ratios[0] - 1 for each in ratios), key=abs)
            cells = [f"{time:.2f}" for time in times]
            shown = ", ".join(f"{ratio:.3f}" for ratio in ratios)
            print(f"| {model} | {system} | {' | '.join(cells)} | {shown} | {worst:+.1%} |")


if __name__ == "__main__":
    main()
