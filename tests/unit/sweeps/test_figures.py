"""Figures: their files, their sizes, and what the command says."""

from __future__ import annotations

from pathlib import Path

import pytest
from p4fabric.base.errors import UserError

from testbed.analysis.data import sweep_data
from testbed.analysis.data.sweep_chart_data import MEASURES
from testbed.analysis.data.sweep_data import Value
from testbed.artifacts.expected import of_figures
from testbed.cli import main as commands
from testbed.experiment.figure import Size
from testbed.experiment.sweep_file import load_sweep, system_titles
from testbed.sweeps import figures, sweep_runner
from tests.support.experiments import BASE
from tests.support.paths import ROOT

SWEEP = "sweep: {system: [esa, atp], memory.aggregators: [16, 32]}\n"
FIGURE = "figure: {claim: It works., x: memory.aggregators, quick: 0.5}\n"


@pytest.fixture
def file(tmp_path):
    """file(text): BASE and `text` as small.yaml, the only figure of its folder."""

    def write(text: str) -> Path:
        path = tmp_path / "small.yaml"
        path.write_text(BASE.replace("name: base", "repetitions: 9") + text)
        return path

    return write


@pytest.fixture(scope="module")
def shipped():
    """The figures that there are: name -> (sweep, figure)."""
    return {name: figures.declared(figures.find(name)) for name in figures.names()}


# Repetitions of figures whose points are large or tuned, or whose seeds hardly differ.
FEWER = {
    "baselines": 3,
    "buffers": 3,
    "combine": 1,
    "collateral": 3,
    "errors": 3,
    "experts": 1,
    "headline": 3,
    "incast": 3,
    "jobs": 5,
    "lossless": 5,
    "memory": 5,
    "order": 5,
    "paths": 3,
    "pays": 1,
    "ranks": 1,
    "rate": 5,
    "sharing": 5,
    "throughput": 5,
}
# They ask whether aggregation or pauses pay, not what preemption gains.
OTHER_QUESTIONS = ("combine", "lossless", "pays", "sharing", "throughput")


def test_every_figure_is_listed_and_has_its_place_in_the_docs(shipped, capsys):
    page = (ROOT / "docs" / "figures.md").read_text()
    assert commands.main(["figure"]) == 0
    # What compares planners is listed too, and has pages of its own.
    listed = [line for line in capsys.readouterr().out.splitlines() if line.split()[0] in shipped]
    assert len(shipped) == len(listed) >= 11
    for (name, (sweep, figure)), line in zip(shipped.items(), listed, strict=True):
        assert line.split()[0] == name and line.endswith(figure.claim)
        assert {point.experiment.name for point in sweep.points} == {name}
        repetitions = {point.experiment.repetitions for point in sweep.points}
        if all(job.command for point in sweep.points for job in point.experiment.jobs):
            assert min(repetitions) >= 5  # programs run on Mininet alone
        else:
            assert {point.experiment.runtime for point in sweep.points} == {"virtual"}
            assert min(repetitions) >= FEWER.get(name, 10)
        assert f"ina figure {name}\n" in page and figure.claim in page


def test_each_expected_value_is_a_cell_that_its_figure_draws(shipped, tmp_path, monkeypatch):
    # Its own needs the hash of all that a run reads.
    key = property(lambda point: f"{id(point) % 16**12:012x}")
    monkeypatch.setattr("testbed.experiment.sweep_file.Point.key", key)
    expected, rows = of_figures()
    assert {row["figure"] for row in rows} == set(expected)
    for name in expected:
        sweep, figure = shipped[name]
        opened = sweep_data.read_sweep(sweep_runner._open_folder(sweep, tmp_path))
        there = set()
        for point in opened.points:
            value = point.values.get(opened.axis)
            there.add((point.series(*opened.placed), None if value is None else value.number))
        columns = {MEASURES[panel].column for panel in figure.panels}
        for row in (row for row in rows if row["figure"] == name):
            assert (row["series"], row.get("x")) in there, row["name"]
            assert row["column"] in columns, row["name"]
            assert (row["unit"] == "ms") == row["column"].endswith("_ns"), row["name"]


