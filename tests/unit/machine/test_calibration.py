"""Places of kept calibrations."""

from __future__ import annotations

from testbed.machine import calibration


def test_a_user_without_an_account_keeps_it_at_home(tmp_path, monkeypatch):
    def unknown(uid):
        raise KeyError(uid)

    monkeypatch.setattr(calibration.pwd, "getpwuid", unknown)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert calibration._place() == tmp_path / calibration.FILE
    assert calibration.load() is None
