"""Causes of the packets to a job's PS: table departures beside the packets of the PS link.

A switch counts each packet that it sends towards a PS by its cause, where it leaves. So the counts
of the switch that the PS hangs on add up to the packets of the PS link. A job's groups may have PSs
of their own, for which another switch is the last one. Where background flows use that link as
well, their packets are left. Of what the link carried, some got lost and some were doubled; what is
neither that nor an answer to a reminder has reached the PS as a gradient.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from testbed.analysis.data.run_summary import naturally
from testbed.results.counters import DEPARTURES

if TYPE_CHECKING:
    from testbed.results import Results

_JOB = ["repetition", "job"]
ANSWERS = "nothing_held"
CARRIED = "carried by the PS link"
OTHERS = "other traffic on the PS link"
LINK_ROWS = {"lost": "lost on the PS link", "doubled": "doubled on the PS link"}
REACHED = "gradients that reached the PS"


def departures(results: Results) -> pd.DataFrame:
    """Columns job, switch, at_ps (bool), cause and packets (int64, all repetitions together): in
    the order of the jobs, the switches at the job's PSs first, causes as declared. No rows where
    the run has no PS, or is older than the table."""
    counted = results.departures
    if not len(counted):
        return pd.DataFrame(columns=["job", "switch", "at_ps", "cause", "packets"])
    ends = results.once(server_links)[[*_JOB, "node"]].drop_duplicates()
    rows = counted.merge(ends, left_on=[*_JOB, "switch"], right_on=[*_JOB, "node"], how="left")
    last = rows["at_ps"].astype("boolean").fillna(True).astype(bool)  # unknown in older runs
    rows["at_ps"] = last & rows["node"].notna()
    found = rows.groupby(["job", "switch", "at_ps", "cause"], as_index=False)["packets"].sum()
    rank = found["cause"].map({name: number for number, name in enumerate(DEPARTURES)})
    order = found.assign(rank=rank, elsewhere=~found["at_ps"])
    order = order.sort_values(
        ["job", "elsewhere", "switch", "rank"], key=naturally, ignore_index=True
    )
    return order[["job", "switch", "at_ps", "cause", "packets"]]


def server_links(results: Results) -> pd.DataFrame:
    """The rows of table links towards the PSs of each job, with the job: column job beside those of
    the table, without jobs whose PS's host has had another role as well."""
    hosts = results.hosts
    roles = hosts.groupby(["repetition", "host"])["job"].transform("size")
    servers = hosts[(hosts["role"] == "ps") & (roles == 1)][[*_JOB, "host"]]
    egress = results.links[results.links["direction"] == "egress"]
    return egress.merge(
        servers, left_on=["repetition", "neighbour"], right_on=["repetition", "host"]
    )


def link_packets(results: Results) -> pd.DataFrame:
    """By job (index), all repetitions together: `carried` by its PS links, of that `lost` and in
    addition `doubled`, and `reached`, the gradients that got to its PS; float64, NaN where that was
    not counted. Jobs without a PS of their own for the whole run have no row."""
    rows = results.once(server_links).groupby("job")
    found = pd.DataFrame(
        {
            "carried": rows["packets"].sum(),
            "lost": rows["losses"].sum(min_count=1),
            "doubled": rows["duplicates"].sum(min_count=1),
        }
    ).astype("float64")
    found["reached"] = results.jobs.groupby("job")["ps_packets"].sum(min_count=1)
    return found.astype("float64")


def per_fragment(results: Results) -> pd.DataFrame:
    """Gradient packets to the PS per fragment: a row per job, a column per cause, float64. Only
    what left the switches at the PSs."""
    rows = departures(results)
    rows = rows[rows["at_ps"].astype(bool) & (rows["cause"] != ANSWERS)]
    counts = rows.pivot_table(index="job", columns="cause", values="packets", aggfunc="sum")
    jobs = results.jobs
    fragments = (jobs["fragments"] * jobs["iterations"]).groupby(jobs["job"]).sum()
    shares = counts.div(fragments.reindex(counts.index).replace(0, np.nan), axis=0)
    return shares[[cause for cause in DEPARTURES if cause in shares]].fillna(0.0)
