"""Filling a switch's tables for an experiment.

Every program has routes to every host and switch, as prefixes where hosts are below one switch,
and thresholds of congestion marks. The other tables depend on the system, so its scheme fills them
(testbed/schemes).
"""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from p4fabric.base.hops import routes
from p4fabric.base.topology import Topology

from testbed.dataplane import path_tables
from testbed.dataplane.table_calls import addresses
from testbed.number_formats import INT32
from testbed.paths import P4
from testbed.protocols.sizes import FEWEST_JOBS, aggregator_places, job_places, rounded_bits

if TYPE_CHECKING:
    from testbed.setup.job_setups import Control, JobSetup, Platform, Setup

_log = logging.getLogger(__name__)

MARK_UNIT = 1 << 24  # of a probability in p4/egress.p4


def program(platform: Platform) -> tuple[Path, dict[str, int], tuple[Path, ...]]:
    """The P4 program of the switches: file, definitions, include folders."""
    definitions = {"VALUES": platform.values, "BITMAP_WIDTH": platform.bitmap_bits}
    if platform.tokens:
        definitions |= {"BITMAP_WIDTH": platform.bitmap_bits // 2, "TOKENS": 1}
    if platform.value_bits < 32:
        definitions["VALUE_BITS"] = platform.value_bits
    if platform.numbers > FEWEST_JOBS:
        definitions["JOBS"] = job_places(platform.numbers)
    if platform.system.servers != "none":
        definitions["DEPARTURES"] = 1
    if platform.system.memory:
        # A program of another's may work out places of aggregators with it.
        own = platform.program.is_relative_to(P4)
        count = platform.aggregators
        definitions["AGGREGATORS"] = aggregator_places(count) if own else count
        if platform.omits_zeros:
            definitions["ZEROS"] = 1
        if platform.sum.adder != INT32:
            definitions["ADDER"] = platform.sum.adder
        if platform.packs_sums:
            definitions["PACKED"] = 1
        if platform.mixes_integers:
            definitions["INTEGERS"] = 1
    definitions |= path_tables.definitions(platform)
    definitions |= platform.scheme.definitions(platform)
    return platform.program, definitions, (P4,)


def install(setup: Setup, switch: str, client: Control, with_routes: bool = True) -> None:
    """Fill all tables and multicast groups of one switch, in one batch.

    `client` is the switch's control interface (p4engine.control.client.Client)."""
    calls = list(entries_of(setup, switch, setup.jobs, with_routes).values())
    _log.debug("%s: %d table entries and groups", switch, len(calls))
    client.batch(calls)


def entries_of(
    setup: Setup, switch: str, jobs: Iterable[int], with_routes: bool = True
) -> dict[tuple, tuple]:
    """The control calls that fill the tables and multicast groups of one switch, for these jobs, by
    the thing that they set (`entry_of`), in order."""
    calls: list[tuple] = []
    platform = setup.platform
    path_tables.install_choice(platform, switch, calls)
    if with_routes:
        _install_routes(platform, switch, calls)
    _install_marks(platform, switch, calls)
    platform.scheme.tables(setup, switch, calls)
    if platform.admission == "port":
        calls.append(("table_set_default", "admission", "refuse", []))
    groups = [each for each in setup.groups.values() if each.ranks and each.ranks.job in jobs]
    for job in (*(setup.jobs[number] for number in jobs), *groups):
        calls += job_calls(platform, switch, job)
        calls += admission_calls(platform, switch, job)
    return {entry_of(call): call for call in calls}


def job_calls(platform: Platform, switch: str, job: JobSetup) -> list[tuple]:
    """The control calls that bring one job into a switch's tables and multicast groups. Several
    jobs may need the same entry."""
    calls: list[tuple] = []
    job.platform.scheme.job_tables(platform, switch, job, calls)
    if platform.value_bits < 32 and job.platform.system.memory:
        workers = len(job.group.workers)
        bits = rounded_bits(workers)
        below_half, odd = ((1 << bits - 1) - 1, 1) if bits else (0, 0)
        rounding = [(1 << workers) - 1, bits, below_half, odd]
        calls.append(("table_add", "rounding", "set_rounding", [job.group.number], rounding))
    return calls


def admission_calls(platform: Platform, switch: str, job: JobSetup) -> list[tuple]:
    """The control calls that admit one job's packets at a switch (p4/admission.p4)."""
    if platform.admission == "off":
        return []
    number, ports = job.group.number, sorted(job.group.ports.get(switch, ()))
    return [("table_add", "admission", "admit", [port, number], []) for port in ports]


def entry_of(call: tuple) -> tuple:
    """The thing that a call sets: an entry of a table, by its key, a table's default action, a
    multicast group, or a meter."""
    if call[0] == "table_add":
        _, table, _, match, _ = call
        return table, *match
    return call[:2]


def _install_routes(platform: Platform, switch: str, calls: list[tuple]) -> None:
    topology, groups = platform.topology, path_tables.Groups(platform, switch, calls)
    for nodes, port, neighbour in routes(topology, switch):
        mac, _ = addresses(topology, neighbour)
        action: tuple[str, list] = ("forward", [port, mac])
        if platform.paths is not None and platform.paths.of_packets:
            action = groups.route(nodes[0]) or action
        for prefix in _prefixes(topology, nodes):
            calls.append(("table_add", "route", action[0], [prefix], action[1]))


def _prefixes(topology: Topology, nodes: tuple[str, ...]) -> list[tuple[str, int]]:
    """The fewest prefixes that have the addresses of these nodes and no others."""

    def make() -> list[tuple[str, int]]:
        networks = [ipaddress.IPv4Network(addresses(topology, node)[1]) for node in nodes]
        found = ipaddress.collapse_addresses(networks)
        return [(str(each.network_address), each.prefixlen) for each in found]

    return topology.derived(("prefixes", nodes), make)


def _install_marks(platform: Platform, switch: str, calls: list[tuple]) -> None:
    for port, (_, link, end) in platform.topology.ports(switch).items():
        way = platform.link(link)[end]
        threshold, most = way.ecn_threshold_packets, way.ecn_max_threshold_packets
        if threshold and most is not None:
            slope = round(MARK_UNIT * Fraction(repr(way.ecn_max_probability))) // (most - threshold)
            values = [threshold, most, slope]
            calls.append(("table_add", "congestion", "set_slope", [port], values))
        elif threshold:
            calls.append(("table_add", "congestion", "set_threshold", [port], [threshold]))
