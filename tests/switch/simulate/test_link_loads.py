"""Bytes on links before a run (testbed/setup/link_loads.py), against every packet of the run:
random programs on random networks that lose nothing."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from p4fabric.base.config.pcapng import INBOUND
from p4fabric.simulate import taps
from p4fabric_testing.matrix import first_of

from testbed.cli.program_times import tiers_of
from testbed.experiment import load_text
from testbed.protocols.sizes import frame_bytes
from testbed.run_parts.program import prepare
from testbed.schemes import set_up
from testbed.setup import Setup
from testbed.setup.link_loads import PAIRS, TierLoad, loads_of
from testbed.simulate.simulation import Simulation
from testbed.traffic.rank_calls import load_program
from testbed.traffic.rank_counts import kind_of_group
from testbed.traffic.rank_graph import SEND
from tests.support.experiments import memory_line
from tests.support.histories.cases import TINY
from tests.support.ranks import drawn

TEXT = """
name: drawn
runtime: virtual
topology: {topology}
links: {{bandwidth: {rate} Gbit/s, delay: 1 us, each: [{slow}]}}
{switches}
{more}
system: {{name: {system}}}
{memory}
values_per_packet: {values}
jobs:
  - name: job
    model: {model}
    workers: {workers}
    iterations: {iterations}
    placement: {placement}
