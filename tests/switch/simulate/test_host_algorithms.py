"""Algorithms of hosts in virtual time: distance from their bounds, exactness under losses."""

from __future__ import annotations

import pytest
from p4fabric_testing.matrix import first_of, pairwise

from testbed.algorithms.by_name import USE_OF
from testbed.experiment import load_text
from testbed.schemes import set_up
from testbed.setup.call_times import call_time
from tests.support.ranks import Ranks
from tests.support.virtual import run_virtual

SYSTEMS = ("ring", "halving_doubling", "double_tree", "hierarchical", "colocated_ps")
EXPERIMENT = """
name: test
runtime: virtual
topology: %(topology)s
links: {bandwidth: 100 Gbit/s, delay: 1 us, loss: %(loss)s}
system: %(system)s
values_per_packet: 256
virtual: {worker_delay: 500 ns, worker_jitter: 0}
jobs:
  - {name: job, model: %(model)s, workers: %(ranks)d, iterations: %(iterations)d}
"""


def experiment(path, system, ranks, size, kind="all_reduce", loss="0", topology="", iterations=1):
    made = Ranks(all=tuple(range(ranks)))
    for rank in range(ranks):
        peer = ranks // 2 if kind in ("broadcast", "reduce") else -1
        made.add(rank, kind, group="all", bytes=size, peer=peer)
    parts = {"model": made.write(path / "run.et"), "system": system, "ranks": ranks, "loss": loss}
    parts["topology"] = topology or f"{{kind: star, hosts: {ranks}}}"
    return load_text(EXPERIMENT % {**parts, "iterations": iterations})


def allowed_ns(system, ranks, bound):
    """What a call of some hundred kilobytes may take. Packets are whole: one server on a worker may
    get one more than others from each rank, and answer it. Many senders to one receiver meet in its
    queue. Three ranks have trees of two, whose few packets fill no pipeline."""
    if system == "colocated_ps":
        frame_ns = 8 * 1104 / 100
        return (1.08 if ranks > 24 else 1.05) * bound.model_ns + 3000 + 2 * ranks * frame_ns
    return (1.15 if (system, ranks) == ("double_tree", 3) else 1.05) * bound.model_ns + 3000


def cases(kinds, ranks, others):
    """All systems and kinds of calls with so many ranks, and pairs of them with others."""
    return [
        *((system, kind, ranks) for system in SYSTEMS for kind in kinds),
        *first_of(pairwise(SYSTEMS, kinds, others), 0),
    ]


@pytest.mark.parametrize("system, kind, ranks", cases([*USE_OF], 7, [2, 3, 8, 16, 33]))
def test_every_call_carries_what_is_needed_and_no_more(system, kind, ranks, tmp_path):
    own = 1 if kind == "all_gather" else ranks
    spec = experiment(tmp_path, system, ranks, 0 if kind == "barrier" else own * 100_000, kind)
    tables = run_virtual(spec)
    (job,) = tables["jobs"]
    bound = call_time(set_up(spec), 0)
    assert job["exact"] and job["retransmissions"] == 0
    assert bound.least_ns <= job["jct_ns"] < allowed_ns(system, ranks, bound)
    # No packet that is not needed: for each rank but the root, one up, or one down, or both.
    parts = kind in ("reduce_scatter", "all_gather")
    packets = ranks * -(-25_000 // 256) if parts else -(-max(ranks * 25_000, 1) // 256)
    packets = 1 if kind == "barrier" else packets
    ways = 2 if kind in ("all_reduce", "barrier") else 1
    assert job["gradient_packets"] == ways * (ranks - 1) * packets


def test_what_is_hierarchical_is_faster_across_servers(tmp_path):
    """Servers of four ranks that share the rate of one card among them."""
    rails = (
        "{kind: rails, servers: 3, ranks: 4, ps: 0, scale_up: {bandwidth: 400 Gbit/s},"
        " nic: {bandwidth: 25 Gbit/s}}"
    )
    took = {}
    for system in SYSTEMS:
        spec = experiment(tmp_path, system, 12, 1 << 22, topology=rails)
        (job,) = run_virtual(spec)["jobs"]
        bound = call_time(set_up(spec), 0)
        assert job["exact"] and bound.least_ns <= job["jct_ns"]
        took[system] = job["jct_ns"]
        if system in ("ring", "hierarchical"):
            assert job["jct_ns"] < 1.05 * bound.model_ns
    assert took["hierarchical"] < took["halving_doubling"]
