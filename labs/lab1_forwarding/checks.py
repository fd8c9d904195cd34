"""Checks of lab 1: forward along routes, and read a packet's path in the trace."""

from __future__ import annotations

import re
from dataclasses import dataclass

from scapy.layers.inet import IP
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw

from labs.grader.bench import Bench, Failure, Switch
from labs.grader.lab import Lab
from labs.grader.packets import SWITCH_MAC, as_number, host_mac
from labs.lab1_forwarding import maze

LAB = Lab(
    title="Forwarding, and a packet's path",
    hand_in=("forward.p4", "answers.txt"),
    given=("maze.p4",),
    program="forward.p4",
    personal=maze.files,
)
TABLES = ("hall", "garden", "gate")


@dataclass
class Router:
    """A switch with routes drawn at random.

    Args:
        ways: network, such as "23.107", to (port, number of the next hop's host).
        origin: port of the host that sends to the switch.
    """

    t: Bench
    switch: Switch
    ways: dict[str, tuple[int, int]]
    origin: int

    def network(self) -> str:
        return self.t.random.choice(sorted(self.ways))

    def address(self, network: str) -> str:
        return f"{network}.{self.t.random.randrange(1, 255)}.{self.t.random.randrange(1, 255)}"

    def packet(self, destination: str, ttl: int = 0, size: int = 30) -> Packet:
        """Packet from a host behind port `origin`, as its router hands it to the switch."""
        draw = self.t.random.randrange
        ip = IP(dst=destination, ttl=ttl or draw(2, 256), src=f"192.0.{draw(256)}.{draw(1, 255)}")
        ip.tos, ip.id, ip.flags = draw(256), draw(1 << 16), draw(8)
        ip.frag, ip.proto = draw(1 << 13), draw(256)
        frame = Ether(src=host_mac(self.origin), dst=SWITCH_MAC)
        return frame / ip / Raw(self.t.random.randbytes(size))

    def to(self, network: str, ttl: int = 0, size: int = 30) -> Packet:
        return self.packet(self.address(network), ttl, size)

    def forwarded(self, frame: Packet, hop: int) -> Packet:
        """A packet as it must leave."""
        made = frame.copy()
        made.src, made.dst = SWITCH_MAC, hop_mac(hop)
        made[IP].ttl -= 1
        del made[IP].chksum
        return made

    def onward(self, frame: Packet, network: str) -> Packet:
        return self.forwarded(frame, self.ways[network][1])


def start(t: Bench) -> Router:
    switch = t.switch()
    switch.table_set_default("node", "set_node", [as_number(SWITCH_MAC)])
    *ports, origin = t.random.sample(range(1, 9), 4)
    firsts = t.random.sample(range(11, 120), len(ports))
    networks = [f"{first}.{t.random.randrange(1, 255)}" for first in firsts]
    hops = t.random.sample(range(20, 200), len(ports))
    ways = dict(zip(networks, zip(ports, hops, strict=True), strict=True))
    for network, (port, hop) in ways.items():
        route(switch, f"{network}.0.0", 16, port, hop)
    return Router(t, switch, ways, origin)


def hop_mac(hop: int) -> str:
    """The address of the router that is a next hop."""
    return f"{hop & 0xFE:02x}:{hop ^ 0x55:02x}:{hop:02x}:00:ff:{hop ^ 0xFF:02x}"


def route(switch: Switch, network: str, length: int, port: int, hop: int) -> None:
    mac = as_number(hop_mac(hop))
    switch.table_add("route", "forward", [(as_number(network), length)], [port, mac])


@LAB.check(15, "A packet leaves on the port of its route, addressed to the next hop")
def ports(t: Bench) -> None:
    r = start(t)
    for network, (port, _) in r.ways.items():
        frame = r.to(network)
        why = f"the route to {network}.0.0/16 leads to port {port}, from the switch's address"
        leaving = {port: r.onward(frame, network)}
        r.switch.expect(r.origin, frame, leaving, why, only=["Ether"])
        t.case = "a route back to the port at which the packet comes"
        r.switch.expect(port, frame, leaving, why, only=["Ether"])
        t.case = ""


