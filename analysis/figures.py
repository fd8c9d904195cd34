"""The figures of a run and of a comparison, as PNG and PDF.

Each function below draws one `matplotlib.figure.Figure`; `draw` writes all that make sense for the
runs it is given. Only finished runs are drawn, and a degraded run's figures carry the mark, because
a figure travels further than the table beside it. pyplot is not used: it keeps global state and
costs start-up time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from analysis import looks, units
from analysis.summary import interval, jobs, summary
from testbed.results import Results, ResultsError, hand_over

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

_SAMPLES = 1500  # steps of an area; more than the paper's printer can show
_WORKERS = 32  # rows of a timeline
_AREAS = 10  # jobs that an area can tell apart
_JOBS = 24  # jobs that get bars of their own
_LABELS = 40  # bars that get their value printed above
_BARS = 4000  # beyond that, bars of a vector figure become an image inside it


def draw(runs: Sequence[Results], folder: Path) -> list[Path]:
    """Writes the figures of one run, or of a comparison, into `folder`; returns the paths.

    Raises ResultsError when a run has not finished.
    """
    if not runs:
        raise ResultsError("no run to draw")
    for results in runs:
        if not results.finished:
            raise ResultsError(f"no figure from {results.folder}: {results.notice}")
    folder.mkdir(exist_ok=True)
    hand_over(folder)
    paths: list[Path] = []
    with rc_context(looks.RC):
        for name, figure in _figures(runs):
            _mark(figure, runs)
            paths += save(figure, folder / name)
    return paths


def _figures(runs: Sequence[Results]) -> Iterator[tuple[str, Figure]]:
    yield "jct", jct(runs)
    memory = [results for results in runs if len(results.memory)]
    if len(runs) > 1:
        if len(memory) == len(runs):
            yield "memory", memory_shares(runs)
        return
    if memory:
        yield "occupancy", occupancy(runs[0])
    if len(runs[0].iterations):
        yield "iterations", timeline(runs[0])


def jct(runs: Sequence[Results], styles: Sequence[looks.Look] | None = None) -> Figure:
    """JCT per job (per model, where there are too many jobs) and on average: one bar per run, the
    mean over repetitions, its 95 % interval, and a dot per repetition where there are several.
    `styles`: how each run looks, if not as in a comparison."""
    styles = styles or looks.looks(runs)
    frames = [jobs(results) for results in runs]
    by = "name"
    names = list(dict.fromkeys(name for frame in frames for name in frame[by]))
    if len(names) > _JOBS:
        by = "model"
        names = list(dict.fromkeys(name for frame in frames for name in frame[by]))
    groups = [*names, "average"] if len(names) > 1 else names
    width = 0.8 / len(runs)
    needed = 1.0 + 0.28 * len(groups) * len(runs) + 0.25 * len(groups)
    figure = new_figure(min(max(looks.COLUMN, needed), 2 * looks.PAGE), 2.2)
    axes = figure.add_subplot()
    samples = [
        [
            *(_jct_samples(frame[frame[by] == name]) for name in names),
            *([_jct_samples(frame)] if len(names) > 1 else []),
        ]
        for frame in frames
    ]
    longest = max(float(s.max()) for row in samples for s in row if len(s))
    scale, unit = units.time_unit(longest)
    for number, (row, look) in enumerate(zip(samples, styles, strict=True)):
        offset = (number - (len(runs) - 1) / 2) * width
        for place, values in enumerate(row):
            mean, half = interval(values / scale)
            if np.isnan(mean):
                continue
            axes.bar(
                place + offset,
                mean,
                width=0.92 * width,
                color=look.color,
                hatch=look.hatch,
                edgecolor="white" if look.hatch else look.color,
                linewidth=0,
                yerr=None if np.isnan(half) else half,
                error_kw={"elinewidth": 0.8, "capsize": 2},
                label=look.title if place == 0 else None,
            )
            if len(values) > 1:
                spread = np.linspace(-0.2, 0.2, len(values)) * width
                axes.plot(place + offset + spread, values / scale, look.marker, ms=2, color="black")
            top = max(mean, float(values.max()) / scale, mean + (0 if np.isnan(half) else half))
            if len(runs) * len(groups) > _LABELS:
                continue
            axes.annotate(
                units.significant(mean),
                (place + offset, top),
                xytext=(0, 1.5),
                textcoords="offset points",
                ha="center",
                fontsize=6,
            )
    if len(groups) > len(names):
        axes.axvline(len(names) - 0.5, color=looks.GREY, linewidth=0.6, linestyle=":")
    crowded = max(map(len, groups)) * len(groups) > 14 * figure.get_figwidth()
    axes.set_xticks(
        range(len(groups)),
        groups,
        rotation=30 if crowded else 0,
        ha="right" if crowded else "center",
    )
    axes.tick_params(axis="x", length=0)
    axes.margins(y=0.12)
    axes.set_ylim(bottom=0)
    axes.set_ylabel(f"JCT ({unit})")
    if len(runs) > 1:
        figure.legend(loc="outside upper center", ncols=min(len(runs), 4))
    else:
        axes.set_title(styles[0].title, loc="left")
    return figure


def _jct_samples(rows: pd.DataFrame) -> pd.Series:
    """Mean JCT in ns of `rows` of frame jobs, per repetition."""
    return rows.groupby("repetition")["jct_ns"].mean()


_STATES = (
    (("filling_completed_share",), "filling, completed", looks.FILLING, ""),
    (("filling_evicted_share",), "filling, evicted", looks.PARTIAL, "xxxx"),
    (("filling_pulled_share",), "filling, pulled", looks.PARTIAL, "...."),
    (
        ("filling_discarded_share", "filling_open_share"),
        "filling, discarded or open",
        looks.PARTIAL,
        "",
    ),
    (("held_share",), "held", looks.HELD, "////"),
    (("free_share",), "free", looks.FREE, ""),
)


def memory_shares(runs: Sequence[Results]) -> Figure:
    """Shares of aggregator-time, one stacked bar per run (mean over repetitions and aggregators):
    filling, by how it ended, held and free; PS packets per fragment stand beneath."""
    styles = looks.looks(runs)
    frames = [summary(results)["run"] for results in runs]
    figure = new_figure(max(looks.COLUMN, 2.2 + 0.7 * len(runs)), 2.2)
    axes = figure.add_subplot()
    bottom = np.zeros(len(runs))
    for columns, label, color, hatch in _STATES:
        known = [frame[list(columns)].fillna(0).sum(axis=1) for frame in frames]
        shares = np.array([100 * share.mean() for share in known])
        if not shares.any():
            continue
        axes.bar(
            range(len(runs)),
            shares,
            bottom=bottom,
            width=0.6,
            color=color,
            hatch=hatch,
            edgecolor=_hatch_color(color),
            linewidth=0,
            label=label,
        )
        bottom += shares
    captions = [
        f"{look.title}\n{units.ratio(frame['ps_packets_per_fragment'].mean())}"
        for look, frame in zip(styles, frames, strict=True)
    ]
    axes.set_xticks(range(len(runs)), captions)
    axes.tick_params(axis="x", length=0)
    axes.set_xlabel("PS packets per fragment below each run")
    axes.set_ylim(0, 100)
    axes.set_ylabel("aggregator-time (%)")
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), reverse=True, handlelength=1.4)
    return figure


def occupancy(results: Results) -> Figure:
    """Aggregators over time, two panels per switch: filling, held and free; and who owns what is
    in use, per job. From the samples of the first repetition."""
    samples = results.memory
    repetition = int(samples["repetition"].min())
    samples = samples[samples["repetition"] == repetition]
    switches = list(dict.fromkeys(samples["switch"]))
    names = results.jobs.drop_duplicates("job").set_index("job")["name"]
    figure = new_figure(looks.PAGE, 0.5 + 2.5 * len(switches))
    panels = figure.subplots(2 * len(switches), 1, sharex=True, squeeze=False)[:, 0]
    scale, unit = units.time_unit(float(samples["time_ns"].max()))
    for number, switch in enumerate(switches):
        rows = samples[samples["switch"] == switch]
        states, owners = panels[2 * number : 2 * number + 2]
        capacity = int(rows["capacity"].max())
        of_jobs = rows[rows["job"].notna()]  # the other rows are of all jobs together
        whole = rows[rows["job"].isna()] if rows["job"].isna().any() else of_jobs
        totals = whole.groupby("time_ns")[["occupied", "held"]].sum()
        totals = _thin(totals)
        time = totals.index.to_numpy() / scale
        free = capacity - totals["occupied"] - totals["held"]
        _areas(
            states,
            time,
            [totals["occupied"], totals["held"], free],
            ["filling", "held", "free"],
            [looks.FILLING, looks.HELD, looks.FREE],
            ["", "////", ""],
        )
        states.set_title(f"{switch}: {capacity} aggregators by state", loc="left")
        owners.set_title(f"{switch}: aggregators in use by job", loc="left")
        used = of_jobs.assign(used=of_jobs["occupied"] + of_jobs["held"])
        by_job = used.pivot_table(
            index="time_ns", columns="job", values="used", aggfunc="sum", fill_value=0
        )
        by_job = _thin(by_job)
        shown = list(by_job.columns)
        if len(shown) > _AREAS:
            shown = sorted(by_job.sum().nlargest(_AREAS - 1).index)
        heights = [by_job[job] for job in shown]
        labels = [str(names.get(job, job)) for job in shown]
        colors = [looks.job_color(int(job)) for job in shown]
        hatches = [looks.job_hatch(int(job)) for job in shown]
        if len(shown) < len(by_job.columns):
            heights.append(by_job.drop(columns=shown).sum(axis=1))
            labels.append(f"{len(by_job.columns) - len(shown)} others")
            colors.append(looks.EDGE)
            hatches.append("")
        if len(heights):
            _areas(owners, by_job.index.to_numpy() / scale, heights, labels, colors, hatches)
        for axes in (states, owners):
            axes.set_ylim(0, capacity)
            axes.set_yticks(sorted({0, capacity // 2, capacity}))
            axes.set_ylabel("aggregators")
            axes.set_xlim(time.min(), max(time.max(), time.min() + 1e-9))
    panels[-1].set_xlabel(f"time ({unit}){_which(results, repetition)}")
    return figure


def _areas(
    axes: Axes,
    time: np.ndarray,
    heights: Sequence[pd.Series],
    labels: Sequence[str],
    colors: Sequence[str],
    hatches: Sequence[str],
) -> None:
    bottom = np.zeros(len(time))
    for height, label, color, hatch in zip(heights, labels, colors, hatches, strict=True):
        top = bottom + height.to_numpy(dtype=float)
        axes.fill_between(
            time,
            bottom,
            top,
            step="post",
            facecolor=color,
            hatch=hatch,
            edgecolor=_hatch_color(color) if hatch else "none",
            linewidth=0,
            label=label,
        )
        bottom = top
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), reverse=True, handlelength=1.2)


def _hatch_color(color: str) -> str:
    return "black" if color == looks.HELD else "white"


def _thin(frame: pd.DataFrame) -> pd.DataFrame:
    """At most _SAMPLES rows, each the mean of neighbours and at the first one's time."""
    if len(frame) <= _SAMPLES:
        return frame
    bins = np.arange(len(frame)) * _SAMPLES // len(frame)
    starts = frame.index[np.unique(bins, return_index=True)[1]]
    thinned = frame.groupby(bins).mean()
    thinned.index = starts
    return thinned


