"""Capacity of a machine for an experiment: demands, shares, the advice, and the record of it."""

from __future__ import annotations

import pytest
from p4engine_testing import damage

from testbed.experiment import load_text
from testbed.machine import calibration, capacity
from testbed.machine.calibration import Calibration, Measured
from testbed.schemes import set_up

TEXT = """
topology: {kind: star, hosts: 5}
links: {bandwidth: %s}
system: %s
jobs: [{name: one, model: resnet50, workers: 4, iterations: 2, scale: 0.01}]
"""
SPEED = Measured(rate=10_000, worker_ns=20_000, server_ns=5_000, switch_ns=10_000, total_ns=60_000)


def made(bandwidth: str, system: str = "{name: esa}\nmemory: {aggregators: 64}"):
    return set_up(load_text(TEXT % (bandwidth, system)))


def known(measured: Measured = SPEED, cores: str = "2") -> Calibration:
    machine = {"cpu": "x", "cores": cores, "kernel": "y"}
    systems = {"embedded": {"esa": measured, "ring": measured}}
    return Calibration(machine, "2026-01-01", 0.1, 1, 2, systems)


def test_demand_is_what_the_links_carry():
    (demand,) = capacity.demands(made("10 Mbit/s"))
    frames = 10e6 / 8 / (demand.worker_rate or 1)
    assert 300 < frames < 340, "bytes of a packet with 64 values"
    assert demand.rate == pytest.approx(4 * demand.worker_rate)
    assert demand.server_rate == demand.rate
    (ring,) = capacity.demands(made("10 Mbit/s", "ring"))
    assert ring.worker_rate == pytest.approx(demand.worker_rate, rel=0.01)
    assert capacity.demands(made("unlimited")) == []


def test_the_scarcest_resource_counts():
    wanted = capacity.demands(made("10 Mbit/s"))
    rate = wanted[0].rate
    share, whose = capacity.load_share(wanted, SPEED, 2)
    assert share == pytest.approx(rate / 10_000) and whose == "of the whole machine"
    fast = Measured(10**9, 1.0, 1.0, 200_000.0, 1.0)
    share, whose = capacity.load_share(wanted, fast, 2)
    assert share == pytest.approx(rate * 200_000 / 1e9) and "switch" in whose
    fast = Measured(10**9, 1.0, 300_000.0, None, None)
    assert "server of job one" in capacity.load_share(wanted, fast, 2)[1]


def test_the_advice_fits():
    (text,) = capacity.warnings(made("20 Mbit/s"), known())
    assert "too slow for these links" in text and "20 Mbit/s" in text
    share, _ = capacity.load_share(capacity.demands(made("20 Mbit/s")), SPEED, 2)
    fits = 20e6 * capacity.HEADROOM / share
    assert f"at most {fits / 1e6:.3g} Mbit/s" in text
    assert capacity.warnings(made(f"{int(fits * 0.99)} bit/s"), known()) == []


def test_values_are_what_bmv2_pays_for():
    assert capacity.of_bmv2(SPEED, 64) == SPEED
    more, less = capacity.of_bmv2(SPEED, 256), capacity.of_bmv2(SPEED, 1)
    assert more.rate < SPEED.rate / 2 and more.total_ns > 2 * SPEED.total_ns
    assert SPEED.rate * 1.8 < less.rate < SPEED.rate * 2
    assert more.worker_ns == SPEED.worker_ns, "a host's cost hardly depends on them"
    text = "switch: bmv2\nvalues_per_packet: %d\n" + TEXT
    system = "{name: esa}\nmemory: {aggregators: 64}"
    kept = known()
    kept.systems["bmv2"] = {"esa": SPEED}
    # As many packets/s of either size.
    for values, warned in ((64, 0), (128, 1)):
        bits = 8 * 10_000 / 4 * 0.5 * (70 + 4 * values)
        setup = set_up(load_text(text % (values, f"{int(bits)} bit/s", system)))
        assert len(capacity.warnings(setup, kept)) == warned


def test_an_unknown_demand_gives_no_warning():
    assert capacity.warnings(made("1 Gbit/s"), None) == []
    assert capacity.warnings(made("unlimited"), known()) == []
    atp = made("1 Gbit/s", "{name: atp}\nmemory: {aggregators: 64}")
    assert capacity.warnings(atp, known()) == []


def test_what_is_kept_is_this_machines(tmp_path, monkeypatch):
    monkeypatch.setattr(calibration, "_place", lambda: tmp_path / "a" / "calibration.json")
    assert calibration.load() is None
    made = known()
    calibration.save(made)
    assert calibration.load() is None, "another machine's"
    here = Calibration(calibration.machine(), *list(vars(made).values())[1:])
    path = calibration.save(here)
    assert calibration.load() == here
    monkeypatch.setattr(calibration, "FORMAT", 99)
    assert calibration.load() is None
    assert [each.name for each in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("damage", damage.WAYS)
def test_a_damaged_calibration_does_not_count_and_one_line_says_so(
    tmp_path, monkeypatch, capsys, damage
):
    monkeypatch.setattr(calibration, "_place", lambda: tmp_path / "calibration.json")
    path = calibration.save(
        Calibration(calibration.machine(), *list(vars(known()).values())[1:]),
    )
    assert calibration.load() is not None and capsys.readouterr().err == ""
    damage(path)
    assert calibration.load() is None
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{path} is damaged and does not count; `" in line and "ina calibrate" in line
