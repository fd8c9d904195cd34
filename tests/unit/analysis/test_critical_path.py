"""Critical paths of made-up steps."""

from __future__ import annotations

import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from testbed.analysis.data.critical_path import COMPUTE, WAITING, pieces

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
