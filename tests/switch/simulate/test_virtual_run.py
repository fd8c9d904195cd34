"""Virtual time: hosts and switches of whole experiments, with links and without a network."""

from __future__ import annotations

import functools
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest
from p4fabric.base.errors import RunError, UserError
from p4fabric.simulate import event_queue
from p4fabric_testing.matrix import first_of

from testbed.dataplane.memory_snapshot import SnapshotTaker
from testbed.protocols.sizes import frame_bytes
from testbed.run_parts.program import prepare
from testbed.simulate import simulation
from testbed.simulate.simulation import Simulation
from tests.support.experiments import experiment, memory_line, setup_of
from tests.support.virtual import content, run_virtual

TEXT = """
name: test
runtime: virtual
topology: %(topology)s
links: {bandwidth: 10 Gbit/s, delay: 1 us, ecn_threshold: 40 packets, %(links)s}
system: %(system)s
%(memory)s
values_per_packet: 16
jobs:
  - {model: resnet18, workers: 4, iterations: 2, scale: 0.002}
  - {model: vgg16, workers: 4, iterations: 2, scale: 0.0002, start: 50 us}
"""
STAR = "{kind: star, hosts: 10}"
SYSTEMS = ("esa", "atp", "switchml", "ps", "ring")


def text(system="esa", links="loss: 0 %"):
    memory = memory_line(system, 48)
    return TEXT % {"system": system, "topology": STAR, "links": links, "memory": memory}


def run(source):
    return run_virtual(experiment(source))


@pytest.mark.parametrize("system", ["esa", "switchml"])
def test_gradients_in_buckets_are_exact(system):
    """SmallCNN's recorded gradients are one bucket, VGG-16's 138 million generated ones are six."""
    source = text(system).replace("resnet18", "smallcnn, buckets: ddp")
    tables = run(source.replace("vgg16", "vgg16, buckets: ddp, gpu: a100"))
    assert [job["gpu"] for job in tables["jobs"]] == [None, "a100"]
    assert all(job["exact"] for job in tables["jobs"])
    rows = tables["tensors"]
    numbers = [set(np.asarray(rows["tensor"])[np.asarray(rows["job"]) == job]) for job in (0, 1)]
    assert numbers == [{0}, set(range(6))]


JITTERY = "loss: 0.5 %, jitter: 200 ns"


def in_child(source):
    return content(run(source))


@pytest.mark.usefixtures("usual_samples")
def test_equal_seeds_give_equal_tables_in_any_process():
    source = text(links=JITTERY)
    here = content(run(source))
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        for there in pool.map(in_child, [source] * 2):
            assert there == here
    assert content(run(source.replace("runtime:", "seed: 2\nruntime:"))) != here


@pytest.mark.parametrize(
    "change",
    [
        "virtual: {worker_delay: 5 us}",
        "virtual: {worker_jitter: 0}",
        "virtual: {worker_jitter_time: 0}",
        "virtual: {worker_packet_time: 100 ns}",
        "virtual: {server_delay: 5 us}",
        "virtual: {server_jitter: 0}",
        "virtual: {server_jitter_time: 3 us}",
        "virtual: {server_packet_time: 100 ns}",
        "virtual: {switch_latency: 2 us}",
    ],
)
def test_every_key_of_virtual_time_changes_what_happens(change):
    assert ends(text()) != ends(text() + change + "\n")


@functools.cache
def ends(source):
    return tuple(job["end_ns"] for job in run(source)["jobs"])


