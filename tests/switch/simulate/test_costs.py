"""Cost profiles in virtual time: where packets take no time, a call takes what its launch and the
steps on its longest way cost, to the nanosecond."""

from __future__ import annotations

import pytest
import yaml

from testbed.collective_kinds import COLLECTIVES
from testbed.experiment import load_text
from testbed.schemes import set_up
from testbed.setup.call_times import call_time
from tests.support.experiments import memory_line
from tests.support.ranks import Ranks
from tests.support.virtual import run_virtual
from tools import expected_costs

ROWS = yaml.safe_load(expected_costs.FILE.read_text())["rows"]
CALL, INSIDE, BETWEEN, COPY, EACH = 6_600, 611, 2_703, 1_009, 97
CLASSES = ("ring", "tree", "nvls", "collnet", "server", "send")
ONE_LAYER = """\
# name: one
# title: One
# values: 8
# times: computed
# hardware: none
# sample: none
# source: layers: made up for tests
# source: times: made up for tests
name,shape,values,forward_ns,backward_ns
first,8,8,1000000,2000000
"""
UNLIMITED = "queue: 100000 packets"
SYSTEMS = ("halving_doubling", "double_tree", "hierarchical", "colocated_ps")
ONE = "{Simple: {call: %d ns, inside: %d ns, between: %d ns%s}}"
EXPERIMENT = """
name: test
runtime: virtual
topology: %(topology)s
links: {%(links)s}
system: %(system)s
%(memory)s
values_per_packet: %(values)d
costs: %(costs)s
jobs:
  - {name: job, model: %(model)s, workers: %(ranks)d, iterations: %(iterations)d}
"""


def every_class(**more):
    """A profile in which algorithms differ in their costs: the n-th takes n ns longer."""
    found = [
        f"{name}: "
        + ONE
        % (
            CALL + place,
            INSIDE,
            BETWEEN,
            more.get(name, f", per_rank: {EACH} ns" if name == "collnet" else ""),
        )
        for place, name in enumerate(CLASSES)
    ]
    return f"{{algorithms: {{{', '.join(found)}}}, copy: {{latency: {COPY} ns}}}}"


def experiment(path, system, ranks, costs, kind="all_reduce", size=256, **more):
    made = Ranks(all=tuple(range(ranks)))
    for rank in range(ranks):
        peer = 0 if COLLECTIVES[kind].rooted else -1
        for _ in range(more.get("calls", 1)):
            made.add(rank, kind, group="all", bytes=size, peer=peer)
    topology = more.get("topology") or f"{{kind: star, hosts: {ranks + 1}}}"
    values = more.get("values", 1)
    parts = {"model": made.write(path / "run.et"), "system": system, "ranks": ranks}
    parts |= {
        "memory": memory_line(system, 4096),
        "links": more.get("links", UNLIMITED),
    }
    parts |= {"topology": topology, "values": values, "iterations": more.get("iterations", 1)}
    return load_text(EXPERIMENT % {**parts, "costs": costs})


def jct_ns(spec):
    (job,) = run_virtual(spec)["jobs"]
    assert job["exact"] and job["retransmissions"] == 0
    return job["jct_ns"]


@pytest.mark.parametrize("ranks, machines", [(8, 1), (8, 2), (4, 4)])
@pytest.mark.parametrize("kind", ["all_reduce", "reduce_scatter", "all_gather", "broadcast"])
def test_steps_of_a_ring_add_up(kind, ranks, machines, tmp_path):
    """Counted by hand: of the edges between neighbours each way leaves out one, and as many as
    there are machines are between them, all of which the longest way passes."""
    topology = f"{{kind: star, hosts: {ranks}, per_server: {ranks // machines}}}"
    spec = experiment(tmp_path, "ring", ranks, every_class(), kind, topology=topology)
    borders = 0 if machines == 1 else min(machines, ranks - 1)
    way = (ranks - 1 - borders) * INSIDE + borders * BETWEEN
    times = COLLECTIVES[kind].sums + COLLECTIVES[kind].to_all
    assert jct_ns(spec) == CALL + 2 * COPY + times * way


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("kind", ["all_reduce", "all_gather", "reduce"])
def test_a_call_takes_what_the_model_says(system, kind, tmp_path):
    topology = "{kind: star, hosts: 12, per_server: 3}"
    spec = experiment(tmp_path, system, 12, every_class(), kind, topology=topology)
    bound = call_time(set_up(spec), 0)
    assert jct_ns(spec) == bound.latency_ns > CALL + 2 * COPY


@pytest.mark.parametrize(
    "system, topology, expected",
    [
        ("switchml", "{kind: star, hosts: 9, per_server: 8}", CALL + 2 + INSIDE),
        ("switchml", "{kind: rails, servers: 2, ranks: 4}", CALL + 2 + INSIDE + BETWEEN),
        (
            "{name: esa, results_from: switch}",
            "{kind: star, hosts: 9, per_server: 4}",
            CALL + 3 + 2 * (INSIDE + 3 * EACH) + BETWEEN,
        ),
        ("esa", "{kind: star, hosts: 9}", CALL + 3 + BETWEEN),
        ("ps", "{kind: star, hosts: 9}", CALL + 4 + 2 * BETWEEN),
    ],
)
def test_sums_in_switches_and_servers(system, topology, expected, tmp_path):
    """The second of two calls begins when the first one is over, and takes as long."""
    spec = experiment(tmp_path, system, 8, every_class(), topology=topology, calls=2)
    assert jct_ns(spec) == 2 * (expected + 2 * COPY)


