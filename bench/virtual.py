"""Gradient packets, and gigabytes of gradients, per second of processor time in virtual time.

    .venv/bin/python -m bench virtual [--hosts 72] [--values 64] [--scale 1.0]
    .venv/bin/python -m bench virtual --hosts 9,72,512,1024,4096 --values 64 --per-worker 4000
    .venv/bin/python -m bench virtual --hosts 17 --values 1024 --per-worker 270230

Jobs of eight workers (ResNet-50 and VGG-16, by turns) with ESA at 100 Gbit/s, every value of every
result checked, for each number of values per packet (`--values`, by default 64, 256 and 1,024).
`--hosts` takes 9, 17 (one job of sixteen workers; the last command above sends the values of VGG-16
twice), 72 (eight jobs on one switch), 512, 1024 (64 and 128 jobs of seven workers in seven racks
and in fourteen, so that a packet passes two switches) and 4096 (448 jobs of eight workers in 57
racks), or several of them. A gradient packet is one fragment's contribution of one worker. What
follows from it (its sum, the result, the copies of the result) is part of its cost. A gigabyte is
of gradients: 4 bytes for each value of each worker. Compilation is not part of the time. The
kernel's part of it is for memory that is used for the first time.

The bound, in the last line, is what the machine's memory allows if each value passes it TOUCHED
times: it is written by its worker, read and added to what is read and written in a register,
written in a result, and read to be checked. Caches can be faster.

    --per-worker N  each worker sends N packets of 64 values in two iterations, or as many bytes in
                longer ones, whatever the number of hosts.
                Without it all cases have the same number of packets, so that more workers have
                shorter iterations, whose packets cost more: a layer has fewer of them
    --jitter-time X  for how long a drawn delay of a host lasts (auto, the default, or a time; at 0
                each frame has its own, so frames arrive in groups and there are fewer events)
    --threads N let N threads share the work of a network that can be divided (default 1), or
                several such numbers, one after the other
"""

from __future__ import annotations

import argparse
import itertools
import os
import resource
import time

import numpy as np
from p4fabric.simulate import event_queue, loop

from bench.harness import ROOT
from testbed.experiment import load_text
from testbed.run_parts.program import prepare
from testbed.schemes import set_up
from testbed.simulate import world
from testbed.simulate.parts import Parts

HEAD = """
name: bench
runtime: virtual
topology: {topology}
links: {{bandwidth: 100 Gbit/s, delay: 1 us}}
system: {{name: esa, window: 128}}
values_per_packet: {values}
virtual: {{worker_jitter_time: {jitter_time}, server_jitter_time: {jitter_time}}}
memory: {{aggregators: {aggregators}}}
jobs:
"""
JOB = (
    "  - {{model: {model}, workers: {workers}, iterations: 2, scale: {scale}, compute_scale: 0}}\n"
)
CASES = {
    9: ("{kind: star, hosts: 9}", 1, 8),
    17: ("{kind: star, hosts: 17}", 1, 16),
    72: ("{kind: star, hosts: 72}", 8, 8),
    512: ("{kind: two_level, tors: 7, hosts: 64, servers: 64}", 64, 7),
    1024: ("{kind: two_level, tors: 14, hosts: 64, servers: 128}", 128, 7),
    4096: ("{kind: two_level, tors: 57, hosts: 64, servers: 448}", 448, 8),
}
PACKETS = 3_000_000  # of a case, at scale 1
FEWEST = 1_000_000  # of a case, where the number for each worker is given
TOUCHED = 6
SIZES = {"resnet50": 25_557_032, "vgg16": 138_357_544}


def experiment(hosts: int, scale: float, jitter_time: str = "auto", values: int = 64):
    """The experiment of a case: the same bytes of gradients for any number of values per packet."""
    topology, jobs, workers = CASES[hosts]
    aggregators = 16 * jobs * workers
    text = HEAD.format(
        topology=topology, aggregators=aggregators, jitter_time=jitter_time, values=values
    )
    for number in range(jobs):
        model = ("resnet50", "vgg16")[number % 2]
        size = PACKETS * scale * 64 / (jobs * workers * 2) / SIZES[model]
        text += JOB.format(model=model, workers=workers, scale=size)
    return load_text(text, folder=ROOT)


