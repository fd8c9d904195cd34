"""Planned faults in an experiment: what is allowed, and which hosts and switches they concern."""

from __future__ import annotations

import pytest

from testbed.experiment import load_text
from testbed.experiment.planned_faults import NEVER, affected_nodes, slow_windows, title
from testbed.schemes import set_up
from testbed.setup.host_specs import host_specs
from tests.support.experiments import BASE, changed, message

MS = 1_000_000
FAULTS = """\
faults:
  - {at: 1 s, fault: pause, job: resnet50-0, worker: 1, for: 2 s}
  - {at: 1 s, fault: slow, job: vgg16-1, factor: 2.5, for: 100 ms}
  - {at: 2 s, fault: slow, job: vgg16-1, worker: 2, factor: 3}
  - {at: 4 s, fault: restart, switch: s1}
  - {at: 4 s, fault: pause, job: resnet50-0, ps: 0, for: 1 s}
  - {at: 9 s, fault: kill, job: vgg16-1}
"""


def test_faults_affect_the_named_hosts_and_switches():
    experiment = load_text(BASE + FAULTS)
    assert [affected_nodes(experiment.jobs, fault) for fault in experiment.faults] == [
        (("h2",), ()),
        (("h6", "h7", "h8"), ()),
        (("h8",), ()),
        ((), ("s1",)),
        (("h5",), ()),
        (("h6", "h7", "h8", "h9"), ()),
    ]
    assert [title(fault) for fault in experiment.faults][:4] == [
        "pause of worker 1 of job resnet50-0",
        "slow-down of job vgg16-1",
        "slow-down of worker 2 of job vgg16-1",
        "restart of switch s1",
    ]


def test_what_is_printed_loads_again():
    experiment = load_text(BASE + FAULTS)
    again = load_text(experiment.resolved_yaml())
    assert again == experiment and len(again.faults) == 6


def test_the_workers_know_when_they_are_slow():
    experiment = load_text(BASE + FAULTS)
    both = (1000 * MS, 1100 * MS, 2500)
    assert slow_windows(experiment.faults, "vgg16-1", 0) == [both]
    assert slow_windows(experiment.faults, "vgg16-1", 2) == [both, (2000 * MS, NEVER, 3000)]
    assert slow_windows(experiment.faults, "resnet50-0", 1) == []
    specs = {spec.host: spec for spec in host_specs(set_up(experiment))}
    assert specs["h8"].compute.slow == (both, (2000 * MS, NEVER, 3000))


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ("{at: 1 s, fault: pause, for: 1 s}", "faults[0]: found neither of job and switch"),
        ("{at: 1 s, fault: kill, job: a, switch: s1}", "faults[0]: found both of job and switch"),
        ("{at: 1 s, fault: kill, switch: s1, ps: 0}", "faults[0].ps: ps is one of a job's"),
        ("{at: 1 s, fault: kill, job: vgg16-1, worker: 0, ps: 0}", "found both worker and ps"),
        ("{at: 1 s, fault: kill, switch: s2}", "faults[0].switch: there is no switch s2"),
        ("{at: 1 s, fault: kill, job: vgg16}", "there is no job vgg16; jobs are resnet50-0, vgg16"
         "-1; did you mean vgg16-1?"),
        ("{at: 1 s, fault: kill, job: vgg16-1, worker: 3}", "faults[0].worker: found 3; allowed: 0"
         " to 2, since job vgg16-1 has 3 workers"),
        ("{at: 1 s, fault: kill, job: vgg16-1, ps: 1}", "faults[0].ps: found 1; allowed: 0 to 0"),
        ("{at: 1 ms, fault: kill, job: vgg16-1}", "faults[0].at: found 1 ms; allowed: from 5 ms"),
        ("{at: 1 s, fault: pause, switch: s1}", "faults[0].for: missing"),
        ("{at: 1 s, fault: slow, switch: s1}", "faults[0].factor: missing"),
        ("{at: 1 s, fault: kill, switch: s1, for: 1 s}", "faults[0].for: kill happens at once"),
        ("{at: 1 s, fault: pause, switch: s1, for: 1 s, factor: 2}", "faults[0].factor: only of"),
        ("{at: 1 s, fault: restart, job: vgg16-1}", "faults[0].fault: found 'restart' of a job"),
        ("{fault: kill, switch: s1}", "faults[0].at: missing"),
        ("{at: 1 s, fault: kill, swich: s1}", "did you mean switch?"),
        ("{at: 1 s, fault: kill, job: vgg16-1}\n  - {at: 2 s, fault: pause, job: vgg16-1, ps: 0,"
         " for: 1 s}", "faults[1].at: found 2 s, when h9 is dead since 1 s (faults[0])"),
        ("{at: 2 s, fault: pause, switch: s1, for: 1 s}\n  - {at: 1 s, fault: slow, switch: s1,"
         " factor: 2, for: 1 s}", "faults[0].at: found 2 s, when s1 is in the slow-down of switch"
         " s1 until 2 s (faults[1])"),
        ("{at: 1 s, fault: kill, job: vgg16-1}\n  - {at: 2 s, fault: kill, job: resnet50-0}",
         "faults[1]: every job is killed; leave one"),
    ],
)  # fmt: skip
def test_invalid_faults_are_refused(fault, expected):
    assert expected in message(f"{BASE}faults:\n  - {fault}\n")


