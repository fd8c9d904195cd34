"""Windows and congestion thresholds by default, which follow from a network's speed."""

from __future__ import annotations

import pytest

from testbed.derived.host_specs import plan
from testbed.derived.timers import timers_of
from testbed.derived.windows import window_of
from testbed.experiment import load_text
from tests.support.experiments import memory_line

TEXT = """
runtime: %(runtime)s
topology: %(topology)s
links: {bandwidth: %(rate)s, delay: %(delay)s%(links)s}
system: %(system)s
%(memory)s
jobs: [{model: vgg16, workers: 8, iterations: 1}]
"""


def load(runtime="virtual", rate="100 Gbit/s", delay="1 us", system="esa", links="", **more):
    memory = "" if "ps" in system or "ring" in system else "memory: {aggregators: 512}"
    parts = {"runtime": runtime, "rate": rate, "delay": delay, "system": system, "links": links}
    return load_text(
        TEXT % {"topology": "{kind: star, hosts: 9}", "memory": memory, **parts, **more}
    )


@pytest.mark.parametrize(
    ("system", "slow", "fast"), [("esa", 128, 637), ("atp", 100, 637), ("ps", 64, 80)]
)
def test_a_window_is_twice_the_bandwidth_delay_product(system, slow, fast):
    # Four links of 1 us, 1.75 us at each end and 0.4 us each way in the switch are 8.3 us, which at
    # 100 Gbit/s hold 318 frames of 326 bytes. A server's eight workers share its link.
    for runtime in ("mininet", "virtual"):
        assert window_of(load(runtime, "10 Mbit/s", "0", system), 0) == slow
    assert window_of(load(system=system), 0) == fast
    assert window_of(load(system=f"{{name: {system}, window: 33}}"), 0) == 33


def test_a_machine_is_not_as_fast_as_its_links():
    assert window_of(load("mininet", system="ring"), 0) == 128


PROGRAM = """
topology: {kind: star, hosts: 5}
links: {bandwidth: %s, queue: 800 packets}
system: %s
%s
jobs: [{name: sums, workers: 4, command: "true"}]
"""


def test_the_window_of_a_program_covers_the_waking_of_hosts_too():
    def window(rate="100 Mbit/s", system="esa", aggregators=4096):
        memory = memory_line(system, aggregators)
        return window_of(load_text(PROGRAM % (rate, system, memory)), 0)

    # Twice 100 Mbit/s in 4 ms and 100 us are 315 frames of 326 bytes; 10 Mbit/s is a tenth of it.
    assert window() == window(system="ring") == 315
    assert window("10 Mbit/s") == 128
    # A server without switch memory gets the fragments of all workers.
    assert window(system="ps") == 79
    assert window("1 Gbit/s") == 800, "the queue"
    assert window("1 Gbit/s", "ps") == 200, "a fourth of the queue"
    assert window("1 Gbit/s", aggregators=1024) == 256, "a fourth of the memory"
    assert window("unlimited") == 1024
    assert window(system="atp") == 100, "a hash places its fragments"
    assert window(system="{name: atp, index: consecutive}") == 315
    assert window(system="grid") == 128, "a plan has its own pace"
    assert window("1 Gbit/s", "{name: esa, window: 33}") == 33


def test_a_program_makes_up_for_more_lateness():
    def burst_ms(rate):
        experiment = load_text(PROGRAM % (rate, "esa", "memory: {aggregators: 64}"))
        return timers_of(experiment, 0).burst_ns / 1e6

    assert burst_ms("10 Mbit/s") == 10
    assert burst_ms("100 Mbit/s") == 5
    # A quarter of a queue of 800 packets is 0.5 ms; 2 ms are the least of every job.
    assert burst_ms("1 Gbit/s") == 2


def test_marks_begin_at_the_bandwidth_delay_product():
    def thresholds(*given, **named):
        experiment = load(*given, **named)
        return {way.ecn_threshold_packets for way in experiment.link(0)}

    assert thresholds(rate="10 Mbit/s") == {100}
    assert thresholds() == {318}
    assert thresholds(links=", queue: 300 packets") == {150}
    assert thresholds(links=", ecn_threshold: 7 packets") == {7}
    assert thresholds(links=", ecn_threshold: none") == {None}
    assert thresholds(rate="unlimited") == {None}
    # The longest way counts, for every link.
    racks = "{kind: two_level, tors: 2, hosts: 8, servers: 1}"
    assert thresholds(topology=racks, links=", queue: 2000 packets") == {532}


def test_delays_of_links_may_be_spread():
    def delays(links="", seed=1):
        more = {"topology": "{kind: star, hosts: 9}", "runtime": f"virtual\nseed: {seed}"}
        experiment = load(links=links, **more)
        assert all(
            there.delay_ns == back.delay_ns for there, back in map(experiment.link, range(9))
        )
        return [experiment.link(link)[0].delay_ns for link in range(9)]

    assert set(delays()) == {1000}
    drawn = delays(", delay_spread: 20 %")
    assert len(set(drawn)) > 5 and all(800 <= delay <= 1200 for delay in drawn)
    assert delays(", delay_spread: 20 %") == drawn != delays(", delay_spread: 20 %", seed=2)


def test_a_default_window_stays_auto_in_the_resolved_file():
    experiment = load()
    assert "window: auto" in experiment.resolved_yaml()


@pytest.mark.parametrize(("sets", "slots"), [(2, 256), (1, 512)])
def test_a_slot_of_switchml_takes_an_aggregator_for_each_set(sets, slots):
    experiment = load(system=f"{{name: switchml, sets: {sets}}}")
    workers = [spec for spec in plan(experiment) if spec.is_worker]
    assert {(spec.options.window, spec.options.sets) for spec in workers} == {(slots, sets)}


@pytest.mark.parametrize(
    "system, rule",
    [
        ("esa", "in_flight"),
        ("{name: esa, window_rule: positions}", "positions"),
        ("atp", "positions"),
        ("{name: atp, window_rule: in_flight}", "in_flight"),
        ("{name: grid, memory: esa}", "in_flight"),
        ("{name: grid, memory: esa, window_rule: positions}", "positions"),
        ("{name: grid, memory: atp}", "positions"),
        ("{name: grid, memory: atp, window_rule: in_flight}", "in_flight"),
        ("{name: grid, memory: plain}", "in_flight"),
        ("switchml", "in_flight"),
    ],
)
def test_the_rule_of_the_window_is_the_chosen_one_or_that_of_the_memory(system, rule):
    text = (
        "name: rules\nruntime: virtual\ntopology: {kind: star, hosts: 3}\n"
        "links: {bandwidth: 10 Gbit/s}\nmemory: {aggregators: 32}\n"
        f"system: {system}\njobs: [{{model: resnet50, scale: 0.001, workers: 2, iterations: 1}}]\n"
    )
    assert {spec.options.window_rule for spec in plan(load_text(text))} == {rule}
