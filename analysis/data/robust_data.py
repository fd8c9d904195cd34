"""The dependence of a sweep's verdicts: ratios of JCTs over further runs, and a sentence each.

A verdict compares two systems at one place of a sweep: how many times as long the slower one takes.
Its range is that of all runs in which the faster one stays the faster, made wider by what chance
changes: the seeds of the points' repetitions, and further runs with another seed or order of jobs
(CHANCE). Their spread is the largest of their ratios over the smallest. A ratio within it of 1
may be on the other side with the next seed, so it does not hold a verdict up. A factor with a run
in which the verdict is not held is named, with the value up to which it was seen to hold. Where
that run is chance itself, the next seed may turn the verdict, or the two cannot be told apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from testbed.analysis.data.run_summary import summary
from testbed.analysis.data.sweep_data import Point, Robust, Sweep, VariedRun
from testbed.results import Results

ALIKE = 1.02  # a ratio below it says little
CHANCE = ("seed", "names and order of jobs")
TOO_FEW = "there are too few runs (`runs`)"
MOST_NAMED = 4  # factors that were not varied


@dataclass(frozen=True)
class Ratio:
    """The slower system's JCT over that of the faster one, with a change. flips: chance may make it
    less than 1."""

    run: VariedRun
    ratio: float
    flips: bool

    @property
    def said(self) -> str:
        return f"{self.run.factor} {self.run.text}"


@dataclass(frozen=True)
class Verdict:
    """Two systems at one place, `where`. base: the ratio without any change. ratios: by factor.
    chance: ratios that chance alone makes. untried: what there were too few runs for."""

    where: str
    faster: str
    slower: str
    base: float
    ratios: dict[str, list[Ratio]]
    chance: tuple[float, ...]
    missing: int = 0
    untried: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        place = f", {self.where}" if self.where else ""
        return f"{self.slower} / {self.faster}{place}"

    @property
    def sentence(self) -> str:
        every = [each for found in self.ratios.values() for each in found]
        held = [self.base, *(each.ratio for each in every if not each.flips)]
        spread = _spread(self.chance)
        low, high = min(held) / spread, max(held) * spread
        flipped = [found for found in self.ratios.values() if any(each.flips for each in found)]
        places = [_depends(found) for found in flipped]
        if min(self.chance) / spread < 1:
            ends = min(self.chance), max(self.chance)
            text = f"{self.faster} {self.base:.2f}x faster than {self.slower} on average, but the"
            text += " next seed may turn it"
            if ends[0] <= 1 or self.base < ALIKE:
                text = f"{self.faster} and {self.slower} cannot be told apart"
            text += f" ({_range(*ends)} by chance"
            if every:
                far = (pick(every, key=lambda each: each.ratio) for pick in (min, max))
                text += f"; {' to '.join(f'{each.ratio:.2f}x ({each.said})' for each in far)}"
            text += ")"
        else:
            text = f"{self.faster} {_range(low, high)} faster than {self.slower}"
            if high < ALIKE:
                text = f"{self.faster} and {self.slower} about equally fast ({high:.2f}x)"
            if places:
                last = f"{' and ' * (len(places) > 1)}{places[-1]}"
                text += f"; depends on {', '.join(places[:-1])}{last}"
            else:
                text += f"; holds in all of {len(every)} varied settings"
        if self.untried:
            text += f"; not varied: {', '.join(self.untried[:MOST_NAMED])}"
            if (more := len(self.untried) - MOST_NAMED) > 0:
                text += f" and {more} more"
        if self.missing:
            text += f" ({self.missing} have not finished)"
        return f"{self.where}: {text}." if self.where else f"{text}."


def verdicts(sweep: Sweep) -> list[Verdict]:
    """A verdict for each system of a varied comparison against the first, or against the series
    that the sweep's figure compares with."""
    robust = sweep.robust
    if robust is None:
        return []
    points = {point.key: point for point in sweep.points}
    found: list[Verdict] = []
    for keys in robust.compared:
        group = [points[key] for key in keys if key in points and points[key].finished]
        if len(group) > 1:
            found += _of_group(sweep, robust, group)
    return found


def _of_group(sweep: Sweep, robust: Robust, group: Sequence[Point]) -> list[Verdict]:
    others = [key for key in sweep.keys if key != "system"]
    where = ", ".join(
        f"{key} {group[0].values[key].text}" for key in others if key in group[0].values
    )
    named = {point.key: point.series(*others) for point in group}
    against = sweep.figure.against if sweep.figure else ""
    first = next((point for point in group if named[point.key] == against), group[0])
    by_seed = {point.key: _jcts(point.results) for point in group}
    base = {key: sum(each) / len(each) for key, each in by_seed.items()}
    untried = tuple(name for name, reason in robust.left_out if reason == TOO_FEW)
    found = []
    for point in group:
        if point is first:
            continue
        fast, slow = sorted((first.key, point.key), key=lambda key: base[key])
        chance = [a / b for a, b in zip(by_seed[slow], by_seed[fast], strict=True)]
        varied: list[tuple[VariedRun, float]] = []
        missing = 0
        of_slow = {(e.factor, e.text): e for e in robust.runs if e.of == slow}
        for run in (each for each in robust.runs if each.of == fast):
            times = [_jcts(each) for each in (of_slow[run.factor, run.text].results, run.results)]
            if all(times):
                varied.append((run, sum(times[0]) / sum(times[1])))
            else:
                missing += 1
        chance += [ratio for run, ratio in varied if run.factor in CHANCE]
        ratios: dict[str, list[Ratio]] = {}
        for run, ratio in varied:
            flips = ratio < _spread(chance)
            ratios.setdefault(run.factor, []).append(Ratio(run, ratio, flips))
        ratio = base[slow] / base[fast]
        pair = named[fast], named[slow]
        found.append(Verdict(where, *pair, ratio, ratios, tuple(chance), missing, untried))
    return found


def _jcts(results: Results | None) -> list[float]:
    """The mean JCT of each repetition; [] if the run has not finished."""
    if results is None or not results.finished:
        return []
    return [float(each) for each in summary(results)["run"]["jct_mean_ns"]]


def _spread(ratios: Sequence[float]) -> float:
    return max(ratios) / min(ratios)


def _range(low: float, high: float) -> str:
    return f"{high:.2f}x" if f"{low:.2f}" == f"{high:.2f}" else f"{low:.2f} to {high:.2f}x"


def _depends(found: Sequence[Ratio]) -> str:
    """A factor with the values at which the verdict is another one."""
    factor, texts = found[0].run.factor, []
    for each in (each for each in found if each.flips):
        run, said = each.run, f"{each.ratio:.2f}x"
        if run.number is None or run.base_number is None:
            texts.append(f"({said} with {run.text})")
            continue
        below = run.number < run.base_number
        held = [
            (other.run.number, other.run.text)
            for other in found
            if not other.flips and other.run.number is not None
            if (run.number < other.run.number < run.base_number)
            or (run.base_number < other.run.number < run.number)
        ]
        edges = [(run.base_number, run.base_text), *held]
        _, edge = min(edges) if below else max(edges)
        texts.append(f"{'below' if below else 'above'} {edge} ({said} at {run.text})")
    return f"{factor} {', '.join(texts)}"
