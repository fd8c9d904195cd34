"""Distance of each system from the least communication time that its links allow, on Mininet.

One job without losses and computation, with more than twenty windows of fragments. No run may beat
the bound. On a machine that does other things too, hosts stand still at times and a run takes
longer; so the best of a few must come within a tenth of the bound. Virtual time, which nothing
disturbs, has the same test of all systems (tests/switch/simulate/test_bounds.py)."""

from __future__ import annotations

import pytest
from p4fabric_testing.matrix import first_of

from testbed.analysis.data.run_summary import summary
from tests.support.bounds import WINDOW, text_of
from tests.support.runs import finished

ATTEMPTS = 4


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", first_of(["esa", "switchml", "ps", "ring"], 0))
def test_a_lossless_job_comes_near_its_bound(name, tmp_path):
    path = tmp_path / "bound.yaml"
    path.write_text(text_of(name))
    ratios = []
    for attempt in range(ATTEMPTS):
        read = finished(path, tmp_path / f"results{attempt}")
        (job,) = summary(read)["jobs"].to_dict("records")
        assert job["fragments"] > 20 * WINDOW
        ratio = job["communication_ns"] / job["communication_bound_ns"]
        ratios.append(ratio)
        assert ratio >= 0.99
        if ratio < 1.1:
            return
    pytest.fail(f"communication time over its bound: {ratios}")
