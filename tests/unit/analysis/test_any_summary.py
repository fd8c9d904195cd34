"""Summaries of any tables are what a slow count over their rows says, also of rows that no run has
together: unknown counts, jobs that were killed, two switches, links of several rates."""

from __future__ import annotations

import math
import random
from collections import Counter, defaultdict
from copy import deepcopy

import numpy as np
import pytest
from p4fabric.netfile.law import Held

from testbed.analysis.data import loss_data
from testbed.analysis.data.run_summary import LENGTHS, summary
from testbed.analysis.laws.summaries import of_packets
from testbed.analysis.tables.report_tables import comparable
from testbed.results import Writer, read
from testbed.results.counters import ABSORBED, DEPARTURES, EVENTS, FILLING, HELD, LOSS_COLUMNS
from tests.support.synthetic_results import ENVIRONMENT, tables

NAN = math.nan
KILLS = ("kill", "restart")


CAUSES = (*LOSS_COLUMNS, "unmodelled_drops")


def drawn(draw: random.Random, summed: bool) -> dict:
    """The tables of the synthetic run with four jobs, two switches, drawn numbers, and at most one
    cause of a loss. summed: switches count whole sums."""
    made = deepcopy(tables())
    few = draw.random() < 0.5  # unknown counts
    trouble = draw.choice([*CAUSES, "unknown", "socket", *KILLS, "slow", "none counted", ""])
    for table in ("jobs", "iterations", "tensors", "hosts", "switch_counters"):
        made[table] += [row | {"job": row["job"] + 2} for row in made[table]]
    hosts = iter(range(1, 99))
    for row in made["hosts"]:
        row |= {"host": f"h{next(hosts)}", "socket_drops": draw.choice([None, 0])}
        if row["role"] == "ps" and draw.random() < 0.3:
            row["host"] = f"h{draw.choice([n for n in (1, 2, 4, 5) if n // 4 != row['job'] % 2])}"
    places = [(switch, job) for switch in ("s1", "s2") for job in range(4)]
    made["departures"] = [
        {"switch": switch, "job": job, "cause": cause, "packets": draw.randrange(10**6),
         "at_ps": draw.choice([True, True, False, None])}
        for switch, job in places
        for cause in draw.sample([*DEPARTURES], 5)
    ]  # fmt: skip
    made["links"] += [
        row | {"port": row["port"] + 6, "neighbour": f"h{row['port'] + 6}"} for row in made["links"]
    ]
    for row in made["links"]:
        row["rate_bps"] = draw.choice([10**9, 10**10, 4 * 10**10, None])
        row["duplicates"] = draw.choice([0] * 30 + [1, None])
        row["marks"] = draw.choice([None, 0, 0, 3])
    if trouble in CAUSES:
        draw.choice(made["links"])[trouble] = 2
    elif trouble == "unknown":
        draw.choice(made["links"])["losses"] = None
    elif trouble == "socket":
        for row in draw.sample(made["hosts"], 5):
            row["socket_drops"] = 1
    killed, outcome = draw.choice([None, 1, 3]), draw.choice(["killed", "unfinished"])
    for row in made["jobs"]:
        ends = row["job"] != killed
        row["start_ns"] = row["submitted_ns"] + (wait := draw.randrange(10**7))
        row["end_ns"] = row["start_ns"] + draw.randrange(10**7, 10**9) if ends else None
        row["jct_ns"] = row["end_ns"] - row["submitted_ns"] if ends else None
        row |= {"outcome": "finished" if ends else outcome, "exact": draw.random() < 0.9}
        row |= {"waiting_ns": wait, "fragments": draw.randrange(1, 99)}
        row["retransmissions"] = draw.choice([0, 0, 3])
        row |= {"reminders": draw.choice([0, 5]), "marked_results": draw.choice([None, 0, 7])}
        row["ps_packets"] = draw.choice([None] * few + [draw.randrange(9, 2000)] * 4)
        row["communication_bound_ns"] = draw.choice([None] * few + [draw.randrange(10**8)] * 4)
        row["batch"] = draw.choice([None] * few + [8, 32, 64])
        row["layers_ns"] = draw.choice([None, None, draw.randrange(10**8)])
        row["values_checked"] = draw.randrange(10**6)
    for row in made["iterations"]:
        row["start_ns"] += draw.randrange(10**6)
        row["compute_end_ns"] += draw.randrange(10**6, 10**7)
        row["end_ns"] = row["compute_end_ns"] + draw.randrange(10**7)
        if row["job"] == killed and row["iteration"]:
            row |= {"compute_end_ns": None, "end_ns": None}
    for row in made["tensors"]:
        row["first_sent_ns"] = row["ready_ns"] + draw.randrange(10**6)
        row["done_ns"] = draw.choice([None] * few + [row["first_sent_ns"] + 10**6] * 3)
    most_held, one = draw.choice([None, None, 0, 1, 10**4]), draw.random() < 0.4
    for row in list(made["switch_counters"]):
        held = row["counter"] in HELD
        row["value"] = draw.randint(0, most_held or 0) if held else draw.randrange(1, 10**4)
        if draw.random() < 0.2 or held and most_held is None:
            made["switch_counters"].remove(row)
        elif draw.random() < 0.3 and not (one and row["counter"] == "completions"):
            made["switch_counters"].append(row | {"switch": "s2"})
    if summed:
        whole = {"switch": "s2", "counter": "sums"}
        rows = (row for row in made["jobs"] if draw.random() < 0.9)
        made["switch_counters"] += [
            whole | {"job": row["job"], "value": draw.randrange(150)} for row in rows
        ]
    if trouble == "none counted":
        made |= {"switch_counters": [], "links": [], "tensors": []}
    made["memory"].append(made["memory"][0] | {"switch": "s2", "capacity": 24})
    made["faults"] = [
        {"fault": 0, "kind": kind, "target": "x", "at_ns": 5, "begun_ns": begun, "ended_ns": begun}
        for kind in {trouble} & {*KILLS, "slow"}
        for begun in [draw.choice([None, 5, 10**9])]
    ]
    return made


