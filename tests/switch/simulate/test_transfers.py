"""Transfers between single ranks of a program in virtual time: exact whatever is lost, in the time
that links and windows allow."""

from __future__ import annotations

import numpy as np
import pytest
from p4fabric.base.errors import RunError

from testbed.experiment import Experiment, load_text
from testbed.simulate import simulation
from tests.support.ranks import Ranks, every_transfer, text
from tests.support.virtual import run_virtual

SYSTEMS = ["esa", "switchml", "grid", "atp", "ps", "ring", "tree"]
HEADERS = 14 + 20 + 8 + 24 + 4
FAULTS = ", loss: 1 %, duplicate: 1 %, reorder: 1 %"


def experiment(*arguments, **options) -> Experiment:
    return load_text(text(*arguments, **options))


def test_every_value_that_arrives_is_checked(tmp_path, monkeypatch):
    """The error of a wrong one names node, source and position."""
    made = Ranks(all=(0, 1, 2))
    for rank in range(3):
        made.add(rank, "all_to_all", group="all", bytes=6000)
    spec = experiment(made.write(tmp_path / "one.et"), "esa", 3)
    (job,) = run_virtual(spec)["jobs"]
    assert job["values_checked"] == 3 * 2 * 500

    class Wrong(simulation.Simulation):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            # Rank 2 makes its values for rank 0 as if for rank 1.
            self.nodes.present_at(2).machine.protocol.links.rank[0] = 1

    monkeypatch.setattr(simulation, "Simulation", Wrong)
    with pytest.raises(RunError, match=r"one\.0\.et: rank 0, node 0 .*rank 2, position 0: got"):
        run_virtual(spec)


def test_an_all_to_all_takes_the_time_of_its_bytes(tmp_path):
    """(n - 1)/n S/B, as all ranks send and receive all the time, also if they are not in step."""
    size = 8 * 256 * 100
    made = Ranks(all=tuple(range(8)))
    for rank in range(8):
        made.add(rank, "compute", duration_ns=17_000 * (rank * 5 % 8))
        made.add(rank, "all_to_all", group="all", bytes=size)
    tables = run_virtual(experiment(made.write(tmp_path / "a2a.et"), "esa", 8))
    for row in tables["hosts"][:8]:
        assert row["bytes_sent"] - HEADERS * row["packets_sent"] == 7 / 8 * size
        assert row["bytes_received"] - HEADERS * row["packets_received"] == 7 / 8 * size
    (job,) = tables["jobs"]
    least_ns = 8 * 700 * (HEADERS + 256)
    assert least_ns + 119_000 < job["jct_ns"] < 1.05 * least_ns + 119_000
    assert job["retransmissions"] == 0


def test_a_receive_waits_for_its_send_and_a_send_for_nobody(tmp_path):
    """A chain of ranks: each computes when it has the bytes of the one before, which goes on."""
    made = Ranks(all=(0, 1, 2))
    for rank in range(3):
        if rank > 0:
            made.add(rank, "recv", peer=rank - 1, bytes=256_000)
        made.add(rank, "compute", duration_ns=1_000_000)
        if rank < 2:
            made.add(rank, "send", peer=rank + 1, bytes=256_000)
    tables = run_virtual(experiment(made.write(tmp_path / "chain.et"), "ps", 3))
    (job,) = tables["jobs"]
    one_ns = 8 * 1000 * (HEADERS + 256)
    assert 3_000_000 + 2 * one_ns < job["jct_ns"] < 3_000_000 + 2.1 * one_ns


def test_a_rank_that_only_sends_waits_for_one_that_is_slow(tmp_path):
    """It may be an iteration ahead, but not further: then its packets are refused."""
    made = Ranks(all=(0, 1))
    made.add(0, "send", peer=1, bytes=2560)
    got = made.add(1, "recv", peer=0, bytes=2560)
    made.add(1, "compute", (got,), duration_ns=2_000_000)
    path = made.write(tmp_path / "fast.et")
    tables = run_virtual(experiment(path, "esa", 2, 1, FAULTS, iterations=20))
    (job,) = tables["jobs"]
    assert job["exact"]
    assert 40_000_000 < job["jct_ns"] < 44_000_000
    # While it waits it tries with single packets, less and less often.
    assert job["retransmissions"] < 100
    ends = {worker: [] for worker in (0, 1)}
    rows = tables["iterations"]
    for worker, end in zip(rows["worker"], rows["end_ns"], strict=True):
        ends[int(worker)].append(int(end))
    for number in range(18):
        assert ends[0][number + 2] > ends[1][number]


def test_marks_keep_queues_short_where_many_ranks_send_to_one(tmp_path):
    made = Ranks(all=tuple(range(8)))
    for rank in range(8):
        made.add(rank, "gather", group="all", bytes=512_000, peer=0)
    path = made.write(tmp_path / "incast.et")
    marks = ", queue: 200 packets, ecn_threshold: 40 packets"
    tables = run_virtual(experiment(path, "esa", 8, 1, marks))
    (job,) = tables["jobs"]
    least_ns = 7 * 8 * 2000 * (HEADERS + 256)
    assert least_ns < job["jct_ns"] < 1.15 * least_ns
    assert job["retransmissions"] < 0.02 * job["gradient_packets"]


def test_transfers_and_sums_share_a_link(tmp_path):
    """A sum and an all_to_all at once take as long as one after the other."""
    took = {}
    for name, order in {"one": (None, None), "both": ((), ())}.items():
        made = Ranks(a=(0, 1, 2, 3), b=(0, 1, 2, 3))
        for rank in range(4):
            made.add(rank, "all_to_all", order[0], group="a", bytes=1_024_000)
            made.add(rank, "all_reduce", order[1], group="b", bytes=768_000)
        tables = run_virtual(experiment(made.write(tmp_path / f"{name}.et"), "esa", 4))
        took[name] = tables["jobs"][0]["jct_ns"]
    assert 0.9 * took["one"] < took["both"] < 1.1 * took["one"]


def test_runs_repeat_to_the_bit_on_one_thread_and_two(tmp_path):
    path = every_transfer().write(tmp_path / "all.et")
    spec = experiment(path, "switchml", 4, 2, FAULTS, iterations=2)
    one, again, two = run_virtual(spec), run_virtual(spec), run_virtual(spec, threads=2)
    for other in (again, two):
        assert one["jobs"] == other["jobs"] and one["collectives"] == other["collectives"]
        for name, column in one["iterations"].items():
            assert np.array_equal(column, other["iterations"][name])
