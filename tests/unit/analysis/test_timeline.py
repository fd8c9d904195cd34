"""Pieces of a timeline are what the rows of workers say, drawn or merged."""

from __future__ import annotations

import random
from collections import defaultdict

import pytest

from testbed.analysis.data import timeline_data
from tests.support.synthetic_results import tables, write_tables


@pytest.mark.parametrize("seed", range(10))
def test_pieces_are_what_workers_did(seed, tmp_path):
    draw, made = random.Random(seed), tables()
    for row in made["iterations"]:
        row["end_ns"] += draw.randrange(10**7)
    for row in made["tensors"]:
        row["first_sent_ns"] += draw.randrange(10**6)
        row["done_ns"] += draw.randrange(10**7)
        row["forward_end_ns"] = draw.randint(row["forward_start_ns"], row["ready_ns"])
    results = write_tables(tmp_path, made)
    rows = timeline_data.worker_rows(results)
    assert rows.workers == ((0, 0), (0, 1), (1, 0), (1, 1))
    pieces = timeline_data.worker_phases(results, rows)
    wanted = []
    for number, worker in enumerate(rows.workers):
        own = {
            name: [row for row in made[name] if (row["job"], row["worker"]) == worker]
            for name in ("iterations", "tensors")
        }
        computing, turns = [], defaultdict(int)
        for row in own["tensors"]:
            at, turn = row["iteration"], row["forward_end_ns"]
            computing.append((row["forward_start_ns"], turn, "forward", at))
            turns[at] = max(turns[at], turn)
            wanted.append((number, "communication", at, row["first_sent_ns"], row["done_ns"]))
        for row in own["iterations"]:
            at = row["iteration"]
            computing.append((turns[at], row["compute_end_ns"], "backward", at))
        wanted += [(number, phase, at, begin, end) for begin, end, phase, at in computing]
        until = min(begin for begin, *_ in computing)
        end = own["iterations"][-1]["end_ns"]
        for begin, over, _, turn in [*sorted(computing), (end, end, "", at)]:
            if begin > until:
                wanted.append((number, "waiting", turn, until, begin))
            until = max(until, over)
    assert sorted(pieces.itertuples(index=False, name=None)) == sorted(wanted)
    merged(pieces, draw.randrange(4))
    painted(pieces, wanted, draw.choice([5, 9, 40]))


def merged(pieces, doubled: int) -> None:
    """Neighbours of a kind and an iteration are one if and only if they are near each other: the
    least gap, doubled so often, with which there are so few."""
    gap = (pieces["end"].max() - pieces["start"].min()) / 2000
    ordered = timeline_data._sorted(pieces)
    counts = [len(timeline_data._joined(ordered, gap * 2**times)) for times in range(5)]
    found, gap_ns = timeline_data.merged(pieces, counts[doubled])
    gap *= 2 ** counts.index(counts[doubled])
    assert gap_ns == gap and len(found) == counts[doubled]
    keys, wanted = ["row", "phase", "iteration"], []
    for key, some in pieces.sort_values("start").groupby(keys):
        joined: list[list[int]] = []
        for begin, end in zip(some["start"], some["end"], strict=True):
            if joined and begin - joined[-1][1] <= gap:
                joined[-1][1] = max(joined[-1][1], end)
            else:
                joined.append([begin, end])
        wanted += [(*key, *each) for each in joined]
    assert sorted(found.itertuples(index=False, name=None)) == sorted(wanted)


def painted(pieces, wanted: list[tuple], columns: int) -> None:
    """A part of a lane has the phase that took most of it, if half of it was used."""
    lanes = timeline_data.painted(pieces, 4, columns)
    width = pieces["end"].max() / columns
    taken = defaultdict(set)  # by row, column and phase: hundredths of the column
    for row, phase, _, begin, end in wanted:
        for tick in range(round(100 * begin / width), round(100 * end / width)):
            taken[row, tick // 100, phase].add(tick)
    for row in range(4):
        for column in range(columns):
            used = {phase: len(taken[row, column, phase]) for phase in timeline_data.PHASES}
            talked = used.pop("communication")
            for lane, phases in zip(lanes, (used, {"communication": talked}), strict=True):
                total, most = sum(phases.values()), max(phases, key=phases.get)
                told = lane[row, column]
                if abs(total - 50) > 3:
                    assert (told >= 0) == (total > 50), (row, column, phases)
                if told >= 0:
                    assert phases[timeline_data.PHASES[told]] >= phases[most] - 3