def timeline(results: Results) -> Figure:
    """One row per worker: its compute (dark, above) and its communication (light, below) in every
    iteration, of the first repetition. Compute is from the first layer's forward step to the last
    backward step, waiting for layers included; communication from the first fragment of a tensor
    that leaves to the last result that arrives. Shades alternate from iteration to iteration."""
    rows = results.iterations
    repetition = int(rows["repetition"].min())
    rows = rows[rows["repetition"] == repetition].sort_values(["job", "worker", "iteration"])
    first_sent = _first_sent(results, repetition)
    rows = rows.merge(first_sent, on=["job", "worker", "iteration"], how="left")
    names = results.jobs.drop_duplicates("job").set_index("job")["name"]
    workers = list(rows.groupby(["job", "worker"]))
    shown = workers
    if len(workers) > _WORKERS:  # some of every job rather than all of the first
        of_each = max(1, _WORKERS // rows["job"].nunique())
        rank: dict[int, int] = {}
        shown = []
        for (job, worker), spans in workers:
            rank[job] = rank.get(job, 0) + 1
            if rank[job] <= of_each and len(shown) < _WORKERS:
                shown.append(((job, worker), spans))
    scale, unit = units.time_unit(float(rows["end_ns"].max()))
    figure = new_figure(looks.PAGE, 0.9 + 0.24 * len(shown))
    axes = figure.add_subplot()
    small = len(rows) > _BARS
    labels, ticks, place = [], [], 0.0
    previous = None
    for (job, worker), spans in shown:
        if previous is not None and job != previous:
            place += 0.35
        previous = job
        odd = spans["iteration"].to_numpy() % 2 == 1
        color = looks.job_color(int(job))
        compute_end = spans["compute_end_ns"].astype("float64")
        sent = spans["first_sent_ns"].astype("float64").fillna(compute_end)
        bars = (
            (spans["start_ns"].astype("float64"), compute_end, 0.0, 1.0, 0.75),
            (sent, spans["end_ns"].astype("float64"), 0.44, 0.5, 0.28),
        )
        for begin, end, down, even_alpha, odd_alpha in bars:
            for part, alpha in ((~odd, even_alpha), (odd, odd_alpha)):
                pieces = np.column_stack([begin[part], (end - begin)[part]]) / scale
                axes.broken_barh(
                    pieces,
                    (place + down, 0.42),
                    facecolor=color,
                    alpha=alpha,
                    linewidth=0,
                    rasterized=small,
                )
        labels.append(f"{names.get(job, job)} w{worker}")
        ticks.append(place + 0.43)
        place += 1.0
    axes.set_yticks(ticks, labels)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(place, -0.15)
    axes.set_xlim(0, float(rows["end_ns"].max()) / scale)
    axes.set_xlabel(f"time ({unit}){_which(results, repetition)}")
    if len(workers) > len(shown):
        axes.set_title(f"{len(shown)} of {len(workers)} workers", loc="left")
    figure.legend(
        handles=[
            Patch(facecolor=looks.BLACK, alpha=0.9, label="compute: forward to backward"),
            Patch(
                facecolor=looks.BLACK, alpha=0.4, label="communication: first sent to last result"
            ),
        ],
        title="shades alternate from iteration to iteration",
        loc="outside upper center",
        ncols=2,
    )
    return figure


def _first_sent(results: Results, repetition: int) -> pd.DataFrame:
    tensors = results.tensors
    tensors = tensors[tensors["repetition"] == repetition]
    return tensors.groupby(["job", "worker", "iteration"], as_index=False)["first_sent_ns"].min()


def _which(results: Results, repetition: int) -> str:
    several = results.jobs["repetition"].nunique() > 1
    return f", repetition {repetition}" if several else ""


def new_figure(width: float, height: float) -> Figure:
    """An empty figure; inches."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _mark(figure: Figure, runs: Sequence[Results]) -> None:
    """Puts the mark of degraded runs on the figure itself."""
    degraded = [results for results in runs if results.fidelity == "degraded"]
    if not degraded:
        return
    titles = dict(zip((run.folder for run in runs), looks.looks(runs), strict=True))
    if len(runs) == 1:
        text = f"DEGRADED: {degraded[0].reasons[0]}"
    else:
        text = "DEGRADED: " + ", ".join(titles[run.folder].title for run in degraded)
    figure.supxlabel(text, x=0.01, ha="left", fontsize=6, color=looks.VERMILION, weight="bold")


def save(figure: Figure, path: Path) -> list[Path]:
    """Writes a figure as PNG and PDF beside each other; the same figure gives the same files."""
    png, pdf = path.with_suffix(".png"), path.with_suffix(".pdf")
    figure.savefig(png, metadata={"Software": None})
    figure.savefig(pdf, metadata={"CreationDate": None, "Creator": None, "Producer": None})
    for written in (png, pdf):
        hand_over(written)
    return [png, pdf]