def slow_jobs(run: dict, summed: bool, alone: bool) -> dict[int, dict]:
    """What frame "jobs" has, by job. summed: switches count whole sums. alone: or only one has
    completed any."""
    links, hosts, counters = run["links"], run["hosts"], run["switch_counters"]
    lossy = not links or any(row["losses"] is None or any(map(row.get, CAUSES)) for row in links)
    lossy |= any(row["socket_drops"] for row in hosts)
    lossy |= any(row["kind"] in KILLS and row["begun_ns"] is not None for row in run["faults"])
    doubled = any(row["duplicates"] != 0 for row in links)
    held = [row["value"] for row in counters if row["counter"] in HELD]
    found = {}
    for row in run["jobs"]:
        job, count = row["job"], row["iterations"]
        whole, bound = row["fragments"] * count, known(row["communication_bound_ns"])
        added = row["layers_ns"] or 0
        took = known(row["end_ns"]) - row["start_ns"] + added
        first, times, sent = [], [], defaultdict(list)
        for each in (each for each in run["iterations"] if each["job"] == job):
            if each["iteration"] == 0:  # then the others of the worker come, in their order
                first.append(each["compute_end_ns"] - each["start_ns"])
                before = each["start_ns"]
            times.append(known(each["end_ns"]) - before)
            before = known(each["end_ns"])
        for each in run["tensors"]:
            if each["job"] == job:
                sent[each["iteration"]].append((each["first_sent_ns"], each["done_ns"]))
        spans = [
            max(done for _, done in some if done) - min(begun for begun, _ in some)
            for some in sent.values()
            if any(done for _, done in some)
        ]
        sums = [
            each["value"]
            for each in counters
            if each["counter"] == ("sums" if summed else "completions") and each["job"] == job
        ]
        share = min(sum(sums) / whole, 1) if sums and (summed or alone) else NAN
        own = {each["host"]: each["role"] for each in hosts if each["job"] == job}
        mine = [each for each in links if each["neighbour"] in own and each["rate_bps"]]
        slowest = min((each["rate_bps"] for each in mine), default=NAN)
        served = [each for each in mine if own[each["neighbour"]] == "ps"]
        rates = [each["rate_bps"] for each in served if each["direction"] == "egress"]
        to_ps = known(row["ps_packets"])
        packets = to_ps - row["retransmissions"]
        if not held or any(held):
            packets -= row["reminders"]
        at_packets = bound * packets / whole * slowest / max(rates, default=NAN)
        at_packets = at_packets if at_packets > bound and not doubled else bound
        times = [time + added / count for time in times if time == time]
        found[job] = {
            "jct_ns": known(row["jct_ns"]),
            "fragments": whole,
            "ps_packets_per_fragment": to_ps / whole,
            "samples_per_s": 2 * known(row["batch"]) * count / took * 1e9,
            "scaling_efficiency": row["compute_ns"] / took,
            "in_switch_share": share,
            "computation_ns": mean(first),
            "iteration_mean_ns": mean(times),
            "iteration_min_ns": min(times),
            "iteration_max_ns": max(times),
            "communication_ns": sum(spans) if spans else NAN,
            "lossless": row["retransmissions"] == 0 or not lossy,
            # Only where switches aggregate for a PS.
            "communication_bound_at_packets_ns": at_packets + 0 * (share + to_ps),
            "bound": bound,
            "alive": row["outcome"] != "killed",
            "length": mean(first) * count + bound,
        }
    return found


