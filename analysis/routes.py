"""The routes of a run's network, found again from its table `links`.

The table has the links that were up, by port, and routes follow from those (testbed.routing.tree):
shortest paths, and among equals the lowest port. So results say where a job's gradients meet
without the experiment's topology, which may be a program of its own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING

import pandas as pd

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
            towards = _next_nodes(neighbours, server)
            workers = hosts[(hosts["job"] == job) & (hosts["role"] == "worker")]["host"]
            paths = [_path(towards, worker, server) for worker in workers]
            shared = set.intersection(*map(set, paths)) if paths else set()
            found += [(repetition, job, switch) for switch in sorted(shared)]
    return pd.DataFrame(found, columns=[*_JOB, "switch"]).astype(results.hosts[_JOB].dtypes)


def _neighbours(links: pd.DataFrame, hosts: set[str]) -> dict[str, list[str]]:
    """The neighbours of each node, a switch's by port."""
    ports = links[["node", "port", "neighbour"]].drop_duplicates().sort_values(["node", "port"])
    found: dict[str, list[str]] = {}
    for node, neighbour in ports[["node", "neighbour"]].itertuples(index=False):
        found.setdefault(node, []).append(neighbour)
        if neighbour in hosts:
            found.setdefault(neighbour, [node])
    return found


def _next_nodes(neighbours: Mapping[str, list[str]], target: str) -> dict[str, str]:
    """For each node that can reach the target: the next one on its way. Hosts do not forward."""
    towards = {target: target}
    queue = deque([target])
    while queue:
        node = queue.popleft()
        for neighbour in neighbours.get(node, ()):
            if neighbour not in towards:
                towards[neighbour] = node
                if len(neighbours.get(neighbour, ())) > 1:
                    queue.append(neighbour)
    return towards


def _path(towards: Mapping[str, str], source: str, target: str) -> list[str]:
    """The switches between two hosts."""
    path = []
    node = towards.get(source, target)
    while node != target:
        path.append(node)
        node = towards[node]
    return path
