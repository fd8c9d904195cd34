"""The command `ina` takes network files, too: it runs them with a report, and refuses what needs an
experiment."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from p4fabric_testing.topology_files import NETWORK, app

from testbed.cli.main import main
from testbed.cli.shared import is_network
from tests.support.paths import ROOT

INCAST = ROOT / "examples" / "incast" / "incast.yaml"


def test_commands_know_network_files(tmp_path, capsys):
    path = tmp_path / "net.yaml"
    path.write_text(NETWORK)
    assert is_network(path)
    assert main(["check", str(path)]) == 0
    assert "2 hosts, 2 switches, 3 links, 3 entries, 2 checks" in capsys.readouterr().out
    for command in ("show", "plan"):
        assert main([command, str(path)]) == 2
        assert "is a network file; `ina check FILE`" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("runtime", "option", "said"),
    [
        ("mininet", ["--json"], "exit code says"),
        ("mininet", ["--pcap", "s1:1"], "--pcap needs virtual time"),
        ("mininet", ["--no-report"], "has no report"),
        ("mininet", ["--web"], "--web is for experiments"),
        ("virtual", ["--cli"], "--cli needs Mininet"),
    ],
)
def test_an_option_that_a_runtime_cannot_honour_is_an_error(
    tmp_path, capsys, runtime, option, said
):
    path = tmp_path / "net.yaml"
    text = INCAST.read_text().replace(" marking.p4", f" {INCAST.parent / 'marking.p4'}")
    path.write_text(text if runtime == "virtual" else NETWORK)
    assert main([str(path), *option]) == 2
    assert said in capsys.readouterr().err


def test_a_topology_is_imported_and_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    app(tmp_path, assignment_strategy="l2")
    assert main(["import", "p4app.json", "--virtual"]) == 0
    assert "next: ina mine.yaml" in capsys.readouterr().out
    assert main(["mine.yaml", "--no-report", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["flows"]) == 6


def test_the_example_of_the_docs_is_that_of_the_folder_and_runs(tmp_path, capsys):
    page = (ROOT / "p4fabric" / "docs" / "networks.md").read_text()
    assert f"```yaml\n{INCAST.read_text()}```" in page
    options = ["--results", str(tmp_path), "--pcap", "s1:3"]
    assert main([str(INCAST), *options]) == 0
    *lines, where = capsys.readouterr().out.splitlines()
    shown = page.partition("```text\n")[2].partition("```")[0].splitlines()
    assert len(shown) > 8
    assert {line.rstrip() for line in shown} - {"..."} <= {line.rstrip() for line in lines}
    folder = Path(where.partition(": ")[2])
    assert (folder / "captures" / "s1-3.pcapng").stat().st_size > 10_000_000
    assert "steady" in (folder / "report.html").read_text() and (folder / "queues.png").is_file()
