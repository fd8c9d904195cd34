"""What lab 1 must do: forward along routes, and read a packet's path in the trace."""

from __future__ import annotations

import re

from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Packet

from testbed.labs.grader.bench import Bench, Failure, Switch
from testbed.labs.grader.lab import Lab
from testbed.labs.grader.packets import SWITCH_MAC, as_number, host_mac

LAB = Lab(
    title="Forwarding, and a packet's path",
    hand_in=("forward.p4", "answers.txt"),
    given=("maze.p4",),
    program="forward.p4",
)
MAZE = ("010000", "031500", "020800", "020000", "011f02", "040bfe")
TABLES = ("hall", "garden", "gate")


def start(t: Bench) -> Switch:
    """Networks 10.n.0.0/16 behind ports 1 to 4, each with its router `host_mac(n)`."""
    switch = t.switch()
    switch.table_set_default("node", "set_node", [as_number(SWITCH_MAC)])
    for n in range(1, 5):
        route(switch, f"10.{n}.0.0", 16, n)
    return switch


def route(switch: Switch, network: str, length: int, port: int, router: int = 0) -> None:
    hop = as_number(host_mac(router or port))
    switch.table_add("route", "forward", [(as_number(network), length)], [port, hop])


def address(t: Bench, network: int) -> str:
    return f"10.{network}.{t.random.randrange(1, 255)}.{t.random.randrange(1, 255)}"


def packet(t: Bench, destination: str, ttl: int = 0, size: int = 30) -> Packet:
    """From a host behind port 4, as its router hands it to the switch."""
    ttl = ttl or t.random.randrange(2, 256)
    body = UDP(sport=t.random.randrange(1024, 65536), dport=9) / t.random.randbytes(size)
    return (
        Ether(src=host_mac(4), dst=SWITCH_MAC) / IP(src="10.4.0.4", dst=destination, ttl=ttl) / body
    )


def forwarded(frame: Packet, router: int) -> Packet:
    """How a packet must leave."""
    made = Ether(bytes(frame))
    made.src, made.dst = SWITCH_MAC, host_mac(router)
    made[IP].ttl -= 1
    del made[IP].chksum
    return made


@LAB.check(15, "A packet leaves on the port of its route, addressed to the next hop")
def ports(t: Bench) -> None:
    switch = start(t)
    for n in t.random.sample(range(1, 4), 3):
        frame = packet(t, address(t, n))
        why = f"the route to 10.{n}.0.0/16 leads to port {n}, from the switch's address"
        switch.expect(4, frame, {n: forwarded(frame, n)}, why, only=["Ether"])


@LAB.check(10, "The most specific route wins")
def longest(t: Bench) -> None:
    switch = start(t)
    route(switch, "10.2.128.0", 17, 5)
    route(switch, "10.2.128.7", 32, 6)
    route(switch, "0.0.0.0", 0, 7)
    for destination, port in (
        ("10.2.1.1", 2),
        ("10.2.129.7", 5),
        ("10.2.128.7", 6),
        ("192.168.0.1", 7),
    ):
        frame = packet(t, destination)
        why = f"the longest of the prefixes that fit {destination} leads to port {port}"
        switch.expect(4, frame, {port: forwarded(frame, port)}, why, only=["Ether.type"])


@LAB.check(10, "The TTL becomes smaller by one")
def ttl(t: Bench) -> None:
    switch = start(t)
    for value in (255, 64, 2):
        frame = packet(t, address(t, 1), value)
        switch.expect_one(4, frame, forwarded(frame, 1), "each hop takes one", only=["IP.ttl"])


@LAB.check(10, "A packet at the end of its TTL is dropped")
def expired(t: Bench) -> None:
    switch = start(t)
    for value in (1, 0):
        frame = packet(t, address(t, 1))
        frame[IP].ttl = value
        switch.expect(4, frame, {}, f"a packet with TTL {value} may not be forwarded")
    frame = packet(t, address(t, 1), 2)
    why = "a packet with TTL 2 may be forwarded once more"
    switch.expect_one(4, frame, forwarded(frame, 1), why, only=["IP.dst"])


@LAB.check(10, "The checksum of the IPv4 header is right")
def checksum(t: Bench) -> None:
    switch = start(t)
    for _ in range(5):
        frame = packet(t, address(t, t.random.randrange(1, 4)))
        switch.send(4, frame)
        for _, data in switch.send(4, frame):
            right, got = Ether(data), Ether(data)[IP].chksum
            del right[IP].chksum
            wanted = Ether(bytes(right))[IP].chksum
            if got != wanted:
                text = f"the header that leaves has checksum 0x{got:04x}, not 0x{wanted:04x}"
                raise Failure(text, sent=(4, bytes(frame)), got=[(0, data)])
            break
        else:
            raise Failure("nothing left the switch", sent=(4, bytes(frame)), got=[])


@LAB.check(5, "Packets without a route, and packets that are not IPv4, are dropped")
def dropped(t: Bench) -> None:
    switch = start(t)
    switch.expect(4, packet(t, "172.16.0.1"), {}, "there is no route to 172.16.0.1")
    other = Ether(src=host_mac(4), dst=SWITCH_MAC, type=0x88B5) / bytes(40)
    switch.expect(4, other, {}, "ethertype 0x88B5 is not IPv4")


@LAB.check(5, "Nothing else of the packet changes")
def payload(t: Bench) -> None:
    switch = start(t)
    for size in (0, 1, 600):
        frame = packet(t, address(t, 3), size=size)
        want = forwarded(frame, 3)
        why = "the payload and the rest of the IPv4 header stay as they are"
        ignore = ["Ether.src", "Ether.dst", "IP.ttl", "IP.chksum"]
        switch.expect_one(4, frame, want, why, ignore=ignore)
        (_, data), *_ = switch.send(4, frame)
        if data[34:] != bytes(want)[34:]:
            raise Failure(why, sent=(4, bytes(frame)), expected=[(3, bytes(want))], got=[(3, data)])


def truth(t: Bench, switch: Switch, token: str) -> list[str]:
    """The actions in the order of the tables and the port, from the program's own trace."""
    leaving = switch.send(1, bytes.fromhex(token))
    ran = re.findall(r"action MazeIngress\.(\w+)\(", "\n".join(t.trace_lines))
    t.trace_lines = []
    return [*ran, str(leaving[0][0]) if leaving else "drop"]


@LAB.check(15, "The answers about maze.p4 are right")
def answers(t: Bench) -> None:
    given: dict[str, list[str]] = {}
    for line in t.read("answers.txt").splitlines():
        words = line.partition("#")[0].split()
        given["".join(words[:3]).lower()] = [word.lower() for word in words[3:]]
    switch = t.traced_switch("maze.p4")
    for token in MAZE:
        shown = f"packet {token[:2]} {token[2:4]} {token[4:]}"
        right = truth(t, switch, token)
        answer = given.get(token)
        if answer is None or len(answer) != 4:
            raise Failure(f"{shown}: four answers are needed, behind the packet")
        for name, yours, wanted in zip([*TABLES, "leaves"], answer, right, strict=True):
            if yours != wanted:
                raise Failure(f"{shown}: {name} is not {yours}; follow it in the trace")
