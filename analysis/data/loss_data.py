"""Losses, marks and retransmissions per link and per job, by cause. All repetitions together,
so that counts add up to those of the tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from testbed.results.counters import LOSS_COLUMNS, LOSSES, RESENT

if TYPE_CHECKING:
    from testbed.results import Results

# Columns of table links that count what a link has not delivered, by their causes.
OF_LINKS = {**LOSS_COLUMNS, "unmodelled_drops": "unmodelled"}
OTHERS = -1  # in place of a job: packets of no job, or of which it is not known


def by_link(results: Results) -> pd.DataFrame:
    """A row per link and direction (index, such as `s6 to h35`) that has lost or marked packets:
    float64 columns for the causes of OF_LINKS, their sum `all`, and `marks`; NaN where that was not
    measured. Those with the most losses come first."""
    rows = results.links
    ends = rows["node"] + " to " + rows["neighbour"]
    back = rows["neighbour"] + " to " + rows["node"]
    names = ends.where(rows["direction"] == "egress", back).rename("link")
    counts = rows[[*OF_LINKS, "marks"]].astype("float64").rename(columns=OF_LINKS)
    found = counts.groupby(names, sort=False).sum(min_count=1)
    found.insert(len(OF_LINKS), "all", found[list(OF_LINKS.values())].sum(axis=1, min_count=1))
    found = found[(found > 0).any(axis=1)]
    return found.sort_values(["all", "marks"], ascending=False, kind="stable")


def by_job(results: Results) -> pd.DataFrame:
    """A row per job (index; OTHERS: other traffic) that has lost packets, or sent some again, or
    was told of marks: float64 columns `lost_CAUSE` for each of LOSSES, `sockets` (lost by the
    sockets of its hosts), `marked`, `resent`, and `after_CAUSE` for each of RESENT, which add up to
    `resent`; NaN where that is not known."""
    losses, resent, table = results.losses, results.resent, results.jobs.groupby("job")
    found = pd.DataFrame(index=pd.Index(results.jobs["job"].unique(), name="job"))
    if len(losses):
        counts = losses.assign(job=losses["job"].fillna(OTHERS).astype("int64"))
        lost = counts.pivot_table(index="job", columns="cause", values="packets", aggfunc="sum")
        found = found.join(lost.add_prefix("lost_"), how="outer")
    measured = bool(results.links["losses"].notna().any())
    for cause in LOSSES:
        column = found.get(f"lost_{cause}", pd.Series(float("nan"), found.index))
        found[f"lost_{cause}"] = column.fillna(0) if measured else column
    found["sockets"] = results.hosts.groupby("job")["socket_drops"].sum(min_count=1)
    found["marked"] = table["marked_results"].sum(min_count=1)
    found["resent"] = table["retransmissions"].sum(min_count=1)
    after = resent.pivot_table(index="job", columns="cause", values="packets", aggfunc="sum")
    for cause in RESENT:
        found[f"after_{cause}"] = after.get(cause, pd.Series(dtype="float64")).reindex(found.index)
        known = 0 if len(resent) or not found["resent"].any() else float("nan")
        found.loc[found.index != OTHERS, f"after_{cause}"] = (
            found[f"after_{cause}"].astype("float64").fillna(known)
        )
    found = found.astype("float64").sort_index(key=lambda jobs: jobs.where(jobs >= 0, 1 << 30))
    return found[(found > 0).any(axis=1)]


def lost_packets(results: Results) -> pd.Series:
    """By repetition, the packets that links have not delivered, whatever the cause; float64, NaN
    where that was not measured."""
    counts = results.links[[*OF_LINKS]].astype("float64").sum(axis=1, min_count=1)
    return counts.groupby(results.links["repetition"]).sum(min_count=1)