"""
NETWORKS = (
    "{kind: leaf_spine, leaves: 2, spines: 2, hosts: 5}",
    "{kind: two_level, tors: 2, hosts: 4, servers: 3}",
    "{kind: star, hosts: 10}",
)
FORWARDING = "switches: {each: [{switch: s1, aggregates: false}]}"
SUMS = (
    *("esa", "switchml", "atp", "switchml", "esa, results_from: switch", "atp", "esa"),
    "grid, memory: esa",
)
HOSTS = ("ring", "ps", "halving_doubling", "double_tree", "hierarchical", "colocated_ps")
SYSTEMS = (*SUMS, *HOSTS)
Way = tuple[str, str]


def drawn_setup(seed: int, folder: Path) -> Setup:
    """A job of ranks, or of every third seed one that replays a model."""
    draw = np.random.default_rng(seed)
    system = SYSTEMS[seed % len(SYSTEMS)]
    workers, values = int(draw.integers(2, 6)), int(draw.choice([4, 64]))
    model, more = TINY, ""
    if system == "ps" and draw.random() < 0.7:
        system += f", servers: {draw.integers(2, 4)}"
    if seed % 3:
        made = drawn(seed, workers, typed=False)
        model = made.write(folder / f"{seed}.et")
        if system in SUMS and seed % 2:
            more = "collectives: {all_reduce: [{use: ring}]}"
    forwards = system in ("esa", "switchml", "atp") and draw.random() < 0.6
    grid = "switches: {capacity: 1 Gbit/s, burst: 3 packets}" if "grid" in system else ""
    return set_up(
        load_text(
            TEXT.format(
                topology=NETWORKS[0 if forwards else draw.integers(3)],
                rate=draw.choice([1, 10]),
                slow="{between: [h1, s1], bandwidth: 300 Mbit/s}" if seed % 4 > 1 else "",
                switches=FORWARDING if forwards else grid,
                system=system,
                memory=memory_line(system.partition(",")[0], 4096),
                values=values,
                model=model,
                workers=workers,
                iterations=draw.integers(1, 3),
                placement=draw.choice(["packed", "spread"]),
                more=more,
            )
        )
    )


def carried(setup: Setup) -> tuple[Counter[Way], int]:
    """Bytes of the frames with values that entered each link, counted packet by packet, and how
    many of them hosts sent again."""
    topology, found = setup.platform.topology, Counter()
    empty = frame_bytes(0, setup.platform.bitmap_bits)

    def seen(switch: str, port: int, direction: int, time_ns: int, frame: bytes) -> None:
        other = topology.ports(switch)[port][0]
        if len(frame) > empty and (direction != INBOUND or topology.is_host(other)):
            found[(other, switch) if direction == INBOUND else (switch, other)] += len(frame)

    simulation = Simulation(setup, prepare(setup).compiled)
    with closing(simulation.parts):
        every = {name: topology.ports(name) for name in simulation.nodes.switches}
        kept = taps.listen(simulation.nodes, every, seen)
        simulation.run()
        del kept
    resends = ("retransmissions", "ps_resends")
    counters = [node.machine.counters[0] for _, node in simulation.nodes.present]
    again = [int(each[name]) for each in counters for name in resends if name in each.dtype.names]
    return found, sum(again)


def counted(setup: Setup) -> tuple[Counter[Way], Counter[tuple[Way, str]]]:
    """What was counted before, by the ends of a link: in all, and of each kind of group."""
    whole: Counter[Way] = Counter()
    kinds: Counter[tuple[Way, str]] = Counter()
    for ((link, end), kind), size in loads_of(setup, 0).bytes.items():
        here, there = setup.platform.topology.links[link]
        way = (there, here) if end else (here, there)
        whole[way] += size
        kinds[way, kind] += size
    return whole, kinds


@pytest.mark.parametrize("seed", first_of(range(112), 28))
def test_links_carry_what_was_counted(seed, tmp_path):
    setup = drawn_setup(seed, tmp_path)
    times = setup.jobs[0].job.iterations
    told, kinds = counted(setup)
    wanted, again = carried(setup)
    found = {way: times * size for way, size in told.items() if size}
    if setup.platform.delivers:  # no worker waits for what a server gets
        servers = {host for each in setup.groups.values() for host in each.group.servers}
        servers |= {*setup.jobs[0].group.servers}
        wanted = {way: size for way, size in wanted.items() if not servers & {*way}}
    if "grid" in setup.platform.system.name:  # of which the links of hosts are counted
        wanted = {way: size for way, size in wanted.items() if way in found}
    if again or setup.platform.system.name in ("esa", "atp", "grid"):  # some fragments collide
        assert found.keys() <= wanted.keys()
        frame = setup.platform.longest_frame_bytes
        for way, size in wanted.items():
            assert found.get(way, 0) <= size <= 1.15 * found.get(way, 0) + 60 * frame, way
    else:
        assert found == wanted
    busiest(setup, kinds, tiers_of(setup, 0))
    assert {kind for _, kind in kinds} == senders(setup)
    for each in (*setup.jobs.values(), *setup.groups.values()):
        timers = each.timers
        assert timers.max_reminder_delay_ns >= 2 * timers.min_reminder_delay_ns
        assert timers.max_timeout_ns >= timers.min_timeout_ns


def senders(setup: Setup) -> set[str]:
    """The kinds of groups whose ranks send something, and of ranks without one."""
    job = setup.jobs[0]
    if not job.job.has_ranks:
        return {"dp"}
    program = load_program(job.trace.ranks)
    nodes = [(rank, node) for rank, nodes in enumerate(program.ranks) for node in nodes]
    groups = {node.route for _, node in nodes if len(program.groups.get(node.group, ())) > 1}
    pairs = any(not node.group and node.kind == SEND and node.peer != rank for rank, node in nodes)
    return {*map(kind_of_group, groups), *([PAIRS] if pairs else [])}


def busiest(setup: Setup, sizes: Counter[tuple[Way, str]], tiers: list[TierLoad]) -> None:
    """The rows that are printed have the slowest direction of each tier."""
    platform = setup.platform
    rates = {}
    of_tier = {}
    for link, (ends, tier) in enumerate(
        zip(platform.topology.links, platform.topology.tiers, strict=True)
    ):
        for way, direction in zip((ends, ends[::-1]), platform.link(link), strict=True):
            rates[way], of_tier[way] = direction.bandwidth_bps, tier
    rows = {(each.tier, each.kind): each for each in tiers}
    wanted: dict[tuple[str, str], Counter[Way]] = {}
    for (way, kind), size in sizes.items():
        for each in (kind, ""):
            wanted.setdefault((of_tier[way], each), Counter())[way] += size
    wanted = {key: found for key, found in wanted.items() if any(found.values())}
    assert rows.keys() == wanted.keys()
    for key, found in wanted.items():
        row = rows[key]
        most = max(-(-8 * 10**9 * size // rates[way]) for way, size in found.items())
        here, _, there = row.way.partition(" to ")
        assert row.least_ns == most == -(-8 * 10**9 * row.bytes // rates[here, there])
        assert row.bytes == found[here, there]
        assert row.links == len({frozenset(way) for way, size in found.items() if size})
