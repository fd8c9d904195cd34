"""The network that is built: addresses, packets as on a wire, Mininet's interface, its end."""

from __future__ import annotations

import os
import time

import pytest
from p4fabric.base.errors import RunError
from p4fabric.base.linux.processes import Identity
from p4fabric.base.topology import Topology
from p4fabric.emulate import mininet_network as net
from p4fabric.emulate.mininet_network import MTU_BYTES, Network
from p4fabric.emulate.spawner import Spawner
from p4fabric_testing.topologies import star
from scapy.all import IP, UDP, Ether

CAPTURE = """
import socket, sys
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
s.bind((sys.argv[1], 0))
s.settimeout(10)
print("listening", flush=True)
print(s.recv(65536).hex(), flush=True)
"""
SEND = """
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.sendto(b"x" * int(sys.argv[2]), (sys.argv[1], 4000))
"""
SEND_FRAME = """
import socket, sys
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
s.bind((sys.argv[1], 0))
s.send(bytes.fromhex(sys.argv[2]))
"""


class TwoSwitches(Topology):
    def __init__(self) -> None:
        for switch in ("s1", "s2"):
            self.add_switch(switch)
        self.add_link("s1", "s2")
        for host, switch in (("h1", "s1"), ("h2", "s2"), ("h3", "s2")):
            self.add_link(switch, self.add_host(host))


@pytest.fixture
def spawner(tmp_path):
    made = Spawner("switch pool", ["p4fabric.emulate.namespace"], tmp_path / "pool.log")
    yield made
    made.close()


@pytest.fixture
def build(spawner, tmp_path):
    networks = []

    def build(topology: Topology) -> Network:
        networks.append(Network(topology, spawner, tmp_path, tmp_path))
        return networks[-1]

    yield build
    for network in networks:
        network.stop()


def first_packet(network: Network, source: str, size: int, switch: str, interface: str) -> Ether:
    """The packet on the switch's interface when a host sends `size` bytes of UDP to 10.0.0.99."""
    capture = network[switch].popen(["/usr/bin/python3", "-c", CAPTURE, interface])
    assert capture.stdout.readline() == b"listening\n"
    out, err, code = network[source].pexec("/usr/bin/python3", "-c", SEND, "10.0.0.99", str(size))
    assert code == 0, err
    packet = Ether(bytes.fromhex(capture.stdout.readline().decode()))
    capture.wait()
    return packet


def test_a_packet_is_valid_as_on_a_wire(build):
    network = build(star(hosts=2))
    packet = first_packet(network, "h2", 8000, "s1", "s1-eth2")
    assert (packet.src, packet.dst) == ("02:00:00:00:00:02", "02:00:00:01:00:01")
    assert (packet[IP].src, packet[IP].dst) == ("10.0.0.2", "10.0.0.99")
    assert packet[IP].len == 8028, "no fragments below the MTU"
    found = packet[IP].chksum, packet[UDP].chksum
    del packet[IP].chksum, packet[UDP].chksum
    again = Ether(bytes(packet))
    assert found == (again[IP].chksum, again[UDP].chksum)


def test_ports_follow_the_order_of_links_whichever_end_comes_first(build):
    network = build(TwoSwitches())
    assert network["s2"].ports_in_use() == {1: "s2-eth1", 2: "s2-eth2", 3: "s2-eth3"}
    packet = first_packet(network, "h3", 100, "s2", "s2-eth3")
    assert (packet[IP].src, packet.dst) == ("10.0.0.3", "02:00:00:01:00:02")


def test_nothing_but_our_packets_is_on_a_link(build):
    """No ARP, no IPv6, no ICMP errors: what a capture shows first is what a host sent first."""
    network = build(star(hosts=2))
    packet = Ether(src="02:00:00:01:00:01", dst="02:00:00:00:00:01")
    packet /= IP(src="10.0.0.2", dst="10.0.0.1") / UDP(dport=4000) / b"nobody listens"
    sent = network["s1"].pexec("/usr/bin/python3", "-c", SEND_FRAME, "s1-eth1", bytes(packet).hex())
    assert sent[1:] == ("", 0)
    counts = network["h1"].cmd("cat /proc/net/snmp").split("\n")
    udp, icmp = (
        dict(zip(*(line.split()[1:] for line in counts if line.startswith(kind)), strict=True))
        for kind in ("Udp:", "Icmp:")
    )
    assert (udp["NoPorts"], icmp["OutMsgs"]) == ("1", "0")
    assert network["h1"].cmd("ip -6 addr") == ""
    neighbours = network["h1"].cmd("ip neigh").split("\n")
    assert [line.strip() for line in neighbours if line.strip()] == [
        "10.255.0.1 dev h1-eth0 lladdr 02:00:00:01:00:01 PERMANENT"
    ]
    assert set(network["h1"].cmd("cat /proc/sys/net/ipv4/conf/*/rp_filter").split()) == {"0"}
    assert f"mtu {MTU_BYTES}" in network["h1"].cmd("ip link show dev h1-eth0")


def test_links_carry_packets_as_soon_as_the_network_is_built(build):
    network = build(star(hosts=3))
    for host in network.hosts:
        state = host.pexec("cat", f"/sys/class/net/{host.name}-eth0/operstate")[0]
        assert state == "up\n"


def test_mininets_interface_works(build):
    network = build(star(hosts=2))
    assert network["h1"].IP() == "10.0.0.1" and network["h1"].MAC() == "02:00:00:00:00:01"
    assert network["h2"].cmd("echo $((6 * 7))").strip() == "42"
    assert network["h2"].cmd("hostname -I 2>/dev/null; ls /sys/class/net").split()[-2:] == [
        "h2-eth0",
        "lo",
    ]
    assert network.linksBetween(network["h1"], network["s1"])


def test_the_network_is_invisible_from_outside(build):
    before = set(os.listdir("/sys/class/net"))
    build(star(hosts=4))
    assert set(os.listdir("/sys/class/net")) == before


def test_stop_ends_the_processes_that_a_user_started(build, spawner):
    network = build(star(hosts=2))
    network["h1"].cmd("true")
    shell = Identity.of(network["h1"].shell.pid)
    holder = Identity.of(network.holders["h1"].pid)
    network.stop()
    assert not shell.alive()
    spawner.close()
    deadline = time.monotonic() + 5
    while holder.alive():
        assert time.monotonic() < deadline


def test_a_refusal_of_the_kernel_is_named(build, monkeypatch):
    monkeypatch.setattr(net, "MTU_BYTES", 10**6)
    with pytest.raises(RunError, match="cannot build the network") as caught:
        build(star(hosts=2))
    assert "ip link add name h1-eth0" in caught.value.log_tail


@pytest.mark.parametrize(
    ("node", "target", "words"),
    [
        ("h2", "three", "the process that makes the namespace of h2 ended with exit code 3"),
        (
            "s1",
            "end_by_signal",
            "the process that makes the namespace of s1 was killed by signal 15",
        ),
    ],
)
def test_a_namespace_that_cannot_be_made_is_named(spawner, build, monkeypatch, node, target, words):
    started = spawner.spawn

    def spawn(key: str, wanted: str, *arguments: object, **options: object) -> object:
        bad = f"p4fabric_testing.children:{target}"
        return started(key, bad if key == f"{node}-net" else wanted, *arguments, **options)

    monkeypatch.setattr(spawner, "spawn", spawn)
    with pytest.raises(RunError, match=words):
        build(star(hosts=2))
