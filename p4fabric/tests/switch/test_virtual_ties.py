"""Which source loses packets at a full queue is no matter of port numbers or phases."""

from __future__ import annotations

import pytest
from p4fabric.base.units import number
from p4fabric.netfile.virtual_run import ties
from p4fabric_testing.virtual_networks import MARKING, flow, port, run_text, star

LINKS = "bandwidth: 100 Gbit/s, delay: 1 us, queue: 64 packets"


def lost(tmp_path, keys: str, rates: list[str], count: int) -> tuple[list[int], dict, list[str]]:
    """Packets that each source has lost at the port of the last host, that port's row, and the
    warnings."""
    hosts = len(rates) + 1
    more = f"virtual: {{duration: {2 * count // 10} us{keys}}}\nflows:\n" + "".join(
        f"  - {{name: f{n}, from: h{n}, to: h{hosts}, size: 1500 B, rate: {rate},"
        f" count: {count}}}\n"
        for n, rate in enumerate(rates, 1)
    )
    run, found = run_text(tmp_path, star(MARKING, hosts, more, links=LINKS))
    arrived = [flow(found, f"f{n}")["received"] for n in range(1, hosts)]
    return [count - each for each in arrived], port(found, "s1", hosts, "egress"), ties(run)


@pytest.mark.parametrize(("steps", "tied"), [("", 0.02), (", steps: exact", 1)])
def test_two_equal_sources_lose_the_same(tmp_path, steps, tied):
    (a, b), row, warnings = lost(tmp_path, steps, ["60 Gbit/s"] * 2, 60_000)
    assert a + b == row["queue_drops"] > 19_900
    assert abs(a - b) < 0.05 * (a + b)
    assert (row["tie_drops"] == a + b) if tied == 1 else (row["tie_drops"] < tied * (a + b))
    if tied == 1:
        assert warnings == [
            f"ties decided {number(a + b)} of {number(a + b)} drops of full queues, since sources"
            " are in step (steps: exact); which source lost them means nothing"
        ]
    else:
        assert not warnings


@pytest.mark.parametrize("steps", ["", ", steps: exact"])
def test_no_place_among_several_sources_is_favoured(tmp_path, steps):
    found, _, _ = lost(tmp_path, steps, ["24 Gbit/s"] * 5, 12_000)
    assert max(found) - min(found) < 0.1 * sum(found) / len(found)
