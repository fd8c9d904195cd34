"""The docs as a site without broken links, and every command that they show, run."""

from __future__ import annotations

import json
import re
import runpy
import subprocess
import sys
import textwrap
from types import SimpleNamespace

import pytest

from testbed.cli import main as commands
from testbed.routing import planners
from testbed.sweeps import figure_runner as figure_run
from tests.support import docs
from tests.support.paths import ROOT
from tests.support.synthetic_results import write_experiment_run, write_run

SMALL = """
name: small
runtime: virtual
topology: {kind: star, hosts: 3}
links: {bandwidth: 1 Gbit/s}
system: esa
memory: {aggregators: 16}
jobs:
  - {model: alexnet, workers: 2, iterations: 1, scale: 0.00005, compute_scale: 0}
"""
HERE = [(pattern, how) for pattern, how in docs.COMMANDS if not isinstance(how, docs.Elsewhere)]


def test_the_site_is_built_and_no_link_is_broken(tmp_path):
    pytest.importorskip("mkdocs")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stderr
    for page in (
        "index.html",
        "experiment.html",
        "claims.html",
        "labs/index.html",
        "source/p4/esa.p4.html",
    ):
        text = (tmp_path / page).read_text()
        # It needs nothing from elsewhere.
        assert not re.findall(r'(?:src|<link[^>]*href)="https?:', text)
    assert "EsaIngress" in text  # the last one


def test_links_and_sources_are_turned_to_their_places_in_the_site():
    hooks = docs.site_hooks()
    pages = {
        "README.md": "index.md",
        "docs/esa.md": "esa.md",
        "labs/lab1/README.md": "labs/lab1/readme.md",
    }
    text, sources = hooks.with_site_links(
        "[a](docs/esa.md#x) [b](p4/esa.p4) [c](p4/) [d](https://x.y) [e](gone.md)\n"
        "```\n[f](p4/esa.p4)\n```\n",
        "README.md",
        "index.md",
        pages,
    )
    assert text.splitlines()[0] == (
        "[a](esa.md#x) [b](source/p4/esa.p4.md) c [d](https://x.y) [e](gone.md)"
    )
    assert sources == {"p4/esa.p4"} and "[f](p4/esa.p4)" in text
    text, _ = hooks.with_site_links(
        "[up](../../README.md)", "labs/lab1/README.md", "labs/lab1/readme.md", pages
    )
    assert text == "[up](../../index.md)"


def test_every_claim_has_all_that_the_table_of_claims_tells():
    hooks = docs.site_hooks()
    found = hooks.all_claims()
    assert not {f"{each.page}, {each.name}": each.missing for each in found if each.missing}
    # Nothing is claimed elsewhere: each figure and each experiment on Mininet has its row.
    assert {each.name for each in found if each.page == "figures.md"} == {
        path.stem for path in (ROOT / "experiments" / "figures").glob("*.yaml")
    }
    assert {each.name for each in found if each.page == "experiments.md"} == {
        "compare",
        "memory",
        "loss",
    }
    for each in found:
        assert docs.how(docs.plain(each.command)), each.command
    table = hooks.claims.page(found)
    assert table.count("\n| [") == len(found)
    assert all(each.claim in table and f"`{each.command}`" in table for each in found)


def test_a_claim_is_read_from_its_section():
    section = """
Tolerance: none here, but
a | elsewhere.

## first

Claim: It is so. Not more.

    python3 run.py figure first        # a remark

Minutes on 2 cores: 8.1, of which 2 alone. Came out: not run yet. With more: not run yet.

## second

Claim: It is not so.

    sudo python3 run.py sweep experiments/loss.yaml

Minutes on 2 cores: 3. Came out (means):

| a | b |

So the claim holds
by half. More of it.

Tolerance: 5 %.

## third

No claim.
"""
    claims = docs.site_hooks().claims
    first, second = claims.claims("p.md", section)
    assert (first.claim, first.command) == ("It is so", "python3 run.py figure first")
    assert (first.minutes, first.outcome) == ("8.1, of which 2 alone", "Not run yet")
    assert first.tolerance == "None here, but a | elsewhere" and not first.missing
    assert (second.outcome, second.tolerance) == ("The claim holds by half", "5 %")
    assert "but a \\| elsewhere" in claims.page([first])
    assert claims.claims("p.md", "## x\n\nClaim: Bare.\n")[0].missing == [
        *("command", "minutes", "outcome", "tolerance")
    ]


