"""Hosts that speak the UDP packets of SwitchML's published program.

A worker has `TOTAL` values. It sends a chunk of them in each slot, and the slot's next one when
the sum has come, in the slot's other set. It sends again what has no answer for a while. At the end
it compares all sums with those that it computes itself.
"""

import struct

import numpy as np

WORKERS = 4
TOTAL = 1_000_000
SLOTS = 64
PORT = 0xBEE0  # of UDP, the first of 16
JOB = 1
EXPONENTS = 3, 1  # which the program carries from workers to all
HEADERS = 14 + 20 + 8 + 8 + 2  # Ethernet, IPv4, UDP, SwitchML's own, exponents


def values_of(worker, count):
    """The values of a worker: their sum over all workers does not overflow."""
    return np.random.default_rng(worker).integers(0, 2**29, count, dtype=np.uint32)


class Worker:
    """A worker whose packets have `VALUES` values."""

    VALUES, SIZE_CODE = 64, 1  # 256 B
    TIMEOUT_NS = 100_000

    def __init__(self, host):
        self.host = host
        self.number = int(host.name[1:]) - 1
        self.chunks = -(-TOTAL // self.VALUES)
        self.values = values_of(self.number, self.chunks * self.VALUES)
        self.sums = np.zeros(self.values.size, np.uint32)
        self.summed = np.zeros(self.chunks, bool)
        self.waiting = {}  # by slot: its chunk, and when it was sent
        self.sent = self.again = 0
        self.end_ns = 0
        self.ethernet = bytes.fromhex("0200000000ff" + host.mac.replace(":", "")) + b"\x08\x00"

    def start(self, now_ns):
        for chunk in range(min(SLOTS, self.chunks)):
            self.give(chunk, now_ns)
        self.host.set_timer(now_ns + self.TIMEOUT_NS)

    def give(self, chunk, now_ns):
        slot, of_two = chunk % SLOTS, chunk // SLOTS % 2
        own = self.values[chunk * self.VALUES : (chunk + 1) * self.VALUES]
        head = struct.pack("!BBIH", self.SIZE_CODE, JOB, chunk, slot | of_two << 15)
        data = head + struct.pack("!bb", *EXPONENTS) + own.astype(">u4").tobytes()
        transport = struct.pack("!HHHH", 40_000 + self.number, PORT, 8 + len(data), 0)
        ends = bytes([10, 0, 0, self.number]) + bytes([10, 0, 0, 99])
        network = struct.pack("!BBHIBBH", 0x45, 0, 28 + len(data), 0, 64, 17, 0) + ends
        self.host.send(self.ethernet + network + transport + data)
        self.sent += 1
        self.waiting[slot] = chunk, now_ns

    def receive(self, now_ns, frame):
        if frame[12:14] != b"\x08\x00":
            return  # of the host's kernel
        chunk, pool = struct.unpack_from("!IH", frame, HEADERS - 8)
        slot = pool & 0x7FFF
        if self.waiting.get(slot, (None,))[0] != chunk:
            return  # a copy
        place = slice(chunk * self.VALUES, (chunk + 1) * self.VALUES)
        self.sums[place] = np.frombuffer(frame, ">u4", self.VALUES, HEADERS)
        self.summed[chunk] = True
        del self.waiting[slot]
        if chunk + SLOTS < self.chunks:
            self.give(chunk + SLOTS, now_ns)
        elif not self.waiting:
            self.end_ns = now_ns

    @property
    def done(self):
        return self.end_ns > 0

    def timer(self, now_ns):
        for chunk, sent_ns in [*self.waiting.values()]:
            if now_ns - sent_ns >= self.TIMEOUT_NS:
                self.give(chunk, now_ns)
                self.again += 1
        if self.waiting:
            self.host.set_timer(now_ns + self.TIMEOUT_NS // 4)

    def results(self):
        wanted = sum(values_of(each, self.values.size) for each in range(WORKERS))
        exact = bool(self.summed.all() and (self.sums == wanted).all())
        took_us = self.end_ns / 1000
        return {"exact": exact, "sent": self.sent, "again": self.again, "end_us": took_us}


class LargeWorker(Worker):
    """The same with packets of 1,024 B, which the program takes by recirculation."""

    VALUES, SIZE_CODE = 256, 3
