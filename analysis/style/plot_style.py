"""The styles of series: a colour has one meaning in every figure.

Systems, and the causes of packets, have the colours of Okabe and Ito, jobs those of Paul Tol's
scheme "bright": people with the common colour deficiencies can tell apart those of a scheme. States
and what belongs to no job are grey. A worker's phases are tints of its job's colour. A hatch or a
marker repeats what the colour says, for print. A system's colour and marker come from its entry in
testbed/systems.

Sources: M. Okabe, K. Ito, "Color Universal Design", 2008; P. Tol, "Colour Schemes", SRON/EPS/TN/
09-002, 2021.
"""

from __future__ import annotations

import itertools
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from testbed.analysis.style.key_words import words

if TYPE_CHECKING:
    from testbed.results import Results

BLACK = "#000000"
ORANGE = "#E69F00"
SKY = "#56B4E9"
GREEN = "#009E73"
YELLOW = "#F0E442"
BLUE = "#0072B2"
VERMILION = "#D55E00"
PURPLE = "#CC79A7"
GREY = "#999999"

JOB_COLORS = (
    "#4477AA", "#EE6677", "#228833", "#CCBB44", "#66CCEE", "#AA3377", "#BBBBBB", "#8C6D46",
)  # fmt: skip
JOB_MARKERS = ("o", "s", "^", "D", "P", "X", "*", "v")
# Strokes of hatches: of the options of systems that are varied most, and of the others.
_OPTION_STROKES = {
    "gap": "/",
    "release": ".",
    "window_rule": "x",
    "window": "o",
    "order": "\\",
    "index": "-",
    "priority": "+",
    "downgrading": "|",
    "preempt": "O",
}
_STROKES = tuple(_OPTION_STROKES.values())
LINES = 8  # styles of lines
HATCHES = ("", "///", "...", "\\\\\\", "xxx", "---", "ooo", "+++")

# States of an aggregator: greys, so that they are not taken for jobs or systems. Filling that ended
# in a partial is drawn lighter than filling that ended in a complete sum.
FILLING = "#4D4D4D"
PARTIAL = "#9A9A9A"
HELD = YELLOW
FREE = "#EFEFEF"
EDGE = "#BBBBBB"
SOFT = "#555555"  # of what is said in small

# Causes of packets to a PS (testbed.results.counters.DEPARTURES): what aggregation wants is green,
# what it costs is not. The same cause at another switch has the same colour, and a hatch.
_CAUSE_COLORS = {
    "completed": GREEN,
    "sent_again": "#B8A100",
    "evicted": VERMILION,
    "pulled": ORANGE,
    "flushed": PURPLE,
    "retransmitted": BLACK,
    "collided": BLUE,
    "over_rate": SKY,
    "not_aggregated": GREY,
    "overlapping": "#8A5A00",
    "outside": "#5A3A8A",
    "floats": "#A3C1AD",
    "nothing_held": "#7A1F3D",
}
# The two directions of a PS's link.
DIRECTIONS = ("#333333", "#C8C8C8")
# Events of the P4 programs that are a cause have its colour.
_EVENT_CAUSES = {
    "completions": "completed",
    "re_emissions": "sent_again",
    "preemptions": "evicted",
    "preemptions_held": "evicted",
    "collisions": "collided",
    "downgrades": "collided",
    "reminders": "pulled",
    "flushes": "flushed",
    "flush_additions": "flushed",
    "over_rate": "over_rate",
    "overlaps": "overlapping",
    "outside": "outside",
    "reminders_empty": "nothing_held",
}
_ELSEWHERE = "_elsewhere"

# A worker's phases, in the order of their lanes: title, how far the job's colour is mixed with
# white (None: grey, as nothing of the job's is done), hatch.
_PHASES: dict[str, tuple[str, float | None, str]] = {
    "forward": ("forward", 0.55, ""),
    "backward": ("backward", 0.0, ""),
    "compute": ("forward and backward", 0.0, ""),
    "step": ("computation", 0.0, ""),
    "waiting": ("waiting", None, "///"),
    "communication": ("communication", 0.3, "..."),
}
_NO_JOB = "#5A5A5A"

# What disturbs a run on purpose, and what a reader is warned of.
FAULT = "#C4161C"

# Widths of a paper's columns in inches, by the name that figures take.
WIDTHS = {"column": 3.5, "text": 7.2}
COLUMN, PAGE = WIDTHS.values()
_width: ContextVar[float | None] = ContextVar("width", default=None)

