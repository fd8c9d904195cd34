"""The tables of a run, of a comparison and of a sweep, as data (p4fabric/base/text_table.py).

A terminal, a page and a CSV file show the same tables. PS packets per fragment stand first because
they explain the times that follow (see data/run_summary.py).
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from p4fabric.base import units
from p4fabric.base.text_table import (
    Column,
    Estimate,
    Labelled,
    Row,
    Spread,
    Table,
    Value,
    table_data,
)
from p4fabric.base.ties import of_ties
from rich.text import Text

from testbed.analysis.data import departure_data, loss_data, tuned_data
from testbed.analysis.data.hardware_data import costs_words, hardware
from testbed.analysis.data.run_summary import (
    LENGTHS,
    Frames,
    by_switch,
    carriers,
    estimate,
    fallback_notes,
    job_names,
    layers_words,
    ratio_intervals,
)
from testbed.analysis.style.key_words import heading
from testbed.analysis.style.plot_style import differing
from testbed.results import write_whole
from testbed.results.counters import ENDINGS
from testbed.results.schema import TABLES
from testbed.systems import SYSTEMS

if TYPE_CHECKING:
    from testbed.analysis.data.map_data import Map
    from testbed.analysis.data.sweep_data import Point
    from testbed.analysis.style.plot_style import PlotStyle
    from testbed.results import Results

BUSIEST = 24  # links between switches that are printed
FEW_JOBS = 12  # that the table of events has columns of
_LONGEST = 2000  # rows of the table of fidelity
IN_VIRTUAL_TIME = "virtual time, in which nothing can be late"


def _yes(value: bool) -> str:
    return "yes" if value else "NO"


_words = partial(Column, words=True)
_count = partial(Column, show=units.number, unit="count")
_time = partial(Column, show=units.time, unit="ns")
_size = partial(Column, show=units.size, unit="bytes")
_share = partial(Column, show=units.share, unit="share")
_ratio = partial(Column, show=units.ratio)

# Columns whose key is one of the frames' columns hold its mean over repetitions.
PS_PACKETS = _ratio("ps_packets_per_fragment", "PS packets\n/ fragment")
IN_SWITCH = _share("in_switch_share", "completed\nin switch")
TO_PS = _size("ps_link_bytes_in", "to PS", group="PS link")
FROM_PS = _size("ps_link_bytes_out", "from PS", group="PS link")
JOB = _words("name", "job")
SWITCH = _words("switch", "switch")

JOBS = (
    JOB,
    _words("model", "model"),
    _words("fallback", "carried\nby"),
    Column("workers", "workers", unit="count"),
    PS_PACKETS,
    IN_SWITCH,
    _time("jct_ns", "JCT"),
    _words("layers", "of these\nsimulated"),
    _time("waiting_ns", "of that\nwaiting"),
    Column("iteration_ns", "iteration\n(min .. max)", units.spread, "ns"),
)
LENGTH = (
    _words("length", "length"),
    _count("jobs", "jobs"),
    _time("jct_ns", "average\nJCT"),
    _time("jct_p99_ns", "99th\npercentile"),
)
FAULTS = (
    _words("kind", "fault"),
    _words("target", "target"),
    _time("at_ns", "planned at"),
    _time("begun_ns", "took place"),
    _time("ended_ns", "ended"),
)
FLOWS = (
    _words("name", "flow"),
    _words("source", "from"),
    _words("target", "to"),
    _size("bytes", "arrived"),
    Column("mean_bps", "mean rate", show=units.rate, unit="bit/s"),
    _count("lost", "packets\nlost"),
    _count("marked", "marked"),
    _count("cnps", "CNPs"),
    _count("resent_gap", "gap", group="resent after"),
    _count("resent_timeout", "timeout", group="resent after"),
    _count("bursts", "bursts"),
    _time("burst_mean_ns", "mean", group="time of a burst"),
    _time("burst_max_ns", "longest", group="time of a burst"),
)
OF_CONNECTIONS = ("marked", "cnps", "resent_gap", "resent_timeout")  # columns of flows of kind rc
COLLECTIVES = (
    JOB,
    _words("collective", "collective"),
    _words("dtype", "type"),
    _words("route", "route"),
    _count("communicators", "groups"),
    _count("calls", "calls of\nall ranks"),
    _size("bytes", "given"),
    _time("mean_ns", "mean time\nof a call"),
)
ERRORS = ("largest_error", "mean_error", "order_bits")
KEPT_SUMS = (
    JOB,
    _words("group", "groups"),
    *(Column(key, f"{key[:-6]}\nerror", "{:.2g}".format) for key in ERRORS[:2]),
    Column("order_bits", "bits changed\nby order", "{:.2g}".format),
)
TRAFFIC = (
    JOB,
    _count("gradient_packets", "gradient\npackets"),
    _count("retransmissions", "resent"),
    _count("reminders", "reminders"),
    _count("asks", "retransmit\nrequests"),
    TO_PS,
    FROM_PS,
)
LOST_BY_LINK = (
    _words("link", "link"),
    _count("queue_full", "full\nqueue", group="lost"),
    _count("lost", "on the\nlink", group="lost"),
    _count("link_down", "link\ndown", group="lost"),
    _count("unmodelled", "outside\nthe model", group="lost"),
    _count("marks", "marked"),
)
LOST_BY_JOB = (
    JOB,
    _count("lost_queue_full", "full\nqueue", group="lost"),
    _count("lost_lost", "on\nlinks", group="lost"),
    _count("lost_link_down", "link\ndown", group="lost"),
    _count("sockets", "by\nhosts", group="lost"),
    _count("marked", "marked\nresults"),
    _count("resent", "all", group="resent"),
    _count("after_queue_full", "after full\nqueue", group="resent"),
    _count("after_lost", "after\nloss", group="resent"),
    _count("after_link_down", "link was\ndown", group="resent"),
    _count("after_collision", "no room\nin switch", group="resent"),
    _count("after_no_loss", "after\nno loss", group="resent"),
    _count("after_unknown", "not\nknown", group="resent"),
)
DEPARTURES = (
    JOB,
    SWITCH,
    _words("cause", "why it was sent"),
    _count("packets", "packets"),
    _ratio("per_fragment", "/ fragment"),
)
MAP_CELLS = (
    _words("map", "map"),
    _words("row", "row"),
    _words("column", "column"),
    _words("fastest", "fastest"),
    _ratio("gain", "without\n/ with"),
    _words("with", "best", group="with aggregation in switches"),
    _time("with_jct_ns", "JCT", group="with aggregation in switches"),
    _words("without", "best", group="without"),
    _time("without_jct_ns", "JCT", group="without"),
)
COMMUNICATION = (
    JOB,
    _time("communication_ns", "measured"),
    _time("communication_bound_ns", "bound"),
    _ratio("over_bound", "measured\n/ bound"),
    _time("communication_bound_at_packets_ns", "bound at\nPS packets"),
    _ratio("over_bound_at_packets", "measured / bound\nat PS packets"),
)
THROUGHPUT = (
    JOB,
    _count("batch", "samples /\niteration, worker"),
    _count("samples_per_s", "samples / s"),
    _share("scaling_efficiency", "scaling\nefficiency"),
)
TRUNKS = (
    _words("node", "from"),
    _words("neighbour", "to"),
    _count("packets", "packets"),
    _size("bytes", "bytes"),
)
MEMORY = (
    SWITCH,
    _count("aggregators", "aggre-\ngators"),
    _share("filling_share", "filling"),
    *(_share(f"filling_{ending}_share", ending, group="filling,") for ending in ENDINGS),
    _share("held_share", "held"),
    _share("free_share", "free"),
    _count("absorbed_per_aggregator_s", "absorbed / s\n/ aggregator"),
)
AGGREGATION = (
    SWITCH,
    _words("job", "job"),
    _count("allocations", "aggregators claimed"),
    _count("additions", "added"),
    _count("completions", "sums completed"),
    _count("preemptions", "preempted others"),
    _share("completed_share", "completed / fragments"),
)
FIDELITY = (
    *(_words(key, key) for key in ("scope", "name", "measure")),
    Column("value", "measured", units.number),
    Column("limit", "limit", units.number),
    Column("ok", "ok", _yes),
)
POINTS = (
    _words("tuned", f"tuned\n({tuned_data.EDGE}: edge)"),
    PS_PACKETS,
    IN_SWITCH,
    _time("jct_mean_ns", "average\nJCT"),
    _words("layers", "simulated"),
    _ratio("jct_ratio", "relative\nJCT"),
    _time("ttft_p99_ns", "p99\nTTFT"),
    _time("tpot_p99_ns", "p99\nTPOT"),
    _share("network_share", "network"),
    _count("servers", "servers"),
    _count("hosts", "hosts\n(ports)"),
    TO_PS,
    FROM_PS,
    _count("lost_packets", "lost"),
    _count("retransmissions", "resent"),
    _words("fallbacks", "carried\nby hosts"),
    Column("exact", "exact", _yes),
    _words("fidelity", "fidelity"),
)
TUNED = f"tuned ({tuned_data.EDGE}: edge)"
_IF_ANY = (
    "tuned",
    "layers",
    "fallbacks",
    "lost_packets",
    *("ttft_p99_ns", "tpot_p99_ns", "network_share"),
)  # columns of points that are there if one of them has any
# Of the comparison, a row each.
_MEASURES = (
    _ratio("ps_packets_per_fragment", "PS packets / fragment"),
    _share("in_switch_share", "completed in switch"),
    _time("jct_mean_ns", "average JCT"),
    _time("waiting_mean_ns", "  waiting in it"),
    _count("samples_per_s", "samples / s, all jobs"),
    _share("scaling_efficiency", "scaling efficiency"),
    _time("ttft_p50_ns", "time to first token, median"),
    _time("ttft_p99_ns", "  p99"),
    _time("tpot_p50_ns", "time per output token, median"),
    _time("tpot_p99_ns", "  p99"),
    _count("tokens_per_s", "tokens / s, all jobs"),
    _share("network_share", "network in the time of requests"),
    _size("ps_link_bytes_in", "PS link, to PS"),
    _size("ps_link_bytes_out", "PS link, from PS"),
    _share("filling_share", "memory filling"),
    *(_share(f"filling_{ending}_share", f"  {ending}") for ending in ENDINGS),
    _share("held_share", "memory held"),
    _share("free_share", "memory free"),
    _count("absorbed_per_aggregator_s", "absorbed / s / aggregator"),
    _count("lost_packets", "lost packets"),
    _count("retransmissions", "resent packets"),
)
# Of a run and its twin, a row each for every job.
_TWINS = (
    _time("jct_ns", "JCT"),
    _time("iteration_mean_ns", "iteration"),
    _time("communication_ns", "communication"),
    _ratio("ps_packets_per_fragment", "PS packets / fragment"),
    _share("in_switch_share", "completed in switch"),
    _count("gradient_packets", "gradient packets"),
    _count("retransmissions", "resent packets"),
    _count("reminders", "reminders"),
    _size("ps_link_bytes_in", "PS link, to PS"),
    _size("ps_link_bytes_out", "PS link, from PS"),
)


# How far a twin's mean may be from the real clock's, in relation to it, or, of resent packets, to
# all gradient packets. What else is shown depends on the clock, and has no limit.
TWIN_LIMIT = 0.03
TWIN_LIMIT_OF_FEW = 0.06  # with too few repetitions for an interval
_LIMITED = ("jct_ns", "iteration_mean_ns", "communication_ns", "ps_packets_per_fragment")
_LIMITED_BY = {key: key for key in _LIMITED} | {"retransmissions": "gradient_packets"}


def _means(columns: Sequence[Column], rows: pd.DataFrame, **others: Value) -> Row:
    """A row of estimates over `rows`, which are repetitions of the same thing. Words are those of
    the first repetition; `others` are values by key."""
    values = []
    for column in columns:
        if column.key in others:
            values.append(others[column.key])
        elif column.words:
            values.append(str(rows[column.key].iloc[0]))
        else:
            values.append(estimate(rows[column.key]))
    return Row(values)


def headline(results: Results, frames: Frames) -> Text:
    """Name, state, fidelity and what was checked, in a few lines."""
    text = Text()
    text.append(f"{results.name}", style="bold")
    text.append(f"  ({results.folder})\n")
    if results.notice:
        text.append(f"{results.notice}\n", style="bold red" if not results.finished else "yellow")
    elif results.fidelity:
        text.append(f"fidelity: {results.fidelity}\n", style="green")
    elif _is_virtual(results):
        text.append(f"fidelity: {IN_VIRTUAL_TIME}\n", style="green")
    else:
        text.append("fidelity: not recorded\n")
    run = frames["run"]
    if len(run):
        if bool(run["exact"].all()):
            text.append(f"exactness: {exactness(run, results.finished)}")
        else:
            checked = units.number(run["values_checked"].sum())
            text.append(f"exactness: WRONG VALUES among {checked} checked", style="bold red")
        first, *edges = tuned_data.sentences(results) or [""]
        for said in filter(None, (first, costs_words(results))):
            text.append(f"\n{said}")
        for said in [*edges, *past_switches(results), *ties(results)]:
            text.append(f"\n{said}", style="yellow")
        if len(run) > 1:
            text.append(f"\nrepetitions: {len(run)} (mean, and 95 % confidence interval)")
    return text


def _is_virtual(results: Results) -> bool:
    return bool(results.environment.get("runtime") == "virtual")


def _fidelity_of(results: Results) -> str:
    """The mark of a finished run in a cell; `virtual` where nothing can be late."""
    return results.fidelity or ("virtual" if _is_virtual(results) else units.UNKNOWN)


def state_of(results: Results) -> str:
    """The trust that a finished run deserves, in a sentence."""
    mark = IN_VIRTUAL_TIME if _is_virtual(results) else "not recorded"
    return f"Finished; fidelity: {results.fidelity or mark}."


def ties(results: Results) -> list[str]:
    """Drops that ties have decided in a run whose sources may be in step."""
    virtual = results.experiment.get("virtual")
    if not isinstance(virtual, dict) or virtual.get("steps") != "exact":
        return []
    sums = results.links[["tie_drops", "queue_drops"]].sum()
    return of_ties(int(sums["tie_drops"]), int(sums["queue_drops"]))


def past_switches(results: Results) -> list[str]:
    """A sentence for each job and way by which a part of its collectives went past the switches,
    over gloo or by an algorithm of hosts: shares of sums completed in switches are shares of the
    rest. An algorithm that is the system, or carries the whole job, is named elsewhere."""
    if not len(results.collectives):
        return []
    instead = results.jobs.groupby("job")["fallback"].first()
    system = SYSTEMS.get(str(results.jobs["system"].iloc[0]))
    every = TABLES["collectives"].by_name["route"].allowed
    ways = {*every} - {"system", "flow"} if system and system.memory else {"gloo"}
    names = job_names(results.jobs)
    found = []
    for job, rows in results.collectives.groupby("job"):
        calls, given = int(rows["calls"].sum()), int(rows["bytes"].sum())
        for route, past in rows[rows["route"].isin(ways - {instead[job]})].groupby("route"):
            share = f" ({units.share(past['bytes'].sum() / given)} of the bytes)" if given else ""
            kinds = ", ".join(sorted(set(past["collective"])))
            found.append(
                f"past the switches: {units.number(past['calls'].sum())} of {units.number(calls)}"
                f" calls of job {names[job]}{share} went over {route} ({kinds});"
                " columns about switches count the others"
            )
    return found


def exactness(run: pd.DataFrame, finished: bool = True) -> str:
    """The numbers of values that were checked, and that were only handed back; none was wrong.
    `run`: with the columns of that frame."""
    checked, summed = run["values_checked"].sum(), run["values_summed"].sum()
    parts = []
    if checked or not summed:
        end = "all right" if finished else "all of these right"
        parts.append(f"{units.number(checked)} aggregated values checked, {end}")
    if summed:
        parts.append(f"{units.number(summed)} sums returned to programs, which must check them")
    return "; ".join(parts)


def lengths(frames: Frames) -> Table:
    """JCTs of each class of length (means over repetitions); no rows where all jobs have one
    length, or are few."""
    run = frames["run"]
    counts = run[[f"jobs_{name}" for name in LENGTHS]]
    rows: list[Row] = []
    for name in LENGTHS if counts.sum(axis=1).max() > FEW_JOBS else ():
        measures = [run[key] for key in (f"jobs_{name}", f"jct_{name}_ns", f"jct_p99_{name}_ns")]
        if measures[0].any():
            rows.append(Row([name, *map(estimate, measures)]))
    return Table("lengths", "Jobs by length", LENGTH, rows)


def jobs(frames: Frames) -> Table:
    """One row per job (means over repetitions) and the average."""
    per_job, run = frames["jobs"], frames["run"]
    waited = bool((per_job["waiting_ns"] > 0).any())
    by_hosts = bool(per_job["fallback"].notna().any())
    sampled = bool(per_job["layers"].notna().any())
    shown = {"waiting_ns": waited, "fallback": by_hosts, "layers": sampled}
    columns = [column for column in JOBS if shown.get(column.key, True)]
    rows = []
    for _, job in per_job.groupby("job"):
        ended = job["outcome"] == "finished"
        jct = estimate(job["jct_ns"]) if ended.all() else str(job["outcome"][~ended].iloc[0])
        spread = Spread(
            job["iteration_mean_ns"].mean(),
            job["iteration_min_ns"].min(),
            job["iteration_max_ns"].max(),
        )
        workers = int(job["workers"].iloc[0])
        by = carriers(job).iloc[0]
        others = {"workers": workers, "jct_ns": jct, "iteration_ns": spread, "fallback": by}
        others["layers"] = layers_words(job)
        rows.append(_means(columns, job, **others))
    if len(run):
        shares = [estimate(run[column.key]) for column in (PS_PACKETS, IN_SWITCH)]
        means: list[Value] = [estimate(run["jct_mean_ns"])._replace(prefix="mean ")]
        means += [""] if sampled else []
        means += [estimate(run["waiting_mean_ns"])._replace(prefix="mean ")] if waited else []
        blank = [""] * (3 if by_hosts else 2)
        rows.append(Row(["all", *blank, *shares, *means], total=True))
    return Table("jobs", "Jobs", columns, rows)


def brief_jobs(frames: Frames) -> Table:
    """`jobs` without what is known before the run, and without the times of iterations."""
    whole = jobs(frames)
    kept = [n for n, each in enumerate(whole.columns) if each.key not in ("model", "iteration_ns")]
    rows = [
        replace(row, values=[row.values[n] for n in kept if n < len(row.values)])
        for row in whole.rows
    ]
    return Table("jobs", "", [whole.columns[n] for n in kept], rows)


def faults(results: Results) -> Table:
    """The planned faults, and the times at which they took place; one row for each repetition."""
    rows = []
    for _, row in results.faults.iterrows():
        happened = not pd.isna(row["begun_ns"])
        over = row["kind"] != "kill" and happened
        factor = "" if pd.isna(row["factor"]) else f" ({row['factor']:g}x)"
        target = row["target"]
        if not pd.isna(row["entries"]):
            target += f" ({row['entries']} entries)"
        if not pd.isna(row["rate_bps"]):
            target += f" (now {units.number(row['rate_bps'] / 1e6)} Mbit/s)"
        rows.append(
            Row(
                (
                    row["kind"] + factor,
                    target,
                    row["at_ns"],
                    row["begun_ns"] if happened else "never: it had finished",
                    row["ended_ns"] if over else None,
                )
            )
        )
    return Table("faults", "Planned faults", FAULTS, rows)


def flows(results: Results) -> Table:
    """The traffic of each background flow; one row for each repetition."""
    connections = (results.flows["kind"] == "rc").any()
    columns = [each for each in FLOWS if connections or each.key not in OF_CONNECTIONS]
    rows = []
    for _, row in results.flows.iterrows():
        known = {key: None if pd.isna(value) else value for key, value in row.items()}
        rows.append(Row([known[column.key] for column in columns]))
    return Table("flows", "Background traffic", columns, rows)


def collectives(results: Results) -> Table:
    """Calls of programs by route; a row sums up ranks, groups and repetitions."""
    found, names = results.collectives, job_names(results.jobs)
    rows = []
    for key, group in found.groupby(["job", "collective", "dtype", "route"]):
        job, collective, dtype, route = key
        calls, known = int(group["calls"].sum()), group["time_ns"].notna().all()
        rows.append(
            Row(
                (
                    names[job],
                    collective,
                    dtype or None,
                    route,
                    int(group["communicator"].nunique()),
                    calls,
                    int(group["bytes"].sum()),
                    int(group["time_ns"].sum()) / calls if known else None,
                )
            )
        )
    return Table("collectives", "Collectives of programs", COLLECTIVES, rows)


def kept_sums(results: Results) -> Table:
    """Errors of the sums that workers have kept, and bits that order has changed, by job and kind
    of group. The sums themselves, up to 1 GiB, are not read."""
    read = {key: results.column("sums", key) for key in ("job", "group", *ERRORS)}
    found = pd.DataFrame({key: each or [None] * len(read["job"]) for key, each in read.items()})
    names, rows = job_names(results.jobs), []
    kinds = [re.sub(r"[._ ]\d+\b", "", group or "all") for group in found["group"]]
    for (job, kind), group in found.groupby(["job", pd.Series(kinds, dtype=str)], sort=False):
        errors = group[[*ERRORS]].astype(float)
        means = errors.mean()
        values = (errors["largest_error"].max(), means["mean_error"], means["order_bits"])
        rows.append(Row([names[job], kind, *(None if pd.isna(each) else each for each in values)]))
    return Table("kept-sums", "Sums that were kept", KEPT_SUMS, rows)


def traffic(frames: Frames) -> Table:
    """The cost of each job for the network (means over repetitions)."""
    rows = [_means(TRAFFIC, job) for _, job in frames["jobs"].groupby("job")]
    return Table("traffic", "Traffic", TRAFFIC, rows)


def lost_by_link(frames: Frames, most: int = BUSIEST) -> Table:
    """Losses and marks of links by cause, all repetitions together, those with the most
    losses first; and the sum. No rows where there is nothing."""
    found = frames["lost_by_link"]
    columns = _nonzero(LOST_BY_LINK, found)
    named = ((name, row) for name, row in found.head(most).iterrows())
    rows = [Row([name, *(row[column.key] for column in columns[1:])]) for name, row in named]
    if more := len(found) - len(rows):
        rest = found.iloc[most:]
        rows.append(Row([f"{more} other links", *_sums(columns, rest)]))
    if len(found) > 1:
        rows.append(Row(["all", *_sums(columns, found)], total=True))
    return Table("lost-by-link", "Lost and marked, by link", columns, rows)


def lost_by_job(frames: Frames, most: int | None = None) -> Table:
    """The same by job, beside what was sent again and why: what follows from a loss of a packet of
    the same fragment, and what from none. The sum has all jobs, also if only `most` have rows."""
    found, names = frames["lost_by_job"], job_names(frames["jobs"])
    columns = _nonzero(LOST_BY_JOB, found)
    rows: list[Row] = []
    for job, row in found.iterrows():
        if job == loss_data.OTHERS or job in names.index and (most is None or len(rows) < most):
            name = "other traffic" if job == loss_data.OTHERS else names[job]
            rows.append(Row([name, *(row[column.key] for column in columns[1:])]))
    if len(found) > 1:
        rows.append(Row(["all", *_sums(columns, found)], total=True))
    return Table("lost-by-job", "Lost, marked and sent again, by job", columns, rows)


def _any(values: pd.Series) -> bool:
    """True for a text, or a number above 0."""
    if values.dtype == object or str(values.dtype).startswith("str"):
        return bool((values != "").any())
    return bool((values > 0).any())


def _nonzero(columns: Sequence[Column], found: pd.DataFrame) -> list[Column]:
    """The first column, and those with a number above 0."""
    return [columns[0], *(each for each in columns[1:] if _any(found[each.key]))]


def _sums(columns: Sequence[Column], found: pd.DataFrame) -> list[float]:
    return [float(found[column.key].sum(min_count=1)) for column in columns[1:]]


def departures(results: Results, frames: Frames) -> Table:
    """Causes of the packets to each job's PS, with the sum, which is what the PS
    link carried, and what became of it; after that what other switches sent towards the PS,
    unless there are many. All repetitions together."""
    rows: list[Row] = []
    jobs = frames["jobs"]
    fragments, names = jobs.groupby("job")["fragments"].sum(), job_names(jobs)
    counted, links = departure_data.departures(results), departure_data.link_packets(results)
    counted = counted[counted["job"].isin(names.index)]
    few = len(counted[["job", "switch"]].drop_duplicates()) <= BUSIEST
    for job, of_job in counted.groupby("job"):

        def row(switch: str, what: str, packets: float, last: bool = False, job: Any = job) -> Row:
            each = packets / fragments[job] if fragments[job] else math.nan
            return Row([str(names[job]), switch, what, packets, each], section=last)

        def causes(found: pd.DataFrame, row: Any = row) -> list[Row]:
            columns = found[["switch", "cause", "packets"]].itertuples(index=False)
            return [row(switch, cause.replace("_", " "), count) for switch, cause, count in columns]

        at_ps = of_job["at_ps"].astype(bool)
        rows += causes(of_job[at_ps])
        if job in links.index:
            link, sent = links.loc[job], of_job["packets"][at_ps].sum()
            if link["carried"] != sent:
                rows.append(row("", departure_data.OTHERS, link["carried"] - sent))
            rows.append(row("", departure_data.CARRIED, link["carried"]))
            lines = departure_data.LINK_ROWS.items()
            rows += [row("", title, link[name]) for name, title in lines if link[name] > 0]
            rows.append(row("", departure_data.REACHED, link["reached"], last=True))
        for switch, here in by_switch(of_job[~at_ps]) if few else ():
            rows += causes(here)
            rows.append(row(switch, "sent towards the PS", here["packets"].sum(), last=True))
    title = "Where the packets to the PS come from"
    return Table("departures", title, DEPARTURES, rows)


def throughput(frames: Frames) -> Table:
    """The training throughput of the jobs (means over repetitions), where batch sizes are known."""
    jobs = frames["jobs"]
    known = jobs[jobs["batch"].notna() & jobs["samples_per_s"].notna()]
    rows = [_means(THROUGHPUT, job) for _, job in known.groupby("job")]
    if rows and len(known) == len(jobs):
        run = frames["run"]
        totals = [estimate(run[key]) for key in ("samples_per_s", "scaling_efficiency")]
        rows.append(Row(["all", "", totals[0], totals[1]._replace(prefix="mean ")], total=True))
    return Table("throughput", "Throughput", THROUGHPUT, rows)


def comparable(frames: Frames) -> pd.DataFrame:
    """The jobs without losses of which both the communication time and its bound are known."""
    rows = frames["jobs"]
    known = rows["communication_ns"].notna() & (rows["communication_bound_ns"].fillna(0) > 0)
    return rows[rows["lossless"] & known]


def communication(frames: Frames) -> Table:
    """Measured communication time against the bound of the links, for jobs without losses."""
    jobs = comparable(frames)
    jobs = jobs.assign(
        over_bound=jobs["communication_ns"] / jobs["communication_bound_ns"],
        over_bound_at_packets=jobs["communication_ns"] / jobs["communication_bound_at_packets_ns"],
    )
    rows = [_means(COMMUNICATION, job) for _, job in jobs.groupby("job")]
    title = "Communication against the least time that the links allow"
    return Table("communication", title, COMMUNICATION, rows)


def trunks(results: Results) -> Table | None:
    """Traffic on the links between switches and to the parameter servers, from the switches'
    port counters; None where there is one switch. Of many links, the busiest."""
    links = results.links
    switches = set(links.node)
    servers = set(results.hosts.host[results.hosts.role == "ps"])
    wanted = links.neighbour.isin(switches | servers) & (links.direction == "egress")
    if len(switches) < 2:
        return None
    means = links[wanted].groupby(["node", "neighbour"], sort=False)[["packets", "bytes"]].mean()
    shown = means.nlargest(BUSIEST, "packets")
    more = f", the busiest {len(shown)} of {len(means)}" if len(means) > len(shown) else ""
    busiest = means[means.index.isin(shown.index)].reset_index()
    rows = [Row(values) for values in busiest.itertuples(index=False, name=None)]
    return Table("trunks", f"Links between switches and to servers{more}", TRUNKS, rows)


def memory(frames: Frames) -> Table:
    """Shares of aggregator-time per switch, filling split by how the occupation ended."""
    switches = frames["switches"]
    endings = [f"filling_{ending}_share" for ending in ENDINGS]
    unknown = {ending for ending in endings if switches[ending].isna().all()}
    columns = [column for column in MEMORY if column.key not in unknown]
    rows = [
        _means(columns, switch, aggregators=switch["aggregators"].max())
        for _, switch in by_switch(switches)
    ]
    title = "Switch memory (shares of aggregator-time; filling is split by how it ended)"
    return Table("memory", title, columns, rows)


def events(frames: Frames, every: bool = False) -> Table:
    """Counts of each event of the P4 program, per switch and job (all repetitions); of
    more than a few jobs only for all together, unless columns of `every` job are wanted."""
    counted = frames["events"]
    names = job_names(frames["jobs"])
    owners = sorted(counted["job"].dropna().unique())
    if len(owners) > FEW_JOBS and not every:
        owners = []
    columns = [
        SWITCH,
        _words("event", "event"),
        *(_count(f"job_{job}", str(names.get(job, job))) for job in owners),
        _count("all", "all"),
    ]
    of_jobs = counted[counted["job"].isin(owners)].groupby(["switch", "event", "job"])
    counts = of_jobs["value"].sum().to_dict()
    totals = counted.groupby(["switch", "event"])["value"].sum()
    rows: list[Row] = []
    for switch, here in by_switch(counted):
        kinds = here["event"].unique()
        for event in kinds:
            values = [counts.get((switch, event, job), math.nan) for job in owners]
            title = str(event).replace("_", " ")
            last = event == kinds[-1]
            rows.append(Row([switch, title, *values, totals[switch, event]], section=last))
    return Table("event-totals", "Switch events (packets)", columns, rows)


def aggregation(results: Results, counts: pd.DataFrame) -> Table:
    """Aggregation by switch and job, a row for each pair. `counts`: events by
    (switch, job), as html/topology_chart.py counts them."""
    jobs = results.jobs[results.jobs["repetition"] == results.jobs["repetition"].min()]
    fragments = (jobs["fragments"] * jobs["iterations"]).set_axis(jobs["job"])
    names = job_names(jobs)
    rows = []
    for (switch, job), row in counts.iterrows():
        share = row["completions"] / fragments.get(job, 0) if fragments.get(job, 0) else math.nan
        rows.append(Row([switch, str(names.get(job, job)), *row, share]))
    return Table("aggregation", "Aggregation by switch and job", AGGREGATION, rows)


def fidelity(results: Results) -> Table:
    """The invariants of a run on a real clock, broken ones first."""
    measured = results.table("fidelity").sort_values("ok", kind="stable").head(_LONGEST)
    keys = [column.key for column in FIDELITY]
    rows = [Row(values) for values in measured[keys].itertuples(index=False, name=None)]
    title = "Fidelity checks"
    return Table("fidelity", title, FIDELITY, rows)


def comparison(
    runs: Sequence[Results], frames: Sequence[Frames], styles: Sequence[PlotStyle]
) -> Table:
    """One column per run, one row per measure. "relative" is the average JCT over that of the first
    run that has one (1.25x = that much longer); shares are of aggregator-time."""
    over_all = [each["run"] for each in frames]
    means = [estimate(run["jct_mean_ns"]).mean if len(run) else math.nan for run in over_all]
    base = next((mean for mean in means if not math.isnan(mean)), math.nan)
    relative, corrected = _relatives(over_all, means, base)
    rows: list[Row] = []
    for measure in _MEASURES:
        column = measure.key
        values = [estimate(run[column]) if len(run) else math.nan for run in over_all]
        never = column in ("waiting_mean_ns", "lost_packets") and not any(
            (run[column] > 0).any() for run in over_all if len(run)
        )
        row = Row([measure.title, *values], measure.show)
        if not never and any(measure.show(_mean(value)) != units.UNKNOWN for value in values):
            rows.append(row)
        if column == "jct_mean_ns":
            rows.append(Row(["relative", *relative], _relative))
            for name in dict.fromkeys(name for each in frames for name in each["jobs"]["name"]):
                of_job = [each["jobs"][each["jobs"]["name"] == name]["jct_ns"] for each in frames]
                rows.append(Row([f"  JCT of {name}", *map(estimate, of_job)], units.time))
    rows[-1] = Row(rows[-1].values, rows[-1].show, section=True)
    exact = [_yes(run["exact"].all()) if len(run) else units.UNKNOWN for run in over_all]
    marks = [_fidelity_of(r) if r.finished else r.state.upper() for r in runs]
    notes = [fallback_notes(each["jobs"]) for each in frames]
    sampled = [layers_words(each["jobs"]) for each in frames]
    if any(sampled):
        rows.append(Row(["simulated", *(each or "all layers" for each in sampled)]))
    if any(notes):
        rows.append(Row(["carried by hosts", *(note or "none" for note in notes)]))
    used = [hardware(each) for each in runs]
    if any(each != used[0] for each in used):
        for name, title in (("servers", "servers"), ("hosts", "hosts (ports)")):
            rows.append(Row([title, *(each.get(name, math.nan) for each in used)], units.number))
    if any(tuned := [tuned_data.tuned_words(each) for each in runs]):
        rows.append(Row([TUNED, *(each or "no" for each in tuned)]))
    rows += [
        Row(["repetitions", *map(len, over_all)]),
        Row(["exact", *exact]),
        Row(["fidelity", *marks]),
    ]
    columns = [_words("measure", ""), *(Column(style.title, style.title) for style in styles)]
    return Table("comparison", f"Comparison{corrected}", columns, rows)


def _relatives(
    runs: Sequence[pd.DataFrame], means: Sequence[float], base: float
) -> tuple[list[Value], str]:
    """The ratios of these average JCTs to `base`, with 95 % intervals where there are enough
    repetitions; and what the caption says of these."""
    first = next((place for place, mean in enumerate(means) if mean == base), 0)
    found: list[Value] = [mean / base for mean in means]
    others = [place for place, mean in enumerate(means) if place != first and mean == mean]
    pairs = [(runs[place]["jct_mean_ns"], runs[first]["jct_mean_ns"]) for place in others]
    intervals = {
        place: interval
        for place, interval in zip(others, ratio_intervals(pairs), strict=True)
        if interval[0] == interval[0]
    }
    for place, (low, high) in intervals.items():
        ratio = means[place] / base
        found[place] = Labelled(f"{_relative(ratio)} ({low:.3f} to {high:.3f})", ratio)
    caption = " (relative: 95 % interval)" if intervals else ""
    if len(intervals) > 1:
        count = len(intervals)
        caption = f" (relative: 95 % intervals, corrected for {count} comparisons by Holm's method)"
    return found, caption


def _mean(value: Estimate | float) -> float:
    return value.mean if isinstance(value, Estimate) else value


def _relative(ratio: float) -> str:
    return units.UNKNOWN if math.isnan(ratio) else f"{ratio:.3f}x"


def differences(settings: Sequence[Any], styles: Sequence[PlotStyle]) -> Table:
    """The keys in which resolved experiments differ, a column per run. `settings`: the content of
    each run's experiment."""
    rows = [
        Row([key, *(units.UNKNOWN if value is None else value for value in values)])
        for key, values in differing(settings).items()
    ]
    columns = [_words("key", "key"), *(_words(style.title, style.title) for style in styles)]
    return Table("differences", "", columns, rows)


