"""All-reduce of programs' arrays through the switch, beside gloo on the same network.

    sudo .venv/bin/python -m bench allreduce [--systems esa,atp] [--ranks 4,8]
                                      [--megabytes 1,10,100] [--rates 100,1000,0] [--rounds N]
                                      [--values 64,256,1024] [--loss PERCENT]

Ranks on one switch sum a float32 array, each in a network namespace of its own: first through the
backend's job, then through gloo's ring on links of the same rate (Mbit/s; 0: without a limit), of
which each may lose packets (`--loss`). `--values` is the number of values of the job's packets;
gloo has packets of 1500 bytes. A round begins with a barrier and ends when the rank has the sum;
its time is the slowest rank's. The table has the median round, the array's bytes over that time,
and the least time that the links allow, header bytes counted:

- INA: each rank sends the packets of docs/training.md ("Bytes") once, and gets as many.
- gloo: each rank sends 2 (W - 1) / W of the array, in TCP segments of 1448 bytes in frames of 1514.

Without PyTorch gloo's rows are left out.
"""

from __future__ import annotations

import argparse
import importlib.util
import shlex
import tempfile
from pathlib import Path

from bench import harness
from testbed.collective import prelude
from testbed.experiment.program_jobs import block_fragments
from testbed.protocols import sizes

GLOO_VALUES = 64  # of the packets of the job beside it, so that links carry 1500 bytes
EXPERIMENT = """
name: allreduce
topology: {{kind: star, hosts: {hosts}}}
{links}
values_per_packet: {values}
system: {{name: {system}}}
{memory}
timeout: 600 s
jobs:
  - {{name: sums, workers: {ranks}, collective_timeout: 20 min, command: "{command}"}}
"""

# SwitchML's window is all of its slots, two aggregators each. More than the queues hold are lost.
MEMORY = {"ps": "", "ring": "", "switchml": "memory: {aggregators: 512}"}

RANK = """
import sys, time
import numpy as np
import testbed

way, rounds, counts = sys.argv[1], int(sys.argv[2]), [int(each) for each in sys.argv[3:]]
if way == "gloo":
    import torch
    import torch.distributed as dist
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, barrier = dist.get_rank(), dist.barrier
else:
    from testbed import collective
    job = collective.join()
    rank, barrier = job.rank, job.barrier

for count in counts:
    if way == "gloo":
        tensor = torch.empty(count)
        fill, reduce = lambda: tensor.fill_(rank + 1.0), lambda: dist.all_reduce(tensor)
        first = lambda: float(tensor[0])
    else:
        array = job.empty(count)
        fill, reduce = lambda: array.fill(rank + 1.0), lambda: job.allreduce(array, out=array)
        first = lambda: float(array[0])
    for number in range(rounds):
        fill()
        barrier()
        begin = time.monotonic()
        reduce()
        seconds = time.monotonic() - begin
        ranks = round((2 * first()) ** 0.5)
        assert ranks * (ranks + 1) / 2 == first(), first()
        testbed.report(step=number, **{f"seconds_{count}": seconds})
barrier()
if way == "gloo":
    dist.destroy_process_group()
else:
    job.close()
"""


def least_s(way: str, ranks: int, count: int, rate_mbps: float, values: int = 64) -> float:
    """The time in which links of a rate carry what a rank must send; 0 without a limit. values: of
    a packet."""
    if not rate_mbps:
        return 0.0
    if way == "gloo":
        payload = 2 * (ranks - 1) / ranks * 4 * count
        return payload / 1448 * 1514 * 8 / (rate_mbps * 1e6)
    block = values * block_fragments(ranks, values)
    blocks = -(-count // block)
    packets = -(-prelude.prelude_words(ranks, blocks) // values) + -(-count // values)
    frame = sizes.frame_bytes(values, sizes.bitmap_width(ranks))
    share = 2 * (ranks - 1) / ranks if way == "ring" else 1.0
    return share * packets * frame * 8 / (rate_mbps * 1e6)


def run(
    way: str, values: int, options: argparse.Namespace, ranks: int, rate_mbps: float, folder: Path
):
    """{count: median seconds} and the run's fidelity. way: a system, or gloo. values: of a
    packet."""
    counts = [int(float(each) * 1e6 / 4) for each in options.megabytes.split(",")]
    program = ["rank.py", "gloo" if way == "gloo" else "ina", options.rounds, *counts]
    system = "esa" if way == "gloo" else way
    text = EXPERIMENT.format(
        hosts=ranks + 1,
        links=links(rate_mbps, options.loss),
        values=values,
        system=system,
        memory=MEMORY.get(system, "memory: {aggregators: 4096}"),
        ranks=ranks,
        command=shlex.join(str(each) for each in program),
    )
    slowest, fidelity = measured(folder, RANK, text)
    return {count: slowest[f"seconds_{count}"] for count in counts}, fidelity


def links(rate_mbps: float, loss_percent: float) -> str:
    """The key `links` of the experiment file."""
    given = [f"bandwidth: {rate_mbps:g} Mbit/s"] if rate_mbps else []
    given += [f"loss: {loss_percent:g} %"] if loss_percent else []
    return f"links: {{{', '.join(given)}}}" if given else ""


def measured(folder: Path, rank: str, experiment: str) -> tuple[dict[str, float], str | None]:
    """Reports of an experiment's ranks, by name: the median over steps of the slowest rank's
    value; and the run's fidelity. rank: text of rank.py."""
    (folder / "rank.py").write_text(rank)
    results = harness.run(experiment, folder)
    slowest = results.measures.groupby(["name", "step"]).value.max().groupby("name").median()
    return {str(name): float(value) for name, value in slowest.items()}, results.fidelity


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--systems", default="esa", help="comma-separated")
    parser.add_argument("--ranks", default="4,8", help="comma-separated")
    parser.add_argument("--megabytes", default="1,10,100", help="of the array, comma-separated")
    parser.add_argument("--rates", default="100,1000,0", help="Mbit/s; 0: without a limit")
    parser.add_argument("--values", default="64", help="of a packet, comma-separated")
    parser.add_argument("--loss", type=float, default=0.0, metavar="PERCENT", help="of each link")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    print(harness.machine())
    each = [int(values) for values in options.values.split(",")]
    ways = [(system, values) for system in options.systems.split(",") for values in each]
    if importlib.util.find_spec("torch"):
        ways.append(("gloo", GLOO_VALUES))
    else:
        print("no PyTorch (pip install '.[torch]'): gloo is left out")
    print(f"{'way':10}{'values':>7}{'ranks':>6}{'Mbit/s':>8}{'MB':>6}{'s':>10}{'MB/s':>8}"
          f"{'least s':>10}{'of it':>9}  fidelity")  # fmt: skip
    for rate in map(float, options.rates.split(",")):
        for ranks in map(int, options.ranks.split(",")):
            for way, values in ways:
                with tempfile.TemporaryDirectory() as folder:
                    found, fidelity = run(way, values, options, ranks, rate, Path(folder))
                for count, seconds in found.items():
                    least = least_s(way, ranks, count, rate, values)
                    ratio = f"{seconds / least:.2f}" if least else "-"
                    shown = "-" if way == "gloo" else values
                    print(f"{way:10}{shown:>7}{ranks:6}{rate or float('inf'):8g}{4e-6 * count:6g}"
                          f"{seconds:10.3g}{4e-6 * count / seconds:8.2f}{least:10.3g}{ratio:>9}"
                          f"  {fidelity}", flush=True)  # fmt: skip
