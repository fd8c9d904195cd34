"""Time of small all-reduces, which is latency: through the switch, and over gloo beside it.

    sudo .venv/bin/python bench/small_sums.py [--systems esa,esa_from_switch,switchml] [--ranks 4]
                                              [--calls 500] [--values 1,12000] [--rounds 5]

Ranks on one switch, with unlimited links, sum arrays of float32. All ways take turns in one run, in
rounds of `--calls` sums of each, so that they meet the same machine:

- ina: `dist.all_reduce`, one after the other; ina_async: all begin, then all are waited for.
- job: `job.allreduce` of the numpy interface, without PyTorch.
- gloo, gloo_async: the same by a group of these ranks over gloo, on the same network.

12,000 values (48 kB) are what a step of inference sums. The table has the median over rounds of the
slowest rank's time, per sum, its ratio to gloo's, and the processor time of a rank's process.
"""

from __future__ import annotations

import argparse
import os
import platform
import shlex
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from bench.allreduce import measured  # noqa: E402

EXPERIMENT = """
name: small-sums
topology: {{kind: star, hosts: {hosts}}}
system: {system}
memory: {{aggregators: 1024}}
timeout: 600 s
jobs:
  - {{name: sums, workers: {ranks}, command: "{command}"}}
"""

# Other names stand for themselves.
SYSTEMS = {"esa_from_switch": "{name: esa, results_from: switch}"}
GLOO = dict.fromkeys(("ina", "job", "gloo"), "gloo") | dict.fromkeys(
    ("ina_async", "gloo_async"), "gloo_async"
)
WAYS = list(GLOO)  # each with the one that it is held against

RANK = """
import sys, time
import torch, torch.distributed as dist
import testbed

rounds, calls, sizes = int(sys.argv[1]), int(sys.argv[2]), [int(each) for each in sys.argv[3:]]
torch.set_num_threads(1)
dist.init_process_group("ina")
gloo = dist.new_group(backend="gloo")
job = dist.group.WORLD._job


def one_by_one(group, tensor):
    for _ in range(calls):
        dist.all_reduce(tensor, group=group)


def together(group, tensor):
    works = [dist.all_reduce(tensor.clone(), group=group, async_op=True) for _ in range(calls)]
    for each in works:
        each.wait()


def without_torch(group, tensor):
    array = tensor.numpy()
    for _ in range(calls):
        job.allreduce(array, out=array)


WAYS = {
    "ina": (one_by_one, None),
    "job": (without_torch, None),
    "gloo": (one_by_one, gloo),
    "ina_async": (together, None),
    "gloo_async": (together, gloo),
}
for size in sizes:
    for number in range(rounds + 1):  # the first one is not counted
        for name, (way, group) in WAYS.items():
            tensor = torch.zeros(size)
            dist.barrier(gloo)
            begin, used = time.perf_counter(), time.process_time()
            way(group, tensor)
            took = (time.perf_counter() - begin) / calls
            used = (time.process_time() - used) / calls
            if number:
                measures = {f"{name}_{size}": took, f"{name}_{size}_processor": used}
                testbed.report(step=number, **measures)
dist.barrier()
dist.destroy_process_group()
"""


def run(system: str, options: argparse.Namespace, folder: Path) -> dict[str, float]:
    """{WAY_VALUES: median seconds per sum, WAY_VALUES_processor: of the rank's processor time}."""
    program = ["rank.py", options.rounds, options.calls, *options.values.split(",")]
    command = shlex.join(str(each) for each in program)
    text = EXPERIMENT.format(
        hosts=options.ranks + 1,
        system=SYSTEMS.get(system, system),
        ranks=options.ranks,
        command=command,
    )
    return measured(folder, RANK, text)[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--systems", default="esa,esa_from_switch,switchml", help="comma-separated")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--calls", type=int, default=500, help="sums in a round")
    parser.add_argument("--values", default="1,12000", help="of a sum, comma-separated")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, "
          f"Linux {platform.release()}, load {os.getloadavg()[0]:.1f}")  # fmt: skip
    print(f"{'system':16}{'values':>8}  {'way':14}{'us':>8}{'of gloo':>9}{'processor us':>14}")
    for system in options.systems.split(","):
        with tempfile.TemporaryDirectory() as folder:
            found = run(system, options, Path(folder))
        for size in options.values.split(","):
            for way in WAYS:
                seconds, gloo = (found[f"{each}_{size}"] for each in (way, GLOO[way]))
                used = found[f"{way}_{size}_processor"]
                print(f"{system:16}{size:>8}  {way:14}{1e6 * seconds:8.0f}{seconds / gloo:9.2f}"
                      f"{1e6 * used:14.0f}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