RC: dict[Any, Any] = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "hatch.linewidth": 0.5,
    "pdf.fonttype": 42,  # TrueType, so that text stays text and publishers accept it
    "savefig.dpi": 200,
}


# For whoever draws in the style of the reports (tb.style).
PAPER = RC | {
    "figure.figsize": (COLUMN, 2.2),
    "figure.constrained_layout.use": True,
    "lines.linewidth": 1,
    "lines.markersize": 3,
    "errorbar.capsize": 2,
}


def rc(style: Mapping[str, Any] | None = None) -> dict[Any, Any]:
    """matplotlib's settings for a figure: those of `style`, else what the user has set in rcParams,
    else ours. What has matplotlib's own default counts as not set."""
    from matplotlib import rcParams, rcParamsDefault

    ours = {key: value for key, value in RC.items() if rcParams[key] == rcParamsDefault[key]}
    return ours | dict(style or {})


@contextmanager
def as_wide_as(inches: float | None) -> Iterator[None]:
    """Within, figures have this width; None: that of their content."""
    token = _width.set(inches)
    try:
        yield
    finally:
        _width.reset(token)


def in_one_column() -> bool:
    """True if figures have to fit one column of a paper."""
    return (_width.get() or PAGE) < 1.3 * COLUMN


def width_of(content: float) -> float:
    """The width in inches of a figure whose content needs so much."""
    return _width.get() or content


@dataclass(frozen=True)
class PlotStyle:
    """The look of a series: its title, colour (#rrggbb), marker and hatch (matplotlib's). `line`:
    the number of its line's style, from 0 for a solid one."""

    title: str
    color: str
    marker: str
    hatch: str
    line: int = 0


def job_color(job: int) -> str:
    """The colour of a job, by its number."""
    return JOB_COLORS[job % len(JOB_COLORS)]


