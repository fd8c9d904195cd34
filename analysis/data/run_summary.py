"""The numbers that explain a run, computed from its tables.

PS packets per fragment come first: 1 is perfect aggregation, the number of workers is no
aggregation. They explain the job completion time (JCT) better than the share of fragments that the
switch completed, because an evicted partial is already a sum.

Shares of aggregator-time are the switch's own accumulators over pool size x duration, so they
depend on no sampling period. The duration is the *span* of a repetition: from the first job's start
to the last job's end. What a run did not measure is NaN here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from testbed.results.counters import ABSORBED, ENDINGS, EVENTS, FILLING, HELD
from testbed.systems import SYSTEMS
from testbed.text_table import TRUSTED, Estimate

if TYPE_CHECKING:
    from networkx import DiGraph

    from testbed.results import Results

Frames = dict[str, pd.DataFrame]  # of `summary`

_JOB = ["repetition", "job"]
_CARRIED = [
    "name",
    "model",
    "system",
    "fallback",
    "refused",
    "workers",
    "iterations",
    "batch",
    "compute_ns",
    "outcome",
    "exact",
    "values_checked",
    "gradient_packets",
    "retransmissions",
    "reminders",
    "asks",
    "ps_packets",
    "ps_link_bytes_in",
    "ps_link_bytes_out",
    "communication_bound_ns",
    "waiting_ns",
]


def summary(results: Results) -> Frames:
    """All frames: "jobs" (one row per repetition and job), "switches" (per repetition and switch),
    "events" (per repetition, switch, event and job) and "run" (per repetition). They are computed
    once; the frames are the caller's own."""
    return {name: frame.copy() for name, frame in results.once(_summary).items()}


def _summary(results: Results) -> Frames:
    per_job = jobs(results)
    per_switch = switches(results)
    return {
        "jobs": per_job,
        "switches": per_switch,
        "events": events(results),
        "run": run(results, per_job, per_switch),
    }


def iteration_times(results: Results) -> pd.DataFrame:
    """Columns repetition, job, worker, iteration, time_ns (float64; NaN where it did not end).

    An iteration lasts from the end of the worker's iteration before it (the first one from its own
    start) to the arrival of its last aggregated gradient, so that the times of a worker add up to
    the time that it trained. Iterations overlap (the next forward pass starts while rear tensors
    are under way), so end - start would count time twice.
    """
    rows = results.iterations.sort_values([*_JOB, "worker", "iteration"], ignore_index=True)
    before = rows.groupby([*_JOB, "worker"])["end_ns"].shift(1)
    since = before.where(rows["iteration"] > 0, rows["start_ns"]).astype("float64")
    out = rows[[*_JOB, "worker", "iteration"]].copy()
    out["time_ns"] = rows["end_ns"].astype("float64") - since
    return out


def jobs(results: Results) -> pd.DataFrame:
    """One row per repetition and job. Beside columns of table jobs:

    fragments (of all iterations), ps_packets_per_fragment, in_switch_share (fragments that the
    switch at the PS completed, or the root switch where there is no PS / fragments), jct_ns,
    samples_per_s (of all workers, from the job's start to its end; NaN without a batch size),
    scaling_efficiency (compute_ns / that time: samples/s against as many workers that never wait),
    iteration_mean_ns, iteration_min_ns, iteration_max_ns (over workers and iterations), all
    float64; computation_ns (see `_computation`); communication_ns, lossless and
    communication_bound_at_packets_ns (see `communication`).
    """
    table = results.jobs
    out = table[[*_JOB, *_CARRIED]].copy()
    out["jct_ns"] = table["jct_ns"].astype("float64")
    out["fragments"] = table["fragments"] * table["iterations"]
    out["ps_packets_per_fragment"] = table["ps_packets"].astype("float64") / out["fragments"]
    running = (table["end_ns"].astype("float64") - table["start_ns"]) / 1e9
    samples = table["workers"] * table["batch"].astype("float64") * table["iterations"]
    out["samples_per_s"] = samples / running
    out["scaling_efficiency"] = table["compute_ns"].astype("float64") / 1e9 / running
    completions = _whole_completions(results)
    out = out.merge(completions, on=_JOB, how="left")
    # SwitchML's opening chunks, which carry exponents alone, complete too.
    out["in_switch_share"] = (out["completions"] / out["fragments"]).clip(upper=1)
    out = out.merge(_computation(results), on=_JOB, how="left")
    times = iteration_times(results).groupby(_JOB)["time_ns"].agg(["mean", "min", "max"])
    times.columns = [f"iteration_{name}_ns" for name in times.columns]
    out = out.merge(times.reset_index(), on=_JOB, how="left")
    return communication(results, out)


