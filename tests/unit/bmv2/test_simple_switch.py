"""Command line of simple_switch, and the messages where it or p4utils is missing."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from p4fabric.base.errors import RunError, UserError

from testbed.bmv2 import simple_switch as process
from testbed.bmv2.connection import p4utils_api


@pytest.mark.parametrize("nanomsg", [True, False])
def test_the_command_line(monkeypatch, nanomsg):
    monkeypatch.setattr(process, "has_option", lambda option: nanomsg)
    words = process.command(
        Path("esa.json"), {2: "s1-eth2", 1: "s1-eth1"}, notifications=Path("/run/x/s1.ipc")
    )
    assert words[:5] == ["simple_switch", "--thrift-port", "9090", "--log-level", "off"]
    assert ("ipc:///run/x/s1.ipc" in words) == nanomsg
    assert words[-5:] == ["-i", "1@s1-eth1", "-i", "2@s1-eth2", "esa.json"]


def test_a_missing_tool_has_no_version(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert process.version("simple_switch") is None
    tool = tmp_path / "simple_switch"
    tool.write_text("#!/bin/sh\necho some words\necho 1.15.5\necho\n")
    tool.chmod(0o755)
    assert process.version("simple_switch") == "1.15.5"


@pytest.mark.parametrize(
    "does, told", [("exec sleep 60", "did not end"), ("kill -9 $$", "signal 9")]
)
def test_a_tool_that_does_not_answer_is_named(tmp_path, monkeypatch, does, told):
    monkeypatch.setattr(process, "ANSWER_TIMEOUT_S", 0.2)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    tool = tmp_path / "simple_switch"
    tool.write_text(f"#!/bin/sh\n{does}\n")
    tool.chmod(0o755)
    assert process.version("simple_switch") is None
    with pytest.raises(RunError, match=f"simple_switch --help .*{told}"):
        process.has_option(told)


def test_missing_p4utils_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "p4utils", None)
    with pytest.raises(UserError, match="p4utils, which .* cannot be imported .*doctor"):
        p4utils_api(list, Path("esa.json"))
