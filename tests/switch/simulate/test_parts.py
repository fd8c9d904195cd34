"""A world in parts: which switches may be apart, and that the parts together do what the whole
does."""

from __future__ import annotations

from collections import Counter

import pytest
from p4fabric.base.errors import RunError

from testbed.run_parts.program import prepare
from testbed.simulate import parts, world
from testbed.simulate.parts import Parts
from testbed.simulate.simulation import Simulation
from testbed.simulate.virtual_run import run_repetition
from tests.support.experiments import memory_line, setup_of
from tests.support.laws import hold
from tests.support.virtual import content

TEXT = """
name: parts
runtime: virtual
topology: %(topology)s
links: {bandwidth: 10 Gbit/s, delay: 1 us, ecn_threshold: 40 packets%(links)s}
system: %(system)s
%(memory)s
values_per_packet: 16
jobs:
  - {model: resnet18, workers: 4, iterations: 2, scale: 0.0004, compute_scale: 0.01}
  - {model: vgg16, workers: 4, iterations: 2, scale: 0.00004, start: 50 us, compute_scale: 0.01}
"""
TWO_RACKS = "{kind: two_level, tors: 2, hosts: 4, servers: 2}"


def text(system="esa", topology=TWO_RACKS, links=""):
    memory = memory_line(system, 48)
    links = f", {links}" if links else ""
    return TEXT % {"system": system, "topology": topology, "links": links, "memory": memory}


@pytest.fixture(autouse=True)
def small_worlds_too(monkeypatch):
    monkeypatch.setattr(parts, "WORTHWHILE", 0)


def tables(source, threads):
    setup = setup_of(source)
    return hold(run_repetition(setup, prepare(setup).compiled, threads=threads))


def parts_of(source, threads):
    setup = setup_of(source)
    made = Parts(world.build(setup, prepare(setup).compiled), threads)
    made.close()
    return made


@pytest.mark.parametrize("system", ["esa", "switchml"])
def test_two_parts_do_what_the_whole_does(system):
    source = text(system, links="loss: 0.5 %, jitter: 200 ns")
    assert len(parts_of(source, 2)) == 2
    whole = tables(source, 1)
    assert all(job["exact"] for job in whole["jobs"])
    assert content(tables(source, 2)) == content(whole)


def test_more_frames_than_there_is_room_for(monkeypatch):
    """Also where they are handed over."""
    source = text("esa").replace("system: esa", "system: {name: esa, window: 64}")
    whole = tables(source, 1)
    monkeypatch.setattr(parts, "FRAMES", 1)
    assert content(tables(source, 2)) == content(whole)


def test_a_wrong_value_is_named_from_every_part():
    setup = setup_of(text())
    compiled = prepare(setup).compiled
    words = []
    for threads in (1, 2, 3):
        simulation = Simulation(setup, compiled, threads=threads)
        assert len(simulation.parts) == threads
        for node in simulation.nodes.hosts:
            if node.spec.worker == 2 and node.spec.job.number == 1:
                node.machine.protocol.config.seed += 1
        with pytest.raises(RunError, match="^wrong value: job vgg16-1") as caught:
            simulation.run()
        simulation.parts.close()
        words.append(str(caught.value))
    assert len(set(words)) == 1


def test_a_job_that_gets_no_results_stalls_in_parts_too():
    setup = setup_of(text() + "timeout: 1 s\n")
    simulation = Simulation(setup, prepare(setup).compiled, threads=3)
    for switch in simulation.nodes.switches.values():
        switch.table_clear("job_route")
    with pytest.raises(RunError, match="has received no result for 1.0"):
        simulation.run()
    simulation.parts.close()


def test_a_system_that_repairs_no_loss_says_how_many_packets_are_lost(monkeypatch):
    for lost, words in (3, ", and links have lost 3 packets; "), (0, ""):
        monkeypatch.setattr(Simulation, "_lost_packets", lambda self, lost=lost: lost)
        setup = setup_of(text("{name: switchml, sets: 1}") + "timeout: 1 s\n")
        simulation = Simulation(setup, prepare(setup).compiled)
        for switch in simulation.nodes.switches.values():
            switch.table_clear("job_route")
        why = setup.platform.options.lossless_reason
        with pytest.raises(RunError) as caught:
            simulation.run()
        said = str(caught.value).splitlines()[0]
        assert said.endswith(
            f"{words}{why}. Who waits for what:" if lost else " s. Who waits for what:"
        )


def test_a_window_is_the_shortest_way_between_switches():
    made = parts_of(text(), 2)
    assert made.window_ns == 1400  # link and switch
    ends = [made._window_end(time_ns) for time_ns in (0, 1, 1399, 1400, 2799, 2800)]
    assert ends == [1399, 1399, 1399, 2799, 2799, 4199]
    slower = text(links="jitter: 300 ns") + "virtual: {switch_latency: 1 us}\n"
    assert parts_of(slower, 2).window_ns == 1700


@pytest.mark.parametrize(
    "source",
    [
        text(topology="{kind: star, hosts: 10}"),
        text().replace("delay: 1 us", "delay: 0 ns") + "virtual: {switch_latency: 100 ns}\n",
        text(links="reorder: 1 %, reorder_delay: 20 us"),
    ],
)
def test_switches_that_are_not_apart_stay_together(source):
    made = parts_of(source, 2)
    assert len(made) == 1 and made.window_ns == 0


def test_few_hosts_stay_together(monkeypatch):
    monkeypatch.setattr(parts, "WORTHWHILE", 200)
    made = parts_of(text(), 2)
    assert len(made) == 1 and made.window_ns == 1400


def test_shares_are_about_equal():
    groups = [{"a"}, {"b"}, {"c", "d"}, {"e"}]
    loads = {"a": 5, "b": 9, "c": 3, "d": 1, "e": 1}
    assert parts._shares(groups, Counter(loads), 2) == [{"b", "e"}, {"a", "c", "d"}]
    assert len(parts._shares(groups, Counter(loads), 9)) == 4
