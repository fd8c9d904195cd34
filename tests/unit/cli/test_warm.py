"""What set-up compiles, so that the first run does not wait."""

from __future__ import annotations

from testbed.cli import warm


def test_set_up_compiles_the_code_of_every_host_of_the_demo():
    hosts = [part for part in warm.parts(everything=False) if ":" in part]
    workers = ["atp:worker", "esa:worker", "switchml:worker"]
    assert hosts == [*workers, "atp:ps", "esa:ps"]  # the longest first
    assert set(hosts) <= set(warm.parts(everything=True))
