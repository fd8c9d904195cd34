"""`ina ls`, `ina tag` and `ina diff`: which results there are, and in what two of them differ."""

from __future__ import annotations

import json
import re
from datetime import datetime
from pathlib import Path

import pytest
from p4fabric.base.errors import RunError
from p4fabric.netfile import run_folder

from testbed.cli.main import main
from testbed.results import SWEEP_FILE, Writer
from tests.support.synthetic_results import ENVIRONMENT, write_run, write_sweep


def said(capsys, *words, code=0):
    assert main([*map(str, words)]) == code
    return capsys.readouterr().out


def test_runs_are_listed_from_old_to_new(tmp_path, capsys):
    first = write_run(tmp_path, "first")
    second = write_run(tmp_path, "second", system="atp", cpu=1.5)  # degraded
    third = Writer.create(tmp_path, "third", "name: third\nsystem: {name: ring}\n", ENVIRONMENT)
    with pytest.raises(RunError), third:
        last = said(capsys, "ls", tmp_path).splitlines()[-1].split()
        assert last[:4] == [third.folder.name, "running", "ring", "-"]
        raise RunError("broken")
    lines = said(capsys, "ls", tmp_path).splitlines()
    heads, rows = lines[0].split("  "), [line.split() for line in lines[1:]]
    assert [head.strip() for head in heads if head.strip()] == [
        "name", "state", "system", "average JCT", "started", "tags"
    ]  # fmt: skip
    assert [row[0] for row in rows] == [first.name, second.name, third.folder.name]
    described = json.loads(said(capsys, "ls", tmp_path, "--json"))
    assert [each["system"] for each in described] == ["esa", "atp", "ring"]
    assert [each["state"] for each in described] == ["finished", "finished", "failed"]
    assert described[0]["jct_s"] > 0 and described[2]["jct_s"] is None


def test_results_are_removed_all_or_none_of_them_and_nothing_else(tmp_path, capsys):
    first, second = write_run(tmp_path, "first"), write_run(tmp_path, "second")
    (tmp_path / "swept").mkdir()
    swept = write_sweep(tmp_path / "swept")
    other = tmp_path / "notes"
    other.mkdir()
    (tmp_path / "link").symlink_to(second)
    for folder, error in ((other, "not a results folder"), (tmp_path / "link", "is a link")):
        assert main(["rm", str(first), str(folder)]) == 2
        assert error in capsys.readouterr().err and first.is_dir() and other.is_dir()
    running = Writer.create(tmp_path, "third", "name: third\nsystem: {name: ring}\n", ENVIRONMENT)
    with running:
        assert main(["rm", str(first), str(running.folder)]) == 2
        assert "still running; end it first" in capsys.readouterr().err and first.is_dir()
    assert "removed" in said(capsys, "rm", first, swept)
    assert not first.exists() and not swept.exists() and second.is_dir() and other.is_dir()
    assert main(["rm"]) == 2  # never the newest one by default
    assert second.is_dir()


def test_a_networks_run_without_results_is_killed_unless_its_process_holds_it(tmp_path, capsys):
    run = tmp_path / "pod-20260101T120000Z-3f9a"
    for folder in (run, tmp_path / "mine"):
        folder.mkdir()
        (folder / run_folder.FILE).write_text("runtime: virtual\n")
    with run_folder.in_progress(run):
        assert [line.split()[:2] for line in said(capsys, "ls", tmp_path).splitlines()[1:]] == [
            [run.name, "running"]
        ]
        assert main(["rm", str(run)]) == 2
        assert "is still running; end it first" in capsys.readouterr().err and run.is_dir()
    (row,) = json.loads(said(capsys, "ls", tmp_path, "--json"))
    assert (row["kind"], row["state"]) == ("network", "killed")
    assert said(capsys, "show", run) == "runtime: virtual\n"
    for words, error in (
        (["open", run], "no page report.html (state: killed); run its file again"),
        (["report", run], "is the run of a network file"),
        (["verify", "--laws", run], "no results.json"),
        (["rm", tmp_path / "mine"], "not a results folder"),
    ):
        assert main([*map(str, words)]) == 2
        assert error in capsys.readouterr().err
    assert said(capsys, "rm", run) == f"removed: {run}\n" and not run.exists()
    assert (tmp_path / "mine").is_dir()