def _computation(results: Results) -> pd.DataFrame:
    """Columns repetition, job, computation_ns: of one iteration, mean of the workers' first ones,
    in which no layer waits for a gradient, and no weights are updated. A program of ranks waits
    within its iterations; there it is the nominal time of a rank."""
    rows = results.iterations
    rows = rows[rows["iteration"] == 0]
    spent = rows["compute_end_ns"].astype("float64") - rows["start_ns"].astype("float64")
    found = spent.groupby([rows[key] for key in _JOB]).mean().rename("computation_ns").reset_index()
    table = results.jobs
    nominal = table["compute_ns"].astype("float64") / table["iterations"]
    calls = results.collectives
    of_ranks = pd.MultiIndex.from_frame(calls[_JOB]) if len(calls) else []
    is_program = pd.MultiIndex.from_frame(table[_JOB]).isin(of_ranks) & nominal.notna()
    programs = table[_JOB].assign(nominal=nominal)[is_program]
    found = found.merge(programs, on=_JOB, how="left")
    found["computation_ns"] = found["nominal"].fillna(found["computation_ns"])
    return found[[*_JOB, "computation_ns"]]


def communication(results: Results, per_job: pd.DataFrame) -> pd.DataFrame:
    """`per_job` with what holds the measured communication time against its bound:

    communication_ns: from the first fragment that a worker sends in an iteration to the last sum
    that one receives, all iterations together (where backward passes overlap, waiting for them is
    in it); float64.
    lossless: whether no packet of the job is known to have got lost, since a bound knows of no
    losses: it sent nothing again, or did so in vain; bool.
    communication_bound_at_packets_ns: the larger one of the bound and of the time that the PS link
    needs for the packets that reached the PS in time, as far as they can be known
    (docs/baselines.md proves it); only where switches aggregate for a PS; float64.
    """
    rows = results.tensors
    groups = rows.groupby([*_JOB, "iteration"])
    first = groups["first_sent_ns"].min().astype("float64")
    spent = (groups["done_ns"].max().astype("float64") - first).groupby(_JOB).sum(min_count=1)
    out = per_job.merge(spent.rename("communication_ns").reset_index(), on=_JOB, how="left")
    whole = out["repetition"].isin(_without_losses(results))
    out["lossless"] = (out["retransmissions"] == 0) | whole
    out["communication_bound_at_packets_ns"] = _bound_at_packets(results, out)
    return out


def _bound_at_packets(results: Results, per_job: pd.DataFrame) -> pd.Series:
    """communication_bound_at_packets_ns of `communication`, by the rows of `per_job`."""
    bound = per_job["communication_bound_ns"].astype("float64")
    packets = per_job["ps_packets"].astype("float64") - per_job["retransmissions"]
    # What a switch keeps after it has sent it may leave once more, for a reminder.
    counters, links = results.switch_counters, results.links
    held = counters[counters["counter"].isin(HELD)].groupby("repetition")["value"].sum() > 0
    unheld = per_job["repetition"].isin(held.index[~held])
    packets = packets - per_job["reminders"].astype("float64").where(~unheld, 0)
    doubled = links[links["duplicates"].isna() | (links["duplicates"] > 0)]["repetition"]
    packets = packets.where(~per_job["repetition"].isin(doubled), 0)

    ends = links.rename(columns={"node": "switch", "neighbour": "host"})
    ends = results.hosts[[*_JOB, "role", "host"]].merge(ends, on=["repetition", "host"])
    ends["rate_bps"] = ends["rate_bps"].astype("float64")
    slowest = ends.groupby(_JOB)["rate_bps"].min()
    to_server = ends[(ends["role"] == "ps") & (ends["direction"] == "egress")]
    server = to_server.groupby(_JOB)["rate_bps"].max()
    # The bound is the time of all fragments on the slowest link.
    faster = (slowest / server).reindex(pd.MultiIndex.from_frame(per_job[_JOB])).to_numpy()
    at_packets = bound * (packets / per_job["fragments"]) * faster
    aggregated = per_job["ps_packets"].notna() & per_job["in_switch_share"].notna()
    if _sends_results_from_switch(results):
        return bound.where(aggregated)
    return at_packets.where(at_packets > bound, bound).where(aggregated)


