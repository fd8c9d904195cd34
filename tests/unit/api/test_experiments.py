"""Experiments as objects: loaded, changed, made of parts, written as files."""

from __future__ import annotations

import numpy as np
import pytest

import testbed as tb
from tests.support.paths import ROOT

QUICKSTART = ROOT / "experiments" / "quickstart.yaml"
JOB = tb.Job(model="alexnet", workers=2, iterations=1, scale=0.00005, compute_scale=0)
KEYS = {
    "runtime": "virtual",
    "topology": tb.Star(4),
    "links": {"bandwidth": "1 Gbit/s"},
    "system": "esa",
    "memory": {"aggregators": 16},
    "jobs": [JOB],
}


def test_a_change_has_the_effect_of_the_same_change_in_the_file(tmp_path):
    experiment = tb.load(QUICKSTART)
    changed = experiment.with_(runtime="virtual", memory={"aggregators": 64})
    text = QUICKSTART.read_text().replace("aggregators: 96", "aggregators: 64")
    (tmp_path / "quickstart.yaml").write_text(text + "\nruntime: virtual\n")
    expected = tb.load(tmp_path / "quickstart.yaml")
    assert changed.resolved.resolved_yaml() == expected.resolved.resolved_yaml()
    assert experiment == tb.load(QUICKSTART), "the first one stays as it is"


def test_another_system_brings_its_own_defaults():
    experiment = tb.Experiment(**KEYS)
    switchml = experiment.with_(system="switchml").resolved
    assert switchml.jobs[0].fixed_placement.servers == ()
    ps = experiment.with_(system="ps")
    assert ps.resolved.memory is None and "memory" not in ps.data


def test_keys_by_path_and_keys_to_remove():
    experiment = tb.load(QUICKSTART)
    changed = experiment.with_({"jobs[*].iterations": 1, "system.window": 64}, faults=None)
    assert [job.iterations for job in changed.resolved.jobs] == [1, 1]
    assert changed.resolved.system.window == 64
    assert experiment.resolved.faults and not changed.resolved.faults


def test_what_numpy_and_python_have_in_place_of_a_files_values():
    experiment = tb.Experiment(**KEYS).with_(
        {"memory.aggregators": np.int64(32), "links.loss": "1 %"}, jobs=(JOB,)
    )
    assert experiment.resolved.aggregators == 32
    assert type(experiment.data["memory"]["aggregators"]) is int


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"memory.agregators": 3}, "memory.agregators: unknown key; did you mean aggregators"),
        ({"memory.aggregators": 0}, "memory.aggregators: found 0"),
        ({"jobs[5].scale": 1}, "member 5 cannot be set: the list has 1"),
        ({"name.x": 1}, "name.x cannot be set: there are no keys here"),
        ({"a b": 1}, "allowed: a key's path"),
        ({"seed": object()}, "seed: found an object of type object; allowed: what a file can say"),
        ({"links": {"loss": None}}, "links.loss: found None; leave the key out"),
        ({"faults": None}, "faults: it is not there"),
        ({"jobs": None}, "jobs: missing"),
    ],
)
def test_a_mistake_is_found_where_it_is_made(change, message):
    experiment = tb.Experiment(name="small", **KEYS)
    with pytest.raises(tb.UserError) as caught:
        experiment.with_(change)
    assert message in str(caught.value)


def test_lines_of_a_file_are_named_only_where_they_are_still_true():
    with pytest.raises(tb.UserError) as caught:
        tb.load(QUICKSTART).with_({"memory.aggregators": 0, "switch": "none"})
    assert "  memory.aggregators: found 0" in str(caught.value)
    assert "  switch: found 'none'" in str(caught.value) and "line" not in str(caught.value)


def test_parts_are_checked_when_they_are_made():
    with pytest.raises(tb.UserError) as caught:
        tb.Job(modl="vgg16", workers=0, iterations=1)
    assert str(caught.value).splitlines()[0] == "Job: 2 errors in the job"
    assert "modl: unknown key; did you mean model?" in str(caught.value)
    assert "workers: found 0" in str(caught.value)
    with pytest.raises(tb.UserError, match="fault: found 'stop'"):
        tb.Fault(at="1 s", fault="stop")


def test_a_part_says_what_a_file_would():
    fault = tb.Fault(at="1 ms", fault="pause", job="alexnet-0", worker=1, for_="10 ms")
    assert fault.data == {
        "at": "1 ms", "fault": "pause", "job": "alexnet-0", "worker": 1, "for": "10 ms",
    }  # fmt: skip
    flow = tb.Background(**{"from": "h3", "to": "h4", "kind": "tcp"})
    experiment = tb.Experiment(**KEYS).with_(faults=[fault], background=[flow])
    assert experiment.resolved.faults[0].duration_ns == 10_000_000
    assert JOB.with_(workers=1, scale=None) == tb.Job(
        model="alexnet", workers=1, iterations=1, compute_scale=0
    )


