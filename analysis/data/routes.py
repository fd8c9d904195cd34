"""The routes of a run's network, found again from its table `links`.

The table has the links that were up, by port, and routes follow from those (testbed.routing.tree):
shortest paths, and among equals the lowest port. So results say where a job's gradients meet
without the experiment's topology, which may be a program of its own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING

import pandas as pd

from testbed.routing.tree import next_nodes

if TYPE_CHECKING:
    from testbed.results import Results

_JOB = ["repetition", "job"]


def meeting_switches(results: Results) -> pd.DataFrame:
    """Columns repetition, job, switch: the switches on the shortest paths of all workers of a job
    to its PS, so that a sum that is complete there is one over all workers. Jobs without a PS have
    none."""
    found = []
    for repetition, links in results.links.groupby("repetition"):
        hosts = results.hosts[results.hosts["repetition"] == repetition]
        neighbours = _neighbours(links, set(hosts["host"]))
        servers = hosts[hosts["role"] == "ps"]
        for job, server in servers[["job", "host"]].itertuples(index=False):
            (last,) = neighbours[server]
            towards = next_nodes(neighbours.__getitem__, hosts["host"], last)
            workers = hosts[(hosts["job"] == job) & (hosts["role"] == "worker")]["host"]
            paths = [_path(towards, *neighbours[worker], last) for worker in workers]
            shared = set.intersection(*map(set, paths)) if paths else set()
            found += [(repetition, job, switch) for switch in sorted(shared)]
    return pd.DataFrame(found, columns=[*_JOB, "switch"]).astype(results.hosts[_JOB].dtypes)


def _neighbours(links: pd.DataFrame, hosts: set[str]) -> defaultdict[str, list[str]]:
    """The neighbours of each switch by port, and of each host its switch."""
    ports = links[["node", "port", "neighbour"]].drop_duplicates().sort_values(["node", "port"])
    found: defaultdict[str, list[str]] = defaultdict(list)
    for node, neighbour in ports[["node", "neighbour"]].itertuples(index=False):
        if neighbour in hosts:
            found[neighbour] = [node]
        if node not in hosts:
            found[node].append(neighbour)
    return found


def _path(towards: Mapping[str, str], first: str, last: str) -> list[str]:
    """The switches from one to another."""
    path = [first]
    while path[-1] != last:
        path.append(towards[path[-1]])
    return path
