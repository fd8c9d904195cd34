"""How near each system comes to the least communication time that its links allow, in virtual time.

Nothing disturbs the hosts here, so what is over the bound is the protocol's own doing: the first
and the last window, acknowledgements, asks.
"""

from __future__ import annotations

import pytest

from testbed import results
from testbed.analysis.data.run_summary import summary
from testbed.cli.main import main
from tests.support.bounds import SYSTEMS, WINDOW, text_of


@pytest.mark.parametrize("name", SYSTEMS)
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