@pytest.mark.parametrize(
    ("faults", "expected"),
    [
        (["{at: 1 s, fault: link_down}"], "faults[0]: found neither of between and switch"),
        (["{at: 1 s, fault: link_down, between: [h1, s1], switch: s1}"], "found both of between"),
        (["{at: 1 s, fault: link_down, between: [h1]}"], "faults[0].between"),
        (["{at: 1 s, fault: link_down, between: [h1, h2]}"], "no link between h1 and h2"),
        (["{at: 1 s, fault: link_down, between: [h1, s7]}"], "there is no node s7"),
        (["{at: 1 s, fault: link_down, switch: s2}"], "faults[0].switch: there is no switch s2"),
        (["{at: 1 s, fault: link_down, job: vgg16-1}"], "faults[0].job: link_down is of a link"),
        (["{at: 1 s, fault: link_down, between: [h1, s1], factor: 2}"], "only of `slow`"),
        (["{at: 1 s, fault: link_up, between: [h1, s1]}"], "when link h1-s1 is up"),
        (["{at: 1 s, fault: link_up, between: [h1, s1], for: 1 s}"], "link_up has no duration"),
        (["{at: 1 s, fault: pause, switch: s1, for: 1 s, failover: 1 s}"], "failover: only of"),
        (["{at: 1 s, fault: kill, job: vgg16-1, between: [h1, s1]}"], "between: only of link_down"),
        (["{at: 1 s, fault: link_down, between: [h1, s1]}",
          "{at: 2 s, fault: link_down, switch: s1}"],
         "faults[1].at: found 2 s, when link h1-s1 is down since 1 s (faults[0])"),
        (["{at: 1 s, fault: link_down, between: [h1, s1], for: 2 s}",
          "{at: 2 s, fault: link_up, between: [h1, s1]}"],
         "faults[0].for: found 3 s, when link h1-s1 is up"),
        (["{at: 1 s, fault: link_down, between: [h1, s1]}", "{at: 2 s, fault: kill, switch: s1}"],
         "faults[1].fault: found kill of a switch beside faults of links"),
        (["{at: 1 s, fault: link_down, between: [h1, s1], failover: 1 s}",
          "{at: 1500 ms, fault: pause, switch: s1, for: 1 s}"],
         "switch s1 is paused at 2 s, when faults[0] changes links or routes"),
    ],
)  # fmt: skip
def test_invalid_faults_of_links_are_refused(faults, expected):
    listed = "".join(f"  - {fault}\n" for fault in faults)
    assert expected in message(f"{BASE}faults:\n{listed}")


def test_the_changes_of_links_are_known_before_a_run():
    faults = """faults:
  - {at: 2 s, fault: link_down, between: [s1, h1], failover: 1 s, for: 1 s}
  - {at: 3 s, fault: link_down, between: [h2, s1]}
  - {at: 9 s, fault: link_up, between: [h2, s1]}
"""
    experiment = load_text(BASE + faults)
    assert load_text(experiment.resolved_yaml()) == experiment
    assert "failover: 50 ms" in experiment.resolved_yaml()
    seconds = [
        (change.at_ns / 1e9, change.up, sorted(change.links), change.followed_ns / 1e9)
        for change in set_up(experiment).link_changes
    ]
    assert seconds == [
        (2, False, [0], 3),
        (3, True, [0], 4),
        (3, False, [1], 3.05),
        (9, True, [1], 9.05),
    ]
    assert title(experiment.faults[0]) == "failure of link s1-h1"


def test_links_that_are_down_for_the_whole_run_do_not_fail():
    text = BASE.replace(
        "{kind: star, hosts: 10}", "{kind: leaf_spine, leaves: 2, spines: 2, hosts: 5}"
    )
    text = text.replace("delay: 10 us", "delay: 10 us\n  each: [{between: [s1, s3], failed: true}]")
    text += "faults: [{at: 1 s, fault: link_down, between: [s3, s1]}]\n"
    assert "link s3-s1 is down for the whole run" in message(text)


@pytest.mark.parametrize(
    ("old", "new", "fault", "expected"),
    [
        ("esa, window: 64", "switchml, sets: 1", "{at: 1 s, fault: link_down, switch: s1}",
         "faults[0].fault: found link_down; allowed: pause, slow, kill"),
        ("name: base", "switch: bmv2", "{at: 1 s, fault: link_down, switch: s1}",
         "faults[0].fault: found link_down with switch bmv2"),
        ("start: 5 ms", "compute_scale: 0", "{at: 1 s, fault: slow, job: vgg16-1, factor: 2}",
         "faults[0].fault: job vgg16-1 has no compute time"),
        ("esa, window: 64", "switchml", "{at: 1 s, fault: pause, job: vgg16-1, ps: 0, for: 1 s}",
         "faults[0].ps: found 0; the system has no server"),
    ],
)  # fmt: skip
def test_faults_that_the_rest_of_the_file_excludes(old, new, fault, expected):
    assert expected in message(f"{changed(old, new)}faults: [{fault}]\n")