@pytest.mark.parametrize(
    ("topology", "data"),
    [
        (tb.Star(5), {"kind": "star", "hosts": 5}),
        (
            tb.LeafSpine(leaves=2, spines=2, hosts=3),
            {"kind": "leaf_spine", "leaves": 2, "spines": 2, "hosts": 3},
        ),
        (tb.FatTree(4), {"kind": "fat_tree", "k": 4}),
        (
            tb.Rails(2, ranks=2, nic={"bandwidth": "1 Gbit/s"}),
            {"kind": "rails", "servers": 2, "ranks": 2, "nic": {"bandwidth": "1 Gbit/s"}},
        ),
    ],
)
def test_a_topology_object_becomes_its_kind_and_options(topology, data):
    experiment = tb.Experiment(**{**KEYS, "topology": topology})
    assert experiment.data["topology"] == data
    assert experiment.resolved.topology_object() == topology


def test_a_topology_that_is_built_step_by_step_is_written_out(tmp_path):
    mine = tb.Topology()
    for switch in ("s1", "s2"):
        mine.add_switch(switch)
    mine.add_link("s1", "s2", bandwidth="2 Gbit/s")
    for number in range(1, 5):
        mine.add_link(mine.add_host(f"h{number}"), f"s{1 + number % 2}")
    experiment = tb.Experiment(**{**KEYS, "topology": mine})
    assert experiment.resolved.topology_object() == mine
    experiment.to_yaml(tmp_path / "mine.yaml")
    assert tb.load(tmp_path / "mine.yaml").resolved.topology_object() == mine


def test_servers_are_written_out_too():
    mine = tb.Rails(2, ranks=2)
    mine.add_link(mine.add_host("h99", server="n9"), "s1", tier="own")
    experiment = tb.Experiment(**{**KEYS, "topology": mine})
    assert experiment.data["topology"]["kind"] == "explicit"
    assert experiment.resolved.topology_object() == mine


def test_a_changed_topology_is_no_longer_its_kind():
    star = tb.Star(hosts=4)
    star.add_link(star.add_host("h5"), "s1")
    assert tb.Experiment(**{**KEYS, "topology": star}).data["topology"]["kind"] == "explicit"


def test_a_class_of_the_users_own_file_is_named(tmp_path, monkeypatch):
    (tmp_path / "mine_topo.py").write_text(
        "import testbed as tb\n\n\nclass Pair(tb.Topology):\n"
        "    def __init__(self, hosts: int = 2) -> None:\n"
        "        self.add_switch('s1')\n"
        "        for number in range(1, hosts + 1):\n"
        "            self.add_link(self.add_host(f'h{number}'), 's1')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    import mine_topo  # type: ignore[import-not-found]

    experiment = tb.Experiment(**{**KEYS, "topology": mine_topo.Pair(hosts=3)})
    named = f"{tmp_path / 'mine_topo.py'}:Pair"
    assert experiment.data["topology"] == {"class": named, "hosts": 3}


def test_a_file_means_the_same_wherever_it_is_written(tmp_path):
    model = (ROOT / "traffic" / "models" / "alexnet.csv").read_text()
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    (tmp_path / "here" / "mine.csv").write_text(model)
    experiment = tb.Experiment(
        folder=tmp_path / "here", **{**KEYS, "jobs": [JOB.with_(model="mine.csv")]}
    )
    experiment.to_yaml(tmp_path / "here" / "a.yaml")
    resolved = experiment.resolved.resolved_yaml()
    assert (
        tb.load(tmp_path / "here" / "a.yaml").with_(name="experiment").resolved.resolved_yaml()
        == resolved
    )
    with pytest.raises(tb.UserError, match="(?s)mine.csv.*write it into .*here, or with resolved"):
        experiment.to_yaml(tmp_path / "there" / "a.yaml")
    experiment.to_yaml(tmp_path / "there" / "a.yaml", resolved=True)
    assert tb.load(tmp_path / "there" / "a.yaml").resolved.resolved_yaml() == resolved


def test_a_file_with_a_sweep_is_a_sweep():
    experiment = tb.load(ROOT / "experiments" / "compare.yaml")
    assert experiment.is_sweep and len(experiment.points) > 1
    with pytest.raises(tb.UserError, match="this is a sweep of .* experiments; tb.sweep runs it"):
        experiment.resolved  # noqa: B018


def test_sweeps_over_keys_and_over_what_goes_together():
    experiment = tb.Experiment(**KEYS)
    swept = experiment.sweep(
        {"memory.aggregators": range(16, 65, 16), "system": ("esa", "ps")},
        together=[{"links.delay": ["1 us", "2 us"], "seed": [1, 2]}],
        skip=[{"memory.aggregators": 16, "seed": 2}],
    )
    # Plain servers know nothing of aggregators: their points are the same for all of them.
    assert len(swept.points) == (4 * 2 - 1) + 2
    with pytest.raises(tb.UserError, match="system: found 'esa'; allowed: a list of values"):
        experiment.sweep({"system": "esa"})
