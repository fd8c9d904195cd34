"""Packets of a host that is in no job, which claim to be a job's, and a program that floods with
them."""

from __future__ import annotations

from collections.abc import Sequence

from p4fabric.base.topology import host_ip, switch_ip

from testbed.dissect import Ina
from testbed.protocols import wire
from tests.support.fabric import udp_frame

WITH_SERVER = ("esa", "atp", "ps", "grid")

# Sends the frames of a file over and over until it is ended, when others leave it time.
SENDER = """
import os, socket, sys
os.nice(19)
frames = [bytes.fromhex(line) for line in open(sys.argv[1])]
(name,) = [name for _, name in socket.if_nameindex() if name != "lo"]
out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
out.bind((name, 0))
print("ready", flush=True)
while True:
    for frame in frames:
        try:
            out.send(frame)
        except OSError:
            pass
"""


def frames(
    system: str, workers: Sequence[int], server: int, values: int = 16, job: int = 0
) -> list[bytes]:
    """Gradients of every worker and results, early, due and late, with other values.

    workers, server: the numbers of the job's hosts. values: in a packet."""
    made = []
    to_server = host_ip(server) if system in WITH_SERVER else switch_ip(1)
    every = (1 << len(workers)) - 1
    for fragment in (*range(50), 1000, 2**31):
        for number, host in enumerate(workers):
            parts = {
                "job": job,
                "fragment_number": fragment,
                "index": fragment,
                "priority": 255,
                "values": [7] * values,
            }
            gradient = Ina(kind=wire.GRADIENT, sender=number, bitmap=1 << number, **parts)
            result = Ina(kind=wire.RESULT_ONE, sender=0x4000, bitmap=every, **parts)
            made.append(udp_frame(host_ip(host), to_server, bytes(gradient)))
            made.append(udp_frame(to_server, host_ip(host), bytes(result)))
    return made