def _mean_jct(jobs: pd.DataFrame) -> pd.Series:
    """The average JCT of each repetition."""
    return jobs.groupby("repetition")["jct_ns"].mean()


def _compared(real: Estimate, virtual: Estimate, reference: float | None) -> list[Value]:
    """The difference in per cent of the real clock's, with its 95 % interval if both have enough
    samples; and whether it is within its limit of `reference`, None: there is no limit. With an
    interval it is if all of the interval is, it is not if nothing of it is, and else that is open:
    more repetitions would tell."""
    gap = virtual.mean - real.mean
    half = math.hypot(real.shown_half_width, virtual.shown_half_width)
    if not real.mean:
        difference: Value = "" if not gap else "new"
    else:
        share, give = 100 * gap / real.mean, 100 * half / real.mean
        sure = math.isnan(give) or round(give, 1) == 0
        shown = f"{share:+.1f} %" if sure else f"{share:+.1f} ± {give:.1f} %"
        difference = Labelled(shown, share)
    if not reference:
        return [difference, units.UNKNOWN]
    limit = TWIN_LIMIT_OF_FEW if math.isnan(half) else TWIN_LIMIT
    half, most = (0.0 if math.isnan(half) else half), limit * reference
    within = None
    if abs(gap) + half <= most:
        within = True
    elif abs(gap) - half > most:
        within = False
    word = {True: "yes", False: "NO", None: "open"}[within]
    return [difference, Labelled(f"{word}, {100 * limit:.0f} %", within)]