def _sends_results_from_switch(results: Results) -> bool:
    """Whether a sum reaches the workers no later than its PS."""
    system = results.experiment.get("system")
    return isinstance(system, dict) and system.get("results_from") == "switch"


def _without_losses(results: Results) -> set[int]:
    """The repetitions in which every packet that was sent arrived. A repetition is not among them
    where links do not count what they lost, as on BMv2."""
    links, faults = results.links, results.faults
    causes = ["queue_drops", "losses", "unmodelled_drops", "down_drops"]
    dropped = links[causes].sum(axis=1) > 0
    bad = [
        links[dropped | links["losses"].isna()],
        results.hosts[results.hosts["socket_drops"] > 0],
        faults[faults["kind"].isin(["kill", "restart"]) & faults["begun_ns"].notna()],
    ]
    return set(links["repetition"]).difference(*(rows["repetition"] for rows in bad))


def _whole_completions(results: Results) -> pd.DataFrame:
    """Columns repetition, job, completions: of sums over all workers of a job.

    Where several switches aggregate in turn, only those count that all workers' gradients reach."""
    rows = results.switch_counters
    rows = rows[rows["job"].notna()].astype({"job": "int32", "value": "float64"})
    found = rows[rows["counter"] == "completions"]
    if found["switch"].nunique() > 1:
        planned = [name for name, system in SYSTEMS.items() if system.planned]
        if results.jobs["system"].isin(planned).any():  # a plan chose the paths; they end at the PS
            whole = _at_servers(results)
        else:
            whole = pd.concat([common_switches(results), _root_switches(results, rows)])
        found = found.merge(whole, on=[*_JOB, "switch"])
    found = found.groupby(_JOB, as_index=False)["value"].sum()
    return found.rename(columns={"value": "completions"})[[*_JOB, "completions"]]


def _at_servers(results: Results) -> pd.DataFrame:
    """Columns repetition, job, switch: the switch that the job's PS hangs on."""
    servers = results.hosts[results.hosts["role"] == "ps"][[*_JOB, "host"]]
    links = results.links[["repetition", "node", "neighbour"]].drop_duplicates()
    down = links.rename(columns={"node": "switch", "neighbour": "host"})
    up = links.rename(columns={"node": "host", "neighbour": "switch"})
    attached = pd.concat([down, up]).drop_duplicates()
    return servers.merge(attached, on=["repetition", "host"])[[*_JOB, "switch"]]


def _root_switches(results: Results, counted: pd.DataFrame) -> pd.DataFrame:
    """The same of jobs without a PS: of the switches that aggregate for the job, the one whose sums
    are the results, so that none passes it on its way from above. `counted`: the switches' counters
    per job."""
    jobs = results.jobs[results.jobs["ps_packets"].isna()][_JOB].astype({"job": "int32"})
    aggregating = counted[counted["value"] > 0][[*_JOB, "switch"]].drop_duplicates()
    passed = counted[counted["counter"] == "results_passed"].merge(jobs, on=_JOB)
    return passed[passed["value"] == 0].merge(aggregating)[[*_JOB, "switch"]]


def common_switches(results: Results) -> pd.DataFrame:
    """Columns repetition, job, switch: the switches on the shortest paths of all workers of a job
    to its PS. A sum that is complete at one of them is a sum over all workers. A job without a PS
    has no rows.

    The paths follow from table links, which has the links that were up, by port: shortest paths,
    and of equal ones that of the lowest port, as testbed/routing/tree.py routes."""
    found = []
    for repetition, links in results.links.groupby("repetition"):
        hosts = results.hosts[results.hosts["repetition"] == repetition]
        graph, switch_of = _switch_graph(links, set(hosts["host"]))
        servers = hosts[hosts["role"] == "ps"]
        workers = hosts[hosts["role"] == "worker"].groupby("job")["host"].agg(list)
        towards: dict[str, dict[str, str]] = {}
        for job, server in servers[["job", "host"]].itertuples(index=False):
            last = switch_of[server]
            if last not in towards:
                towards[last] = _next_switches(graph, last)
            paths = [_path(towards[last], switch_of[each], last) for each in workers.get(job, [])]
            shared = set.intersection(*map(set, paths)) if paths else set()
            found += [(repetition, job, switch) for switch in sorted(shared)]
    return pd.DataFrame(found, columns=[*_JOB, "switch"]).astype(results.hosts[_JOB].dtypes)


