"""What a comparison is not about, varied: further runs, what they change, and what is said."""

from __future__ import annotations

import dataclasses
import itertools
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from p4fabric.base.config.yaml_document import read_yaml
from p4fabric.base.errors import UserError

from testbed.analysis.data import robust_data
from testbed.analysis.data.robust_data import TOO_FEW, verdicts
from testbed.analysis.data.sweep_data import (
    Point,
    Robust,
    Sweep,
    Value,
    VariedRun,
    frame,
    read_sweep,
)
from testbed.analysis.html.sweep_page import sweep_page
from testbed.cli.main import main
from testbed.experiment import load_text
from testbed.experiment.sweep_file import load_sweep
from testbed.schemes import set_up
from testbed.sweeps import robustness, sweep_runner
from testbed.sweeps.robustness import FACTORS, Level, NotHere

TEXT = """
name: swept
runtime: virtual
topology: {kind: star, hosts: 6}
links: {bandwidth: 100 Gbit/s, delay: 1 us, queue: 400 packets, ecn_threshold: 300 packets}
system: {name: esa, window: 32}
memory: {aggregators: 64}
jobs:
  - {model: resnet18, workers: 2, iterations: 1, scale: 0.0005, compute_scale: 0}
"""
SWEPT = TEXT + "robust: {runs: %s}\nsweep:\n  system: [esa, {name: atp, window: 64}]\n"


def test_further_runs_are_found_again_and_shown_everywhere(tmp_path, capsys, monkeypatch):
    """Two systems in 6 runs: three changes. Some factors get none, and some need another job."""
    monkeypatch.setattr(sweep_runner, "executor", lambda *_, **__: ThreadPoolExecutor(1))
    file = tmp_path / "swept.yaml"
    file.write_text(SWEPT % 6)
    command = ["sweep", str(file), "--results", str(tmp_path), "--no-report"]
    assert main(command) == 0
    printed = capsys.readouterr().out
    sweep = read_sweep(tmp_path / "swept")
    (verdict,) = verdicts(sweep)
    assert verdict.sentence in " ".join(printed.split())
    runs = sweep.robust.runs
    assert len(runs) == 6 and len(sweep.points) == 2 and not verdict.missing
    assert {run.of for run in runs} == {point.key for point in sweep.points}
    assert {run.factor for run in runs} == {"seed", "host delay", "host jitter"}
    left_out = dict(sweep.robust.left_out)
    assert left_out["scale"] == left_out["host delay 3.5 us"] == TOO_FEW
    assert "not varied: seed " in verdict.sentence
    assert left_out["phase of jobs"] == "there is one job" and "the seed draws it" in printed
    assert {run.results.experiment["repetitions"] for run in runs} == {1}
    delays = {run.results.experiment["virtual"]["worker_delay"] for run in runs}
    assert delays == {"1.75 us", "437 ns"}
    sections = {each.name: each.blocks for each in sweep_page(sweep, frame(sweep)).sections}
    (chart,) = sections["robust"][0].charts
    assert verdict.sentence in {getattr(each, "text", "") for each in sections["summary"]}
    rows = {trace["name"] for trace in chart.spec["data"]}
    assert rows == {run.factor for run in runs} | {"1", "nothing changed"}
    assert main(["report", str(tmp_path / "swept"), "--json"]) == 0
    (said,) = json.loads(capsys.readouterr().out)
    assert said["verdicts"] == [verdict.sentence]
    rows = said["tables"]["robust"]["rows"]
    assert [row["factor"] for row in rows][:2] == ["nothing changed", "seed"]
    file.write_text((SWEPT % 6).replace("robust: {runs: 6}\n", ""))
    assert main([*command, "--robust", "6"]) == 0
    assert "robust: 0 further runs of 6 (1 of 1 comparisons)" in capsys.readouterr().out
    with pytest.raises(UserError, match="1 runs; allowed: at least 2, one for each system"):
        robustness.plan_of(load_sweep(file), tmp_path / "swept", 1)


@pytest.mark.parametrize(
    ("robust", "said"),
    [
        ("yes", "robust: found 'yes'; allowed: a mapping such as {runs: 32}"),
        ("{runs: 0}", "robust.runs: found 0; allowed: a whole number from 1"),
        ("{run: 5}", "allowed: a mapping such as {runs: 32}"),
    ],
)
def test_a_wrong_key_is_one_error(robust, said, tmp_path):
    file = tmp_path / "swept.yaml"
    file.write_text((SWEPT % 0).replace("{runs: 0}", robust))
    with pytest.raises(UserError) as caught:
        load_sweep(file)
    assert said in str(caught.value) and "1 error " in str(caught.value)


def test_what_compares_no_systems_cannot_be_robust(tmp_path):
    file = tmp_path / "swept.yaml"
    file.write_text(TEXT + "sweep: {seed: [1, 2]}\n")
    with pytest.raises(UserError, match="no finished points that differ in nothing but"):
        robustness.plan_of(load_sweep(file), tmp_path, 32)


