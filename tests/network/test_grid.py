"""GRID's worked example on Mininet, at a thousandth of its rates."""

from __future__ import annotations

import pytest

from testbed.protocols.sizes import frame_bytes
from tests.grid import FRAGMENTS, SCHEMES, UPWARDS, passed, text_of
from tests.network.test_exact_runs import finished


@pytest.mark.slow
@pytest.mark.parametrize("planner", SCHEMES)
def test_the_worked_example(planner, tmp_path):
    path = tmp_path / "example.yaml"
    triangle = "{kind: triangle, bandwidth: 3 Mbit/s}"
    # As experiments/grid-example-mininet.yaml: a late machine must not add packets.
    memory = "esa, reminder: false, timeout: 5 s"
    rates = {"topology": triangle, "capacity": "9 Mbit/s"}
    path.write_text(text_of(runtime="mininet", planner=planner, memory=memory, **rates))
    read = finished(path, tmp_path / "results")
    packets, units = SCHEMES[planner]
    links = passed(read.links.to_dict("records"))
    assert tuple(links[ends] for ends in UPWARDS) == packets
    unit_ns = FRAGMENTS * 8 * frame_bytes(64, 32) * 1000 / 3 / 4
    assert 0.99 <= read.jobs.jct_ns[0] / unit_ns / units < 1.1