def _switch_graph(links: pd.DataFrame, hosts: set[str]) -> tuple[DiGraph, dict[str, str]]:
    """The graph of the switches, each one's neighbours in the order of its ports; and the switch
    of each host."""
    import networkx

    graph = networkx.DiGraph()
    switch_of = {}
    ports = links[["node", "port", "neighbour"]].drop_duplicates().sort_values(["node", "port"])
    for node, neighbour in ports[["node", "neighbour"]].itertuples(index=False):
        if neighbour in hosts:
            switch_of[neighbour] = node
        elif node not in hosts:
            graph.add_edge(node, neighbour)
    return graph, switch_of


def _next_switches(graph: DiGraph, last: str) -> dict[str, str]:
    """Next switch on a shortest path to the switch `last`, for each switch that can reach it. Of
    equal paths, that of the neighbour of the lowest port."""
    import networkx

    return dict(networkx.bfs_predecessors(graph, last)) if last in graph else {}


def _path(towards: Mapping[str, str], first: str, last: str) -> list[str]:
    """The switches from one to another."""
    path = [first]
    while path[-1] != last:
        path.append(towards[path[-1]])
    return path


def spans(results: Results) -> pd.Series:
    """Span of each repetition in ns (float64, NaN when a job did not end that was not killed by
    plan), by repetition."""
    rows, faults = results.jobs, results.faults
    groups = rows[rows["outcome"] != "killed"].groupby("repetition")
    end = groups["end_ns"].agg(lambda ends: float("nan") if ends.isna().any() else ends.max())
    kills = faults[faults["kind"] == "kill"].groupby("repetition")["begun_ns"].max()
    end = end.astype("float64")
    end = end.clip(lower=kills.astype("float64").reindex(end.index).fillna(0))
    return end - rows.groupby("repetition")["start_ns"].min()


def switches(results: Results) -> pd.DataFrame:
    """One row per repetition and switch that reports memory.

    aggregators (pool size), span_ns; shares of aggregator-time (float64, 0..1) filling_share and
    its parts filling_completed_share, filling_evicted_share, ... by how the occupation ended,
    held_share, free_share; absorbed (contributions) and absorbed_per_aggregator_s.
    """
    pools = results.memory.groupby(["repetition", "switch"])["capacity"].max()
    out = pools.rename("aggregators").reset_index()
    out["span_ns"] = out["repetition"].map(spans(results)).astype("float64")
    counters = results.switch_counters.pivot_table(
        index=["repetition", "switch"], columns="counter", values="value", aggfunc="sum"
    )
    out = out.merge(counters.reset_index(), on=["repetition", "switch"], how="left")
    for name in (*FILLING, *HELD, *ABSORBED):
        if name not in out:
            out[name] = float("nan")
    whole = out["aggregators"] * out["span_ns"]
    for ending in ENDINGS:
        out[f"filling_{ending}_share"] = out[f"filling_{ending}_ns"] / whole
    out["filling_share"] = out[list(FILLING)].sum(axis=1, min_count=1) / whole
    out["held_share"] = out[list(HELD)].sum(axis=1, min_count=1) / whole
    out["free_share"] = 1 - out["filling_share"] - out["held_share"].fillna(0)
    out["absorbed"] = out[list(ABSORBED)].sum(axis=1, min_count=1)
    out["absorbed_per_aggregator_s"] = out["absorbed"] / (whole / 1e9)
    columns = [
        "repetition",
        "switch",
        "aggregators",
        "span_ns",
        "filling_share",
        *(f"filling_{ending}_share" for ending in ENDINGS),
        "held_share",
        "free_share",
        "absorbed",
        "absorbed_per_aggregator_s",
    ]
    return out[columns]


def events(results: Results) -> pd.DataFrame:
    """Columns repetition, switch, event, job (nullable), value; events in the order of their
    declaration, without those that the switch does not count."""
    rows = results.switch_counters
    rows = rows[rows["counter"].isin(list(EVENTS))].rename(columns={"counter": "event"})
    rank = rows["event"].map({name: number for number, name in enumerate(EVENTS)})
    rows = rows.assign(rank=rank).sort_values(["repetition", "switch", "rank", "job"])
    return rows[["repetition", "switch", "event", "job", "value"]].reset_index(drop=True)


