"""The numbers that explain a run, computed from its tables.

PS packets per fragment come first: 1 is perfect aggregation, the number of workers is no
aggregation. They explain the job completion time (JCT) better than the share of fragments that the
switch completed, because an evicted partial is already a sum.

Shares of aggregator-time are the switch's own accumulators over pool size x duration, so they
depend on no sampling period. The duration is the *span* of a repetition: from the first job's start
to the last job's end. What a run did not measure is NaN here.

A sweep has thousands of runs with a few jobs each, for which a merge or a pivot of pandas takes
milliseconds. So what there is one of per job, host, link or switch is looked up in dictionaries.
"""

from __future__ import annotations

import contextlib
import pickle
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd
from p4fabric.base import units
from p4fabric.base.text_table import TRUSTED, Estimate

from testbed.analysis.data import loss_data, serving_data
from testbed.results.counters import ABSORBED, ENDINGS, EVENTS, FILLING, HELD, SUMS
from testbed.systems.system import fallback_words

if TYPE_CHECKING:
    from testbed.results import Results

Frames = dict[str, pd.DataFrame]  # of `summary`
ByJob = dict[tuple[int, int], float]  # by repetition and job

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
    "layers",
    "layers_simulated",
    "messages_simulated",
    "layers_ns",
    "outcome",
    "exact",
    "saturated",
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
    "events" (per repetition, switch, event and job), "run" (per repetition), and "lost_by_link" and
    "lost_by_job" (see loss_data.py). They are computed once; the frames are the caller's own."""
    return {name: frame.copy() for name, frame in results.once(_summary).items()}


def packed(results: Results) -> bytes:
    """A run's summary, for another process that reads the run, too (`take`)."""
    return pickle.dumps(results.once(_summary))


def take(results: Results, summary: bytes) -> None:
    """Use the summary that another process of the same code has made of the same run. One that
    another version of pandas has packed may be of no use, and is made anew when it is needed."""
    with contextlib.suppress(Exception):
        results.keep(_summary, pickle.loads(summary))


