"""Servers with several hosts: one namespace, in which each host has an interface, and packets
between them take the wire."""

from __future__ import annotations

import subprocess

import pytest
from p4fabric.emulate.mininet_network import Network
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
target, source = sys.argv[1:]
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind((source, 4000))
s.sendto(b"x", (target, 4000))
"""
# A switch between two ports, which sends each packet out of the other one, to the host there.
WIRE = """
import select, socket
ends = []
for name in "s1-eth1", "s1-eth2":
    ends.append(socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)))
    ends[-1].bind((name, 0))
print("listening", flush=True)
while True:
    for end in select.select(ends, [], [])[0]:
        data, address = end.recvfrom(65536)
        if address[2] != 4:  # PACKET_OUTGOING
            place = 1 - ends.index(end)
            ends[place].send(bytes([2, 0, 0, 0, 0, place + 1]) + data[6:])
"""
# Receives a packet on each of two addresses, each of which the other one has sent.
EXCHANGE = """
import socket
ends = []
for address in "10.0.0.1", "10.0.0.2":
    ends.append(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    ends[-1].bind((address, 5000))
    ends[-1].settimeout(10)
ends[0].sendto(b"to 2", ("10.0.0.2", 5000))
ends[1].sendto(b"to 1", ("10.0.0.1", 5000))
print([end.recvfrom(99) for end in ends])
"""
PYTHON = "/usr/bin/python3"


@pytest.fixture
def network(tmp_path):
    spawner = Spawner("switch pool", ["p4fabric.emulate.namespace"], tmp_path / "pool.log")
    made = Network(star(hosts=5, per_server=2), spawner, tmp_path, tmp_path)
    yield made
    made.stop()
    spawner.close()


def sent(network: Network, source: str, target: str, port: int) -> Ether:
    """The packet that comes out of the server n1 by a port of the switch when one of its processes
    sends."""
    capture = network["s1"].popen([PYTHON, "-c", CAPTURE, f"s1-eth{port}"])
    assert capture.stdout.readline() == b"listening\n"
    out, err, code = network["h1"].pexec(PYTHON, "-c", SEND, target, source)
    assert code == 0, err
    packet = Ether(bytes.fromhex(capture.stdout.readline().decode()))
    capture.wait()
    return packet


def test_hosts_of_a_server_share_a_namespace_and_its_name(network):
    pids = {name: holder.pid for name, holder in network.holders.items()}
    assert pids["h1"] == pids["h2"] != pids["h3"] == pids["h4"]
    assert len(set(pids.values())) == 4
    inside = ["nsenter", "-t", str(pids["h2"]), "-n", "-m", "-u"]
    # `getent hosts` would ask for IPv6 addresses, too, and wait for a name server.
    say = "hostname; echo $(ls /sys/class/net); grep -wE 'h4|h5' /etc/hosts; getent ahostsv4 n2"
    done = subprocess.run([*inside, "sh", "-c", say], capture_output=True, text=True)
    name, interfaces, *known = done.stdout.splitlines()
    assert (name, interfaces) == ("n1", "h1-eth0 h2-eth0 lo")
    assert [line.split() for line in known[:2]] == [
        ["10.0.0.4", "h4", "n2"],
        ["10.0.0.5", "h5", "n3"],
    ]
    assert {line.split()[0] for line in known[2:]} == {"10.0.0.3", "10.0.0.4"}


# Source, target, and the port of the switch.
LEAVING = [
    ("10.0.0.1", "10.0.0.99", 1),
    ("10.0.0.2", "10.0.0.99", 2),
    ("10.0.0.1", "10.0.0.2", 1),  # both are the server's
    ("10.0.0.2", "10.0.0.1", 2),
    # Of a socket without an address: by the NIC with the place that the target has.
    ("0.0.0.0", "10.0.0.3", 1),
    ("0.0.0.0", "10.0.0.4", 2),
    ("0.0.0.0", "10.0.0.5", 1),
    ("0.0.0.0", "10.0.0.1", 2),
    ("0.0.0.0", "10.0.0.2", 1),
]


def test_each_rank_has_an_interface_of_its_own(network):
    for source, target, port in LEAVING:
        packet = sent(network, source, target, port)
        assert (packet[IP].src, packet[IP].dst) == (f"10.0.0.{port}", target), source
        assert packet.src == f"02:00:00:00:00:0{port}" and packet[UDP].dport == 4000


def test_ranks_of_a_server_hear_each_other_over_the_wire(network):
    wire = network["s1"].popen([PYTHON, "-c", WIRE])
    assert wire.stdout.readline() == b"listening\n"
    out, err, code = network["h1"].pexec(PYTHON, "-c", EXCHANGE)
    assert code == 0, err
    assert out.strip() == str([(b"to 1", ("10.0.0.2", 5000)), (b"to 2", ("10.0.0.1", 5000))])
    wire.kill()
    wire.wait()
    pid = network.holders["h1"].pid
    count = ["nsenter", "-t", str(pid), "-n", "-m", "cat"]
    counts = [
        subprocess.run(
            [*count, f"/sys/class/net/{name}/statistics/rx_packets"], capture_output=True, text=True
        ).stdout.strip()
        for name in ("lo", "h1-eth0", "h2-eth0")
    ]
    assert counts == ["0", "1", "1"]
    # Only what a rank sends to itself stays inside.
    alone = EXCHANGE.replace('("10.0.0.2", 5000)', "X").replace('("10.0.0.1", 5000)', "Y")
    alone = alone.replace("X", '("10.0.0.1", 5000)').replace("Y", '("10.0.0.2", 5000)')
    assert network["h1"].pexec(PYTHON, "-c", alone)[2] == 0
