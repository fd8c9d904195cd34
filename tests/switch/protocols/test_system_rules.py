"""What each system does by its rules, hosts and P4 program together: packets that go once, where
sums are made, windows, and defences without which sums are wrong.

That every value is exact, whatever happens, is the property of test_any_history.py. Here are
sequences that show a rule which no law of runs states.
"""

from __future__ import annotations

import struct

import numpy as np
import pytest
from p4fabric.base.errors import UserError

from testbed import dataplane
from testbed.protocols import a2tp, block_float, server_store, sizes, wire, worker_state
from testbed.protocols.sizes import FRAME_OVERHEAD, MAX_VALUES
from testbed.schemes import new_machine
from testbed.setup.host_specs import host_specs
from tests.support.experiments import experiment, memory_line, setup_of
from tests.support.fabric import MS, Fabric, lossy, perfect, run_exact, total
from tests.support.switches import change_program, start_switches
from tests.support.switchml import fabric_counters, late_copies

TEXT = """
name: test
topology: %(topology)s
links: {bandwidth: %(bandwidth)s}
system: {name: %(system)s}
%(memory)s
values_per_packet: %(values)d
jobs:
  - {model: resnet18, workers: 4, iterations: 2, scale: 0.0005, placement: spread}
  - {model: vgg16, workers: 4, iterations: 2, scale: 0.00005, start: 50 us, placement: spread}
"""
RECORDED = """
name: test
topology: {kind: star, hosts: 5}
system: {name: %(system)s}
%(memory)s
jobs:
  - {model: smallcnn, workers: 4, iterations: 3}
"""
STAR = "{kind: star, hosts: 14}"
RACKS = "{kind: two_level, tors: 2, hosts: 4, servers: 2}"
POOLS = (
    "esa",
    "atp, index: consecutive",
    "a2tp, index: consecutive",
    "esa, results_from: switch",
    "atp, release: on_completion, results_from: switch, index: consecutive, gap: 0",
)
OF_HOSTS = ("ring", "halving_doubling", "double_tree", "hierarchical", "colocated_ps")
FAULTS = {"loss": 0.02, "duplicate": 0.02, "reorder": 0.05}


def run(system, schedule=perfect, aggregators=4096, text=TEXT, **parts) -> Fabric:
    memory = memory_line(f"{{name: {system}}}", aggregators)
    usual = {"topology": STAR, "bandwidth": "unlimited", "values": 16}
    return run_exact(text, schedule, system=system, memory=memory, **usual | parts)


def positions(host):
    """What a host knows about its job's window positions."""
    return host.machine.protocol.rules.positions


def by_job(hosts):
    found: dict[int, list] = {}
    for host in hosts:
        found.setdefault(host.spec.job.number, []).append(host)
    return found.values()


# ---- without faults, each packet goes once ----


@pytest.mark.parametrize("topology", [STAR, RACKS])
@pytest.mark.parametrize("system", [*POOLS, "switchml", "tree", "ps", *OF_HOSTS])
def test_nothing_is_sent_twice(system, topology):
    """Where there is room: all sums are made in switches, on each level of them."""
    fabric = run(system, topology=topology)
    for worker in fabric.workers():
        counted, job = worker.counters(), worker.spec.job
        assert counted["retransmissions"] == counted["duplicate_results"] == 0
        assert counted["results"] == job.fragments * job.iterations
    for server in fabric.servers():
        counted, job = server.counters(), server.spec.job
        whole = job.fragments * job.iterations
        assert counted["reminders"] == counted["asks"] == 0
        assert counted["results"] == (0 if "from: switch" in system else whole)
        sums = whole * (job.workers if system == "ps" else 1)
        # What a switch delivers ends the run, perhaps before the copy for the server has arrived.
        under_way = sums - counted["ps_packets"]
        assert under_way in ((0, 1) if "from: switch" in system else (0,))
        assert counted["ps_aggregates"] == (0 if system == "ps" else whole - under_way)
    if system in OF_HOSTS:
        for members in by_job(fabric.workers()):
            job = members[0].spec.job
            sent = [worker.counters()["gradient_packets"] for worker in members]
            assert sum(sent) == 2 * (len(sent) - 1) * job.fragments * job.iterations
            # Each has its part of every tensor's fragments, within one fragment each way.
            assert system != "ring" or max(sent) - min(sent) <= 2 * job.iterations
    if system in POOLS:
        whole = 0
        for switch in fabric.switches.values():
            for job, event, count in dataplane.counters(fabric.setup.platform, switch):
                assert event != "completions" or count in (0, fabric.setup.jobs[job].fragments * 2)
                whole += event == "completions" and count > 0
        assert whole >= (2 if topology == STAR else 4)


