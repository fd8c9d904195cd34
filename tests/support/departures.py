"""Whether the causes of a run's departures add up to what its PS links carried."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace

import pandas as pd


def frames(tables: dict) -> SimpleNamespace:
    """A repetition's tables as data frames, as those of a results folder."""
    names = ("departures", "links", "hosts", "jobs")
    return SimpleNamespace(**{name: pd.DataFrame(tables[name]) for name in names})


def adds_up(read) -> dict[int, Counter]:
    """Asserts that each job's causes add up to what its PS links carried, and fit what its PSs got;
    returns the causes. `read`: a results folder's tables, of one repetition."""
    found = {}
    for job in read.jobs.itertuples():
        hosts = read.hosts[(read.hosts.job == job.job) & (read.hosts.role == "ps")].host
        links = read.links[read.links.neighbour.isin(hosts) & (read.links.direction == "egress")]
        rows = read.departures[read.departures.job == job.job]
        assert rows[rows.at_ps.astype(bool)].switch.isin(links.node).all()
        rows = rows[rows.at_ps.astype(bool)]
        counted = found[job.job] = Counter(dict(rows.groupby("cause").packets.sum()))
        carried, lost, doubled = links.packets.sum(), links.losses.sum(), links.duplicates.sum()
        assert len(hosts) and counted.total() == carried, (job.name, counted, carried)
        # A lost packet, or one that is under way at the end, may be an answer or a gradient.
        gradients = carried - counted["nothing_held"]
        assert gradients - lost - 20 <= job.ps_packets <= gradients + doubled, job.name
    return found
