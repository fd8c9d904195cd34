"""Links that pause: over a leaf-spine of 2:1 nothing is dropped and nothing sent again, where lossy
links drop."""

from __future__ import annotations

import re
from collections import Counter, defaultdict

import pytest
from p4engine.switch.lossless_links import pauses
from p4fabric.base import units
from p4fabric.base.errors import RunError

from testbed.experiment import load_text
from testbed.run_parts.program import prepare
from testbed.systems import SYSTEMS
from testbed.tracing import paused, rerun
from testbed.tracing.fragments import Fragment
from tests.support.experiments import memory_line, setup_of
from tests.support.experiments import message as refused
from tests.support.ranks import Ranks
from tests.support.virtual import run_virtual

TEXT = """
name: pauses
runtime: virtual
topology: {kind: leaf_spine, leaves: 2, spines: 1, hosts: 6}
links:
  bandwidth: 10 Gbit/s
  delay: 1 us
  queue: 30 packets
  ecn_threshold: none
  lossless: %(lossless)s
  each:
    - {between: [s1, s3], bandwidth: 15 Gbit/s}
    - {between: [s2, s3], bandwidth: 15 Gbit/s}
system: %(system)s
%(memory)s
values_per_packet: 64
jobs:
  - {workers: 4, model: resnet18, scale: 0.002, compute_scale: 0, iterations: 1, %(a)s}
  - {workers: 4, model: resnet18, scale: 0.002, compute_scale: 0, iterations: 1, %(b)s}
"""
A = "placement: {workers: [h1, h2, h7, h8]%s}"
B = "placement: {workers: [h4, h5, h9, h10]%s}"


def as_text(system: str, lossless: str, memory: int) -> str:
    servers = ", ps: h11", ", ps: h6"
    if "switchml" in system or "tree" in system or "ring" in system:
        servers = "", ""
    return TEXT % {
        "lossless": lossless,
        "system": system,
        "memory": memory_line(system, memory),
        "a": A % servers[0],
        "b": B % servers[1],
    }


def spec_of(system: str, lossless: str, memory: int = 64):
    return load_text(as_text(system, lossless, memory))


def drops_and_resent(tables) -> tuple[int, int]:
    drops = sum(row["queue_drops"] for row in tables["links"])
    return drops, sum(job["retransmissions"] for job in tables["jobs"])


PFC = "{control: pfc, threshold: 10 KiB}"
CREDITS = "{control: cbfc, headroom: 20 KiB}"


WINDOWS = ["{name: esa, window: 256}", "{name: switchml, window: 512}"]


@pytest.mark.parametrize(
    ("system", "how"),
    [*((system, how) for system in WINDOWS for how in (PFC, CREDITS)), ("{name: atp}", PFC)],
)
def test_lossless_links_drop_and_resend_nothing(system, how):
    """ESA and ATP in 64 aggregators, where results come by different ways; SwitchML with windows
    that are longer than the queues."""
    memory = 2048 if "switchml" in system else 64
    lossy = drops_and_resent(run_virtual(spec_of(system, "none", memory)))
    assert lossy[0] > 0 and lossy[1] > 0
    tables = run_virtual(spec_of(system, how, memory))
    assert drops_and_resent(tables) == (0, 0)
    buffers = tables["buffers"]
    assert sum(row["drops"] for row in buffers) == 0
    assert sum(row["paused_ns"] + (row["host_paused_ns"] or 0) for row in buffers) > 0
    assert all(row["headroom_peak_bytes"] <= row["headroom_bytes"] for row in buffers)
    if how == PFC:
        assert {row["neighbour"] for row in tables["pauses"]} & {"h1", "h2", "h7", "h8"}


WIDE = """
name: wide
runtime: virtual
topology: {kind: leaf_spine, leaves: 8, spines: 1, hosts: 9}
links:
  bandwidth: 10 Gbit/s
  delay: 1 us
  queue: 30 packets
  ecn_threshold: none
  lossless: %s
  each: [%s]
system: %s
%s
jobs: [{workers: 64, iterations: 1, model: %s, placement: {workers: [%s}}]
"""
UPLINKS = ", ".join(f"{{between: [s{leaf}, s9], bandwidth: 40 Gbit/s}}" for leaf in range(1, 9))
RANKS = [f"h{9 * leaf + n}" for leaf in range(8) for n in range(1, 9)]
ALL_SYSTEMS = ["esa", "atp", "a2tp", "switchml", "tree", "hierarchical", "ps", "ring",
               "halving_doubling", "double_tree"]  # fmt: skip