def twins(runs: Sequence[Results], frames: Sequence[Frames]) -> Table | None:
    """The same jobs on a real clock and in virtual time, measure by measure, and by how much the
    real clock's mean differs; None where these two runs are no such pair."""
    clocks = [results.environment.get("runtime") for results in runs]
    jobs = [list(each["jobs"]["name"].unique()) for each in frames]
    if len(runs) != 2 or len(set(clocks)) != 2 or "virtual" not in clocks or jobs[0] != jobs[1]:
        return None
    virtual = frames[clocks.index("virtual")]["jobs"]
    real = frames[1 - clocks.index("virtual")]["jobs"]
    name = str(next(clock for clock in clocks if clock != "virtual"))
    title = f"The same experiment on {name} and in virtual time"
    return _side_by_side("twins", title, (name, "virtual"), (real, virtual))


def repeated(runs: Sequence[Results], frames: Sequence[Frames]) -> Table:
    """A run and another one of the same experiment, measure by measure, with the limits of
    `twins`."""
    both = frames[0]["jobs"], frames[1]["jobs"]
    return _side_by_side("repeated", f"{runs[0].name}, run again", ("packed", "here"), both)


def beyond_limits(table: Table) -> bool:
    """True if a measure of `twins` or `repeated` is certainly not within its limit."""
    return any(cell.startswith("NO,") for row in table.rows for cell in table.cells(row))


