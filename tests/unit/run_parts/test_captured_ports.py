"""Ports that `--pcap` names, and names that it refuses."""

from __future__ import annotations

import pytest
from p4fabric.base.captured_ports import CapturedPort, ports
from p4fabric.base.errors import UserError

from testbed.cli.main import main
from testbed.experiment import load_text

TEXT = """
name: test
runtime: %s
topology: {kind: star, hosts: 4}
links: {bandwidth: 1 Mbit/s}
system: ps
jobs: [{model: alexnet, workers: 2, iterations: 1, scale: 0.0001}]
"""


TOPOLOGY = load_text(TEXT % "mininet").topology_object()


def test_a_port_is_named_by_its_number_or_its_neighbour():
    expected = CapturedPort("s1", 3, "h3")
    assert ports(TOPOLOGY, ["s1:3", "s1:h3"]) == [expected]
    assert expected.file_name == "s1-3.pcapng"
    assert ports(TOPOLOGY, []) == []


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ("s9:1", "the switches are s1"),
        ("h1:1", "allowed: SWITCH:PORT"),
        ("s1", "such as s1:1"),
        ("s1:5", "its ports are 1 (to h1), 2 (to h2)"),
        ("s1:", "no port ''"),
    ],
)
def test_an_unknown_port_is_refused_with_the_known_ones(wanted, words):
    with pytest.raises(UserError) as refused:
        ports(TOPOLOGY, [wanted])
    assert words in str(refused.value)


@pytest.mark.parametrize("tors, more", [(7, ""), (8, ", ...")])
def test_of_many_switches_some_are_named(tors, more):
    tree = f"{{kind: two_level, tors: {tors}, hosts: 1, servers: 1}}"
    text = (TEXT % "mininet").replace("{kind: star, hosts: 4}", tree)
    with pytest.raises(UserError) as refused:
        ports(load_text(text).topology_object(), ["s99:1"])
    assert str(refused.value).endswith(f"the switches are s1, s2, s3, s4, s5, s6, s7, s8{more}")


def test_a_sweep_is_not_captured(tmp_path, capsys):
    path = tmp_path / "sweep.yaml"
    path.write_text((TEXT % "virtual") + "sweep: {seed: [1, 2]}\n")
    assert main(["run", str(path), "--pcap", "s1:1"]) == 2
    assert "a sweep is many" in capsys.readouterr().err
