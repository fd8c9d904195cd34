"""Options that are tuned before a run: trials, what is kept of them, and where it is shown."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor

import pytest

from testbed.analysis.html.run_page import run_page
from testbed.analysis.report import report_json
from testbed.cli.main import main
from testbed.experiment import load_text
from testbed.results import digest, find, read
from testbed.sweeps import sweep_runner, trials
from testbed.sweeps.trials import seeds_of, tuned
from tests.support.virtual import run_virtual

TEXT = """
name: tuned
runtime: virtual
seed: 5
repetitions: 2
topology: {kind: star, hosts: 6}
links: {bandwidth: 100 Gbit/s, delay: 2 us, queue: 400 packets}
system: %s
memory: {aggregators: 64}
jobs: [{model: resnet18, workers: 3, iterations: 1, scale: 0.001, compute_scale: 0}]
"""


@pytest.fixture
def tried(monkeypatch):
    """The experiments that are tried, beside those that are known."""
    made = []
    run = trials._mean_jct

    def noted(experiment):
        made.append(experiment)
        return run(experiment)

    monkeypatch.setattr(trials, "_mean_jct", noted)
    return made


def test_a_run_is_tuned_with_other_seeds_and_keeps_the_curve(tmp_path, tried, monkeypatch, capsys):
    monkeypatch.setattr("os.cpu_count", lambda: 1)  # trials in this process
    file = tmp_path / "tuned.yaml"
    file.write_text(TEXT % "esa" + "tune: {window: [2, 64, 16]}\n")
    command = ["run", str(file), "--results", str(tmp_path / "results"), "--no-report"]
    assert main(["check", str(file)]) == 0
    assert "tunes window 2, 16, 64: all of 3 combinations are tried" in capsys.readouterr().out
    assert main(command) == 0
    (folder,) = find(tmp_path / "results")
    results = read(folder)
    table = results.table("tuning")
    assert {each.system.window for each in tried} == {2, 16, 64} == {*table["value"]}
    assert {each.seed for each in tried} == {*table["seed"]} and not {5, 6} & {*table["seed"]}
    assert {each.repetitions for each in tried} == {1}
    means = table.groupby("value")["jct_ns"].mean()
    window = results.experiment["system"]["window"]
    assert means[window] <= 1.005 * means.min() and window > 2
    assert {*table["value"][table["chosen"]]} == {window}
    noted = results.environment["tuned"]
    assert noted["values"] == {"window": window} and {*noted["seeds"]} == {*table["seed"]}
    printed = capsys.readouterr().out
    assert f"tuned: window {window}, the best of 3 tried" in printed
    assert ("at the edge of the range" in printed) == (window == 64) == bool(noted["edges"])
    plain = tmp_path / "plain.yaml"  # the same run without tuning
    plain.write_text(TEXT % f"{{name: esa, window: {window}}}")
    assert main(["run", str(plain), *command[2:]]) == 0
    assert digest(read(find(tmp_path / "results")[-1])) == digest(results)
    capsys.readouterr()
    report_json([folder])
    (said,) = json.loads(capsys.readouterr().out)
    assert [row["values"] for row in said["tables"]["tuning"]["rows"]] == [
        *("window 2", "window 16", "window 64")
    ]


def test_trials_are_known_by_what_they_are(tmp_path, tried, monkeypatch):
    """More values run those alone that are new; other code, and an other network, all of them."""
    known = load_text(TEXT % "esa" + "tune: {window: [16, 64]}\n")
    first = tuned(known, tmp_path).tuned
    count = len(tried)
    rows = run_virtual(tried[0])["jobs"]  # with samples of the memory, which trials leave out
    assert first.trials[0].jct_ns == sum(row["jct_ns"] for row in rows) / len(rows)
    assert tuned(known, tmp_path).tuned == first and len(tried) == count
    more = load_text(TEXT % "{name: esa}" + "name: other\ntune: {window: [16, 2, 64]}\n"[12:])
    tuned(more, tmp_path)
    assert {each.system.window for each in tried[count:]} == {2}
    other = load_text((TEXT % "esa").replace("2 us", "3 us") + "tune: {window: [16, 64]}\n")
    count = len(tried)
    tuned(other, tmp_path)
    assert {each.system.window for each in tried[count:]} == {16, 64}
    monkeypatch.setattr(trials.environment, "code", lambda: "newer")
    count = len(tried)
    tuned(known, tmp_path)
    assert {each.system.window for each in tried[count:]} == {16, 64}


def test_seeds_of_trials_are_never_reported():
    for first in (0, 1, 2 * 10**9 - 3):
        drawn = seeds_of(first, 3)
        assert len({*drawn}) == 3 and not {*drawn} & {*range(first, first + 3)}
        crowded = seeds_of(first, 10_000)
        assert not any(first <= seed < first + 10_000 for seed in crowded)
    assert seeds_of(1, 1) == seeds_of(1, 1) != seeds_of(2, 1)
    hit = seeds_of(7, 1)[0]
    assert hit not in seeds_of(hit, 1)


def test_a_sweep_tunes_each_point_for_itself_and_shows_it(tmp_path, capsys, monkeypatch):
    """A point is finished for the next call; an option is tuned where the system has it."""
    monkeypatch.setattr(sweep_runner, "executor", lambda *_, **__: ThreadPoolExecutor(1))
    file = tmp_path / "swept.yaml"
    text = TEXT.replace("repetitions: 2", "repetitions: 1") % "esa"
    text += "tune: {window: [4, 32], servers: [1, 3]}\n"
    file.write_text(text + "sweep: {system: [esa, {name: ps, window: 8}]}\n")
    command = ["sweep", str(file), "--results", str(tmp_path / "results"), "--no-report"]
    assert main(command) == 2
    assert "tune.window: window is 8 in system, too" in capsys.readouterr().err
    file.write_text(text + "sweep: {system: [esa, ps]}\n")
    assert main(command) == 0
    printed = capsys.readouterr().out
    folder = tmp_path / "results" / "tuned"
    runs = {read(run).experiment["system"]["name"]: read(run) for run in folder.glob("*/*-*Z-*")}
    assert {*runs["ps"].table("tuning")["option"]} == {"window", "servers"}
    assert {*runs["esa"].table("tuning")["option"]} == {"window"}
    workers = {tuple(run.experiment["jobs"][0]["placement"]["workers"]) for run in runs.values()}
    assert len(workers) == 1
    values = runs["ps"].environment["tuned"]["values"]
    assert re.search(rf"window {values['window']}\*,\s+servers {values['servers']}\*", printed)
    page = run_page(runs["ps"])
    assert any("tuned: window" in getattr(each, "text", "") for each in page.sections[0].blocks)
    assert "tuned" in (folder / "data.csv").read_text().splitlines()[0]
    assert main(command) == 0
    assert "2 of 2 points have finished before" in capsys.readouterr().out


def test_where_no_value_works_the_reason_is_said(tmp_path, capsys, monkeypatch):
    def broken(experiment):
        raise trials.RunError("the job could not finish")

    monkeypatch.setattr(trials, "_mean_jct", broken)
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    file = tmp_path / "tuned.yaml"
    file.write_text(TEXT % "esa" + "tune: {window: [2, 64]}\n")
    assert main(["run", str(file), "--results", str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert "tuned: none of 2 trials of tune succeeds: the job could not finish" in said
