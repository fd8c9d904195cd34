"""`ina calibrate` measures, prints and keeps what the machine carries; `check` uses it."""

from __future__ import annotations

import pytest

from testbed import systems
from testbed.cli.commands import calibrate
from testbed.cli.main import main
from testbed.errors import RunError
from testbed.experiment import load_text
from testbed.machine import calibration, capacity
from testbed.schemes import set_up
from tests.support.bmv2.simple_switch import why_not

FAST = """
topology: {kind: star, hosts: 5}
links: {bandwidth: 100 Gbit/s}
system: ps
jobs: [{model: resnet50, workers: 4, iterations: 1, scale: 0.01}]
"""


@pytest.mark.slow
@pytest.mark.timeout(900)  # host code may have to be compiled first
def test_a_calibration_is_printed_and_kept(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(calibration, "_place", lambda: tmp_path / "calibration.json")
    monkeypatch.setattr(systems, "SYSTEMS", {"ps": systems.SYSTEMS["ps"]})
    monkeypatch.setattr(calibrate, "SCALES", {"embedded": 0.0005})
    monkeypatch.setattr(calibrate, "switches_here", lambda: ["embedded"])
    assert main(["calibrate"]) == 0
    assert "embedded, ps" in capsys.readouterr().out
    kept = calibration.load()
    measured = kept.systems["embedded"]["ps"]
    assert measured.rate > 0 and measured.switch_ns > 0 and measured.server_ns > 0
    assert measured.total_ns > measured.worker_ns / 4
    (warning,) = capacity.warnings(set_up(load_text(FAST)), kept)
    assert "too slow for these links" in warning


def test_a_failed_measurement_is_reported_and_the_rest_kept(tmp_path, monkeypatch, capsys):
    def measure(system: str, switch: str) -> calibration.Measured:
        if system == "ring":
            raise RunError("nobody answered")
        return calibration.Measured(1000.0, 1.0, None, 2.0, 3.0)

    monkeypatch.setattr(calibration, "_place", lambda: tmp_path / "calibration.json")
    monkeypatch.setattr(calibrate, "measure", measure)
    monkeypatch.setattr(calibrate, "switches_here", lambda: ["embedded"])
    assert main(["calibrate"]) == 1
    assert "ring on embedded could not be measured: nobody answered" in capsys.readouterr().err
    kept = calibration.load().systems["embedded"]
    assert set(kept) == set(systems.SYSTEMS) - {"ring"}


@pytest.mark.bmv2
@pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
def test_bmv2_is_measured_too():
    measured = calibrate.measure("ps", "bmv2")
    assert measured.rate > 0 and measured.server_ns > 0
    assert measured.switch_ns is None, "its threads share the work"
    assert measured.total_ns > measured.worker_ns / 4