def programs(results: Results) -> set[int]:
    """Numbers of the jobs that are programs."""
    jobs = results.experiment.get("jobs") or []
    return {number for number, job in enumerate(jobs) if "command" in job}


def run(results: Results, per_job: pd.DataFrame, per_switch: pd.DataFrame) -> pd.DataFrame:
    """One row per repetition, over all jobs and switches.

    ps_packets_per_fragment and in_switch_share weigh every fragment alike; jct_mean_ns is the mean
    over jobs that were not killed by plan (NaN when one never ended), jct_communicating_ns and
    jct_computing_ns that of each kind of them (see `_by_kind`), jct_p99_ns their 99th percentile,
    jobs_short, jct_short_ns, jct_p99_short_ns and so on their number and both of each class of
    length (see `_by_length`), and waiting_mean_ns what they waited for hosts of it; values_checked
    are those of jobs that replay, values_summed those that were handed back to programs, which
    alone know them; samples_per_s is the sum over jobs that were not killed, scaling_efficiency
    their mean; shares of memory weigh every aggregator alike.
    """
    rows = []
    own = programs(results)
    for repetition, group in per_job.groupby("repetition"):
        pools = per_switch[per_switch["repetition"] == repetition]
        weights = pools["aggregators"] / pools["aggregators"].sum()
        fragments = group["fragments"].sum() or np.nan  # 0 of programs that only use gloo
        alive = group[group["outcome"] != "killed"]
        row = {
            "repetition": repetition,
            "ps_packets_per_fragment": _total(group["ps_packets"]) / fragments,
            "in_switch_share": _total(group["in_switch_share"] * group["fragments"]) / fragments,
            "jct_mean_ns": alive["jct_ns"].mean(skipna=False),
            **_by_kind(group),
            **_by_length(group),
            "waiting_mean_ns": group["waiting_ns"].mean(),
            "samples_per_s": _total(alive["samples_per_s"]),
            "scaling_efficiency": alive["scaling_efficiency"].mean(skipna=False),
            "ps_link_bytes_in": _total(group["ps_link_bytes_in"]),
            "ps_link_bytes_out": _total(group["ps_link_bytes_out"]),
            "retransmissions": _total(group["retransmissions"]),
            "values_checked": group.loc[~group["job"].isin(own), "values_checked"].sum(),
            "values_summed": group.loc[group["job"].isin(own), "values_checked"].sum(),
            "exact": bool(group["exact"].all()),
        }
        endings = [f"filling_{ending}_share" for ending in ENDINGS]
        for share in ("filling_share", *endings, "held_share", "free_share"):
            row[share] = (pools[share] * weights).sum(min_count=1, skipna=False)
        rate = pools["absorbed_per_aggregator_s"] * weights
        row["absorbed_per_aggregator_s"] = rate.sum(min_count=1, skipna=False)
        rows.append(row)
    return pd.DataFrame(rows)


def _by_kind(group: pd.DataFrame) -> dict[str, float]:
    """Mean JCT in ns of the jobs that have to communicate longer than they compute, and of the
    others; NaN where there is none of a kind."""
    alive = group[group["outcome"] != "killed"]
    computation = alive["computation_ns"] * alive["iterations"]
    communicating = alive["communication_bound_ns"].astype("float64") > computation
    return {
        "jct_communicating_ns": alive[communicating]["jct_ns"].mean(skipna=False),
        "jct_computing_ns": alive[~communicating]["jct_ns"].mean(skipna=False),
    }


LENGTHS = ("short", "medium", "long")


