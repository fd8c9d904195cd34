"""The command `p4fabric`: exit codes, errors of one line, and what it imports."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from p4fabric.cli import COMMANDS, main
from p4fabric_testing.topology_files import NETWORK, app
from p4fabric_testing.virtual_networks import MARKING, star


@pytest.mark.parametrize(
    ("virtual", "words", "said"),
    [
        (False, ["run", "FILE", "--json"], "on Mininet the exit code says whether checks hold"),
        (False, ["run", "FILE", "--pcap", "s1:1"], "--pcap needs virtual time here"),
        (True, ["run", "FILE", "--cli"], "--cli needs Mininet"),
        (True, ["run", "FILE", "--pcap", "s9:1"], "s9"),
        (True, ["run", "none.yaml"], "none.yaml"),
        (True, ["run", "FILE", "--web"], "unrecognized arguments: --web"),
        (True, ["runs", "FILE"], "found 'runs'; did you mean run?"),
        (True, ["run"], "required: FILE.yaml; usage: p4fabric run"),
        (True, ["import", "FILE"], "FILE can't be read"),
        (True, ["check", b"\xff".decode(errors="surrogateescape")], "not UTF-8"),
    ],
)
def test_what_cannot_be_done_is_an_error_of_one_line(tmp_path, capsys, virtual, words, said):
    path = tmp_path / "net.yaml"
    path.write_text(star(MARKING, 2) if virtual else NETWORK)
    assert main([str(path) if word == "FILE" else word for word in words]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ") and error.count("\n") == 1
    assert said.replace("FILE can", f"{path} can") in error


@pytest.mark.parametrize(("text", "line"), [("jobs: 3", "line 1, "), ("a: [", "line 1"), ("", "")])
def test_an_error_calls_the_file_a_network(tmp_path, capsys, text, line):
    path = tmp_path / "net.yaml"
    path.write_text(text)
    assert main(["check", str(path)]) == 2
    error = capsys.readouterr().err
    assert "in the network\n" in error and line in error and "experiment" not in error


def test_a_check_that_does_not_hold_is_exit_code_1(tmp_path, capsys):
    flows = "flows: [{name: f, from: h1, to: h2, packet_rate: 1e6, count: 3}]\n"
    path = tmp_path / "net.yaml"
    for least, code in ((3, 0), (4, 1)):
        checks = f"checks: [{{flow: f, received: '>= {least}'}}]\n"
        path.write_text(star(MARKING, 2, flows + checks))
        assert main(["run", str(path), "--json", "--results", str(tmp_path / "results")]) == code
        told = json.loads(capsys.readouterr().out)
        assert [each["holds"] for each in told["checks"]] == [code == 0]


def test_an_imported_file_is_run_by_the_command_that_its_head_names(tmp_path, capsys):
    path = tmp_path / "made.yaml"
    assert main(["import", str(app(tmp_path)), "--virtual", "-o", str(path)]) == 0
    assert path.read_text().splitlines()[1].startswith("# `p4fabric run made.yaml` starts")
    (line,) = [each for each in capsys.readouterr().out.splitlines() if "; next: " in each]
    words = line.partition("; next: ")[2].split()
    assert words == ["p4fabric", "run", str(path)]
    assert main(["check", *words[2:]]) == 0


HEAVY = ("numba", "numpy", "pydantic", "rich", "yaml")


def test_help_and_the_version_import_next_to_nothing():
    program = f"""
import sys
from p4fabric.cli import main
code = main(sys.argv[1:])
print(code, [name for name in {HEAVY!r} if name in sys.modules])
"""
    for word in ("--help", "--version"):
        command = [sys.executable, "-c", program, word]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        assert said.splitlines()[-1] == "0 []"
        assert word == "--version" or all(f"\n    {each} " in said for each in COMMANDS)
