"""Both ends of background flows, over the loopback interface and without a runner's processes."""

from __future__ import annotations

import json
import socket
import threading
import time

import pytest

from testbed.network import flow_process

FLOW = {
    "number": 0, "kind": "tcp", "rate_bps": None, "packet_bytes": 1000, "start_ns": 0,
    "end_ns": None, "on_ns": None, "off_ns": None, "burst_bytes": None, "every_ns": None,
    "congestion_control": "reno",
}  # fmt: skip
CBR = FLOW | {"kind": "cbr", "rate_bps": 4_000_000}


@pytest.fixture
def port(monkeypatch):
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    monkeypatch.setattr(flow_process, "PORT", port)
    return port


class End:
    """One end of a flow in a thread, and the runner's end of the talk."""

    def __init__(self, flow, end):
        self.channel, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.channel.settimeout(20)
        arguments = {"flow": flow, "end": end, "address": "127.0.0.1"}
        self.thread = threading.Thread(
            target=flow_process.run, args=(arguments, [other.detach()]), daemon=True
        )
        self.thread.start()

    def hear(self):
        return json.loads(self.channel.recv(1 << 16))

    def say(self, **message):
        self.channel.send(json.dumps(message).encode())

    def stop(self):
        self.say(stop=True)
        heard = self.hear()
        self.channel.close()
        self.thread.join(20)
        assert not self.thread.is_alive()
        return heard


def carried(flow, lasts_s=0.3):
    """What both ends say in the end."""
    ends = [End(flow, "receiver"), End(flow, "sender")]
    for end in ends:
        assert end.hear() == {"ready": True}
    start_ns = time.monotonic_ns()
    for end in ends:
        end.say(start_ns=start_ns)
    time.sleep(lasts_s)
    sender = ends[1].stop()
    time.sleep(0.3)
    return sender["done"], ends[0].stop()["done"], (time.monotonic_ns() - start_ns) / 1e9


def test_what_is_sent_at_a_constant_rate_arrives(port):
    sent, received, took_s = carried(CBR)
    packets = sent["packets_sent"]
    size = 1000 - flow_process.UDP_HEADERS
    assert received == {"packets_received": packets, "bytes": packets * size}
    assert 1 < packets <= 1 + took_s * 4_000_000 / 8000


def test_packets_end_when_the_flow_does(port):
    sent, _, _ = carried(CBR | {"end_ns": 100_000_000}, 0.8)
    assert sent["packets_sent"] == 51  # of 2 ms each, and one at the beginning
    sent, _, _ = carried(CBR | {"on_ns": 10_000_000, "off_ns": 10**12}, 0.5)
    assert sent["packets_sent"] == 5


def test_a_stream_carries_what_goes(port):
    sent, received, _ = carried(FLOW)
    assert set(sent) == {"lost"} and received["bytes"] > 100_000


def test_bursts_are_answered_and_timed(port):
    flow = FLOW | {"burst_bytes": 50_000, "every_ns": 50_000_000, "end_ns": 180_000_000}
    sent, received, _ = carried(flow, 0.8)
    assert 1 <= len(sent["bursts"]) <= 4 and all(0 < each < 10**10 for each in sent["bursts"])
    assert received["bytes"] == 50_000 * len(sent["bursts"])


def test_a_sender_without_a_receiver_says_so(port, monkeypatch):
    monkeypatch.setattr(flow_process, "CONNECT_S", 0)
    sender = End(FLOW, "sender")
    assert sender.hear()["failed"].startswith("sender: ")
    sender.thread.join(20)


def test_an_end_that_is_stopped_before_the_start_has_done_nothing(port):
    receiver = End(CBR, "receiver")
    assert receiver.hear() == {"ready": True}
    assert receiver.stop()["done"] == {}


@pytest.mark.parametrize("due, sent, late", [(64, 0, False), (65, 0, True), (0, 100, False)])
def test_a_few_packets_are_not_late(due, sent, late):
    assert flow_process._late(due, sent) == late
