"""Static trees on Mininet that jobs get from others that have ended."""

from __future__ import annotations

from pathlib import Path

from tests.support.runs import finished

TEXT = """
name: trees
topology: {kind: star, hosts: 6}
links: {bandwidth: 50 Mbit/s, loss: 1 %}
system: tree
memory: {aggregators: 64}
jobs:
  - {name: a, model: resnet18, workers: 2, iterations: 1, scale: 0.001, compute_scale: 0}
  - {name: b, model: resnet18, workers: 2, iterations: 3, scale: 0.001, compute_scale: 0,
     start: 2 s}
  - {name: c, model: resnet18, workers: 2, iterations: 1, scale: 0.001, compute_scale: 0,
     start: 2.01 s}
"""


def test_a_job_that_starts_after_another_has_ended_gets_its_switch(tmp_path: Path):
    """A third one, which starts right after that, does not."""
    read = finished(TEXT, tmp_path / "r")
    rows = read.jobs[["name", "system", "trees", "fallback", "refused"]].fillna("")
    assert [tuple(row) for row in rows.itertuples(index=False)] == [
        ("a", "tree", "s1", "", ""),
        ("b", "tree", "s1", "", ""),
        ("c", "tree", "", "ring", "s1 is held by b"),
    ]
    completed = read.switch_counters.query("counter == 'sums'").set_index("job").value.to_dict()
    fragments = (read.jobs.fragments * read.jobs.iterations).tolist()
    assert [completed.get(job, 0) for job in range(3)] == [*fragments[:2], 0]
    # Waiting for the start was no standstill.
    assert not read.table("fidelity").query("measure.str.contains('still')").value.gt(1.5).any()
