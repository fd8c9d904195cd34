"""Packets without values, one at a time, against the compiled P4 programs (docs/wire.md)."""

from __future__ import annotations

import pytest
from p4fabric.base.topology import host_ip, host_mac
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from testbed.dissect import Ina
from testbed.protocols import wire
from tests.support.experiments import setup_of
from tests.support.switches import OneSwitch, Sent, only, start_switches
from tests.support.switchml import SlotSwitch

MANY = """
name: test
topology: %s
system: esa
memory: {aggregators: 16}
values_per_packet: 4
jobs:
  - {name: many, command: "true", workers: %d}
"""
ZEROS = {"kind": wire.GRADIENT_ZEROS, "values": []}
HEADER_BYTES = 14 + 20 + 8 + 24 + 4


def pool(system: str = "esa", **options: object) -> OneSwitch:
    return OneSwitch(system=system, zeros="header_only", **options)


def is_zeros(sent: Sent) -> bool:
    """True if the packet is a header alone, of a kind that says so."""
    without = sent.kind in (wire.GRADIENT_ZEROS, wire.RESULT_ZEROS, wire.RESULT_ONE_ZEROS)
    assert without == (len(sent.packet) == HEADER_BYTES) == (sent.values == [])
    return without


@pytest.mark.parametrize("system", ["esa", "atp"])
def test_zeros_of_all_workers_are_a_header_alone(system):
    switch = pool(system)
    assert switch.gradient(0, 0, **ZEROS) == []
    assert switch.gradient(0, 2, **ZEROS) == []
    sent = only(switch.gradient(0, 1, **ZEROS))
    assert sent.port == 4 and sent.bitmap == 0b111 and is_zeros(sent)
    assert sent.packet["IP"].src == "10.255.0.1"
    counted = switch.counters(0)
    assert counted["allocations"] == counted["additions"] == counted["completions"] == 1


@pytest.mark.parametrize("system", ["esa", "atp"])
@pytest.mark.parametrize("place", range(3))
def test_one_worker_with_values_is_enough_for_a_sum_with_values(system, place):
    """Its packet claims the aggregator, is added, or completes the sum. The aggregator has held
    another fragment's values before."""
    switch = pool(system)
    for worker in range(3):
        switch.gradient(0, worker, values=[9] * 4)
    switch.from_server(0, wire.RESULT)
    for worker in range(3):
        fields = {"values": [5, 0, -6, 0]} if worker == place else ZEROS
        sent = switch.gradient(0, worker, fragment=8, **fields)
    sent = only(sent)
    assert sent.kind == wire.GRADIENT and sent.bitmap == 0b111 and sent.flags == 0
    assert sent.values == [5, 0, -6, 0]


def test_a_swap_sends_the_evicted_zeros_or_values():
    switch = pool()
    switch.gradient(0, 0, priority=10, **ZEROS)
    evicted = only(switch.gradient(1, 0, priority=20, values=[7] * 4))
    assert (evicted.port, evicted.job, evicted.bitmap) == (4, 0, 1) and is_zeros(evicted)
    assert evicted.flags == wire.PARTIAL
    evicted = only(switch.gradient(0, 1, priority=30, **ZEROS))
    assert (evicted.port, evicted.job, evicted.values) == (8, 1, [7] * 4)
    assert not is_zeros(evicted)
    # What the aggregator holds now is zeros.
    pulled = only(switch.from_server(0, wire.REMINDER, node=1))
    assert pulled.bitmap == 0b010 and is_zeros(pulled)


@pytest.mark.parametrize("system", ["esa", "atp"])
def test_a_reminder_pulls_zeros_and_values(system):
    switch = pool(system)
    switch.gradient(0, 0, **ZEROS)
    pulled = only(switch.from_server(0, wire.REMINDER, node=1))
    assert pulled.flags == wire.PARTIAL | wire.REMINDED and is_zeros(pulled)
    switch.gradient(0, 0, **ZEROS)
    switch.gradient(0, 1, values=[3] * 4)
    pulled = only(switch.from_server(0, wire.REMINDER, node=1))
    assert pulled.values == [3] * 4 and pulled.bitmap == 0b011


def test_a_result_without_values_releases_and_goes_to_all_workers():
    switch = pool(release="on_result")
    for worker in range(3):
        switch.gradient(0, worker, **ZEROS)
    again = only(switch.gradient(0, 0, **ZEROS))  # held, and served again
    assert is_zeros(again)
    sent = switch.from_server(0, wire.RESULT_ZEROS, values=[], bitmap=0b111)
    assert [s.port for s in sent] == [1, 2, 3]
    for each in sent:
        assert each.kind == wire.RESULT_ZEROS and is_zeros(only([each]))
    assert switch.counters(0)["releases"] == 1


