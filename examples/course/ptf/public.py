"""The assignment's public tests, for PTF: what a student sees before handing in."""

from __future__ import annotations

import random
import struct

import ptf
from ptf import testutils
from ptf.base_tests import BaseTest
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.l2 import ARP, Ether
from scapy.packet import Raw

WORKERS, VALUES, PORT = 4, 8, 4242
NUMBERS, SUMS = 1, 2
SWITCH_MAC, SWITCH_IP = "02:00:00:00:00:64", "10.0.1.100"


def mac(worker):
    return f"02:00:00:00:00:{worker + 1:02x}"


def address(worker):
    return f"10.0.1.{worker + 1}"


def message(code, worker, chunk, numbers):
    return struct.pack("!BBH8I", code, worker, chunk, *numbers)


class Assignment(BaseTest):
    """Ports 1 to 4 lead to workers 0 to 3. A test has a chunk that no other one uses."""

    chunks = iter(random.sample(range(256), 256))

    def setUp(self):
        super().setUp()
        self.dataplane = ptf.dataplane_instance
        self.dataplane.flush()
        self.chunk = next(self.chunks)
        self.draw()

    def draw(self):
        self.numbers = [random.choices(range(1 << 30), k=VALUES) for _ in range(WORKERS)]
        self.sums = [sum(column) for column in zip(*self.numbers, strict=True)]

    def packet(self, worker, layer=None, code=NUMBERS, chunk=None, number=None):
        named = worker if number is None else number
        at = self.chunk if chunk is None else chunk
        return (
            Ether(src=mac(worker), dst=SWITCH_MAC)
            / IP(src=address(worker), dst=SWITCH_IP)
            / (layer or UDP(sport=PORT, dport=PORT, chksum=0))
            / Raw(message(code, named, at, self.numbers[worker]))
        )

    def result(self, worker, chunk=None):
        at = self.chunk if chunk is None else chunk
        return (
            Ether(src=SWITCH_MAC, dst=mac(worker))
            / IP(src=SWITCH_IP, dst=address(worker))
            / UDP(sport=PORT, dport=PORT, chksum=0)
            / Raw(message(SUMS, worker, at, self.sums))
        )

    def send(self, worker, **other):
        testutils.send_packet(self, worker + 1, self.packet(worker, **other))

    def nothing(self):
        testutils.verify_no_other_packets(self)

    def everybody_has_it(self, chunk=None):
        for worker in range(WORKERS):
            testutils.verify_packet(self, self.result(worker, chunk), worker + 1)
        self.nothing()


class SumOfFour(Assignment):
    def runTest(self):
        for worker in random.sample(range(WORKERS), WORKERS):
            self.nothing()
            self.send(worker)
        self.everybody_has_it()


class TwoChunks(Assignment):
    """Two sums at a time do not mix."""

    def runTest(self):
        other = next(self.chunks)
        for worker in range(WORKERS - 1):
            self.send(worker)
            self.send(worker, chunk=other)
        self.nothing()
        self.send(WORKERS - 1)
        self.everybody_has_it()
        self.send(WORKERS - 1, chunk=other)
        self.everybody_has_it(other)


class AskedForByArp(Assignment):
    """The switch answers in the place of the address that is asked for."""

    def runTest(self):
        asked = ARP(op=1, hwsrc=mac(0), psrc=address(0), pdst=SWITCH_IP)
        testutils.send_packet(self, 1, Ether(src=mac(0), dst="ff:ff:ff:ff:ff:ff") / asked)
        told = ARP(op=2, hwsrc=SWITCH_MAC, psrc=SWITCH_IP, hwdst=mac(0), pdst=address(0))
        testutils.verify_packet(self, Ether(src=SWITCH_MAC, dst=mac(0)) / told, 1)
        self.nothing()


class TcpOnTheSamePort(Assignment):
    def runTest(self):
        for worker in range(WORKERS):
            self.send(worker, layer=TCP(sport=PORT, dport=PORT))
        self.nothing()
