"""The printed tables of one run and of a comparison, as rich renderables.

PS packets per fragment stand first because they explain the times that follow (see summary.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pandas as pd
from rich.table import Table
from rich.text import Text

from testbed.analysis.data.run_summary import interval
from testbed.analysis.style import units
from testbed.results.counters import ENDINGS
from testbed.text_table import new_table

if TYPE_CHECKING:
    from testbed.analysis.data.sweep_data import Point
    from testbed.analysis.style.plot_style import PlotStyle
    from testbed.results import Results

Frames = dict[str, pd.DataFrame]


def _mean(values: pd.Series, text: object) -> str:
    """The mean over repetitions in words, with its 95 % interval from three repetitions on: from
    two, Student's t gives an interval that says nothing."""
    mean, half = interval(values)
    if values.count() < 3 or math.isnan(half) or half <= 1e-9 * abs(mean):
        return text(mean)
    return f"{text(mean)} ±{100 * half / abs(mean):.1f} %" if mean else text(mean)


def headline(results: Results, frames: Frames) -> Text:
    """Name, state, fidelity and what was checked, in a few lines."""
    text = Text()
    text.append(f"{results.name}", style="bold")
    text.append(f"  ({results.folder})\n")
    if results.notice:
        text.append(f"{results.notice}\n", style="bold red" if not results.finished else "yellow")
    elif results.fidelity:
        text.append(f"fidelity: {results.fidelity}\n", style="green")
    else:
        text.append("fidelity: not recorded by this runtime\n")
    run = frames["run"]
    if len(run):
        checked = units.number(run["values_checked"].sum())
        if bool(run["exact"].all()):
            end = "all right" if results.finished else "all of these right"
            text.append(f"exactness: {checked} aggregated values checked, {end}")
        else:
            text.append(f"exactness: WRONG VALUES among {checked} checked", style="bold red")
        if len(run) > 1:
            text.append(f"\nrepetitions: {len(run)} (mean, and 95 % confidence interval)")
    return text


def jobs(frames: Frames) -> Table:
    """One row per job (means over repetitions) and the average."""
    per_job, run = frames["jobs"], frames["run"]
    waited = bool((per_job["waiting_ns"] > 0).any())
    table = new_table(
        "Jobs",
        "job",
        "model",
        "workers",
        "PS packets\n/ fragment",
        "completed\nin switch",
        "JCT",
        *(["of that\nwaiting"] if waited else []),
        "iteration\n(min .. max)",
        left=2,
    )
    for _, rows in per_job.groupby("job"):
        table.add_row(
            rows["name"].iloc[0],
            rows["model"].iloc[0],
            str(rows["workers"].iloc[0]),
            _mean(rows["ps_packets_per_fragment"], units.ratio),
            _mean(rows["in_switch_share"], units.share),
            _job_time(rows),
            *([_mean(rows["waiting_ns"], units.time)] if waited else []),
            units.times(
                rows["iteration_mean_ns"].mean(),
                rows["iteration_min_ns"].min(),
                rows["iteration_max_ns"].max(),
            ),
        )
    if len(run):
        table.add_section()
        table.add_row(
            "all",
            "",
            "",
            _mean(run["ps_packets_per_fragment"], units.ratio),
            _mean(run["in_switch_share"], units.share),
            f"mean {_mean(run['jct_mean_ns'], units.time)}",
            *([f"mean {_mean(run['waiting_mean_ns'], units.time)}"] if waited else []),
            style="bold",
        )
    return table


def _job_time(rows: pd.DataFrame) -> str:
    """The JCT of a job, or what became of it."""
    ended = rows["outcome"] == "finished"
    return _mean(rows["jct_ns"], units.time) if ended.all() else rows["outcome"][~ended].iloc[0]


def faults(results: Results) -> Table:
    """What was planned to go wrong, and when it did; one row for each repetition."""
    table = new_table("Planned faults", "what", "whom", "planned at", "took place", "over", left=2)
    for _, row in results.faults.iterrows():
        happened = not pd.isna(row["begun_ns"])
        over = row["kind"] != "kill" and happened
        factor = "" if pd.isna(row["factor"]) else f" ({row['factor']:g}x)"
        table.add_row(
            row["kind"] + factor,
            row["target"],
            units.time(row["at_ns"]),
            units.time(row["begun_ns"]) if happened else "never: it had finished",
            units.time(row["ended_ns"]) if over else "",
        )
    return table


def traffic(frames: Frames) -> Table:
    """What each job cost the network (means over repetitions)."""
    table = new_table(
        "Traffic",
        "job",
        "gradient\npackets",
        "resent",
        "reminders",
        "asks",
        "PS link\nto PS",
        "PS link\nfrom PS",
    )
    for _, rows in frames["jobs"].groupby("job"):
        counts = ("gradient_packets", "retransmissions", "reminders", "asks")
        table.add_row(
            rows["name"].iloc[0],
            *(_mean(rows[count], units.number) for count in counts),
            _mean(rows["ps_link_bytes_in"], units.size),
            _mean(rows["ps_link_bytes_out"], units.size),
        )
    return table