def test_where_esa_and_atp_are_compared_atp_also_releases_on_completion(shipped):
    compared = 0
    for sweep, figure in (each for name, each in shipped.items() if name not in OTHER_QUESTIONS):
        entries = {(p.experiment.system.name, getattr(p.experiment.system, "release", None))
                   for p in sweep.points}  # fmt: skip
        if {"esa", "atp"} <= {system for system, _ in entries}:
            compared += 1
            assert {("atp", "on_result"), ("atp", "on_completion")} <= entries
            assert figure.panels[0] == "ps_packets_per_fragment"
    assert compared >= 6


def test_the_command_knows_near_names_and_its_options(capsys):
    assert commands.main(["figure", "memry"]) == 2
    assert "there is no figure `memry`; did you mean memory?" in capsys.readouterr().err
    assert commands.main(["figure", "zzz"]) == 2
    assert "figures are: ablation, baselines" in capsys.readouterr().err
    assert commands.main(["figure", "grid-rat"]) == 2
    assert "there is no figure `grid-rat`; did you mean grid-rate?" in capsys.readouterr().err
    assert commands.main(["figure", "memory", "--quick", "--scale", "2"]) == 2
    assert "give one of them" in capsys.readouterr().err
    assert commands.main(["figure", "memory", "--scale", "1000"]) == 2
    assert "found 1000; allowed: a number from 0.001 to 100" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("figure: {claim: It works., x: memory.agregators}\n", "did you mean memory.aggregators?"),
        ("figure: {claim: It works., x: seed}\n", "seed is not varied"),
        ("figure: {claim: It works., panels: [jtc]}\n", "did you mean jct?"),
        ("figure: {claim: It works., panels: []}\n", "a list of at least 1"),
        ("figure: {x: memory.aggregators}\n", "figure.claim: missing"),
        ("figure: [1]\n", "a mapping with the keys claim"),
        ("", "the key figure is missing"),
    ],
)
def test_a_wrong_declaration(file, text, said):
    with pytest.raises(UserError) as caught:
        figures.declared(file(SWEEP + text))
    assert said in str(caught.value)
    if text:
        assert f"line {BASE.count(chr(10)) + 2}" in str(caught.value)


def test_sizes(file):
    path = file(SWEEP + FIGURE)
    plain = load_sweep(path)
    assert plain.name == "small" and plain.figure.panels == ("ps_packets_per_fragment", "jct")
    assert figures.size_of(path, 1.0, False) == Size("small")
    few = figures.size_of(path, 2.0, False, 3)
    assert few == Size("small-seeds3-x2", 2.0, repetitions=3)
    assert load_sweep(path, few).points[0].experiment.repetitions == 3
    with pytest.raises(UserError, match="--seeds: found 0"):
        figures.size_of(path, None, False, 0)
    double = load_sweep(path, figures.size_of(path, 2.0, False))
    quick = load_sweep(path, figures.size_of(path, None, True))
    assert (double.name, quick.name) == ("small-x2", "small-quick")
    for sweep, scale, repetitions, iterations in ((double, 2, 9, [2, 1]), (quick, 0.5, 2, [2, 1])):
        assert [point.values for point in sweep.points] == [point.values for point in plain.points]
        for point in sweep.points:
            jobs = point.experiment.jobs
            assert point.experiment.repetitions == repetitions
            assert [job.scale for job in jobs] == pytest.approx([0.01 * scale, 0.001 * scale])
            assert [job.compute_scale for job in jobs] == [job.scale for job in jobs]
            assert [job.iterations for job in jobs] == iterations


def test_a_quick_figure_has_the_ends_of_its_axes(file):
    def seeds_and_sizes(figure: str, quick: bool) -> list[tuple]:
        path = file(
            "sweep:\n  system: [esa, atp, ps]\n  memory.aggregators: [16, 32, 64]\n"
            f"  seed: [1, 2, 3]\nfigure: {{claim: It works., {figure}}}\n"
        )
        points = load_sweep(path, figures.size_of(path, None, True) if quick else None).points
        return [
            (
                point.experiment.seed,
                point.experiment.memory.aggregators if "memory.aggregators" in point.values else 0,
            )
            for point in points
        ]

    pools = [(seed, size) for size in (16, 64) for seed in (1, 2, 3)]
    whole = [(seed, size) for size in (16, 32, 64) for seed in (1, 2, 3)]
    without = [(seed, 0) for seed in (1, 2, 3)]  # the PS has no memory
    axis = "x: memory.aggregators"
    assert seeds_and_sizes(axis, False) == whole + whole + without
    assert seeds_and_sizes(axis, True) == pools + pools + without
    assert seeds_and_sizes("panels: [jct]", True) == whole + whole + without
    corners = [(seed, size) for size in (16, 64) for seed in (1, 3)]
    assert seeds_and_sizes(f"{axis}, rows: [seed]", True) == corners + corners + [(1, 0), (3, 0)]


