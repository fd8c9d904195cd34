"""Windows and congestion thresholds by default, which follow from a network's speed, and the least
communication time that links allow, against the formulas worked out by hand.

A frame of 64 values and a bitmap of 32 bits has 42 + 4 x 71 = 326 bytes, 2608 bits: 130,400 ns at
20 Mbit/s. AlexNet at a scale of 0.0001 has 6110 values in 8 layers, 100 fragments.
"""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from p4fabric.base.errors import UserError
from p4fabric.base.topology import switch_ip

from testbed.experiment import load_text
from testbed.schemes import set_up
from testbed.setup.host_specs import host_kinds, host_specs
from testbed.setup.planning import planned_jobs
from testbed.setup.timing import communication_bound_ns, round_trip_ns, slowest_rate
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


def window_of(experiment):
    return set_up(experiment).jobs[0].window


@pytest.mark.parametrize(
    ("system", "slow", "fast"), [("esa", 128, 637), ("atp", 100, 637), ("ps", 64, 80)]
)
def test_a_window_is_twice_the_bandwidth_delay_product(system, slow, fast):
    # Four links of 1 us, 1.75 us at each end and 0.4 us each way in the switch are 8.3 us, which at
    # 100 Gbit/s hold 318 frames of 326 bytes. A server's eight workers share its link.
    for runtime in ("mininet", "virtual"):
        assert window_of(load(runtime, "10 Mbit/s", "0", system)) == slow
    assert window_of(load(system=system)) == fast
    assert window_of(load(system=f"{{name: {system}, window: 33}}")) == 33
    more = load(system="{name: ps, servers: 4}", topology="{kind: star, hosts: 12}")
    assert window_of(more) == 319, "of four servers' links"


def test_a_machine_is_not_as_fast_as_its_links():
    assert window_of(load("mininet", system="ring")) == 128


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
        return window_of(load_text(PROGRAM % (rate, system, memory)))

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
        return set_up(experiment).jobs[0].timers.burst_ns / 1e6

    assert burst_ms("10 Mbit/s") == 10
    assert burst_ms("100 Mbit/s") == 5
    # A quarter of a queue of 800 packets is 0.5 ms; 2 ms are the least of every job.
    assert burst_ms("1 Gbit/s") == 2


def test_marks_begin_at_the_bandwidth_delay_product():
    def thresholds(*given, **named):
        experiment = load(*given, **named)
        return {way.ecn_threshold_packets for way in experiment.directions[0]}

    assert thresholds(rate="10 Mbit/s") == {100}
    assert thresholds() == {318}
    assert thresholds(links=", queue: 300 packets") == {150}
    assert thresholds(links=", queue: 1 packet") == {1}
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
        assert len(experiment.directions) == 9
        assert all(there.delay_ns == back.delay_ns for there, back in experiment.directions)
        return [there.delay_ns for there, _ in experiment.directions]

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
    workers = [spec for spec in host_specs(set_up(experiment)) if spec.is_worker]
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
    assert {spec.options.window_rule for spec in host_specs(set_up(load_text(text)))} == {rule}


FRAME_BITS = 2608
FRAGMENTS = 100
BOUND = """
name: bounds
topology: {kind: star, hosts: 12}
links: {%(links)s}
system: %(system)s
%(memory)s
jobs:
  - {model: alexnet, workers: %(workers)d, iterations: 3, scale: 0.0001}
"""


RATES = st.sampled_from([5, 10, 20, 40, 20, None])  # Mbit/s
AGGREGATED = ("esa", "atp", "switchml", "tree", "{name: esa, results_from: switch}")
SERVED = {f"{{name: ps, servers: {servers}}}": servers for servers in (1, 2, 4, 8)}


