"""The memory that a model takes in virtual time, at full size.

    .venv/bin/python -m bench memory [--models vgg16,bert_large] [--systems esa,atp,ring]

One job on one switch at 100 Gbit/s, every value checked; each case in a process of its own. Printed
are the memory that is resident before the first packet and at most (all of it, with Python,
libraries and compiled code), and what testbed/machine/memory_estimate.py estimates. llama2-7b is a
program of data-parallel ranks, whose optimizer is sharded (zero1).

    --workers N   8 by default
    --values N    per packet: one number or several (256 by default)
    --scale X     of the model
    --seconds N   stop after so much processor time, and say how far it came
    --idle N,M    instead: what a host takes that does nothing, and how long the set-up lasts, from
                  57 racks of N and of M hosts with one job of four workers
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import resource
import time
from multiprocessing.connection import Connection
from pathlib import Path

from p4fabric.simulate import event_queue, loop

from bench.harness import ROOT
from testbed.experiment import load_text
from testbed.machine.memory_estimate import estimate_bytes
from testbed.run_parts.program import prepare
from testbed.schemes import set_up
from testbed.setup import Setup
from testbed.simulate import world
from testbed.simulate.parts import Parts
from testbed.systems import SYSTEMS

TEXT = """
name: memory
runtime: virtual
topology: {{kind: star, hosts: {hosts}}}
links: {{bandwidth: 100 Gbit/s, delay: 1 us}}
system: {system}
values_per_packet: {values}
{memory}
jobs:
  - {{model: {model}, workers: {workers}, iterations: 1, scale: {scale}, compute_scale: 0{more}}}
"""
MEMORY = "memory: {aggregators: 1024}"
RACKS = 57
IDLE = """
name: idle
runtime: virtual
topology: {{kind: two_level, tors: {racks}, hosts: {hosts}, servers: 1}}
links: {{bandwidth: 100 Gbit/s, delay: 1 us}}
system: {system}
{memory}
jobs: [{{model: resnet18, workers: 4, iterations: 1, scale: 0.001}}]
"""
TRANSFORMER = "{{transformer: {model}, sequence: 4096, global_batch: {workers}, gpu: h100}}"
EVENTS_AT_ONCE = 200_000


def text_of(model: str, system: str, workers: int, values: int, scale: float) -> str:
    """The experiment of a case."""
    parallel = ""
    if "-" in model:  # a transformer's name
        parallel = f", parallel: {{dp: {workers}, sharding: zero1}}"
        model = TRANSFORMER.format(model=model, workers=workers)
    return TEXT.format(
        hosts=workers + 1,
        system=system,
        values=values,
        memory=MEMORY if SYSTEMS[system].memory else "",
        model=model,
        workers=workers,
        scale=scale,
        more=parallel,
    )


def most_gib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def start(setup: Setup) -> Parts:
    """A world at time 0, with everything compiled."""
    parts = Parts(world.build(setup, prepare(setup).compiled))
    parts.run(-1, 0)
    return parts


def measure_racks(system: str, hosts: int, result: Connection) -> None:
    """Send the bytes and the seconds of processor time that a world of racks of idle hosts takes,
    beyond those of a small one."""
    memory = MEMORY if SYSTEMS[system].memory else ""

    def world_of(racks: int, hosts: int) -> Parts:
        text = IDLE.format(racks=racks, hosts=hosts, system=system, memory=memory)
        return start(set_up(load_text(text)))

    def resident() -> int:
        pages = Path("/proc/self/statm").read_text().split()[1]
        return int(pages) * resource.getpagesize()

    world_of(2, 4)
    before, begin = resident(), time.process_time()
    parts = world_of(RACKS, hosts)
    result.send((resident() - before, time.process_time() - begin))
    del parts


def compare_racks(system: str, fewer: int, more: int) -> None:
    """Print the line of a system."""
    taken = []
    for hosts in (fewer, more):
        ours, theirs = multiprocessing.Pipe(duplex=False)
        process = multiprocessing.get_context("spawn").Process(
            target=measure_racks, args=(system, hosts, theirs)
        )
        process.start()
        theirs.close()
        taken.append(ours.recv())
        process.join()
    (least, _), (most, seconds) = taken
    print(
        f"{system}: an idle host takes {(most - least) / (RACKS * (more - fewer)) / 1e3:.1f} kB;"
        f" {RACKS} racks of {more} take {most / 1e6:.0f} MB, and {seconds:.1f} s of processor time"
        " to set up",
        flush=True,
    )


def measure(title: str, text: str, seconds: float) -> None:
    """Run a case, and print a line."""
    setup = set_up(load_text(text, folder=ROOT))
    estimate = estimate_bytes(setup) / 2**30
    parts = start(setup)
    at_start, begin = most_gib(), time.process_time()
    reason = loop.EVENTS_HANDLED
    while reason == loop.EVENTS_HANDLED and time.process_time() - begin < seconds:
        reason = parts.run(event_queue.NEVER - 1, EVENTS_AT_ONCE)
    if reason not in (loop.EVENTS_HANDLED, loop.FINISHED):
        raise SystemExit(f"{title}: the run ended for reason {reason}")
    roles = [role for node in parts.nodes.hosts for role in node.roles]
    counted = [machine.counters[0] for spec, machine in roles if spec.is_worker]
    packets = sum(int(each.gradient_packets) for each in counted)
    checked = sum(int(each.values_checked) for each in counted)
    end = "to the end" if reason == loop.FINISHED else f"stopped at {parts.now_ns / 1e6:.1f} ms"
    print(
        f"{title}: {at_start:.2f} GiB at the start, {most_gib():.2f} GiB at most, estimated"
        f" {estimate:.2f} GiB; {packets} packets, {checked} values checked,"
        f" {time.process_time() - begin:.0f} s of processor time, {end}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--models", default="vgg16,bert_large")
    parser.add_argument("--systems", default="esa,atp,switchml,ps,ring")
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--values", default="256")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--idle", metavar="N,M")
    options = parser.parse_args()
    if options.idle:
        for system in options.systems.split(","):
            compare_racks(system, *map(int, options.idle.split(",")))
        return
    models, systems = options.models.split(","), options.systems.split(",")
    for model, values, system in itertools.product(models, options.values.split(","), systems):
        title = f"{model}, {system}, {values} values"
        text = text_of(model, system, options.workers, int(values), options.scale)
        process = multiprocessing.get_context("spawn").Process(
            target=measure, args=(title, text, options.seconds)
        )
        process.start()
        process.join()
        if process.exitcode:
            raise SystemExit(process.exitcode)
