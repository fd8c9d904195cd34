"""Network files in virtual time: each mistake is one clear error, with its place and a remedy."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from p4fabric.base.errors import UserError
from p4fabric.base.flow import old_words
from p4fabric.netfile.load_network import load_network
from p4fabric.netfile.virtual_plan import flows_of
from p4fabric_testing.virtual_networks import MARKING, star

FLOW = "flows: [{name: f, from: h1, to: h2, rate: 1 Gbit/s}]\n"


def loaded(folder: Path, text: str):
    path = folder / "net.yaml"
    path.write_text(text)
    return load_network(path)


def error_of(folder: Path, text: str) -> str:
    with pytest.raises(UserError) as error:
        loaded(folder, text)
    return str(error.value)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        # flows
        ("flows: [{from: h1, to: h7, rate: 1 Gbit/s}]", "flows[0].to: there is no host h7"),
        ("flows: [{from: h1, to: h1, rate: 1 Gbit/s}]", "flows[0].to: h1 cannot send to itself"),
        ("flows: [{from: h1, to: h2}]", "neither rate nor packet_rate"),
        ("flows: [{from: h1, to: h2, rate: 1 Gbit/s, packet_rate: 3}]", "both rate and"),
        ("flows: [{from: h1, rate: 1 Gbit/s}]", "neither to nor address"),
        ("flows: [{from: h1, to: h2, kind: tcp, rate: 1 Gbit/s}]", "tcp with rate"),
        ("flows: [{from: h1, to: h2, kind: tcp, count: 3}]", "tcp with count"),
        ("flows: [{from: h1, to: h2, kind: tcp, size: [100 B, 200 B]}]", "tcp with several sizes"),
        ("flows: [{from: h1, to: h2, rate: 1 Gbit/s, size: 40 B}]", "a size from 60 B to 9216 B"),
        ("flows: [{from: h1, to: h2, rate: 1 Gbit/s, size: {64 B: 0}}]", "flows[0].size"),
        ("flows: [{from: h1, to: h2, rate: 1 Gbit/s, size: {from: 9 B, to: 99 B}}]", "size"),
        ("flows: [{from: h1, to: h2, rate: 1 Gbit/s, on: 1 ms}]", "one of on, off"),
        ("flows: [{from: h1, to: h2, rate: 1 Gbit/s, periods: fixed}]", "periods without on"),
        ("flows: [{from: h1, to: h2, rate: 1 Gbit/s, start: 2 ms, stop: 1 ms}]", "a stop that is"),
        ("flows: [{from: h1, to: h2, rate: 1 Gbit/s, start: 20 ms}]",
         "flows[0].start: the flow begins after the end of the run; give virtual.duration"),
        ("flows: [{from: h1, to: h2, rate: 1 Gbit/s, ecn: yes}]", "flows[0].ecn"),
        ("flows: [{from: h1, to: h2, rate: 1 Gbit/s, packet: Ether(), size: 99 B}]",
         "packet with size"),
        ("flows: [{from: h1, to: h2, rate: 1 Gbit/s, packet: Ether(), packets: 'a.py:b'}]",
         "both packet and packets"),
        ("flows: [{from: h1, to: h2, rate: 1 Gbit/s, packets: a.txt}]", "FILE.py:NAME"),
        ("flows: [{from: [h1, h1], to: h2, rate: 1 Gbit/s}]", "different hosts, or all alone"),
        ("flows: [{from: h1, address: 10.0.0.9, rate: 1 Gbit/s}]",
         "flows[0].mac: the destination's MAC address is missing"),
        ("flows: [{name: f, from: h1, to: h2, rate: 1 Gbit/s},"
         " {name: f, from: h2, to: h1, rate: 1 Gbit/s}]", "flows[1].name: there are two flows f"),
        # readings and changes
        ("readings: [{register: a, of: s9, at: 1 us}]", "readings[0].of: there is no switch s9"),
        ("readings: [{of: s1, at: 1 us}]", "one of the keys register, counter"),
        ("readings: [{register: a, of: s1}]", "one of the keys at, every"),
        ("readings: [{register: 'a[3..1]', of: s1, at: 0}]", "the first is not above the last"),
        ("changes: [{at: 1 us}]", "one of the keys commands, link"),
        ("changes: [{at: 1 us, commands: [help]}]", "one without the other"),
        ("changes: [{at: 1 us, link: [h1, h2]}]",
         "changes[0].link: there is no link between h1 and h2"),
        # checks
        (FLOW + "checks: [{ping: all}]",
         "checks[0].ping: `ping` needs hosts with a kernel, which virtual time has not; take"),
        (FLOW + "checks: [{run: ls, on: h1}]", "checks[0].run: `run` needs hosts with a kernel"),
        (FLOW + "checks: [{start: ls, on: h1}]", "checks[0].start: `start` needs hosts with a"),
        (FLOW + "checks: [{flow: g, loss: 0 %}]", "checks[0].flow: there is no flow g"),
        (FLOW + "checks: [{flow: f}]", "checks[0]: what must hold of the flow is missing"),
        (FLOW + "checks: [{flow: f, loss: 0 %, queue: 3}]", "`queue` does not go with `flow`"),
        (FLOW + "checks: [{flow: f, throughput: '>= 3'}]", "checks[0].throughput: found '>= 3'"),
        (FLOW + "checks: [{flow: f, most: '=> 3 us'}]", "checks[0].most"),
        (FLOW + "checks: [{register: 'a[1]', is: 5}]", "checks[0].of: needs its switch: `of`"),
        (FLOW + "checks: [{counter: 'a[1]', of: s1, is: five}]", "checks[0].is: found 'five'"),
        (FLOW + "checks: [{port: p2, drops: 0}]", "a port, such as s1-p2"),
        (FLOW + "checks: [{port: s4-p2, drops: 0}]", "checks[0].port: there is no switch s4"),
        (FLOW + "checks: [{loss: 0 %}]", "one of the keys flow, register, counter, port"),
        # the run
        ("virtual: {duration: 0}", "virtual.duration"),
        ("virtual: {seed: -1}", "virtual.seed"),
        ("virtual: {time: 3 ms}", "virtual.time"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_its_place(tmp_path, more, words):
    found = error_of(tmp_path, star(MARKING, 2, more + "\n"))
    assert words in found, found
    assert re.search(r"net\.yaml", found)


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("commands: [ls]", "network.hosts.h1.commands[0]: a host has no shell in virtual time"),
        ("class: 'a.py:B', answer: {}", "network.hosts.h1.answer: a host with a `class` answers"),
        ("class: a.py", "network.hosts.h1.class: found 'a.py'"),
    ],
)
def test_what_hosts_cannot_be_is_an_error(tmp_path, key, words):
    found = error_of(tmp_path, star(MARKING, 2, host={1: key}))
    assert words in found, found


def test_a_class_sends_by_itself(tmp_path):
    found = error_of(tmp_path, star(MARKING, 2, FLOW, host={1: "class: 'a.py:B'"}))
    assert "flows[0].from: h1 is a `class`, which sends by itself" in found


def test_controllers_need_a_real_clock(tmp_path):
    found = error_of(tmp_path, star(MARKING, 2, switch="p4runtime: 50051"))
    assert "network.switches.s1.p4runtime: controllers need a real clock" in found


def test_on_mininet_the_keys_of_virtual_time_are_errors(tmp_path):
    more = (
        FLOW + "virtual: {}\nreadings: [{register: a, of: s1, at: 0}]\n"
        "changes: [{at: 0, link: [h1, s1]}]\nchecks: [{flow: f, loss: 0 %}]\n"
    )
    text = star(MARKING, 2, more, host={1: "answer: {}"}).replace("runtime: virtual\n", "")
    found = error_of(tmp_path, text)
    for key in ("flows", "virtual", "readings", "changes", "network.hosts.h1.answer",
                "checks[0].flow"):  # fmt: skip
        assert f"{key}: means something in virtual time alone; add `runtime: virtual`" in found


def test_packets_go_to_the_gateway_that_the_commands_name(tmp_path):
    commands = (
        "commands: [route add default gw 10.0.0.9 dev eth0,"
        " 'arp -i eth0 -s 10.0.0.9 08:00:00:00:01:99', 'ip neigh add 10.0.0.3 lladdr"
        " 08:00:00:00:01:03 dev eth0 nud permanent']"
    )
    more = (
        "flows:\n"
        "  - {name: near, from: h1, to: [h2, h3], rate: 1 Gbit/s}\n"
        "  - {name: far, from: h1, address: 10.7.0.1, rate: 1 Gbit/s}\n"
        "  - {name: given, from: h1, address: 10.7.0.1, mac: '00:00:00:00:00:07', rate: 1 Gbit/s}\n"
    )
    plan = loaded(tmp_path, star(MARKING, 3, more, host={1: commands}))
    macs = {flow.name: flow.mac for flow in flows_of(plan.file)}
    assert macs == {
        "near-h1-h2": "02:00:00:00:00:02",
        "near-h1-h3": "08:00:00:00:01:03",
        "far": "08:00:00:00:01:99",
        "given": "00:00:00:00:00:07",
    }


def test_old_words_mean_the_same_and_are_noted(tmp_path):
    flow = "flows: [{from: h1, to: h2, rate: 1 Gbit/s, start: 3 us, %s}]\n"
    old, new = (
        loaded(tmp_path, star(MARKING, 2, flow % keys)).file.flows
        for keys in ("burst: 5, stop: 40 us", "packet_burst: 5, for: 37 us")
    )
    assert [(each.packet_burst, each.end_ns) for each in (*old, *new)] == [(5, 40_000)] * 2
    assert old_words(new, "flows") == []
    assert [each.partition(";")[0] for each in old_words(old, "flows")] == [
        "flows[0]: `burst` is now called `packet_burst`",
        "flows[0]: `stop` is now called `for`",
    ]
    assert "flows[0]: found both for and stop" in error_of(
        tmp_path, star(MARKING, 2, flow % "stop: 40 us, for: 37 us")
    )


def test_flows_between_all_hosts(tmp_path):
    plan = loaded(tmp_path, star(MARKING, 4, "flows: [{from: all, to: all, packet_rate: 5}]\n"))
    assert len({(flow.source, flow.target) for flow in flows_of(plan.file)}) == 12
