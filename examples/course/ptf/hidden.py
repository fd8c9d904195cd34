"""The assignment's hidden tests, for PTF: what it is graded by beside the public ones."""

from __future__ import annotations

import random

from ptf import testutils
from public import NUMBERS, PORT, SUMS, WORKERS, Assignment
from scapy.layers.inet import UDP


class DuplicatesCountOnce(Assignment):
    def runTest(self):
        for worker in range(WORKERS - 1):
            for _ in range(random.randint(1, 3)):
                self.send(worker)
        self.nothing()
        self.send(WORKERS - 1)
        self.everybody_has_it()


class WhoAsksAgainGetsTheSums(Assignment):
    """A result was lost: the worker that sends again has it, and no other one."""

    def runTest(self):
        for worker in range(WORKERS):
            self.send(worker)
        self.everybody_has_it()
        for worker in random.choices(range(WORKERS), k=3):
            self.send(worker)
            testutils.verify_packet(self, self.result(worker), worker + 1)
            self.nothing()


class AChunkIsUsedAgain(Assignment):
    """256 chunks later a slot's other chunk has ended, and the one before it is free."""

    def runTest(self):
        for chunk in (self.chunk, self.chunk + 256, self.chunk + 512, self.chunk + 768):
            self.draw()
            for worker in random.sample(range(WORKERS), WORKERS):
                self.send(worker, chunk=chunk)
            self.everybody_has_it(chunk)


class WrongPort(Assignment):
    def runTest(self):
        for port in (PORT - 1, PORT + 1, 0, 65535):
            for worker in range(WORKERS):
                self.send(worker, layer=UDP(sport=PORT, dport=port, chksum=0))
        self.nothing()


class InvalidCodes(Assignment):
    """Sums of somebody else are not for the switch, nor is what means nothing."""

    def runTest(self):
        for code in {0, 255, SUMS, *random.choices(range(256), k=8)} - {NUMBERS}:
            for worker in range(WORKERS):
                self.send(worker, code=code)
        self.nothing()


class NoSuchWorker(Assignment):
    def runTest(self):
        for worker in range(WORKERS - 1):
            self.send(worker)
            for number in (WORKERS, 255):
                self.send(worker, number=number)
        self.nothing()
        self.send(WORKERS - 1)
        self.everybody_has_it()


class DamagedHeader(Assignment):
    """A wrong checksum of IPv4: the packet is lost."""

    def runTest(self):
        for worker in range(WORKERS):
            packet = self.packet(worker)
            packet["IP"].chksum = 0x1234
            testutils.send_packet(self, worker + 1, packet)
        self.nothing()
