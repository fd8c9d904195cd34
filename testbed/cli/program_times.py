"""The least times of a job before it runs: of its links, and of an iteration."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

from p4fabric.base import units
from p4fabric.base.text_table import Column, Row, Table

from testbed.setup.job_setups import Setup
from testbed.setup.link_loads import Sizes, TierLoad, call_ns, loads_of, sizes_of, transfer_ns
from testbed.traffic.layer_program import layer_program
from testbed.traffic.rank_calls import load_program
from testbed.traffic.rank_counts import works
from testbed.traffic.rank_graph import SEND, GroupRoute, Node, Program
from testbed.traffic.rank_schedule import Schedule, schedule
from testbed.traffic.transfers import is_carried

_TIERS = (
    Column("tier", "tier", words=True),
    Column("groups", "groups", words=True),
    Column("links", "links", units.number),
    Column("way", "busiest", words=True),
    Column("bytes", "bytes", units.number, "bytes"),
    Column("least_ns", "least time", units.time, "ns"),
)
_SUMMARY = (Column("what", "of", words=True), Column("ns", "at least", units.time, "ns"))


def program_of(setup: Setup, number: int) -> Program:
    """The program of a job of any kind that replays."""
    job = setup.jobs[number]
    if job.job.has_ranks:
        return load_program(job.trace.ranks)
    return layer_program(job.trace, job.job.workers)


def takes_ns(setup: Setup, number: int) -> Callable[[int, Node], int]:
    """Least time of a call or send of a job, with links of its own."""
    platform, job = setup.platform, setup.jobs[number]
    hosts = job.job.fixed_placement.workers
    groups = {
        each.ranks.calls.route: each
        for each in setup.groups.values()
        if each.ranks is not None and each.ranks.job == number
    }
    sizes: dict[tuple, Sizes] = {
        (route, *_key(call.node)): sizes_of(call)
        for route, each in groups.items()
        if each.ranks is not None
        for call in each.ranks.calls.calls
    }
    members = program_of(setup, number).groups

    @cache
    def of_call(route: GroupRoute, key: tuple) -> int:
        if route not in groups:  # of a job without groups of ranks
            return call_ns(job.platform, job.group, Sizes(key[1] // 4))
        return call_ns(groups[route].platform, groups[route].group, sizes[(route, *key)])

    @cache
    def of_transfer(source: int, target: int, size: int) -> int:
        return transfer_ns(platform, hosts[source], hosts[target], size)

    def takes(rank: int, node: Node) -> int:
        if node.kind == SEND:
            return 0 if node.peer == rank else of_transfer(rank, node.peer, node.bytes)
        if is_carried(node):
            ranks = members[node.group]
            other = next(each for each in ranks if each != rank)
            part = -(-node.bytes // len(ranks))
            return of_transfer(rank, other, (len(ranks) - 1) * part)
        return of_call(node.route, _key(node))

    return takes


def _key(node: Node) -> tuple:
    return node.kind, node.bytes, node.dtype, node.peer


@dataclass(frozen=True)
class Least:
    """The least times of an iteration in ns: of the rank that computes most, of the link with the
    most to carry, and of the graph if each call had its links alone."""

    compute_ns: int
    link_ns: int
    graph_ns: int

    @property
    def all_ns(self) -> int:
        return max(self.compute_ns, self.link_ns, self.graph_ns)


def tables(tiers: Sequence[TierLoad], least: Least) -> tuple[Table, ...]:
    """The busiest link of each tier, and the least times of an iteration."""
    rows = []
    for each in tiers:
        row = (each.tier, each.kind or "all", each.links, each.way, each.bytes, each.least_ns)
        rows.append(Row(row, total=not each.kind))
    summary = [
        Row(("computation of the busiest rank", least.compute_ns)),
        Row(("bytes of the busiest link", least.link_ns)),
        Row(("graph, if each call had its links alone", least.graph_ns)),
    ]
    return (
        Table("links", "Bytes on links in an iteration, at least", _TIERS, rows),
        Table("least", "Least times of an iteration", _SUMMARY, summary),
    )


def least_of(program: Program, tiers: Sequence[TierLoad], ideal: Schedule) -> Least:
    """The least times of a program that computes as long as the job does."""
    return Least(
        compute_ns=max(work.compute_ns for work in works(program)),
        link_ns=max((each.least_ns or 0 for each in tiers), default=0),
        graph_ns=ideal.total_ns,
    )


def compute_scale(setup: Setup, number: int) -> float:
    """The factor on the times in a job's program; those of a layer-by-layer job have it already."""
    job = setup.jobs[number].job
    if not job.has_ranks:
        return 1.0
    return 1.0 if job.compute_scale is None else job.compute_scale


def tokens_per_second(setup: Setup, number: int, program: Program, total_ns: int) -> str:
    """Tokens per second and rank if an iteration takes this long; "" where that says nothing."""
    job = setup.jobs[number].job
    tokens = int(program.about.get("tokens", 0))
    if not tokens or job.scale != 1 or compute_scale(setup, number) != 1 or not total_ns:
        return ""
    rate = tokens / (total_ns / 1e9) / len(program.ranks)
    return f"at most {units.number(round(rate))} tokens/s and rank ({units.time(total_ns)})"


def tiers_of(setup: Setup, number: int) -> list[TierLoad]:
    """The busiest links of an iteration of a job."""
    return loads_of(setup, number).tiers()


def ideal_of(setup: Setup, number: int, program: Program) -> Schedule:
    """The schedule of an iteration in which each call has its links alone."""
    return schedule(program, takes_ns(setup, number))
