"""Laws of summaries: what reports say is what the rows say, by slow and exact arithmetic.

`analysis/data` computes with arrays of floats. Here every number is computed again from the rows,
in fractions, and has to agree to nine digits.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from p4fabric.netfile.law import Held, Place, law

from testbed.analysis.data import critical_path, departure_data, loss_data
from testbed.analysis.data.memory_chart_data import event_increments, pool_map
from testbed.analysis.data.run_summary import of_tokens, summary
from testbed.analysis.laws.tables import Tables, of_results
from testbed.results.counters import ABSORBED, LOSS_COLUMNS

if TYPE_CHECKING:
    import pandas as pd

    from testbed.results import Results

DIGITS = 9
Exact = Fraction | int | None  # None: not known, which is NaN in a summary


def _agree(held: Held, place: Place, what: str, value: float, exact: Exact) -> None:
    """A float of a summary is what the rows say."""
    known = value == value
    if known and exact is not None:
        near = abs(Fraction(float(value)) - exact) * 10**DIGITS <= abs(exact)
        held.equal(place, what, value, "exactly", value if near else float(exact))
    else:
        held.equal(place, what, value if known else None, "exactly", exact)


def _mean(values: Sequence[Exact]) -> Exact:
    total = _sum(values)
    return None if total is None or not values else Fraction(total) / len(values)


def _sum(values: Iterable[Exact]) -> Exact:
    total = Fraction(0)
    for each in values:
        if each is None:
            return None
        total += each
    return total


def _ratio(value: Exact, of: Exact) -> Exact:
    return None if value is None or not of else Fraction(value) / of


def _percentile(values: Sequence[Exact], per_cent: int) -> Exact:
    """Between the two values next to it, in order."""
    if not values or None in values:
        return None
    ordered = sorted(each for each in values if each is not None)
    place = Fraction(per_cent, 100) * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def _by(frame: pd.DataFrame, *keys: str) -> dict[tuple, dict[str, Any]]:
    rows = frame.to_dict("records")
    return {tuple(row[key] for key in keys): row for row in rows}


@law(
    "summaries of jobs",
    "Rates, shares and means of jobs and runs agree with a slow exact computation.",
    "samples/s = workers x batch x iterations / (end_ns - start_ns); jct_p99_ns lies between its"
    " neighbours in order; ...",
    "no job has finished",
    to_end=True,
)
def of_jobs(results: Results, held: Held) -> None:
    frames = summary(results)
    jobs, runs = _by(frames["jobs"], "repetition", "job"), _by(frames["run"], "repetition")
    owned = of_tokens(results)
    for run in of_results(results):
        _jobs_of(run, jobs, runs[run.number,], held, owned)


@law(
    "critical paths",
    "The parts of a job's critical path add up to its time; in virtual time no part is waiting.",
    "sum of time_ns = jct_ns - layers_ns; steps begin when what they depend on has ended",
    "no job has steps",
    to_end=True,
)
def of_paths(results: Results, held: Held) -> None:
    path = results.once(critical_path.frame)
    jobs = results.jobs.set_index(["repetition", "job"])
    jct = jobs["jct_ns"] - jobs["layers_ns"].fillna(0)
    waiting = path["time_ns"].where(path["kind"] == critical_path.WAITING, 0)
    is_virtual = results.environment.get("runtime") == "virtual"
    for key, rows in path.groupby(["repetition", "job"]):
        place = "repetition {}, job {}".format(*key)
        held.equal(place, "critical path", int(rows["time_ns"].sum()), "its JCT", int(jct[key]))
        if is_virtual:
            held.equal(place, "waiting", int(waiting[rows.index].sum()), "nothing", 0)


def _jobs_of(run: Tables, summaries: dict, whole: dict, held: Held, owned: set[int]) -> None:
    spans: defaultdict[int, list[Exact]] = defaultdict(list)
    last: dict[tuple, int | None] = {}
    for job, worker, number, start, end in sorted(
        run.rows("iterations", "job worker iteration start_ns end_ns")
    ):
        before = last.get((job, worker)) if number else start
        last[job, worker] = end
        spans[job].append(None if end is None or before is None else end - before)
    sums: defaultdict[int, int] = defaultdict(int)
    for job, name, value in run.rows("switch_counters", "job counter value"):
        if name == "sums":
            sums[job] += value
    times = ("start_ns", "end_ns", "jct_ns", "waiting_ns", "layers_ns")
    counts = ("ps_packets", "retransmissions")
    alive: list[dict[str, Exact]] = []
    every: list[dict[str, Exact]] = []
    for job, name, outcome, workers, number, fragments, batch, compute, *more in run.rows(
        "jobs", "job name outcome workers iterations fragments batch compute_ns", *times, *counts
    ):
        start, end, jct, waiting, layers, to_ps, resent = more
        added = Fraction(layers or 0)
        running = None if end is None else end - start + added
        samples = None if batch is None else workers * batch * number * 10**9
        exact: dict[str, Exact] = {
            "jct_ns": jct,
            "fragments": fragments * number,
            "ps_packets_per_fragment": _ratio(to_ps, fragments * number),
            "samples_per_s": _ratio(samples, running),
            "scaling_efficiency": _ratio(compute, running),
            "iteration_mean_ns": _mean(
                [each + added / number for each in spans[job] if each is not None]
            ),
            "waiting_ns": waiting,
        }
        if job in sums and fragments:
            exact["in_switch_share"] = min(Fraction(sums[job], fragments * number), Fraction(1))
        row = summaries[run.number, job]
        for column, value in exact.items():
            if column == "ps_packets_per_fragment" and (not fragments or job in owned):
                continue
            found = row[column]
            _agree(held, f"job {name}", column, float("nan") if _is_na(found) else found, value)
        every.append(exact | {"retransmissions": resent})
        if outcome != "killed":
            alive.append(exact)
    for column, exactly in (
        ("jct_mean_ns", _mean([each["jct_ns"] for each in alive])),
        ("jct_p99_ns", _percentile([each["jct_ns"] for each in alive], 99)),
        ("samples_per_s", _sum(each["samples_per_s"] for each in alive)),
        ("scaling_efficiency", _mean([each["scaling_efficiency"] for each in alive])),
        ("retransmissions", _sum(each["retransmissions"] for each in every)),
        ("lost_packets", _lost(run)),
    ):
        _agree(held, "run", column, whole[column], exactly)


def _is_na(value: object) -> bool:
    return value is None or value != value or str(value) == "<NA>"


def _lost(run: Tables) -> Exact:
    known = [
        each
        for counts in run.rows("links", *LOSS_COLUMNS, "unmodelled_drops")
        for each in counts
        if each is not None
    ]
    return sum(known) if known else None


@law(
    "summaries of memory",
    "Shares of aggregator-time and maps of pools agree with counters and samples.",
    "filling_share = sum of filling_*_ns / (memory.capacity x span); increments of events add up to"
    " the last sample; pool map = 100 (filling + held) / seen",
    "no switch has memory",
    to_end=True,
)
def of_memory(results: Results, held: Held) -> None:
    switches = _by(summary(results)["switches"], "repetition", "switch")
    for run in of_results(results):
        counts: Counter[tuple] = Counter()
        for switch, name, value in run.rows("switch_counters", "switch counter value"):
            counts[switch, name] += value
        for (number, switch), row in switches.items():
            if number != run.number:
                continue
            whole = row["aggregators"] * Fraction(row["span_ns"]) if row["span_ns"] else None
            for kind in ("filling", "held"):
                times = [
                    counts[key] for key in counts if key[0] == switch and _is_time(key[1], kind)
                ]
                if times:
                    column = f"{kind}_share"
                    _agree(held, switch, column, row[column], _ratio(sum(times), whole))
            absorbed = sum(counts[switch, name] for name in ABSORBED)
            held.equal(switch, "absorbed", int(row["absorbed"]), "its events", absorbed)
    run = of_results(results)[0]
    last: dict[tuple, int] = {}
    fell = set()
    for switch, event, value in run.rows("events", "switch event value"):
        if value < last.get((switch, event), 0):
            fell.add(switch)
        last[switch, event] = value
    for switch in {switch for switch, _ in last} - fell:
        added = event_increments(results, switch).groupby("event")["count"].sum()
        for event, count in added.items():
            held.equal((switch, event), "increments", count, "last sample", last[switch, event])
    _maps(results, run, held)


def _is_time(counter: str, kind: str) -> bool:
    return counter.startswith(kind) and counter.endswith("_ns")


def _maps(results: Results, run: Tables, held: Held) -> None:
    """Pool maps beside table pool."""
    used: defaultdict[str, dict[tuple, Fraction]] = defaultdict(dict)
    for switch, first, time_ns, seen, filling, kept in run.rows(
        "pool", "switch first time_ns seen filling held"
    ):
        used[switch][first, time_ns] = Fraction(100 * (filling + kept), seen)
    for switch, exact in used.items():
        drawn = pool_map(results, switch)
        assert drawn is not None
        for row, first in enumerate(drawn.first.tolist()):
            for column, time_ns in enumerate(drawn.time_ns.tolist()):
                if (first, time_ns) in exact:
                    far = abs(Fraction(float(drawn.used[row, column])) - exact[first, time_ns])
                    place = switch, "block", first, "at", time_ns, "ns"
                    held.at_most(place, "map is off by %", float(far), "rounding", 0.0501)


@law(
    "summaries of packets",
    "Summaries of departures and losses add up to the rows that they are made from.",
    "sum over departure_data.departures = sum of departures.packets; PSs, losses, resent alike",
    "the run has no departures and has lost nothing",
)
def of_packets(results: Results, held: Held) -> None:
    told: Counter[tuple] = Counter()
    lost: Counter[str] = Counter()
    jobs: Counter[tuple] = Counter()
    measured = False
    for run in of_results(results):
        for job, cause, packets in run.rows("departures", "job cause packets"):
            told[job, cause] += packets
        for counts in run.rows("links", *LOSS_COLUMNS):
            for cause, count in zip(LOSS_COLUMNS.values(), counts, strict=True):
                lost[cause] += count or 0
                measured = measured or count is not None
        for job, cause, packets in run.rows("losses", "job cause packets"):
            jobs[loss_data.OTHERS if job is None else job, f"lost_{cause}"] += packets
        for job, cause, packets in run.rows("resent", "job cause packets"):
            jobs[job, f"after_{cause}"] += packets
    found: Counter[tuple] = Counter()
    for row in departure_data.departures(results).to_dict("records"):
        found[row["job"], row["cause"]] += row["packets"]
    for job, cause in told.keys() | found.keys():
        place = f"job {job}, {cause}"
        held.equal(place, "departures told", found[job, cause], "rows", told[job, cause])
    _servers(results, held)
    _losses(results, lost, jobs, held)


def _servers(results: Results, held: Held) -> None:
    """Counts of the links of PSs, and of departures from the switches at them."""
    sums: defaultdict[tuple, int | None] = defaultdict(lambda: None)
    fragments: Counter[int] = Counter()
    left: Counter[tuple] = Counter()

    def add(job: int, name: str, count: int | None) -> None:
        if count is not None:
            sums[job, name] = (sums[job, name] or 0) + count

    for run in of_results(results):
        roles = Counter(host for (host,) in run.rows("hosts", "host"))
        at: defaultdict[str, set[int]] = defaultdict(set)  # jobs, by the host of a PS
        for host, role, job in run.rows("hosts", "host role job"):
            if role == "ps" and roles[host] == 1:
                at[host].add(job)
        ends = set()
        for node, host, direction, *counts in run.rows(
            "links", "node neighbour direction packets losses duplicates"
        ):
            for job in at[host] if direction == "egress" else ():
                ends.add((job, node))
                for name, count in zip(("carried", "lost", "doubled"), counts, strict=True):
                    add(job, name, count)
        for job, count, each, arrived in run.rows("jobs", "job fragments iterations ps_packets"):
            fragments[job] += count * each
            add(job, "reached", arrived)
        for switch, job, at_ps, cause, packets in run.rows(
            "departures", "switch job at_ps cause packets"
        ):
            if (job, switch) in ends and at_ps is not False and cause != departure_data.ANSWERS:
                left[job, cause] += packets
    for job, row in departure_data.link_packets(results).iterrows():
        for name, value in row.items():
            _agree(held, f"job {job}", f"{name} at its PSs", value, sums[job, name])
    shares = departure_data.per_fragment(results)
    for (job, cause), count in left.items():
        if fragments[job]:
            exact = _ratio(count, fragments[job])
            _agree(held, f"job {job}", f"{cause} per fragment", shares[cause].get(job, 0.0), exact)


def _losses(results: Results, lost: Counter, jobs: Counter, held: Held) -> None:
    by_link, by_job = loss_data.by_link(results), loss_data.by_job(results)
    for cause, count in lost.items():
        if count or cause in by_link:
            held.equal(f"losses {cause}", "by link", by_link[cause].sum(), "rows", count)
    for (job, column), count in jobs.items():
        value = by_job[column].get(job, 0.0)
        held.equal(f"job {job}", column, value, "rows", count)