def test_programs_keep_their_size(tmp_path):
    path = tmp_path / "programs.yaml"
    path.write_text(
        "topology: {kind: star, hosts: 4}\nrepetitions: 5\nsystem: ps\nmemory: {aggregators: 8}\n"
        "jobs: [{command: a.py --epochs 9, workers: 2}]\n"
        "sweep:\n  together:\n"
        "    - {system: [esa, ps, {name: ps, window: 64}], 'jobs[*].backend': [ina, ina, gloo]}\n"
        "figure: {claim: It learns., reported: [loss]}\n"
    )
    (tmp_path / "a.py").touch()
    quick = load_sweep(path, figures.size_of(path, None, True))
    assert {point.experiment.repetitions for point in quick.points} == {2}
    for point in quick.points:
        assert point.experiment.jobs[0].command.endswith("a.py --epochs 9")
    with pytest.raises(UserError, match="--scale: the program .*a.py --epochs 9` has a size"):
        load_sweep(path, figures.size_of(path, 2.0, False))
    # A legend names gloo where it makes the sums, and no backend elsewhere.
    titles = system_titles(quick.points)
    described = [sweep_runner._described(point, titles) for point in quick.points]
    assert [each["system"] for each in described] == ["esa", "ps", "gloo"]
    values = [
        {name: Value(**value) for name, value in each["values"].items()} for each in described
    ]
    points = [sweep_data.Point("", each["system"], value, None)
              for each, value in zip(described, values, strict=True)]  # fmt: skip
    assert [point.series() for point in points] == ["ESA", "PS", "gloo"]


def test_lists_of_jobs_are_numbers_and_resized_too(file):
    jobs = "[{model: vgg16, workers: 2, iterations: 5, scale: 0.002, compute_scale: 0.5}]"
    path = file(f"sweep: {{jobs: [{jobs}, {jobs}]}}\nfigure: {{claim: It works., x: jobs}}\n")
    (point,) = load_sweep(path, Size("other", 0.5, iterations=3)).points
    (job,) = point.experiment.jobs
    assert (job.scale, job.compute_scale, job.iterations) == (0.001, 0.25, 3)


def test_drawn_jobs_are_resized_too(tmp_path):
    kind = "{model: vgg16, workers: 2, iterations: 5, longest: 50, scale: 0.002, compute_scale: 0}"
    path = tmp_path / "drawn.yaml"
    path.write_text(
        "runtime: virtual\ntopology: {kind: star, hosts: 6}\nsystem: esa\n"
        f"arrivals: {{poisson: {{jobs: 90, interval: 1 ms, kinds: [{kind}]}}}}\n"
        "sweep: {memory.aggregators: [16, 32]}\n"
    )
    plain = load_sweep(path).points[0].experiment.jobs
    for size, jobs, longest in ((Size("a", 2.0), 90, 50), (Size("b", 2.0, 1, 3, 40), 40, 3)):
        resized = load_sweep(path, size).points[0].experiment.jobs
        assert len(resized) == jobs and 3 < max(job.iterations for job in plain) <= 50
        assert max(job.iterations for job in resized) <= longest
        assert {job.scale for job in resized} == {0.004}
        assert resized[39].start_ns == pytest.approx(2 * plain[39].start_ns, rel=1e-6)
    (tmp_path / "jobs.csv").write_text("model, workers, iterations\nvgg16, 2, 1\n")
    text = path.read_text()
    path.write_text(text[: text.index("arrivals")] + "arrivals: {csv: jobs.csv}\n" + SWEEP)
    with pytest.raises(UserError, match=r"arrivals\.csv: a file of jobs has sizes of its own"):
        load_sweep(path, Size("a", 2.0))