def test_every_command_that_the_docs_show_is_run_by_a_test():
    shown = docs.shown()
    assert len(shown) > 50
    unknown = [
        f"{each.place}:{each.line}: {each.text}" for each in shown if not docs.how(each.text)
    ]
    assert not unknown, "nothing runs these (see tests/support/docs.py):\n" + "\n".join(unknown)


def test_the_tests_that_run_a_command_exist():
    for _, how in docs.COMMANDS:
        if isinstance(how, docs.Elsewhere):
            path, _, function = how.test.partition("::")
            assert f"\ndef {function}(" in (ROOT / path).read_text(), how.test


def test_the_figures_that_the_docs_name_exist():
    names = set()
    for each in docs.shown():
        pattern, _ = docs.how(each.text)
        names.add(re.fullmatch(pattern, each.text).groupdict().get("figure"))
    names.discard(None)
    assert names and names <= set(figure_run.names())


def test_the_model_and_the_topology_of_the_docs_are_taken_as_they_stand(tmp_path, capsys):
    extending = (ROOT / "docs" / "extending.md").read_text()
    block = re.search(r"(?m)^ {4}from testbed.topology import.*\n(?:(?: {4}.*)?\n)+", extending)[0]
    (tmp_path / "pair.py").write_text(textwrap.dedent(block))
    named = re.search(r"`(topology: \{class: pair\.py:Pair.*?\})`", extending)[1]
    models = (ROOT / "docs" / "models.md").read_text()
    (tmp_path / "my_model.csv").write_text(re.search(r"(?s)```text\n(.*?)```", models)[1])
    text = re.sub(r"topology: .*", named, SMALL)
    text = re.sub(r"model: .*\}", "model: my_model.csv, workers: 4, iterations: 2}", text)
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    assert commands.main(["check", str(path)]) == 0
    assert "4 workers on Pair (6 hosts, 2 switches)" in capsys.readouterr().out


def test_the_planner_of_the_docs_plans_as_it_stands(monkeypatch, capsys):
    extending = (ROOT / "docs" / "extending.md").read_text()
    block = re.search(r"(?m)^ {4}from testbed.routing.*\n(?:(?: {4}.*)?\n)+", extending)[0]
    module = {}
    exec(textwrap.dedent(block), module)
    entry = re.search(r"`(Planner\(\"at-ps\".*?\))`", extending)[1]
    names = {"Planner": planners.Planner, "at_ps": SimpleNamespace(**module)}
    monkeypatch.setitem(planners.PLANNERS, "at-ps", eval(entry, names))
    graph = str(ROOT / "topos" / "graphs" / "grid-example.txt")
    assert commands.main(["plan", graph, "--planner", "at-ps", "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    (job,) = plan["jobs"]
    assert plan["planner"] == "at-ps" and plan["rate_bps"] == 750 * 10**6  # four share 3 Gbit/s
    assert [(group["node"], group["workers"]) for group in job["groups"]] == [("S3", [*range(8)])]


@pytest.fixture
def files(tmp_path):
    """What stands for the files of whoever reads the docs."""
    small = tmp_path / "small.yaml"
    small.write_text(SMALL)
    return {
        "small": small,
        "results": tmp_path / "results",
        "run": write_run(tmp_path / "a"),
        "other": write_run(tmp_path / "b", system="atp"),
        "real": write_experiment_run(tmp_path / "c").folder,
        "new": tmp_path / "my_lab",
    }


@pytest.mark.parametrize(
    "how",
    [
        pytest.param(how, id=pattern, marks=[pytest.mark.slow] if how.slow else [])
        for pattern, how in HERE
    ],
)
def test_a_command_does_what_it_says(how, files, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(commands.interrupts, "install", lambda: None)
    words = docs.words(how.words, files)
    if isinstance(how, docs.Run):
        assert commands.main(words) == 0, capsys.readouterr().err
        return
    module, *arguments = words
    monkeypatch.setattr(sys, "argv", [module, *arguments])
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=False)
    except SystemExit as ended:
        assert not ended.code, capsys.readouterr().err
    assert capsys.readouterr().out