@settings(max_examples=60)
@given(
    system=st.sampled_from((*AGGREGATED, *SERVED, "ring")),
    workers=st.sampled_from((1, 2, 4)),
    rates=st.lists(st.tuples(RATES, RATES), min_size=12, max_size=12),
)
def test_the_bound_is_the_longest_time_of_a_host_s_link(system, workers, rates):
    """Of each host's slower direction: a switch adds up, so what passes does not depend on the
    number of workers; of several servers one has the most; a ring sends 2 (W - 1) / W of all; for
    results from a switch nobody waits for the server. Other hosts do not count."""
    each = ", ".join(
        f"{{between: [h{host}, s1]"
        + "".join(
            f", {way}: {{bandwidth: {rate} Mbit/s}}"
            for way, rate in zip(("forward", "backward"), both, strict=True)
            if rate is not None
        )
        + "}"
        for host, both in enumerate(rates, 1)
        if any(both)
    )
    links = f"bandwidth: unlimited, each: [{each}]"
    parts = {"system": system, "workers": workers, "links": links}
    setup = set_up(load_text(BOUND % {**parts, "memory": memory_line(system, 256)}))
    job = setup.jobs[0]
    assert job.fragments == FRAGMENTS
    loads = dict.fromkeys(job.group.workers, FRAGMENTS)
    if system == "ring":
        loads = dict.fromkeys(loads, 2 * (workers - 1) * FRAGMENTS // workers)
    elif system in SERVED:
        most = -(-FRAGMENTS // SERVED[system])
        loads |= dict.fromkeys(job.group.servers, workers * most)
    elif "switch}" not in system:
        loads |= dict.fromkeys(job.group.servers, FRAGMENTS)
    times = [
        load * FRAME_BITS * 1000 // min(limits)
        for host, load in loads.items()
        if (limits := [rate for rate in rates[int(host[1:]) - 1] if rate is not None])
    ]
    assert job.bound_ns == max(times, default=None)


def test_where_ranks_share_servers_the_servers_links_count_too():
    """Of links inside servers and of their NICs the slower one bounds; the tree, which has its root
    on a leaf, does not use the fabric."""
    for inside, nic, fabric in product((5, 20, 40), repeat=3):
        rates = f"scale_up: {inside} Mbit/s, nic: {nic} Mbit/s, fabric: {fabric} Mbit/s"
        parts = {"system": "switchml", "workers": 4, "links": "delay: 1 us"}
        text = BOUND % {**parts, "memory": memory_line("switchml", 256)}
        rails = f"{{kind: rails, servers: 2, ranks: 2, spines: 1, {rates}}}"
        (job,) = set_up(load_text(text.replace("{kind: star, hosts: 12}", rails))).jobs.values()
        assert job.bound_ns == FRAGMENTS * FRAME_BITS * 1000 // min(inside, nic)


RACKS = "{kind: two_level, tors: 2, hosts: 4, servers: 1}"
STAR = "{kind: star, hosts: 9}"


@pytest.mark.parametrize(
    ("system", "topology", "passes"),
    [
        ("esa", STAR, 2),
        ("ring", STAR, 2),
        ("switchml", STAR, 1),  # the root switch sends the sum back
        ("switchml", RACKS, 3),
    ],
)
def test_a_round_trip_passes_a_switch_once_a_way_and_the_root_once(system, topology, passes):
    def round_trip(latency: str) -> int:
        runtime = f"virtual\nvirtual: {{switch_latency: {latency}}}"
        setup = set_up(load(runtime=runtime, system=system, topology=topology))
        return round_trip_ns(setup.platform, setup.jobs[0].group)

    assert round_trip("3 us") - round_trip("1 us") == passes * 2000


ALEXNET = """
runtime: %s
topology: {kind: star, hosts: 3}
links: {bandwidth: 20 Mbit/s, delay: 1 us}
system: %s
%s
jobs: [{model: alexnet, workers: 2, iterations: 3, scale: 0.0001}]
"""


@pytest.mark.parametrize("system", ["esa", "ps", "switchml"])
def test_timers_in_virtual_time_follow_from_frames_and_round_trips(system):
    setup = set_up(load_text(ALEXNET % ("virtual", system, memory_line(system, 64))))
    job, frame_ns = setup.jobs[0], 130_400
    trip_ns = round_trip_ns(setup.platform, job.group)
    timers = job.timers
    assert timers.min_timeout_ns == 400 * frame_ns + 4 * trip_ns
    assert timers.max_timeout_ns == 10 * timers.min_timeout_ns
    assert timers.min_reminder_delay_ns == 8 * frame_ns + trip_ns
    assert timers.max_reminder_delay_ns == 100 * timers.min_reminder_delay_ns
    assert (timers.ack_delay_ns, timers.burst_ns) == (20 * frame_ns, 8 * frame_ns)
    assert job.communication_ns == 100 * frame_ns
    assert job.last_fragment == 3 * 100 - 1


def test_a_server_waits_for_a_window_of_a_plan():
    text = ALEXNET % ("virtual", "{name: grid, window: 200}", "memory: {aggregators: 64}")
    job = set_up(load_text(text)).jobs[0]
    window_ns = 200 * 2608 * 10**9 // job.group.routed_plan.rate_bps
    assert window_ns > 8 * 130_400
    assert job.timers.min_reminder_delay_ns == window_ns
    assert job.timers.max_reminder_delay_ns >= 2 * window_ns


@pytest.mark.parametrize("runtime, unit_ns", [("virtual", 1), ("mininet", 1000)])
def test_the_clock_of_switches(runtime, unit_ns):
    text = ALEXNET % (runtime, "esa", "memory: {aggregators: 64}")
    assert set_up(load_text(text)).platform.timestamp_unit_ns == unit_ns


def test_a_server_hears_its_gateway_its_workers_and_the_switches_that_it_reminds():
    setup = set_up(load_text(ALEXNET % ("virtual", "esa", "memory: {aggregators: 64}")))
    *workers, server = host_specs(setup)
    switch = switch_ip(1)
    assert server.peers == (switch, *(each.address for each in workers), switch)
    plain = host_specs(set_up(load_text(ALEXNET % ("virtual", "ps", ""))))[-1]
    assert plain.peers == server.peers[:-1]


def test_of_each_kind_of_host_there_is_one():
    text = ALEXNET % ("virtual", "esa", "memory: {aggregators: 64}")
    first = text.splitlines()[-1].removeprefix("jobs: [").rstrip("]")
    two = text.replace(f"[{first}]", f"[{first}, {first}]").replace("hosts: 3", "hosts: 6")
    assert [spec.role for spec in host_kinds(set_up(load_text(two)))] == ["worker", "ps"]


@pytest.mark.parametrize("system, told", [("switchml", "no"), ("ps", "2")])
def test_a_plan_needs_one_server(system, told):
    options = "{name: ps, servers: 2}" if system == "ps" else system
    text = ALEXNET % ("virtual", options, memory_line(system, 64))
    jobs = load_text(text.replace("hosts: 3", "hosts: 4")).jobs
    with pytest.raises(UserError, match=f"has {told} parameter servers? under X; a plan needs"):
        planned_jobs(jobs, "X")


RAILS = """
runtime: virtual
topology: {kind: rails, servers: 2, ranks: 2, scale_up: {bandwidth: 1 Tbit/s},
  nic: {bandwidth: 40 Gbit/s}}
links: {each: [{between: [%s], bandwidth: 10 Gbit/s}]}
system: switchml
memory: {aggregators: 512}
jobs: [{model: alexnet, workers: 4, iterations: 1, scale: 0.0001}]
"""


def test_among_servers_of_several_ranks_the_slowest_link_of_the_tree_counts():
    rates = []
    for ends in ("s1, s3", "s2, s3", "s1, s4"):  # the tree's root is s3
        job = set_up(load_text(RAILS % ends)).jobs[0]
        rates.append(slowest_rate(job.platform, job.group))
        bound_ns = communication_bound_ns(job.platform, job.group, 100)
        assert bound_ns == 100 * job.platform.frame_bits * 10**9 // rates[-1]
    assert rates == [10 * 10**9, 10 * 10**9, 40 * 10**9]
