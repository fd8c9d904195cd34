"""Sweeps on Mininet: the points share what they can, and each has results of its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from testbed import results
from tests.support import runs

SWEEP = """
name: shared
topology: {kind: star, hosts: 5}
links: {bandwidth: 20 Mbit/s}
system: esa
memory: {aggregators: 64}
jobs: [{model: resnet18, workers: 2, iterations: 1, scale: 0.002, compute_scale: 0}]
sweep:
"""


def run_sweep(tmp_path: Path, sweep: str) -> tuple[int, str, dict[str, results.Results]]:
    """Exit code, what went to stderr, and each point's results by its values."""
    file = tmp_path / "shared.yaml"
    file.write_text(SWEEP + sweep)
    done = runs.run(file, tmp_path / "results", "--no-report")
    folder = tmp_path / "results" / "shared"
    points = {}
    for point in json.loads((folder / results.SWEEP_FILE).read_text())["points"]:
        (run,) = (folder / point["key"]).iterdir()
        values = " ".join(value["text"] for value in point["values"].values())
        points[values] = results.read(run)
    return done.returncode, done.stderr, points


def logs(read: results.Results) -> set[str]:
    return {path.stem for path in (read.folder / "logs").iterdir()}


def test_points_of_different_systems_and_networks_share_processes(tmp_path: Path) -> None:
    code, said, points = run_sweep(
        tmp_path, "  topology.hosts: [5, 6]\n  system: [esa, switchml]\n"
    )
    assert code == 0, said
    assert len(points) == 4
    for read in points.values():
        assert read.state == "finished" and read.jobs.exact.all()
    # What starts once leaves its log with the point for which it started.
    assert sum("host-pool" in logs(read) for read in points.values()) == 1
    assert sum("network" in logs(read) for read in points.values()) == 2
    assert all({"h1", "h2", "s1"} <= logs(read) for read in points.values())


@pytest.mark.slow
def test_a_point_that_fails_takes_its_processes_along_and_stops_no_other(tmp_path: Path) -> None:
    code, said, points = run_sweep(
        tmp_path, "  links.bandwidth: [20 Mbit/s, 1 kbit/s, 21 Mbit/s]\ntimeout: 1 s\n"
    )
    assert code == 1 and "1 kbit/s" in said, said
    assert {name: read.state for name, read in points.items()} == {
        "20 Mbit/s": "finished",
        "1 kbit/s": "failed",
        "21 Mbit/s": "finished",
    }
    assert ["host-pool" in logs(read) for read in points.values()] == [True, False, True]