@pytest.mark.parametrize("key", ["compute_jitter", "speed_spread"])
def test_workers_may_differ_in_speed(key):
    plain = run(text())["iterations"]
    varied = run(text().replace("scale: 0.002", f"scale: 0.002, {key}: 20 %"))["iterations"]
    first = np.flatnonzero((plain["job"] == 0) & (plain["iteration"] == 0))
    before = np.asarray(plain["compute_end_ns"])[first]
    after = np.asarray(varied["compute_end_ns"])[first]
    assert len(set(before)) == 1
    assert len(set(after)) == len(after)
    assert (np.abs(after - before) <= before // 5 + 1).all()


def test_a_frame_takes_its_time():
    """One packet there and back over an empty network, to the nanosecond."""
    source = """
name: test
runtime: virtual
topology: {kind: star, hosts: 2}
links: {bandwidth: 1 Gbit/s, delay: 3 us}
system: ps
virtual:
  {worker_delay: 700 ns, worker_jitter: 0, server_delay: 900 ns, server_jitter: 0,
   switch_latency: 500 ns}
jobs:
  - {model: alexnet, workers: 1, iterations: 1, scale: 0.000001, compute_scale: 1}
"""
    frame_ns = 8 * frame_bytes(64, 32)
    tensors = run(source)["tensors"]
    taken = np.asarray(tensors["done_ns"] - tensors["first_sent_ns"])
    assert set(taken) == {4 * frame_ns + 4 * 3000 + 2 * 500 + 700 + 900}


def test_to_compute_for_longer_than_the_timeout_is_no_stall():
    source = text().replace("scale: 0.002", "scale: 0.002, compute_scale: 100")
    job, _ = run(source + "timeout: 1 s\n")["jobs"]
    assert job["exact"] and job["jct_ns"] > 2 * 10**9


def test_a_stalled_job_names_its_waiting_hosts():
    setup = setup_of(text() + "timeout: 1 s\n")
    simulation = Simulation(setup, prepare(setup).compiled)
    simulation.nodes.switches["s1"].table_clear("job_route")
    with pytest.raises(RunError) as caught:
        simulation.run()
    lines = str(caught.value).splitlines()
    assert lines[0].startswith("at 1.000000 s job resnet18-0 has received no result for 1.0")
    assert len(lines) == 9
    for number, line in enumerate(lines[1:5]):
        assert line.startswith(f"  h{number + 1} (worker {number} of job resnet18-0): iteration 0 ")
        assert "fragments are sent and unanswered" in line


def test_a_run_without_memory_is_seen_as_it_goes(monkeypatch):
    """Where memory is sampled, its samples are the moments."""
    monkeypatch.setattr(simulation, "EVENTS_AT_ONCE", 500)
    setup, seen = setup_of(text("ps")), []
    Simulation(setup, prepare(setup).compiled).run(lambda run: seen.append(run.events))
    assert len(seen) > 2 and seen == sorted(set(seen))


def test_a_world_without_events_ends_at_once():
    setup = setup_of(text())
    simulation = Simulation(setup, prepare(setup).compiled)
    for host in range(len(simulation.nodes.hosts)):
        event_queue.put(simulation.nodes.world.queue, host, event_queue.NEVER)
    with pytest.raises(RunError, match="^at 0.000000 s nothing more can happen. Who waits"):
        simulation.run()


@pytest.mark.parametrize("system", first_of(SYSTEMS, 3))
def test_a_paused_host_holds_up_its_job_alone(system):
    untroubled = run(text(system))
    pause_ns = 50_000_000
    fault = f"{{at: 500 us, fault: pause, job: resnet18-0, worker: 1, for: {pause_ns} ns}}"
    tables = run(text(system) + f"faults: [{fault}]\n")
    late, other = (job["jct_ns"] for job in tables["jobs"])
    before, other_before = (job["jct_ns"] for job in untroubled["jobs"])
    assert late > 500_000 + pause_ns > before
    assert other < pause_ns > other_before
    assert all(job["exact"] for job in tables["jobs"])
    (row,) = tables["faults"]
    assert (row["begun_ns"], row["ended_ns"]) == (500_000, 500_000 + pause_ns)


def test_a_pause_after_the_end_is_not_recorded():
    fault = "faults: [{at: 10 s, fault: pause, job: resnet18-0, for: 1 s}]\n"
    (row,) = run(text() + fault)["faults"]
    assert row["begun_ns"] is None and row["ended_ns"] is None


@pytest.mark.parametrize("fault", ["kill, job: resnet18-0", "pause, switch: s1, for: 1 s"])
def test_processes_cannot_be_ended(fault):
    with pytest.raises(UserError, match=r"found (kill|pause); allowed with runtime virtual: pause"):
        experiment(text() + f"faults: [{{at: 1 s, fault: {fault}}}]\n")


def test_keys_of_virtual_time_are_for_virtual_time():
    source = text().replace("runtime: virtual", "runtime: mininet")
    with pytest.raises(UserError, match="virtual: is for runtime virtual, not mininet"):
        experiment(source + "virtual: {switch_latency: 1 us}\n")


SLOW_LINKS = """
name: samples
runtime: virtual
topology: {kind: star, hosts: 3}
links: {bandwidth: 10 Mbit/s}
system: esa
memory: {aggregators: 16}
jobs:
  - {name: a, model: resnet18, workers: 2, iterations: 2, scale: 0.0005}
%s
"""


@pytest.mark.usefixtures("usual_samples")
@pytest.mark.parametrize(
    "more",
    [
        "",
        "faults: [{at: 1 ms, fault: link_down, between: [h1, s1], for: 10 ms}]",
        "faults: [{at: 1 ms, fault: pause, job: a, worker: 0, for: 10 ms}]",
    ],
)
def test_memory_is_looked_at_about_as_often_as_the_tables_say(monkeypatch, more):
    looks = []
    look = SnapshotTaker.__call__
    monkeypatch.setattr(SnapshotTaker, "__call__", lambda *a: looks.append(0) or look(*a))
    tables = run_virtual(experiment(SLOW_LINKS % more))
    times = {row["time_ns"] for row in tables["memory"]}
    assert 500 <= len(times) <= 1001 and len(looks) < 4.5 * len(times), (len(looks), len(times))
