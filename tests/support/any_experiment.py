"""Random experiments that must end with every value right: systems, networks, faults and options.

A strategy of hypothesis, so a failure shrinks to a small experiment. What does not fit together is
refused by the experiment's own checks and drawn again.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from testbed.systems import SYSTEMS
from tests.support.experiments import memory_line
from tests.support.histories.cases import OPTIONS, TINY, chosen
from tests.support.ranks import drawn
from tests.support.recordings import write_recording

NETWORKS = (
    "{kind: star, hosts: 9}",
    "{kind: leaf_spine, leaves: 2, spines: 2, hosts: 5}",
    "{kind: two_level, tors: 2, hosts: 4, servers: 2}",
    "{kind: rails, servers: 4, ranks: 2, ps: 2, server_ps: 1, scale_up: 4 Gbit/s, nic: 1 Gbit/s}",
)
# Few, because each is a compiled program of its own.
AGGREGATORS = (8, 1024)
VALUES_PER_PACKET = (4, 64)
LINKS = {
    "bandwidth": ("1 Gbit/s", "100 Gbit/s"),
    "delay": ("1 us", "20 us"),
    "queue": ("1000 packets", "12 packets"),
    "loss": ("0 %", "0.5 %", "5 %"),
    "duplicate": ("0 %", "2 %"),
    "reorder": ("0 %", "3 %"),
    "reorder_delay": ("200 us",),
    "jitter": ("0 ns", "500 ns"),
}
COSTS = (
    "",
    "costs: mininet",
    "costs: h100-roce-400g",
    "costs: {algorithms: {ring: {LL: {call: 3 us, inside: 300 ns, between: 2 us, rate: 50 %}},"
    " send: {Simple: {call: 2 us}}}, host: {delay: 2 us, jitter: 1 us}, copy: {latency: 1 us}}",
)
# That every job survives.
WORKER = "{at: 50 us, fault: pause, job: a, worker: 1, for: 10 ms}"
SLOW = "{at: 50 us, fault: slow, job: a, worker: 0, factor: 8, for: 10 ms}"
SERVER = "{at: 80 us, fault: pause, job: a, ps: 0, for: 10 ms}"
LINK = "{at: 80 us, fault: link_down, between: [s1, s3], failover: 300 us, for: 10 ms}"
TEXT = """
name: any
seed: {seed}
runtime: virtual
topology: {topology}
links: {{{links}}}
{planned}
{costs}
system: {{name: {system}{options}}}
{memory}
values_per_packet: {values}
value_bits: {bits}
timeout: 30 s
faults: [{faults}]
jobs:
{jobs}
"""
JOB = (
    "  - {{name: {name}, model: {model}, workers: {workers}, iterations: {iterations}{start},"
    " placement: {placement}}}"
)


@st.composite
def experiments(draw: st.DrawFn, folder: Any) -> str:
    """Text of an experiment; files that it names go to `folder` (Path)."""
    system = draw(st.sampled_from(sorted(OPTIONS)))
    options = draw(chosen(OPTIONS[system]))
    options.setdefault("timeout", "2 ms")
    topology = draw(st.sampled_from(NETWORKS))
    faults = ["", "", WORKER, SLOW]
    faults += [SERVER] if SYSTEMS[system].servers != "none" else []
    faults += [LINK] if "leaf_spine" in topology else []
    jobs = []
    for number in range(draw(st.integers(1, 2))):
        workers, model = draw(st.integers(2, 4)), str(TINY)
        what = draw(st.sampled_from(("model", "program", "recording")))
        if what == "recording":
            model = str(write_recording(folder / f"{workers}.npz", workers))
        elif what == "program":  # of ranks with groups
            seed = draw(st.integers(0, 999))
            made = drawn(seed, workers)
            model = str(made.write(folder / f"{workers}-{seed}.et"))
        jobs.append(
            JOB.format(
                name="ab"[number],
                model=model,
                workers=workers,
                iterations=draw(st.integers(1, 3)),
                start=", start: 30 us" * number,
                placement=draw(st.sampled_from(("packed", "spread", "random"))),
            )
        )
    return TEXT.format(
        seed=draw(st.integers(1, 9)),
        topology=topology,
        links=", ".join(f"{key}: {value}" for key, value in _links(draw(chosen(LINKS))).items()),
        costs=draw(st.sampled_from(COSTS if system != "grid" else COSTS[:2])),
        planned="switches: {capacity: 1 Gbit/s, burst: 3 packets}" if system == "grid" else "",
        system=system,
        options="".join(f", {key}: {value}" for key, value in options.items()),
        memory=memory_line(system, draw(st.sampled_from(AGGREGATORS))),
        values=draw(st.sampled_from(VALUES_PER_PACKET)),
        bits=draw(st.sampled_from((32, 16) if not SYSTEMS[system].algorithm else (32,))),
        faults=draw(st.sampled_from(faults)),
        jobs="\n".join(jobs),
    )


def _links(chosen: dict[str, str]) -> dict[str, str]:
    return {key: values[0] for key, values in LINKS.items()} | chosen