def known(value) -> float:
    return NAN if value is None else value


def mean(values) -> float:
    values = [*values]
    return sum(values) / len(values) if values else NAN


def last_per_cent(values) -> float:
    values = [*values]
    return float(np.percentile(values, 99)) if values else NAN


def slow_switches(run: dict) -> dict[str, dict]:
    """What frame "switches" has, by switch."""
    kills = [row["begun_ns"] or 0 for row in run["faults"] if row["kind"] == "kill"]
    ends = [known(row["end_ns"]) for row in run["jobs"] if row["outcome"] != "killed"]
    last = NAN if any(end != end for end in ends) else max(*ends, *kills)
    span = last - min(row["start_ns"] for row in run["jobs"])
    found = {}
    for switch, capacity in (("s1", 8), ("s2", 24)):
        counts: defaultdict[str, int] = defaultdict(int)
        for row in run["switch_counters"]:
            if row["switch"] == switch:
                counts[row["counter"]] += row["value"]

        def share(names, counts=counts, whole=capacity * span) -> float:
            has = [counts[name] for name in names if name in counts]
            return sum(has) / whole if has else NAN

        filling, kept = share(FILLING), share(HELD)
        found[switch] = {
            "aggregators": capacity,
            "span_ns": span,
            "filling_share": filling,
            "held_share": kept,
            "free_share": 1 - filling - (kept if kept == kept else 0),
            "absorbed_per_aggregator_s": share(ABSORBED) * 1e9,
            **{f"{name.removesuffix('_ns')}_share": share([name]) for name in FILLING},
        }
    return found


def losses(frame, jobs, runs: list[dict]) -> None:
    """What links have lost, by cause, and marked, in all repetitions, and what jobs know of it."""
    wanted: defaultdict[str, Counter] = defaultdict(Counter)
    for row in (row for run in runs for row in run["links"]):
        ends = row["node"], row["neighbour"]
        name = " to ".join(ends if row["direction"] == "egress" else ends[::-1])
        for column in (*CAUSES, "marks"):
            count = row.get(column) or 0
            wanted[name][loss_data.OF_LINKS.get(column, column)] += count
            wanted[name]["all"] += count if column != "marks" else 0
    wanted = {name: counts for name, counts in wanted.items() if any(counts.values())}
    assert frame.fillna(0).to_dict("index") == wanted
    assert [*frame["all"].fillna(0)] == sorted((c["all"] for c in wanted.values()), reverse=True)
    for name, table, column in (
        ("marked", "jobs", "marked_results"),
        ("sockets", "hosts", "socket_drops"),
        ("resent", "jobs", "retransmissions"),
    ):
        sums: Counter[int] = Counter()
        for row in (row for run in runs for row in run[table]):
            sums[row["job"]] += row[column] or 0
        assert {job: count for job, count in jobs[name].items() if count} == +sums