@given(st.integers(1, 9), st.integers(20, 200))
def test_comparisons_that_are_varied_are_spread_from_the_first_to_the_last(count, most):
    points = [
        SimpleNamespace(key=f"{system}{x}", values={"system": system, "x": x})
        for x in range(count)
        for system in "ab"
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(robustness, "find", lambda folder: [folder])
        patch.setattr(robustness, "read", lambda folder: SimpleNamespace(finished=True))
        patch.setattr(robustness, "_of_comparison", lambda group, folder, most: ([], []))
        plan = robustness.plan_of(SimpleNamespace(points=points), Path(), most)
    places = [int(first[1:]) for first, _ in plan.compared]
    assert places[0] == 0 and (len(places) == 1 or places[-1] == count - 1)
    gaps = {after - before for before, after in itertools.pairwise(places)}
    assert max(gaps, default=1) - min(gaps, default=1) <= 1
    assert len(places) == count or 2 * (len(FACTORS) + 2) * (len(places) + 1) > most


ALLOWED = {  # keys that a factor may change
    "host delay": {"virtual"},
    "host jitter": {"virtual"},
    "window": {"system"},
    "queue length": {"links"},
    "scale": {"jobs"},
    "seed": {"seed"},
    "phase of jobs": {"jobs"},
    "names and order of jobs": {"jobs"},
}


def test_each_factor_changes_itself_alone():
    """In a resolved experiment of two jobs, and the place of no job."""
    job = TEXT.splitlines()[-1]
    base = load_text(TEXT + job.replace("workers: 2", "workers: 1") + "\n")
    data = read_yaml(base.resolved_yaml(), "").data
    places = {tuple(each.fixed_placement.workers) for each in base.jobs}
    for name, factor in FACTORS.items():
        if name == "hash salt":
            with pytest.raises(NotHere):
                next(factor(data, set_up(base)))
            continue
        levels = [*factor(data, set_up(base))]
        assert levels and len({level.text for level in levels}) == len(levels)
        for level in levels:
            made = robustness._changed(data, [level])
            assert made.identity != base.identity
            after = read_yaml(made.resolved_yaml(), "").data
            differing = {key for key in data if data[key] != after[key]}
            assert differing <= ALLOWED[name] | {"name"} and differing & ALLOWED[name]
            assert {tuple(each.fixed_placement.workers) for each in made.jobs} == places
            if level.number is not None:
                text, number = level.base
                assert text and (level.number < number) == (level is levels[0])


@given(st.lists(st.integers(1, 3), min_size=2, max_size=9), st.integers(0, 12))
def test_a_hypercube_spreads_the_values_of_each_factor(counts, runs):
    def level(factor, value):
        return Level(factor, f"{value}", lambda data: data.append((factor, value)))

    factors = [[level(f"f{n}", value) for value in range(c)] for n, c in enumerate(counts)]
    drawn = [*robustness._hypercube(factors, runs, 1)]
    assert len(drawn) == runs
    assert [each.text for each in drawn] == [
        each.text for each in robustness._hypercube(factors, runs, 1)
    ]
    changes: list[list] = []
    for each in drawn:
        changes.append([])
        each.change(changes[-1])
    for n, count in enumerate(counts):
        seen = [dict(row).get(f"f{n}") for row in changes]
        times = [seen.count(value) for value in (None, *range(count))]
        assert max(times) - min(times) <= 1


def _sweep(ratios: dict[tuple, float], base: list[float]) -> tuple[Sweep, dict[str, list[float]]]:
    """A sweep of ESA and ATP with further runs, and the JCTs of each run's key. base: of each
    repetition, ATP's over ESA's; ratios: the same of further runs by (factor, text, number, base
    text, base number), 0 of runs that have not finished."""
    jct = {"e": [100.0] * len(base), "a": [100.0 * each for each in base]}
    runs = []
    for place, (level, ratio) in enumerate(ratios.items()):
        for of in "ea":
            key = f"{of}{place}"
            jct[key] = [50.0 * (ratio if of == "a" else 1)] * (ratio > 0)
            runs.append(VariedRun(of, key, *level, results=key))
    points = [
        Point(key, name, {"system": Value(name, None)}, key)
        for key, name in (("e", "esa"), ("a", "atp"))
    ]
    robust = Robust(tuple(runs), (), (("e", "a"),), 1)
    return Sweep(None, "s", ("system",), tuple(points), robust=robust), jct


DELAY = [("host delay", f"{each} us", each, "2 us", 2.0) for each in (0.5, 1.0, 4.0)]
WINDOW = [("window", each, None, "", None) for each in ("half", "twice")]
SEED = [("seed", each, None, "", None) for each in ("5", "6")]


@pytest.mark.parametrize(
    ("base", "ratios", "said"),
    [
        (
            1.2,
            {DELAY[0]: 1.31, DELAY[2]: 1.18, WINDOW[0]: 1.25},
            "ESA 1.18 to 1.31x faster than ATP; holds in all of 3 varied settings.",
        ),
        (
            1.2,
            {DELAY[0]: 0.81, DELAY[1]: 1.18, DELAY[2]: 1.31},
            "ESA 1.18 to 1.31x faster than ATP; depends on host delay below 1.0 us (0.81x at"
            " 0.5 us).",
        ),
        (
            1.2,
            {DELAY[2]: 0.9, WINDOW[1]: 0.95, WINDOW[0]: 1.2},
            "ESA 1.20x faster than ATP; depends on host delay above 2 us (0.90x at 4.0 us) and"
            " window (0.95x with twice).",
        ),
        (
            1.2,
            {DELAY[0]: 1.31, DELAY[2]: 0},
            "ESA 1.20 to 1.31x faster than ATP; holds in all of 1 varied settings (1 have not"
            " finished).",
        ),
        (0.5, {DELAY[0]: 0.4}, "ATP 2.00 to 2.50x faster than ESA; holds in all of 1 varied"),
        (1.01, {DELAY[0]: 1.0}, "ESA and ATP about equally fast (1.01x); holds"),
        (  # by seeds of repetitions and of further runs 1.15 to 1.20: a spread of 1.04
            (1.2, 1.19),
            {SEED[0]: 1.15, WINDOW[0]: 1.3, WINDOW[1]: 1.04, DELAY[0]: 1.05},
            "ESA 1.01 to 1.36x faster than ATP; depends on window (1.04x with twice).",
        ),
        (
            (1.02, 1.06, 1.01),
            {SEED[0]: 1.05, DELAY[0]: 1.3},
            "ESA 1.03x faster than ATP on average, but the next seed may turn it (1.01 to 1.06x by"
            " chance; 1.05x (seed 5) to 1.30x (host delay 0.5 us)).",
        ),
        ((1.02, 1.2), {SEED[0]: 0.99}, "ESA and ATP cannot be told apart (0.99 to 1.20x by"),
    ],
)
def test_a_verdict_names_its_range_and_what_it_depends_on(base, ratios, said, monkeypatch):
    sweep, jct = _sweep(ratios, [base] if isinstance(base, float) else base)
    monkeypatch.setattr(robust_data, "_jcts", jct.get)
    monkeypatch.setattr(Point, "finished", True)
    (verdict,) = verdicts(sweep)
    assert verdict.sentence.startswith(said)


def test_each_system_is_held_against_the_series_that_the_figure_compares_with(monkeypatch):
    sweep, jct = _sweep({}, [1.2])
    points = (*sweep.points, Point("g", "grid", {"system": Value("grid", None)}, "g"))
    robust = dataclasses.replace(sweep.robust, compared=(("e", "a", "g"),))
    monkeypatch.setattr(robust_data, "_jcts", (jct | {"g": [90.0]}).get)
    monkeypatch.setattr(Point, "finished", True)
    for against, titles in (
        ("ATP", ["ATP / ESA", "ATP / GRID"]),
        ("", ["ATP / ESA", "ESA / GRID"]),
    ):
        figure = SimpleNamespace(against=against)
        made = dataclasses.replace(sweep, points=points, robust=robust, figure=figure)
        assert [each.title for each in verdicts(made)] == titles


RATIO = st.floats(0.5, 2.0)


@given(
    st.lists(RATIO, min_size=2, max_size=4),
    st.fixed_dictionaries({}, optional={level: RATIO for level in (*SEED, *DELAY, *WINDOW)}),
)
def test_a_held_out_seed_within_the_spread_turns_no_verdict(base, ratios):
    """Whatever runs say: a further run whose ratio chance takes as far as it took those of the
    repetitions is in the stated range, and has the same faster system, unless its factor is named.
    """
    sweep, jct = _sweep(ratios, base)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(robust_data, "_jcts", jct.get)
        patch.setattr(Point, "finished", True)
        (verdict,) = verdicts(sweep)
    doubts = "cannot be told apart", "the next seed may turn it"
    apart = not any(each in verdict.sentence for each in doubts)
    chance = [*base, *(ratio for level, ratio in ratios.items() if level in SEED)]
    spread = max(chance) / min(chance)
    assert apart == (max(min(chance), 1 / max(chance)) >= spread)
    turned = {factor for factor, found in verdict.ratios.items() if any(e.flips for e in found)}
    of = {each.run.text: each for found in verdict.ratios.values() for each in found}
    for (factor, text, *_), ratio in ratios.items():
        sound = ratio if verdict.faster == "ESA" else 1 / ratio
        assert of[text].ratio == pytest.approx(sound)
        assert of[text].flips == (sound / spread < 1) and (of[text].flips <= (factor in turned))
        assert not apart or not of[text].flips or f"{factor} " in verdict.sentence
    held = [each.ratio for each in of.values() if not each.flips]
    if apart and " to " in verdict.sentence.partition("x faster")[0]:
        words = verdict.sentence.partition("x faster")[0].split()
        low, high = float(words[-3]), float(words[-1])
        assert all(low - 0.01 <= ratio / spread and ratio * spread <= high + 0.01 for ratio in held)
