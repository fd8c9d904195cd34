"""The kernel's queueing for links with BMv2, and its reports of them: without BMv2, in a namespace
of a child process."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from testbed.bmv2.link_queues import qdiscs
from testbed.bmv2.ports import interface_counters, queue_drops, socket_drops
from testbed.experiment import load_text
from testbed.schemes import platform_of
from tests.support.experiments import BASE
from tests.support.paths import ROOT

FRAMES = 300
# A pair of interfaces, as those of a host and its switch, and a socket with little room that is
# read only at the end: what BMv2 is when it is too slow.
CHILD = """
import json, socket, subprocess, sys
from pathlib import Path
from p4fabric.base.linux import kernel

kernel.unshare(kernel.CLONE_NEWNET)
Path("/proc/sys/net/ipv6/conf/default/disable_ipv6").write_text("1")
names = "h1-eth0", "s1-eth1"
words = ["ip", "link", "add", names[0], "type", "veth", "peer", "name", names[1]]
subprocess.run(words, check=True)
kernel.set_interfaces_up(list(names))
kernel.wait_running(list(names), 5)
lines = json.loads(sys.argv[1])
if lines:
    subprocess.run(["tc", "-batch", "-"], input="\\n".join(lines), text=True, check=True)
out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
out.bind((names[0], 0))
slow = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, int(sys.argv[2]))
slow.bind((names[1], 0))
for _ in range(int(sys.argv[3])):
    try:
        out.send(b"\\xff" * 12 + b"\\x88\\xb5" + bytes(312))
    except OSError:
        pass  # the queue was full
print("sent", flush=True)
input()
slow.setblocking(False)
taken = 0
while True:
    try:
        slow.recv(2048)
    except BlockingIOError:
        break
    taken += 1
print(taken, flush=True)
input()
"""


class Child:
    """The process above."""

    def __init__(self, lines: list[str], room: int) -> None:
        words = [sys.executable, "-c", CHILD, json.dumps(lines), str(room), str(FRAMES)]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True, cwd=ROOT)
        self.pid = self.process.pid
        assert self.line() == "sent"

    def line(self) -> str:
        return self.process.stdout.readline().strip()

    def taken(self) -> int:
        """Frames that were still in the slow socket."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return int(self.line())

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait(10)
        self.process.stdout.close()


@pytest.fixture
def start() -> Iterator[Callable[[list[str], int], Child]]:
    children: list[Child] = []

    def start(lines: list[str], room: int) -> Child:
        children.append(Child(lines, room))
        return children[-1]

    yield start
    for child in children:
        child.close()


def test_drops_of_a_socket_are_visible_from_outside(start):
    child = start([], 10_000)
    dropped = socket_drops(child.pid)
    assert dropped["s1-eth1"] > 0
    assert socket_drops(child.pid)["s1-eth1"] == 0  # since the last call
    assert child.taken() + dropped["s1-eth1"] == FRAMES
    counters = interface_counters(child.pid)
    assert counters["s1-eth1"]["received"] == counters["h1-eth0"]["sent"] == FRAMES
    assert (
        counters["s1-eth1"]["received_bytes"] == counters["h1-eth0"]["sent_bytes"] == FRAMES * 326
    )
    assert counters["h1-eth0"]["drops"] == 0


def test_a_full_host_queue_drops(start):
    links = "bandwidth: 1 Mbit/s\n  queue: 20 packets"
    text = BASE.replace("bandwidth: 100 Mbit/s\n  delay: 10 us", links) + "switch: bmv2\n"
    lines = qdiscs(platform_of(load_text(text)))["h1"]
    child = start(lines, 1 << 20)
    deadline = time.monotonic() + 10
    while True:  # until the queue is empty
        sent = interface_counters(child.pid)["h1-eth0"]["sent"]
        if sent + queue_drops(child.pid, "h1-eth0") == FRAMES:
            break
        assert time.monotonic() < deadline, sent
        time.sleep(0.02)
    # What the queue holds and what HTB lets through while the frames come, which is soon.
    assert 21 <= sent < FRAMES // 2
    assert child.taken() == sent and socket_drops(child.pid)["s1-eth1"] == 0
