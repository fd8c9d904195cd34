"""What the live view costs: the same runs with it and without it, by turns.

    .venv/bin/python -m bench.live_view                # virtual time
    sudo .venv/bin/python -m bench.live_view --mininet

Each round is a pair of runs of the same experiment, one with a terminal of 120 columns, whose
output goes to /dev/null, and one without any output; which of them comes first changes from round
to round, so that a machine that gets slower or faster favours neither. What counts is a pair's
ratio. In virtual time that is of processor time and of the whole time; on Mininet, where hosts and
switch take all that the machine has (links without a limit, no compute time), of gradient packets
per second, so that it shows whatever the view takes from them.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from rich.console import Console

from testbed import runner as runtimes
from testbed.experiment import Experiment, load_text
from testbed.results import read
from testbed.runtimes.program import Program, prepare
from testbed.simulate import virtual_run

JOBS = """
system: {{name: esa, window: 128}}
memory: {{aggregators: 512}}
jobs:
  - {{model: resnet50, workers: 4, iterations: {iterations}, scale: {scale}, compute_scale: 0}}
  - {{model: vgg16, workers: 4, iterations: {iterations}, scale: {scale}, compute_scale: 0}}
"""
VIRTUAL = """
name: view
runtime: virtual
topology: {{kind: star, hosts: 10}}
links: {{bandwidth: 100 Gbit/s, delay: 1 us, queue: 1000 packets}}
"""
MININET = """
name: view
topology: {{kind: star, hosts: 10}}
timeout: 60 s
"""

Measured = dict[str, float]


def consoles(sink: object) -> dict[bool, Console]:
    """With the view and without, by whether it is shown."""
    settings = {"file": sink, "width": 120, "height": 50}
    return {
        True: Console(force_terminal=True, **settings),
        False: Console(quiet=True, **settings),
    }


def in_virtual_time(experiment: Experiment, program: Program, console: Console) -> Measured:
    """Times of one run in s."""
    cpu_s, whole_s = time.process_time(), time.monotonic()
    virtual_run.run_repetition(experiment, program.compiled, 0, console)
    return {
        "processor time": time.process_time() - cpu_s,
        "whole time": time.monotonic() - whole_s,
    }


def on_mininet(experiment: Experiment, program: Program, console: Console) -> Measured:
    """Gradient packets/s of one run, from the first job's start to the last one's end."""
    with tempfile.TemporaryDirectory() as parent:
        folder = runtimes.run_experiment(experiment, program, Path(parent), console)
        jobs = read(folder).jobs
    span_ns = int(jobs["end_ns"].max()) - int(jobs["start_ns"].min())
    return {"gradient packets/s": 1e9 * float(jobs["gradient_packets"].sum()) / span_ns}


def pairs(run: Callable[[Console], Measured], rounds: int) -> Iterable[tuple[Measured, Measured]]:
    """(with the view, without) of each round."""
    with open(os.devnull, "w") as sink:
        by_view = consoles(sink)
        for number in range(rounds):
            order = (True, False) if number % 2 else (False, True)
            found = {shown: run(by_view[shown]) for shown in order}
            yield found[True], found[False]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--mininet", action="store_true", help="needs root")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--scale", type=float, default=0.03, help="of the models")
    parser.add_argument("--iterations", type=int, default=5)
    arguments = parser.parse_args()
    head = MININET if arguments.mininet else VIRTUAL
    text = (head + JOBS).format(scale=arguments.scale, iterations=arguments.iterations)
    experiment = load_text(text)
    runtimes.get_ready([experiment])
    program = prepare(experiment)
    once = on_mininet if arguments.mininet else in_virtual_time
    load = "load averages {:.2f} {:.2f} {:.2f}"
    print(f"{os.cpu_count()} cores, {load.format(*os.getloadavg())} before")
    with open(os.devnull, "w") as sink:
        once(experiment, program, consoles(sink)[False])  # compiles, fills caches
    ratios: dict[str, list[float]] = {}
    for with_view, without in pairs(lambda each: once(experiment, program, each), arguments.rounds):
        for what, value in with_view.items():
            ratios.setdefault(what, []).append(value / without[what])
            print(f"{what}: with the view {value:.4g}, without {without[what]:.4g}", flush=True)
    for what, found in ratios.items():
        print(
            f"{what}, with the view / without: median {statistics.median(found):.3f},"
            f" {min(found):.3f} to {max(found):.3f} in {len(found)} pairs"
        )
    print(f"{load.format(*os.getloadavg())} after")


if __name__ == "__main__":
    main()
