"""The stand-ins of p4c and BMv2: their files, command lines, and what they write."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from p4engine.cli import shim_compiler, shim_links, shim_switch, shims_command
from p4engine.cli.main import main
from p4engine.p4runtime.device_config import source_of
from p4engine_testing import ENGINE
from p4engine_testing.programs import source

NAMES = ("p4c-bm2-ss", "simple_switch", "simple_switch_grpc", "simple_switch_CLI")


@pytest.fixture(scope="module")
def shims(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("path") / "shims"
    assert main(["shims", str(folder)]) == 0
    return folder


def run(folder: Path, *words: str | Path) -> subprocess.CompletedProcess:
    return subprocess.run(
        [folder / words[0], *words[1:]], capture_output=True, text=True, cwd=folder.parent
    )


def test_the_files_are_known_as_stand_ins(shims, tmp_path, monkeypatch):
    assert sorted(each.name for each in shims.iterdir()) == sorted(NAMES)
    real = tmp_path / "real"
    real.mkdir()
    (real / "simple_switch").write_text("#!/bin/sh\n")
    (real / "simple_switch").chmod(0o755)
    monkeypatch.setenv("PATH", f"{shims}{os.pathsep}{real}")
    assert shims_command.find_shim("simple_switch") == str(shims / "simple_switch")
    assert shims_command.find_real("simple_switch") == str(real / "simple_switch")
    assert shims_command.find_real("simple_switch_grpc") is None
    monkeypatch.setenv("PATH", f"{real}{os.pathsep}{shims}")
    assert shims_command.find_shim("simple_switch") is None


def test_a_real_program_is_not_replaced(tmp_path, capsys):
    (tmp_path / "simple_switch").write_text("the real one")
    assert main(["shims", str(tmp_path)]) == 2
    assert "is there already and is no stand-in" in capsys.readouterr().err
    assert [each.name for each in tmp_path.iterdir()] == ["simple_switch"]
    assert (tmp_path / "simple_switch").read_text() == "the real one"


def test_the_compiler_writes_p4info_and_a_program_for_the_switch(shims, tmp_path):
    program = tmp_path / "a.p4"
    program.write_text(source(apply="hdr.h.a = VALUE;"))
    output, texts = tmp_path / "a.json", [tmp_path / "a.txtpb", tmp_path / "a.p4info.json"]
    done = run(
        shims,
        *("p4c-bm2-ss", "--p4v", "16", "--std=p4-16", "-DVALUE=3"),
        *("--p4runtime-files", ",".join(map(str, texts)), "-o", output, program),
    )
    assert (done.returncode, done.stderr) == (0, "")
    found = source_of(output.read_bytes())
    assert found is not None and found.defines == {"VALUE": "3"}
    assert "tables" in texts[0].read_text() or "pkg_info" in texts[0].read_text()
    assert json.loads(texts[1].read_text())["pkgInfo"]["arch"] == "v1model"


def test_the_compiler_says_what_it_cannot_do(tmp_path, capsys):
    program = tmp_path / "bad.p4"
    program.write_text(source(apply="hdr.h.z = 1;"))
    assert shim_compiler.main(["p4c-bm2-ss", str(program), "-o", str(tmp_path / "o.json")]) == 1
    assert "bad.p4:" in capsys.readouterr().err
    assert not (tmp_path / "o.json").exists()
    assert shim_compiler.main(["p4c-bm2-ss", "--p4v", "14", str(program)]) == 1
    assert "only P4_16" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words, said",
    [
        (["--no-p4", "--use-files", "1"], "--use-files is not supported: use `p4engine stf`"),
        (["--no-p4", "--restore-state", "x"], "--restore-state is not supported"),
        (["--no-p4", "--", "--grpc-server-ssl"], "connect without TLS"),
        (["--no-p4", "--", "--drop-port", "7"], "511 is the port that drops"),
        (["--no-p4", "--log-console", "--log-file", "x"], "exclude each other"),
        ([], "no program"),
        (["none.json"], "none.json: No such file"),
        (["bmv2.json"], "holds no program for p4engine"),
        (["--no-p4", "-i", "1@a", "-i", "1@b"], "a port number is given twice"),
    ],
)
def test_what_the_switch_cannot_honour_is_an_error(tmp_path, monkeypatch, capsys, words, said):
    monkeypatch.chdir(tmp_path)
    Path("bmv2.json").write_text('{"program": "x.p4", "headers": []}')
    assert shim_switch.main(["simple_switch_grpc", *words]) == 1
    assert said in capsys.readouterr().err


def test_options_without_effect_are_named_in_one_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = ["--nanolog", "ipc:///tmp/x", "--debugger", "-L", "off", "none.json"]
    assert shim_switch.main(["simple_switch", *words]) == 1
    [line] = capsys.readouterr().out.splitlines()
    for name in ("--nanolog", "--debugger", "--log-level"):
        assert name in line


def test_drop_port_511_is_what_holds_anyway():
    arguments = shim_switch.parser("simple_switch").parse_args(["--no-p4", "--drop-port", "511"])
    shim_switch._check("simple_switch", arguments)


def test_the_module_of_the_docs_makes_what_the_switch_takes(tmp_path):
    """In a process of its own: a message type can be made once."""
    pytest.importorskip("google.protobuf")
    text = (ENGINE / "docs" / "shims.md").read_text()
    [code] = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    code += (
        "from p4engine.p4runtime.device_config import unwrapped\n"
        "made = P4DeviceConfig(reassign=True, device_data=b'a program')\n"
        "assert unwrapped(made.SerializeToString()) == b'a program'\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "qdiscs, classes, rate_bps",
    [
        ("qdisc noqueue 0: root refcnt 2", "", None),
        (
            "qdisc tbf 8003: root refcnt 3 rate 500Kbit burst 10Kb lat 50ms",
            "class tbf 8003:1 parent 8003:",
            500_000,
        ),
        (
            "qdisc htb 5: root refcnt 3 r2q 10 default 0x1 direct_packets_stat 0\n"
            "qdisc netem 10: parent 5:1 limit 1000 delay 5ms",
            "class htb 5:1 root leaf 10: prio 0 rate 1Mbit ceil 2Mbit burst 15Kb cburst 1600b",
            2_000_000,
        ),
        (
            "qdisc htb 5: root refcnt 3 r2q 10 default 0x1 direct_packets_stat 0",
            "class htb 5:1 root prio 0 rate 8bit ceil 8bit burst 15Kb cburst 1600b\n"
            "class htb 5:2 root prio 0 rate 1Gbit ceil 1Gbit burst 15Kb cburst 1600b",
            None,  # more than one: the rate of a packet depends on filters
        ),
    ],
)
def test_the_rate_of_a_shaped_interface(qdiscs, classes, rate_bps):
    assert shim_links.shaped_rate_bps(qdiscs, classes) == rate_bps