def start(
    hosts: int, scale: float, jitter_time: str = "auto", threads: int = 1, values: int = 64
) -> Parts:
    """A world at time 0, with everything compiled."""
    spec = experiment(hosts, scale, jitter_time, values)
    setup = set_up(spec)
    parts = Parts(world.build(setup, prepare(setup).compiled), threads)
    parts.run(-1, 0)
    return parts


def memory_rate() -> float:
    """Bytes per second that one core reads and writes when it copies what no cache holds."""
    source, target = np.ones(1 << 27, np.uint8), np.ones(1 << 27, np.uint8)
    taken = []
    for _ in range(5):
        begin = time.perf_counter()
        target[:] = source
        taken.append(time.perf_counter() - begin)
    return 2 * source.nbytes / min(taken)


def gradient_packets(nodes: world.Nodes) -> int:
    counted = (node.machine.counters for node in nodes.hosts if node.is_worker)
    return sum(int(counters[0].gradient_packets) for counters in counted)


def gradient_bytes(nodes: world.Nodes) -> int:
    """Bytes of the gradients of all workers, 4 for each value, all iterations together."""
    jobs = (node.spec.job for node in nodes.hosts if node.is_worker)
    return sum(4 * sum(each.values for each in job.tensors) * job.iterations for job in jobs)


def rate(
    hosts: int, scale: float, jitter_time: str, threads: int, values: int, fewest: int
) -> None:
    """Print one case. The run is repeated until it has had the fewest packets."""
    set_up_s, cpu, kernel, wall, packets, size, events = 0.0, 0.0, 0.0, 0.0, 0, 0, 0
    while packets <= fewest:
        begin = time.process_time()
        parts = start(hosts, scale, jitter_time, threads, values)
        set_up_s = time.process_time() - begin
        at, at_cpu, at_kernel = time.perf_counter(), time.process_time(), os.times().system
        reason = parts.run(event_queue.NEVER - 1, 10**12)
        wall += time.perf_counter() - at
        cpu += time.process_time() - at_cpu
        kernel += os.times().system - at_kernel
        parts.close()
        if reason != loop.FINISHED:
            raise SystemExit(f"the run ended for reason {reason}")
        packets += gradient_packets(parts.nodes)
        size += gradient_bytes(parts.nodes)
        events += parts.events
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"{hosts:4} hosts, {values:4} values: {packets / cpu / 1e3:6.0f} thousand gradient packets,"
        f" {size / cpu / 1e9:.2f} GB, per second of processor time"
        f" ({1e9 * cpu / packets:5.0f} ns for a packet, {kernel / cpu:.0%} of it the kernel's,"
        f" {events / packets:.2f} events; {packets} packets, {cpu / wall:.0%} of a core, at most"
        f" {memory:.2f} GiB, set up in {set_up_s:.1f} s; {len(parts)} parts, {threads} threads,"
        f" {packets / wall / 1e3:.0f} thousand/s)",
        flush=True,
    )


def numbers(text: str) -> list[int]:
    return [int(each) for each in text.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "--hosts", default="9,72,512", help="9, 17, 72, 512, 1024, 4096, or several"
    )
    parser.add_argument("--values", type=numbers, default="64,256,1024", help="per packet")
    parser.add_argument("--jitter-time", default="auto", help="that a host's delay lasts")
    parser.add_argument("--threads", type=numbers, default="1", help="that share the work")
    parser.add_argument(
        "--scale", type=float, default=1.0, help="of the work, 1 is 3 million packets"
    )
    parser.add_argument("--per-worker", type=int, help="packets of each worker, instead of a scale")
    options = parser.parse_args()
    if options.per_worker is not None and options.per_worker < 1:
        parser.error(f"--per-worker {options.per_worker}: take 1 or more")
    for hosts in options.hosts.split(","):
        if not hosts.isdigit() or int(hosts) not in CASES:
            parser.error(f"--hosts {hosts}: take some of {', '.join(map(str, CASES))}")
        scale = options.scale
        fewest = 0
        if options.per_worker is not None:
            scale = options.per_worker * CASES[int(hosts)][1] * CASES[int(hosts)][2] / PACKETS
            fewest = FEWEST
        for values, threads in itertools.product(options.values, options.threads):
            rate(int(hosts), scale, options.jitter_time, threads, values, fewest)
    # Behind all cases, whose memory this would be a part of.
    print(f"bound: {memory_rate() / TOUCHED / 1e9:.2f} GB per second of processor time")
