"""Systems that cannot make up for a lost packet: experiments that could lose one are refused."""

from __future__ import annotations

import pytest

from testbed.experiment import load_text
from tests.support.experiments import message

TEXT = """
name: x
%(runtime)s
topology: %(topology)s
links: {bandwidth: 10 Gbit/s, delay: 10 us%(links)s}
system: {name: switchml, sets: %(sets)d%(options)s}
memory: {aggregators: %(aggregators)d}
%(more)s
%(jobs)s
"""
JOBS = """jobs:
  - {name: a, model: resnet18, workers: 4, iterations: 2, scale: 0.002%s}
  - {name: b, model: vgg16, workers: 4, iterations: 2, scale: 0.0002%s}"""
STAR = "{kind: star, hosts: 8}"
RACKS = "{kind: two_level, tors: 2, hosts: 4, servers: 1}"
ACROSS = ", placement: {workers: [h1, h2, h5, h6]}", ", placement: {workers: [h3, h4, h7, h8]}"
LOSSY = """
from p4fabric.base.topology import Topology

class Lossy(Topology):
    def __init__(self):
        self.add_switch("s1")
        for n in range(1, 9):
            options = {"backward": {"loss": "1 %"}} if n == 3 else {}
            self.add_link(self.add_host(f"h{n}"), "s1", **options)
"""


def text(links="", sets=1, options="", aggregators=64, more="", **rest):
    parts = {"topology": STAR, "jobs": JOBS % ("", ""), "runtime": ""} | rest
    own = {"links": links, "sets": sets, "options": options, "aggregators": aggregators}
    return TEXT % {**parts, **own, "more": more}


@pytest.mark.parametrize(
    ("links", "expected"),
    [
        (", loss: 1 %", "links.loss: found 1 %; allowed: 0, since with sets: 1 every packet must"),
        (", duplicate: 2 %", "links.duplicate: found 2 %; allowed: 0"),
        (", reorder: 2 %", "links.reorder: found 2 %; allowed: 0"),
        (", each: [{between: [s1, h2], loss: 1 %}]", "links.each[0].loss: found 1 %"),
        (
            ", loss: 1 %, each: [{between: [s1, h2], loss: 0 %, backward: {reorder: 3 %}}]",
            "links.each[0].backward.reorder: found 3 %",
        ),
    ],
)
def test_links_must_deliver_everything(links, expected):
    assert expected in message(text(links))
    load_text(text(links, sets=2))


def test_a_default_loss_that_no_link_uses_is_allowed():
    each = ", ".join(f"{{between: [s1, h{n}], loss: 0 %}}" for n in range(1, 9))
    load_text(text(f", loss: 1 %, each: [{each}]"))


def test_a_topologys_links_must_deliver_everything(tmp_path):
    (tmp_path / "lossy.py").write_text(LOSSY)
    lossy = text(topology=f'{{class: "{tmp_path}/lossy.py:Lossy"}}')
    assert "topology: s1 to h3, loss: found 1 %; allowed: 0" in message(lossy)


@pytest.mark.parametrize(
    ("queue", "aggregators", "options", "expected"),
    [
        ("1000 packets", 2000, "", None),
        ("1000 packets", 2002, "", "1001 packets, the sum of all windows there"),
        ("1000 packets", 2002, "", "(or system.window: at most 1000)"),
        ("1000 packets", 4096, ", window: 1000", None),
        ("100 packets", 4096, ", window: 1000", "found 100 packets; allowed: at least 1000"),
    ],
)
def test_a_queue_has_room_for_the_windows(queue, aggregators, options, expected):
    short = text(f", queue: {queue}", options=options, aggregators=aggregators)
    if expected is None:
        load_text(short)
    else:
        assert expected in message(short)
    load_text(text(f", queue: {queue}", 2, options, aggregators))


def test_between_switches_the_windows_of_several_jobs_meet():
    racks = {"topology": RACKS, "jobs": JOBS % ACROSS}
    load_text(text(", queue: 1000 packets", aggregators=1000, **racks))
    found = message(text(", queue: 1000 packets", aggregators=1002, **racks))
    assert (
        "at least 1002 packets, the sum of all windows there (or system.window: at most 500)"
        in found
    )
    # No window is small enough for one packet of two jobs.
    found = message(text(", queue: 1 packets, ecn_threshold: none", **racks))
    assert "at least 64 packets, the sum of all windows there, since" in found
    # Within a rack each job is alone.
    inside = ", placement: {workers: [h1, h2, h3, h4]}", ", placement: {workers: [h5, h6, h7, h8]}"
    load_text(text(", queue: 1000 packets", aggregators=1002, **racks | {"jobs": JOBS % inside}))


def test_an_explicit_queue_is_named_at_its_place():
    short = ", each: [{between: [h2, s1], backward: {queue: 30 packets}}]"
    assert "links.each[0].backward.queue: s1 to h2: found 30 packets" in message(text(short))
    load_text(text(short.replace("backward", "forward")))  # h2 sends again what it loses there


def test_jobs_that_come_and_go_may_meet_on_any_link_between_switches():
    arrivals = """arrivals:
  at_once: 3
  poisson: {interval: 10 ms, jobs: 5, kinds: [{model: resnet18, workers: 2, iterations: 1}]}"""
    parts = {"topology": RACKS, "jobs": arrivals, "runtime": "runtime: virtual"}
    load_text(text(aggregators=1000, **parts))
    assert "at least 1002 packets" in message(text(aggregators=1002, **parts))


def test_faults_that_lose_nothing_are_allowed():
    faults = "faults: [{at: 1 s, fault: %s}]"
    assert (
        "faults[0].fault: found restart; allowed: pause, slow, kill, since with sets: 1"
        in message(text(more=faults % "restart, switch: s1"))
    )
    for fault in (
        "pause, job: a, worker: 1, for: 1 s",
        "pause, switch: s1, for: 1 s",
        "kill, job: a",
    ):
        load_text(text(more=faults % fault))