def compared_data(table: Table) -> dict[str, Any]:
    """`twins` or `repeated` for JSON: the job is in every row, `difference` is in per cent, and
    `within` is a truth, None where there is no limit or more repetitions would have to tell."""
    data = table_data(table)
    job = None
    for row in data["rows"]:
        job = row["name"] = row["name"] or job
    return data


def _side_by_side(
    name: str, title: str, heads: tuple[str, str], frames: tuple[pd.DataFrame, pd.DataFrame]
) -> Table:
    """Frames "jobs" of two runs with the same jobs: differences in per cent of the first, and
    limits."""
    columns = [
        JOB,
        _words("measure", "measure"),
        *(Column(head, head) for head in heads),
        Column("difference", f"difference,\n% of {heads[0]}"),
        Column("within", "within\nlimit"),
    ]
    rows: list[Row] = []
    for job in frames[0]["name"].unique():
        pair = [each[each["name"] == job] for each in frames]
        first = job
        for measure in _TWINS:
            real, virtual = (estimate(each[measure.key]) for each in pair)
            if math.isnan(real.mean) or math.isnan(virtual.mean):
                continue
            of = _LIMITED_BY.get(measure.key)
            reference = None if of is None else float(pair[0][of].mean())
            compared = _compared(real, virtual, reference)
            rows.append(Row([first, measure.title, real, virtual, *compared], measure.show))
            first = ""
        if rows:
            rows[-1] = Row(rows[-1].values, rows[-1].show, section=True)
    means = [estimate(_mean_jct(each)) for each in frames]
    compared = _compared(means[0], means[1], means[0].mean)
    rows.append(Row(["all", "average JCT", *means, *compared], units.time, total=True))
    return Table(name, title, columns, rows)


