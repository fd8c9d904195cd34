"""A worker of the assignment, run in a host: sends its numbers chunk by chunk, and writes the sums.

    python3 worker.py RANK LEVEL CHUNKS FILE

LEVEL 1: messages in Ethernet frames; 2: in UDP datagrams; 3: the same, and what has no answer after
100 ms is sent again. FILE gets a line for each chunk, `CHUNK SUM SUM ...`. Exit code 1: no answer.
"""

from __future__ import annotations

import random
import socket
import struct
import sys

VALUES, PORT, CARRIER = 8, 4242, 0x88B5
NUMBERS, SUMS = 1, 2
SWITCH_MAC, SWITCH_IP = bytes.fromhex("020000000064"), "10.0.1.100"
WAIT_S, AGAIN_S, TRIES = 10.0, 0.1, 100
MESSAGE = struct.Struct(f"!BBH{VALUES}I")


def numbers_of(rank, chunk):
    """The numbers of a worker in a chunk; everybody can work out everybody's."""
    drawn = random.Random(f"{rank} {chunk}")
    return [drawn.randrange(1 << 30) for _ in range(VALUES)]


class Frames:
    """Level 1: the message is behind the Ethernet header."""

    def __init__(self, interface="eth0"):
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(CARRIER))
        self.socket.bind((interface, CARRIER))
        self.header = SWITCH_MAC + self.socket.getsockname()[4] + struct.pack("!H", CARRIER)

    def send(self, message):
        self.socket.send(self.header + message)

    def receive(self):
        return self.socket.recv(2048)[len(self.header) :]


class Datagrams:
    """Levels 2 and 3. The kernel asks for the switch's address by ARP, and the switch answers."""

    def __init__(self):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("", PORT))

    def send(self, message):
        self.socket.sendto(message, (SWITCH_IP, PORT))

    def receive(self):
        return self.socket.recv(2048)


def sums_of(link, rank, chunk, reliable):
    """Sends a chunk's numbers, and waits for its sums."""
    message = MESSAGE.pack(NUMBERS, rank, chunk, *numbers_of(rank, chunk))
    link.socket.settimeout(AGAIN_S if reliable else WAIT_S)
    for _ in range(TRIES if reliable else 1):
        link.send(message)
        try:
            while True:
                code, _, number, *sums = MESSAGE.unpack_from(link.receive())
                if (code, number) == (SUMS, chunk):
                    return sums
        except TimeoutError:
            continue
    sys.exit(f"rank {rank}: no sums of chunk {chunk}")


def main(rank, level, chunks, file):
    link = Frames() if level == 1 else Datagrams()
    with open(file, "w") as results:
        for chunk in range(chunks):
            print(chunk, *sums_of(link, rank, chunk, reliable=level == 3), file=results)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]), sys.argv[4])
