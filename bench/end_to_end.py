"""Gradient packets, and gigabytes of gradients, per second through the whole testbed.

    sudo .venv/bin/python bench/end_to_end.py [--systems esa,atp] [--values 64,256,1024]
                                           [--rounds N] [--offload off]

Eight workers in two jobs with a parameter server each, on one switch, links without a limit, no
compute time, every value of every result checked by every worker: hosts, sockets, switch and checks
share the machine's cores. A gradient packet is one fragment's contribution of one worker. The rate
is all gradient packets over the time from the first job's start to the last one's end, for each
number of values per packet.

    --memory    instead: the proportional set size of a worker with ResNet-50 at full size
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from testbed.results import find, read  # noqa: E402

EXPERIMENT = """
name: end-to-end
topology: {{kind: star, hosts: 10}}
system: {{name: {system}}}
memory: {{aggregators: 2048}}
values_per_packet: {values}
timeout: 60 s
offload: {offload}
jobs:
  - {{model: resnet50, workers: 4, iterations: {iterations}, scale: {scale}, compute_scale: 0}}
  - {{model: resnet50, workers: 4, iterations: {iterations}, scale: {scale}, compute_scale: 0}}
"""


def run(text: str, folder: Path):
    """Run an experiment in a process of its own; returns its Results."""
    file = folder / "bench.yaml"
    file.write_text(text)
    command = [sys.executable, str(ROOT / "run.py"), str(file), "--results", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stdout[-2000:] + done.stderr[-2000:])
    return read(find(folder)[-1])


def experiment(
    system: str, scale: float, iterations: int, offload: str = "auto", values: int = 64
) -> str:
    """The experiment file. scale: of ResNet-50's tensors. values: per packet. offload:
    "on", "off" (packets one by one), or "auto"."""
    return EXPERIMENT.format(
        system=system, scale=scale, iterations=iterations, offload=offload, values=values
    )


def rate(text: str) -> tuple[float, str, float, float]:
    """(gradient packets/s, fidelity mark, CPU us per gradient packet of all hosts, bytes of
    gradients/s: 4 for each value of each worker, sent once)."""
    with tempfile.TemporaryDirectory() as folder:
        results = run(text, Path(folder))
        jobs, hosts = results.jobs, results.hosts
        if not jobs["exact"].all():
            raise SystemExit("a value was wrong")
        packets = float(jobs["gradient_packets"].sum())
        seconds = float(jobs["end_ns"].max() - jobs["start_ns"].min()) / 1e9
        cpu_us = float(hosts["cpu_ns"].sum()) / packets / 1e3
        sent = 4 * float(jobs["values_checked"].sum())  # each worker checks as many as it sends
        return packets / seconds, results.fidelity, cpu_us, sent / seconds


def memory() -> None:
    """PSS of workers with ResNet-50 at full size."""
    with tempfile.TemporaryDirectory() as folder:
        results = run(experiment("esa", 1, 1), Path(folder))
        pss = results.hosts.groupby("role")["pss_bytes"].max() / 1e6
        print(f"largest PSS: worker {pss['worker']:.1f} MB, parameter server {pss['ps']:.1f} MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--systems", default="esa", help="comma-separated")
    parser.add_argument("--values", default="64,256,1024", help="per packet, comma-separated")
    parser.add_argument("--scale", type=float, default=0.3)
    parser.add_argument("--iterations", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--offload", default="auto", choices=("auto", "on", "off"))
    parser.add_argument("--memory", action="store_true")
    options = parser.parse_args()
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, "
          f"Linux {platform.release()}, load {os.getloadavg()[0]:.1f}")  # fmt: skip
    if options.memory:
        memory()
        return
    print(
        f"{'system':10} {'values':>6} {'packets/s':>12} {'GB/s':>6} {'host CPU us/packet':>20}"
        "  fidelity"
    )
    for system in options.systems.split(","):
        for values in map(int, options.values.split(",")):
            text = experiment(system, options.scale, options.iterations, options.offload, values)
            rounds = [rate(text) for _ in range(options.rounds)]
            packets, fidelity, cpu_us, gradients = max(rounds)
            every = ", ".join(f"{each[0] / 1e3:.0f}k" for each in rounds)
            print(
                f"{system:10} {values:6} {packets:12,.0f} {gradients / 1e9:6.3f} {cpu_us:20.2f}"
                f"  {fidelity}  (rounds: {every})",
                flush=True,
            )


if __name__ == "__main__":
    main()