@pd.option_context("mode.string_storage", "python")  # type: ignore[untyped-decorator]
def _summary(results: Results) -> Frames:
    per_job = jobs(results)
    per_switch = switches(results)
    return {
        "jobs": per_job,
        "switches": per_switch,
        "events": events(results),
        "run": run(results, per_job, per_switch),
        "lost_by_link": loss_data.by_link(results),
        "lost_by_job": loss_data.by_job(results),
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

    fragments (of all iterations), ps_packets_per_fragment (NaN: `of_tokens`), in_switch_share
    (fragments that switches completed / fragments; NaN: unknown, `_whole_completions`), jct_ns,
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
    out.loc[out["job"].isin(of_tokens(results)), "ps_packets_per_fragment"] = np.nan
    added = table["layers_ns"].astype("float64").fillna(0)
    running = (table["end_ns"].astype("float64") - table["start_ns"] + added) / 1e9
    samples = table["workers"] * table["batch"].astype("float64") * table["iterations"]
    out["samples_per_s"] = samples / running
    out["scaling_efficiency"] = table["compute_ns"].astype("float64") / 1e9 / running
    out["completions"] = _of_jobs(out, _whole_completions(results))
    # Opening chunks, which carry exponents alone, complete too.
    out["in_switch_share"] = (out["completions"] / out["fragments"]).clip(upper=1)
    out["computation_ns"] = _of_jobs(out, _computation(results))
    times = iteration_times(results).groupby(_JOB)["time_ns"]
    for name, found in (("mean", times.mean()), ("min", times.min()), ("max", times.max())):
        out[f"iteration_{name}_ns"] = _of_jobs(out, _by_job(found)) + added / table["iterations"]
    return communication(results, out)


def of_tokens(results: Results) -> set[int]:
    """Jobs whose tokens name their ranks in packets. Of these not the PS gets the sums, but the
    tokens' owner."""
    models = [job.get("model") for job in results.experiment.get("jobs") or ()]
    return {
        number
        for number, model in enumerate(models)
        if isinstance(model, dict) and (model.get("experts") or {}).get("calls") == "packets"
    }


def _by_job(found: pd.Series) -> ByJob:
    return dict(zip(found.index, found.to_numpy("float64", na_value=np.nan), strict=True))


def _of_jobs(table: pd.DataFrame, found: ByJob) -> np.ndarray:
    """Found values, row by row of a table of jobs; NaN where there is nothing."""
    keys = zip(table["repetition"], table["job"], strict=True)
    return np.array([found.get(key, np.nan) for key in keys], dtype="float64")


def _floats(column: pd.Series) -> np.ndarray:
    return column.to_numpy("float64", na_value=np.nan)


def _of_clients(results: Results) -> pd.Series:
    """Rows of table steps of ranks that stand for clients, bool: of the last one of a job whose
    requests come at given times. Between them it waits."""
    asked = results.table("requests")
    served = asked["job"][asked["waited_ns"].notna()].unique()
    steps = results.steps
    last = steps.groupby("job")["worker"].transform("max")
    return steps["job"].isin(served) & (steps["worker"] == last)


def _computation(results: Results) -> ByJob:
    """computation_ns: of one iteration, mean of the workers' first ones, in which no layer waits
    for a gradient, and no weights are updated. A program of ranks waits within its iterations;
    there it is the sum of its compute steps, or, where they or some layers were not recorded, the
    nominal time of a rank."""
    rows = results.iterations
    spent = rows["compute_end_ns"].astype("float64") - rows["start_ns"].astype("float64")
    is_first = rows["iteration"] == 0
    found = _by_job(spent[is_first].groupby([rows[key][is_first] for key in _JOB]).mean())
    if not len(calls := results.collectives):
        return found
    of_ranks = set(zip(calls["repetition"], calls["job"], strict=True))
    table = results.jobs
    nominal = table["compute_ns"].astype("float64") / table["iterations"]
    for key, time in zip(zip(table["repetition"], table["job"], strict=True), nominal, strict=True):
        if key in of_ranks and key in found and not np.isnan(time):
            found[key] = time
    steps = results.steps
    steps = steps[(steps["kind"] == "compute") & (steps["iteration"] == 0) & ~_of_clients(results)]
    busy = (steps["end_ns"] - steps["start_ns"]).groupby([steps[key] for key in (*_JOB, "worker")])
    rows = table[table["layers"].notna()]
    sampled = {*zip(rows["repetition"], rows["job"], strict=True)}
    recorded = _by_job(busy.sum().groupby(level=_JOB).mean())
    return found | {key: time for key, time in recorded.items() if key not in sampled}


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
    out = per_job.copy()
    rows = results.tensors
    groups = rows.groupby([*_JOB, "iteration"])
    last, first = groups["done_ns"].max(), groups["first_sent_ns"].min()
    total: ByJob = {}
    for (repetition, job, _), time in zip(last.index, _floats(last) - _floats(first), strict=True):
        if not np.isnan(time):
            total[repetition, job] = total.get((repetition, job), 0.0) + time
    out["communication_ns"] = _of_jobs(out, total)
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
    holds = counters["counter"].isin(HELD)
    held = set(counters["repetition"][holds & (counters["value"] > 0)])
    unheld = per_job["repetition"].isin(set(counters["repetition"][holds]) - held)
    packets = packets - per_job["reminders"].astype("float64").where(~unheld, 0)
    # The bound is the time of all fragments on the slowest link.
    slowest, server = _link_rates(results)
    faster = _of_jobs(per_job, slowest) / _of_jobs(per_job, server)
    at_packets = bound * (packets / per_job["fragments"]) * faster
    aggregated = per_job["ps_packets"].notna() & per_job["in_switch_share"].notna()
    if _sends_results_from_switch(results):
        return bound.where(aggregated)
    doubled = links["repetition"][~(_floats(links["duplicates"]) == 0)]
    counted = ~per_job["repetition"].isin(doubled)
    return at_packets.where(counted & (at_packets > bound), bound).where(aggregated)


def _link_rates(results: Results) -> tuple[ByJob, ByJob]:
    """Rates in bit/s of each job: of its hosts' slowest link, and of the fastest to its PS."""
    links, hosts = results.links, results.hosts
    of_host: dict[tuple[int, str], list[tuple[float, bool]]] = defaultdict(list)
    to_host = zip(links["repetition"], links["neighbour"], strict=True)
    is_egress = links["direction"] == "egress"
    for host, rate, towards in zip(to_host, _floats(links["rate_bps"]), is_egress, strict=True):
        if not np.isnan(rate):
            of_host[host].append((rate, towards))
    slowest: ByJob = {}
    server: ByJob = {}
    columns = (hosts[name] for name in ("repetition", "job", "role", "host"))
    for repetition, job, role, host in zip(*columns, strict=True):
        for rate, towards in of_host[repetition, host]:
            slowest[repetition, job] = min(rate, slowest.get((repetition, job), rate))
            if role == "ps" and towards:
                server[repetition, job] = max(rate, server.get((repetition, job), rate))
    return slowest, server


def _sends_results_from_switch(results: Results) -> bool:
    """True if a sum reaches the workers no later than its PS."""
    system = results.experiment.get("system")
    return isinstance(system, dict) and system.get("results_from") == "switch"


def _without_losses(results: Results) -> set[int]:
    """The repetitions in which every packet that was sent arrived. A repetition is not among them
    where links do not count what they lost, as on BMv2."""
    links, hosts, faults = results.links, results.hosts, results.faults
    causes = ["queue_drops", "losses", "unmodelled_drops", "down_drops"]
    lossy = np.isnan(_floats(links["losses"]))
    for cause in causes:
        lossy |= _floats(links[cause]) > 0
    bad = [
        links["repetition"][lossy],
        hosts["repetition"][_floats(hosts["socket_drops"]) > 0],
        faults["repetition"][faults["kind"].isin(["kill", "restart"]) & faults["begun_ns"].notna()],
    ]
    return set(links["repetition"]).difference(*bad)


def _whole_completions(results: Results) -> ByJob:
    """completions: of sums over all workers of a job, or of a group of its ranks.

    Without counter `sums` (links failed, or the run is older) it is known only of one switch: with
    several, a completed sum may be a part of one that another switch completes."""
    rows = results.switch_counters
    counted = rows[rows["counter"] == SUMS]
    if not len(counted):
        counted = rows[(rows["counter"] == "completions") & rows["job"].notna()]
        if counted["switch"].nunique() > 1:
            return {}
    return _by_job(counted.astype({"job": "int32"}).groupby(_JOB)["value"].sum())


def spans(results: Results) -> pd.Series:
    """Span of each repetition in ns (float64, NaN when a job did not end that was not killed by
    plan), by repetition."""
    rows, faults = results.jobs, results.faults
    kills: dict[int, float] = defaultdict(float)
    planned = zip(faults["repetition"], faults["kind"], _floats(faults["begun_ns"]), strict=True)
    for repetition, kind, begun in planned:
        if kind == "kill" and begun > kills[repetition]:
            kills[repetition] = begun
    starts: dict[int, int] = {}
    ends: dict[int, float] = {}
    columns = (rows["repetition"], rows["outcome"], rows["start_ns"], _floats(rows["end_ns"]))
    for repetition, outcome, start, end in zip(*columns, strict=True):
        starts[repetition] = min(start, starts.get(repetition, start))
        if outcome != "killed":
            ends[repetition] = np.maximum(end, ends.get(repetition, kills[repetition]))
    found = {each: ends.get(each, np.nan) - starts[each] for each in sorted(starts)}
    return pd.Series(found, dtype="float64").rename_axis("repetition")


def naturally(column: pd.Series) -> pd.Series:
    """Keys of a column's values, with which names are sorted as people count (`sort_values`)."""
    return column if pd.api.types.is_numeric_dtype(column) else column.map(units.natural)


def by_switch(rows: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """The rows of each switch."""
    return sorted(rows.groupby("switch"), key=lambda each: units.natural(each[0]))


def switches(results: Results) -> pd.DataFrame:
    """One row per repetition and switch that reports memory.

    aggregators (pool size), span_ns; shares of aggregator-time (float64, 0..1) filling_share and
    its parts filling_completed_share, filling_evicted_share, ... by how the occupation ended,
    held_share, free_share; absorbed (contributions) and absorbed_per_aggregator_s.
    """
    pools = results.memory.groupby(["repetition", "switch"])["capacity"].max()
    out = pools.rename("aggregators").reset_index()
    out = out.sort_values(["repetition", "switch"], key=naturally, ignore_index=True)
    out["span_ns"] = out["repetition"].map(spans(results)).astype("float64")
    counted: dict[tuple[int, str, str], int] = defaultdict(int)
    rows = results.switch_counters
    columns = (rows[name] for name in ("repetition", "switch", "counter", "value"))
    for repetition, switch, counter, value in zip(*columns, strict=True):
        counted[repetition, switch, counter] += value
    places = list(zip(out["repetition"], out["switch"], strict=True))

    def total(counters: Iterable[str]) -> np.ndarray:
        """Sum of those that the switch counts; NaN where it counts none."""
        each = [[counted.get((*at, name), np.nan) for at in places] for name in counters]
        parts = np.array(each, dtype="float64")
        return np.where(np.isnan(parts).all(axis=0), np.nan, np.nansum(parts, axis=0))

    whole = out["aggregators"] * out["span_ns"]
    out["filling_share"] = total(FILLING) / whole
    for ending in ENDINGS:
        out[f"filling_{ending}_share"] = total([f"filling_{ending}_ns"]) / whole
    out["held_share"] = total(HELD) / whole
    out["free_share"] = 1 - out["filling_share"] - out["held_share"].fillna(0)
    out["absorbed"] = total(ABSORBED)
    out["absorbed_per_aggregator_s"] = out["absorbed"] / (whole / 1e9)
    return out


def events(results: Results) -> pd.DataFrame:
    """Columns repetition, switch, event, job (nullable), value; events in the order of their
    declaration, without those that the switch does not count."""
    rows = results.switch_counters
    rows = rows[rows["counter"].isin(list(EVENTS))].rename(columns={"counter": "event"})
    rank = rows["event"].map({name: number for number, name in enumerate(EVENTS)})
    order = ["repetition", "switch", "rank", "job"]
    rows = rows.assign(rank=rank).sort_values(order, key=naturally)
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
    alone know them; flow_bps is the goodput of the first flow of background traffic, flows_bps the
    mean, flows_jain Jain's index of them (see `_of_flows`); sum_error is the mean error of sums
    that were kept, order_bits their bits that the order of additions has changed; server_share is
    the share of fragments whose sum no switch completed, overflow_share that of fragments with
    results that overflowed, at the worker with most of them; worker_bytes are those that workers
    have sent, link_bytes those on all links;
    samples_per_s is the sum over jobs that were not killed, scaling_efficiency their mean; what
    requests to served models measured is of all such jobs together (serving_data.py); shares of
    memory weigh every aggregator alike.
    """
    rows = []
    own, lost = programs(results), loss_data.lost_packets(results)
    owned = of_tokens(results)
    kept, hosts = _of_sums(results), results.hosts
    sent = hosts[hosts["role"] == "worker"].groupby("repetition")["bytes_sent"].sum()
    links = results.links  # one that is between switches has a row at both of its ends
    once = (links["direction"] == "egress") | ~links["neighbour"].isin(links["node"])
    carried = links[once].groupby("repetition")["bytes"].sum()
    for repetition, group in per_job.groupby("repetition"):
        pools = per_switch[per_switch["repetition"] == repetition]
        weights = _floats(pools["aggregators"]) / pools["aggregators"].sum()
        fragments = group["fragments"].sum() or np.nan  # 0 of programs that only use gloo
        completed = group["in_switch_share"] * group["fragments"]
        to_ps = group["ps_packets"].mask(group["job"].isin(owned))
        alive = group[group["outcome"] != "killed"]
        summed = group["job"].isin(own)
        row = {
            "repetition": repetition,
            "ps_packets_per_fragment": _total(to_ps) / fragments,
            "in_switch_share": _total(completed) / fragments,
            "jct_mean_ns": _mean(alive["jct_ns"]),
            **_by_kind(alive),
            **_by_length(alive),
            "waiting_mean_ns": group["waiting_ns"].mean(),
            "samples_per_s": _total(alive["samples_per_s"]),
            "scaling_efficiency": _mean(alive["scaling_efficiency"]),
            **serving_data.of_repetition(results, repetition),
            "ps_link_bytes_in": _total(group["ps_link_bytes_in"]),
            "ps_link_bytes_out": _total(group["ps_link_bytes_out"]),
            "retransmissions": _total(group["retransmissions"]),
            "lost_packets": float(lost.get(repetition, np.nan)),
            **_of_flows(results.flows[results.flows["repetition"] == repetition]),
            "sum_error": float(kept["mean_error"].get(repetition, np.nan)),
            "order_bits": float(kept["order_bits"].get(repetition, np.nan)),
            "server_share": 1 - _total(completed) / fragments,
            "worker_bytes": float(sent.get(repetition, np.nan)),
            "link_bytes": float(carried.get(repetition, np.nan)),
            "overflow_share": _total(group["saturated"].astype("float64")) / fragments,
            "values_checked": group["values_checked"][~summed].sum(),
            "values_summed": group["values_checked"][summed].sum(),
            "exact": bool(group["exact"].all()),
            "fallbacks": fallback_notes(group),
            "layers": layers_words(group),
        }
        endings = [f"filling_{ending}_share" for ending in ENDINGS]
        rate = "absorbed_per_aggregator_s"
        for share in ("filling_share", *endings, "held_share", "free_share", rate):
            weighed = _floats(pools[share]) * weights
            row[share] = weighed.sum() if len(weighed) else np.nan
        rows.append(row)
    return pd.DataFrame(rows)


def _by_kind(alive: pd.DataFrame) -> dict[str, float]:
    """Mean JCT in ns of the jobs that have to communicate longer than they compute, and of the
    others; NaN where there is none of a kind. alive: the jobs that were not killed."""
    jct, bound = _floats(alive["jct_ns"]), _floats(alive["communication_bound_ns"])
    communicating = bound > _floats(alive["computation_ns"]) * _floats(alive["iterations"])
    return {
        "jct_communicating_ns": _mean(jct[communicating]),
        "jct_computing_ns": _mean(jct[~communicating]),
    }


def _of_sums(results: Results) -> pd.DataFrame:
    """Means of kept sums, by repetition; the sums themselves, up to 1 GiB, are not read."""
    names = "repetition", "mean_error", "order_bits"
    kept = {name: pd.Series(results.column("sums", name), dtype="float64") for name in names}
    return pd.DataFrame(kept).groupby("repetition").mean()


def _of_flows(flows: pd.DataFrame) -> dict[str, float]:
    """Goodput of a repetition's first flow and mean of all in bit/s, and Jain's index of fairness,
    (sum x)^2 / (n sum x^2): 1 where all have the same, 1 / n where one has all. NaN without
    flows."""
    rates = _floats(flows["mean_bps"])
    squares = len(rates) * (rates**2).sum()
    fairness = float(rates.sum() ** 2 / squares) if squares > 0 else float("nan")
    first = float(rates[0]) if len(rates) else float("nan")
    return {"flow_bps": first, "flows_bps": _mean(rates), "flows_jain": fairness}


LENGTHS = ("short", "medium", "long")


def _by_length(alive: pd.DataFrame) -> dict[str, float]:
    """Mean and 99th percentile of the JCT in ns, of all jobs and of those of each length, NaN where
    there is none, or one never ended; and the number of jobs of each length.

    A job's length is its computation plus the bound of its communication, of all iterations. The
    range from the shortest to the longest job of the repetition is divided into three classes at
    equal ratios; if all jobs have one length, there is no class. The percentile is interpolated
    between the two jobs next to it. alive: the jobs that were not killed."""
    jct, bound = _floats(alive["jct_ns"]), _floats(alive["communication_bound_ns"])
    found = {"jct_p99_ns": _percentile(jct)}
    length = _floats(alive["computation_ns"]) * _floats(alive["iterations"]) + bound
    known = length[~np.isnan(length)]
    low, high = (known.min(), known.max()) if len(known) else (0.0, 0.0)
    for number, name in enumerate(LENGTHS):
        of_class = jct[:0]
        if 0 < low < high:
            place = np.log(length / low) / np.log(high / low) * len(LENGTHS)
            of_class = jct[np.minimum(place, len(LENGTHS) - 0.5) // 1 == number]
        found[f"jobs_{name}"] = len(of_class)
        found[f"jct_{name}_ns"] = _mean(of_class)
        found[f"jct_p99_{name}_ns"] = _percentile(of_class)
    return found


def _percentile(values: np.ndarray) -> float:
    """The 99th percentile; NaN where there are no values, or one is unknown."""
    return float(np.percentile(values, 99)) if len(values) else float("nan")


def _mean(values: np.ndarray | pd.Series) -> float:
    """The same of the mean."""
    return float(np.mean(np.asarray(values))) if len(values) else float("nan")


def _total(values: pd.Series) -> float:
    """The sum as a float, NaN when a part is unknown."""
    return float(_floats(values).sum())


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


class _Welch(NamedTuple):
    """The distance of the means of two samples' logarithms, its standard error, and the degrees of
    freedom of Student's t, by Welch: the samples may vary differently."""

    middle: float
    error: float
    freedom: float

    @classmethod
    def of(cls, values: pd.Series, base: pd.Series) -> _Welch | None:
        """None where one of them has fewer than TRUSTED values."""
        logs = [np.log(each.astype("float64").dropna()) for each in (values, base)]
        if min(map(len, logs)) < TRUSTED:
            return None
        parts = [float(each.var(ddof=1)) / len(each) for each in logs]
        middle = float(logs[0].mean() - logs[1].mean())
        if not (variance := sum(parts)):
            return cls(middle, 0.0, 1.0)
        squares = (part**2 / (len(each) - 1) for part, each in zip(parts, logs, strict=True))
        return cls(middle, variance**0.5, variance**2 / sum(squares))

    @property
    def p(self) -> float:
        """The probability of means so far apart, or further, of samples that are alike."""
        from scipy.special import stdtr

        if not self.error:
            return float(not self.middle)
        return 2 * float(stdtr(self.freedom, -abs(self.middle / self.error)))

    def interval(self, confidence: float) -> tuple[float, float]:
        from scipy.special import stdtrit

        half = float(stdtrit(self.freedom, 0.5 + confidence / 2)) * self.error
        return float(np.exp(self.middle - half)), float(np.exp(self.middle + half))


def ratio_intervals(
    pairs: Sequence[tuple[pd.Series, pd.Series]], confidence: float = 0.95
) -> list[tuple[float, float]]:
    """(low, high) of comparisons that a reader sees together, (values, base) each: the confidence
    interval of how many times as large the mean of `values` is as that of `base`; NaN where one of
    them has fewer than TRUSTED values. By Holm's method: of k, the one with the smallest p has an
    interval with a k-th of the probability of error, the next one with a (k - 1)-th, and so on. So
    all that exclude 1 are right together with this confidence."""
    tests = [_Welch.of(*pair) for pair in pairs]
    known = sorted((test.p, place) for place, test in enumerate(tests) if test)
    found = [(float("nan"), float("nan"))] * len(tests)
    for rank, (_, place) in enumerate(known):
        test = tests[place]
        assert test is not None
        found[place] = test.interval(1 - (1 - confidence) / (len(known) - rank))
    return found


NAMED = 2  # jobs carried by hosts that a cell names
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
    """The names of jobs by their numbers, with the algorithm of hosts that carries a job in place
    of the system: `gpt (ring)`. `jobs`: table jobs, or frame "jobs"."""
    each = jobs.drop_duplicates("job").set_index("job")
    instead = " (" + each["fallback"].astype("object") + ")"
    return each["name"].astype("object") + instead.where(each["fallback"].notna(), "")


def carriers(jobs: pd.DataFrame) -> pd.Series:
    """Carrier of each row's job: an algorithm of hosts, or the system."""
    instead = jobs["fallback"].astype("object")
    return instead.where(jobs["fallback"].notna(), jobs["system"].astype("object"))


def fallbacks(jobs: pd.DataFrame) -> list[str]:
    """Jobs that an algorithm of hosts carries in place of the system, and why, such as `gpt: ring,
    because s1 is held by llama`."""
    return [
        fallback_words(row.name, row.fallback, row.refused)
        for row in jobs[jobs["fallback"].notna()].drop_duplicates("job").itertuples(index=False)
    ]


def layers_words(jobs: pd.DataFrame) -> str:
    """Of the rows of table jobs, how many layers were simulated, such as `6 of 32 layers`, by job
    if they differ; "": all were."""
    rows = jobs[jobs["layers"].notna()].drop_duplicates("name")
    words = {
        name: f"{simulated} of {layers} layers"
        + (f" and {units.share(part)} of messages" if pd.notna(part) else "")
        for name, simulated, layers, part in zip(
            *(rows[key] for key in ("name", "layers_simulated", "layers", "messages_simulated")),
            strict=True,
        )
    }
    if len({*words.values()}) <= 1:
        return next(iter(words.values()), "")
    return ", ".join(f"{name} {text}" for name, text in words.items())


def layers_sentence(jobs: pd.DataFrame) -> str:
    """A sentence on layers that were not simulated; "": all were."""
    found = layers_words(jobs)
    return found and (
        f"{found} were simulated; JCTs have the time of the others, all else is of these"
    )


def fallback_notes(jobs: pd.DataFrame) -> str:
    """The same of few words, for a cell or a legend: `ring for gpt`, or `ring for 7 of 9 jobs`;
    "" where the system carries all jobs."""
    each = jobs.drop_duplicates("job")
    found = []
    for algorithm, of in each[each["fallback"].notna()].groupby("fallback"):
        many = len(of) > NAMED or len(of) == len(each) > 1
        who = f"{len(of)} of {len(each)} jobs" if many else " and ".join(of["name"])
        found.append(f"{algorithm} for {who}")
    return ", ".join(found)


def first_repetition(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of the first repetition that a table knows."""
    return table[table["repetition"] == table["repetition"].min()]
