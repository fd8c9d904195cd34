"""Critical paths of made-up steps."""

from __future__ import annotations

import random
from itertools import pairwise
from types import SimpleNamespace

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.analysis.data.critical_path import COMPUTE, WAITING, Piece, _Links, pieces

COLUMNS = ["worker", "node", "kind", "communicator", "bytes", "start_ns", "end_ns"]


def steps(*rows: tuple) -> pd.DataFrame:
    found = pd.DataFrame(rows, columns=COLUMNS)
    return found.assign(iteration=0)


def test_a_path_changes_to_the_rank_that_came_last():
    """Rank 1 computes longer, so rank 0 waits in the sum; then rank 0 sends to rank 2, which had
    called recv long ago."""
    table = steps(
        (0, 0, COMPUTE, None, None, 0, 10),
        (0, 1, "all_reduce", "0 1", 8, 10, 40),
        (0, 2, "send", "0 2", 8, 40, 50),
        (1, 0, COMPUTE, None, None, 0, 30),
        (1, 1, "all_reduce", "0 1", 8, 30, 38),
        (2, 0, "recv", "0 2", 8, 0, 55),
        (2, 1, COMPUTE, None, None, 60, 90),
    )
    path = [
        (piece.worker, piece.kind, piece.start_ns, piece.end_ns) for piece in pieces(table, 0, 95)
    ]
    assert path == [
        (1, COMPUTE, 0, 30),
        (0, "all_reduce", 30, 40),
        (2, "recv", 40, 55),
        (2, WAITING, 55, 60),
        (2, COMPUTE, 60, 90),
        (2, WAITING, 90, 95),
    ]


@given(st.data(), st.integers(1, 4), st.integers(1, 30))
def test_pieces_follow_each_other_without_a_gap(data, ranks, count):
    """Also where steps overlap, have no length or are of other ranks' calls alone."""
    rows = []
    for node in range(count):
        start = data.draw(st.integers(5, 100))
        kind = data.draw(st.sampled_from([COMPUTE, "all_reduce", "broadcast", "send", "recv"]))
        group = {COMPUTE: None, "send": "0 1", "recv": "0 1"}.get(kind, "all")
        end = start + data.draw(st.integers(1, 30))
        rows.append((data.draw(st.integers(0, ranks - 1)), node, kind, group, 1.0, start, end))
    begin, end = data.draw(st.integers(0, 5)), 140
    path = pieces(steps(*rows), begin, end)
    assert [piece.start_ns for piece in path] == [begin, *(piece.end_ns for piece in path[:-1])]
    assert path[-1].end_ns == end
    assert all(piece.start_ns < piece.end_ns for piece in path)
    # Only a call that needs all ranks leads to another one, also where nothing is left of it.
    calls = {time for row in rows if row[2] in ("all_reduce", "recv") for time in row[5:]}
    for before, after in pairwise(path):
        led = after.kind in ("all_reduce", "recv") or after.start_ns in calls
        assert before.worker == after.worker or led


# Of a call's bytes, as table steps has them, those that one of n ranks has to send or receive.
MOVED = {
    **dict.fromkeys(("all_reduce", "broadcast", "reduce", "send", "recv"), lambda n: 1),
    **dict.fromkeys(("all_gather", "gather"), lambda n: n - 1),
    **dict.fromkeys(("reduce_scatter", "all_to_all", "scatter"), lambda n: (n - 1) / n),
}


@pytest.mark.parametrize("seed", range(12))
def test_bytes_take_the_best_link_of_a_rank_or_what_its_switch_has_onwards(seed):
    """Hosts are at one leaf or at two of them; directions of a link have rates of their own."""
    draw = random.Random(seed)
    at = {f"h{rank}": draw.sample(["s1", "s2"], draw.randint(1, 2)) for rank in range(4)}
    pairs = [(leaf, host) for host, leaves in at.items() for leaf in leaves]
    pairs += [(leaf, "s3") for leaf in ("s1", "s2")]
    rows = [(0, *ends, 10 ** draw.randint(8, 11)) for ends in pairs for _ in range(2)]
    rows += [(0, "s3", leaf, 10**12) for leaf in ("s1", "s2")]
    run = SimpleNamespace(
        links=pd.DataFrame(rows, columns=["repetition", "node", "neighbour", "rate_bps"]),
        hosts=pd.DataFrame({"repetition": 0, "job": 0, "worker": range(4), "host": [*at]}),
    )
    best = {ends: max(row[3] for row in rows if row[1:3] == ends) for ends in pairs}
    for kind, moved in MOVED.items():
        ranks = sorted(draw.sample(range(4), draw.randint(2, 4)))
        own = f"h{draw.choice(ranks)}"
        common = {*at[own]}.intersection(*(at[f"h{rank}"] for rank in ranks))
        if common:
            rate = max(best[leaf, own] for leaf in common)
        else:
            rate = max(min(best[leaf, own], best[leaf, "s3"]) for leaf in at[own])
        name = "all" if len(ranks) == 4 else " ".join(map(str, ranks))
        piece = Piece(int(own[1:]), kind, name, 1000.0 * len(ranks), 0, 1)
        wanted = 1000 * len(ranks) * moved(len(ranks)) * 8e9 / rate
        assert _Links(run).least_ns((0, 0), piece, 4) == pytest.approx(wanted), kind
