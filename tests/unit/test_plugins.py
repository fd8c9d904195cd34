"""What is installed beside the testbed is not in its tests, which count systems."""

from __future__ import annotations

from importlib import metadata

from testbed import plugins


def test_no_plug_in_of_a_user_is_in_the_tests(tmp_path, monkeypatch):
    info = tmp_path / "users_own-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: users-own\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[ina.systems]\nown = users_own:SYSTEM\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert "own" in metadata.entry_points(group=plugins.SYSTEMS).names
    look_again = plugins.found.__wrapped__
    assert look_again(plugins.SYSTEMS) == {}
    monkeypatch.delenv(plugins.SWITCH)
    assert "own" in look_again(plugins.SYSTEMS)