@pytest.mark.parametrize("system", ALL_SYSTEMS)
def test_groups_of_64_ranks_send_nothing_again_with_any_system(system, tmp_path):
    """A group on each leaf, one across leaves for each place there, and all; uplinks of 2:1."""
    leaves = {f"leaf{n}": tuple(range(8 * n, 8 * n + 8)) for n in range(8)}
    across = {f"across{n}": tuple(range(n, 64, 8)) for n in range(8)}
    made = Ranks(all=tuple(range(64)), **leaves, **across)
    for rank in range(64):
        for group, size in (
            (f"across{rank % 8}", 64_000),
            (f"leaf{rank // 8}", 8_000),
            ("all", 8_000),
        ):
            made.add(rank, "all_reduce", (), group=group, bytes=size)
    served = SYSTEMS[system].servers != "none"
    place = ", ".join(RANKS) + ("]" + ", ps: h9" if served else "]")
    path, memory = made.write(tmp_path / "run.et"), memory_line(system, 512)
    text = WIDE % (SCARCE[0].join("{}"), UPLINKS, system, memory, path, place)
    tables = run_virtual(load_text(text))
    assert drops_and_resent(tables) == (0, 0)
    assert all(job["outcome"] == "finished" and job["exact"] for job in tables["jobs"])
    assert sum(row["paused_ns"] + (row["host_paused_ns"] or 0) for row in tables["buffers"]) > 0


# Job b's worker on s1 and job a's on s2 send slowly: the spine's inputs fill with parts of one job.
KEPT = """
name: kept
runtime: virtual
topology: {kind: leaf_spine, leaves: 2, spines: 1, hosts: 2}
links:
  bandwidth: 10 Gbit/s
  delay: 100 ns
  ecn_threshold: none
  lossless: {%(how)s, sums: %(sums)s}
  each:
    - {between: [h2, s1], bandwidth: 1 Gbit/s}
    - {between: [h3, s2], bandwidth: 1 Gbit/s}
system: {name: tree, mode: quotas, trees: 1}
memory: {aggregators: 1024}
values_per_packet: 64
jobs:
  - {name: a, model: resnet18, workers: 2, iterations: 1, scale: 0.001, compute_scale: 0,
     placement: {workers: [h1, h3]}}
  - {name: b, model: resnet18, workers: 2, iterations: 1, scale: 0.001, compute_scale: 0,
     placement: {workers: [h2, h4]}}
"""
SCARCE = ["control: pfc, threshold: 4 KiB, reserve: 0", "control: cbfc, headroom: 4 KiB"]


@pytest.mark.parametrize("how", SCARCE)
def test_sums_that_stay_in_buffers_deadlock_and_the_cycle_is_named(how):
    with pytest.raises(RunError) as caught:
        run_virtual(load_text(KEPT % {"how": how, "sums": "stay"}))
    found = str(caught.value)
    assert "deadlock: 2 ports wait for each other, and nothing moves" in found
    for leaf, job in (("s1", "a"), ("s2", "b")):  # what waits is of the job that came first
        kept = rf"{leaf}-p3 was paused by s3, which keeps \d+ B of sums that are not complete; "
        assert re.search(kept + rf"\d+ packets wait for it, first fragment \d+ of job {job}", found)


@pytest.mark.parametrize("how", SCARCE)
def test_sums_that_leave_buffers_at_once_do_not(how):
    tables = run_virtual(load_text(KEPT % {"how": how, "sums": "leave"}))
    assert drops_and_resent(tables) == (0, 0)
    assert all(job["outcome"] == "finished" for job in tables["jobs"])


def test_full_outputs_of_two_switches_to_each_other_deadlock_and_both_are_named():
    """With pauses by output a full port stops all inputs, whatever the packets there wait for."""
    how = "{control: pfc, threshold: 10 KiB, pause_by: output}"
    flow = "background: [{kind: udp, from: h1, to: h5, rate: 3 Gbit/s, size: 900 B}]\n"
    text = as_text("{name: esa, window: 256}", how, 64) + flow
    with pytest.raises(RunError, match=r"at 0\.00\d+ s deadlock: 2 ports") as caught:
        run_virtual(load_text(text))
    for line in ("s1-p7 was paused by s3", "s3-p1 was paused by s1"):
        assert line in str(caught.value)


def test_sums_can_stay_with_trees_alone():
    text = KEPT % {"how": "control: pfc", "sums": "stay"}
    found = refused(text.replace("{name: tree, mode: quotas, trees: 1}", "switchml"))
    assert "links.lossless.sums: found stay with system switchml; allowed: leave" in found
    twice = text.replace("links:\n", "links:\n  duplicate: 1 %\n", 1)
    assert "found duplicate 1 %; allowed: 0 with sums: stay" in refused(twice)