def job_hatch(job: int) -> str:
    """The hatch of a job. It also changes where the colours begin again, so 64 jobs differ."""
    return HATCHES[(job + job // len(JOB_COLORS)) % len(HATCHES)]


def job_style(job: int, title: str) -> PlotStyle:
    """The style of a job. `job`: its number."""
    return PlotStyle(title, job_color(job), JOB_MARKERS[job % len(JOB_MARKERS)], job_hatch(job))


def phase_style(phase: str, job: int | None = None) -> PlotStyle:
    """The style of a phase (of timeline_data.PHASES) of a job's workers; None: of no one job's, as
    in a legend."""
    title, white, hatch = _PHASES[phase]
    color = FREE if white is None else tint(_NO_JOB if job is None else job_color(job), white)
    return PlotStyle(title, color, "o", hatch)


def tint(color: str, white: float) -> str:
    """A colour (#rrggbb) mixed with white, 0 to 1."""
    parts = (int(color[at : at + 2], 16) for at in (1, 3, 5))
    return "#" + "".join(f"{round(part + (255 - part) * white):02X}" for part in parts)


def cause_style(cause: str) -> PlotStyle:
    """The style of a cause of packets to a PS (testbed.results.counters.DEPARTURES)."""
    color = _CAUSE_COLORS.get(cause.removesuffix(_ELSEWHERE), _NO_JOB)
    hatch = "///" if cause.endswith(_ELSEWHERE) else ""
    return PlotStyle(cause.replace("_", " "), color, "o", hatch)


def event_color(event: str) -> str:
    """The colour of an event of the P4 programs (testbed.results.counters.EVENTS)."""
    return _CAUSE_COLORS.get(_EVENT_CAUSES.get(event, ""), _NO_JOB)


def system_of(results: Results) -> str:
    """Name of the system that the run used, "" where it did not get to say."""
    if len(results.jobs):
        return str(results.jobs["system"].iloc[0])
    entry = results.experiment.get("system", "")
    return str(entry.get("name", "")) if isinstance(entry, dict) else str(entry)


def plot_styles(runs: Sequence[Results]) -> list[PlotStyle]:
    """One style per run. Runs of one system share its colour and marker; titles are as short as
    they can be while no two are equal: the system, else the run's name, else the system with what
    the experiments of that system differ in, else the run's folder."""
    from testbed.analysis.data.run_summary import fallback_notes
    from testbed.systems import SYSTEMS

    systems = [system_of(run) for run in runs]
    titles = [SYSTEMS[name].title if name in SYSTEMS else name or "?" for name in systems]
    for better in (
        [run.name for run in runs],
        _with_differences(runs, titles),
        [run.folder.name for run in runs],
    ):
        count = Counter(titles)
        titles = [new if count[old] > 1 else old for old, new in zip(titles, better, strict=True)]
    styles = series_styles(list(zip(titles, systems, strict=True)))
    notes = [fallback_notes(run.jobs) for run in runs]
    return [
        replace(styles[title], title=f"{title}, {note}") if note else styles[title]
        for title, note in zip(titles, notes, strict=True)
    ]


def series_styles(series: Sequence[tuple[str, str]]) -> dict[str, PlotStyle]:
    """A style per series, given as (title, system): the system's colour and marker. The system as
    it is, or the first of its series where none is, is solid. A variant's hatch has a stroke for
    each of its options, denser for another value of one, and its line has a style of its own. Both
    follow from the options, so that a variant looks the same in every figure."""
    from testbed.systems import SYSTEMS

    found: dict[str, PlotStyle] = {}
    for name in dict.fromkeys(name for _, name in series):
        system = SYSTEMS.get(name)
        color, marker = (system.color, system.marker) if system else (GREY, "o")
        titles = list(dict.fromkeys(title for title, each in series if each == name))
        plain = next((title for title in titles if not _options(title)), titles[0])
        found[plain] = PlotStyle(plain, color, marker, "")
        hatches, lines = {""}, {0}
        for title in titles:
            if title == plain:
                continue
            hatch = _strokes(title)
            for more in itertools.cycle(_STROKES):
                if hatch not in hatches:
                    break
                hatch += more
            wanted = zlib.crc32(" ".join(_options(title) or [title]).encode())
            free = set(range(1, LINES)) - lines or set(range(1, LINES))
            line = min(free, key=lambda each: (each - wanted) % LINES)
            hatches.add(hatch)
            lines.add(line)
            found[title] = PlotStyle(title, color, marker, hatch, line)
    return {title: found[title] for title, _ in series}


def _options(title: str) -> list[str]:
    """The options in a series' title: `gap 0` and `window 64` in `ATP (gap 0), window 64`."""
    return title.replace(" (", ", ").replace(")", "").split(", ")[1:]


def _strokes(title: str) -> str:
    """The hatch of a variant: each of its options' strokes, as dense as its value says."""
    strokes = ""
    for option in _options(title) or [title]:
        key, _, value = option.rpartition(" ")
        stroke = _OPTION_STROKES.get(key.rpartition(".")[2].replace(" ", "_"))
        stroke = stroke or _STROKES[zlib.crc32(key.encode()) % len(_STROKES)]
        strokes += (2 + zlib.crc32(value.encode()) % 3) * stroke
    return strokes


def _with_differences(runs: Sequence[Results], titles: Sequence[str]) -> list[str]:
    """Each run's title with the values of up to two keys in which runs of that title differ."""
    flat = [dict(leaves(run.experiment)) for run in runs]
    found = []
    for number, title in enumerate(titles):
        others = [flat[n] for n, other in enumerate(titles) if other == title]
        keys = [
            key
            for key in flat[number]
            if key != "name" and len({other.get(key) for other in others}) > 1
        ]
        # Options of the system first: they are what such comparisons are about.
        keys.sort(key=lambda key: not key.startswith("system."))
        said = [f"{words(key)} {flat[number][key]}" for key in keys[:2]]
        found.append(f"{title} ({', '.join(said)})" if said else title)
    return found


def differing(settings: Sequence[Any]) -> dict[str, list[str | None]]:
    """{path of a key: the text of each one's value, None where there is none} of experiments'
    contents, for what is not the same in all."""
    flat = [dict(leaves(each)) for each in settings]
    found = {}
    for key in dict.fromkeys(key for each in flat for key in each):
        values = [each.get(key) for each in flat]
        if len(set(values)) > 1:
            found[key] = values
    return found


def leaves(value: object, path: str = "") -> Iterator[tuple[str, str]]:
    """(path, text) of everything in an experiment file."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from leaves(each, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list) and any(isinstance(each, dict | list) for each in value):
        for number, each in enumerate(value):
            yield from leaves(each, f"{path}[{number}]")
    else:
        yield path, str(value)