def test_transfers(tmp_path):
    topology = "{kind: star, hosts: 4, per_server: 2}"
    spec = experiment(tmp_path, "ring", 4, every_class(), "all_to_all", topology=topology)
    (job,) = run_virtual(spec)["jobs"]
    assert job["exact"]
    assert CALL + 5 + 2 * COPY + BETWEEN <= job["jct_ns"] < CALL + 5 + 2 * COPY + BETWEEN + 1000


def test_the_loop_of_a_model_waits_for_the_calls_of_its_layers(tmp_path):
    """One layer, whose calls cannot overlap with anything."""
    model = tmp_path / "one.csv"
    model.write_text(ONE_LAYER)
    text = EXPERIMENT % {
        "topology": "{kind: star, hosts: 2}",
        "links": UNLIMITED,
        "system": "ring",
        "memory": "",
        "values": 4,
        "costs": every_class(),
        "model": model,
        "ranks": 2,
        "iterations": 3,
    }
    assert jct_ns(load_text(text)) == 3 * (3_000_000 + CALL + 2 * COPY + 2 * BETWEEN)


@pytest.mark.parametrize("size, cost, share", [(64, 1_000, 0.25), (1 << 22, 9_000, 0.8)])
def test_auto_takes_the_protocol_with_the_least_time(size, cost, share, tmp_path):
    """Short calls LL, long ones Simple."""
    costs = "{algorithms: {ring: {LL: {call: 1 us, rate: 25 %}, Simple: {call: 9 us, rate: 80 %}}}}"
    more = {"size": size, "values": min(1024, size // 4), "links": "bandwidth: 100 Gbit/s"}
    free, spec = (experiment(tmp_path, "ring", 2, each, **more) for each in ("none", costs))
    bytes_ns = call_time(set_up(free), 0).bytes_ns / share
    assert call_time(set_up(spec), 0).bytes_ns == pytest.approx(bytes_ns, rel=1e-3)
    assert jct_ns(spec) == pytest.approx(cost + bytes_ns, rel=0.02, abs=100)


def test_a_card_carries_what_its_requests_allow(tmp_path):
    """S / (T / Q + S / C) of the link's rate: 64 KiB in 5.24 us, and 4 us / 2 between them."""
    costs = "{nic: {start: 4 us, outstanding: 2, message: 64 KiB}}"
    links = "bandwidth: 100 Gbit/s"
    took = [
        jct_ns(experiment(tmp_path, "ring", 2, each, size=1 << 22, values=1024, links=links))
        for each in ("none", costs)
    ]
    assert took[1] / took[0] == pytest.approx((5.243 + 2) / 5.243, rel=0.01)


@pytest.mark.parametrize("system", ["ring", "double_tree"])
def test_steps_and_losses(system, tmp_path):
    """What is sent again waits for its step, too, and is not added twice."""
    links = "bandwidth: 10 Gbit/s, delay: 1 us, loss: 3 %, duplicate: 2 %"
    costs = every_class()
    spec = experiment(tmp_path, system, 5, costs, size=40_000, links=links, iterations=3)
    (job,) = run_virtual(spec)["jobs"]
    assert job["exact"] and job["retransmissions"] > 0


@pytest.mark.parametrize("name", ["ring_ll_8", "ring_simple_8", "nvls_8", "collnet_8"])
def test_closed_forms_of_nccl_come_out_of_runs(name):
    """Of the expected values, those of one call; the other rows are measured by the tool."""
    (row,) = [each for each in ROWS if each["name"] == name]
    how = expected_costs.ROWS[name]
    found = expected_costs.value_of(expected_costs.points_of(how))
    assert expected_costs.holds(row, found)
    assert row["measured"] == pytest.approx(found, rel=1e-3), "as the file has it"


def test_only_measured_values_are_written():
    text = expected_costs.FILE.read_text()
    changed = expected_costs.with_measured(text, "nvls_8", 26.25)
    before, after = yaml.safe_load(text)["rows"], yaml.safe_load(changed)["rows"]
    assert [a["name"] for a, b in zip(after, before, strict=True) if a != b] == ["nvls_8"]
    differing = next(each for each in after if each["name"] == "nvls_8")
    assert differing["measured"] == 26.25 and not expected_costs.holds(differing, 26.25)
    assert expected_costs.error_of(differing, 26.25) == "+5 %"
    busbw = next(each for each in after if each["name"] == "nvls_busbw_8")
    assert expected_costs.error_of(busbw, 430) == "+0 %" and expected_costs.holds(busbw, 500)
