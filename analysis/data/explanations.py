"""Sentences that explain a run: its bottleneck, and why another run is faster or slower.

A comparison says on how many repetitions it rests, and with three and more how certain it is. A
sentence says "because" only where the numbers bear it: the links' own bounds (docs/baselines.md)
move in the same direction as the completion times. Where none does, it says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import pandas as pd
from p4fabric.base import units

from testbed.analysis.data import critical_path
from testbed.analysis.data.critical_path import COMPUTE, WAITING
from testbed.analysis.data.run_summary import (
    carriers,
    fallbacks,
    job_names,
    layers_sentence,
    layers_words,
    ratio_intervals,
    summary,
)
from testbed.results.counters import RESENT
from testbed.systems import SYSTEMS

if TYPE_CHECKING:
    from testbed.analysis.data.run_summary import Frames
    from testbed.analysis.data.sweep_data import Sweep
    from testbed.results import Results

MOST = 0.85  # of a time: what takes so much of it limits it
MORE = 1.05  # times as much: a difference worth a sentence
ALIKE = 1.02  # completion times this close are alike
MOST_POINTS = 4  # of a sweep that is explained
MOST_REFUSED = 4  # jobs that are named
MOST_PATHS = 4  # jobs whose critical path is told,
MOST_PARTS = 5  # and parts of it
RESENT_SHARE = 0.01  # of the gradient packets: worth a sentence
_LOST = {
    "queue_full": "dropped by full queues",
    "lost": "lost on links",
    "link_down": "lost because a link was down,",
    "unmodelled": "dropped outside the model",
}
_NOT_LOST = {
    "collision": "is of fragments for which a switch had no room",
    "no_loss": "follows from no loss of a packet of its fragment",
    "unknown": "follows from what is not known",
}


def frames_of(results: Results) -> Frames:
    """The frames that explain a run: those of `summary`, "flows" of background traffic, and "path"
    (see critical_path.py), which takes longer than they do and is needed for nothing else."""
    path = results.once(critical_path.frame)
    return {**summary(results), "flows": results.flows, "path": path}


def of_run(frames: Frames) -> list[str]:
    """The bottleneck of a run, with the numbers that show it. frames: of `frames_of`; [] where no
    job has ended."""
    ended = _ended(frames)
    if not len(ended):
        return []
    jct = _mean(ended["jct_ns"])
    computing = _mean(ended["computation_ns"] * ended["iterations"])
    bound, at_packets = _bounds(ended)
    run = frames["run"]
    ps_packets = _mean(run["ps_packets_per_fragment"])
    found = [_limit(jct, computing, bound, at_packets), *_paths(frames)]
    if said := layers_sentence(ended):
        found.insert(0, f"{said}.")
    if ps_packets == ps_packets:
        text = f"PS packets per fragment: {units.ratio(ps_packets)} (perfect aggregation: 1)."
        if at_packets > MORE * bound:
            text += (
                " The packets above 1 raise the least communication time from"
                f" {units.time(bound)} to {units.time(at_packets)}."
            )
        found.append(text)
    found += _memory(run)
    resent = _resent(ended)
    if resent > RESENT_SHARE:
        found.append(f"{units.share(resent)} of the gradient packets were retransmitted.")
    return [*found, *_lost(frames), *_unmarked(frames), *_fallbacks(ended)]


def of_comparison(frames: Sequence[Frames], titles: Sequence[str]) -> list[str]:
    """Explanations for runs of the same jobs: the fastest run against each other one, with the
    number that explains the difference. [] where fewer than two have ended, or jobs differ."""
    runs = [
        (title, _ended(each), each)
        for title, each in zip(titles, frames, strict=True)
        if len(_ended(each))
    ]
    names = {tuple(sorted(set(ended["name"]))) for _, ended, _ in runs}
    if len(runs) < 2 or len(names) > 1 or len({title for title, _, _ in runs}) < len(runs):
        return []
    runs.sort(key=lambda each: _mean(each[1]["jct_ns"]))
    (first, best, best_frames), *others = runs
    base = _means(best)
    intervals = ratio_intervals([(_means(ended), base) for _, ended, _ in others])
    return [
        _compared(first, best, best_frames, *other, interval, len(others))
        for other, interval in zip(others, intervals, strict=True)
    ]


def of_sweep(sweep: Sweep) -> list[str]:
    """The same for the points of a small sweep that differ in nothing but the system; else []."""
    if set(sweep.keys) != {"system"} or len(sweep.points) > MOST_POINTS:
        return []
    done = [(point, point.results) for point in sweep.points if point.results and point.finished]
    frames = [frames_of(results) for _, results in done if results]
    return of_comparison(frames, [point.series() for point, _ in done])


def _ended(frames: Frames) -> pd.DataFrame:
    jobs = frames["jobs"]
    return jobs[jobs["jct_ns"].notna() & (jobs["outcome"] == "finished")]


def _mean(values: pd.Series) -> float:
    return float(values.astype("float64").mean())


def _means(ended: pd.DataFrame) -> pd.Series:
    """The mean JCT of each repetition."""
    return ended.groupby("repetition")["jct_ns"].mean()


def _bounds(ended: pd.DataFrame) -> tuple[float, float]:
    """The links' lower bounds in ns, for the gradients and for the packets that were sent; NaN
    where unknown."""
    bound = _mean(ended["communication_bound_ns"])
    at_packets = _mean(ended["communication_bound_at_packets_ns"])
    return bound, at_packets if at_packets == at_packets else bound


def _limit(jct: float, computing: float, bound: float, at_packets: float) -> str:
    """The mean JCT and what took most of it. What the sentence adds up is the JCT: computation, the
    least time of the packets on their links, and, by name, what is neither."""
    head = f"Mean JCT: {units.time(jct)}."
    if computing > MOST * jct:
        text = f"{head} Computation was the bottleneck: it takes {units.time(computing)}"
        return text + _others(jct, computing, "communication that it does not hide, and waiting")
    if at_packets > MOST * jct:
        text = f"{head} The links were the bottleneck: these packets take at least"
        text += f" {units.time(at_packets)}"
        return text + _others(jct, at_packets, "computation that they do not hide, and waiting")
    known = [f"computation takes {units.time(computing)}"] if computing == computing else []
    if bound == bound:
        known.append(f"the gradients take at least {units.time(bound)} on the links")
        if at_packets > bound:
            known[-1] += f", all packets {units.time(at_packets)}"
    if not known:
        return head
    listed = ", and ".join(known)
    text = f"{head} {listed[0].upper()}{listed[1:]}."
    both = computing + at_packets
    if both != both:
        return text
    text += f" Together they are {units.time(both)}"
    if both > jct:
        return f"{text}, {units.share(both / jct)} of the JCT, so they overlap."
    return text + _others(jct, both, "waiting: for slower workers, timers or aggregators")


def _others(jct: float, known: float, what: str) -> str:
    """The share of the JCT that is known, and what the others are."""
    rest = jct - known
    if units.share(rest / jct) == units.share(0) or rest < 0:
        return ", all of the JCT."
    others = f"the other {units.time(rest)}, {units.share(rest / jct)}, are {what}"
    return f", {units.share(known / jct)} of the JCT; {others}."


class _Part(NamedTuple):
    """A row of `_mean_path`."""

    job: int
    kind: str
    ranks: int
    example: str
    calls: float
    time_ns: float
    bytes_ns: float


def _paths(frames: Frames) -> list[str]:
    """Parts of the critical paths of programs of ranks, and whether bytes decide."""
    path, names = _mean_path(frames), job_names(frames["jobs"])
    found = []
    for job, rows in list(path.groupby("job"))[:MOST_PATHS]:
        shown: list[str] = []
        whole = rows["time_ns"].sum()
        left = [_Part(*row) for row in rows.itertuples(index=False)]
        while left and len(shown) < MOST_PARTS:
            part = left.pop(0)
            shown.append(f"{_part(part)} {units.time(part.time_ns)}{_needed(part)}")
        if left:
            rest = sum(part.time_ns for part in left)
            shown.append(f"what is left {units.time(rest)}")
        own = layers_words(frames["jobs"][frames["jobs"]["job"] == job])
        of = f" ({own})" if own else ""
        text = f"On the critical path of {names[job]}{of}, {units.time(whole)}: "
        text += f"{'; '.join(shown)}."
        calls = rows[rows["bytes_ns"].notna()]
        if len(calls) and calls["time_ns"].sum():
            share = calls["bytes_ns"].sum() / calls["time_ns"].sum()
            who = "links decide" if share > 0.5 else "round trips, queues and hosts decide"
            text += f" Bytes need {units.share(share)} of the calls' time: {who}."
        found.append(text)
    if (more := path["job"].nunique() - MOST_PATHS) > 0:
        found.append(f"{more} more jobs have critical paths: table steps.")
    return found


def _mean_path(frames: Frames) -> pd.DataFrame:
    """Frame "path" as the mean of the repetitions, by job, the longest parts first."""
    path = frames["path"]
    keys = ["job", "kind", "ranks", "example"]
    of_job = path.groupby("job")["repetition"].nunique()
    sums = path.groupby(keys, as_index=False)[["calls", "time_ns", "bytes_ns"]].sum(min_count=1)
    columns = ["calls", "time_ns", "bytes_ns"]
    sums[columns] = sums[columns].astype("float64").div(sums["job"].map(of_job), axis=0)
    return sums.sort_values(["job", "time_ns"], ascending=[True, False], ignore_index=True)


def _part(part: _Part) -> str:
    if part.kind == COMPUTE:
        return "computation"
    if part.kind == WAITING:
        return "waiting"
    count = f"{part.calls:.3g} calls" if part.calls != 1 else "a call"
    return f"{count} of {part.kind} of {part.ranks} ranks, as {part.example},"


def _needed(part: _Part) -> str:
    if part.bytes_ns != part.bytes_ns:
        return ""
    if part.calls > 1:
        each, need = part.time_ns / part.calls, part.bytes_ns / part.calls
        return f" ({units.time(each)} each, bytes {units.time(need)})"
    return f" (bytes {units.time(part.bytes_ns)})"


def _memory(run: pd.DataFrame) -> list[str]:
    """A sentence about switch memory, where there is some."""
    filling, held = (_mean(run[column]) for column in ("filling_share", "held_share"))
    if filling != filling:
        return []
    used = filling + (held if held == held else 0.0)
    text = f"Aggregators were in use for {units.share(used)} of the time"
    if used > MOST:
        return [f"{text}: switch memory was full most of the time, so fragments collided."]
    evicted = _mean(run["filling_evicted_share"])
    if evicted > 0.01:
        return [f"{text}, {units.share(evicted)} for sums that were evicted incomplete."]
    return [f"{text}."]


def _lost(frames: Frames) -> list[str]:
    """Losses of links, their places, the share of retransmissions that follow from them, and what
    the rest follows from."""
    links, jobs = frames["lost_by_link"], frames["lost_by_job"]
    of = carriers(frames["jobs"]).unique()
    who = SYSTEMS[of[0]].title if len(of) == 1 and of[0] in SYSTEMS else "the jobs"
    resends = "resends" if len(of) == 1 else "resend"
    resent = jobs["resent"].sum()
    after = {cause: jobs[f"after_{cause}"].sum(min_count=1) for cause in RESENT}
    known = resent > 0 and after["unknown"] < resent
    found = []
    for cause, words in _LOST.items():
        lost = links[cause].sum()
        if not lost > 0:
            continue
        counts = links[cause].sort_values(ascending=False, kind="stable")
        where = str(counts.index[0])
        if others := int((counts > 0).sum()) - 1:
            more = f"{others} other link{'s' if others > 1 else ''}"
            where += f" ({units.share(counts.iloc[0] / lost)}) and {more}"
        text = f"{units.number(lost)} packet{'s were' if lost > 1 else ' was'} {words} at {where}"
        if known and cause in after:
            text += f"; {units.share(after[cause] / resent)} of what {who} {resends} follows from"
            text += " them" if lost > 1 else " it"
        found.append(f"{text}.")
    rest = [
        f"{units.share(after[cause] / resent)} {words}"
        for cause, words in _NOT_LOST.items()
        if resent and after[cause] > 0
    ]
    if rest and (known or found):
        found.append(f"Of what {who} {resends}, {' and '.join(rest)}.")
    elif resent > 0 and not known:
        found.append("What retransmissions follow from was not measured.")
    return found


def _unmarked(frames: Frames) -> list[str]:
    """A congestion control that had nothing to do is as good as any other one."""
    flows = frames.get("flows", pd.DataFrame())
    if not len(flows):
        return []
    flows = flows[flows["kind"] == "rc"]
    if not len(flows) or flows["marked"].sum() > 0 or flows["cuts"].sum() > 0:
        return []
    return [
        "No packet of the background's reliable connections was marked and none was slowed down,"
        " so the choice of their congestion control did not matter."
    ]


def _fallbacks(ended: pd.DataFrame) -> list[str]:
    """Jobs that hosts carried in place of the system, with the reason."""
    found = fallbacks(ended)
    more = len(found) - MOST_REFUSED
    shown = [f"{text}." for text in found[:MOST_REFUSED]]
    return [*shown, f"{more} more jobs were carried by hosts in this way."] if more > 0 else shown


def _resent(ended: pd.DataFrame) -> float:
    """The share of gradient packets that were retransmitted."""
    packets = float(ended["gradient_packets"].sum())
    return float(ended["retransmissions"].sum()) / packets if packets else 0.0


def _repetitions(means: Sequence[pd.Series]) -> str:
    """On how many repetitions a comparison rests."""
    counts = sorted({len(each) for each in means})
    if counts == [1]:
        return "one repetition"
    return f"{' and '.join(map(str, counts))} repetitions"


def _compared(
    first: str,
    best: pd.DataFrame,
    best_frames: Frames,
    title: str,
    ended: pd.DataFrame,
    frames: Frames,
    interval: tuple[float, float],
    comparisons: int,
) -> str:
    """The fastest run against another one. interval: of the ratio of their JCTs, corrected for so
    many comparisons."""
    means = [_means(each) for each in (best, ended)]
    times = _mean(best["jct_ns"]), _mean(ended["jct_ns"])
    shown = f"mean JCT {units.time(times[0])}, {title} {units.time(times[1])}"
    if layers := layers_words(best):
        shown += f", {layers} simulated"
    low, high = interval
    together = f" in all {comparisons} comparisons (Holm)" if comparisons > 1 else ""
    if low <= 1:  # False where there are too few repetitions
        return (
            f"{first} and {title} cannot be told apart: {title} takes {low:.2f} to {high:.2f} times"
            f" as long ({shown}; 95 % interval{together} over {_repetitions(means)})."
        )
    if low != low and times[1] < ALIKE * times[0]:
        return f"{first} and {title} are about equally fast ({shown}; {_repetitions(means)})."
    certain = f"{low:.2f}x to {high:.2f}x with 95 % confidence{together}, " if low == low else ""
    said = (
        f"{first} is {times[1] / times[0]:.2f}x faster than {title} ({certain}"
        f"{_repetitions(means)}: {shown})"
    )
    packets = [_mean(each["run"]["ps_packets_per_fragment"]) for each in (best_frames, frames)]
    bounds = [_bounds(each)[1] for each in (best, ended)]
    if packets[1] > MORE * packets[0] and bounds[1] > ALIKE * bounds[0]:
        return (
            f"{said} because it sends {units.ratio(packets[0])} PS packets per fragment, {title}"
            f" {units.ratio(packets[1])}. They take at least {units.time(bounds[0])} on the links,"
            f" those of {title} {units.time(bounds[1])}."
        )
    if packets[0] != packets[0] and packets[1] >= 1 and bounds[1] > ALIKE * bounds[0]:
        return (
            f"{said} because it has no parameter server: its packets take at least"
            f" {units.time(bounds[0])} on the links. {title} sends {units.ratio(packets[1])} PS"
            f" packets per fragment, which take at least {units.time(bounds[1])}."
        )
    resent = [_resent(each) for each in (best, ended)]
    if resent[1] > RESENT_SHARE and resent[1] > 2 * resent[0]:
        return (
            f"{said}. It retransmitted {units.share(resent[0])} of its gradient packets, {title}"
            f" {units.share(resent[1])}."
        )
    if where := _longer_part(best_frames, frames, title):
        return f"{said}. {where}"
    if packets[0] != packets[0] or packets[1] != packets[1]:
        without = " and ".join(
            name for name, each in zip((first, title), packets, strict=True) if each != each
        )
        have = "have" if " and " in without else "has"
        why = f"{without} {have} no parameter server, so PS packets cannot explain it."
    else:
        why = (
            f"PS packets per fragment do not explain it ({units.ratio(packets[0])} and"
            f" {units.ratio(packets[1])})."
        )
    lasts = [_mean(each["communication_ns"]) for each in (best, ended)]
    if lasts[0] == lasts[0] and lasts[1] == lasts[1]:
        why += f" Communication lasts {units.time(lasts[0])} and {units.time(lasts[1])}."
    return f"{said}. {why}"


def _longer_part(best: Frames, other: Frames, title: str) -> str:
    """The part of the critical paths that differs most between two runs; "" without such paths."""
    keys = ["job", "kind", "ranks", "example"]
    paths = [_mean_path(each).set_index(keys) for each in (best, other)]
    if not len(paths[0]) or not len(paths[1]):
        return ""
    both = paths[0].merge(
        paths[1], how="outer", left_index=True, right_index=True, suffixes=("_best", "_other")
    )
    both = both.fillna(0.0)
    longer = both["time_ns_other"] - both["time_ns_best"]
    most = both.loc[[longer.idxmax()]].reset_index().iloc[0]
    words = "computation" if most["kind"] == COMPUTE else most["kind"]
    if most["ranks"]:
        words += f" of {most['ranks']} ranks, as {most['example']},"
    of_job = job_names(best["jobs"])[most["job"]]
    times = [units.time(most[f"time_ns_{which}"]) for which in ("best", "other")]
    return (
        f"The critical paths differ most in {words} of {of_job}:"
        f" {times[0]}, with {title} {times[1]}."
    )
