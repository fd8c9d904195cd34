"""The picture of a network, as data: its links with their loads, and its nodes by what they do.

Pages draw it with Plotly (html/topology_chart.py), `ina show --figure` with matplotlib
(figures/topology_figure.py). Both show the same classes of loads, and the same groups of nodes. It
is made of the results of an experiment, of the table of ports of a network file's run, or of a
topology, whose links have no loads.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import pandas as pd
from p4fabric.base import units

from testbed.analysis.data.run_summary import MOST_JOBS, first_repetition, job_names
from testbed.analysis.data.topology_data import links, places, switch_names, switch_work
from testbed.analysis.style import plot_style

if TYPE_CHECKING:
    from testbed.results import Results

HOVERED = 16  # jobs that are listed for a switch
LABELS = 48  # nodes of one level that get their name written
_BENDS = 16  # pieces of a link within a level
_BEND = 0.3  # its highest point, in levels, where it crosses the whole picture
OF_BYTES = "bytes over the run against the link's rate, in the busier direction"
OF_TIME = "share of the run in which the link sends, in the busier direction"


class LoadClass(NamedTuple):
    """Loads up to a share of the link's rate, and the look of their lines: `width` in pixels,
    `dash` as Plotly and matplotlib name it."""

    most: float
    color: str
    width: float
    dash: tuple[str, str]
    title: str


LOADS = (
    LoadClass(0.10, "#C0C0C0", 1.5, ("solid", "-"), "load below 10 %"),
    LoadClass(0.50, "#9C9C9C", 2.5, ("solid", "-"), "load 10 to 50 %"),
    LoadClass(0.80, "#707070", 4.0, ("solid", "-"), "load 50 to 80 %"),
    LoadClass(float("inf"), "#2E2E2E", 5.0, ("dash", "--"), "load above 80 %"),
)
UNKNOWN = LoadClass(float("nan"), plot_style.GREY, 1.5, ("dot", ":"), "load unlimited or not known")
PLAIN = UNKNOWN._replace(dash=("solid", "-"), title="link")


@dataclass(frozen=True)
class Nodes:
    """Nodes of one look. `role`: switch, worker, ps, host (its tasks are not known) or idle (it has
    none); `hovers`: what is told of each; `job`: the number of the job that they belong to."""

    role: str
    title: str
    names: Sequence[str]
    hovers: Sequence[str]
    job: int | None = None

    @property
    def color(self) -> str:
        if self.job is not None:
            return plot_style.job_color(self.job)
        return {"switch": "#444444", "idle": plot_style.GREY}.get(self.role, "#888888")


@dataclass(frozen=True)
class NetworkPicture:
    """`links`: columns a, b, up_bytes (b to a), down_bytes, up_load, down_load (shares; NaN where
    not known), without the last four where nothing was sent. `load`: the definition of a load,
    for readers; "": there are none."""

    links: pd.DataFrame
    nodes: Sequence[Nodes]
    load: str
    place: Mapping[str, tuple[float, float]] = field(init=False)

    def __post_init__(self) -> None:
        switches = [name for some in self.nodes if some.role == "switch" for name in some.names]
        object.__setattr__(self, "place", places(self.links, switches))

    @property
    def height(self) -> float:
        """The highest level; that of hosts is 0."""
        return max(level for _, level in self.place.values())

    def named(self, some: Nodes) -> bool:
        """True if there is room for the names of these nodes."""
        crowds = Counter(level for _, level in self.place.values())
        return all(crowds[self.place[name][1]] <= LABELS for name in some.names)

    def way(self, a: str, b: str) -> list[tuple[float, float]]:
        """The points of a link's line. One within a level is bent, as it would cover others."""
        (ax, ay), (bx, by) = self.place[a], self.place[b]
        if ay != by:
            return [(ax, ay), (bx, by)]
        parts = [number / _BENDS for number in range(_BENDS + 1)]
        bend = 4 * _BEND * abs(bx - ax)
        return [(ax + part * (bx - ax), ay + bend * part * (1 - part)) for part in parts]

    def middles(self) -> tuple[list[float], list[float]]:
        """The middle of each link's line: all x, and all y."""
        ways = [self.way(a, b) for a, b in zip(self.links["a"], self.links["b"], strict=True)]
        pairs = [(way[(len(way) - 1) // 2], way[len(way) // 2]) for way in ways]
        x, y = ([(one[axis] + two[axis]) / 2 for one, two in pairs] for axis in (0, 1))
        return x, y

    def by_load(self) -> Iterator[tuple[LoadClass, pd.DataFrame]]:
        """The links of each class that has some, the least loaded first."""
        if not self.load:
            yield PLAIN, self.links
            return
        busier = self.links[["up_load", "down_load"]].max(axis=1)
        floor = -1.0
        for each in LOADS:
            yield from _if_any(each, self.links[(busier > floor) & (busier <= each.most)])
            floor = each.most
        yield from _if_any(UNKNOWN, self.links[busier.isna()])


def _if_any(each: LoadClass, some: pd.DataFrame) -> Iterator[tuple[LoadClass, pd.DataFrame]]:
    if len(some):
        yield each, some


# -- of an experiment's results


def of_results(results: Results) -> NetworkPicture | None:
    """The network of the first repetition; None where no link was counted."""
    edges = links(results)
    if not len(edges):
        return None
    switches = switch_names(results)
    there = set(edges["a"]) | set(edges["b"])
    hosts = first_repetition(results.hosts)
    work = _work(results)
    told = ["<br>".join([name, *work.get(name, [])]) for name in switches]
    nodes = [Nodes("switch", "switch", switches, told)]
    nodes += _of_jobs(hosts[hosts["host"].isin(there)], job_names(results.jobs))
    known = {name for some in nodes for name in some.names}
    ends = dict.fromkeys(edges[["a", "b"]].to_numpy().ravel())
    if idle := [name for name in ends if name not in known]:
        nodes.append(Nodes("idle", "host without a role", idle, idle))
    return NetworkPicture(edges, nodes, OF_BYTES)


def _of_jobs(hosts: pd.DataFrame, names: pd.Series) -> Iterator[Nodes]:
    """The hosts of each job; of many jobs, which use the same hosts in turn, the hosts of all.
    `names`: of the jobs."""
    if len(names) > MOST_JOBS:
        groups = [((None, role), some) for role, some in hosts.groupby("role")]
    else:
        groups = list(hosts.groupby(["job", "role"]))
    for (job, role), some in groups:
        server, owner = role == "ps", "all jobs" if job is None else names.get(job, job)
        title = f"{owner}: {'PS' if server else 'workers'}"
        shown = some["host"].drop_duplicates().tolist()
        if job is None:
            counts = some["host"].value_counts()
            hovers = [f"{name}: {'PS' if server else 'worker'} of {counts[name]}" for name in shown]
        elif server:
            hovers = [f"{name}: {title}" for name in shown]
        else:
            pairs = zip(shown, some["worker"], strict=True)
            hovers = [f"{name}: worker {worker} of {owner}" for name, worker in pairs]
        number = None if job is None else int(job)
        yield Nodes("ps" if server else "worker", title, shown, hovers, number)


def _work(results: Results) -> dict[str, list[str]]:
    """The work of each switch for its jobs, in lines: for the jobs of which it completed most."""
    names = job_names(results.jobs)
    found: dict[str, list[str]] = {}
    for switch, counts in switch_work(results)["completions"].groupby("switch"):
        most = counts.droplevel("switch").nlargest(HOVERED)
        shown = most.sort_index().items()
        found[switch] = [
            f"{names.get(job, job)}: {units.number(count)} sums completed" for job, count in shown
        ]
        if len(counts) > len(most):
            found[switch].append(f"and {len(counts) - len(most)} more jobs")
    return found


# -- of networks without jobs


def of_ports(rows: Iterable[Mapping[str, str | float]]) -> NetworkPicture | None:
    """The network of a network file's run in virtual time. rows: its table of ports, as values or
    as texts; None where it is empty. Parallel links are one, with the load of the busiest.

    A packet takes time on a link with a rate, so one that sent and was never busy has none."""
    sent: dict[tuple[str, str], int] = defaultdict(int)
    loads: dict[tuple[str, str], list[float]] = defaultdict(list)
    switches: dict[str, None] = {}
    for row in rows:
        way = str(row["switch"]), str(row["neighbour"])
        switches[way[0]] = None
        way = way if row["direction"] == "egress" else (way[1], way[0])
        octets, busy = int(row["bytes"]), float(row["busy"])
        sent[way] += octets
        loads[way] += [busy] if busy or not octets else []
    pairs = dict.fromkeys((a, b) if a in switches else (b, a) for a, b in sent)
    pairs = {ends: None for ends in pairs if ends[::-1] not in pairs or ends < ends[::-1]}
    if not pairs:
        return None
    most = {way: max(known, default=float("nan")) for way, known in loads.items()}
    found = [(a, b, sent[b, a], sent[a, b], most.get((b, a)), most.get((a, b))) for a, b in pairs]
    columns = ["a", "b", "up_bytes", "down_bytes", "up_load", "down_load"]
    hosts = [b for _, b in pairs if b not in switches]
    edges = pd.DataFrame(found, columns=columns).astype({"up_load": float, "down_load": float})
    return NetworkPicture(edges, _plain(switches, hosts), OF_TIME)


def of_topology(
    hosts: Sequence[str], switches: Sequence[str], ends: Sequence[tuple[str, str]]
) -> NetworkPicture:
    """A network that has not run. ends: of each link."""
    edges = pd.DataFrame(list(ends), columns=["a", "b"])
    return NetworkPicture(edges, _plain(switches, hosts), "")


def _plain(switches: Iterable[str], hosts: Iterable[str]) -> list[Nodes]:
    named, ends = list(switches), list(hosts)
    return [Nodes("switch", "switch", named, named), Nodes("host", "host", ends, ends)]
