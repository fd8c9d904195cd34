"""`ina FILE KEY=VALUE`: other values for keys of an experiment file, on the command line."""

from __future__ import annotations

import json

import pytest
from p4fabric.base.errors import UserError

from testbed.cli.main import main
from testbed.experiment import load
from testbed.experiment.sweep_file import load_sweep

ONE = """name: one
runtime: virtual
topology: {kind: star, hosts: 6}
links: {bandwidth: 100 Mbit/s, loss: 1 %}
system: esa
memory: {aggregators: 32}
jobs:
  - {model: alexnet, workers: 2, iterations: 1, scale: 0.0002}
  - {model: resnet18, workers: 2, iterations: 1, scale: 0.001}
"""
SWEPT = ONE + "sweep:\n  system: [esa, atp]\n  together:\n    - {links.loss: [0 %, 1 %]}\n"


@pytest.fixture
def one(tmp_path):
    path = tmp_path / "one.yaml"
    path.write_text(ONE)
    return path


@pytest.fixture
def swept(tmp_path):
    path = tmp_path / "swept.yaml"
    path.write_text(SWEPT)
    return path


@pytest.mark.parametrize(
    ("changes", "instead"),
    [
        (["system=atp"], ("system: esa", "system: atp")),
        (["system.window=7"], ("system: esa", "system: {name: esa, window: 7}")),
        (["system={name: esa, window: 7}"], ("system: esa", "system: {name: esa, window: 7}")),
        (["links.bandwidth=2 Gbit/s", "links.loss="], ("100 Mbit/s, loss: 1 %", "2 Gbit/s")),
        (["jobs[*].scale=0.01"], ("0.0002}", "0.01}", "0.001}", "0.01}")),
        (["jobs[1].scale=0.01"], ("0.001}", "0.01}")),
        (["memory.aggregators=64", "name=two"], ("32", "64", "name: one", "name: two")),
        (["system=ring"], ("esa\nmemory: {aggregators: 32}", "ring")),  # it has no memory
    ],
)
def test_a_change_is_the_same_as_in_the_file(one, changes, instead):
    changed = load(one, changes).resolved_yaml()
    text = ONE
    for old, new in zip(instead[::2], instead[1::2], strict=True):
        assert text.count(old) == 1
        text = text.replace(old, new)
    one.write_text(text)
    assert changed == load(one).resolved_yaml() != load_text_of(ONE, one)


def load_text_of(text, path):
    path.write_text(text)
    return load(path).resolved_yaml()


def test_a_sweep_takes_changes_at_all_points(swept):
    points = load_sweep(swept, changes=["jobs[*].iterations=3", "memory.aggregators=64"]).points
    assert len(points) == 4
    for point in points:
        assert {job.iterations for job in point.experiment.jobs} == {3}
        assert point.experiment.aggregators == 64


def test_what_is_around_a_varied_key_is_changed_before_the_points_set_it(swept):
    points = load_sweep(swept, changes=["links={delay: 2 ms}"]).points
    assert [point.values["links.loss"] for point in points] == ["0 %", "1 %", "0 %", "1 %"]


@pytest.mark.parametrize("change", ["system=ps", "system.window=7", "links.loss=2 %"])
def test_what_a_sweep_varies_is_not_changed_beside_it(swept, change):
    """Its points would set it again."""
    with pytest.raises(UserError, match="varies (system|links.loss), so the value would have no"):
        load_sweep(swept, changes=[change])


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (["memory.aggregators=x"], "on the command line, memory.aggregators: found 'x'; allowed"),
        (["jobs[0].scal=1"], "on the command line, jobs[0].scal: unknown key; did you mean scale"),
        (["jobs[2].scale=1"], "on the command line, jobs: member 2 cannot be set: the list has 2"),
        (["jobs[0].workers=9"], "one.yaml with jobs[0].workers=9: 1 error in the experiment\n"),
        (["jobs[0].workers=9"], ", changed on the command line, jobs: found"),
        (["jobs[0].workers="], "on the command line, jobs[0].workers: missing"),
        (["jobs[0]=x"], "on the command line, jobs[0]: found 'x'"),
        (["jobs[7].workers="], "jobs[7].workers: it is not there, so it cannot be removed"),
        (["topology.class=a:B", "topology.kind=star"], "topology: found both kind and class"),
        (["memory="], "memory: missing"),
        (["memory.slots="], "memory.slots: it is not there, so it cannot be removed"),
        (["links.bandwidth=["], "links.bandwidth=...: 1 error in the value"),
        (["system=atp", "system=esa"], "system=... is given twice"),
        (["sweep.seed=[1, 2]"], "sweep.seed=...: a sweep and its figure are changed in the file"),
        (["fast"], "unrecognized arguments: fast; usage: ina check"),
        (["--json", "fast"], "unrecognized arguments: fast; usage: ina check"),
        (["=1"], "found ''; allowed: a key's path"),
        (["a b=1"], "found 'a b'; allowed: a key's path"),
    ],
)
def test_a_wrong_change_is_one_error(one, capsys, changes, said):
    assert main(["check", str(one), *changes]) == 2
    error = capsys.readouterr().err
    assert said in error and "Traceback" not in error


def test_a_class_takes_the_place_of_a_kind(one):
    """And a kind that of a class: a file has one of them."""
    (one.parent / "mine.py").write_text(
        "from testbed.topos.star import Star\n\n\n"
        "class Mine(Star):\n    def __init__(self, hosts: int):\n        super().__init__(hosts)\n"
    )
    mine = load(one, ["topology.class=mine.py:Mine"])
    assert mine.topology.class_name == "Mine" and len(mine.topology_object().hosts) == 6
    one.write_text(ONE.replace("kind: star", "class: mine.py:Mine"))
    assert load(one, ["topology.kind=star"]).topology.kind == "star"


def test_keys_of_all_members_are_removed(one):
    load(one, ["jobs[*].scale="])
    with pytest.raises(UserError, match=r"on the command line, jobs\[1\].workers: missing"):
        load(one, ["jobs[*].workers="])


def test_other_errors_keep_their_lines(one):
    one.write_text(ONE.replace("hosts: 6", "hosts: x"))
    with pytest.raises(UserError) as raised:
        load(one, ["jobs[0].scale=0"])
    assert "line 3, topology.hosts" in str(raised.value)
    assert "on the command line, jobs[0].scale" in str(raised.value)


def test_changes_may_follow_options(one, capsys):
    assert main(["check", str(one), "--json", "system=ring"]) == 0
    assert "Ring" in json.loads(capsys.readouterr().out)["summary"]


def test_what_is_no_experiment_takes_none(tmp_path, capsys):
    assert main(["show", str(tmp_path), "system=atp"]) == 2
    assert "system=atp: KEY=VALUE changes an experiment, not results" in capsys.readouterr().err