def test_what_is_only_forwarded_leaves_without_its_zeros():
    switch = pool()
    to_worker = {"to": "10.0.0.2", "job": 0, "bitmap": 2}
    sent = only(switch.send(4, kind=wire.RESULT_ONE, values=[0] * 4, **to_worker))
    assert sent.port == 2 and sent.kind == wire.RESULT_ONE_ZEROS and is_zeros(sent)
    # Nor does it say that there are short values.
    zeros = {"kind": wire.RESULT_ONE_ZEROS, "values": [], "flags": wire.SHORT}
    sent = only(switch.send(4, **zeros, **to_worker))
    assert sent.port == 2 and sent.flags == 0 and is_zeros(sent)


def test_without_the_option_a_packet_of_zeros_has_its_values_and_others_mean_nothing():
    switch = OneSwitch()
    switch.gradient(0, 0, **ZEROS)
    assert "allocations" not in switch.counters(0)
    for worker in range(3):
        sent = switch.gradient(0, worker, values=[0] * 4)
    sum_of_zeros = only(sent)
    assert sum_of_zeros.kind == wire.GRADIENT and sum_of_zeros.values == [0] * 4


def test_switchml_returns_zeros_as_a_header_alone_and_serves_them_again():
    switch = SlotSwitch(zeros="header_only")
    for worker in range(3):
        sent = switch.chunk(0, worker, next_exponent=worker, **ZEROS)
    assert [s.port for s in sent] == [1, 2, 3]
    for each in sent:
        assert each.kind == wire.RESULT_ZEROS and is_zeros(only([each]))
        assert each.next_exponent == 2  # the largest, as of packets with values
    again = only(switch.chunk(0, 1, **ZEROS))
    assert again.port == 2 and again.kind == wire.RESULT_ONE_ZEROS and is_zeros(again)


@pytest.mark.parametrize("system", ["esa", "atp"])
@pytest.mark.parametrize("flag", [wire.FOR_ONE, wire.FROM_ONE])
def test_a_whole_sum_says_for_whom_it_is_and_a_part_does_not(system, flag):
    """A part leaves with the header of a packet of another fragment, whose worker it would name."""
    switch = pool(system)
    named = {"flags": flag, "next_exponent": 2}
    for worker in range(2):
        switch.gradient(0, worker, **named)
    sent = only(switch.gradient(0, 2, **named))
    assert sent.flags == flag and sent.packet["INA"].next_exponent == 2
    switch.from_server(0, wire.RESULT)
    switch.gradient(0, 0, fragment=8, priority=10, **named)
    assert only(switch.from_server(0, wire.REMINDER, fragment=8, node=1)).flags == (
        wire.PARTIAL | wire.REMINDED
    )
    if system == "esa":
        switch.gradient(0, 0, fragment=16, priority=10, **named)
        assert only(switch.gradient(1, 0, priority=20)).flags == wire.PARTIAL


@pytest.mark.parametrize(
    "network, workers",
    [("{kind: star, hosts: 301}", 300), ("{kind: two_level, tors: 2, hosts: 257}", 514)],
)
def test_copies_have_values_for_those_behind_their_ports_who_need_them(network, workers):
    """Numbers of workers need more than the 8 bits of an exponent. Of those above 255 only one is
    in the first rack."""
    setup = setup_of(MANY % (network, workers))
    topology, group = setup.platform.topology, setup.jobs[0].group
    name = topology.switch_of(group.servers[0])
    switch, behind = start_switches(setup)[name], {}
    for port, (there, _, _) in topology.ports(name).items():
        hosts = [host for host in group.workers if there in (host, topology.switch_of(host))]
        if hosts:
            behind[port] = {group.workers.index(host) for host in hosts}
    server = topology.number(group.servers[0])
    wide = type("Wide", (Ina,), {"bitmap_width": setup.platform.bitmap_bits})
    begin = Ether(src=host_mac(server)) / IP(src=host_ip(server), dst="10.255.0.1")
    begin /= UDP(sport=wire.PORT, dport=wire.PORT, chksum=0)
    for number in range(8):
        worker, flag = (
            (0, 255, 256, workers - 1)[number >> 1],
            (wire.FOR_ONE, wire.FROM_ONE)[number & 1],
        )
        fields = {"exponent": worker >> 8, "next_exponent": worker & 0xFF, "flags": flag}
        result = {
            "kind": wire.RESULT,
            "sender": 0x4000,
            "fragment_number": number,
            "values": [7] * 4,
        }
        head = wide(bitmap=(1 << workers) - 1, **result, **fields)
        switch.receive(topology.port_to(name, group.servers[0]), bytes(begin / head), number)
        out = switch.advance((number + 1) * 10**9)
        longest = max(len(frame) for _, _, frame in out)
        needed = {
            port: bool(those & {worker} if flag == wire.FOR_ONE else those - {worker})
            for port, those in behind.items()
        }
        assert {port: len(frame) == longest for _, port, frame in out} == needed