def test_a_server_s_fragments_are_its_share():
    for server in run("ps, servers: 3").servers():
        spec = server.spec
        share = len(range(spec.number, spec.job.fragments, 3)) * spec.job.iterations
        assert server.counters()["results"] == share


def test_results_leave_a_server_at_its_links_rate():
    """The server's own queue holds them back: 4 results per fragment, one every 131.2 us."""
    leaving = []

    def watch(now, node, frame):
        if frame[FRAME_OVERHEAD] & 15 == wire.RESULT:
            leaving.append((node, now))
        return (0,)

    fabric = run("ps, window: 32", watch, bandwidth="10 Mbit/s")
    server = fabric.servers()[0].spec
    times = [now for node, now in leaving if node == server.host]
    packet_ns = 8 * sizes.frame_bytes(16, 32) * 100
    for first, last in zip(times, times[100:], strict=False):
        assert last - first >= 99 * packet_ns - server.job.burst_ns


@pytest.mark.parametrize(
    "schedule, window, share",
    [(perfect, 16, 0.25), (lossy(2, **FAULTS), 16, 0.75), (perfect, 64, 1)],
)
def test_a_member_of_a_ring_holds_the_sums_that_are_under_way(schedule, window, share):
    """Not those of whole iterations: of a large model that would be its gradients over again. After
    losses some wait for their turn. Acknowledgements of a large window are few."""
    fabric = run(f"ring, window: {window}", schedule)
    for worker in fabric.workers():
        state = worker.machine.protocol.state
        assert state.free == state.held, "all have been let go"
        assert 0 < state.held < share * worker.spec.job.fragments
    data = total(fabric.workers(), "gradient_packets")
    assert window == 16 or fabric.frames / 2 - data < data / 4  # each frame is on two wires


@pytest.mark.parametrize("system", ["esa", "atp", "ps"])
def test_a_server_holds_some_windows(system, monkeypatch):
    monkeypatch.setattr(server_store, "KEPT_WINDOWS", 0)
    monkeypatch.setattr(server_store, "KEPT_ROWS", 3)
    for server in run(f"{system}, window: 8", bandwidth="1 Gbit/s").servers():
        protocol, job = server.machine.protocol, server.spec.job
        slots = getattr(protocol, "adder", protocol).state.slots
        assert 3 < slots < job.fragments * job.iterations / 8


@pytest.mark.parametrize("bits", [32, 16])
def test_the_largest_packets(bits):
    text = f"{TEXT}value_bits: {bits}\n".replace("0.000", "0.00")
    run("esa", lossy(1, **FAULTS), 16, text, values=MAX_VALUES)


# ---- scarce memory ----


def test_small_memory_preempts():
    servers = run("esa", aggregators=16).servers()
    assert total(servers, "ps_partials") > 20 < total(servers, "ps_collisions")


def test_a_position_that_collides_finds_an_aggregator_of_its_own():
    """With room for all window positions, collisions die out."""
    with_rehash = run("atp, window: 32", aggregators=256)
    without = run("atp, window: 32, rehash: false", aggregators=256)
    assert total(with_rehash.servers(), "rehashes") > 5
    once, always = (total(f.servers(), "ps_collisions") for f in (with_rehash, without))
    assert 0 < once < always / 3, (once, always)
    for members in by_job(with_rehash.hosts.values()):
        assert len({tuple(positions(host).index) for host in members}) == 1


@pytest.mark.parametrize("rule", ["positions", "in_flight"])
def test_a_missing_result_stops_a_window_of_positions(rule):
    """One fragment's packets are lost for a while: how far do the other workers go?"""
    sent = []

    def schedule(now, node, frame):
        head = struct.unpack_from("!BxHHHI", frame, FRAME_OVERHEAD)
        if head[0] & 15 != wire.GRADIENT or head[2] != 0 or now >= 3 * MS:
            return (0,)
        if node == "h1":
            sent.append(head[4])
        return () if node == "h2" and head[4] == sent[0] else (0,)

    options = f"window: 32, window_rule: {rule}, gap: 0, timeout: 1 s, reminder: false"
    fabric = run(f"atp, {options}", schedule)
    place = positions(fabric.hosts["h1"]).place
    furthest = max(int(place[fragment % place.size]) for fragment in sent)
    assert furthest == 31 if rule == "positions" else furthest > 100