def _by_length(group: pd.DataFrame) -> dict[str, float]:
    """Mean and 99th percentile of the JCT in ns, of all jobs and of those of each length, NaN where
    there is none, or one never ended; and the number of jobs of each length.

    A job's length is its computation plus the bound of its communication, of all iterations. The
    range from the shortest to the longest job of the repetition is divided into three classes at
    equal ratios; if all jobs have one length, there is no class. The percentile is interpolated
    between the two jobs next to it."""
    alive = group[group["outcome"] != "killed"]
    jct = alive["jct_ns"]
    found = {"jct_p99_ns": _percentile(jct)}
    length = alive["computation_ns"] * alive["iterations"]
    length = length + alive["communication_bound_ns"].astype("float64")
    low, high = length.min(), length.max()
    for number, name in enumerate(LENGTHS):
        of_class = jct.iloc[:0]
        if 0 < low < high:
            place = np.log(length / low) / np.log(high / low) * len(LENGTHS)
            of_class = jct[place.clip(upper=len(LENGTHS) - 0.5) // 1 == number]
        found[f"jobs_{name}"] = len(of_class)
        found[f"jct_{name}_ns"] = of_class.mean(skipna=False)
        found[f"jct_p99_{name}_ns"] = _percentile(of_class)
    return found


def _percentile(values: pd.Series) -> float:
    """The 99th percentile; NaN where there are no values, or one is unknown."""
    whole = len(values) and not values.isna().any()
    return float(values.quantile(0.99)) if whole else float("nan")


def _total(values: pd.Series) -> float:
    """The sum as a float, NaN when a part is unknown."""
    return float(values.astype("float64").sum(skipna=False))


def interval(values: pd.Series, confidence: float = 0.95) -> tuple[float, float]:
    """(mean, half the width of its confidence interval) by Student's t; the half width is NaN for
    fewer than two values."""
    values = values.astype("float64").dropna()
    if len(values) < 2:
        return (float(values.mean()) if len(values) else float("nan")), float("nan")
    from scipy.special import stdtrit

    t = float(stdtrit(len(values) - 1, 0.5 + confidence / 2))
    return float(values.mean()), t * float(values.std(ddof=1)) / len(values) ** 0.5


def estimate(values: pd.Series) -> Estimate:
    """Mean, half the width of its 95 % confidence interval, and number of the known values."""
    return Estimate(*interval(values), int(values.count()))


def ratio_interval(
    values: pd.Series, base: pd.Series, confidence: float = 0.95
) -> tuple[float, float]:
    """(low, high): the confidence interval of how many times as large the mean of `values` is as
    that of `base`; NaN where one of them has fewer than TRUSTED values. By Welch's t of the
    logarithms: the two may vary differently."""
    logs = [np.log(each.astype("float64").dropna()) for each in (values, base)]
    if min(map(len, logs)) < TRUSTED:
        return float("nan"), float("nan")
    from scipy.special import stdtrit

    parts = [float(each.var(ddof=1)) / len(each) for each in logs]
    variance = sum(parts)
    middle = float(logs[0].mean() - logs[1].mean())
    if variance == 0:
        return float(np.exp(middle)), float(np.exp(middle))
    freedom = variance**2 / sum(
        part**2 / (len(each) - 1) for part, each in zip(parts, logs, strict=True)
    )
    half = float(stdtrit(freedom, 0.5 + confidence / 2)) * variance**0.5
    return float(np.exp(middle - half)), float(np.exp(middle + half))


MOST_JOBS = 64  # with rows in tables and bars and lines in charts of their own


def longest_jobs(jobs: pd.DataFrame, most: int = MOST_JOBS) -> pd.DataFrame:
    """The rows of `most` jobs at most: those with the longest JCTs, as means over repetitions. Jobs
    that did not end in all of them come first. `jobs`: table jobs, or frame "jobs"."""
    if jobs["job"].nunique() <= most:
        return jobs
    jct = jobs["jct_ns"].astype("float64").groupby(jobs["job"]).agg(_mean_if_known)
    kept = jct.sort_values(ascending=False, na_position="first", kind="stable").index[:most]
    return jobs[jobs["job"].isin(kept)]


def _mean_if_known(values: pd.Series) -> float:
    return float(values.mean(skipna=False))


def jobs_left_out(jobs: pd.DataFrame, most: int = MOST_JOBS) -> str:
    """Text that names the jobs whose rows `longest_jobs` returns; "" if all."""
    count = jobs["job"].nunique()
    return f"the {most} with the longest JCTs of {count} jobs" if count > most else ""


def job_names(jobs: pd.DataFrame) -> pd.Series:
    """The names of jobs by their numbers. `jobs`: table jobs, or frame "jobs"."""
    return jobs.drop_duplicates("job").set_index("job")["name"]


def first_repetition(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of the first repetition that a table knows."""
    return table[table["repetition"] == table["repetition"].min()]