def test_a_page_is_opened_where_there_is_a_browser(tmp_path, capsys, monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", lambda uri: opened.append(uri) or len(opened) == 1)
    run = write_run(tmp_path, "first")
    assert main(["open", str(run)]) == 2
    assert "has no page report.html; `ina report" in capsys.readouterr().err and not opened
    page = run / "report.html"
    page.write_text("<html></html>")
    assert said(capsys, "open", run) == f"{page}\n" and opened == [page.as_uri()]
    assert said(capsys, "open", run) == f"{page} (no browser can be started here)\n"


def test_the_newest_and_the_tagged_ones_are_listed(tmp_path, capsys):
    runs = [write_run(tmp_path, f"run{number}") for number in range(4)]
    assert said(capsys, "ls", tmp_path, "--last", 2).splitlines()[-1] == (
        "  and 2 older ones (--last 0: all)"
    )
    assert len(said(capsys, "ls", tmp_path, "--last", 0).splitlines()) == 5
    said(capsys, "tag", "base", runs[0], runs[2])
    said(capsys, "tag", "v:1.2", runs[0])
    listed = json.loads(said(capsys, "ls", tmp_path, "--tag", "base", "--json"))
    assert [(each["name"], each["tags"]) for each in listed] == [
        (runs[0].name, ["base", "v:1.2"]),
        (runs[2].name, ["base"]),
    ]
    said(capsys, "tag", "--remove", "base", runs[0], runs[2])
    assert "no results with the tag base" in said(capsys, "ls", tmp_path, "--tag", "base")
    assert (runs[0] / "tags.txt").read_text() == "v:1.2\n" and not (runs[2] / "tags.txt").exists()


def test_a_sweep_is_one_line_and_its_runs_are_listed_in_it(tmp_path, capsys):
    sweep = tmp_path / "swept"
    for key, stretch in (("aaa", 1.0), ("c", 2.0)):
        run = write_run(sweep / key, "point", stretches=(stretch,))
        status = json.loads((run / "status.json").read_text())
        status["started_utc"] = f"2020-01-0{int(stretch)}T00:00:00+00:00"
        (run / "status.json").write_text(json.dumps(status))
    points = [
        {"key": key, "system": name, "values": {}}
        for key, name in (("aaa", "esa"), ("b", "atp"), ("c", "esa"))
    ]
    (sweep / SWEEP_FILE).write_text(json.dumps({"name": "swept", "keys": [], "points": points}))
    (described,) = json.loads(said(capsys, "ls", tmp_path, "--json"))
    assert (described["kind"], described["state"]) == ("sweep", "2 of 3 points")
    assert described["system"] == "esa, atp"
    shortest, longest = described["jct_s"]
    assert longest == pytest.approx(2 * shortest)
    first = datetime.fromisoformat("2020-01-01T00:00:00+00:00").timestamp()
    assert datetime.fromisoformat(described["started"]).timestamp() == first
    row = said(capsys, "ls", tmp_path).splitlines()[1]
    assert re.search(r"  [\d.]+ ms to [\d.]+ ms  ", row)
    inside, _ = json.loads(said(capsys, "ls", sweep, "--json"))
    assert inside["name"].startswith("aaa/point-")
    said(capsys, "tag", "base", sweep)
    assert [each["tags"] for each in json.loads(said(capsys, "ls", tmp_path, "--json"))] == [
        ["base"]
    ]
    (sweep / SWEEP_FILE).write_text("[]")
    assert json.loads(said(capsys, "ls", tmp_path, "--json"))[0]["state"] == "unreadable"


def test_what_cannot_be_read_is_listed_as_such(tmp_path, capsys):
    run = write_run(tmp_path)
    (run / "status.json").write_text("{}")
    assert json.loads(said(capsys, "ls", tmp_path, "--json"))[0]["state"] == "unreadable"


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["ls", "nowhere"], "nowhere: no such folder"),
        (["ls", ".", "--last", "-1"], "--last: found -1"),
        (["tag", "two words", "run"], "tag: found 'two words'; allowed"),
        (["tag", "--remove", "base", "run"], "has no tag base"),
        (["tag", "base", "run", "nowhere"], "no such results folder"),
        (["diff", "run", "nowhere.yaml"], "no such experiment file"),
    ],
)
def test_a_wrong_word_is_one_error_and_changes_nothing(tmp_path, monkeypatch, capsys, words, error):
    monkeypatch.chdir(tmp_path)
    write_run(tmp_path / "made").rename(tmp_path / "run")
    assert main(words) == 2
    told = capsys.readouterr().err
    assert error in told and "Traceback" not in told
    assert not (tmp_path / "run" / "tags.txt").exists()