def test_scarce_memory_makes_positions_bypass_and_all_workers_agree():
    fabric = run("a2tp, window: 32", aggregators=16)
    for members in by_job(fabric.workers()):
        (found,) = {tuple(positions(worker).index) for worker in members}
        assert 0 < found.count(a2tp.BYPASS) < 32
    assert total(fabric.servers(), "ps_collisions") > 0


# ---- A2TP's windows ----


@pytest.mark.parametrize("exponent", [0, 1000, 30_000, 65_536, 100_000])
def test_the_power_of_integers(exponent):
    for base in (0, 1, 77, 6553, 30_000, 65_535, 65_536):
        exact = (base / a2tp.ONE) ** (exponent / a2tp.ONE) if base else 0
        assert a2tp.power(base, exponent) / a2tp.ONE == pytest.approx(exact, abs=5e-5)


def test_the_share_of_a_window_is_the_smallest_that_was_wanted_in_the_one_before():
    server, row = new_a2tp(-1), np.zeros(64, np.uint32)
    for wanted in (a2tp.ONE // 2, a2tp.ONE, a2tp.ONE // 4, a2tp.ONE // 3):
        for each in (a2tp.ONE, wanted, a2tp.ONE):
            wire.set_extra(row, each)
            a2tp.ServerRules.arrived(server, row)
        for _ in range(server.rules.positions.index.size):
            a2tp.ServerRules.completed(server, row.copy(), 0)
        assert server.rules.share[0] == wanted


def new_a2tp(number=0):
    memory = "memory: {aggregators: 64}"
    parts = {"topology": STAR, "bandwidth": "unlimited", "values": 16, "memory": memory}
    setup = setup_of(TEXT % {**parts, "system": "a2tp, window: 32"})
    return new_machine(host_specs(setup)[number]).protocol


def answered(worker, results: int, flags: int = 0, spent_ns: int = 1000) -> None:
    """So many results come."""
    for _ in range(results):
        a2tp.WorkerRules.adapt(worker, flags, False, True, 0, spent_ns)


def test_windows_change_once_per_window_by_the_published_rules():
    worker, unit = new_a2tp(), worker_state.UNIT
    link = aggregators = 32.0
    alpha, beta = 0.0, 0.0
    for marked, contended in [(1, 0), (1, 1), (0, 1), (0, 1), (0, 1), (0, 0), (1, 1), (0, 0)]:
        flags = wire.ECN * marked + wire.CONTENDED * contended
        before = worker.state.credit, worker.rules.own.aggregators
        size, used = (window // unit for window in before)
        answered(worker, size - 1, flags)
        assert before == (worker.state.credit, worker.rules.own.aggregators)
        answered(worker, 1, flags)
        alpha = 7 / 8 * alpha + marked / 8
        beta = 7 / 8 * beta + min(contended * size / used, 1) / 8
        link = link * (1 - alpha / 2) if marked else min(link + 1, 32)
        if contended and beta > 0.1:
            aggregators *= 1 - (beta - 0.1) / 1.9  # gamma is 1
        else:
            aggregators += 1
        aggregators = min(aggregators, link)
        assert worker.state.credit / unit == pytest.approx(link, abs=0.1)
        assert worker.rules.own.aggregators / unit == pytest.approx(aggregators, abs=0.1)


def test_a_job_that_straggles_gives_back_aggregators_faster():
    prompt, straggling = new_a2tp(), new_a2tp()
    for worker, spent_ns in ((prompt, 1000), (straggling, 8000)):
        answered(worker, 1)  # the shortest round trip
        answered(worker, 64 * 32, spent_ns=spent_ns)
    assert straggling.rules.own.gamma < 0.5 * prompt.rules.own.gamma
    for _ in range(10):
        for worker in (prompt, straggling):
            answered(worker, worker.state.credit // worker_state.UNIT, wire.CONTENDED)
    assert straggling.rules.own.aggregators < prompt.rules.own.aggregators


# ---- recorded gradients ----


def test_values_that_overflow_are_summed_as_floats():
    """At 10^9 steps per unit some values are over, and some sums overflow although none is."""
    system = "atp, fixed_point_scale: 1000000000"
    fabric = run(system, lossy(1, **FAULTS), 32, RECORDED)
    over = sum(int(w.machine.protocol.floats.over[:3].any(axis=0).sum()) for w in fabric.workers())
    summed = total(fabric.servers(), "float_results")
    assert over > 0 and 0 < summed < 3 * fabric.servers()[0].spec.job.fragments
    for worker in fabric.workers():
        assert worker.counters()["float_results"] == summed == worker.counters()["saturated"]
    setup = setup_of(RECORDED % {"system": system, "memory": "memory: {aggregators: 32}"})
    wrong = Fabric(setup, start_switches(setup))
    wrong.workers()[0].machine.protocol.floats.sums[:] *= 1.000001
    with pytest.raises(AssertionError, match="wrong value"):
        wrong.run()


@pytest.mark.parametrize("system", ["switchml", "tree, mode: quotas"])
def test_block_floating_point_is_within_its_bound(system):
    """What a result means, in floats: within the stated bound of the sum of the floats."""
    fabric = run(f"{system}, timeout: 2 ms", lossy(3, loss=0.01, reorder=0.02), 8, RECORDED)
    assert total(fabric.workers(), "saturated") == 0
    protocols = [worker.machine.protocol for worker in fabric.workers()]
    exponents = protocols[0].exponent.tolist()
    assert len(set(exponents)) > 3
    floats = sum(p.recorded.astype(np.float64) for p in protocols)[2].reshape(-1, 64)
    for fragment, exponent in enumerate(exponents):
        received = protocols[0].sums[2].reshape(-1, 64)[fragment] / block_float.scale_of(
            exponent, 4
        )
        bound = block_float.error_bound(exponent, 4)
        assert np.abs(received - floats[fragment]).max() <= bound * (1 + 1e-9)


# ---- slots ----


def test_slots_are_divided_among_jobs():
    """64 aggregators are 32 slots of two sets, half for each job; a window may be smaller."""
    for options, window in (("", 16), (", sets: 1", 32), (", window: 3", 3)):
        fabric = run(f"switchml{options}", aggregators=64)
        assert {worker.spec.options.window for worker in fabric.workers()} == {window}
        assert total(fabric.workers(), "gradient_packets") == total(fabric.workers(), "results")


@pytest.mark.parametrize("system", ["switchml", "switchml, sets: 1", "tree, mode: quotas"])
def test_held_up_copies_are_late_and_harmless(system):
    fabric = run(f"{system}, timeout: 2 ms", late_copies(1), 4)
    assert fabric_counters(fabric)["stale_chunks"] > 10


@pytest.mark.parametrize(
    "system, change",
    [
        ("switchml", ("if (own.state != EMPTY) {", "if (own.state > 100) {")),
        # With tables that do not ask for the tree, two trees would meet in one place.
        ("tree, mode: quotas", ("meta.pair = base + (", "meta.pair = 0 * base + (")),
    ],
)
def test_a_missing_check_makes_sums_wrong(system, change, monkeypatch, tmp_path):
    """Of the chunk, which makes late copies harmless, or of the tree."""
    change_program(monkeypatch, tmp_path, "switchml.p4", *change)
    with pytest.raises(AssertionError, match=r"wrong value|not finished"):
        run(f"{system}, timeout: 2 ms", late_copies(1), 4 if system == "switchml" else 16)


def test_two_levels_serve_a_result_again_to_the_asking_worker_alone():
    lost, served = [], []

    def schedule(now, node, frame):
        kind = frame[FRAME_OVERHEAD] & 15
        if node == "s1" and kind == wire.RESULT and frame[33] == 1 and len(lost) < 5:
            lost.append(frame)
            return ()
        if node == "s1" and kind == wire.RESULT_ONE:
            served.append(frame[33])
        return (0,)

    run("switchml", schedule, 16, topology=RACKS)
    assert len(lost) == 5 and served == [1] * 5


def test_all_trees_carry_a_part():
    fabric = run(
        "tree, mode: quotas", topology="{kind: leaf_spine, leaves: 3, spines: 2, hosts: 3}"
    )
    for worker in fabric.workers():
        assert set(worker.machine.protocol.trees.number.tolist()) == {0, 1}


def test_a_job_without_a_tree_is_carried_by_hosts():
    fabric = run("tree, fallback: halving_doubling", lossy(1, **FAULTS))
    systems = {worker.spec.job.system for worker in fabric.workers()}
    assert systems == {"tree", "halving_doubling"}


@pytest.mark.parametrize(
    "aggregators, options, message",
    [(3, "", "2 jobs need at least 4"), (64, ", order: front", "in the same order")],
)
def test_what_slots_cannot_do_is_refused(aggregators, options, message):
    memory = f"memory: {{aggregators: {aggregators}}}"
    parts = {"topology": STAR, "bandwidth": "unlimited", "values": 16, "memory": memory}
    with pytest.raises(UserError, match=message):
        experiment(TEXT % {**parts, "system": f"switchml{options}"})
