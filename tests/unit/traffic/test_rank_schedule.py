"""When the nodes of a program begin and end."""

from __future__ import annotations

from testbed.traffic.rank_graph import SEND, Program, check
from testbed.traffic.rank_schedule import schedule
from testbed.traffic.transformer import Transformer
from tests.support.ranks import Ranks


def made(ranks: Ranks) -> Program:
    program = Program(ranks.groups, tuple(map(tuple, ranks.nodes)))
    check(program)
    return program


def test_a_processor_takes_the_first_node_of_the_file_and_calls_run_beside_it():
    ranks = Ranks(a=(0, 1), b=(1, 0))
    for rank in range(2):
        start = ranks.add(rank, "compute", duration_ns=100 + rank)
        ranks.add(rank, "all_reduce", (start,), group="a", bytes=8)
        ranks.add(rank, "compute", (start,), duration_ns=50)
        ranks.add(rank, "compute", (start,), duration_ns=10)
        ranks.add(rank, "all_reduce", (1, 2), group="b", bytes=8)
    found = schedule(made(ranks), lambda rank, node: 1000)
    # The slower rank decides when the first call begins, and the call ends on both at once.
    assert found.begin_ns == [[0, 100, 100, 150, 1101], [0, 101, 101, 151, 1101]]
    assert found.end_ns == [[100, 1101, 150, 160, 2101], [101, 1101, 151, 161, 2101]]
    assert found.total_ns == 2101


def test_calls_of_a_group_follow_each_other_and_those_of_others_do_not_wait():
    ranks = Ranks(a=(0, 1), b=(0, 1), alone=(0,))
    for rank in range(2):
        for group in ("a", "a", "b"):
            ranks.add(rank, "barrier", (), group=group)
        ranks.add(rank, "barrier", (), group="a", algorithm="ring")  # whatever carries them
    ranks.add(0, "barrier", (), group="alone")
    found = schedule(made(ranks), lambda rank, node: 10)
    assert found.end_ns == [[10, 20, 10, 30, 0], [10, 20, 10, 30]]


def test_a_receive_waits_for_its_send_and_a_send_holds_nothing_up():
    ranks = Ranks(everyone=(0, 1))
    first = ranks.add(0, "compute", duration_ns=5)
    ranks.add(0, "send", (first,), peer=1, bytes=100)
    ranks.add(0, "compute", (first,), duration_ns=7)
    ranks.add(1, "recv", peer=0, bytes=100)
    ranks.add(1, "compute", duration_ns=1)
    found = schedule(made(ranks), lambda rank, node: node.bytes if node.kind == SEND else 0)
    assert found.end_ns == [[5, 105, 12], [105, 106]]
    assert found.begin_ns[1] == [0, 105]


def test_a_receive_is_not_done_before_its_rank_asks_for_it():
    ranks = Ranks(everyone=(0, 1))
    ranks.add(0, "send", peer=1, bytes=100)
    start = ranks.add(1, "compute", duration_ns=500)
    ranks.add(1, "recv", (start,), peer=0, bytes=100)
    ranks.add(1, "compute", duration_ns=1)
    found = schedule(made(ranks), lambda rank, node: 100)
    assert found.end_ns == [[100], [500, 500, 501]]


def test_a_pipeline_fills_and_drains():
    """1F1B: with m microbatches and p stages that take f forward and b backward, and a network
    without time, an iteration takes (m + p - 1) (f + b)."""
    stages, microbatches = 4, 8
    model = Transformer(
        "llama2-7b", 1024, global_batch=microbatches, pp=stages, layers=64, utilisation=0.5
    )
    program = model.load()
    found = schedule(program, lambda rank, node: 0)
    busy = [sum(node.duration_ns for node in nodes) for nodes in program.ranks]
    updates = [nodes[-1].duration_ns for nodes in program.ranks]
    # Stages differ by the head, and by their updates at the end.
    slowest = max(busy) - min(updates)
    least = (microbatches + stages - 1) / microbatches * (min(busy) - max(updates))
    most = (microbatches + stages - 1) / microbatches * slowest + max(updates)
    assert least < found.total_ns < most
