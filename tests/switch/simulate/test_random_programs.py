"""Random programs of ranks in virtual time: every one ends, with every value right."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from testbed.experiment import load_text
from testbed.traffic import chakra
from tests.support.matrix import first_of
from tests.support.ranks import drawn, text
from tests.support.virtual import run_virtual

SYSTEMS = ("esa", "switchml", "atp", "grid", "ps", "ring")


@pytest.mark.parametrize("seed", first_of(range(40), 3))
def test_a_random_program_ends_with_every_value_right(seed, tmp_path: Path):
    made = drawn(seed)
    path = made.write(tmp_path / "drawn.et")
    assert chakra.load(path).groups == made.groups  # and it is sound
    system, faults = SYSTEMS[seed % 6], ", loss: 1 %, duplicate: 1 %, reorder: 2 %" * (seed % 2)
    iterations = 1 + seed % 3
    spec = load_text(text(path, system, len(made.nodes), 1 + seed % 2, faults, iterations))
    tables = run_virtual(spec)
    (job,) = tables["jobs"]
    assert job["exact"]
    expected: Counter[tuple] = Counter()
    for rank, nodes in enumerate(made.nodes):
        for node in nodes:
            alone = node.group and len(made.groups[node.group]) == 1
            moved = node.kind in ("all_to_all", "gather", "scatter")
            if node.kind != "compute" and (moved or not alone):
                expected[rank, node.kind] += iterations
    found: Counter[tuple] = Counter()
    for row in tables["collectives"]:
        found[row["worker"], row["collective"]] += row["calls"]
    assert found == expected