def test_gradients_can_be_lossless_beside_background_that_is_not():
    """Both share the hosts' links: the background alone is dropped, and its class is not paused."""
    how = "{control: pfc, classes: gradients, threshold: 10 KiB}"
    text = as_text("{name: esa, window: 256}", how, 64)
    text += "background: [{from: h3, to: h12, kind: cbr, rate: 9 Gbit/s, size: 1250 B}]\n"
    tables = run_virtual(load_text(text))
    assert sum(job["retransmissions"] for job in tables["jobs"]) == 0
    lost = [row for row in tables["losses"] if row["cause"] == "queue_full"]
    assert lost and {row["job"] for row in lost} == {None}
    (flow,) = tables["flows"]
    assert flow["lost"] > 0
    rows = {row["neighbour"]: row for row in tables["buffers"] if row["switch"] == "s1"}
    assert rows["h3"]["host_paused_ns"] == 0 and rows["h1"]["host_paused_ns"] > 0


def test_a_trace_names_who_was_paused_by_whom(monkeypatch):
    """All pauses that a wait was behind; the last one of each switch as if it lasted to the end."""
    setup, kept = setup_of(as_text("{name: esa, window: 256}", PFC, 64)), []

    def kept_pauses(switch):
        *rows, last = pauses(switch)[0]
        kept.append((switch.stats()["now_ns"], [*rows, last._replace(until_ns=None)]))
        return kept[-1][1], 0

    monkeypatch.setattr(paused, "pauses", kept_pauses)
    wanted = [Fragment(0, number) for number in range(400)]
    found, error = rerun.paths(setup, prepare(setup).compiled, wanted)
    assert not error
    topology, spans = setup.platform.topology, defaultdict(list)
    for name, (now_ns, rows) in zip(topology.switches, kept, strict=True):
        ports = topology.ports(name)
        for row in rows:
            span = row.from_ns, row.until_ns or now_ns, ports[row.cause][0]
            spans[ports[row.port][0], name].append(span)
    told = Counter()
    for wait in (wait for path in found.values() for wait in path.waits):
        what, _, said = wait.what.partition("; waited ")
        way = re.fullmatch(r"(?:in the queue of|on the link(?= h)) (\w+) to (\w+)", what)
        behind = Counter()
        for begin, end, cause in spans[way.groups()] if way else ():
            behind[cause] += max(0, min(end, wait.end_ns) - max(begin, wait.begin_ns))
        behind = +behind
        who, by = way.groups() if way else ("", "")
        where = f"{who}-p{topology.port_to(who, by)}" if who in topology.switches else who
        causes = " and ".join(f"{cause}'s port" for cause in behind)
        words = f"{units.time(behind.total())}: {where} was paused by {by} for {causes}"
        assert said == (words if behind else ""), wait
        told[who in topology.switches, len(behind)] += 1
    assert {(True, 1), (False, 1), (True, 2)} <= told.keys()


@pytest.mark.parametrize(
    ("links", "message"),
    [
        ("{control: pfc, headroom: 1 KiB}", "B can come after a pause, and the headroom is 1024 B"),
        ("{control: pfc, buffer: 10 KiB}", "headroom and reserve of 7 ports take"),
        ("{control: cbfc, headroom: 300 B}", "has no room for two frames"),
    ],
)
def test_what_cannot_be_lossless_is_refused_with_the_bytes_needed(links, message):
    found = refused(as_text("{name: esa, window: 256}", links, 64))
    assert message in found and "allowed: at least" in found


def test_lossless_links_need_the_embedded_switch_and_rates():
    text = as_text("{name: esa, window: 256}", "pfc", 64)
    on_mininet = text.replace("runtime: virtual", "runtime: mininet")
    restarts = on_mininet + "faults:\n  - {at: 1 s, fault: restart, switch: s1}\n"
    load_text(restarts)
    assert "found restart; allowed: pause, slow" in refused(restarts.replace("pfc", "cbfc"))
    on_bmv2 = on_mininet.replace("mininet\n", "mininet\nswitch: bmv2\n")
    assert "BMv2 has no pause frames" in refused(on_bmv2)
    assert "h1-s1 has no bandwidth" in refused(text.replace("  bandwidth: 10 Gbit/s\n", "", 1))
    lossy = text.replace("delay: 1 us", "delay: 1 us\n  loss: 1 %").replace("pfc", "cbfc")
    assert "allowed: 0 with cbfc" in refused(lossy)