def slow_run(run: dict, jobs: dict[int, dict], switches: dict[str, dict]) -> dict:
    """What frame "run" has."""
    alive = [each for each in jobs.values() if each["alive"]]
    whole = sum(each["fragments"] for each in jobs.values())
    rows = [(row, jobs[row["job"]]) for row in run["jobs"]]
    kinds: dict[bool, list] = {True: [], False: []}
    for each in alive:
        kinds[2 * each["bound"] > each["length"]].append(each["jct_ns"])
    known_alive = [each for each in alive if each["length"] == each["length"]]
    lengths = [each["length"] for each in known_alive]
    classes: dict[str, list] = {name: [] for name in LENGTHS}
    for each in known_alive if len({*lengths}) > 1 else ():
        ratio = max(lengths) / min(lengths)
        number = sum(each["length"] >= min(lengths) * ratio ** (n / 3) for n in (1, 2))
        classes[LENGTHS[number]].append(each["jct_ns"])
    found = {
        "ps_packets_per_fragment": sum(known(row["ps_packets"]) for row, _ in rows) / whole,
        "in_switch_share": sum(j["in_switch_share"] * j["fragments"] for j in jobs.values())
        / whole,
        "jct_mean_ns": mean(each["jct_ns"] for each in alive),
        "jct_p99_ns": last_per_cent(each["jct_ns"] for each in alive),
        "jct_communicating_ns": mean(kinds[True]),
        "jct_computing_ns": mean(kinds[False]),
        "waiting_mean_ns": mean(row["waiting_ns"] for row, _ in rows),
        "samples_per_s": sum(each["samples_per_s"] for each in alive),
        "scaling_efficiency": mean(each["scaling_efficiency"] for each in alive),
        "values_checked": sum(row["values_checked"] for row, _ in rows),
        "values_summed": 0,
        "exact": all(row["exact"] for row, _ in rows),
    }
    for name in ("ps_link_bytes_in", "ps_link_bytes_out", "retransmissions"):
        found[name] = sum(row[name] for row, _ in rows)
    for name, times in classes.items():
        found[f"jobs_{name}"] = len(times)
        found |= {f"jct_{name}_ns": mean(times), f"jct_p99_{name}_ns": last_per_cent(times)}
    for name in switches["s1"].keys() - {"aggregators", "span_ns"}:
        found[name] = sum(each[name] * each["aggregators"] for each in switches.values()) / 32
    return found


@pytest.mark.parametrize("seed", range(24))
def test_any_rows_are_summed_up_as_by_hand(seed, tmp_path):
    draw = random.Random(seed)
    summed = seed % 2 == 0
    runs = [drawn(draw, summed), drawn(draw, summed)]
    writer = Writer.create(tmp_path, "drawn", "", ENVIRONMENT)
    for number, run in enumerate(runs):
        for table, rows in run.items():
            writer.write(table, rows, repetition=number)
    writer.fail("its numbers are drawn")
    results, held = read(writer.folder), Held()
    of_packets.check(results, held)  # the losses of jobs are none of these links
    assert held.compared > 5 and not [line for line in held.violations if "losses" not in line]
    frames = summary(results)
    rows = (row for run in runs for row in run["switch_counters"])
    alone = len({row["switch"] for row in rows if row["counter"] == "completions"}) < 2
    wanted = [
        (number, row["switch"], [*EVENTS].index(row["counter"]), row["job"], row["value"])
        for number, run in enumerate(runs)
        for row in run["switch_counters"]
        if row["counter"] in EVENTS
    ]
    rows = frames["events"].assign(event=frames["events"]["event"].map([*EVENTS].index))
    assert [*rows.itertuples(index=False, name=None)] == sorted(wanted)
    losses(frames["lost_by_link"], frames["lost_by_job"].fillna(0), runs)
    lossless = 0
    for number, run in enumerate(runs):
        jobs, switches = slow_jobs(run, summed, alone), slow_switches(run)
        whole = {number: slow_run(run, jobs, switches)}
        for name, key, wanted in (
            ("jobs", "job", jobs),
            ("switches", "switch", switches),
            ("run", "repetition", whole),
        ):
            rows = frames[name][frames[name]["repetition"] == number].set_index(key)
            assert sorted(rows.index) == sorted(wanted)
            for place, exact in wanted.items():
                for column in exact.keys() & set(rows):
                    told = float(rows.loc[place][column])
                    assert told == pytest.approx(float(exact[column]), nan_ok=True), (place, column)
        lossless += sum(
            each["lossless"] and each["bound"] > 0 and each["communication_ns"] > 0
            for each in jobs.values()
        )
    assert len(comparable(frames)) == lossless