def communication(frames: Frames) -> Table:
    """Measured communication time against the bound of the links, for jobs without losses."""
    table = new_table(
        "Communication against the least time that the links allow",
        "job",
        "measured",
        "bound",
        "measured\n/ bound",
        "bound at the\nshare in switch",
        "measured\n/ that",
    )
    for _, rows in comparable(frames).groupby("job"):
        spent = rows["communication_ns"]
        bound, at_share = (rows[f"communication_bound{end}_ns"] for end in ("", "_at_share"))
        table.add_row(
            rows["name"].iloc[0],
            _mean(spent, units.time),
            _mean(bound, units.time),
            _mean(spent / bound, units.ratio),
            _mean(at_share, units.time),
            _mean(spent / at_share, units.ratio),
        )
    return table


BUSIEST = 24  # links between switches that are printed


def trunks(results: Results) -> Table | None:
    """What went over the links between switches and to the parameter servers, from the switches'
    port counters; None where there is one switch. Of many the busiest."""
    links = results.links
    switches = set(links.node)
    servers = set(results.hosts.host[results.hosts.role == "ps"])
    wanted = links.neighbour.isin(switches | servers) & (links.direction == "egress")
    if len(switches) < 2:
        return None
    rows = links[wanted].groupby(["node", "neighbour"], sort=False)[["packets", "bytes"]].mean()
    shown = rows.nlargest(BUSIEST, "packets")
    more = f", the busiest {len(shown)} of {len(rows)}" if len(rows) > len(shown) else ""
    table = new_table(
        f"Links between switches and to servers{more}", "from", "to", "packets", "bytes", left=2
    )
    for (node, neighbour), row in rows[rows.index.isin(shown.index)].iterrows():
        table.add_row(node, neighbour, units.number(row.packets), units.size(row.bytes))
    return table


def comparable(frames: Frames) -> pd.DataFrame:
    """The jobs without losses of which both the communication time and its bound are known."""
    rows = frames["jobs"]
    known = rows["communication_ns"].notna() & (rows["communication_bound_ns"].fillna(0) > 0)
    return rows[rows["lossless"] & known]


def memory(frames: Frames) -> Table:
    """Shares of aggregator-time per switch, filling split by how the occupation ended."""
    rows = frames["switches"]
    endings = [name for name in ENDINGS if rows[f"filling_{name}_share"].notna().any()]
    table = new_table(
        "Switch memory (shares of aggregator-time; filling is split by how it ended)",
        "switch",
        "aggre-\ngators",
        "filling",
        *(f"filling,\n{ending}" for ending in endings),
        "held",
        "free",
        "absorbed / s\n/ aggregator",
    )
    for switch, group in rows.groupby("switch"):
        table.add_row(
            switch,
            units.number(group["aggregators"].max()),
            _mean(group["filling_share"], units.share),
            *(_mean(group[f"filling_{ending}_share"], units.share) for ending in endings),
            _mean(group["held_share"], units.share),
            _mean(group["free_share"], units.share),
            _mean(group["absorbed_per_aggregator_s"], units.number),
        )
    return table


def events(frames: Frames) -> Table:
    """How often each event of the P4 program occurred, per switch and job (all repetitions)."""
    rows = frames["events"]
    names = frames["jobs"].drop_duplicates("job").set_index("job")["name"]
    owners = sorted(rows["job"].dropna().unique())
    table = new_table(
        "Switch events (packets)",
        "switch",
        "event",
        *(str(names.get(job, job)) for job in owners),
        "all",
        left=2,
    )
    for switch, here in rows.groupby("switch"):
        for event, group in here.groupby("event", sort=False):
            counts = [group[group["job"] == job]["value"] for job in owners]
            table.add_row(
                switch,
                event.replace("_", " "),
                *(units.number(count.sum()) if len(count) else units.UNKNOWN for count in counts),
                units.number(group["value"].sum()),
            )
        table.add_section()
    return table


def comparison(
    runs: Sequence[Results], frames: Sequence[Frames], styles: Sequence[PlotStyle]
) -> Table:
    """One column per run, one row per measure. "relative" is the average JCT over that of the first
    run that has one (1.25x = that much longer); shares are of aggregator-time."""
    table = new_table("Comparison", "", *(style.title for style in styles))
    over_all = [each["run"] for each in frames]
    means = [interval(run["jct_mean_ns"])[0] if len(run) else math.nan for run in over_all]
    base = next((mean for mean in means if not math.isnan(mean)), math.nan)
    for title, column, text in _MEASURES:
        cells = [_mean(run[column], text) if len(run) else units.UNKNOWN for run in over_all]
        never = column == "waiting_mean_ns" and not any(
            (run[column] > 0).any() for run in over_all if len(run)
        )
        if not never and any(cell != units.UNKNOWN for cell in cells):
            table.add_row(title, *cells)
        if column == "jct_mean_ns":
            ratios = [mean / base for mean in means]
            table.add_row("relative", *(units.UNKNOWN if r != r else f"{r:.3f}x" for r in ratios))
            for name in dict.fromkeys(name for each in frames for name in each["jobs"]["name"]):
                table.add_row(f"  JCT of {name}", *(_jct(each["jobs"], name) for each in frames))
    table.add_section()
    table.add_row("repetitions", *(str(len(run)) for run in over_all))
    table.add_row("exact", *("-" if not len(run) else _yes(run["exact"].all()) for run in over_all))
    marks = [r.fidelity or units.UNKNOWN if r.finished else r.state.upper() for r in runs]
    table.add_row("fidelity", *marks)
    return table


