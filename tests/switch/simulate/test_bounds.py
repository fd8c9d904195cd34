"""Distance of each system from the least communication time that its links allow, in virtual time.

Nothing disturbs the hosts here, so all time over the bound is the protocol's own doing: the first
and the last window, acknowledgements, asks."""

from __future__ import annotations

import pytest
from p4fabric_testing.matrix import first_of

from testbed import results
from testbed.analysis.data.run_summary import summary
from testbed.cli.main import main
from tests.support.bounds import SYSTEMS, WINDOW, text_of


@pytest.mark.parametrize(
    "name", first_of(["esa", "ring", *sorted(SYSTEMS.keys() - {"esa", "ring"})], 2)
)
def test_a_lossless_job_comes_near_its_bound(name, tmp_path):
    path = tmp_path / "bound.yaml"
    path.write_text(text_of(name, "virtual"))
    assert main([str(path), "--results", str(tmp_path / "results")]) == 0
    (made,) = (tmp_path / "results").iterdir()
    (job,) = summary(results.read(made))["jobs"].to_dict("records")
    assert job["fragments"] > 20 * WINDOW
    if name in ("esa", "atp", "switchml"):
        assert job["in_switch_share"] == 1
    assert 1 <= job["communication_ns"] / job["communication_bound_ns"] < 1.1


CONTENDED = """
name: contended
runtime: virtual
topology: {kind: star, hosts: 10}
links:
  bandwidth: 10 Gbit/s
  queue: 4000 packets
  each: [{between: [h%(slow)d, s1], bandwidth: 4 Gbit/s}]
system: {%(system)s}
memory: {aggregators: 24}
jobs:
  - &job {model: vgg16, workers: 4, iterations: 2, scale: 0.0007, compute_scale: 0.0001}
  - *job
"""


@pytest.mark.parametrize("slow", first_of([1, 9], 1))  # a worker; the server of the first job
@pytest.mark.parametrize(
    "system",
    first_of(
        [
            "name: esa",
            "name: atp",
            "name: grid, memory: esa",
            "name: esa, release: on_result",
            "name: esa, priority: constant, downgrading: false, index: hash",
            "name: esa, preempt: always, window_rule: positions",
            "name: atp, release: on_completion, gap: 0",
            "name: esa, results_from: switch",
            "name: atp, window_rule: in_flight",
        ],
        1,
    ),
)
def test_no_lossless_run_is_below_its_bound(system, slow, tmp_path):
    """Also where partials, collisions and needless retransmissions make packets for the server."""
    path = tmp_path / "contended.yaml"
    path.write_text(CONTENDED % {"system": system, "slow": slow})
    assert main([str(path), "--results", str(tmp_path / "results"), "--no-report"]) == 0
    (made,) = (tmp_path / "results").iterdir()
    jobs = summary(results.read(made))["jobs"]
    assert jobs["lossless"].all()
    assert (jobs["ps_packets_per_fragment"] > 1.2).any()
    at_packets = jobs["communication_bound_at_packets_ns"]
    assert (at_packets >= jobs["communication_bound_ns"]).all()
    assert (jobs["communication_ns"] >= at_packets).all()
    # Where a server's link is slow, a job waits for its packets, if results come from it.
    if "results_from: switch" in system:
        assert (at_packets == jobs["communication_bound_ns"]).all()
    elif slow > 8:
        assert (at_packets > 1.1 * jobs["communication_bound_ns"]).any()
