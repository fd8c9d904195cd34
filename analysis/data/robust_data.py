"""The dependence of a sweep's verdicts: ratios of JCTs over further runs, and a sentence each.

A verdict compares two systems at one place of a sweep: how many times as long the slower one takes.
Its range is that of all runs in which the faster one stays the faster. A factor with a run in which
it does not is named, with the value up to which the verdict was seen to hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from testbed.analysis.data.run_summary import summary
from testbed.analysis.data.sweep_data import Point, Robust, Sweep, VariedRun
from testbed.results import Results

ALIKE = 1.02  # a ratio below it says little


@dataclass(frozen=True)
class Ratio:
    """The slower system's JCT over that of the faster one, with a change."""

    run: VariedRun
    ratio: float

    @property
    def flips(self) -> bool:
        return self.ratio < 1


@dataclass(frozen=True)
class Verdict:
    """Two systems at one place, `where`. base: the ratio without any change. ratios: by factor."""

    where: str
    faster: str
    slower: str
    base: float
    ratios: dict[str, list[Ratio]]
    missing: int = 0

    @property
    def title(self) -> str:
        place = f", {self.where}" if self.where else ""
        return f"{self.slower} / {self.faster}{place}"

    @property
    def sentence(self) -> str:
        every = [each for found in self.ratios.values() for each in found]
        held = [self.base, *(each.ratio for each in every if not each.flips)]
        text = f"{self.faster} {_range(min(held), max(held))} faster than {self.slower}"
        if max(held) < ALIKE:
            text = f"{self.faster} and {self.slower} about equally fast ({max(held):.2f}x)"
        flipped = [found for found in self.ratios.values() if any(each.flips for each in found)]
        places = [_depends(found) for found in flipped]
        if places:
            text += (
                f"; depends on {', '.join(places[:-1])}{' and ' * (len(places) > 1)}{places[-1]}"
            )
        else:
            text += f"; holds in all of {len(every)} varied settings"
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
    found = []
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
    base = {point.key: _jct(point.results) for point in group}
    found = []
    for point in group:
        if point is first:
            continue
        fast, slow = sorted((first.key, point.key), key=lambda key: base[key])
        ratios: dict[str, list[Ratio]] = {}
        missing = 0
        of_slow = {(e.factor, e.text): e for e in robust.runs if e.of == slow}
        for run in (each for each in robust.runs if each.of == fast):
            times = _jct(of_slow[run.factor, run.text].results), _jct(run.results)
            if times[0] == times[0] and times[1] == times[1]:
                ratios.setdefault(run.factor, []).append(Ratio(run, times[0] / times[1]))
            else:
                missing += 1
        ratio = base[slow] / base[fast]
        found.append(Verdict(where, named[fast], named[slow], ratio, ratios, missing))
    return found


def _jct(results: Results | None) -> float:
    if results is None or not results.finished:
        return float("nan")
    return float(summary(results)["run"]["jct_mean_ns"].mean())


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