def sweep(points: Sequence[Point], keys: Sequence[str], frame: pd.DataFrame) -> Table:
    """One row per point of a sweep: what was varied, what came out over its repetitions. A varied
    number sorts as a number."""
    measured = [
        column
        for column in POINTS
        if column.key in frame and (column.key not in _IF_ANY or _any(frame[column.key]))
    ]
    columns = [*(_words(key, heading(key)) for key in keys), *measured]
    columns = columns if measured else [*columns, *POINTS[-2:]]
    rows = []
    for number, point in enumerate(points):
        known = [point.values.get(key) for key in keys]
        values = [Labelled(each.short, each.number) if each else units.UNKNOWN for each in known]
        found = frame[frame["point"] == number] if len(frame) else frame
        if not len(found):
            state = point.results.state.upper() if point.results else "NOT RUN"
            between = columns[len(keys) : -2]
            unknown = [units.UNKNOWN if each.words else math.nan for each in between]
            rows.append(Row([*values, *unknown, units.UNKNOWN, state]))
            continue
        exact = bool(found["exact"].all())
        fidelity = _fidelity_of(point.results) if point.results else units.UNKNOWN
        if fidelity == "degraded" and point.results:
            fidelity += f": {point.results.short_reason}"
        others = dict(zip(keys, values, strict=True))
        rows.append(_means(columns, found, **others, exact=exact, fidelity=fidelity))
    return Table("points", "Points", columns, rows)


