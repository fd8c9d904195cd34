"""The styles of series: a system or a job has the same colour in every figure.

Colours are those of Okabe and Ito, which people with the common colour deficiencies can tell apart.
A hatch or a marker repeats what the colour says, for print. A system's colour and marker come from
its entry in testbed/systems.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

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

JOB_COLORS = (BLUE, ORANGE, GREEN, PURPLE, SKY, VERMILION, YELLOW, GREY)
JOB_MARKERS = ("o", "s", "^", "D", "P", "X", "*", "v")
HATCHES = ("", "///", "...", "\\\\\\", "xxx", "---", "ooo", "+++")

# States of an aggregator: greys, so that they are not taken for jobs or systems. Filling that ended
# in a partial is drawn lighter than filling that ended in a complete sum.
FILLING = "#4D4D4D"
PARTIAL = "#9A9A9A"
HELD = YELLOW
FREE = "#EFEFEF"
EDGE = "#BBBBBB"

# Causes of packets to a PS (testbed.results.counters.DEPARTURES): what aggregation wants is green,
# what it costs is not. The same cause at another switch has the same colour, and a hatch.
_CAUSE_COLORS = {
    "completed": GREEN,
    "sent_again": YELLOW,
    "evicted": VERMILION,
    "pulled": ORANGE,
    "flushed": PURPLE,
    "retransmitted": BLACK,
    "collided": BLUE,
    "over_rate": SKY,
    "not_aggregated": GREY,
}
_ELSEWHERE = "_elsewhere"

# Widths of a paper's columns in inches.
COLUMN = 3.5
PAGE = 7.1
_columns: ContextVar[int | None] = ContextVar("columns", default=None)

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


@contextmanager
def as_wide_as(columns: int | None) -> Iterator[None]:
    """Within, figures have the width of one or two columns of a paper; None: of their content."""
    token = _columns.set(columns)
    try:
        yield
    finally:
        _columns.reset(token)


def in_one_column() -> bool:
    """True if figures have to fit one column of a paper."""
    return _columns.get() == 1


def width_of(content: float) -> float:
    """The width in inches of a figure whose content needs so much."""
    return {1: COLUMN, 2: PAGE}.get(_columns.get() or 0, content)


@dataclass(frozen=True)
class PlotStyle:
    """The look of a series: its title, colour (#rrggbb), marker and hatch (matplotlib's)."""

    title: str
    color: str
    marker: str
    hatch: str


def job_color(job: int) -> str:
    """The colour of a job, by its number."""
    return JOB_COLORS[job % len(JOB_COLORS)]


def job_hatch(job: int) -> str:
    """The hatch of a job. It also changes where the colours begin again, so 64 jobs differ."""
    return HATCHES[(job + job // len(JOB_COLORS)) % len(HATCHES)]


def job_style(job: int, title: str) -> PlotStyle:
    """The style of a job. `job`: its number."""
    return PlotStyle(title, job_color(job), JOB_MARKERS[job % len(JOB_MARKERS)], job_hatch(job))


def cause_style(cause: str) -> PlotStyle:
    """The style of a cause of packets to a PS (testbed.results.counters.DEPARTURES)."""
    color = _CAUSE_COLORS.get(cause.removesuffix(_ELSEWHERE), "#E8E8E8")
    hatch = "///" if cause.endswith(_ELSEWHERE) else ""
    return PlotStyle(cause.replace("_", " "), color, "o", hatch)


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
    return [styles[title] for title in titles]


def series_styles(series: Sequence[tuple[str, str]]) -> dict[str, PlotStyle]:
    """A style per series, given as (title, system): the system's colour and marker. The system as
    it is, or the first of its series where none is, is solid. Variants differ in hatch and line,
    which follow from their options, so that a variant looks the same in every figure."""
    from testbed.systems import SYSTEMS

    found: dict[str, PlotStyle] = {}
    for name in dict.fromkeys(name for _, name in series):
        system = SYSTEMS.get(name)
        color, marker = (system.color, system.marker) if system else (GREY, "o")
        titles = list(dict.fromkeys(title for title, each in series if each == name))
        plain = next((title for title in titles if _variant(title) == ""), titles[0])
        taken = {0}
        for title in titles:
            place = 0
            if title != plain:
                free = set(range(len(HATCHES))) - taken or set(range(1, len(HATCHES)))
                wanted = 1 + zlib.crc32(_variant(title).encode()) % (len(HATCHES) - 1)
                place = min(free, key=lambda each: (each - wanted) % len(HATCHES))
            taken.add(place)
            found[title] = PlotStyle(title, color, marker, HATCHES[place])
    return {title: found[title] for title, _ in series}


def _variant(title: str) -> str:
    """The options in a series' title, e.g. `gap 0` of `ATP (gap 0)`; "" if it has none."""
    return title.partition(" (")[2].removesuffix(")")


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
        words = [f"{key.rpartition('.')[2]} {flat[number][key]}" for key in keys[:2]]
        found.append(f"{title} ({', '.join(words)})" if words else title)
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


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """(path, text) of everything in an experiment file."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from leaves(each, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list) and any(isinstance(each, dict | list) for each in value):
        for number, each in enumerate(value):
            yield from leaves(each, f"{path}[{number}]")
    else:
        yield path, str(value)