def twins(runs: Sequence[Results], frames: Sequence[Frames]) -> Table | None:
    """The same jobs on a real clock and in virtual time, measure by measure, and by how much the
    real clock's mean differs; None where these two runs are no such pair."""
    clocks = [results.environment.get("runtime") for results in runs]
    jobs = [list(each["jobs"]["name"].unique()) for each in frames]
    if len(runs) != 2 or len(set(clocks)) != 2 or "virtual" not in clocks or jobs[0] != jobs[1]:
        return None
    virtual = frames[clocks.index("virtual")]["jobs"]
    real = frames[1 - clocks.index("virtual")]["jobs"]
    name = next(clock for clock in clocks if clock != "virtual")
    title = f"The same experiment on {name} and in virtual time"
    table = new_table(title, "job", "measure", str(name), "virtual", "difference", left=2)
    for job in jobs[0]:
        there, here = (rows[rows["name"] == job] for rows in (real, virtual))
        for title, column, text in _TWINS:
            a, b = (rows[column].astype("float64").mean() for rows in (there, here))
            if math.isnan(a) or math.isnan(b):
                continue
            difference = f"{100 * (a - b) / b:+.1f} %" if b else "" if a == b else "new"
            table.add_row(
                job, title, _mean(there[column], text), _mean(here[column], text), difference
            )
            job = ""
        table.add_section()
    return table


_TWINS = (
    ("JCT", "jct_ns", units.time),
    ("iteration", "iteration_mean_ns", units.time),
    ("communication", "communication_ns", units.time),
    ("PS packets / fragment", "ps_packets_per_fragment", units.ratio),
    ("completed in switch", "in_switch_share", units.share),
    ("gradient packets", "gradient_packets", units.number),
    ("resent packets", "retransmissions", units.number),
    ("reminders", "reminders", units.number),
    ("PS link, to PS", "ps_link_bytes_in", units.size),
    ("PS link, from PS", "ps_link_bytes_out", units.size),
)


_MEASURES = (
    ("PS packets / fragment", "ps_packets_per_fragment", units.ratio),
    ("completed in switch", "in_switch_share", units.share),
    ("average JCT", "jct_mean_ns", units.time),
    ("  waiting in it", "waiting_mean_ns", units.time),
    ("PS link, to PS", "ps_link_bytes_in", units.size),
    ("PS link, from PS", "ps_link_bytes_out", units.size),
    ("memory filling", "filling_share", units.share),
    *((f"  {ending}", f"filling_{ending}_share", units.share) for ending in ENDINGS),
    ("memory held", "held_share", units.share),
    ("memory free", "free_share", units.share),
    ("absorbed / s / aggregator", "absorbed_per_aggregator_s", units.number),
    ("resent packets", "retransmissions", units.number),
)


def _jct(per_job: pd.DataFrame, name: str) -> str:
    rows = per_job[per_job["name"] == name]
    return _mean(rows["jct_ns"], units.time) if len(rows) else units.UNKNOWN


def _yes(value: bool) -> str:
    return "yes" if value else "NO"


def sweep(points: Sequence[Point], keys: Sequence[str], frame: pd.DataFrame) -> Table:
    """One row per point of a sweep: what was varied, what came out over its repetitions."""
    columns = [title for title, column, _ in _SWEPT if column in frame]
    table = new_table("Points", *keys, *columns, "exact", "fidelity", left=len(keys))
    for number, point in enumerate(points):
        cells = [point.values[key].short if key in point.values else units.UNKNOWN for key in keys]
        rows = frame[frame["point"] == number] if len(frame) else frame
        if not len(rows):
            state = point.results.state.upper() if point.results else "NOT RUN"
            table.add_row(*cells, *(units.UNKNOWN for _ in columns), units.UNKNOWN, state)
            continue
        cells += [_mean(rows[column], text) for _, column, text in _SWEPT if column in frame]
        table.add_row(*cells, _yes(rows["exact"].all()), rows["fidelity"].iloc[0] or units.UNKNOWN)
    return table


_SWEPT = (
    ("PS packets\n/ fragment", "ps_packets_per_fragment", units.ratio),
    ("completed\nin switch", "in_switch_share", units.share),
    ("average\nJCT", "jct_mean_ns", units.time),
    ("relative\nJCT", "jct_ratio", units.ratio),
    ("PS link\nto PS", "ps_link_bytes_in", units.size),
    ("PS link\nfrom PS", "ps_link_bytes_out", units.size),
    ("resent", "retransmissions", units.number),
)