def map_cells(maps: Sequence[Map]) -> Table:
    """Cells of a sweep's maps, a row per cell. A kind of series without a finished point
    here is unknown."""
    rows = []
    for each in maps:
        for cell in each.cells:
            best = [units.UNKNOWN, math.nan]
            kinds = [
                [found.title, found.jct_ns] if found else best
                for found in (cell.within, cell.without)
            ]
            values = [each.title, cell.row, cell.column, cell.fastest.title, cell.gain]
            rows.append(Row([*values, *kinds[0], *kinds[1]]))
    columns = list(MAP_CELLS) if any(each.title for each in maps) else list(MAP_CELLS[1:])
    if len(columns) < len(MAP_CELLS):
        rows = [replace(row, values=row.values[1:]) for row in rows]
    return Table("map", "Where aggregation in switches pays", columns, rows)


def drawn_points(frame: pd.DataFrame, measures: Sequence[str]) -> Table:
    """The numbers that the figures of a sweep show, in base units: a row per series and x.
    `frame`: of `frame` in data/sweep_data.py; `measures`: names of its columns."""
    columns = [
        _words("series", "series"),
        Column("x", "x"),
        Column("repetitions", "repetitions", unit="count"),
        *(Column(measure, measure) for measure in measures),
    ]
    rows = []
    for (series, x), group in frame.groupby(["series", "x"], dropna=False, sort=False):
        rows.append(_means(columns, group, series=series, x=x, repetitions=len(group)))
    return Table("drawn", "", columns, rows)


def to_csv(table: Table, path: Path) -> None:
    """Writes a table's numbers in base units. An estimate is two columns, the mean and half the
    width of its 95 % confidence interval (`_ci95`, empty for fewer than two samples)."""
    lines = []
    for row in table.rows:
        line: dict[str, Value] = {}
        for column, value in zip(table.columns, row.values, strict=True):
            if isinstance(value, Estimate):
                line[column.key], line[f"{column.key}_ci95"] = value.mean, value.half_width
            else:
                line[column.key] = value
        lines.append(line)
    write_whole(path, pd.DataFrame(lines).to_csv(index=False))