@LAB.check(10, "The most specific route wins")
def longest(t: Bench) -> None:
    r = start(t)
    network = r.network()
    host = f"{network}.{t.random.randrange(129, 250)}.{t.random.randrange(1, 250)}"
    other, half, one, default = t.random.sample(range(1, 9), 4)
    route(r.switch, f"{network}.128.0", 17, half, 201)
    route(r.switch, host, 32, one, 202)
    route(r.switch, "0.0.0.0", 0, default, 203)
    cases = [
        (f"{network}.{t.random.randrange(128)}.1", r.ways[network][0]),
        (f"{network}.{t.random.randrange(129, 250)}.251", half),
        (host, one),
        (f"192.168.{t.random.randrange(250)}.1", default),
    ]
    t.random.shuffle(cases)
    for destination, port in cases:
        frame = r.packet(destination)
        why = f"the longest of the prefixes that fit {destination} leads to port {port}"
        leaving = {port: r.forwarded(frame, 0)}
        r.switch.expect(r.origin, frame, leaving, why, only=["Ether.type"])


@LAB.check(10, "The TTL becomes smaller by one")
def ttl(t: Bench) -> None:
    r = start(t)
    for value in (255, t.random.randrange(3, 255), 2):
        network = r.network()
        frame = r.to(network, value)
        want = r.onward(frame, network)
        r.switch.expect_one(r.origin, frame, want, "each hop takes one", only=["IP.ttl"])


@LAB.check(10, "A packet at the end of its TTL is dropped")
def expired(t: Bench) -> None:
    r = start(t)
    network = r.network()
    for value in (1, 0):
        t.case = f"TTL {value}"
        frame = r.to(network)
        frame[IP].ttl = value
        r.switch.expect(r.origin, frame, {}, f"a packet with TTL {value} may not be forwarded")
    t.case = "TTL 2"
    frame = r.to(network, 2)
    why = "a packet with TTL 2 may be forwarded once more"
    r.switch.expect_one(r.origin, frame, r.onward(frame, network), why, only=["IP.dst"])


@LAB.check(10, "The checksum of the IPv4 header is right")
def checksum(t: Bench) -> None:
    r = start(t)
    for carry in (False, False, True, True, True):
        network = r.network()
        frame = r.to(network)
        if carry:  # the TTL's byte of the sum is full, so that it carries when the TTL changes
            frame[IP].id, frame[IP].chksum = 0, None
            sum_ = 0xFFFF - IP(bytes(frame[IP])).chksum
            frame[IP].id = (t.random.randrange(0x100) - sum_) % 0xFFFF
        why = "the checksum is that of the header with the smaller TTL"
        want = r.onward(frame, network)
        r.switch.expect_one(r.origin, frame, want, why, only=["IP.chksum"])


@LAB.check(5, "Packets without a route, and packets that are not IPv4, are dropped")
def dropped(t: Bench) -> None:
    r = start(t)
    stranger = f"172.{t.random.randrange(256)}.0.1"
    r.switch.expect(r.origin, r.packet(stranger), {}, f"there is no route to {stranger}")
    for kind in (0x88B5, 0x0806, 0x86DD, *(0x0800 ^ 1 << bit for bit in range(16))):
        other = r.to(r.network())
        other.type = kind
        r.switch.expect(r.origin, other, {}, f"ethertype 0x{kind:04X} is not IPv4")


@LAB.check(5, "Nothing else of the packet changes")
def payload(t: Bench) -> None:
    r = start(t)
    for size in (0, 1, t.random.randrange(100, 1000)):
        network = r.network()
        frame = r.to(network, size=size)
        want = r.onward(frame, network)
        why = "the payload and the rest of the IPv4 header stay as they are"
        ignore = ["Ether.src", "Ether.dst", "IP.ttl", "IP.chksum"]
        r.switch.expect_one(r.origin, frame, want, why, ignore=ignore)
        (port, data), *_ = r.switch.send(r.origin, frame)
        if data[34:] != bytes(want)[34:]:
            expected = [(port, bytes(want))]
            raise Failure(why, sent=(r.origin, bytes(frame)), expected=expected, got=[(port, data)])


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
    for token in (packet.hex() for packet in maze.packets(t.student)):
        shown = f"packet {token[:2]} {token[2:4]} {token[4:]}"
        right = truth(t, switch, token)
        answer = given.get(token)
        if answer is None or len(answer) != 4:
            text = f"{shown}: four answers are needed, behind the packet"
            if answer is None:
                whose = t.student or "a student without a name"
                text += f"; this is the maze of {whose} (labs start 1 FOLDER --student NAME)"
            raise Failure(text, case="an answer is missing, or is about another student's maze")
        for name, yours, wanted in zip([*TABLES, "leaves"], answer, right, strict=True):
            if yours != wanted:
                raise Failure(f"{shown}: {name} is not {yours}; follow it in the trace")
