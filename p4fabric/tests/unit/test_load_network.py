"""Network files: what is read, and mistakes with their places."""

from __future__ import annotations

from pathlib import Path

import pytest
from p4fabric.base.errors import UserError
from p4fabric.cli import main
from p4fabric.netfile.install_entries import compile_all, dry_run, install
from p4fabric.netfile.load_network import load_network
from p4fabric_testing import L3_TNA
from p4fabric_testing.topology_files import NETWORK, PROGRAM


def written(folder: Path, text: str) -> Path:
    path = folder / "net.yaml"
    path.write_text(text)
    return path


def test_a_file_is_read_and_its_entries_fit_the_program(tmp_path, capsys):
    path = written(tmp_path, NETWORK)
    plan = load_network(path)
    assert plan.name == "net"
    assert plan.ports == ((None, 3), (None, None), (None, 1))
    assert plan.net.links[1].delay_ns == 3_000_000
    dry_run(plan)
    assert main(["check", str(path)]) == 0
    assert "2 hosts, 2 switches, 3 links, 3 entries, 2 checks" in capsys.readouterr().out


TOFINO = f"""
network:
  program: {L3_TNA}
  hosts: {{h1: {{ip: 10.0.1.1/24}}, h2: {{ip: 10.0.2.2/24}}}}
  switches:
    s1:
      entries:
        - {{table: route, match: {{hdr.ipv4.destination: 10.0.2.0/24}}, action: forward,
           params: {{port: 2, mac: "08:00:00:00:00:02"}}}}
      commands: [table_set_default route drop]
  links: [{{between: [h1, s1-p1]}}, {{between: [h2, s1-p2]}}]
"""


@pytest.mark.parametrize("named", ["", "  architecture: tna\n"])
def test_programs_for_tofino_are_found_or_named(tmp_path, named):
    text = TOFINO.replace("network:\n", f"network:\n{named}")
    dry_run(load_network(written(tmp_path, text)))


def test_a_program_is_for_the_architecture_that_the_file_names(tmp_path):
    text = TOFINO.replace("network:\n", "network:\n  architecture: v1model\n")
    with pytest.raises(
        UserError, match=r"^network.architecture: l3_tna.p4 is for tna, not v1model"
    ):
        dry_run(load_network(written(tmp_path, text)))


def test_clones_are_cut_off_where_the_file_says(tmp_path):
    from p4engine.switch.library import Switch

    plan = load_network(written(tmp_path, NETWORK))
    switch = Switch(compile_all(plan)[PROGRAM])
    install("s1", plan.net.switches["s1"], switch)
    assert [switch.mirror_get(session) for session in (3, 4, 5)] == [
        {"port": 2, "group": None, "length": 20},
        {"port": None, "group": 32768 + 4, "length": 30},
        {"port": 2, "group": None, "length": None},
    ]
    assert switch.multicast_get(32768 + 4) == [(2, 0), (1, 5)]
    switch.close()


@pytest.mark.parametrize(
    "old, new, said",
    [
        ("h1: {ip: 10.0.1.1/24}", "h1: {ip: 10.0.1.1}", "line 5, network.hosts.h1.ip"),
        ("action: send", "acton: send", "did you mean action"),
        ("between: [h1, s1-p3]", "between: [h1, s1-p1]", "port 1 of s1 has a link already"),
        ("between: [h1, s1-p3]", "between: [h9, s1-p3]", "there is no host or switch h9"),
        ("between: [s2, h2]", "between: [s2, s1]", "a host has one link, h2 has 0"),
        ("{ping: [h1, h2]}", "{ping: [h1, s1]}", "there is no host"),
        ('{run: "true", on: h1}', '{run: "true"}', "needs the host that runs it"),
        ('{run: "true", on: h1}', "{on: h1}", "one of the keys ping, run, start"),
        ("delay: 3 ms", "delay: 3", "unit"),
        ("delay: 3 ms", "delay: 3 ms, delay_spread: 9 %", "each link here has its own `delay`"),
        ("s2: {}", "s2: {cpu_port: 9}", "`p4runtime` only"),
        ("s2: {}", "s2: {program: none.p4}", "none.p4"),
    ],
)
def test_mistakes_are_named_with_their_place(tmp_path, old, new, said):
    assert old in NETWORK
    with pytest.raises(UserError) as caught:
        load_network(written(tmp_path, NETWORK.replace(old, new)))
    assert said in str(caught.value) and "line " in str(caught.value)


@pytest.mark.parametrize(
    "old, new, said",
    [
        ("table: stations, match", "table: station, match", "no table 'station'"),
        ("hdr.ethernet.destination:", "hdr.ethernet.dst:", "no key 'hdr.ethernet.dst'"),
        ("action: drop, priority: 9", "action: drop", "needs a priority"),
        ("params: {port: 2}", "params: {port: 2000}", "does not fit into 9 bits"),
        ("params: {group: 4}", "params: {grop: 4}", "no parameter 'grop'"),
        ("port: 2, instance: 7", "port: 2, instance: 7}, {port: 509", ""),
        ("register_write words 3 77", "register_wrote words 3 77", "did you mean"),
    ],
)
def test_entries_that_do_not_fit_the_program_are_named(tmp_path, old, new, said):
    assert old in NETWORK
    plan = load_network(written(tmp_path, NETWORK.replace(old, new)))
    if not said:
        dry_run(plan)
        return
    with pytest.raises(UserError, match=said) as caught:
        dry_run(plan)
    assert "switches.s1." in str(caught.value)