def test_two_runs_differ_in_keys_environment_and_numbers(tmp_path, capsys):
    first, second = write_run(tmp_path, "one"), write_run(tmp_path, "two", system="atp")
    environment = json.loads((second / "environment.json").read_text()) | {"cores": 77}
    (second / "environment.json").write_text(json.dumps(environment))
    text = said(capsys, "diff", first, second)
    assert "  system  esa" in text and " 77" in text and "average JCT" in text
    data = json.loads(said(capsys, "diff", first, second, "--json"))
    assert data["experiment"] == {"name": ["one", "two"], "system": ["esa", "atp"]}
    assert data["environment"]["cores"][1] == "77"
    assert data["hashes"][0] != data["hashes"][1]


def test_equal_runs_are_equal(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first, second = write_run(tmp_path / "results"), write_run(tmp_path / "results")
    told = said(capsys, "diff", first)  # with the latest
    assert f"inputs: not known: {first.name} and {second.name} do not say what they" in told
    for place, run in enumerate((first, second)):
        note_inputs(run, f"/there/{place}", "p4", "m.csv")
    assert said(capsys, "diff", first, second) == (
        "experiment: the same\ninputs: the same\nenvironment: the same\n"
        "results: equal in every value\n"
    )
    note_inputs(second, "/there/1", "other", "m.csv")
    assert json.loads(said(capsys, "diff", first, second, "--json"))["inputs"] == {
        "esa.p4": ["p4", "other"]
    }


def note_inputs(run, folder, digest, model):
    """Let a run have read a program in a folder, and a model."""
    file = run / "environment.json"
    read = [
        {"role": "P4 program", "name": "esa.p4", "sha256": digest},
        {"role": "model", "name": model, "sha256": "m"},
    ]
    file.write_text(json.dumps(json.loads(file.read_text()) | {"inputs": read}))
    (run / "experiment.yaml").write_text(
        f"jobs: [{{model: {folder}/{model}}}]\nsystem: {{program: {folder}/esa.p4}}\n"
    )


def test_latest_is_the_newest_run_or_sweep_wherever_results_are_named(
    tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    for words in (["report"], ["open"], ["show", "latest", "--hash"], ["trace", "--slowest", "1"]):
        assert main(words) == 2
        assert capsys.readouterr().err == (
            "error: latest: results has no results; name a folder of results\n"
        )
    old, new = write_run(Path("results"), "old"), write_run(Path("results"), "new")
    assert said(capsys, "report", "--json") == said(capsys, "report", new, "--json")
    for words in (["show", "latest", "--hash"], ["show", "--hash"]):
        assert said(capsys, *words) == said(capsys, "show", new, "--hash")
    assert said(capsys, "tag", "good") == "" and (new / "tags.txt").exists()
    for words in (["twin"], ["pack"], ["trace", "--slowest", "1"], ["plan"], ["open", "latest"]):
        assert main(words) == 2
        assert new.name in (told := capsys.readouterr().err) and old.name not in told
    (swept := Path("results") / "swept").mkdir()
    sweep = write_sweep(swept)
    point = next(path.parent.name for path in sweep.glob("*/*") if (path / "status.json").exists())
    assert said(capsys, "show") == said(capsys, "show", sweep)
    assert said(capsys, "show", f"latest/{point}", "--hash") == said(
        capsys, "show", sweep / point, "--hash"
    )
    (tmp_path / "latest").mkdir()  # what lies here comes first
    assert main(["show", "latest", "--hash"]) == 2
    assert "latest is not a results folder" in capsys.readouterr().err


def test_files_differ_with_their_defaults(tmp_path, capsys):
    text = (
        "name: a\nruntime: virtual\ntopology: {kind: star, hosts: 4}\nsystem: esa\n"
        "memory: {aggregators: 8}\njobs:\n"
        "  - {model: alexnet, workers: 2, iterations: 1, scale: 0.001}\n"
    )
    first, second = tmp_path / "a.yaml", tmp_path / "b.yaml"
    first.write_text(text)
    second.write_text(text.replace("system: esa", "system: {name: esa, preempt: priority}"))
    assert said(capsys, "diff", first, second) == ("experiment: the same\ninputs: the same\n")
    second.write_text(text.replace("scale: 0.001", "scale: 0.01"))
    data = json.loads(said(capsys, "diff", first, second, "--json"))
    assert data["experiment"]["jobs[0].scale"] == ["0.001", "0.01"]
    assert data["experiment"].keys() == {"jobs[0].scale", "jobs[0].compute_scale"}
