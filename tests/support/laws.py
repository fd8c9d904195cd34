"""Laws that every run of the tests is held against, and the least bytes of its links."""

from __future__ import annotations

from collections import Counter
from typing import Any

from p4fabric.netfile.law import broken

from testbed.analysis.laws import of_tables
from testbed.analysis.laws.tables import of_rows
from testbed.setup import Setup
from testbed.setup.link_loads import loads_of

MOST_RANKS = 64  # of all jobs, whose loads are counted


def hold(tables: dict[str, Any]) -> dict[str, Any]:
    """The tables of a repetition in virtual time, which must keep the laws."""
    lines = broken(of_tables([of_rows(tables)]))
    assert not lines, "\n".join(lines)
    return tables


def hold_loads(setup: Setup, tables: dict[str, Any]) -> None:
    """Links carry no less than was counted before the run, but for calls whose fragments several
    trees share; a worker that sends nothing but its gradients, none of them twice and none that
    no rank needs, sends just that."""
    platform, jobs = setup.platform, tables["jobs"]
    ranks = sum(row["workers"] for row in jobs)
    if platform.arrivals or platform.links_fail or ranks > MOST_RANKS or platform.omits_zeros:
        return
    least: Counter[tuple[str, str]] = Counter()
    needed: set[int] = set()  # jobs whose ranks all have something to give in each call
    for number, job in setup.jobs.items():
        row = jobs[number]
        own = [each for each in setup.groups.values() if each.ranks and each.ranks.job == number]
        calls = [call for each in own for call in each.ranks.calls.calls]
        if not any(call.from_one or call.from_others for call in calls):
            needed.add(number)
        by_share = any(len(each.group.trees) > 1 for each in (*own, job))
        if row["outcome"] == "finished" and not by_share:
            for (way, _), size in loads_of(setup, number).bytes.items():
                here, there = platform.topology.links[way[0]]
                least[(there, here) if way[1] else (here, there)] += size * job.job.iterations
    carried: Counter[tuple[str, str]] = Counter()
    for row in tables["links"]:
        ends = row["node"], row["neighbour"]
        if row["direction"] == "egress" or platform.topology.is_host(ends[1]):
            carried[ends if row["direction"] == "egress" else ends[::-1]] += row["bytes"]
    for way, size in least.items():
        assert size <= carried[way] + 1, f"{way}: at least {size} bytes, carried {carried[way]}"
    once = {row["job"] for row in jobs if row["retransmissions"] == 0}
    alike = {row["job"]: row["workers"] * row["fragments"] * row["iterations"] for row in jobs}
    gradients = {row["job"] for row in jobs if row["gradient_packets"] == alike[row["job"]]}
    roles = Counter(row["host"] for row in tables["hosts"])
    roles.update(host for flow in setup.flows for host in (flow.source, flow.target))
    for row in tables["hosts"]:
        way = row["host"], platform.topology.ports(row["host"])[1][0]
        whole = row["packets_sent"] * jobs[row["job"]]["workers"] == alike[row["job"]]
        alone = row["role"] == "worker" and roles[row["host"]] == 1 and whole
        if alone and row["job"] in once & gradients & needed and way in least:
            assert carried[way] == least[way], f"{way}: {least[way]} bytes, {carried[way]}"
